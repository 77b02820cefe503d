package link

import (
	"fmt"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/supervisor/part"
	"github.com/troupe-run/troupe/supervisor/router"
)

// wireForm turns reports into what goes over peers, and back: the one place that knows both.
type wireForm struct {
	cfg    *part.Config
	world  actors.World
	halted bool // a server is away, so that no worker takes anything
}

// workerEntry tells how a worker of this node stands. While a server is away it takes nothing.
func (w *wireForm) workerEntry(e *roster.WorkerSeen) wire.PoolWorker {
	age := -time.Millisecond
	if !e.BeatAt.IsZero() {
		age = max(w.world.Now().Sub(e.BeatAt), 0).Truncate(time.Millisecond)
	}
	return wire.PoolWorker{
		Slot: e.Worker.Slot, ID: e.ID, Queue: e.Queue, Generation: e.Generation, Starting: e.Starting,
		Accepts: e.Accepts && !w.halted, Active: e.Active, Broken: e.Broken, Grade: e.Grade.String(), BeatAge: age,
		BeatEvery: e.BeatEvery, Direct: e.Direct,
	}
}

// encode appends what the router on another node is told of an event; nothing, where it is none of its business.
func (w *wireForm) encode(to []wire.PoolEntry, e roster.Event) []wire.PoolEntry {
	switch e := e.(type) {
	case roster.Arrived:
		for i := range e.Candidates {
			to = append(to, candidateEntry(&e.Candidates[i]))
		}
	case roster.WorkerSeen:
		to = append(to, w.workerEntry(&e))
	case roster.WorkerGone:
		to = append(to, wire.PoolWorkerGone{Slot: e.Worker.Slot, Restarts: e.Restarts})
	case roster.Claimed:
		to = append(to, wire.PoolPlacement{Placement: e.Placement, Slot: e.Worker.Slot, Running: true})
	case roster.Ended:
		to = append(to, wire.PoolRunEnded{
			Placement: e.Placement, Took: max(e.Took, 0), Finished: e.Finished, Restored: e.Restored, Fault: e.Fault,
			Unseen: e.Unseen, Session: e.Session,
		})
	case roster.Released:
		released := wire.PoolReleased{Placement: e.Placement}
		if !e.Worker.IsZero() {
			released.Slot = &e.Worker.Slot
		}
		to = append(to, released)
	case roster.Withdrawn:
		to = append(to, wire.PoolWithdrawn{Execution: e.ID})
	}
	return to
}

// decode reads a report of another node before anything of it is taken.
func (w *wireForm) decode(from messages.Incarnation, m *wire.PoolReport) (*router.Report, error) {
	r := &router.Report{
		First: m.First, Last: m.Last, Wake: m.Wake, Events: make([]roster.Event, 0, len(m.Entries)),
	}
	for _, e := range m.Entries {
		switch e := e.(type) {
		case wire.PoolWorker:
			seen, err := w.workerOf(from, &e)
			if err != nil {
				return nil, err
			}
			r.Events = append(r.Events, seen)
		case wire.PoolPlacement:
			if !e.Running {
				r.Delivered = append(r.Delivered, router.Delivered{Placement: e.Placement, Slot: e.Slot})
				continue
			}
			r.Events = append(r.Events, roster.Claimed{Placement: e.Placement, Worker: w.cfg.KeyOf(from, e.Slot)})
		default:
			if event := w.eventOf(from, e); event != nil {
				r.Events = append(r.Events, event)
			}
		}
	}
	return r, nil
}

// eventOf is what an entry tells that is neither of a worker's state nor of what stands on it.
func (w *wireForm) eventOf(from messages.Incarnation, e wire.PoolEntry) roster.Event {
	switch e := e.(type) {
	case wire.PoolWorkerGone:
		return roster.WorkerGone{Worker: w.cfg.KeyOf(from, e.Slot), Restarts: e.Restarts}
	case wire.PoolRunEnded:
		return roster.Ended{
			Placement: e.Placement, Took: e.Took, Finished: e.Finished, Restored: e.Restored, Fault: e.Fault, Unseen: e.Unseen,
			Session: e.Session,
		}
	case wire.PoolReleased:
		released := roster.Released{Placement: e.Placement}
		if e.Slot != nil {
			released.Worker = w.cfg.KeyOf(from, *e.Slot)
		}
		return released
	case wire.PoolWithdrawn:
		return roster.Withdrawn{ID: e.Execution}
	case wire.PoolCandidate:
		return roster.Arrived{Candidates: []messages.Candidate{candidateOf(&e)}}
	}
	return nil
}

func candidateEntry(c *messages.Candidate) wire.PoolEntry {
	return wire.PoolCandidate{
		Execution: c.ID, Seq: c.Seq, Attempt: c.Attempt, Action: c.Action, Version: c.Version, Priority: c.Priority,
		WaitForWorker: c.WaitForWorker, WorkerDeadline: c.WorkerDeadline, Timeout: c.Timeout, Idempotent: c.Idempotent,
	}
}

func candidateOf(e *wire.PoolCandidate) messages.Candidate {
	return messages.Candidate{
		ID: e.Execution, Seq: e.Seq, Attempt: e.Attempt, Action: e.Action, Version: e.Version, Priority: e.Priority,
		WaitForWorker: e.WaitForWorker, WorkerDeadline: e.WorkerDeadline, Timeout: e.Timeout, Idempotent: e.Idempotent,
	}
}

// workerOf reads a worker's entry of another incarnation. Its queue must be that incarnation's own.
func (w *wireForm) workerOf(inc messages.Incarnation, e *wire.PoolWorker) (seen roster.WorkerSeen, err error) {
	grade, err := health.ParseGrade(e.Grade)
	if err != nil {
		return seen, fmt.Errorf("worker in slot %d: %w", e.Slot, err)
	}
	owner, ok := w.cfg.Settings.ParseQueueName(e.Queue)
	if !ok || owner.Incarnation != inc || owner.Pool != w.cfg.Name {
		return seen, fmt.Errorf("worker in slot %d: queue %q is none of its node's for this pool; give all nodes the same prefix", e.Slot, e.Queue)
	}
	seen = roster.WorkerSeen{
		Worker: w.cfg.KeyOf(inc, e.Slot), ID: e.ID, Queue: e.Queue, Generation: e.Generation, Starting: e.Starting,
		Accepts: e.Accepts, Active: e.Active, Broken: e.Broken, Grade: grade, BeatEvery: e.BeatEvery, Direct: e.Direct,
	}
	if e.BeatAge >= 0 {
		seen.BeatAt = w.world.Now().Add(-e.BeatAge)
	}
	return seen, nil
}
