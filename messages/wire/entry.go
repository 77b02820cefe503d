package wire

import (
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
	troupev1 "github.com/troupe-run/troupe/proto/troupe/v1"
)

// PoolEntry is one thing that a PoolReport tells: one of the types of this file. Slots are the sender's.
type PoolEntry interface {
	encode() *troupev1.PoolEntry
	check() error
}

// CheckEntry says why a report with the entry could not be encoded; nil: it could.
func CheckEntry(e PoolEntry) error { return e.check() }

// PoolWorker is one worker of the sender as a router needs it. Grade is a name, as package health writes it.
type PoolWorker struct {
	Slot       messages.Slot
	ID         messages.WorkerID
	Queue      string
	Generation messages.Generation
	Starting   bool
	Accepts    bool
	Active     bool
	Broken     bool
	Grade      string
	BeatAge    time.Duration // of its last heartbeat, to the millisecond; negative: it has none
	BeatEvery  time.Duration // how often its node writes heartbeats, to the millisecond; 0: not known
	Direct     bool          // it claims what is still requested
}

// PoolWorkerGone says that a worker takes no more work; with Restarts its slot comes back.
type PoolWorkerGone struct {
	Slot     messages.Slot
	Restarts bool
}

// PoolPlacement says what stands on a worker.
type PoolPlacement struct {
	Placement messages.Placement
	Slot      messages.Slot
	Running   bool
}

// PoolRunEnded says that a run has ended, however.
type PoolRunEnded struct {
	Placement                 messages.Placement
	Took                      time.Duration
	Finished, Restored, Fault bool
	Unseen                    bool   // nobody has said how it ended
	Session                   string // the run's; empty: none
}

// PoolReleased says that a placement left its worker's queue unstarted.
type PoolReleased struct {
	Placement messages.Placement
	Slot      *messages.Slot // that has let it go; nil: whichever had it
}

// PoolWithdrawn says that a waiting execution is no longer to be run.
type PoolWithdrawn struct{ Execution messages.ExecutionID }

// PoolCandidate is an execution without a session that the sender has just stored, and that is due.
type PoolCandidate struct {
	Execution      messages.ExecutionID
	Seq            int64
	Attempt        messages.Attempt
	Action         string
	Version        string
	Priority       messages.Priority
	WaitForWorker  bool
	WorkerDeadline time.Time
	Timeout        time.Duration
	Idempotent     bool
}

func (e PoolWorker) encode() *troupev1.PoolEntry {
	return &troupev1.PoolEntry{What: &troupev1.PoolEntry_Worker{Worker: &troupev1.PoolWorker{
		Slot: int32(e.Slot), Id: string(e.ID), Queue: e.Queue, Generation: int32(e.Generation), Starting: e.Starting,
		Accepts: e.Accepts, Active: e.Active, Broken: e.Broken, Grade: e.Grade, BeatAgeMs: e.BeatAge.Milliseconds(),
		BeatEveryMs: e.BeatEvery.Milliseconds(), Direct: e.Direct,
	}}}
}

func (e PoolWorkerGone) encode() *troupev1.PoolEntry {
	return &troupev1.PoolEntry{What: &troupev1.PoolEntry_Gone{
		Gone: &troupev1.PoolWorkerGone{Slot: int32(e.Slot), Restarts: e.Restarts},
	}}
}

func (e PoolPlacement) encode() *troupev1.PoolEntry {
	return &troupev1.PoolEntry{What: &troupev1.PoolEntry_Placed{Placed: &troupev1.PoolPlacement{
		Execution: idBytes(e.Placement.Execution), Attempt: int32(e.Placement.Attempt), Slot: int32(e.Slot), Running: e.Running,
	}}}
}

func (e PoolRunEnded) encode() *troupev1.PoolEntry {
	return &troupev1.PoolEntry{What: &troupev1.PoolEntry_Ended{Ended: &troupev1.PoolRunEnded{
		Execution: idBytes(e.Placement.Execution), Attempt: int32(e.Placement.Attempt), Took: int64(e.Took),
		Finished: e.Finished, Restored: e.Restored, Fault: e.Fault, Unseen: e.Unseen,
		Session: e.Session,
	}}}
}

func (e PoolReleased) encode() *troupev1.PoolEntry {
	return &troupev1.PoolEntry{What: &troupev1.PoolEntry_Released{Released: &troupev1.PoolReleased{
		Execution: idBytes(e.Placement.Execution), Attempt: int32(e.Placement.Attempt), Slot: (*int32)(e.Slot),
	}}}
}

func (e PoolWithdrawn) encode() *troupev1.PoolEntry {
	return &troupev1.PoolEntry{What: &troupev1.PoolEntry_Withdrawn{
		Withdrawn: &troupev1.PoolWithdrawn{Execution: idBytes(e.Execution)},
	}}
}

func (e PoolCandidate) encode() *troupev1.PoolEntry {
	return &troupev1.PoolEntry{What: &troupev1.PoolEntry_Arrived{Arrived: &troupev1.PoolCandidate{
		Execution: idBytes(e.Execution), Seq: e.Seq, Attempt: int32(e.Attempt), Action: e.Action, Version: e.Version,
		Priority: int32(e.Priority), WaitForWorker: e.WaitForWorker, WorkerDeadline: nanos(e.WorkerDeadline),
		Timeout: int64(e.Timeout), Idempotent: e.Idempotent,
	}}}
}

