package node

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Stop ends the node in order: within a second it is marked draining and its workers inactive; un-started work is
// handed back, running work finishes for up to the shutdown timeout, and what is left is stopped by the ladder. The
// end of ctx cuts that short: processes are killed, and the store's sweeps of the next boot give their work back.
func (n *Node) Stop(ctx context.Context) error {
	n.stop.Do(func() { n.stopErr = n.stopAll(ctx) })
	return n.stopErr
}

func (n *Node) stopAll(ctx context.Context) error {
	n.phase.draining.Store(true)
	n.phase.leave()
	if _, fenced := n.member.isFenced(); n.phase.started.Load() && !fenced {
		n.system.Send(n.delivery, &actors.Detach{Queue: n.cfg.Broker.RequestsQueue()})
		n.markDraining(ctx)
		n.monitors.past.last(ctx)
		n.reloader.adopted()
		n.reloader.starter.drainAll(ctx)
	}
	var errs []error
	errs = append(errs, n.stopFenced())
	errs = append(errs, n.http.close())
	n.hub.Close()
	errs = append(errs, n.tree.stop())
	n.member.end() // for who waits
	if n.member.guardian != nil {
		errs = append(errs, n.member.guardian.Close())
	}
	n.servers.stop()
	errs = append(errs, n.adapters.closeBroker())
	if n.forest != nil {
		n.forest.cluster.Close()
	}
	n.elsewhere.close()
	errs = append(errs, n.adapters.closeStore(), n.network.close(), n.tracer.Close())
	n.catalog.kits.remove(n.logger)
	if n.member.guardian != nil { // without one no program was started here, and the folder may be in use by the node that has it
		errs = append(errs, clearSecrets(n.cfg.Data))
	}
	errs = append(errs, n.folder.unlock())
	if n.phase.started.Load() {
		n.logger.Info("Worker shutdown complete", "node", n.cfg.Name)
	}
	return errors.Join(errs...)
}

// markDraining tells the store first, so that nobody places anything here.
func (n *Node) markDraining(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	by := ""
	if asked := n.phase.drainedBy.Load(); asked != nil {
		by = *asked
	}
	n.journal.node("draining", "", by, nil)
	if err := n.store.SetNode(limited, n.incarnation, store.NodeDraining); err != nil {
		n.logger.Warn("node not marked draining", "error", err)
	}
	if rows, err := n.store.ListWorkers(limited, ""); err == nil {
		for _, pool := range poolsOf(rows, n.incarnation) { // operators search for the text with an id in it
			first, last := pool[0], pool[len(pool)-1]
			text := "Deregistering worker ID: " + string(first.ID)
			if len(pool) > 1 {
				text += " to " + string(last.ID)
			}
			n.logger.Info(text, "pool", first.Key.Pool, "workers", len(pool))
		}
	}
	n.logger.Info("Worker shutting down gracefully", "node", n.cfg.Name, "timeout", n.cfg.ShutdownTimeout)
}

// poolsOf are the workers of a node by pool, in the order of their slots.
func poolsOf(rows []store.Worker, own messages.Incarnation) (pools [][]store.Worker) {
	rows = slices.DeleteFunc(rows, func(w store.Worker) bool { return w.Key.Incarnation != own })
	slices.SortFunc(rows, func(a, b store.Worker) int {
		return cmp.Or(cmp.Compare(a.Key.Pool, b.Key.Pool), cmp.Compare(a.Key.Slot, b.Key.Slot))
	})
	for len(rows) > 0 {
		n := slices.IndexFunc(rows, func(w store.Worker) bool { return w.Key.Pool != rows[0].Key.Pool })
		if n < 0 {
			n = len(rows)
		}
		pools, rows = append(pools, rows[:n]), rows[n:]
	}
	return pools
}

// stopFenced ends all work of a fenced node: no ladder but its last rung, and no writes but those under way. What its
// processes would have said finds nobody.
func (n *Node) stopFenced() error {
	if _, fenced := n.member.isFenced(); !fenced {
		return nil
	}
	err := n.tree.stop()
	if n.member.guardian != nil {
		err = errors.Join(err, n.member.guardian.Close())
	}
	return err
}
