package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/test/servers"
)

// patience bounds every wait; no test passes because of it.
const patience = 40 * time.Second

// databases bounds how many tests use Postgres at the same time: the server takes 300 connections, a node has up to ten, and a test up
// to three nodes. All other tests need no such bound.
var databases = make(chan struct{}, 8)

// database is the URL of a database on a Postgres that the tests of this package share. It waits for a place among the tests that have one.
// A test may call it once.
func database(t *testing.T) string {
	t.Helper()
	databases <- struct{}{}
	t.Cleanup(func() { <-databases })
	return servers.RoomyPostgres(t)
}

// kit is a running node with short intervals.
type kit struct {
	*node.Node
	api.Backend
	t      *testing.T
	log    *record
	data   string
	folder string // that python actions know as LAB
	stop   func() error
}

// record keeps what a node logs.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if os.Getenv("TROUPE_TEST_LOG") != "" {
		_, _ = os.Stderr.Write(p)
	}
	return r.text.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// short is a configuration whose intervals suit a test.
func short(t *testing.T, data string, packs ...string) (node.Config, *record) {
	log := &record{}
	return node.Config{
		Data: data, Name: "test", NoBuiltins: true, Packs: packs,
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: log, Name: t.Name()}),
		Workers: map[messages.Runtime]int{
			"python": 1, "node": 1, "process": 1,
			"shell": 2, "go": 2,
		},
		Worker: node.Worker{
			HeartbeatInterval: 250 * time.Millisecond, StalenessMultiplier: 60, ShutdownTimeout: 10 * time.Second,
			Graces: process.Graces{Cancel: 300 * time.Millisecond, Shutdown: 300 * time.Millisecond, Terminate: 300 * time.Millisecond},
		},
		Health:        node.Health{ProbeAgain: 100 * time.Millisecond, EchoInterval: -1},
		SweepInterval: 100 * time.Millisecond,
		Retry:         messages.RetryPolicy{Base: 20 * time.Millisecond, Jitter: -1},
	}, log
}

// lab starts a node that serves only the given packs.
func lab(t *testing.T, change func(*node.Config), packs ...string) *kit {
	t.Helper()
	return boot(t, t.TempDir(), change, packs...)
}

// boot starts a node on a data folder that may have been used before.
func boot(t *testing.T, data string, change func(*node.Config), packs ...string) *kit {
	t.Helper()
	cfg, log := short(t, data, packs...)
	if change != nil {
		change(&cfg)
	}
	n, err := node.New(cfg)
	require.NoError(t, err)
	require.NoError(t, n.Start(t.Context()))
	k := &kit{Node: n, Backend: n.Backend(), t: t, log: log, data: data}
	if len(packs) > 0 {
		k.folder = packs[0]
	}
	k.stop = sync.OnceValue(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return n.Stop(ctx)
	})
	t.Cleanup(func() {
		if err := k.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if t.Failed() {
			t.Logf("the node's log:\n%s", tail(log.String(), 12_000))
		}
	})
	return k
}

func tail(s string, n int) string {
	if len(s) > n {
		return s[len(s)-n:]
	}
	return s
}

// Workers are all workers of the pool, on whatever node.
func (k *kit) Workers(ctx context.Context, pool string) ([]view.Worker, error) {
	all, err := k.Backend.Workers(ctx, pool, "")
	return all.Workers, err
}

// Pools are the sums over all nodes.
func (k *kit) Pools(ctx context.Context) ([]view.Pool, error) {
	all, err := k.Backend.Pools(ctx, "")
	return all.Pools, err
}

func (k *kit) KillWorker(ctx context.Context, id messages.WorkerID) error {
	return k.Backend.KillWorker(ctx, id, "test")
}

func (k *kit) ProbeWorker(ctx context.Context, id messages.WorkerID) (view.WorkerDetail, error) {
	return k.Backend.ProbeWorker(ctx, id, "test")
}

