package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/supervisor"
)

// pools are the pools that this node serves now, by name, and the way to speak to them. Any goroutine may use it.
type pools struct {
	system *actors.System // set before a pool is added
	logger hclog.Logger

	mu sync.Mutex
	by map[string]*poolHandle
}

// poolHandle is one pool of this node.
type poolHandle struct {
	pid    *actor.PID
	memory *supervisor.Memory
	// openings are what its router would accept for an offer.
	openings supervisor.Openings
	config   atomic.Pointer[supervisor.PoolConfig]
}

func newPools(logger hclog.Logger) *pools {
	return &pools{logger: logger, by: map[string]*poolHandle{}}
}

func (p *pools) add(name string, handle *poolHandle) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.by[name] = handle
}

// remove takes a pool out and returns it; nil: there was none of the name.
func (p *pools) remove(name string) *poolHandle {
	p.mu.Lock()
	defer p.mu.Unlock()
	handle := p.by[name]
	delete(p.by, name)
	return handle
}

// of returns a pool; nil: there is none of the name.
func (p *pools) of(name string) *poolHandle {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.by[name]
}

// all are the pools as they are now.
func (p *pools) all() map[string]*poolHandle {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.by)
}

// pid is where a pool is reached; nil: there is none of the name.
func (p *pools) pid(name string) *actor.PID {
	if handle := p.of(name); handle != nil {
		return handle.pid
	}
	return nil
}

// Has reports whether the node has a pool of the name.
func (p *pools) Has(name string) bool { return p.of(name) != nil }

// Tell sends a message to a pool, and reports whether there is one of the name.
func (p *pools) Tell(name string, message any) bool {
	pid := p.pid(name)
	if pid != nil {
		p.system.Send(pid, message)
	}
	return pid != nil
}

// TellAll sends a message to every pool.
func (p *pools) TellAll(message any) {
	for _, handle := range p.all() {
		p.system.Send(handle.pid, message)
	}
}

// describeTime is how long pools have for their views.
const describeTime = 2 * time.Second

// DescribeAll asks every pool for its view; one that does not answer in time is left out.
func (p *pools) DescribeAll(ctx context.Context) map[string]supervisor.Description {
	return p.describeAll(ctx, supervisor.Describe{})
}

func (p *pools) describeAll(ctx context.Context, what supervisor.Describe) map[string]supervisor.Description {
	limited, cancel := context.WithTimeout(ctx, describeTime)
	defer cancel()
	var mu sync.Mutex
	views := map[string]supervisor.Description{}
	var asks sync.WaitGroup
	for name, handle := range p.all() {
		asks.Go(func() {
			d, err := actors.Ask[supervisor.Describe, supervisor.Description](limited, p.system, handle.pid, what)
			if errors.Is(err, actors.ErrGone) {
				return // it has just stopped, with its node or by a reload
			} else if err != nil {
				p.logger.Warn("pool does not answer", "pool", name, "error", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			views[name] = d
		})
	}
	asks.Wait()
	return views
}

// Describe asks one pool for its view.
func (p *pools) Describe(ctx context.Context, name string) (supervisor.Description, error) {
	return askPool[supervisor.Describe, supervisor.Description](ctx, p, name, supervisor.Describe{Waits: true})
}

// Why asks a pool what an execution waits for.
func (p *pools) Why(ctx context.Context, name string, of supervisor.WhyWaiting) (supervisor.WhyAnswer, error) {
	return askPool[supervisor.WhyWaiting, supervisor.WhyAnswer](ctx, p, name, of)
}

// askPool asks a pool. The error is ErrGone where there is none of the name.
func askPool[Q, A any](ctx context.Context, p *pools, name string, question Q) (A, error) {
	pid := p.pid(name)
	if pid == nil {
		var none A
		return none, fmt.Errorf("ask pool %s: %w", name, actors.ErrGone)
	}
	return actors.Ask[Q, A](ctx, p.system, pid, question)
}

// Probe has a worker probed and waits for the end of that.
func (p *pools) Probe(ctx context.Context, name string, slot messages.Slot) error {
	answer, question := actors.NewQuestion[struct{}, string](struct{}{})
	p.Tell(name, &supervisor.ProbeWorker{Slot: slot, Answer: question})
	_, err := answer(ctx)
	return err
}

// Inspect asks a worker's actor for its lifecycle.
func (p *pools) Inspect(ctx context.Context, id string) (actors.Inspection, error) {
	return actors.Ask[actors.Inspect, actors.Inspection](ctx, p.system, p.system.PID(id), actors.Inspect{})
}
