package supervisor

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/rules/roster"
)

// sender is another node that reports to this one.
type sender struct {
	heard  time.Time
	number uint64 // of its last report that was taken
	opened bool   // a whole report has begun and has not ended
	whole  bool   // one has ended: its workers are known
}

// reported takes a report of a node that follows this one, and answers it.
func (l *Link) reported(m *PeerReport) wire.PoolReportResult {
	now := l.world.Now()
	s := l.senders[m.From]
	verdict, why := lead.Judge(l.asked(m, s, now))
	if verdict == lead.Taken {
		if report, err := (&wireForm{cfg: l.cfg, world: l.world}).decode(m); err != nil {
			verdict, why = lead.Refused, err.Error()
		} else {
			l.take(m, report, now)
		}
	}
	if verdict == lead.Refused && s != nil {
		l.dropFollower(m.From)
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

func (l *Link) asked(m *PeerReport, s *sender, now time.Time) lead.Asked {
	_, epoch := l.mode.Router()
	a := lead.Asked{
		Mode: l.mode.Mode(), Epoch: epoch, Serves: l.cfg.Serves, Ended: l.router.Ended(m.From) || m.From == l.cfg.Incarnation,
		Report: lead.Heading{
			Epoch: m.Report.Epoch, Number: m.Report.Number, First: m.Report.First, Last: m.Report.Last, Serves: m.Report.Serves,
		},
	}
	if !l.haltedAt.IsZero() && now.Sub(l.haltedAt) >= lead.Patience {
		a.Halted = l.cfg.Halted().Sentence()
	}
	if s != nil {
		a.Known, a.Opened, a.Whole, a.Number = true, s.opened, s.whole, s.number
	}
	return a
}

// take notes that a report has come, and carries it to the router.
func (l *Link) take(m *PeerReport, report *Report, now time.Time) {
	s := l.senders[m.From]
	if s == nil {
		s = &sender{}
		l.senders[m.From] = s
		l.showMode()
	}
	s.heard, s.number = now, m.Report.Number
	s.opened = s.opened || report.First
	if report.Last = report.Last && s.opened; report.Last {
		s.opened, s.whole = false, true
	}
	l.router.Report(m.From, report)
}

// dropFollower takes no reports of a node any more before a whole one.
func (l *Link) dropFollower(inc messages.Incarnation) {
	delete(l.senders, inc)
	l.router.Drop(inc)
	l.showMode()
}

// EndSession has a worker drop a session's state. A word to another node that is lost costs memory there until the worker is
// replaced, and nothing else: epochs tell the runs.
func (l *Link) EndSession(e roster.EndSession) {
	if e.Worker.Incarnation == l.cfg.Incarnation {
		l.workers.EndSession(e.Worker.Slot, e.Session, e.Epoch)
		return
	}
	peers, tell := l.cfg.Peers, wire.EndSession{Pool: l.cfg.Name, Slot: e.Worker.Slot, Session: e.Session, Epoch: e.Epoch}
	l.world.Beside(reportTime, func(ctx context.Context) func() {
		if err := peers.EndSession(ctx, e.Worker.Incarnation, tell); err != nil {
			l.cfg.Logger.Debug("end of a session not told", "session", fmt.Sprint(e.Session), "error", err)
		}
		return nil
	})
}

// endSessionHere has a worker drop a session's state, for the router on another node. From any other node it means that
// somebody has ended the session in the store: whoever routes here reads it there, and tells the worker.
func (l *Link) endSessionHere(m *PeerEndSession) {
	if router, _ := l.mode.Router(); router == m.From && m.From != l.cfg.Incarnation {
		l.workers.EndSession(m.Tell.Slot, m.Tell.Session, m.Tell.Epoch)
		return
	}
	l.router.Doubt(m.Tell.Session)
}