func (k *kit) CordonWorker(ctx context.Context, id messages.WorkerID, on bool) error {
	return k.Backend.CordonWorker(ctx, id, on, "test")
}

func (k *kit) CordonPool(ctx context.Context, pool string, on bool) error {
	return k.Backend.CordonPool(ctx, pool, on, "test")
}

func (k *kit) CordonNode(ctx context.Context, id string, on bool) error {
	return k.Backend.CordonNode(ctx, id, on, "test")
}

func (k *kit) DrainNode(ctx context.Context, id string) error {
	return k.Backend.DrainNode(ctx, id, "test")
}

// request changes a submission.
type request func(*submit.Request)

func session(name string, mode messages.Affinity) request {
	return func(r *submit.Request) { r.Session, r.Affinity = name, string(mode) }
}
func timeout(seconds float64) request {
	return func(r *submit.Request) { r.TimeoutSeconds = &seconds }
}
func retries(n int) request { return func(r *submit.Request) { r.MaxRetries = &n } }

func ask(ref string, parameters any, with ...request) submit.Request {
	raw, err := json.Marshal(parameters)
	if err != nil {
		panic(err)
	}
	if parameters == nil {
		raw = nil
	}
	r := submit.Request{ActionRef: ref, Parameters: raw}
	for _, change := range with {
		change(&r)
	}
	return r
}

type object = map[string]any

// submit submits one execution.
func (k *kit) submit(ref string, parameters any, with ...request) messages.ExecutionID {
	k.t.Helper()
	submitted, err := k.Submit(k.t.Context(), []submit.Request{ask(ref, parameters, with...)})
	require.NoError(k.t, err)
	return submitted[0].Execution.ID
}

// run submits one execution and waits for its outcome.
func (k *kit) run(ref string, parameters any, with ...request) messages.Execution {
	k.t.Helper()
	return k.await(k.submit(ref, parameters, with...))
}

// await waits for an outcome.
func (k *kit) await(id messages.ExecutionID) messages.Execution {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), patience)
	defer cancel()
	e, err := k.Wait(ctx, id)
	require.NoError(k.t, err)
	if !e.Status.Terminal() {
		why, _ := k.Why(k.t.Context(), id)
		require.FailNow(k.t, "no outcome", "status %s attempt %d, %s: %s", e.Status, e.Attempt, why.Reason, why.Message)
	}
	return e
}

func (k *kit) get(id messages.ExecutionID) messages.Execution {
	k.t.Helper()
	e, err := k.Get(k.t.Context(), id)
	require.NoError(k.t, err)
	return e
}

// becomes waits until an execution has the status.
func (k *kit) becomes(id messages.ExecutionID, s messages.Status) messages.Execution {
	k.t.Helper()
	var e messages.Execution
	k.until("execution is "+s.String(), func() bool {
		e = k.get(id)
		return e.Status == s || e.Status.Terminal()
	})
	require.Equal(k.t, s, e.Status, "%v", e.Error)
	return e
}

// until polls a condition.
func (k *kit) until(what string, condition func() bool) {
	k.t.Helper()
	for end := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			require.FailNow(k.t, "never came: "+what)
		}
	}
}

// result reads a completed execution's result.
func result[T any](t *testing.T, e messages.Execution) T {
	t.Helper()
	var v T
	require.Equal(t, messages.Completed, e.Status, "%v", e.Error)
	require.NoError(t, json.Unmarshal(e.Result, &v))
	return v
}

// code is the code of an execution's error.
func code(e messages.Execution) messages.Code {
	if e.Error == nil {
		return ""
	}
	return e.Error.Code
}

// worker returns the worker of a slot.
func (k *kit) worker(pool string, slot int) view.Worker {
	k.t.Helper()
	list, err := k.Workers(k.t.Context(), pool)
	require.NoError(k.t, err)
	for _, w := range list {
		if w.ID == messages.NewWorkerID("test", pool, messages.Slot(slot)) {
			return w
		}
	}
	require.FailNow(k.t, "no such worker", "%s/%d of %v", pool, slot, list)
	return view.Worker{}
}

