package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
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
	if _, fenced := n.isFenced(); n.phase.started.Load() && !fenced {
		n.system.Send(n.delivery, &actors.Detach{Queue: n.cfg.Broker.RequestsQueue()})
		n.markDraining(ctx)
		n.adopted()
		n.drainPools(ctx)
	}
	var errs []error
	errs = append(errs, n.stopFenced())
	errs = append(errs, n.closeAPI())
	errs = append(errs, n.stopTree())
	n.member.end() // for who waits
	if n.guardian != nil {
		errs = append(errs, n.guardian.Close())
	}
	if n.watching != nil {
		n.watching()
	}
	if n.broker.Broker != nil {
		errs = append(errs, n.broker.Close())
	}
	if n.forest != nil {
		n.forest.cluster.Close()
	}
	errs = append(errs, n.closeStore(), n.network.close())
	n.closeSDK()
	if n.guardian != nil { // without one no program was started here, and the folder may be in use by the node that has it
		errs = append(errs, clearSecrets(n.cfg.Data))
	}
	if n.lock != nil {
		errs = append(errs, n.lock.Close())
	}
	if n.phase.started.Load() {
		n.logger.Info("Worker shutdown complete", "node", n.cfg.Name)
	}
	return errors.Join(errs...)
}

// markDraining tells the store first, so that nobody places anything here.
func (n *Node) markDraining(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := n.store.SetNode(limited, n.incarnation, store.NodeDraining); err != nil {
		n.logger.Warn("node not marked draining", "error", err)
	}
	if rows, err := n.store.ListWorkers(limited, ""); err == nil {
		for i := range rows { // operators search for the text with the id in it
			if rows[i].Key.Incarnation == n.incarnation {
				n.logger.Info("Deregistering worker ID: " + string(rows[i].ID))
			}
		}
	}
	n.logger.Info("Worker shutting down gracefully", "node", n.cfg.Name, "timeout", n.cfg.ShutdownTimeout)
}

// adopted waits for a reload that has begun to take up its packs, which takes closeTimeout at most, so that no pool gets new workers
// once it drains.
func (n *Node) adopted() {
	n.adopting.Lock()
	defer n.adopting.Unlock()
}

// drainPools drains every pool at once and waits for all of them. The ladder of what is stopped at the end takes its
// graces, and a little for the last writes.
func (n *Node) drainPools(ctx context.Context) {
	until := time.Now().Add(n.cfg.ShutdownTimeout)
	limit := n.cfg.ShutdownTimeout + graces(n.cfg.Graces) + 5*time.Second
	ctx, release := n.untilOver(ctx) // the work of a fenced node may not go on
	defer release()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	by := ""
	if who := n.phase.drainedBy.Load(); who != nil {
		by = *who
	}
	var all sync.WaitGroup
	for name, handle := range n.pools.all() {
		all.Go(func() {
			if _, err := actors.Ask[supervisor.Drain, struct{}](ctx, n.system, handle.pid, supervisor.Drain{Until: until, By: by}); err != nil {
				n.logger.Warn("pool did not drain", "pool", name, "error", err)
			}
		})
	}
	all.Wait()
}

func (n *Node) closeAPI() error { return errors.Join(n.http.close(), n.probes.close()) }

// stopTree stops the tree's parts in reverse of their start.
func (n *Node) stopTree() error {
	if n.root.Load() == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for _, name := range []string{"troupe/monitors", "troupe/pools", "troupe/bridges"} {
		pid := n.system.PID(name)
		if _, err := actors.Ask[supervisor.ForgetChild, struct{}](ctx, n.system, n.root.Load(), supervisor.ForgetChild{PID: pid}); err != nil && !errors.Is(err, actors.ErrGone) {
			return err
		}
		if err := n.system.StopAndWait(ctx, pid); err != nil {
			return err
		}
	}
	return n.system.StopAndWait(ctx, n.root.Load())
}

func (n *Node) closeStore() error {
	if n.adapter == nil {
		return nil
	}
	if n.phase.started.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := n.store.SetNode(ctx, n.incarnation, store.NodeDead); err != nil {
			n.logger.Warn("node not deregistered", "error", err)
		}
	}
	return n.store.Close()
}
