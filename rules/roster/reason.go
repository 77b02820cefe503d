package roster

import "fmt"

// Reason is why an execution is not running. The set is closed.
type Reason uint8

// The reasons.
const (
	NotLoaded        Reason = iota // the roster does not hold it
	Ready                          // it is placed with the next decision
	WorkersBusy                    // every worker that takes work has its fill
	WorkersCordoned                // every live worker is cordoned or draining
	WorkersStarting                // every live worker is starting or being replaced
	SessionOrder                   // an earlier execution of its session goes first
	SessionWorker                  // its session's worker is busy, starting or cordoned
	SessionUnknown                 // the store is asked whom its session is bound to
	NoWorkerYet                    // no worker is there, and the action waits for one
	Settling                       // no worker is known, and the router has not led for long enough to say so
	PoolBroken                     // every worker of the pool is broken
	BackedOff                      // it was taken back too often in a row
	BeingPlaced                    // the store is writing the placement
	OnQueue                        // it waits on its worker's queue to be claimed
	TakenBack                      // its placement is being taken back
	IsRunning                      // it runs
	Handed                         // the router has resigned; the next one places it
	StoreAway                      // the store does not answer
	BrokerAway                     // the broker is not connected
	BrokerBlocked                  // the broker takes no messages for now
	SessionBackedOff               // an earlier execution of its session is backed off
)

var reasonTexts = [...][2]string{
	NotLoaded:       {"not_loaded", "it is not due yet, or others come first; the router has not loaded it"},
	Ready:           {"ready", "it is next to be placed"},
	WorkersBusy:     {"workers_busy", "every worker of the pool that takes work is busy"},
	WorkersCordoned: {"workers_cordoned", "every live worker of the pool is cordoned or draining; uncordon one"},
	WorkersStarting: {"workers_starting", "the pool's workers are starting or being replaced"},
	SessionOrder:    {"session_order", "an earlier execution of its session goes first"},
	SessionWorker:   {"session_worker", "the worker that its session is bound to is busy, starting or cordoned"},
	SessionUnknown:  {"session_unknown", "the router is asking the store which worker its session is bound to"},
	NoWorkerYet:     {"no_worker_yet", "the pool has no live worker, and its action waits for one"},
	Settling:        {"settling", "the pool has no known live worker, and its router has not led for long enough to be sure"},
	PoolBroken:      {"pool_broken", "the pool is broken: every worker of it fails to start"},
	BackedOff:       {"backed_off", "it was taken back several times in a row and waits before it is placed again"},
	BeingPlaced:     {"being_placed", "its placement is being written"},
	OnQueue:         {"on_queue", "it is on a worker's queue and waits to be claimed"},
	TakenBack:       {"taken_back", "its worker did not claim it, and it is being taken back"},
	IsRunning:       {"running", "it runs"},
	Handed:          {"handed_over", "this router gives up the pool; the next one places it"},
	StoreAway:       {"store_away", "the store does not answer; nothing is placed until it is back, and running work goes on"},
	BrokerAway:      {"broker_away", "the broker is not connected; nothing is placed until it is back, and running work goes on"},
	BrokerBlocked:   {"broker_blocked", "the broker takes no messages for now (a memory or disk alarm); nothing is placed until it does"},
	SessionBackedOff: {"session_backed_off", "an earlier execution of its session was taken back several times in a row and waits before it is placed again; " +
		"it keeps its place, so this one goes after it"},
}

// String is the reason's word.
func (r Reason) String() string {
	if int(r) < len(reasonTexts) {
		return reasonTexts[r][0]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// Sentence tells a person.
func (r Reason) Sentence() string {
	if int(r) < len(reasonTexts) {
		return reasonTexts[r][1]
	}
	return r.String()
}

// MarshalText writes the word.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Reasons lists every reason.
func Reasons() []Reason {
	all := make([]Reason, len(reasonTexts))
	for i := range all {
		all[i] = Reason(i)
	}
	return all
}
