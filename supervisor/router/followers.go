package router

import (
	"maps"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/rules/roster"
)

// follower is one node's workers of the pool, as its reports tell them.
type follower struct {
	workers map[messages.Slot]struct{}
	// waiting are its workers as they were seen last, while it is not settled: they are shown again then.
	waiting map[messages.Slot]roster.WorkerSeen
	opened  bool  // a whole report has begun and has not ended
	shows   shown // by the whole report that has begun, or was last
	missed  map[messages.Placement]struct{}
	unknown bool // it shows a run that the roster does not know
	exact   bool // its reports come in step with its workers
	// settled: what the store has of its workers has been read too, or need not be, and they are placed on.
	settled bool
	reading bool
	readAt  time.Time
}

// shown is what a whole report shows.
type shown struct {
	slots     map[messages.Slot]struct{}
	running   map[messages.Placement]struct{}
	delivered map[messages.Placement]struct{}
}

// standsAs says how a placement stands with a follower.
type standsAs uint8

const (
	notThere standsAs = iota
	delivered
	runsThere
)

func (s *shown) standing(pl messages.Placement) standsAs {
	if _, runs := s.running[pl]; runs {
		return runsThere
	}
	if _, waits := s.delivered[pl]; waits {
		return delivered
	}
	return notThere
}

// newFollower returns one without workers. One whose reports are exact is settled from the start.
func newFollower(exact bool) *follower {
	return &follower{
		workers: map[messages.Slot]struct{}{}, waiting: map[messages.Slot]roster.WorkerSeen{}, exact: exact, settled: exact,
	}
}

// Report takes what a node reports of its workers. The first report of a node makes it a follower.
func (r *Router) Report(from messages.Incarnation, report *Report) {
	f := r.followers[from]
	if f == nil {
		f = newFollower(report.Exact)
		r.followers[from] = f
		r.dropStandIn(from)
	}
	if report.First {
		f.opened, f.unknown = true, false
		f.shows = shown{map[messages.Slot]struct{}{}, map[messages.Placement]struct{}{}, map[messages.Placement]struct{}{}}
	}
	for _, d := range report.Delivered {
		if f.opened {
			f.shows.delivered[d.Placement] = struct{}{}
		}
	}
	for _, e := range report.Events {
		r.take(f, e)
	}
	if report.Last && f.opened {
		r.takeWhole(from, f)
	}
	if report.Wake {
		r.step(roster.Wake{})
	}
}

// Take takes one event of a follower.
func (r *Router) Take(from messages.Incarnation, e roster.Event) {
	if f := r.followers[from]; f != nil {
		r.take(f, e)
	}
}

// TakeClaimed takes the begin of a run of a follower.
func (r *Router) TakeClaimed(from messages.Incarnation, e roster.Claimed) {
	if f := r.followers[from]; f != nil {
		r.take(f, e)
	}
}

// TakeEnded takes the end of a run of a follower.
func (r *Router) TakeEnded(from messages.Incarnation, e roster.Ended) {
	if f := r.followers[from]; f != nil {
		r.take(f, e)
	}
}

func (r *Router) take(f *follower, e roster.Event) {
	switch event := e.(type) {
	case roster.WorkerSeen:
		r.takeWorker(f, &event)
		return
	case roster.WorkerGone:
		if !event.Restarts {
			f.drop(event.Worker.Slot)
		}
	case roster.Claimed:
		if f.opened {
			f.shows.running[event.Placement] = struct{}{}
		}
		f.unknown = f.unknown || !f.exact && !r.roster.Knows(event.Placement)
	}
	r.step(e)
}

// takeWorker brings a follower's worker up to date.
func (r *Router) takeWorker(f *follower, seen *roster.WorkerSeen) {
	n := seen.Worker.Slot
	f.workers[n] = struct{}{}
	if !f.settled {
		f.waiting[n] = *seen
	}
	if f.opened {
		f.shows.slots[n] = struct{}{}
	}
	r.showWorker(f, *seen)
}

// showWorker tells the roster how a follower's worker stands. Before the store has said what stands on it, it takes nothing.
func (r *Router) showWorker(f *follower, seen roster.WorkerSeen) {
	seen.Accepts = seen.Accepts && f.settled
	seen.Direct = seen.Direct && r.Config.Direct
	r.step(seen)
}

// takeWhole compares the view with what the whole report has shown.
func (r *Router) takeWhole(from messages.Incarnation, f *follower) {
	f.opened = false
	var running []messages.Placement
	for _, n := range slotsOf(f.workers) {
		key := r.Config.KeyOf(from, n)
		if _, shown := f.shows.slots[n]; !shown {
			f.drop(n)
			r.step(roster.WorkerGone{Worker: key})
			continue
		}
		running = append(running, r.roster.Running(key)...)
	}
	f.shows.slots = nil
	var ended []messages.Placement
	ended, f.missed = lead.Reconcile(f.shows.running, running, f.missed)
	for _, pl := range ended {
		r.step(roster.Ended{Placement: pl, Unseen: true})
	}
	if !f.settled || f.unknown && r.World.Now().Sub(f.readAt) >= lead.WholeEvery {
		r.readFollower(from, f)
	}
}

// Drop lets the workers of a node that lives go from the view: its own router has them now. To this one they are busy, so
// that what waits for them, and for any worker, waits on.
func (r *Router) Drop(from messages.Incarnation) {
	f := r.followers[from]
	if f == nil {
		return
	}
	delete(r.followers, from)
	known := map[messages.WorkerKey]struct{}{}
	for _, n := range slotsOf(f.workers) {
		key := r.Config.KeyOf(from, n)
		known[key] = struct{}{}
		r.step(roster.WorkerLeft{Worker: key})
	}
	r.remote.workers[from] = known
	r.reloadBound(from)
}

// lose takes the workers of an incarnation that has ended out of the view.
func (r *Router) lose(inc messages.Incarnation) {
	f := r.followers[inc]
	if f == nil {
		return
	}
	delete(r.followers, inc)
	for _, n := range slotsOf(f.workers) {
		r.step(roster.WorkerGone{Worker: r.Config.KeyOf(inc, n)})
	}
}

// follows reports whether a worker is one of a follower's.
func (r *Router) follows(key messages.WorkerKey) bool {
	f := r.followers[key.Incarnation]
	if f == nil {
		return false
	}
	_, known := f.workers[key.Slot]
	return known
}

// exact reports whether an incarnation's reports come in step with its workers: one that they do not show is gone.
func (r *Router) exact(inc messages.Incarnation) bool {
	f := r.followers[inc]
	return f != nil && f.exact
}

// drop forgets a worker that has gone.
func (f *follower) drop(n messages.Slot) {
	delete(f.workers, n)
	delete(f.waiting, n)
}

func slotsOf[V any](workers map[messages.Slot]V) []messages.Slot {
	return slices.Sorted(maps.Keys(workers))
}
