package roster

import (
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
)

// Snapshot is the router's view of its pool, for people and for reconciling with the workers' own.
type Snapshot struct {
	Window int    `json:"window"` // placements dispatched ahead to a healthy worker
	P90    string `json:"p90,omitempty"`
	Free   int    `json:"free"` // placements that the pool can take now

	Held     int `json:"held"`     // due executions that wait here
	Ready    int `json:"ready"`    // of them, for any free worker
	Patient  int `json:"patient"`  // of them, for any worker at all
	Sessions int `json:"sessions"` // sessions with work here
	Bound    int `json:"bound"`    // sessions bound to a worker
	Expired  int `json:"expired"`  // bindings that idled out since the router leads

	Placing int `json:"placing"` // written, published or queued, and unclaimed
	Running int `json:"running"`

	Steady   bool `json:"steady"` // may fail executions for want of workers
	Resigned bool `json:"resigned,omitempty"`
	Loading  bool `json:"loading,omitempty"`
}

// WorkerView is one worker, as its router sees it.
type WorkerView struct {
	Key        messages.WorkerKey   `json:"key"`
	ID         messages.WorkerID    `json:"id"`
	Generation messages.Generation  `json:"generation"`
	Standing   string               `json:"standing"` // working, refusing, cordoned, starting, stale, unhealthy, broken
	Grade      health.Grade         `json:"grade"`
	Depth      int                  `json:"depth"`    // placed and running
	Running    int                  `json:"running"`  // of them
	Capacity   int                  `json:"capacity"` // 1 and the window
	Waiting    int                  `json:"waiting"`  // sessions' executions that wait for this worker
	BeatAt     time.Time            `json:"last_heartbeat,omitzero"`
	Placements []messages.Placement `json:"placements,omitempty"` // written, unclaimed or running, oldest first
}

// WaitsMax bounds the executions that Waits counts.
const WaitsMax = 1000

// Waits says what some of the held executions wait for, at most WaitsMax of them.
type Waits struct {
	Counted    int
	Priorities map[messages.Priority]int
	Reasons    map[Reason]int
}

// Waits counts the held executions by priority and reason. Of more than WaitsMax it counts any.
func (r *Roster) Waits() Waits {
	waits := Waits{Priorities: map[messages.Priority]int{}, Reasons: map[Reason]int{}}
	for _, w := range r.held {
		if waits.Counted == WaitsMax {
			break
		}
		waits.Counted++
		waits.Priorities[w.candidate.Priority]++
		waits.Reasons[r.whyHeld(w)]++
	}
	return waits
}

// Snapshot returns the view of the pool as a whole.
func (r *Roster) Snapshot() Snapshot {
	s := Snapshot{
		Window: r.window, Free: r.free,
		Held: len(r.held), Ready: r.ready.len(), Patient: r.patient.len(), Sessions: len(r.lines),
		Expired: r.expired, Placing: r.unanswered, Running: len(r.flights) - r.unanswered,
		Steady: r.steady, Resigned: r.resigned, Loading: r.loading,
	}
	s.Bound, _ = r.table.Sessions()
	if p90, ok := r.times.p90(); ok {
		s.P90 = p90.String()
	}
	return s
}

// Workers returns the view of each worker, by node, then slot. It costs as much as the pool is large.
func (r *Roster) Workers() []WorkerView {
	views := make([]WorkerView, 0, len(r.workers))
	for _, key := range r.order() {
		views = append(views, r.view(r.workers[key]))
	}
	return views
}

func (r *Roster) view(w *worker) WorkerView {
	v := WorkerView{
		Key: w.seen.Worker, ID: w.seen.ID, Generation: w.seen.Generation,
		Standing: r.judge(w).String(), Grade: r.evaluate(w).Grade, Depth: w.depth, Running: w.running,
		Capacity: r.capacity(w), Waiting: w.parked.len(), BeatAt: w.seen.BeatAt,
	}
	for f := w.flights; f != nil; f = f.next {
		if f.phase != placing {
			v.Placements = append(v.Placements, f.placement)
		}
	}
	slices.Reverse(v.Placements)
	return v
}
