package placement

import (
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Request is what Pick needs to know of an execution.
type Request struct {
	Session  string
	Affinity messages.Affinity // none, with a session: strict
	// Avoid is the worker that failed the execution this one retries; a bound session's worker is not avoided.
	Avoid messages.WorkerID
	// WaitForWorker keeps the execution waiting while no worker is present, until WorkerDeadline where that is set.
	WaitForWorker  bool
	WorkerDeadline time.Time
	// Suspect is the first epoch of which an execution of the session is placed that may have begun, though nobody has
	// said so yet; 0: none is. It counts as begun for this one verdict only.
	Suspect int64
}

// RequestOf takes the request out of a candidate.
func RequestOf(c *messages.Candidate) Request {
	return Request{
		Session: c.Session, Affinity: c.Affinity, Avoid: c.Avoid,
		WaitForWorker: c.WaitForWorker, WorkerDeadline: c.WorkerDeadline,
	}
}

// Kind is what a verdict says.
type Kind uint8

// The kinds.
const (
	Wait  Kind = iota // leave it in the store and ask again
	Place             // place it on Verdict.Worker
	Fail              // fail it with Verdict.Code
)

func (k Kind) String() string { return name(k, "wait", "place", "fail") }

// Waiting is why an execution waits.
type Waiting uint8

// The reasons to wait.
const (
	NotWaiting     Waiting = iota
	WorkersBusy            // every present worker is busy, starting or cordoned
	SessionInOrder         // an earlier execution of its session is on the worker
	SessionWorker          // its session's worker is busy, starting or cordoned
	NoWorkerYet            // no worker is present, and the action waits for one
	Settling               // no worker is known to be present, and the router has not led for long enough to fail it
)

func (w Waiting) String() string {
	return name(w, "none", "workers_busy", "session_in_order", "session_worker", "no_worker_yet", "settling")
}

// Effect is what a verdict means for the session. Hit, Miss, Lost and Expired are the results that
// troupe_session_affinity_total counts.
type Effect uint8

// The effects.
const (
	NoEffect Effect = iota // no session, or nothing happened to it
	Hit                    // runs on the bound worker
	Miss                   // hint: runs elsewhere, the binding stays
	Opened                 // binds a session that had nothing to lose, or whose caller unbound it
	Lost                   // the bound worker is gone: binds anew, or fails with session_lost
	Expired                // the binding had idled out: binds anew, or fails with session_expired
)

func (e Effect) String() string { return name(e, "none", "hit", "miss", "opened", "lost", "expired") }

// Binds reports whether the execution is placed with a new binding.
func (v *Verdict) Binds() bool { return v.Kind == Place && v.Effect >= Opened }

// Verdict is where an execution goes.
type Verdict struct {
	Kind     Kind
	Worker   messages.WorkerKey // for Place
	WorkerID messages.WorkerID
	Waiting  Waiting       // for Wait
	Code     messages.Code // for Fail: no_workers, session_busy, session_lost, session_expired
	Text     string        // for Fail: what people read

	// What becomes of the session, and what the execution's context says of it. Told is session.lost.
	Effect Effect
	Epoch  int64
	Told   bool
	// Ended is the binding that the verdict ends: its worker, where it still lives, is sent end_session. Its Epoch is 0
	// where none ends.
	Ended Ended
}

func name[T ~uint8](value T, names ...string) string {
	if int(value) < len(names) {
		return names[value]
	}
	return fmt.Sprintf("unknown(%d)", uint8(value))
}

// The texts of a verdict to fail, which operators search for.
const (
	TextNoWorkers      = "no workers available"
	TextNoFreshWorkers = "No workers with fresh heartbeats available"
	TextSessionBusy    = "the session's worker is busy"
	TextSessionLost    = "the session's worker is gone and its state with it"
	TextSessionExpired = "the session expired and its state with it"
)
