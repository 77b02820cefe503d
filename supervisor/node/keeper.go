package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/troupe-run/troupe/supervisor/api"
)

// Keeper runs a node and, where that is fenced, a new incarnation after it, in the same process and on the same address.
// It is used as a Node is: Start it once, then Stop it once.
type Keeper struct {
	cfg    Config
	fenced chan string // holds one
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed once no new incarnation will come; nil before Start

	mu   sync.Mutex
	node *Node
}

// Back-off between two incarnations: one that is fenced right after its start does not come back in a storm.
const (
	returnMin = 250 * time.Millisecond
	returnMax = 30 * time.Second
	// returnWell is how long an incarnation must have run for the next to come back without delay.
	returnWell = time.Minute
)

// NewKeeper checks the configuration and returns a keeper that has started nothing.
func NewKeeper(cfg Config) (*Keeper, error) {
	k := &Keeper{cfg: cfg, fenced: make(chan string, 1)}
	n, err := k.next("")
	if err != nil {
		return nil, err
	}
	k.node = n
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k, nil
}

// next makes an incarnation that says how the one before ended.
func (k *Keeper) next(before string) (*Node, error) {
	cfg := k.cfg
	cfg.Fenced = func(why string) {
		if k.cfg.Fenced != nil {
			k.cfg.Fenced(why)
		}
		select {
		case k.fenced <- why:
		case <-k.ctx.Done():
		}
	}
	n, err := New(cfg)
	if err != nil {
		return nil, err
	}
	n.member.before = before
	return n, nil
}

// Start brings the first incarnation up, as Node.Start does.
func (k *Keeper) Start(ctx context.Context) error {
	n := k.Node()
	if err := n.Start(ctx); err != nil {
		return err
	}
	if n.Addr() != "" {
		k.cfg.Listen = n.Addr() // the next incarnation is found where this one was
	}
	k.done = make(chan struct{})
	go k.keep()
	return nil
}

// keep replaces each incarnation that is fenced, until the keeper stops.
func (k *Keeper) keep() {
	defer close(k.done)
	wait, began := returnMin, time.Now()
	for {
		select {
		case why := <-k.fenced:
			if time.Since(began) >= returnWell {
				wait = returnMin
			}
			k.replace(why, &wait)
			began = time.Now()
		case <-k.ctx.Done():
			return
		}
	}
}

// replace ends the fenced incarnation and brings the next up, trying again with longer and longer waits.
func (k *Keeper) replace(why string, wait *time.Duration) {
	logger := k.Node().logger
	ended, cancel := context.WithCancel(k.ctx)
	cancel() // nothing of a fenced node is waited for
	if err := k.Node().Stop(ended); err != nil {
		logger.Warn("fenced node not stopped in order", "error", err)
	}
	for k.ctx.Err() == nil {
		select {
		case <-time.After(*wait):
		case <-k.ctx.Done():
			return
		}
		*wait = min(2**wait, returnMax)
		n, err := k.next(why)
		if err == nil {
			k.mu.Lock()
			k.node = n
			k.mu.Unlock()
			err = n.Start(k.ctx)
		}
		if err == nil {
			logger.Info("node is back as a new incarnation", "incarnation", n.Incarnation(), "after", why)
			return
		}
		if !errors.Is(err, context.Canceled) {
			logger.Error("node did not come back, trying again", "error", err, "wait", *wait)
		}
	}
}

// Stop ends the node in order, as Node.Stop does, and no new incarnation comes.
func (k *Keeper) Stop(ctx context.Context) error {
	k.cancel()
	if k.done != nil {
		<-k.done
	}
	return k.Node().Stop(ctx)
}

// Node is the present incarnation; one that was fenced, until the next begins to start.
func (k *Keeper) Node() *Node {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.node
}

// Backend returns the present incarnation's operations.
func (k *Keeper) Backend() api.Backend { return k.Node().Backend() }

// Addr is the address that the API listens on; empty without one.
func (k *Keeper) Addr() string { return k.Node().Addr() }

// Reload reads the packs again; see Node.Reload.
func (k *Keeper) Reload(ctx context.Context) (api.ReloadReport, error) { return k.Node().Reload(ctx) }
