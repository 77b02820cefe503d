package roster

import "fmt"

// Reason is why an execution is not running. The set is closed.
type Reason uint8

// The reasons.
const (
	NotLoaded        Reason = iota // the roster has not loaded it
	Ready                          // it is placed with the next decision
	WorkersBusy                    // every worker that accepts work is full
	WorkersCordoned                // every live worker is cordoned or draining
	WorkersStarting                // no live worker has work, for each is starting, being replaced or not open for work yet
	SessionOrder                   // an earlier execution of its session must end first
	SessionWorker                  // its session's worker is busy, starting or cordoned
	SessionUnknown                 // the store is asked which worker its session is bound to
	NoWorkerYet                    // there is no live worker, and the action waits for one
	Settling                       // no live worker is known, and the router has not routed for long enough to be sure
	PoolBroken                     // every worker of the pool is broken
	BackedOff                      // it was taken back several times in a row
	BeingPlaced                    // the store is writing the placement
	OnQueue                        // it is on its worker's queue and not claimed
	TakenBack                      // its placement is being taken back
	IsRunning                      // it runs
	Handed                         // the router has resigned; the next router places it
	StoreAway                      // the store does not answer
	BrokerAway                     // the broker is not connected
	BrokerBlocked                  // the broker accepts no messages for now
	SessionBackedOff               // an earlier execution of its session is backed off
)

var reasonTexts = [...][2]string{
	NotLoaded:       {"not_loaded", "the router has not loaded it: it is not due yet, or other executions are placed before it"},
	Ready:           {"ready", "a worker is free, and it is the next execution to be placed"},
	WorkersBusy:     {"workers_busy", "every worker of the pool that takes work is busy"},
	WorkersCordoned: {"workers_cordoned", "every live worker of the pool is cordoned or draining; uncordon one"},
	WorkersStarting: {"workers_starting", "the pool's workers are starting or being replaced, or do not take work yet"},
	SessionOrder:    {"session_order", "an earlier execution of its session must end first"},
	SessionWorker:   {"session_worker", "the worker that its session is bound to is busy, starting or cordoned"},
	SessionUnknown:  {"session_unknown", "the router is asking the store which worker its session is bound to"},
	NoWorkerYet:     {"no_worker_yet", "the pool has no live worker, and the action lets it wait for one"},
	Settling:        {"settling", "the router knows no live worker of the pool, and has not routed for long enough to be sure that there is none"},
	PoolBroken:      {"pool_broken", "the pool is broken: all its workers fail to start"},
	BackedOff:       {"backed_off", "it was taken back several times in a row, and waits before it is placed again"},
	BeingPlaced:     {"being_placed", "its placement is being written to the store"},
	OnQueue:         {"on_queue", "it is on a worker's queue, and the worker has not claimed it yet"},
	TakenBack:       {"taken_back", "no worker has claimed it, and it is being taken back from its worker's queue"},
	IsRunning:       {"running", "it is running"},
	Handed:          {"handed_over", "this router no longer routes for the pool; the next router places it"},
	StoreAway:       {"store_away", "the store does not answer; nothing is placed until it does, and running executions continue"},
	BrokerAway:      {"broker_away", "the broker is not connected; nothing is placed until it is, and running executions continue"},
	BrokerBlocked:   {"broker_blocked", "the broker accepts no messages (a memory or disk alarm); nothing is placed until it does"},
	SessionBackedOff: {"session_backed_off", "an earlier execution of its session was taken back several times in a row, and waits before it is placed again; " +
		"this one runs after it"},
}

// String is the reason's code.
func (r Reason) String() string {
	if int(r) < len(reasonTexts) {
		return reasonTexts[r][0]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// Sentence is the reason in a sentence, for people.
func (r Reason) Sentence() string {
	if int(r) < len(reasonTexts) {
		return reasonTexts[r][1]
	}
	return r.String()
}

// MarshalText writes the code.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Reasons lists every reason.
func Reasons() []Reason {
	all := make([]Reason, len(reasonTexts))
	for i := range all {
		all[i] = Reason(i)
	}
	return all
}
