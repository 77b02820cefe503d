package supervisor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/rules/roster"
)

// feed is what a pool has to tell the router on another node, one report at a time: while one is under way, the next
// gathers. It is filled while the pool follows, and while a whole report is under way by which it may begin to.
type feed struct {
	entries []wire.PoolEntry   // since the last report
	wake    bool               // work may have become due that no entry names
	parts   [][]wire.PoolEntry // of a whole report, still to be sent
	under   []wire.PoolEntry   // of the report under way
	now     lead.Report        // that the parts are of
	busy    bool
	number  uint64 // of the last report
	waiting int    // executions that wait for a worker, as the router last said
}

// feedMax bounds what gathers; past it a whole report takes its place.
const feedMax = 20_000

// reset forgets what was to be told. A report under way is still answered.
func (f *feed) reset() {
	f.entries, f.wake, f.parts, f.under, f.waiting = nil, false, nil, nil, 0
}

// answered says what became of a report.
type answered struct {
	report lead.Report
	wake   bool // it told of work that may be due
	result wire.PoolReportResult
	err    error
}

// tells hands an event to the router, where another node's is to have it; true: this node's own is not. What the own
// router alone would ask for or settle is dropped.
func (p *Pool) tells(e roster.Event) bool {
	following := p.mode.Mode() == lead.Following
	if !following && !(p.feed.busy && p.feed.now.Whole) {
		return false
	}
	if done, ok := e.(roster.Published); ok && following && !done.OK {
		for _, pl := range done.Placements {
			p.takeBack(pl, "unpublished", 0)
		}
	}
	p.gather(e)
	return following
}

// gather notes an event for the next report. Heartbeats go with the next whole one.
func (p *Pool) gather(e roster.Event) {
	f := &p.feed
	switch e := e.(type) {
	case roster.Wake:
		f.wake = true
	case roster.Arrived:
		for i := range e.Candidates {
			p.enter(candidateEntry(&e.Candidates[i]))
		}
	case roster.WorkerSeen:
		if e.Worker.Incarnation == p.cfg.Incarnation {
			p.enter(p.workerEntry(&e, p.world.Now()))
		}
	default:
		if entry := p.entryOf(e); entry != nil {
			p.enter(entry)
		}
	}
	if len(f.entries) > feedMax {
		f.entries, f.wake = nil, true
		p.mode.Break()
	}
}

// enter adds an entry to the next report. One that no peer could read is left out: it would hold up all others, and with
// them the workers' place in the router's view. The next whole report says how things stand.
func (p *Pool) enter(e wire.PoolEntry) {
	if err := wire.CheckEntry(e); err != nil {
		p.cfg.Logger.Error("not told to the router, which could not read it", "entry", fmt.Sprintf("%T", e), "error", err)
		p.mode.Break()
		return
	}
	p.feed.entries = append(p.feed.entries, e)
}

// all is everything that a whole report tells: the workers, and what is on them.
func (p *Pool) all(now time.Time) []wire.PoolEntry {
	entries := make([]wire.PoolEntry, 0, len(p.slots)+len(p.running)+len(p.held))
	for _, s := range p.slots {
		if s.dead && s.cur == nil {
			continue
		}
		seen := p.standing(s)
		entries = append(entries, p.workerEntry(&seen, now))
	}
	for pl, n := range p.running {
		entries = append(entries, wire.PoolPlacement{Placement: pl, Slot: n, Running: true})
	}
	for pl, h := range p.held {
		entries = append(entries, wire.PoolPlacement{Placement: pl, Slot: h.slot})
	}
	return entries
}

// report sends the next report, where one is due and none is under way.
func (p *Pool) report() {
	f := &p.feed
	if f.busy || p.cfg.Peers == nil || p.mode.Mode() == lead.Alone && p.draining != nil && !p.handedOn() {
		return
	}
	if len(f.parts) > 0 {
		p.sendPart(false)
		return
	}
	now := p.world.Now()
	r, due := p.mode.Due(now, len(f.entries) > 0 || f.wake)
	if !due {
		return
	}
	if r.Whole {
		f.parts = split(append(p.all(now), lasting(f.entries)...))
	} else {
		f.parts = split(f.entries)
	}
	f.entries, f.now = nil, r
	p.mode.Sent(now, r)
	p.sendPart(true)
}

// split cuts entries into reports; there is at least one.
func split(entries []wire.PoolEntry) [][]wire.PoolEntry {
	var parts [][]wire.PoolEntry
	for len(entries) > wire.EntriesMax {
		parts, entries = append(parts, entries[:wire.EntriesMax]), entries[wire.EntriesMax:]
	}
	return append(parts, entries)
}

