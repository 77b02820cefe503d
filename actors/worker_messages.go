package actors

import (
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/store"
)

// Messages from a pool supervisor to its workers.
type (
	// Execute gives the worker placements to run in order. Ahead is how many it may hold claimed at once. By, where set, is the
	// router that hands them over directly: the store has them only with their claims.
	Execute struct {
		Placements []messages.Placement
		Ahead      int
		By         messages.Incarnation
		// Published and Arrived say when the message was published that brought them, and when it came. Zero: that is not known.
		Published, Arrived time.Time
	}
	// Take gives the worker an execution that was claimed for it as it was stored. Number grows with each that its pool gives.
	Take struct {
		Execution *messages.Execution
		Number    uint64
	}
	// HoldClaims says whether the worker must not claim, for now, what is delivered to it. It keeps that, and goes on with what is claimed.
	HoldClaims struct{ Hold bool }
	// Drop takes a placement back that the worker has not claimed.
	Drop struct{ Placement messages.Placement }
	// CancelRun stops one run.
	CancelRun struct {
		Placement messages.Placement
		By        string
		Peer      messages.Incarnation // the node that says so; zero: this one
	}
	// Probe asks for a health check now. Answer, where set, gets the result.
	Probe struct{ Answer *ProbeQuestion }
	// Retire ends the worker once its run has ended, keeping the given sessions' state where it can.
	Retire struct {
		Reason   lifecycle.Reason
		Why      string
		Sessions []store.SessionRef
		By       string // who asked; empty: nobody
	}
	// Halt ends the worker now: its run is stopped by the ladder, or at once where Hard.
	Halt struct {
		Reason lifecycle.Reason
		Why    string
		Code   messages.Code // of the run's error
		Hard   bool
		By     string // who asked; empty: nobody
	}
	// EndSession drops a session's state up to an epoch.
	EndSession struct {
		Session string
		Epoch   int64
	}
	// Expired says that a placement died on the worker's queue, which counts against the worker.
	Expired struct{ Placement messages.Placement }
	// Inspect asks for what only the worker itself knows.
	Inspect struct{}
)

// Questions that a worker answers.
type (
	// ProbeQuestion asks for a probe now; the answer is what it found.
	ProbeQuestion = Question[struct{}, string]
	// InspectQuestion asks for what only the worker itself knows.
	InspectQuestion = Question[Inspect, Inspection]
)

// Inspection is a worker seen from inside.
type Inspection struct {
	Worker     messages.WorkerID
	Generation messages.Generation
	State      lifecycle.State
	Health     lifecycle.Health
	Report     health.Capabilities
	History    []lifecycle.Entry
	Pid        int
	Execution  messages.ExecutionID
	Resident   int64
}

// Messages from a worker to its pool supervisor.
type (
	// WorkerChanged tells of a transition that matters beyond one execution, or of a change of health or grade.
	WorkerChanged struct {
		Slot       messages.Slot
		Generation messages.Generation
		Entry      *lifecycle.Entry // nil: health or grade alone
		State      lifecycle.State
		Health     lifecycle.Health
		Grade      health.Grade
		Report     health.Capabilities
		Pid        int
		Spent      bool // it has begun the last run that RunsMax allows, and claims no more
	}
	// WorkerEnded says that a generation has come to its end and why; its actor stops right after.
	WorkerEnded struct {
		Slot       messages.Slot
		Generation messages.Generation
		Cause      lifecycle.Cause
		Why        string
		Wanted     bool   // it was told to end
		WasReady   bool   // it had become ready
		Taken      uint64 // the number of the last Take that has come to it; 0: none has
		// Traceback is where its code failed, of one that never became ready, where its program says that.
		Traceback string
	}
	// EchoAnswered says that a dispatch echo has reached a worker.
	EchoAnswered struct{ ID string }
)
