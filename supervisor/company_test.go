package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/mask"
	"github.com/troupe-run/troupe/rules/restart"
)

// company starts programs that answer what they are asked, without a process.
type company struct {
	mu     sync.Mutex
	refuse error // of each start
	mute   bool  // programs do not answer execute
	asked  int   // executes that were not answered
	living map[*puppet]bool
	least  int // living at once, since the test set it
	total  int
}

func newCompany() *company { return &company{living: map[*puppet]bool{}} }

func (c *company) Start(_ context.Context, _ process.Spec, sink func(process.Event)) (process.Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse != nil {
		return nil, c.refuse
	}
	p := &puppet{company: c, sink: sink}
	c.living[p] = true
	c.total++
	return p, nil
}

func (c *company) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func (c *company) alive() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.living)
}

// puppet is one program.
type puppet struct {
	company *company
	sink    func(process.Event)
	mu      sync.Mutex
	id      uint64
	gone    sync.Once
}

func (p *puppet) Send(command string, _ any) (uint64, error) {
	p.mu.Lock()
	p.id++
	id := p.id
	p.mu.Unlock()
	p.company.mu.Lock()
	mute := p.company.mute && command == "execute"
	if mute {
		p.company.asked++
	}
	p.company.mu.Unlock()
	switch {
	case command == "hello":
		go p.sink(process.Reply{ID: id, Result: json.RawMessage(`{"protocol":1,"capabilities":{"cancel":true}}`)})
	case command == "shutdown":
		go p.exit(0)
	case !mute:
		go p.sink(process.Reply{ID: id, Result: json.RawMessage(`1`)})
	}
	return id, nil
}

func (p *puppet) exit(code int) {
	p.gone.Do(func() {
		p.company.mu.Lock()
		delete(p.company.living, p)
		p.company.least = min(p.company.least, len(p.company.living))
		p.company.mu.Unlock()
		p.sink(process.Exited{Exit: process.Exit{Code: code, Cause: process.CauseExit}})
	})
}

func (p *puppet) Pid() int                        { return 0x3fffff + 1 } // above any process's
func (p *puppet) Terminate()                      { go p.exit(143) }
func (p *puppet) Kill()                           { go p.exit(137) }
func (p *puppet) CloseInput()                     { go p.exit(0) }
func (p *puppet) TakeOutput() messages.Output     { return messages.Output{} }
func (p *puppet) ClearOutput()                    {}
func (p *puppet) Mask(*mask.Set)                  {}
func (p *puppet) StderrTail() string              { return "" }
func (p *puppet) Vitals() (process.Vitals, error) { return process.Vitals{State: 'S'}, nil }

// employ builds a pool of processes.
func employ(t *testing.T, c *company, workers int, change func(*PoolConfig)) *house {
	t.Helper()
	return build(t, "python", workers, actors.LongLivedRunner(
		&actors.Outfit{Launcher: c}, &actors.Program{Argv: []string{"python3"}}), func(cfg *PoolConfig) {
		cfg.Restart = restart.Policy{BackoffMin: 10 * time.Millisecond, BackoffMax: 50 * time.Millisecond}
		if change != nil {
			change(cfg)
		}
	})
}

// The first round of starts ends, and the pool is broken, when every start has failed, however many there are; it
// recovers by itself.
func TestPoolWhoseWorkersDoNotStart(t *testing.T) {
	t.Parallel()
	c := newCompany()
	c.refuse = errors.New("no interpreter")
	const many = 25 // more than may be starting at once
	h := employ(t, c, many, nil)
	soon(t, func() bool { d := h.describe(); return d.Started && d.State == restart.Broken }, "it must be seen to be broken")
	require.Contains(t, h.describe().Broken, "no interpreter")
	ids := h.submit(5, nil)
	c.set(func() { c.refuse = nil })
	h.ready(many)
	soon(t, func() bool { return h.describe().State != restart.Broken }, "it must recover")
	h.all(ids, messages.Completed)
	h.empty()
	require.Zero(t, c.alive())
}

// What runs when its process dies is abandoned; the slot goes on, and no process is left over.
func TestPoolLosesAProcess(t *testing.T) {
	t.Parallel()
	c := newCompany()
	h := employ(t, c, 2, nil)
	h.ready(2)
	c.set(func() { c.mute = true })
	never, again := h.submit(1, nil), h.submit(1, idempotent)
	soon(t, func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.asked == 2 }, "both must run")
	c.set(func() {
		c.mute = false
		for p := range c.living {
			go p.exit(9)
		}
	})
	h.all(never, messages.Abandoned)
	h.all(again, messages.Completed)
	require.Equal(t, "exit status 9", h.get(never[0]).Error.Exit)
	h.empty()
	require.Zero(t, c.alive())
}

// A worker that is stopped out of turn while its process starts must not leave the process behind.
func TestPoolLeavesNoProcessBehind(t *testing.T) {
	t.Parallel()
	c := newCompany()
	h := employ(t, c, 8, nil)
	for _, slot := range []string{"0.1", "1.1", "2.1", "3.1"} {
		h.crash("top/pool/" + slot)
	}
	h.crash("top/pool")
	require.NoError(t, h.system.StopAndWait(t.Context(), h.system.PID("top")))
	soon(t, func() bool { return c.alive() == 0 }, "no process may be left")
}

