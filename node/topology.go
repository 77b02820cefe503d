package node

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/troupe-run/troupe/broker"
)

// declareTopology makes what all nodes share. A queue that exists with other arguments, because the settings of the broker
// were changed meanwhile or another Troupe made it, is used as it is: what is in it must not be lost, and nodes of both
// settings may run at once. A queue that the broker cannot use is gone on without. Those queues are returned, each with the
// broker's words. Any other error is returned as it is, an exchange of another kind too, by which nothing would be routed.
func declareTopology(ctx context.Context, b broker.Broker, t broker.Topology) (odd []oddQueue, err error) {
	if err := b.Declare(ctx, broker.Topology{Exchanges: t.Exchanges}); err != nil {
		return nil, err
	}
	for _, q := range t.Queues {
		err := b.Declare(ctx, broker.Topology{Queues: []broker.Queue{q}})
		switch {
		case errors.Is(err, broker.ErrPrecondition):
			odd = append(odd, oddQueue{name: q.Name, why: err.Error()})
		case errors.Is(err, broker.ErrBroken):
			odd = append(odd, oddQueue{name: q.Name, why: err.Error(), broken: true})
		case err != nil:
			return nil, err
		}
	}
	err = b.Declare(ctx, broker.Topology{Bindings: t.Bindings})
	if errors.Is(err, broker.ErrBroken) {
		err = nil // its queue is among the odd ones
	}
	return odd, err
}

// sharedNames are the names of a topology's queues.
func sharedNames(t broker.Topology) map[string]bool {
	names := make(map[string]bool, len(t.Queues))
	for _, q := range t.Queues {
		names[q.Name] = true
	}
	return names
}

// declareBeside makes a bridge's or a worker's topology. What all nodes share was declared before and may have gone since;
// as there, it is used as it is.
func (s *shared) declareBeside(ctx context.Context, t broker.Topology) error {
	var own, common []broker.Queue
	for _, q := range t.Queues {
		if s.names[q.Name] {
			common = append(common, q)
		} else {
			own = append(own, q)
		}
	}
	if len(common) > 0 {
		if _, err := declareTopology(ctx, s.Broker, broker.Topology{Queues: common}); err != nil {
			return err
		}
	}
	t.Queues = own
	return s.Broker.Declare(ctx, t)
}

// oddQueue is a shared queue with other arguments than the configured ones, or one that the broker cannot use.
type oddQueue struct {
	name, why string
	broken    bool
}

// brokenNotes are what a person should know of the queues that the broker cannot use.
func brokenNotes(odd []oddQueue) []string {
	var notes []string
	for _, q := range odd {
		if q.broken {
			notes = append(notes, fmt.Sprintf("the broker cannot use %s, and the node goes on without it: %s", q.name, broker.Unbreak))
		}
	}
	return notes
}

// oddNote is what a person should know of queues with other arguments; empty: there is none.
func oddNote(odd []oddQueue) string {
	var names []string
	for _, q := range odd {
		if !q.broken {
			names = append(names, q.name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("%s exists with other arguments than configured and is used as it is; %s", strings.Join(names, ", "), broker.Migrate)
}

// noteOdd keeps what was found and says each queue once in the log for as long as it stays so.
func (w *watcher) noteOdd(odd []oddQueue) {
	var said map[string]bool
	if before := w.odd.Load(); before != nil {
		said = make(map[string]bool, len(*before))
		for _, q := range *before {
			said[q.name] = true
		}
	}
	for _, q := range odd {
		switch {
		case said[q.name]:
		case q.broken:
			w.broker.logger.Error("the broker cannot use a shared queue; the node goes on without it", "queue", q.name, "to_do", broker.Unbreak)
		default:
			w.broker.logger.Warn("a shared queue exists with other arguments than configured; it is used as it is",
				"queue", q.name, "to_change_it", broker.Migrate, "error", q.why)
		}
	}
	w.odd.Store(&odd)
}

// oddNotes are for /readyz.
func (w *watcher) oddNotes() []string {
	odd := w.odd.Load()
	if odd == nil {
		return nil
	}
	notes := brokenNotes(*odd)
	if note := oddNote(*odd); note != "" {
		notes = append(notes, note)
	}
	return notes
}
