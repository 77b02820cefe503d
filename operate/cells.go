package operate

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/keyframe"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// Bounds of what is read of a past moment.
const (
	pastEvents      = store.WorkerEventsMax // transitions up to it
	pastEventsAhead = 5000                  // behind it
	pastPages       = 10                    // of the journal
	pastNodes       = 1000
)

// Frame is what this node is now.
func (o *Operator) Frame(ctx context.Context) keyframe.Frame {
	_, cordoned := o.Cordons.Of("")
	f := keyframe.Frame{Node: o.cfg.Name, Cordoned: cordoned}
	f.Pools, f.Mailbox = o.own.ownFrames(ctx)
	return f
}

// ownFrames are this node's pools, by name, and the messages in the fullest mailbox of its actors outside of them.
func (l *local) ownFrames(ctx context.Context) (frames []keyframe.Pool, other int) {
	now, boxes := time.Now(), map[string]int(nil)
	pools := l.cfg.Pools.DescribeAll(ctx)
	if l.cfg.Mailboxes != nil {
		boxes, other = l.cfg.Mailboxes()
	}
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		d := pools[name]
		frames = append(frames, poolFrame(&d, boxes[name], now))
	}
	return frames, other
}

func poolFrame(d *supervisor.Description, mailbox int, now time.Time) keyframe.Pool {
	p := keyframe.Pool{
		Name: d.Name, Runtime: d.Runtime, Broken: d.Broken != "", Cordoned: d.Cordoned, Mode: d.Lead.Mode.String(), Router: d.Lead.Router,
		Epoch: d.Lead.Epoch, Bound: d.Router.Bound, Waiting: d.Router.Held, Mailbox: mailbox,
	}
	for i := range d.Workers {
		w := &d.Workers[i]
		if w.Slot < 0 || w.Slot >= keyframe.SlotsMax {
			continue
		}
		for len(p.Slots) <= int(w.Slot) {
			p.Slots = append(p.Slots, keyframe.Slot{})
		}
		s := keyframe.Slot{Used: true, Generation: w.Generation, State: w.State, Grade: w.Grade, Cordoned: w.Cordoned}
		if !w.Since.IsZero() {
			s.Age = max(now.Sub(w.Since), 0)
		}
		p.Slots[w.Slot] = s
	}
	return p
}

// ownCells are this node's pools with a letter for each worker, by name.
func (l *local) ownCells(ctx context.Context) []keyframe.Cells {
	cells := []keyframe.Cells{}
	frames, _ := l.ownFrames(ctx)
	for i := range frames {
		cells = append(cells, keyframe.CellsOf(&frames[i]))
	}
	return cells
}

// Fleet is what all live nodes and their pools are now, and the nodes that did not answer.
func (f *fleet) Fleet(ctx context.Context) (*keyframe.Fleet, []view.Unreached, error) {
	shares, err := everywhere(ctx, f, "", f.own.ownCells, func(after string) wire.Body { return wire.Cells{After: after} })
	if err != nil {
		return nil, nil, err
	}
	now := &keyframe.Fleet{At: f.cfg.Clock.Now(), Nodes: []keyframe.FleetNode{}, Pools: []keyframe.Cells{}}
	for i := range shares {
		n := &shares[i].node
		now.Nodes = append(now.Nodes, keyframe.FleetNode{
			Incarnation: n.Incarnation, Name: n.Name, Version: n.Version, State: string(n.State), Cordoned: n.Cordoned, StartedAt: n.StartedAt,
		})
		for _, c := range shares[i].items {
			c.Incarnation, c.Node = n.Incarnation, n.Name
			now.Pools = append(now.Pools, c)
		}
	}
	missing := unreached(f, shares)
	now.Partial = len(missing) > 0
	now.Sort()
	return now, missing, nil
}

