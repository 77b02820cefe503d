package link

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/supervisor/part"
	"github.com/troupe-run/troupe/supervisor/router"
)

// outbox is what a pool has to tell the router on another node, one report at a time: while one is under way, the next
// gathers. It is filled while the pool follows, and while a whole report is under way by which it may begin to.
type outbox struct {
	*part.Shared

	link    whole
	mode    *lead.Machine
	halted  *time.Time         // since when a server is away; zero: none is
	entries []wire.PoolEntry   // since the last report
	wake    bool               // work may have become due that no entry names
	parts   [][]wire.PoolEntry // of a whole report, still to be sent
	under   []wire.PoolEntry   // of the report under way
	now     lead.Report        // that the parts are of
	busy    bool
	number  uint64 // of the last report
	waiting int    // executions that wait for a worker, as the router last said
}

// whole is the link, as its outbox sees it: all that a whole report tells, and what becomes of the reports.
type whole interface {
	whole() *router.Report
	changed(change lead.Change)
	drained() bool
}

func (o *outbox) form() *wireForm {
	return &wireForm{cfg: o.Config, world: o.World, halted: !o.halted.IsZero()}
}

// entriesMax bounds what gathers; past it a whole report takes its place.
const entriesMax = 20_000

// reset forgets what was to be told. A report under way is still answered.
func (o *outbox) reset() {
	o.entries, o.wake, o.parts, o.under, o.waiting = nil, false, nil, nil, 0
}

// answered says what became of a report.
type answered struct {
	report lead.Report
	wake   bool // it told of work that may be due
	result wire.PoolReportResult
	err    error
}

// gathers reports whether events are gathered: for the router on another node, or for the whole report by which it may become that.
func (o *outbox) gathers() bool {
	return o.mode.Mode() == lead.Following || o.busy && o.now.Whole
}

// gather notes an event for the next report. Heartbeats go with the next whole one.
func (o *outbox) gather(e roster.Event) {
	if _, wakes := e.(roster.Wake); wakes {
		o.wake = true
	}
	kept := o.entries
	for _, entry := range o.form().encode(o.entries, e)[len(o.entries):] {
		if o.readable(entry) {
			kept = append(kept, entry)
		}
	}
	o.entries = kept
	if len(o.entries) > entriesMax {
		o.entries, o.wake = nil, true
		o.mode.Break()
	}
}

// readable reports whether a peer can read an entry. One that none could is left out: it would hold up all others, and with
// them the workers' place in the router's view. The next whole report says how things stand.
func (o *outbox) readable(e wire.PoolEntry) bool {
	err := wire.CheckEntry(e)
	if err != nil {
		o.Config.Logger.Error("not told to the router, which could not read it", "entry", fmt.Sprintf("%T", e), "error", err)
		o.mode.Break()
	}
	return err == nil
}

// all is everything that a whole report tells over peers.
func (o *outbox) all() []wire.PoolEntry {
	r, form := o.link.whole(), o.form()
	entries := make([]wire.PoolEntry, 0, len(r.Events)+len(r.Delivered))
	for _, e := range r.Events {
		entries = form.encode(entries, e)
	}
	for _, d := range r.Delivered {
		entries = append(entries, wire.PoolPlacement{Placement: d.Placement, Slot: d.Slot})
	}
	return entries
}

// SendReport sends the next report to the router on another node, where one is due and none is under way.
func (l *Link) SendReport() { l.outbox.report() }

// LastReport is the last report of a pool that has no workers any more; nil: nobody is told.
func (l *Link) LastReport() func(context.Context) { return l.outbox.lastReport() }

// report sends the next report, where one is due and none is under way.
func (o *outbox) report() {
	if o.busy || o.Config.Peers == nil || o.mode.Mode() == lead.Alone && o.Draining && !o.link.drained() {
		return
	}
	if len(o.parts) > 0 {
		o.sendPart(false)
		return
	}
	now := o.World.Now()
	r, due := o.mode.Due(now, len(o.entries) > 0 || o.wake)
	if !due {
		return
	}
	if r.Whole {
		o.parts = split(append(o.all(), lasting(o.entries)...))
	} else {
		o.parts = split(o.entries)
	}
	o.entries, o.now = nil, r
	o.mode.Sent(now, r)
	o.sendPart(true)
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
func (o *outbox) sendPart(first bool) {
	o.under, o.parts = o.parts[0], o.parts[1:]
	o.number++
	o.busy = true
	r, last := o.now, len(o.parts) == 0
	report := wire.PoolReport{
		Pool: o.Config.Name, Epoch: r.Epoch, Number: o.number, First: r.Whole && first, Last: r.Whole && last,
		Serves: o.Config.Serves, Wake: o.wake, Entries: o.under,
	}
	o.wake = false
	r.Whole = report.Last // a whole report is taken with its last part
	peers := o.Config.Peers
	o.World.Beside(reportTime, func(ctx context.Context) func() {
		result, err := peers.Report(ctx, r.To, report)
		return func() { o.taken(&answered{report: r, wake: report.Wake, result: result, err: err}) }
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

// taken hears what became of a report.
func (o *outbox) taken(m *answered) {
	n, why := m.news()
	if o.Config.Hooks.Reported != nil {
		o.Config.Hooks.Reported(o.Config.Name, n)
	}
	o.busy = false
	if to, epoch := o.mode.Router(); n != lead.Taken || to != m.report.To || epoch != m.report.Epoch {
		o.keepUntold(m.wake)
	} else {
		o.waiting = int(m.result.Waiting)
	}
	o.under = nil
	o.link.changed(o.mode.Answered(o.World.Now(), m.report, n, why))
	if n == lead.Taken {
		return
	}
	o.World.After(o.mode.Wait(o.World.Now())+time.Millisecond, func() {}) // the flush after it looks
	if o.mode.Mode() == lead.Following {
		o.Config.Peers.Look()
	}
}

// keepUntold keeps what was not taken, or perhaps was, for the whole report that follows. A pool that does not follow has seen
// to it itself.
func (o *outbox) keepUntold(wake bool) {
	left := slices.Clone(o.under)
	for _, part := range o.parts {
		left = append(left, part...)
	}
	o.parts = nil
	o.mode.Break()
	if o.mode.Mode() == lead.Following {
		o.entries, o.wake = append(lasting(left), o.entries...), o.wake || wake
		return
	}
	o.entries, o.wake = nil, false
}

// lastReport is the last report of a pool that has no workers any more; nil: nobody is told.
func (o *outbox) lastReport() func(context.Context) {
	if o.mode.Mode() != lead.Following {
		return nil
	}
	to, epoch := o.mode.Router()
	o.number++
	peers, report := o.Config.Peers, wire.PoolReport{
		Pool: o.Config.Name, Epoch: epoch, Number: o.number, First: true, Last: true, Serves: o.Config.Serves,
		Entries: nil,
	}
	for _, part := range append([][]wire.PoolEntry{o.under}, o.entries) {
		report.Entries = append(report.Entries, lasting(part)...)
	}
	report.Entries = report.Entries[:min(len(report.Entries), wire.EntriesMax)]
	return func(ctx context.Context) {
		if _, err := peers.Report(ctx, to, report); err != nil {
			o.Config.Logger.Debug("router not told of the pool's end, it hears of the node's", "error", err)
		}
	}
}
