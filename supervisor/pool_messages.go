package supervisor

import (
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor/part"
	"github.com/troupe-run/troupe/supervisor/router"
	"github.com/troupe-run/troupe/supervisor/workers"
)

// What others say of a pool and hear of it stands with the parts that use it.
type (
	// PoolConfig is what one pool on one node is made of.
	PoolConfig = part.Config
	// PoolPeers are how a pool speaks to the same pool on other nodes.
	PoolPeers = part.Peers
	// PoolHooks are told of what the metrics count.
	PoolHooks = part.Hooks
	// Recycle says when a worker is replaced although it is well.
	Recycle = part.Recycle
	// Description is a pool seen from inside.
	Description = part.Description
	// WorkerState is one slot as its pool knows it.
	WorkerState = part.WorkerState
	// Memory is what a pool keeps over the restart of its own actor.
	Memory = workers.Memory
	// LastBeat is a heartbeat, by this machine's clock, and how often its node writes them.
	LastBeat = router.LastBeat
)

// Messages that a pool understands beside those of its workers, recorder and bridge.
type (
	// Wake hints that work may be due. Arrived is work without a session that this node has just stored, and that is due;
	// empty: the store says what there is. Many: more is being stored by many callers that do not wait for it. Heard: the store has
	// told every node.
	Wake struct {
		Arrived []messages.Candidate
		Many    bool
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
		By        string               // who asked, where that is known
		Peer      messages.Incarnation // the node that says so; zero: this one
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
	// Describe asks for the pool's view. Seen: with each worker as the router sees it. Waits: with what is held waits for. Used: of the
	// workers, only those that have run something or failed at it.
	Describe struct{ Seen, Waits, Used bool }
	// WhyWaiting asks why an execution is not running, and for its place in line. Priority and Seq are those of its row: the router need not
	// have loaded it.
	WhyWaiting struct {
		ID       messages.ExecutionID
		Priority messages.Priority
		Seq      int64
	}
	// WhyAnswer is the reason, or, where another node's router must be asked for it, that node.
	WhyAnswer struct {
		Reason roster.Reason
		Detail string // what is behind the reason; empty: it says all
		Turn   roster.Turn
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

// Messages of membership.
type (
	// NodeUp says that another incarnation lives.
	NodeUp struct{ Node store.Node }
	// NodeDown says that another incarnation has been declared dead, or has ended in order. Its row says how it ended where this node
	// has declared it dead.
	NodeDown struct{ Node store.Node }
	// StoreStands says that the store is away, or is back and has this node's heartbeats.
	StoreStands struct{ Away bool }
	// Elsewhere says which other incarnations have workers of the pool, and when those last beat.
	Elsewhere struct {
		Beats map[messages.Incarnation]LastBeat
	}
	// Fenced says that this node may be taken for dead: it stops all work and comes back as a new incarnation.
	Fenced struct{ Why string }
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