// ready waits until a slot's worker is ready, of a generation above the given one.
func (k *kit) ready(pool string, slot int, above messages.Generation) view.Worker {
	k.t.Helper()
	var w view.Worker
	k.until(fmt.Sprintf("worker %s/%d is ready above generation %d", pool, slot, above), func() bool {
		w = k.worker(pool, slot)
		return w.State == "ready" && w.Health == "healthy" && w.Generation > above
	})
	return w
}

// pool returns one pool.
func (k *kit) pool(name string) view.Pool {
	k.t.Helper()
	list, err := k.Pools(k.t.Context())
	require.NoError(k.t, err)
	for _, p := range list {
		if p.Name == name {
			return p
		}
	}
	return view.Pool{}
}

// chain returns a retry chain once its last execution has ended and there are so many.
func (k *kit) chain(id messages.ExecutionID, length int) []messages.Execution {
	k.t.Helper()
	var chain []messages.Execution
	k.until("the chain has ended", func() bool {
		var err error
		chain, err = k.Chain(k.t.Context(), id)
		require.NoError(k.t, err)
		return len(chain) >= length && chain[len(chain)-1].Status.Terminal()
	})
	require.Len(k.t, chain, length)
	return chain
}

// events are the stored happenings of an execution, by kind.
func (k *kit) events(id messages.ExecutionID) map[string][]store.Event {
	k.t.Helper()
	list, err := k.Events(k.t.Context(), id)
	require.NoError(k.t, err)
	byKind := map[string][]store.Event{}
	for _, e := range list {
		byKind[e.Kind] = append(byKind[e.Kind], e)
	}
	return byKind
}

// write makes a file of the lab; lines reads one.
func (k *kit) write(name string) {
	k.t.Helper()
	require.NoError(k.t, os.WriteFile(filepath.Join(k.folder, name), nil, 0o600))
}

func (k *kit) remove(name string) {
	k.t.Helper()
	require.NoError(k.t, os.Remove(filepath.Join(k.folder, name)))
}

func (k *kit) lines(name string) []string {
	raw, err := os.ReadFile(filepath.Join(k.folder, name))
	if err != nil || len(raw) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}

// pids waits for so many lines of process ids in a file of the lab.
func (k *kit) pids(name string, count int) []int {
	k.t.Helper()
	k.until(fmt.Sprintf("%d lines in %s", count, name), func() bool { return len(k.lines(name)) >= count })
	var pids []int
	for _, line := range k.lines(name) {
		pid, err := strconv.Atoi(line)
		require.NoError(k.t, err)
		pids = append(pids, pid)
	}
	return pids
}

func (k *kit) gone(pid int) {
	k.t.Helper()
	k.until(fmt.Sprintf("process %d is gone", pid), func() bool { return syscall.Kill(pid, 0) != nil })
}

// gate is a go handler that tells when it begins and waits to be let go on.
type gate struct {
	entered chan *messages.Task
	open    chan struct{}
}

func newGate() *gate { return &gate{entered: make(chan *messages.Task, 64), open: make(chan struct{})} }

func (g *gate) run(ctx context.Context, t *messages.Task) (any, error) {
	g.entered <- t
	select {
	case <-g.open:
		return object{"attempt": t.Attempt}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// next waits for the next run.
func (g *gate) next(t *testing.T) *messages.Task {
	t.Helper()
	select {
	case task := <-g.entered:
		return task
	case <-time.After(patience):
		require.FailNow(t, "no run began")
		return nil
	}
}

// handle registers handlers of pack t.
func handle(h map[string]messages.Handler) func(*node.Config) {
	return func(c *node.Config) {
		c.Handlers = map[string]messages.Handler{}
		for name, handler := range h {
			c.Handlers["t."+name] = handler
		}
	}
}
