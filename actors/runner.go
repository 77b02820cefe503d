package actors

import (
	"encoding/json"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/tracing"
)

// Runner is how a worker runs things. Its methods are called by the worker actor alone and never block; what comes of
// them is posted back as one of the messages below.
type Runner interface {
	// Begin starts what the worker needs. Post: begun.
	Begin(post func(any))
	// Run starts a run. Post: signs, then exactly one ended, unless the runner itself ends first (gone).
	Run(r *Run)
	// Step carries out one step of a stop ladder, for a run or, with nil, for the worker.
	Step(step process.Step, r *Run)
	// Probe checks the worker; busy says that a run is on it. Post: probed.
	Probe(id uint64, busy bool)
	// EndSession tells the worker's code to drop a session.
	EndSession(session string, epoch int64)
	// Snapshot asks for a session's state. Post: snapshot, with the id. False: it keeps none.
	Snapshot(session string, epoch int64, id uint64) bool
	// Traits is what the worker can do, known once it has begun.
	Traits() Traits
	// Pid is the process id, 0 without one.
	Pid() int
}

// Traits is what a runner can do.
type Traits struct {
	LongLived bool // it has a process whose end posts gone, and must have ended before the worker may
	Cancels   bool // the first step of a ladder is a request that code can follow
	Snapshots bool
	Probes    bool // probing it can find anything out
}

// Run is one execution on a worker.
type Run struct {
	Execution *messages.Execution
	Action    *messages.Action
	Started   time.Time
	// Restore is the session state to give back first; nil: none. Behind is how many finished runs it lacks.
	Restore json.RawMessage
	Behind  int64
	// tries is how many times in a row the state was given back without an answer, this time included; 0: there is an answer, or no state.
	tries int
	// Trace is the W3C trace context that the code is given, in the form of Execution.Trace.
	Trace string

	span *tracing.Span // nil: none

	sign     time.Time // last sign of progress
	stop     stopCause
	stopText string
	stopCode messages.Code // of the error of a run that is halted; empty: worker_lost
	ladder   process.Ladder
	deadline Timer
	stall    Timer
	// handle is the runner's own: a request id, a cancel function.
	handle any
}

// Placement names the run.
func (r *Run) Placement() messages.Placement { return r.Execution.Placement() }

// stopCause is why a run is being stopped. The first one counts.
type stopCause uint8

const (
	notStopped stopCause = iota
	stopCancel           // a caller cancelled it
	stopTimeout
	stopStalled
	stopHalt // its worker was told to end
)

// Messages from a runner to its worker.
type (
	// begun: the worker can take work, or err says why it never will.
	begun struct{ err error }
	// ended: the run has ended, and the runner can take the next, unless broken.
	ended struct {
		placement messages.Placement
		outcome   messages.Outcome
		output    messages.Output
		restored  bool          // the run's session had all of its state back
		lost      bool          // the code was told that its session's state was lost
		unserved  string        // the node does not serve the action, in words
		neverRan  bool          // the code never heard of it, and never will
		close     bool          // the code asked for a new worker
		crashed   string        // the code took its worker with it; why, in words
		unstarted bool          // the worker went before the code could begin
		restoring bool          // it went while the stored state of the run's session was given back
		delay     time.Duration // before a run that is given back is placed again
		short     error         // the node lacks what starting the code takes; the worker stays
		// ran is how long the code itself ran, where the runner knows; 0: it does not.
		ran time.Duration
	}
	// gone: the runner's process has ended.
	gone struct {
		exit   process.Exit
		broken string // it broke the protocol before
		output messages.Output
		stderr string
		// running is the run that it had been given, zero for none; restored: with its session's state; lost: with word of its loss.
		running        messages.Placement
		restored, lost bool
	}
	// stateAnswered: the program has answered to its session's state.
	stateAnswered struct{ placement messages.Placement }
	// sign: the run gave a sign of progress.
	sign struct{}
	// lateFailure: code of a run that has ended has failed. It ran here; without an execution, nobody knows which run it was.
	lateFailure struct {
		placement messages.Placement
		err       *messages.Error
	}
	// probed: a probe's answer.
	probed struct {
		id  uint64
		err error
	}
	// snapshot: a session's state, or why there is none.
	snapshot struct {
		id      uint64
		session string
		epoch   int64
		state   json.RawMessage
		err     error
	}
)
