package supervisor

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/memory"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/runtime"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/sqlite"
)

func TestMain(m *testing.M) {
	// The library counts dead letters in windows of a second, one goroutine each.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/asynkron/protoactor-go/actor.NewDeadLetter.NewThrottle.func4.1"))
}

func soon(t *testing.T, holds func() bool, what string, about ...any) {
	t.Helper()
	require.Eventually(t, holds, 30*time.Second, 3*time.Millisecond, append([]any{what}, about...)...)
}

// gated is a store whose transactions can be held up.
type gated struct {
	store.Store
	mu    sync.Mutex
	gate  chan struct{}
	blind bool          // Due waits for the gate too
	lives chan struct{} // Live waits for it; nil: it does not
	reads *heldReads    // Live says that it has read, and waits for the answer; nil: it does not
	nodes []store.Node
	binds chan struct{} // Unbind waits for it; nil: it does not

	claims, refused atomic.Int64 // claims that came, and those that found something else
	held            atomic.Int64 // transactions that wait for the gate
}

// holdLive has every Live wait until the returned function is called.
func (g *gated) holdLive() (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	held := make(chan struct{})
	g.lives = held
	return sync.OnceFunc(func() { close(held) })
}

// Live implements store.Store.
func (g *gated) Live(ctx context.Context, pool string) ([]messages.Execution, error) {
	g.mu.Lock()
	held := g.lives
	g.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	live, err := g.Store.Live(ctx, pool)
	g.mu.Lock()
	reads := g.reads
	g.mu.Unlock()
	if reads != nil {
		select {
		case reads.came <- struct{}{}:
			<-reads.answer
		case <-ctx.Done(): // one more than the test asked for, of a pool that has ended
		}
	}
	return live, err
}

// heldReads are reads of Live that have read and do not answer yet.
type heldReads struct{ came, answer chan struct{} }

// holdAnswer has the next looks at what is live, so many, read when the first returned function is called, which waits for that,
// and answer at the second.
func (g *gated) holdAnswer(count int) (read, answer func()) {
	release := g.holdLive()
	g.mu.Lock()
	defer g.mu.Unlock()
	reads := &heldReads{make(chan struct{}), make(chan struct{})}
	g.reads = reads
	read = func() {
		release()
		for range count {
			<-reads.came
		}
	}
	answer = func() {
		g.mu.Lock()
		g.reads = nil
		g.mu.Unlock()
		close(reads.answer)
	}
	return read, answer
}

// holdUnbind has every Unbind wait until the returned function is called.
func (g *gated) holdUnbind() (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	held := make(chan struct{})
	g.binds = held
	return sync.OnceFunc(func() { close(held) })
}

// Unbind implements store.Store.
func (g *gated) Unbind(ctx context.Context, bindings []store.Binding) (int, error) {
	g.mu.Lock()
	held := g.binds
	g.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return g.Store.Unbind(ctx, bindings)
}

// Due implements store.Store.
func (g *gated) Due(ctx context.Context, q store.DueQuery) (store.DuePage, error) {
	g.mu.Lock()
	gate, blind := g.gate, g.blind
	g.mu.Unlock()
	if gate != nil && blind {
		select {
		case <-gate:
		case <-ctx.Done():
			return store.DuePage{}, ctx.Err()
		}
	}
	return g.Store.Due(ctx, q)
}

// Apply implements store.Store.
func (g *gated) Apply(ctx context.Context, changes []store.Change) ([]store.Result, error) {
	g.mu.Lock()
	gate := g.gate
	g.mu.Unlock()
	for _, c := range changes {
		if _, claims := c.(*store.Claim); claims {
			g.claims.Add(1)
		}
	}
	if gate != nil {
		g.held.Add(1)
		defer g.held.Add(-1)
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	results, err := g.Store.Apply(ctx, changes)
	for i := range results {
		if _, claims := changes[i].(*store.Claim); claims && results[i].Verdict == store.Stale {
			g.refused.Add(1)
		}
	}
	return results, err
}

// Join, SetNode and ListNodes know of several nodes, though one alone can use the file: whoever has joined lives until it
// is said to be dead.
func (g *gated) Join(ctx context.Context, n store.Node, lease time.Duration) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.nodes = append(g.nodes, n)
	if len(g.nodes) > 1 {
		return nil
	}
	return g.Store.Join(ctx, n, lease)
}

