package node

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
)

// Keeper runs a node and, where that is fenced, a new incarnation after it, in the same process and on the same address.
// It is used as a Node is: Start it once, then Stop it once.
type Keeper struct {
	cfg    Config
	fenced chan fencing // holds one
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed once no new incarnation will come; nil before Start

	mu      sync.Mutex
	node    *Node
	returns bool   // node comes after one that was fenced, and is not up yet
	addr    string // where each incarnation listens
}

// fencing says which incarnation gave itself up, and why.
type fencing struct {
	node *Node
	why  string
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
	cfg.Logger, cfg.variables = withUnits(cfg.Logger), &variables{forget: cfg.ForgetEnv}
	k := &Keeper{cfg: cfg, fenced: make(chan fencing, 1)}
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
	cfg, n := k.cfg, (*Node)(nil)
	cfg.Fenced = func(why string) {
		if k.cfg.Fenced != nil {
			k.cfg.Fenced(why)
		}
		select {
		case k.fenced <- fencing{n, why}:
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

// renew makes the next incarnation the present one.
func (k *Keeper) renew(before string) (*Node, error) {
	n, err := k.next(before)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.node, k.returns = n, true
	return n, nil
}

// settled says that the present incarnation has started, or that none will.
func (k *Keeper) settled() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.returns = false
}

// Start brings the first incarnation up, as Node.Start does, or one after it, where that had to give itself up while it
// started.
func (k *Keeper) Start(ctx context.Context) error {
	n, err := k.begin(ctx)
	k.settled()
	if err != nil {
		return err
	}
	if n.Addr() != "" {
		k.cfg.Listen = n.Addr() // the next incarnation is found where this one was
		k.mu.Lock()
		k.addr = n.Addr()
		k.mu.Unlock()
	}
	k.done = make(chan struct{})
	go k.keep()
	return nil
}

func (k *Keeper) begin(ctx context.Context) (*Node, error) {
	n := k.Node()
	for wait := returnMin; ; wait = min(2*wait, returnMax) {
		err := n.Start(ctx)
		if _, fenced := n.member.isFenced(); err == nil || !fenced && !errors.Is(err, errDiedStarting) {
			return n, err
		}
		n.logger.Warn("the node gave itself up while it started, and starts as a new incarnation", "error", err, "wait", wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, err
		case <-k.ctx.Done():
			return nil, err
		}
		if n, err = k.renew(err.Error()); err != nil {
			return nil, err
		}
	}
}

// keep replaces each incarnation that is fenced, until the keeper stops.
func (k *Keeper) keep() {
	defer close(k.done)
	wait, began := returnMin, time.Now()
	for {
		select {
		case f := <-k.fenced:
			if f.node != k.Node() {
				continue // it was given up while it started, and has been replaced
			}
			if time.Since(began) >= returnWell {
				wait = returnMin
			}
			k.replace(f.why, &wait)
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
		n, err := k.renew(why)
		if err == nil {
			err = n.Start(k.ctx)
		}
		if err == nil {
			k.settled()
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
	n, _ := k.present()
	return n
}

// present returns the present incarnation, and whether that is yet to come up.
func (k *Keeper) present() (n *Node, returns bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.node, k.returns
}

// Backend returns the present incarnation's operations.
func (k *Keeper) Backend() api.Backend { return k.Node().Backend() }

// Wait returns the execution once it has its outcome, whichever incarnation sees that, or as it stands when ctx ends.
func (k *Keeper) Wait(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
	n, returns := k.present()
	return k.wait(ctx, id, n, returns, func(ctx context.Context) (messages.Execution, error) { return n.Backend().Wait(ctx, id) })
}

// Submit stores one request and returns the execution, and what waits for it as Wait does. What that returns has the parameters. Whoever
// gets it calls leave.
func (k *Keeper) Submit(ctx context.Context, r submit.Request) (
	e messages.Execution, wait func(context.Context) (messages.Execution, error), leave func(), err error,
) {
	n, returns := k.present()
	stored, awaited, err := n.Backend().SubmitAwaited(ctx, r)
	if err != nil {
		return messages.Execution{}, nil, nil, err
	}
	asked := stored.Execution.Parameters
	wait = func(ctx context.Context) (messages.Execution, error) {
		e, err := k.wait(ctx, stored.Execution.ID, n, returns, awaited.Wait)
		if err == nil && e.Parameters == nil {
			e.Parameters = asked
		}
		return e, err
	}
	return stored.Execution, wait, awaited.Leave, nil
}

// wait waits by an incarnation and, where that is fenced, by those after it.
func (k *Keeper) wait(ctx context.Context, id messages.ExecutionID, n *Node, returns bool, wait func(context.Context) (messages.Execution, error),
) (messages.Execution, error) {
	for again := false; ; again = true {
		if again {
			n, returns = k.present()
			wait = func(ctx context.Context) (messages.Execution, error) { return n.Backend().Wait(ctx, id) }
		}
		e, err := wait(ctx)
		_, fenced := n.member.isFenced()
		goesOn := fenced || returns || again && closedFor(err)
		if !goesOn || err == nil && e.Status.Terminal() {
			return e, err
		}
		select {
		case <-time.After(returnMin):
		case <-ctx.Done():
			return e, err
		case <-k.ctx.Done():
			return e, err
		}
	}
}

// closedFor reports whether a node could not look for the time being.
func closedFor(err error) bool {
	var p *messages.Problem
	return away(err) || errors.As(err, &p) && api.StatusOf(p) == http.StatusServiceUnavailable
}

// Addr is the address that the API listens on, from the first start on; empty without one.
func (k *Keeper) Addr() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.addr
}

// Reload reads the packs again; see Node.Reload.
func (k *Keeper) Reload(ctx context.Context, by string) (api.ReloadReport, error) {
	return k.Node().Reload(ctx, by)
}