// FleetAt is what the nodes and their pools were at a time, by what the store has of it.
func (f *fleet) FleetAt(ctx context.Context, at time.Time) (*keyframe.Fleet, error) {
	if shut := f.cfg.Self.Gate(); shut != nil {
		return nil, shut
	}
	rows, err := f.cfg.Store.ListNodes(ctx)
	if err != nil {
		return nil, err
	}
	r := pastReads{store: f.cfg.Store, at: at}
	for _, n := range rows {
		if !n.StartedAt.After(at) && len(r.Nodes) < pastNodes {
			r.Nodes = append(r.Nodes, keyframe.Node{
				Incarnation: n.Incarnation, Name: n.Name, Version: n.Version, StartedAt: n.StartedAt, BeatAt: n.BeatAt, Dead: n.State == store.NodeDead,
			})
		}
	}
	for _, read := range []func(context.Context) error{r.keyframes, r.events, r.entries} {
		if err := read(ctx); err != nil {
			return nil, err
		}
	}
	if f.cfg.Clock.Since(at) < keyframe.Ahead {
		r.After = append(r.After, f.lasting(ctx, r.After)...)
	}
	return keyframe.At(at, &r.Records), nil
}

// lasting are the workers of the live nodes as they are now, as keyframes, but for nodes that have one behind the moment. They say since when
// each worker is as it is. A node that does not answer says nothing.
func (f *fleet) lasting(ctx context.Context, known []keyframe.Stored) (list []keyframe.Stored) {
	shares, err := everywhere(ctx, f, "", func(ctx context.Context) []view.Worker { return f.own.ownWorkers(ctx, "") },
		func(after string) wire.Body { return wire.Workers{After: after} })
	if err != nil {
		return nil
	}
	now := f.cfg.Clock.Now()
	for i := range shares {
		inc := shares[i].node.Incarnation
		if shares[i].err == nil && !slices.ContainsFunc(known, func(s keyframe.Stored) bool { return s.Incarnation == inc }) {
			list = append(list, keyframe.Stored{Incarnation: inc, At: now, Frame: frameOf(shares[i].items)})
		}
	}
	return list
}

// frameOf is a keyframe of the workers that a node shows, by pool. How long they have been as they are is by that node's clock.
func frameOf(workers []view.Worker) *keyframe.Frame {
	frame := &keyframe.Frame{}
	for i := range workers {
		w := &workers[i]
		state, err := lifecycle.ParseState(w.State)
		_, _, slot, ok := w.ID.Split()
		if err != nil || !ok || slot >= keyframe.SlotsMax || w.Since.IsZero() {
			continue
		}
		if last := len(frame.Pools) - 1; last < 0 || frame.Pools[last].Name != w.Pool { // they come by pool
			frame.Pools = append(frame.Pools, keyframe.Pool{Name: w.Pool, Runtime: w.Runtime})
		}
		p := &frame.Pools[len(frame.Pools)-1]
		for len(p.Slots) <= int(slot) {
			p.Slots = append(p.Slots, keyframe.Slot{})
		}
		p.Slots[slot] = keyframe.Slot{Used: true, Generation: w.Generation, State: state, Age: max(w.SeenAt.Sub(w.Since), 0)}
	}
	return frame
}

// pastReads reads what is stored of the time around a moment.
type pastReads struct {
	keyframe.Records
	store Store
	at    time.Time
	from  time.Time // the earliest keyframe before the moment, or an hour before it
}

// next is the earliest time behind the moment: times are stored in microseconds.
func (r *pastReads) next() time.Time { return r.at.Truncate(time.Microsecond).Add(time.Microsecond) }

func (r *pastReads) keyframes(ctx context.Context) (err error) {
	if r.Before, err = r.frames(ctx, store.KeyframeQuery{From: r.at.Add(-keyframe.Back), To: r.next()}); err != nil {
		return err
	}
	if r.After, err = r.frames(ctx, store.KeyframeQuery{From: r.next(), To: r.at.Add(keyframe.Ahead), Oldest: true}); err != nil {
		return err
	}
	r.from = r.at
	for i := range r.Before {
		if at := r.Before[i].At; at.Before(r.from) {
			r.from = at
		}
	}
	if len(r.Before) == 0 {
		r.from = r.at.Add(-keyframe.Back)
	}
	return nil
}