// SetNode implements store.Store.
func (g *gated) SetNode(_ context.Context, inc messages.Incarnation, state store.NodeState) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.nodes {
		if g.nodes[i].Incarnation == inc {
			g.nodes[i].State = state
		}
	}
	return nil
}

// ListNodes implements store.Store.
func (g *gated) ListNodes(context.Context) ([]store.Node, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.nodes), nil
}

func (g *gated) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gate = make(chan struct{})
}

func (g *gated) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gate != nil {
		close(g.gate)
	}
	g.gate, g.blind = nil, false
}

// shut closes the store's gate, for looks at what is due too, while the pool has none under way.
func (h *house) shut() {
	h.t.Helper()
	soon(h.t, func() bool {
		h.store.close()
		h.store.mu.Lock()
		h.store.blind = true
		h.store.mu.Unlock()
		if !h.describe().Router.Loading {
			return true
		}
		h.store.open()
		return false
	}, "the pool must have no look at the store under way")
}

// house is one pool with all that it stands on: a store, a broker, a recorder and a delivery bridge.
type house struct {
	t      *testing.T
	system *actors.System
	store  *gated
	broker *memory.Broker
	config PoolConfig
	pid    *actor.PID
	guest  bool // in another's house: the store and the broker are that one's
	mu     sync.Mutex
	pools  []*Pool // each that was made
}

// build starts a pool below a group, which starts it again when it fails.
func build(t *testing.T, runtime messages.Runtime, workers int, runner func(*actors.WorkerConfig, messages.WorkerID, messages.Generation) actors.Runner, change func(*PoolConfig)) *house {
	t.Helper()
	opened, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "troupe.db")})
	require.NoError(t, err)
	h := &house{t: t, store: &gated{Store: opened}, broker: memory.New(memory.Config{})}
	require.NoError(t, h.broker.Declare(t.Context(), broker.Settings{}.Shared()))
	h.furnish("node", runtime, workers, runner, change)
	return h
}

// specOf is the Spec of one of Troupe's runtimes.
func specOf(name messages.Runtime) runtime.Spec {
	spec, _ := runtime.All().Of(name)
	return *spec
}

// furnish starts the pool of one node.
func (h *house) furnish(name string, runtime messages.Runtime, workers int, runner func(*actors.WorkerConfig, messages.WorkerID, messages.Generation) actors.Runner, change func(*PoolConfig)) {
	h.t.Helper()
	h.system = actors.NewSystem(hclog.NewNullLogger())
	h.t.Cleanup(h.tearDown)
	incarnation := messages.NewIncarnation()
	require.NoError(h.t, h.store.Join(h.t.Context(), store.Node{Incarnation: incarnation, Name: name, State: store.NodeActive}, 0))
	action := &messages.Action{Ref: "act", Pool: "pool", Entrypoint: "f", Command: []string{"cmd"}}
	h.config = PoolConfig{
		System: h.system, Store: h.store, Broker: h.broker, Logger: hclog.NewNullLogger(), Name: "pool", Runtime: specOf(runtime),
		Node: name, Incarnation: incarnation, Workers: workers, ClaimTimeout: 15 * time.Second, HealthInterval: -1,
		EchoEvery: -1, BeatEvery: 10 * time.Second, Fingerprint: "1",
		Recorder: h.system.PID("top/recorder"), Delivery: h.system.PID("top/delivery"),
		Worker: actors.WorkerConfig{
			Logger: hclog.NewNullLogger(), Feeds: actors.NewFeeds(), Runner: runner, InitTimeout: 30 * time.Second,
			ProbeTimeout: 5 * time.Second, RetryDisabled: true,
			Graces: process.Graces{Cancel: 10 * time.Second, Shutdown: 10 * time.Second, Terminate: 10 * time.Second},
			Action: func(ref, _ string) (*messages.Action, bool) { return action, ref == "act" },
		},
	}
	if change != nil {
		change(&h.config)
	}
	h.pid = h.system.PID("top/pool")
	h.raise()
}