// lasting are those of the entries that a whole report does not contain anyway, and that may be told twice.
func lasting(entries []wire.PoolEntry) (kept []wire.PoolEntry) {
	for _, e := range entries {
		switch e.(type) {
		case wire.PoolRunEnded, wire.PoolReleased, wire.PoolWithdrawn, wire.PoolCandidate:
			kept = append(kept, e)
		}
	}
	return kept
}

// reportTime bounds one report.
const reportTime = 2 * time.Second

// sendPart sends the first of the parts; first: it is the first of its report.
func (p *Pool) sendPart(first bool) {
	f := &p.feed
	f.under, f.parts = f.parts[0], f.parts[1:]
	f.number++
	f.busy = true
	r, last := f.now, len(f.parts) == 0
	report := wire.PoolReport{
		Pool: p.cfg.Name, Epoch: r.Epoch, Number: f.number, First: r.Whole && first, Last: r.Whole && last,
		Serves: p.cfg.Serves, Wake: f.wake, Entries: f.under,
	}
	f.wake = false
	r.Whole = report.Last // a whole report is taken with its last part
	peers := p.cfg.Peers
	p.world.Beside(reportTime, func(ctx context.Context) func() {
		result, err := peers.Report(ctx, r.To, report)
		return func() { p.answered(&answered{report: r, wake: report.Wake, result: result, err: err}) }
	})
}

// news is what the answer says of the report.
func (m *answered) news() (n lead.News, why string) {
	switch {
	case m.err != nil:
		return lead.Failed, m.err.Error()
	case m.result.Refused != "" && m.result.Again:
		return lead.Failed, m.result.Refused
	case m.result.Refused != "":
		return lead.Refused, m.result.Refused
	}
	return lead.Taken, ""
}

// answered takes what became of a report.
func (p *Pool) answered(m *answered) {
	f := &p.feed
	n, why := m.news()
	if p.cfg.Hooks.Reported != nil {
		p.cfg.Hooks.Reported(p.cfg.Name, n)
	}
	f.busy = false
	if to, epoch := p.mode.Router(); n != lead.Taken || to != m.report.To || epoch != m.report.Epoch {
		p.untold(m.wake)
	} else {
		f.waiting = int(m.result.Waiting)
	}
	f.under = nil
	p.news(p.mode.Answered(p.world.Now(), m.report, n, why))
	if n == lead.Taken {
		return
	}
	p.world.After(p.mode.Wait(p.world.Now())+time.Millisecond, func() {}) // the flush after it looks
	if p.mode.Mode() == lead.Following {
		p.cfg.Peers.Look()
	}
}

// untold keeps what was not taken, or perhaps was, for the whole report that follows. A pool that does not follow has seen
// to it itself.
func (p *Pool) untold(wake bool) {
	f := &p.feed
	left := slices.Clone(f.under)
	for _, part := range f.parts {
		left = append(left, part...)
	}
	f.parts = nil
	p.mode.Break()
	if p.mode.Mode() == lead.Following {
		f.entries, f.wake = append(lasting(left), f.entries...), f.wake || wake
		return
	}
	f.entries, f.wake = nil, false
}

// farewell is the last report of a pool that has no workers any more; nil: nobody is told.
func (p *Pool) farewell() func(context.Context) {
	if p.mode.Mode() != lead.Following {
		return nil
	}
	to, epoch := p.mode.Router()
	p.feed.number++
	peers, report := p.cfg.Peers, wire.PoolReport{
		Pool: p.cfg.Name, Epoch: epoch, Number: p.feed.number, First: true, Last: true, Serves: p.cfg.Serves,
		Entries: nil,
	}
	for _, part := range append([][]wire.PoolEntry{p.feed.under}, p.feed.entries) {
		report.Entries = append(report.Entries, lasting(part)...)
	}
	report.Entries = report.Entries[:min(len(report.Entries), wire.EntriesMax)]
	return func(ctx context.Context) {
		if _, err := peers.Report(ctx, to, report); err != nil {
			p.cfg.Logger.Debug("router not told of the pool's end, it hears of the node's", "error", err)
		}
	}
}

// endSessionHere has a worker drop a session's state, for the router on another node. From any other node it means that
// somebody has ended the session in the store: whoever routes here reads it there, and tells the worker.
func (p *Pool) endSessionHere(m *PeerEndSession) {
	router, _ := p.mode.Router()
	switch {
	case router == m.From && m.From != p.cfg.Incarnation:
		p.endSessionOn(m.Tell.Slot, m.Tell.Session, m.Tell.Epoch)
	case p.mode.Mode() != lead.Following:
		p.step(roster.Doubted{Session: m.Tell.Session})
	}
}

// standsAs says how a placement stands in this pool.
type standsAs uint8

const (
	notHere standsAs = iota
	delivered
	runsHere
)

func (p *Pool) standsHere(pl messages.Placement) standsAs {
	if _, runs := p.running[pl]; runs {
		return runsHere
	}
	if _, held := p.held[pl]; held {
		return delivered
	}
	return notHere
}
