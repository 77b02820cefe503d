package link

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/supervisor/router"
)

// sender is another node that reports to this one.
type sender struct {
	heard  time.Time
	number uint64 // of its last report that was taken
	opened bool   // a whole report has begun and has not ended
	whole  bool   // one has ended: its workers are known
}

// Reported takes a report of a node that follows this one, and answers it.
func (l *Link) Reported(from messages.Incarnation, m *wire.PoolReport) wire.PoolReportResult {
	now := l.World.Now()
	s := l.senders[from]
	verdict, why := lead.Judge(l.asked(from, m, s, now))
	if verdict == lead.Taken {
		if report, err := (&wireForm{cfg: l.Config, world: l.World}).decode(from, m); err != nil {
			verdict, why = lead.Refused, err.Error()
		} else {
			l.take(from, m.Number, report, now)
		}
	}
	if verdict == lead.Refused && s != nil {
		l.dropFollower(from)
	}
	return wire.PoolReportResult{Refused: clip(why), Again: verdict == lead.Failed, Waiting: int32(min(l.router.Waiting(), 1<<30))}
}

// refusalMax bounds the text of a refusal, as the contract does.
const refusalMax = 256

func clip(text string) string {
	if len(text) > refusalMax {
		return text[:refusalMax]
	}
	return text
}

func (l *Link) asked(from messages.Incarnation, m *wire.PoolReport, s *sender, now time.Time) lead.Asked {
	_, epoch := l.mode.Router()
	a := lead.Asked{
		Mode: l.mode.Mode(), Epoch: epoch, Serves: l.Config.Serves, Ended: l.router.Ended(from) || from == l.Config.Incarnation,
		Report: lead.Heading{
			Epoch: m.Epoch, Number: m.Number, First: m.First, Last: m.Last, Serves: m.Serves,
		},
	}
	if !l.haltedAt.IsZero() && now.Sub(l.haltedAt) >= lead.Patience {
		a.Halted = l.Config.Halted().Sentence()
	}
	if s != nil {
		a.Known, a.Opened, a.Whole, a.Number = true, s.opened, s.whole, s.number
	}
	return a
}

// take notes that a report has come, and carries it to the router.
func (l *Link) take(from messages.Incarnation, number uint64, report *router.Report, now time.Time) {
	s := l.senders[from]
	if s == nil {
		s = &sender{}
		l.senders[from] = s
		l.ShowMode()
	}
	s.heard, s.number = now, number
	s.opened = s.opened || report.First
	if report.Last = report.Last && s.opened; report.Last {
		s.opened, s.whole = false, true
	}
	l.router.Report(from, report)
}

// dropFollower takes no reports of a node any more before a whole one.
func (l *Link) dropFollower(inc messages.Incarnation) {
	delete(l.senders, inc)
	l.router.Drop(inc)
	l.ShowMode()
}

// EndSession has a worker drop a session's state. A word to another node that is lost costs memory there until the worker is
// replaced, and nothing else: epochs tell the runs.
func (l *Link) EndSession(e roster.EndSession) {
	if e.Worker.Incarnation == l.Config.Incarnation {
		l.workers.EndSession(e.Worker.Slot, e.Session, e.Epoch)
		return
	}
	peers, tell := l.Config.Peers, wire.EndSession{Pool: l.Config.Name, Slot: e.Worker.Slot, Session: e.Session, Epoch: e.Epoch}
	l.World.Beside(reportTime, func(ctx context.Context) func() {
		if err := peers.EndSession(ctx, e.Worker.Incarnation, tell); err != nil {
			l.Config.Logger.Debug("end of a session not told", "session", fmt.Sprint(e.Session), "error", err)
		}
		return nil
	})
}

// EndSessionHere has a worker drop a session's state, for the router on another node. From any other node it means that
// somebody has ended the session in the store: whoever routes here reads it there, and tells the worker.
func (l *Link) EndSessionHere(from messages.Incarnation, e *wire.EndSession) {
	if router, _ := l.mode.Router(); router == from && from != l.Config.Incarnation {
		l.workers.EndSession(e.Slot, e.Session, e.Epoch)
		return
	}
	l.router.Doubt(e.Session)
}