// raise spawns the tree.
func (h *house) raise() {
	h.t.Helper()
	memory, backlog := &Memory{}, &actors.Backlog{}
	outcomes := actors.NewOutcomes()
	top := NewGroup(GroupConfig{System: h.system, Name: "top", Logger: hclog.NewNullLogger(), Children: []ChildSpec{
		func() actors.Child {
			return actors.NewRecorder(actors.RecorderConfig{
				System: h.system, Store: h.store, Outcomes: outcomes, Logger: hclog.NewNullLogger(),
				Backlog: backlog,
			})
		},
		func() actors.Child {
			return actors.NewDelivery(actors.DeliveryConfig{System: h.system, Broker: h.broker, Logger: hclog.NewNullLogger()})
		},
		func() actors.Child {
			child := NewPool(h.config, memory, &Openings{})
			made := child.New
			child.New = func() actor.Actor {
				pool := made().(*Pool)
				h.mu.Lock()
				defer h.mu.Unlock()
				h.pools = append(h.pools, pool)
				return pool
			}
			return child
		},
		func() actors.Child {
			return actors.NewMonitor(actors.MonitorConfig{
				System: h.system, Name: "claims", Every: 200 * time.Millisecond, Do: h.sweep, Logger: hclog.NewNullLogger(),
			})
		},
	}})
	_, err := h.system.Spawn(h.system, top)
	require.NoError(h.t, err)
	soon(h.t, func() bool { _, live := h.system.Registry.Get("top/pool"); return live }, "the pool must live")
}

// sweep takes back what was not claimed in time, as a node does.
func (h *house) sweep(ctx context.Context) error {
	late, err := h.store.Overdue(ctx, store.OverdueQuery{Deadline: store.ClaimBy, Limit: 100})
	for i := range late {
		h.system.Send(h.config.Recorder, &actors.Record{Pool: h.pid, Items: []actors.Item{{Change: &store.TakeBack{
			ID: late[i].ID, Attempt: late[i].Attempt, Reason: "claim_timeout",
		}}}})
	}
	return err
}

func (h *house) tearDown() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	require.NoError(h.t, h.system.StopAndWait(ctx, h.system.PID("top")))
	require.Zero(h.t, h.system.Registry.Len())
	if h.guest {
		return
	}
	require.NoError(h.t, h.broker.Close())
	require.NoError(h.t, h.store.Close())
}

// submit stores n executions of the action and wakes the pool.
func (h *house) submit(n int, change func(*messages.Execution)) []messages.ExecutionID {
	h.t.Helper()
	ids := h.keep(n, change)
	h.system.Send(h.pid, &Wake{})
	return ids
}

// execution is one that the pool's workers can run.
func (h *house) execution() messages.Execution {
	return messages.Execution{
		ID: messages.NewExecutionID(), Action: "act", Pool: "pool", Timeout: time.Minute, Parameters: json.RawMessage(`{}`),
		WaitForWorker: true, Priority: messages.PriorityNormal,
	}
}

// keep stores n executions of the action.
func (h *house) keep(n int, change func(*messages.Execution)) []messages.ExecutionID {
	h.t.Helper()
	batch, ids := make([]messages.Execution, n), make([]messages.ExecutionID, n)
	for i := range batch {
		batch[i] = h.execution()
		ids[i] = batch[i].ID
		if change != nil {
			change(&batch[i])
		}
	}
	_, err := h.store.Submit(h.t.Context(), batch)
	require.NoError(h.t, err)
	return ids
}

func (h *house) get(id messages.ExecutionID) messages.Execution {
	h.t.Helper()
	e, err := h.store.Get(h.t.Context(), id)
	require.NoError(h.t, err)
	return e
}

// placedAgain waits until an execution's first placement has been followed by another.
func (h *house) placedAgain(id messages.ExecutionID) {
	h.t.Helper()
	defer func() {
		if h.t.Failed() {
			h.t.Logf("%+v\n%+v", h.get(id), h.describe())
		}
	}()
	soon(h.t, func() bool { return h.get(id).Attempt >= 2 }, "what ran must be placed again")
}