func entryFromProto(p *troupev1.PoolEntry) (PoolEntry, error) {
	switch what := p.GetWhat().(type) {
	case *troupev1.PoolEntry_Worker:
		w := what.Worker
		age := min(max(w.GetBeatAgeMs(), -1), ageMax)
		return PoolWorker{
			Slot: messages.Slot(w.GetSlot()), ID: messages.WorkerID(w.GetId()), Queue: w.GetQueue(),
			Generation: messages.Generation(w.GetGeneration()), Starting: w.GetStarting(), Accepts: w.GetAccepts(),
			Active: w.GetActive(), Broken: w.GetBroken(), Grade: w.GetGrade(), BeatAge: time.Duration(age) * time.Millisecond,
			BeatEvery: time.Duration(min(max(w.GetBeatEveryMs(), 0), ageMax)) * time.Millisecond, Direct: w.GetDirect(),
		}, nil
	case *troupev1.PoolEntry_Gone:
		return PoolWorkerGone{Slot: messages.Slot(what.Gone.GetSlot()), Restarts: what.Gone.GetRestarts()}, nil
	case *troupev1.PoolEntry_Placed:
		at, err := placementOf(what.Placed)
		return PoolPlacement{Placement: at, Slot: messages.Slot(what.Placed.GetSlot()), Running: what.Placed.GetRunning()}, err
	case *troupev1.PoolEntry_Ended:
		at, err := placementOf(what.Ended)
		return PoolRunEnded{
			Placement: at, Took: time.Duration(what.Ended.GetTook()), Finished: what.Ended.GetFinished(),
			Restored: what.Ended.GetRestored(), Fault: what.Ended.GetFault(), Unseen: what.Ended.GetUnseen(),
			Session: what.Ended.GetSession(),
		}, err
	case *troupev1.PoolEntry_Released:
		at, err := placementOf(what.Released)
		return PoolReleased{Placement: at, Slot: (*messages.Slot)(what.Released.Slot)}, err
	case *troupev1.PoolEntry_Withdrawn:
		id, err := parseID[messages.ExecutionID]("execution", what.Withdrawn.GetExecution())
		return PoolWithdrawn{Execution: id}, err
	case *troupev1.PoolEntry_Arrived:
		return candidateFromProto(what.Arrived)
	}
	return nil, errors.New("it tells nothing that is known here")
}

// ageMax bounds an age in milliseconds, so that it fits a duration: a hundred years.
const ageMax = 100 * 365 * 24 * 3600 * 1000

func candidateFromProto(c *troupev1.PoolCandidate) (PoolEntry, error) {
	id, err := parseID[messages.ExecutionID]("execution", c.GetExecution())
	return PoolCandidate{
		Execution: id, Seq: c.GetSeq(), Attempt: messages.Attempt(c.GetAttempt()), Action: c.GetAction(),
		Version: c.GetVersion(), Priority: messages.Priority(min(max(c.GetPriority(), -1), int32(messages.PriorityMax)+1)), WaitForWorker: c.GetWaitForWorker(),
		WorkerDeadline: fromNanos(c.GetWorkerDeadline()), Timeout: time.Duration(c.GetTimeout()), Idempotent: c.GetIdempotent(),
	}, err
}

// placementOf reads the placement of an entry.
func placementOf(p interface {
	GetExecution() []byte
	GetAttempt() int32
}) (messages.Placement, error) {
	id, err := parseID[messages.ExecutionID]("execution", p.GetExecution())
	return messages.Placement{Execution: id, Attempt: messages.Attempt(p.GetAttempt())}, err
}

// slotMax bounds the slots of one pool on one node.
const slotMax = 1_000_000

func checkNumber(n messages.Slot) error {
	if n < 0 || n > slotMax {
		return fmt.Errorf("slot %d: want one from 0 to %d", n, slotMax)
	}
	return nil
}

// checkPlaced refuses no placement as well.
func checkPlaced(p messages.Placement) error {
	if p.Execution.IsZero() {
		return errors.New("it names no execution")
	}
	return checkPlacement(p)
}

func (e PoolWorker) check() error {
	switch {
	case e.ID == "" || e.Queue == "" || e.Grade == "":
		return fmt.Errorf("worker in slot %d: want an id, a queue and a grade", e.Slot)
	case e.Generation < 0:
		return fmt.Errorf("worker in slot %d: generation %d, want none or one from 1", e.Slot, e.Generation)
	}
	return errors.Join(checkNumber(e.Slot), checkText("id", string(e.ID)), checkText("queue", e.Queue), checkText("grade", e.Grade))
}

func (e PoolWorkerGone) check() error { return checkNumber(e.Slot) }
func (e PoolPlacement) check() error {
	return errors.Join(checkNumber(e.Slot), checkPlaced(e.Placement))
}

func (e PoolRunEnded) check() error {
	if len(e.Session) > messages.SessionMax {
		return fmt.Errorf("session has %d bytes", len(e.Session))
	}
	if e.Took < 0 {
		return fmt.Errorf("a run took %s", e.Took)
	}
	return checkPlaced(e.Placement)
}

func (e PoolReleased) check() error {
	if e.Slot != nil {
		return errors.Join(checkPlaced(e.Placement), checkNumber(*e.Slot))
	}
	return checkPlaced(e.Placement)
}

func (e PoolWithdrawn) check() error {
	if e.Execution.IsZero() {
		return errors.New("it names no execution")
	}
	return nil
}

func (e PoolCandidate) check() error {
	switch {
	case e.Execution.IsZero() || e.Seq < 1 || e.Attempt < 0 || e.Timeout < 0 || e.Action == "":
		return fmt.Errorf("execution %s, place %d, attempt %d, timeout %s is no candidate", e.Execution, e.Seq, e.Attempt, e.Timeout)
	case e.Priority < messages.PriorityMin || e.Priority > messages.PriorityMax:
		return fmt.Errorf("priority %d, want %d to %d", e.Priority, messages.PriorityMin, messages.PriorityMax)
	}
	return errors.Join(checkText("action", e.Action), checkText("version", e.Version))
}
