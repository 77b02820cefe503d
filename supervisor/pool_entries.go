package supervisor

import (
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/roster"
)

// workerEntry tells how a worker of this node stands. While a server is away it takes nothing.
func (p *Pool) workerEntry(e *roster.WorkerSeen, now time.Time) wire.PoolWorker {
	age := -time.Millisecond
	if !e.BeatAt.IsZero() {
		age = max(now.Sub(e.BeatAt), 0).Truncate(time.Millisecond)
	}
	queue := ""
	if s := p.slot(e.Worker.Slot); s != nil {
		queue = p.queueOf(s)
	}
	return wire.PoolWorker{
		Slot: e.Worker.Slot, ID: e.ID, Queue: queue, Generation: e.Generation, Starting: e.Starting,
		Accepts: e.Accepts && p.haltedAt.IsZero(), Active: e.Active, Broken: e.Broken, Grade: e.Grade.String(), BeatAge: age,
		BeatEvery: e.BeatEvery,
	}
}

// entryOf is what the router is told of an event; nil: nothing, for it is this node's own business, or another's.
func (p *Pool) entryOf(e roster.Event) wire.PoolEntry {
	switch e := e.(type) {
	case roster.WorkerGone:
		if e.Worker.Incarnation == p.cfg.Incarnation {
			return wire.PoolWorkerGone{Slot: e.Worker.Slot, Restarts: e.Restarts}
		}
	case roster.Claimed:
		if e.Worker.Incarnation == p.cfg.Incarnation {
			return wire.PoolPlacement{Placement: e.Placement, Slot: e.Worker.Slot, Running: true}
		}
	case roster.Ended:
		return wire.PoolRunEnded{
			Placement: e.Placement, Took: max(e.Took, 0), Finished: e.Finished, Restored: e.Restored, Fault: e.Fault,
			Unseen: e.Unseen, Session: e.Session,
		}
	case roster.Released:
		return wire.PoolReleased{Placement: e.Placement}
	case roster.Withdrawn:
		return wire.PoolWithdrawn{Execution: e.ID}
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

// share is one worker of a follower.
type share struct {
	seen  roster.WorkerSeen
	queue string
}

// shareOf reads a worker's entry of another incarnation. Its queue must be that incarnation's own.
func (p *Pool) shareOf(inc messages.Incarnation, e *wire.PoolWorker, now time.Time) (*share, error) {
	grade, err := health.ParseGrade(e.Grade)
	if err != nil {
		return nil, fmt.Errorf("worker in slot %d: %w", e.Slot, err)
	}
	owner, ok := p.cfg.Settings.ParseQueueName(e.Queue)
	if !ok || owner.Incarnation != inc || owner.Pool != p.cfg.Name {
		return nil, fmt.Errorf("worker in slot %d: queue %q is none of its node's for this pool; give all nodes the same prefix", e.Slot, e.Queue)
	}
	s := &share{queue: e.Queue, seen: roster.WorkerSeen{
		Worker: messages.WorkerKey{Incarnation: inc, Pool: p.cfg.Name, Slot: e.Slot}, ID: e.ID, Generation: e.Generation,
		Starting: e.Starting, Accepts: e.Accepts, Active: e.Active, Broken: e.Broken, Grade: grade,
		BeatEvery: e.BeatEvery,
	}}
	if e.BeatAge >= 0 {
		s.seen.BeatAt = now.Add(-e.BeatAge)
	}
	return s, nil
}
