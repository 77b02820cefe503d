package roster

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/placement"
)

// Roster is the state of one pool's router. It is not safe for concurrent use.
type Roster struct {
	config Config
	now    time.Time // of the Step that runs
	out    []Effect

	table   *placement.Table
	workers map[messages.WorkerKey]*worker
	// departed are gone for good, and something placed on them is still unanswered.
	departed map[messages.WorkerKey]*worker
	counts   [standings]int // workers by standing
	beats    beatHeap
	free     int       // placements that the pool can take now
	idle     int       // healthy workers with nothing on them, to which what is offered may be given
	occupied int       // refusing workers with something on them
	window   int       // placements dispatched ahead to a healthy worker
	widened  time.Time // when the window became wider last
	times    runTimes

	held    map[messages.ExecutionID]*waiter
	ready   queue
	patient queue     // waits for any worker to be present
	urgent  []*waiter // of ready: strict_fail, which may have to fail at once
	lines   map[string]*line
	backed  map[messages.ExecutionID]time.Time // taken back, and due again then

	flights               map[messages.ExecutionID]*flight
	firstTimed, lastTimed *flight
	unanswered            int // flights that no worker has claimed
	assigned              []Assignment
	direct                []*batch // of the round, with a direct placement
	rounds                uint64
	again                 bool // the round stopped at its bound
	patientAt             int  // where the next look at the patients goes on

	loading   bool
	paused    bool // until the next Tick, nothing is loaded
	top       bool // the best of the store may be better than what is held
	rest      bool // the store has more behind cursor
	asked     int
	cursor    position
	lastTop   time.Time
	nextAt    time.Time
	settled   map[messages.ExecutionID]struct{} // left the roster while a Load was under way
	landed    landed
	ignored   map[messages.ExecutionID]struct{} // until the next Tick
	refused   map[messages.ExecutionID]struct{} // for their sessions, since the last Tick
	stood     map[messages.ExecutionID]struct{} // refused otherwise, since the last Tick
	wakes     uint64                            // that were heard
	untilWake []messages.ExecutionID            // those of the ignored that a Wake brings back
	resigned  bool
	halted    Reason // why nothing may be placed; Ready or its zero value: it may

	started     bool
	steady      bool
	away        bool // the store is
	steadySince time.Time
	sweepAt     time.Time
	ticked      time.Time
	announced   time.Time
	expired     int // bindings that idled out, ever

	spare      *flight
	spareLines []*line
	// spareBatches never holds more than one for each placement that was ever unanswered at once.
	spareBatches []*batch
}

// position is where a Load goes on.
type position struct {
	priority messages.Priority
	seq      int64
}

// New returns the roster of a pool that it knows nothing of. Its leading starts with the first Step.
func New(c Config) *Roster {
	c = c.withDefaults()
	return &Roster{
		config:   c,
		table:    placement.New(placement.Config{SessionTimeout: c.SessionTimeout, SessionMemory: c.SessionMemory}),
		workers:  map[messages.WorkerKey]*worker{},
		departed: map[messages.WorkerKey]*worker{},
		held:     map[messages.ExecutionID]*waiter{},
		lines:    map[string]*line{},
		backed:   map[messages.ExecutionID]time.Time{},
		flights:  map[messages.ExecutionID]*flight{},
		settled:  map[messages.ExecutionID]struct{}{},
		ignored:  map[messages.ExecutionID]struct{}{},
		stood:    map[messages.ExecutionID]struct{}{},
		refused:  map[messages.ExecutionID]struct{}{},
		top:      true,
	}
}

// order lists the workers in a fixed order: node by node, slot by slot.
func (r *Roster) order() []messages.WorkerKey {
	keys := make([]messages.WorkerKey, 0, len(r.workers))
	for key := range r.workers {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b messages.WorkerKey) int {
		return cmp.Or(bytes.Compare(a.Incarnation[:], b.Incarnation[:]), cmp.Compare(a.Pool, b.Pool),
			cmp.Compare(a.Slot, b.Slot))
	})
	return keys
}