// A new version replaces the workers one by one: the next is ready before the old one leaves.
func TestPoolReplacesItsWorkers(t *testing.T) {
	t.Parallel()
	c := newCompany()
	h := employ(t, c, 4, nil)
	h.ready(4)
	ids := h.submit(100, nil)
	c.set(func() { c.least = 4 })
	next := h.config
	next.Fingerprint = "2"
	h.system.Send(h.pid, &Replace{Config: next})
	soon(t, func() bool {
		for _, w := range h.describe().Workers {
			if w.Generation != 2 {
				return false
			}
		}
		return true
	}, "every worker must be replaced")
	h.all(ids, messages.Completed)
	soon(t, func() bool { return c.alive() == 4 }, "the old ones must be gone")
	require.Equal(t, 8, c.total)
	c.set(func() { require.GreaterOrEqual(t, c.least, 4, "the next is ready before the old one leaves") })
	for _, w := range h.describe().Workers {
		require.Zero(t, w.Restarts, "a planned replacement is no failure")
	}
	require.Equal(t, restart.Steady, h.describe().State)
	h.empty()
	require.Zero(t, c.alive())
}

// A view of the workers that are used leaves out those that have done nothing.
func TestPoolDescribesTheUsedWorkers(t *testing.T) {
	t.Parallel()
	h := employ(t, newCompany(), 4, nil)
	h.ready(4)
	used := func() []WorkerState {
		d, err := actors.Ask[Describe, Description](t.Context(), h.system, h.pid, Describe{Used: true})
		require.NoError(t, err)
		require.Equal(t, restart.Steady, d.State)
		return d.Workers
	}
	require.Empty(t, used())
	h.all(h.submit(1, nil), messages.Completed)
	soon(t, func() bool { return len(used()) == 1 }, "one has run something")
	require.EqualValues(t, 1, used()[0].Report.TotalExecutions)
	require.Len(t, h.describe().Workers, 4)
}

// A replacement that does not start leaves the old worker where it is, and is not tried again at once.
func TestPoolReplacementFails(t *testing.T) {
	t.Parallel()
	c := newCompany()
	h := employ(t, c, 2, nil)
	h.ready(2)
	c.set(func() { c.refuse = errors.New("disk full") })
	next := h.config
	next.Fingerprint = "2"
	h.system.Send(h.pid, &Replace{Config: next})
	soon(t, func() bool {
		for _, w := range h.describe().Workers {
			if w.LastFailure == "" {
				return false
			}
		}
		return true
	}, "both must have been tried")
	for _, w := range h.describe().Workers {
		require.Equal(t, messages.Generation(1), w.Generation)
		require.Contains(t, w.LastFailure, "disk full")
	}
	h.all(h.submit(4, nil), messages.Completed)
	h.empty()
	generations, _ := h.pools[0].memory.Left()
	require.Len(t, generations, 2)
	for _, generation := range generations {
		require.LessOrEqual(t, int(generation), 2, "one try each within the wait")
	}
}

// A worker that has run as much as it may takes no more, also where its replacement does not start: then its slot starts
// again with the delays of any other failure.
func TestPoolWhoseReplacementsFailKeepsToTheRunsOfAWorker(t *testing.T) {
	t.Parallel()
	c := newCompany()
	h := employ(t, c, 2, func(cfg *PoolConfig) { cfg.Worker.RunsMax = 2 })
	h.ready(2)
	c.set(func() { c.refuse = errors.New("disk full") })
	h.all(h.submit(4, nil), messages.Completed)
	soon(t, func() bool { return h.describe().State != restart.Steady && c.alive() == 0 }, "both are gone and cannot be started")
	waiting := h.submit(2, nil)
	c.set(func() { c.refuse = nil })
	h.all(waiting, messages.Completed)
	h.empty()
}

// The number of workers follows the configuration, up and down and up again; a pool that outgrows queues of its own
// shares one.
func TestPoolIsResized(t *testing.T) {
	t.Parallel()
	c := newCompany()
	h := employ(t, c, 2, nil)
	h.ready(2)
	for _, workers := range []int{5, 1, 3, 102, 2} {
		next := h.config
		next.Workers = workers
		h.system.Send(h.pid, &Replace{Config: next})
		h.ready(workers)
		soon(t, func() bool { return c.alive() == workers }, "so many processes", workers)
		soon(t, func() bool { return len(h.describe().Seen) == workers }, "so many in placement", workers)
		h.all(h.submit(workers, nil), messages.Completed)
		require.Len(t, h.describe().Workers, workers)
	}
	h.empty()
	require.Zero(t, c.alive())
}

// A slot that is given up while its worker fails is not held against the pool.
func TestPoolShrinksWhileItIsBroken(t *testing.T) {
	t.Parallel()
	c := newCompany()
	h := employ(t, c, 1, nil)
	h.ready(1)
	c.set(func() { c.refuse = errors.New("no") })
	next := h.config
	next.Workers = 4
	h.system.Send(h.pid, &Replace{Config: next})
	soon(t, func() bool { return h.describe().State == restart.BackingOff }, "the new slots fail")
	next.Workers = 1
	h.system.Send(h.pid, &Replace{Config: next})
	soon(t, func() bool { return h.describe().State == restart.Steady }, "they no longer count")
	h.ready(1)
	h.empty()
}
