package actors

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
)

// Info is what the registry shows of one live actor.
type Info struct {
	ID           string               `json:"id"`
	Parent       string               `json:"parent,omitempty"`
	Kind         string               `json:"kind"`
	State        string               `json:"state,omitempty"`
	Health       string               `json:"health,omitempty"`
	Grade        string               `json:"grade,omitempty"`
	Since        time.Time            `json:"since,omitzero"`
	Why          string               `json:"why,omitempty"`
	MailboxDepth int                  `json:"mailbox_depth"`
	Handled      uint64               `json:"handled"`
	Restarts     int                  `json:"restarts"`
	Execution    messages.ExecutionID `json:"execution,omitzero"`
	LastFailure  string               `json:"last_failure,omitempty"`
	// StuckSince is since when it has handled one message while others wait, once that is too long.
	StuckSince time.Time `json:"stuck_since,omitzero"`
}

// Status is the part of Info that an actor says of itself.
type Status struct {
	State, Health, Grade, Why string
	Since                     time.Time
	Restarts                  int
	Execution                 messages.ExecutionID
	LastFailure               string
	Report                    health.Capabilities // of a worker
	Stale                     bool                // of a worker: its heartbeat is too old, as its pool has found
}

// Cell holds an actor's Status. The actor updates it; anybody may read it, also while the actor is stuck, which is
// when people look.
type Cell struct {
	mu     sync.Mutex
	status Status
}

// Update changes the status in place.
func (c *Cell) Update(change func(*Status)) {
	c.mu.Lock()
	change(&c.status)
	c.mu.Unlock()
}

// Read returns the status.
func (c *Cell) Read() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// failuresMax bounds the failures that are remembered of actors that are gone.
const failuresMax = 1024

// Failure is how an actor came to its end.
type Failure struct {
	Actor  string    `json:"actor"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
	Stack  string    `json:"stack,omitempty"`
}

// Registry knows every live actor of one system. Reading it never waits for an actor.
type Registry struct {
	mu       sync.RWMutex
	live     map[string]*entry
	failures map[string]failure
	order    []string // of failures, oldest first
	letters  map[string]int64
	stuck    map[string]time.Time // since when; as the observer saw it last
	keepers  map[string]Keep      // of actors that lose no message over a restart
}

type failure struct {
	at     time.Time
	reason string
	stack  *stack
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	return &Registry{live: map[string]*entry{}, failures: map[string]failure{}, letters: map[string]int64{}, keepers: map[string]Keep{}}
}

func (r *Registry) add(id string, e *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.started = time.Now().UnixNano()
	r.live[id] = e
	if e.keep != nil {
		r.keepers[id] = e.keep
	}
}

// keeper returns what keeps messages for the actor, whether or not it lives now; nil: nothing does.
func (r *Registry) keeper(pid *actor.PID) Keep {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.keepers[pid.GetId()]
}

func (r *Registry) remove(id string, e *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live[id] == e {
		delete(r.live, id)
	}
}

func (r *Registry) failed(id, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := failure{at: time.Now(), reason: reason}
	if e := r.live[id]; e != nil {
		f.stack = e.stack.Load()
	}
	if _, known := r.failures[id]; !known {
		r.order = append(r.order, id)
	}
	r.failures[id] = f
	for len(r.order) > failuresMax {
		delete(r.failures, r.order[0])
		r.order = r.order[1:]
	}
}

// Failure returns how the actor failed last, if it did and is remembered.
func (r *Registry) Failure(id string) (Failure, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	f, ok := r.failures[id]
	if !ok {
		return Failure{}, false
	}
	return Failure{Actor: id, At: f.at, Reason: f.reason, Stack: f.stack.String()}, true
}

func (r *Registry) deadLetter(kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	const kindsMax = 256
	if _, known := r.letters[kind]; known || len(r.letters) < kindsMax {
		r.letters[kind]++
	}
}

// DeadLetters counts the messages that found no actor, by type.
func (r *Registry) DeadLetters() map[string]int64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return maps.Clone(r.letters)
}

// Len is the number of live actors.
func (r *Registry) Len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.live)
}

// Depth is the number of live actors, and of the messages that wait in their mailboxes.
func (r *Registry) Depth() (live, waiting int) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, e := range r.live {
		waiting += e.mailbox.count()
	}
	return len(r.live), waiting
}

// Snapshot returns every live actor, by id.
func (r *Registry) Snapshot() []Info {
	r.mu.RLock()
	infos := make([]Info, 0, len(r.live))
	for id, e := range r.live {
		infos = append(infos, r.info(id, e))
	}
	r.mu.RUnlock()
	slices.SortFunc(infos, func(a, b Info) int { return strings.Compare(a.ID, b.ID) })
	return infos
}

// Get returns one live actor.
func (r *Registry) Get(id string) (Info, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	e, ok := r.live[id]
	if !ok {
		return Info{}, false
	}
	return r.info(id, e), true
}

// info is what is shown of an actor. It runs under mu.
func (r *Registry) info(id string, e *entry) Info {
	s := e.cell.Read()
	if s.Since.IsZero() {
		s.Since = e.since()
	}
	if s.Stale {
		s.Health, s.Grade, s.Why = health.Unhealthy.String(), health.Unhealthy.String(), "its heartbeat is stale"
	}
	return Info{
		ID: id, Parent: e.parent(), Kind: e.kind, State: s.State, Health: s.Health, Grade: s.Grade, Since: s.Since,
		Why: s.Why, MailboxDepth: e.mailbox.count(), Handled: e.handled.Load(), Restarts: s.Restarts,
		Execution: s.Execution, LastFailure: s.LastFailure, StuckSince: r.stuck[id],
	}
}

// unknownTotal counts messages that an actor did not understand, over the process's life.
var unknownTotal atomic.Int64

// Unknown counts a message that the actor's switch has no case for. Lifecycle messages of the library that an actor
// need not know are left alone.
func (r *Registry) Unknown(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *actor.Terminated, *actor.Watch, *actor.Unwatch, *actor.PoisonPill, *actor.DeadLetterResponse:
	default:
		unknownTotal.Add(1)
	}
}

// UnknownTotal is the number of messages that found no case in their actor's switch.
func UnknownTotal() int64 { return unknownTotal.Load() }
