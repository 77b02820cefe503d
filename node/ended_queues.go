package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/runtime"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor/workers"
)

const (
	// queuesMax bounds the queues that one round looks at.
	queuesMax = 500
	// queueTime bounds what is done with one of them.
	queueTime = 5 * time.Second
	// queueErrorsMax bounds the errors that one round meets. A queue that fails holds up no other.
	queueErrorsMax = 3
)

// endedQueues removes the queues of incarnations that are dead. A queue would go by itself after twice its TTL; but a
// quorum queue takes files of the broker, and a node that is killed again and again would use them up. Only the monitor's
// round uses it, one at a time.
type endedQueues struct {
	store    store.Store
	broker   broker.Broker // as its adapter is
	settings broker.Settings
	runtimes runtime.Set
	logger   hclog.Logger
	// of has the incarnations that died of late, and of each the queues that are known to be gone.
	of map[messages.Incarnation]*goneQueues
}

type goneQueues struct {
	names map[string]bool
	all   bool // none is left
}

// round is a round of the monitor "queues". To delete a queue drops what is in it without a dead letter. So nothing is
// deleted before all work of dead incarnations has been placed again, and only what is empty and has no consumer: a
// frozen process may still hold its consumer.
func (e *endedQueues) round(ctx context.Context) error {
	if !e.broker.Status().Up {
		return nil
	}
	nodes, err := e.store.ListNodes(ctx)
	if err != nil {
		return err
	}
	now, err := e.store.Now(ctx)
	if err != nil {
		return err
	}
	ended := e.pending(nodes, now, e.queueLife())
	if len(ended) == 0 {
		return nil
	}
	orphans, err := e.store.Overdue(ctx, store.OverdueQuery{Deadline: store.Orphaned, Limit: 1})
	if err != nil || len(orphans) > 0 {
		return err // the next round, after the rescue
	}
	room, failed := queuesMax, []error(nil)
	for _, inc := range ended {
		if room <= 0 || len(failed) >= queueErrorsMax {
			break
		}
		looked, err := e.removeQueues(ctx, inc, room)
		if room -= looked; err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// queueLife is how long after the last beat of its incarnation a queue may still be there: then its x-expires has passed.
func (e *endedQueues) queueLife() time.Duration {
	for _, q := range e.settings.WorkQueue("any").Queues {
		return q.Expires + time.Minute
	}
	return 0
}

// pending are the dead incarnations whose queues may be left. It forgets those that are too old to have any.
func (e *endedQueues) pending(nodes []store.Node, now time.Time, life time.Duration) []messages.Incarnation {
	var ended []messages.Incarnation
	known := map[messages.Incarnation]*goneQueues{}
	for i := range nodes {
		n := &nodes[i]
		if n.State != store.NodeDead || now.Sub(n.BeatAt) > life {
			continue
		}
		gone := e.of[n.Incarnation]
		if gone == nil {
			gone = &goneQueues{names: map[string]bool{}}
		}
		if known[n.Incarnation] = gone; !gone.all {
			ended = append(ended, n.Incarnation)
		}
	}
	e.of = known
	return ended
}

// removeQueues removes those of an incarnation's queues that are empty and unused, and returns how many it looked at.
func (e *endedQueues) removeQueues(ctx context.Context, inc messages.Incarnation, room int) (looked int, err error) {
	had, err := e.store.EndedWorkers(ctx, inc)
	if err != nil {
		return 0, err
	}
	names, gone, removed := workers.EndedQueues(e.settings, e.runtimes, had), e.of[inc], 0
	var failed []error
	for _, name := range names {
		if looked == room || len(failed) == queueErrorsMax {
			break
		}
		if gone.names[name] {
			continue
		}
		looked++
		is, deleted, err := e.removeQueue(ctx, name)
		if err != nil {
			failed = append(failed, err)
		}
		if is {
			gone.names[name] = true
		}
		if deleted {
			removed++
		}
	}
	left := len(names) - len(gone.names)
	if removed > 0 {
		e.logger.Info("queues of an ended node removed", "incarnation", inc, "queues", removed, "left", left)
	}
	if left == 0 {
		gone.all, gone.names = true, map[string]bool{}
	}
	return looked, errors.Join(failed...)
}

// removeQueue deletes a queue that is empty and has no consumer. It asks for the counts first: RabbitMQ refuses "if empty"
// and "if unused" on quorum queues, at the price of the connection. Gone: there is no such queue any more.
func (e *endedQueues) removeQueue(ctx context.Context, name string) (gone, deleted bool, err error) {
	limited, cancel := context.WithTimeout(ctx, queueTime)
	defer cancel()
	info, err := e.broker.Inspect(limited, name)
	switch {
	case errors.Is(err, broker.ErrNoQueue):
		return true, false, nil
	case errors.Is(err, broker.ErrBroken):
		return false, false, nil // it is tried again with the adapter's next trial
	case err != nil:
		return false, false, fmt.Errorf("queue of an ended node: %w", err)
	case info.Ready > 0 || info.Consumers > 0:
		return false, false, nil
	}
	if err := e.broker.Delete(limited, name); err != nil {
		return false, false, fmt.Errorf("queue of an ended node: %w", err)
	}
	return true, true, nil
}
