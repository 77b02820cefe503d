package wire

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/messages"
	troupev1 "github.com/troupe-run/troupe/proto/troupe/v1"
)

// Worker is one worker as its node sees it. State and Grade are names, as the lifecycle and health packages write
// them; the receiver parses them, so that a new name is its decision and not a broken envelope.
type Worker struct {
	Slot       messages.Slot
	Generation messages.Generation
	State      string
	Grade      string
	Cordoned   bool
	Placement  messages.Placement // what it runs; zero: nothing
	Queued     int32              // placements that wait on its queue
}

// WorkerSnapshot is every worker of one pool on the sending node; it replaces what the receiver knew of them.
type WorkerSnapshot struct {
	Pool    string
	Workers []Worker
}

// WorkerChange is the new view of one worker, and why it changed.
type WorkerChange struct {
	Pool   string
	Worker Worker
	Reason string
}

// SnapshotRequest asks for one pool's WorkerSnapshot.
type SnapshotRequest struct{ Pool string }

// Kill ends a worker if its generation still is the named one.
type Kill struct {
	Pool       string
	Slot       messages.Slot
	Generation messages.Generation
	By         string
}

// Cordon takes a target out of placement or back in: the worker of Slot, the pool where Slot is nil, the node where
// Pool is empty too.
type Cordon struct {
	Pool     string
	Slot     *messages.Slot
	Cordoned bool
	By       string
}

func (WorkerSnapshot) kind() troupev1.Kind  { return troupev1.Kind_KIND_WORKER_SNAPSHOT }
func (WorkerChange) kind() troupev1.Kind    { return troupev1.Kind_KIND_WORKER_CHANGE }
func (SnapshotRequest) kind() troupev1.Kind { return troupev1.Kind_KIND_SNAPSHOT_REQUEST }
func (Kill) kind() troupev1.Kind            { return troupev1.Kind_KIND_KILL }
func (Cordon) kind() troupev1.Kind          { return troupev1.Kind_KIND_CORDON }

func (b WorkerSnapshot) encode() proto.Message {
	workers := make([]*troupev1.Worker, len(b.Workers))
	for i, w := range b.Workers {
		workers[i] = workerToProto(w)
	}
	return &troupev1.WorkerSnapshot{Pool: b.Pool, Workers: workers}
}

func (b WorkerChange) encode() proto.Message {
	return &troupev1.WorkerChange{Pool: b.Pool, Worker: workerToProto(b.Worker), Reason: b.Reason}
}

func (b SnapshotRequest) encode() proto.Message { return &troupev1.SnapshotRequest{Pool: b.Pool} }

func (b Kill) encode() proto.Message {
	return &troupev1.Kill{Pool: b.Pool, Slot: int32(b.Slot), Generation: int32(b.Generation), By: b.By}
}

func (b Cordon) encode() proto.Message {
	return &troupev1.Cordon{Pool: b.Pool, Slot: (*int32)(b.Slot), Cordoned: b.Cordoned, By: b.By}
}

func workerToProto(w Worker) *troupev1.Worker {
	return &troupev1.Worker{
		Slot:       int32(w.Slot),
		Generation: int32(w.Generation),
		State:      w.State,
		Grade:      w.Grade,
		Cordoned:   w.Cordoned,
		Execution:  idBytes(w.Placement.Execution),
		Attempt:    int32(w.Placement.Attempt),
		Queued:     w.Queued,
	}
}

func workerFromProto(p *troupev1.Worker) (Worker, error) {
	execution, err := parseID[messages.ExecutionID]("execution", p.GetExecution())
	if err != nil {
		return Worker{}, fmt.Errorf("worker in slot %d: %w", p.GetSlot(), err)
	}
	return Worker{
		Slot:       messages.Slot(p.GetSlot()),
		Generation: messages.Generation(p.GetGeneration()),
		State:      p.GetState(),
		Grade:      p.GetGrade(),
		Cordoned:   p.GetCordoned(),
		Placement:  messages.Placement{Execution: execution, Attempt: messages.Attempt(p.GetAttempt())},
		Queued:     p.GetQueued(),
	}, nil
}

func snapshotFromProto(p *troupev1.WorkerSnapshot) (Body, error) {
	// The payload's own bound (PayloadMax) limits how many workers can have been parsed before this is asked.
	if n := len(p.GetWorkers()); n > WorkersMax {
		return nil, fmt.Errorf("it has %d workers, the limit is %d", n, WorkersMax)
	}
	b := WorkerSnapshot{Pool: p.GetPool()}
	for _, pw := range p.GetWorkers() {
		w, err := workerFromProto(pw)
		if err != nil {
			return nil, err
		}
		b.Workers = append(b.Workers, w)
	}
	return b, nil
}

func changeFromProto(p *troupev1.WorkerChange) (Body, error) {
	w, err := workerFromProto(p.GetWorker())
	if err != nil {
		return nil, err
	}
	return WorkerChange{Pool: p.GetPool(), Worker: w, Reason: p.GetReason()}, nil
}

func killFromProto(p *troupev1.Kill) Body {
	return Kill{
		Pool:       p.GetPool(),
		Slot:       messages.Slot(p.GetSlot()),
		Generation: messages.Generation(p.GetGeneration()),
		By:         p.GetBy(),
	}
}

func cordonFromProto(p *troupev1.Cordon) Body {
	return Cordon{Pool: p.GetPool(), Slot: (*messages.Slot)(p.Slot), Cordoned: p.GetCordoned(), By: p.GetBy()}
}

func (b WorkerSnapshot) check(messages.Placement) error {
	if len(b.Workers) > WorkersMax {
		return fmt.Errorf("a snapshot of pool %s has %d workers, the limit is %d", b.Pool, len(b.Workers), WorkersMax)
	}
	for i, w := range b.Workers {
		if err := w.check(); err != nil {
			return err
		}
		if i > 0 && w.Slot <= b.Workers[i-1].Slot {
			return fmt.Errorf("a snapshot lists slot %d after slot %d, want each once and in order", w.Slot, b.Workers[i-1].Slot)
		}
	}
	return checkPool(b.Pool)
}

func (b WorkerChange) check(messages.Placement) error {
	if err := b.Worker.check(); err != nil {
		return err
	}
	return errors.Join(checkPool(b.Pool), checkText("reason", b.Reason))
}

func (b SnapshotRequest) check(messages.Placement) error { return checkPool(b.Pool) }

func (b Kill) check(messages.Placement) error {
	return errors.Join(checkPool(b.Pool), checkSlot(b.Slot, b.Generation), checkText("by", b.By))
}

func (b Cordon) check(messages.Placement) error {
	if b.Slot != nil && (b.Pool == "" || *b.Slot < 0) {
		return fmt.Errorf("a cordon of slot %d of pool %q names no worker", *b.Slot, b.Pool)
	}
	return errors.Join(checkText("pool", b.Pool), checkText("by", b.By))
}

func (w Worker) check() error {
	if w.State == "" || w.Queued < 0 {
		return fmt.Errorf("worker in slot %d has state %q and %d placements queued, want a state and no negative number",
			w.Slot, w.State, w.Queued)
	}
	return errors.Join(checkSlot(w.Slot, w.Generation), checkPlacement(w.Placement),
		checkText("state", w.State), checkText("grade", w.Grade))
}

func checkSlot(slot messages.Slot, generation messages.Generation) error {
	if slot < 0 || generation < 1 {
		return fmt.Errorf("slot %d generation %d is no worker: want a slot from 0 and a generation from 1", slot, generation)
	}
	return nil
}
