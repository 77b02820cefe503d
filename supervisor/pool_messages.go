package supervisor

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/restart"
	"github.com/troupe-run/troupe/rules/roster"
)

// Messages that a pool understands beside those of its workers, recorder and bridge.
type (
	// Wake hints that work may be due. Arrived is work without a session that this node has just stored, and that is due;
	// empty: the store says what there is. More: many others are being stored and will follow at once. Heard: the store
	// has told every node.
	Wake struct {
		Arrived []messages.Candidate
		More    bool
		Heard   bool
	}
	// Beat says that the store holds a heartbeat of this node's workers as of At.
	Beat struct{ At time.Time }
	// Cordon takes a worker (slot), or with slot −1 the pool, or with Node the pool for its node, out of placement.
	Cordon struct {
		Slot     messages.Slot
		Node     bool
		Cordoned bool
	}
	// CancelAgain repeats to a worker that its run is to be cancelled.
	CancelAgain struct {
		Placement messages.Placement
		Slot      messages.Slot
		By        string // who asked, where that is known
	}
	// KillWorker ends a worker at once; it is replaced. One of another generation is left alone; 0: whichever there is.
	KillWorker struct {
		Slot       messages.Slot
		Generation messages.Generation
		By         string // who asked
	}
	// ProbeWorker probes a worker now.
	ProbeWorker struct {
		Slot   messages.Slot
		Answer *actors.ProbeQuestion
	}
	// Drain ends the pool in order: nothing new, un-started work handed back, running work finished until Until.
	Drain struct {
		Until time.Time
		By    string // who asked; empty: a signal, or whoever runs the node
	}
	// Replace gives the pool a new configuration; its workers are replaced one by one. Mended: a worker of it has just started, so
	// what waits for its next start need not.
	Replace struct {
		Config PoolConfig
		Mended bool
		By     string // who asked for the reload; empty: a signal
	}
	// Halt says why nothing may be placed for now, as roster.Halted does.
	Halt struct{ Why roster.Reason }
	// Describe asks for the pool's view.
	Describe struct{}
	// WhyWaiting asks why an execution is not running.
	WhyWaiting struct{ ID messages.ExecutionID }
	// WhyAnswer is the reason, or, where another node's router must be asked for it, that node.
	WhyAnswer struct {
		Reason roster.Reason
		Detail string // what is behind the reason; empty: it says all
		Router messages.Incarnation
	}
	// Led says who leads the pool by the store's word; a zero Router: nobody.
	Led struct {
		Router messages.Incarnation
		Name   string // of its node
		Epoch  int64
	}
	// PeerReport is a report of another node that follows this one.
	PeerReport struct {
		From   messages.Incarnation
		Report wire.PoolReport
	}
	// DeadLettered says that a message on a worker's queue died, as another node has found.
	DeadLettered struct {
		Slot      messages.Slot
		Placement messages.Placement
	}
	// PeerEndSession is what another node's router tells a worker here, or what a node tells a router whose session was ended
	// there.
	PeerEndSession struct {
		From messages.Incarnation
		Tell wire.EndSession
	}
)

// Questions that a pool answers.
type (
	// DrainQuestion is answered once the pool is empty.
	DrainQuestion = actors.Question[Drain, struct{}]
	// DescribeQuestion asks for the pool's view.
	DescribeQuestion = actors.Question[Describe, Description]
	// WhyQuestion asks why an execution is not running.
	WhyQuestion = actors.Question[WhyWaiting, WhyAnswer]
	// ReportQuestion brings a follower's report.
	ReportQuestion = actors.Question[PeerReport, wire.PoolReportResult]
)

// Description is a pool seen from inside.
type Description struct {
	Name     string
	Runtime  messages.Runtime
	Router   roster.Snapshot
	Workers  []WorkerState
	State    restart.State
	Cordoned bool
	Broken   string // why, in a line; empty: it is not
	// OldCode counts the workers that still run the code from before a reload, because the new one did not start. Failed is why, or why
	// a slot waits for its next start.
	OldCode  int
	Failed   string
	Started  bool // its first start round has ended
	Echo     time.Duration
	EchoLate bool
	Lead     Leading
}

// Leading is who routes for a pool, as one node knows it.
type Leading struct {
	Mode      lead.Mode
	Since     time.Time            // zero: since the pool's start
	Router    messages.Incarnation // zero: nobody leads
	Name      string               // of the router's node
	Epoch     int64
	Followers int    // nodes that report to this one
	Why       string // this node is alone although another leads
}

// WorkerState is one slot as its pool knows it.
type WorkerState struct {
	Slot        messages.Slot
	ID          messages.WorkerID
	PID         *actor.PID
	Generation  messages.Generation
	State       lifecycle.State
	Health      lifecycle.Health
	Grade       health.Grade  // with its heartbeat
	Causes      health.Causes // of the grade
	Report      health.Capabilities
	Since       time.Time
	Cordoned    bool
	Pid         int
	Restarts    int
	LastFailure string
	Beat        time.Time
	Execution   messages.ExecutionID
}
