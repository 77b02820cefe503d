package actors

import (
	"math/rand/v2"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/clock"
)

// Crew is what all workers of one pool on one node share. It is made once and not changed; a pool that gets a new
// version makes a new one.
type Crew struct {
	System      *System
	Recorder    *actor.PID
	Pool        *actor.PID
	PoolName    string
	Node        string
	Incarnation messages.Incarnation
	Lease       *Lease       // of the node; nil: always holds
	Clock       *clock.Clock // the store's; nil: the machine's
	Logger      hclog.Logger
	Board       *Board
	// Sessions loads and keeps snapshots; nil: none are kept.
	Sessions store.Sessions
	// SnapshotEvery keeps a session's state after every so many of its runs; 0: only when its worker leaves.
	SnapshotEvery int
	// KeepWithin bounds how long such a snapshot may hold up the next run; 1 s.
	KeepWithin time.Duration
	// LeaveWithin bounds how long a leaving worker may take over the states of all its sessions: the node's shutdown
	// timeout. ProbeTimeout is the least.
	LeaveWithin time.Duration
	// RunsMax is how many executions a worker runs before it is replaced; 0: any number.
	RunsMax int
	// Runner makes the part that runs things, one for each worker.
	Runner func(*Crew, messages.WorkerID, messages.Generation) Runner
	// Action returns the definition that an execution of (ref, version) runs by.
	Action func(ref, version string) (*messages.Action, bool)

	Thresholds        health.Thresholds
	CountActionErrors bool
	Retry             messages.RetryPolicy // under each action's own
	RetryRules        messages.RetryRules  // likewise
	RetryDisabled     bool

	InitTimeout  time.Duration // 30 s
	ProbeTimeout time.Duration // 5 s
	ProbeAgain   time.Duration // until a degraded worker is probed again; 0: 5 s
	Graces       process.Graces

	// Resident measures a process tree, in bytes.
	Resident func(pid int) (int64, error)

	// Transitions, Runs, Probes and Snapshots, where set, count for the metrics.
	Transitions func(pool string, e lifecycle.Entry)
	Runs        func(pool string, e *messages.Execution, o *messages.Outcome, took time.Duration)
	Probes      func(pool string, ok bool, took time.Duration)
	Snapshots   func(pool, result string)
	// UnknownReply, where set, is told of every reply of a program to a request that nobody has made, or that was answered.
	UnknownReply func(pool string)
	// Shortage, where set, is told of every program that was not started because the node lacks descriptors, memory or
	// processes.
	Shortage func(pool string, err error)
	// Leaked is told of every go handler that would not end, and when it ends after all (-1).
	Leaked func(pool string, change int)
}

// Messages from a pool supervisor to its workers.
type (
	// Execute gives the worker placements to run in order. Ahead is how many it may hold claimed at once.
	Execute struct {
		Placements []messages.Placement
		Ahead      int
	}
	// Drop takes a placement back that the worker has not claimed.
	Drop struct{ Placement messages.Placement }
	// CancelRun stops one run.
	CancelRun struct {
		Placement messages.Placement
		By        string
	}
	// Probe asks for a health check now. Answer, where set, gets the result.
	Probe struct{ Answer *ProbeQuestion }
	// Retire ends the worker once its run has ended, keeping the given sessions' state where it can.
	Retire struct {
		Reason   lifecycle.Reason
		Why      string
		Sessions []store.SessionRef
		By       string // who asked; empty: nobody
		halted   bool   // its run is being stopped
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
		Wanted     bool // it was told to end
		WasReady   bool // it had become ready
		// Traceback is where its code failed, of one that never became ready, where its program says that.
		Traceback string
	}
	// EchoAnswered says that a dispatch echo has reached a worker.
	EchoAnswered struct{ ID string }
)

// random is the random source that decisions are given.
func random() float64 { return rand.Float64() }