func (r *pastReads) frames(ctx context.Context, q store.KeyframeQuery) (list []keyframe.Stored, err error) {
	stored, err := r.store.ReadKeyframes(ctx, q)
	if len(stored) == store.KeyframesMax {
		r.Notes = append(r.Notes, "there are more nodes than are read for one answer")
	}
	for i := range stored {
		f, err := keyframe.Decode(stored[i].Frame)
		if err != nil {
			r.Notes = append(r.Notes, "the keyframe of "+stored[i].Incarnation.String()+" cannot be read: "+err.Error())
			continue
		}
		list = append(list, keyframe.Stored{Incarnation: stored[i].Incarnation, At: stored[i].At, Frame: f})
	}
	return list, err
}

func (r *pastReads) events(ctx context.Context) error {
	before, err := r.store.WorkerEventsBetween(ctx, store.WorkerEventQuery{From: r.from, To: r.next(), Newest: true, Limit: pastEvents})
	if err != nil {
		return err
	}
	if before.More {
		r.EventsFrom = before.Events[0].At
	}
	after, err := r.store.WorkerEventsBetween(ctx, store.WorkerEventQuery{From: r.next(), To: r.at.Add(keyframe.Ahead), Limit: pastEventsAhead})
	for _, e := range slices.Concat(before.Events, after.Events) {
		r.take(&e)
	}
	return err
}

// take keeps an event whose states are known; those of a later version are not.
func (r *pastReads) take(e *store.WorkerEvent) {
	t := keyframe.Transition{
		Incarnation: e.Key.Incarnation, Pool: e.Key.Pool, Slot: e.Key.Slot, Generation: e.Generation, At: e.At, Lasted: e.Lasted,
	}
	if t.From.UnmarshalText([]byte(e.From)) == nil && t.To.UnmarshalText([]byte(e.To)) == nil {
		r.Events = append(r.Events, t)
	}
}

// entries reads the journal, kind by kind: most entries are of kinds that are not wanted.
func (r *pastReads) entries(ctx context.Context) error {
	for _, one := range []struct {
		kinds []messages.JournalKind
		left  string // what is said where there are more than are read
	}{
		{[]messages.JournalKind{messages.JournalNode, messages.JournalRouter, messages.JournalOperator, messages.JournalGap},
			"there are more entries of the journal than are read for one answer, so older ones are left out"},
		{[]messages.JournalKind{messages.JournalPool},
			"there are more changes of pools' conditions than are read for one answer, so a pool that became broken or recovered early in the time may be shown as it was before"},
	} {
		more, err := r.entriesOf(ctx, one.kinds)
		if err != nil {
			return err
		}
		if more {
			r.Notes = append(r.Notes, one.left)
		}
	}
	slices.SortFunc(r.Entries, func(a, b messages.JournalEntry) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Incarnation.String(), b.Incarnation.String()), cmp.Compare(a.Number, b.Number))
	})
	return nil
}

// entriesOf reads the newest entries of some kinds, and reports whether there are more than it reads.
func (r *pastReads) entriesOf(ctx context.Context, kinds []messages.JournalKind) (more bool, err error) {
	q := store.JournalQuery{Kinds: kinds, From: r.from, To: r.next(), Newest: true, Limit: 1000}
	for range pastPages {
		page, err := r.store.ReadJournal(ctx, q)
		if err != nil {
			return false, err
		}
		r.Entries = append(r.Entries, page.Entries...)
		if q.After = page.Next; q.After.IsZero() {
			return false, nil
		}
	}
	return true, nil
}
