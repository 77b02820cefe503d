package roster

import (
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/placement"
)

// Event is something that happened to the pool. Events carry no clock: Step is given one.
type Event interface{ isEvent() }

// WorkerSeen brings one worker up to date; an unknown one joins.
type WorkerSeen struct {
	Worker     messages.WorkerKey
	ID         messages.WorkerID
	Queue      string // that brings it its work
	Generation messages.Generation
	// Starting: initializing, or being replaced on a live node; it counts as busy, not as absent.
	Starting bool
	// Accepts: the lifecycle lets it take work (ready and healthy, busy, or degraded as a last resort), and its queue brings it some.
	Accepts bool
	Active  bool // not cordoned, draining or inactive
	Broken  bool // its pool is broken on its node: counts as absent
	// Grade is what its node says of it, without the heartbeat, which the roster evaluates.
	Grade health.Grade
	// BeatAt is its last heartbeat; zero: none yet, which is stale. Becoming ready is a heartbeat: a worker that is
	// neither Starting nor fresh counts as absent, and a pool of such workers fails what waits.
	BeatAt time.Time
	// BeatEvery is its node's heartbeat interval, by which its staleness is decided; 0: not known.
	BeatEvery time.Duration
	// Direct: executions without a session are handed to it directly. The store has no placement of them: the worker's claim
	// makes it.
	Direct bool
}

// WorkerGone says that the slot will take no more work: its node is gone, or it was removed for good.
type WorkerGone struct {
	Worker messages.WorkerKey
	// Restarts: only the generation is gone, and the slot comes back; its sessions are unbound all the same.
	Restarts bool
}

// WorkerLeft says that another router has a worker of a node that lives. To this one it is busy: its sessions keep their
// bindings, and what stands on it is the other's to follow.
type WorkerLeft struct{ Worker messages.WorkerKey }

// Beats brings the heartbeats of workers up to date.
type Beats struct {
	Workers []messages.WorkerKey
	At      time.Time
}

// Loaded answers a Load effect.
type Loaded struct {
	Candidates []messages.Candidate
	More       bool
	NextAt     time.Time // earliest run_at ahead; zero: none
	Failed     bool      // the store did not answer; look again at the next tick
}

// Wake hints that work may be due.
type Wake struct{}

// Arrived brings executions without a session that this node has just stored and that are due, so that the store need
// not be asked for them. They wait like all others; where the store holds what is before them, it is a mere Wake.
// Those whose placements have ended lately are passed over: a look at the store showed them before this word of them came.
type Arrived struct{ Candidates []messages.Candidate }

// Offered asks, before executions without a session are stored, which of them may be stored as placed: in answer to it
// Accept gives those that idle workers are there for, in the order given, where nothing that waits may come before them. The
// others arrive once they are stored.
type Offered struct{ Candidates []messages.Candidate }

// Placed answers one assignment of a Place or Accept effect.
type Placed struct {
	ID      messages.ExecutionID
	Attempt messages.Attempt // of the new placement, where OK
	OK      bool
	// SessionConflict: the store refused because of the session; its binding must be read again.
	SessionConflict bool
	ClaimBy         time.Time
}

// Published answers Publish effects whose placements went by one message. Not OK: returned, refused or unknown.
type Published struct {
	Placements []messages.Placement
	OK         bool
}

// Claimed says that the worker took the placement and runs it. It may be another worker than the one that this router has chosen:
// one that the router before it chose, where neither is stored.
type Claimed struct {
	Placement messages.Placement
	Worker    messages.WorkerKey
}

// Ended says that a run has ended, however: its slot is free.
type Ended struct {
	Placement messages.Placement
	Worker    messages.WorkerKey
	Took      time.Duration
	Finished  bool // an outcome was written (not a rescue): the session's last finished epoch moves
	Restored  bool // a snapshot that was not behind was restored for the run
	Fault     bool
	// Session is the run's, where that is known: of a run that the roster does not have, its session is asked for.
	Session string
	// Unseen: it is gone, and nobody has said how it ended. The store is asked what its session has to lose.
	Unseen bool
}

// Released says that a placement left the worker's queue unstarted: taken back, cancelled, failed or stale.
type Released struct {
	Placement messages.Placement
	// Worker, where set, is the one that has let it go. The placement may stand on another by now.
	Worker messages.WorkerKey
}

// Withdrawn says that a waiting execution is no longer requested: cancelled or failed elsewhere.
type Withdrawn struct{ ID messages.ExecutionID }

// SessionMoved tells what the store holds for a session: at take-over, in the order of TouchedAt and after the workers,
// and in answer to Reload (a session without a row: the name alone). Told unasked, it may have been read before the store
// made a binding that the roster knows of; it is passed over then.
type SessionMoved struct {
	Session       string
	Asked         bool               // it answers Reload
	Worker        messages.WorkerKey // zero: unbound
	Epoch         int64
	StartedEpoch  int64
	FinishedEpoch int64
	SnapshotEpoch int64
	TouchedAt     time.Time
}

// Doubted says that what is known of a session may be old: the store is asked before more of it is placed.
type Doubted struct{ Session string }

// Holding tells, at take-over, of a placement that a worker holds already. Tell of the workers first, then of the
// sessions, then of what is held.
type Holding struct {
	Placement messages.Placement
	Worker    messages.WorkerKey
	Session   string
	Epoch     int64 // that the placement was given with; 0: none
	Missed    bool  // a hint that was placed beside its session's worker
	TakeBacks int   // in a row, before this placement
	Running   bool
	ClaimBy   time.Time
}

