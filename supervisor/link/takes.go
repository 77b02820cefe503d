package link

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor/part"
)

// An execution that was claimed as it was stored runs for the store, and its worker knows nothing of it. So it is given to the worker by a
// Take or, where that worker is gone, given back as never started. Nobody else does either: the worker's claim is in the row.

// take is what a worker was given by a Take.
type take struct {
	slot   messages.Slot
	number uint64
}

// Take gives a worker of this node what was claimed for it as it was stored, and reports that it runs.
func (l *Link) Take(c *store.Claim, e *messages.Execution) {
	pl, slot := e.Placement(), c.Worker.Slot
	l.takes++
	if !l.workers.Take(slot, c.Generation, &actors.Take{Execution: e, Number: l.takes}) {
		l.neverStarted(pl, c.Worker, "its worker was gone before it was stored", "")
		return
	}
	l.running[pl], l.taken[pl] = slot, take{slot, l.takes}
	l.tellClaimed(roster.Claimed{Placement: pl, Worker: c.Worker})
}

// GiveBackUntaken gives back what a worker was given after the last Take that has come to it.
func (l *Link) GiveBackUntaken(n messages.Slot, last uint64, by string) {
	for pl, t := range l.taken {
		if t.slot != n {
			continue
		}
		delete(l.taken, pl)
		if t.number > last {
			l.neverStarted(pl, l.Config.KeyOf(l.Config.Incarnation, n), "its worker ended", by)
		}
	}
}

func (l *Link) neverStarted(pl messages.Placement, worker messages.WorkerKey, why, by string) {
	l.Record(actors.Item{Change: actors.NeverStarted(pl, why, by), Worker: worker})
}

// recalls are the times between the looks for an execution of which nobody knows whether it was stored. A server ends its statement
// within 5 s, so the last look comes when it is long over.
var recalls = []time.Duration{time.Second, 5 * time.Second, 30 * time.Second}

// Recall gives back what was perhaps stored with its claim: nobody has begun it.
func (l *Link) Recall(c *store.Claim) { l.recall(c, recalls) }

func (l *Link) recall(c *store.Claim, again []time.Duration) {
	l.World.Beside(part.StoreTimeout, func(ctx context.Context) func() {
		e, err := l.Config.Store.Get(ctx, c.ID)
		return func() { l.recalled(c, again, &e, err) }
	})
}

// recalled gives an execution back that stands as it was stored. One that is not there may still come, and one that could not be read
// is read again for as long as the store is away.
func (l *Link) recalled(c *store.Claim, again []time.Duration, e *messages.Execution, err error) {
	switch {
	case err == nil:
		if e.Status.Started() && e.Attempt == c.Attempt && e.Worker == c.Worker && e.Generation == c.Generation {
			l.neverStarted(e.Placement(), c.Worker, "nobody knew whether it was stored", "")
		}
	case !errors.Is(err, store.ErrNotFound):
		l.Config.Logger.Warn("execution that was perhaps stored not read, reading again", "execution", c.ID, "error", err)
		l.World.After(l.RetryAfter(), func() { l.recall(c, again) })
	case len(again) > 0:
		l.World.After(again[0], func() { l.recall(c, again[1:]) })
	}
}
