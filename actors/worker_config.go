package actors

import (
	"context"
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
	"github.com/troupe-run/troupe/tracing"
)

// WorkerConfig is what all workers of one pool on one node share: their settings, and what they call. It is made once and not
// changed; a pool that gets a new version makes a new one.
type WorkerConfig struct {
	System      *System
	Recorder    *actor.PID
	Pool        *actor.PID
	PoolName    string
	Node        string
	Incarnation messages.Incarnation
	Lease       *Lease       // of the node; nil: always holds
	Clock       *clock.Clock // the store's; nil: the machine's
	Awake       *Awake       // of the node; nil: it is never frozen
	// NoWorkerDeadline bounds how long an execution is handed back because nobody serves its action, from its first placement on; 0: an hour.
	NoWorkerDeadline time.Duration
	Logger           hclog.Logger
	Feeds            *Feeds
	// Sessions loads and keeps snapshots; nil: none are kept.
	Sessions store.Sessions
	// Failures keeps what failed after its run; nil: it is logged alone.
	Failures LateFailures
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
	Runner func(*WorkerConfig, messages.WorkerID, messages.Generation) Runner
	// Action returns the definition that an execution of (ref, version) runs by.
	Action func(ref, version string) (*messages.Action, bool)

	// Tracer makes the spans of what the workers claim and run; nil: none.
	Tracer *tracing.Tracer

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

// LateFailures is the store of failures that came after their runs.
type LateFailures interface {
	SaveLateFailure(ctx context.Context, f store.LateFailure) error
}

// keepTime bounds the time that a leaving worker keeps its sessions' states in. Where its run had to be stopped, the time
// for running work is up already.
func (c *WorkerConfig) keepTime(halted bool) time.Duration {
	if halted {
		return c.ProbeTimeout
	}
	return max(c.LeaveWithin, c.ProbeTimeout)
}

// random is the random source that decisions are given.
func random() float64 { return rand.Float64() }