// all waits until every execution has the status.
func (h *house) all(ids []messages.ExecutionID, want messages.Status) {
	h.t.Helper()
	left := append([]messages.ExecutionID(nil), ids...)
	defer func() {
		if h.t.Failed() && len(left) > 0 {
			e := h.get(left[0])
			h.t.Logf("execution %s is %s at attempt %d, %d crashes, error %v", e.ID, e.Status, e.Attempt, e.CrashCount, e.Error)
		}
	}()
	soon(h.t, func() bool {
		for len(left) > 0 && h.get(left[0]).Status == want {
			left = left[1:]
		}
		return len(left) == 0
	}, "every execution must become "+want.String())
}

func (h *house) describe() Description {
	h.t.Helper()
	d, err := actors.Ask[Describe, Description](h.t.Context(), h.system, h.pid, Describe{Seen: true})
	require.NoError(h.t, err)
	return d
}

// ready waits for so many workers that can take work.
func (h *house) ready(n int) {
	h.t.Helper()
	soon(h.t, func() bool {
		count := 0
		for _, w := range h.describe().Workers {
			if w.State == lifecycle.Ready {
				count++
			}
		}
		return count == n
	}, "so many workers must be ready", n)
}

func (h *house) drain(limit time.Duration) error { return <-h.drains(limit) }

// drains has the pool end before all that it is told from now on, and returns where its answer comes.
func (h *house) drains(limit time.Duration) <-chan error {
	wait, question := actors.NewQuestion[Drain, struct{}](Drain{Until: time.Now().Add(limit)})
	h.system.Send(h.pid, question)
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(h.t.Context(), 20*time.Second)
		defer cancel()
		_, err := wait(ctx)
		done <- err
	}()
	return done
}

// cancel asks for the end of an execution.
func (h *house) cancel(id messages.ExecutionID) {
	h.t.Helper()
	record := &actors.Record{Pool: h.pid, Items: []actors.Item{{Change: &store.Cancel{ID: id, By: "test"}}}}
	_, err := actors.Ask[*actors.Record, []store.Result](h.t.Context(), h.system, h.config.Recorder, record)
	require.NoError(h.t, err)
}

// made are the pool's actors so far.
func (h *house) made() []*Pool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*Pool(nil), h.pools...)
}

// remade waits until so many of the pool's actors have been made, and the last is there.
func (h *house) remade(n int) {
	h.t.Helper()
	soon(h.t, func() bool {
		_, live := h.system.Registry.Get("top/pool")
		return live && len(h.made()) == n
	}, "started again")
}

// crash fails an actor.
func (h *house) crash(id string) { h.system.Send(h.system.PID(id), &actors.Crash{Reason: "test"}) }

// empty drains and stops everything and checks that the last pool has kept nothing that it should have let go.
func (h *house) empty() {
	h.t.Helper()
	require.NoError(h.t, h.drain(time.Second))
	h.stopEmpty()
}

func (h *house) stopEmpty() {
	h.t.Helper()
	require.NoError(h.t, h.system.StopAndWait(h.t.Context(), h.system.PID("top")))
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.pools[len(h.pools)-1]
	require.Empty(h.t, p.link.Engaged())
	require.True(h.t, p.link.HandedOn())
	require.Empty(h.t, p.Acks)
}

// theatre is go handlers that wait for the test.
type theatre struct {
	mu      sync.Mutex
	started map[messages.ExecutionID]int
	stopped int
	release chan struct{}
}

func newTheatre() *theatre {
	return &theatre{started: map[messages.ExecutionID]int{}, release: make(chan struct{})}
}

// wait runs until the test releases it or it is told to stop.
func (h *theatre) wait(ctx context.Context, task *messages.Task) (any, error) {
	h.mu.Lock()
	h.started[task.ID]++
	h.mu.Unlock()
	select {
	case <-h.release:
		return "done", nil
	case <-ctx.Done():
		h.mu.Lock()
		defer h.mu.Unlock()
		h.stopped++
		return nil, context.Cause(ctx)
	}
}

func (h *theatre) runs() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.started)
}

// quick returns at once.
func quick(context.Context, *messages.Task) (any, error) { return 1, nil }

func goes(h messages.Handler) func(*actors.WorkerConfig, messages.WorkerID, messages.Generation) actors.Runner {
	return actors.InNodeRunner(map[string]messages.Handler{"f": h})
}