// Resigned says that this router gives up the pool: nothing more is loaded, placed or failed, and what no worker of Own has
// claimed is taken back; with a zero Own, of any. What is on the queues of the others' workers is left to the next router.
// Drained says when that is done.
type Resigned struct{ Own messages.Incarnation }

// Store says whether the store is away. While it is, nothing fails for want of workers, whose heartbeats have no place to
// go; once it is back the router has to lead for SteadyAfter again before anything does.
type Store struct{ Away bool }

// Halted says why nothing may be placed for now: StoreAway, BrokerAway or BrokerBlocked. Ready ends it. What waits stays
// held, what is placed already goes its way.
type Halted struct{ Why Reason }

// Tick lets time pass: at least every second.
type Tick struct{}

// Effect is something the shell must do, in the order given. Its outcome comes back as an event where one is named.
type Effect interface{ isEffect() }

// Load asks the store for due executions, with the bounds of store.DueQuery. Answer: Loaded. One is under way at most.
type Load struct {
	Limit, Heads  int
	AfterPriority messages.Priority
	AfterSeq      int64
}

// Assignment is one decided placement.
type Assignment struct {
	ID       messages.ExecutionID
	Attempt  messages.Attempt // before
	Worker   messages.WorkerKey
	WorkerID messages.WorkerID
	Grade    health.Grade // what its node says of the worker
	Session  *SessionUse  // nil: none
	// Direct: it is not written. A Publish of the same Step hands it to the worker, whose claim places it.
	Direct bool
	// Generation, where set, is the worker's whose claim is stored with the execution. Once it is stored, Claimed says so, and no
	// Publish follows.
	Generation messages.Generation
}

// SessionUse mirrors store.SessionUse, without the pool. Hit is false only for a hint that runs beside its session's
// worker: it leaves the binding, and the epoch that finished last, alone. Lost is what holds before a snapshot is
// restored for the run; whoever restores one clears it.
type SessionUse struct {
	Session         string
	Epoch           int64
	Bind, Lost, Hit bool
	// Effect is what troupe_session_affinity_total counts.
	Effect placement.Effect
}

// Place writes placements. Answer: a Placed each, but for those that are Direct.
type Place struct{ Assignments []Assignment }

// Accept has what was offered stored with its placements. It comes first, where it comes. Answer: a Placed each.
type Accept struct{ Assignments []Assignment }

// Publish sends one or several placements to one worker. Answer: Published, which may answer several of them together.
type Publish struct {
	Worker     messages.WorkerKey
	Queue      string // of the worker; empty: another router has it by now, and nothing can be sent
	Placements []messages.Placement
	Timeout    time.Duration // that the placements' runs have, all the same; the message need not live longer
	Idempotent bool          // all of them may be repeated, or none
	Direct     bool          // the store has none of them, or all: see WorkerSeen.Direct
}

// TakeBack returns a placement to requested. Answer: Released, unless the placement is running by now: then Claimed says
// so. It is repeated after the claim timeout while neither comes. The worker's queue may still hold its message.
type TakeBack struct {
	Placement messages.Placement
	Reason    string
	Delay     time.Duration
}

// Fail ends a waiting execution that may not wait. No answer is needed.
type Fail struct {
	ID      messages.ExecutionID
	Attempt messages.Attempt
	Code    messages.Code
	Message string
}

// EndSession tells a worker to drop a session's state up to the epoch.
type EndSession struct {
	Worker  messages.WorkerKey
	Session string
	Epoch   int64
}

// Unbind ends a binding in the store, where it still is to that worker.
type Unbind struct {
	Session string
	Worker  messages.WorkerKey
	Epoch   int64
	Reason  string // Expired, worker_gone, lost (told to a strict_fail)
}

// Expired is the reason of a binding that idled out.
const Expired = "expired"

// Reload asks for the store's word on a session. Answer: SessionMoved.
type Reload struct{ Session string }

// Sleep says when the next Tick is wanted at the latest, beside the regular ones. It comes last, where it comes.
type Sleep struct{ Until time.Time }

func (WorkerSeen) isEvent()   {}
func (WorkerGone) isEvent()   {}
func (WorkerLeft) isEvent()   {}
func (Beats) isEvent()        {}
func (Loaded) isEvent()       {}
func (Wake) isEvent()         {}
func (Arrived) isEvent()      {}
func (Offered) isEvent()      {}
func (Placed) isEvent()       {}
func (Published) isEvent()    {}
func (Claimed) isEvent()      {}
func (Ended) isEvent()        {}
func (Released) isEvent()     {}
func (Withdrawn) isEvent()    {}
func (SessionMoved) isEvent() {}
func (Doubted) isEvent()      {}
func (Holding) isEvent()      {}
func (Resigned) isEvent()     {}
func (Store) isEvent()        {}
func (Halted) isEvent()       {}
func (Tick) isEvent()         {}

func (Load) isEffect()       {}
func (Place) isEffect()      {}
func (Accept) isEffect()     {}
func (Publish) isEffect()    {}
func (TakeBack) isEffect()   {}
func (Fail) isEffect()       {}
func (EndSession) isEffect() {}
func (Unbind) isEffect()     {}
func (Reload) isEffect()     {}
func (Sleep) isEffect()      {}
