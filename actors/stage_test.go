package actors

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/store"
)

// rows is the executions part of a store, in memory, for bubbles of fake time that the embedded store's file does not
// work in. It makes the changes that a worker asks for, by the rules of package store.
type rows struct {
	store.Executions
	mu      sync.Mutex
	by      map[messages.ExecutionID]*messages.Execution
	retries []*messages.Execution
	log     [][]string           // the changes of each transaction, by name
	gate    chan struct{}        // where set, each transaction waits for it
	refuse  func() (error, bool) // where set, may fail a transaction
	commit  time.Duration        // how long each transaction takes
}

func (r *rows) Apply(ctx context.Context, changes []store.Change) ([]store.Result, error) {
	r.mu.Lock()
	gate := r.gate
	r.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	time.Sleep(r.commit)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil {
		if err, fails := r.refuse(); fails {
			return nil, err
		}
	}
	results := make([]store.Result, 0, len(changes))
	names := make([]string, 0, len(changes))
	for _, c := range changes {
		results = append(results, r.apply(c))
		names = append(names, c.Name())
	}
	r.log = append(r.log, names)
	return results, nil
}

func (r *rows) apply(c store.Change) store.Result {
	e := r.by[c.Target()]
	if e == nil {
		return store.Result{Verdict: store.Missing}
	}
	attempt := map[string]func() messages.Attempt{
		"claim": func() messages.Attempt { return c.(*store.Claim).Attempt }, "finish": func() messages.Attempt { return c.(*store.Finish).Attempt },
		"rescue": func() messages.Attempt { return c.(*store.Rescue).Attempt }, "end": func() messages.Attempt { return c.(*store.End).Attempt },
	}[c.Name()]
	to, legal := store.Next(c.Name(), e.Status)
	if !legal || attempt != nil && attempt() != e.Attempt {
		again, isClaim := c.(*store.Claim)
		if isClaim && e.Status == messages.Running && e.Attempt == again.Attempt && e.Generation == again.Generation {
			return store.Result{Verdict: store.Already, Status: e.Status, Attempt: e.Attempt, Execution: clone(e)}
		}
		return store.Result{Verdict: store.Stale, Status: e.Status, Attempt: e.Attempt}
	}
	switch c := c.(type) {
	case *store.Claim:
		e.Worker, e.Generation = c.Worker, c.Generation
	case *store.Finish:
		o := store.RecordedOutcome(e.Status, c.Outcome)
		to, e.Result, e.Error = o.Status, o.Result, o.Error
		if c.Retry != nil {
			r.retries = append(r.retries, c.Retry)
		}
	case *store.Rescue:
		e.RunAt = time.Now().Add(c.Delay)
		if !c.Unstarted {
			e.CrashCount++
		}
	}
	e.Status = to
	return store.Result{Verdict: store.Applied, Status: to, Attempt: e.Attempt, Execution: clone(e)}
}

func clone(e *messages.Execution) *messages.Execution {
	c := *e
	return &c
}

func (r *rows) add(change func(*messages.Execution)) messages.Placement {
	e := &messages.Execution{
		ID: messages.NewExecutionID(), Action: "act", Pool: "pool", Status: messages.Scheduled, Attempt: 1, Timeout: time.Minute,
	}
	if change != nil {
		change(e)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.by[e.ID] = e
	return e.Placement()
}

func (r *rows) get(p messages.Placement) messages.Execution {
	r.mu.Lock()
	defer r.mu.Unlock()
	return *r.by[p.Execution]
}

func (r *rows) set(p messages.Placement, s messages.Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.by[p.Execution].Status = s
}

// named counts the changes of a name that were asked for.
func (r *rows) named(name string) (n int) {
	for _, names := range r.transactions() {
		for _, of := range names {
			if of == name {
				n++
			}
		}
	}
	return n
}

func (r *rows) transactions() [][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([][]string(nil), r.log...)
}

func (r *rows) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gate = make(chan struct{})
}

func (r *rows) open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.gate)
	r.gate = nil
}

// act is a runner that does what its script says and remembers what it was told.
type act struct {
	mu     sync.Mutex
	traits Traits
	pid    int
	post   func(any)
	runs   []*Run
	steps  []process.Step
	probes []uint64
	ends   []string // sessions
	asks   []string // for snapshots
	askIDs []uint64

	silent  bool  // does not begin by itself
	probing bool  // does not answer probes by itself
	sick    error // what probes are answered with
}

func (a *act) Begin(post func(any)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.post = post
	if !a.silent {
		post(&begun{})
	}
}

func (a *act) Run(r *Run) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs = append(a.runs, r)
}

func (a *act) Step(s process.Step, _ *Run) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.steps = append(a.steps, s)
}

func (a *act) Probe(id uint64, _ bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.probes = append(a.probes, id)
	if !a.probing {
		a.post(&probed{id: id, err: a.sick})
	}
}

func (a *act) EndSession(session string, _ int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ends = append(a.ends, session)
}

func (a *act) Snapshot(session string, _ int64, id uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asks, a.askIDs = append(a.asks, session), append(a.askIDs, id)
	return a.traits.Snapshots
}

func (a *act) Traits() Traits {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.traits
}

func (a *act) Pid() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pid
}

func (a *act) did() []process.Step {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]process.Step(nil), a.steps...)
}

func (a *act) ran() []*Run {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]*Run(nil), a.runs...)
}

// probed counts the probes.
func (a *act) probed() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.probes)
}

// change rewrites the script.
func (a *act) change(do func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	do()
}

// dies ends the runner's process.
func (a *act) dies(m *gone) {
	a.mu.Lock()
	a.pid = 0
	if m.exit.Cause == "" {
		m.exit = process.Exit{Code: 3, Cause: process.CauseExit}
	}
	a.mu.Unlock()
	a.post(m)
}

// stage is one worker with all that it talks to. Everything on it lives in a bubble of fake time.
type stage struct {
	t      *testing.T
	system *System
	rows   *rows
	act    *act
	cfg    *WorkerConfig
	pool   *hearer
	worker *actor.PID
	cell   *Cell
}

// lives is the traits of a runner with a process.
var lives = Traits{LongLived: true, Cancels: true, Probes: true}

// play spawns a worker with the runner.
func play(t *testing.T, a *act, change func(*WorkerConfig)) *stage {
	t.Helper()
	return playWith(t, a, a, change)
}

// playWith is play with a runner that does more than the act in it.
func playWith(t *testing.T, a *act, runner Runner, change func(*WorkerConfig)) *stage {
	t.Helper()
	s := &stage{
		t: t, system: newSystem(t), act: a, pool: &hearer{}, cell: &Cell{},
		rows: &rows{by: map[messages.ExecutionID]*messages.Execution{}},
	}
	if a.traits.LongLived && a.pid == 0 && !a.silent {
		a.pid = 4711
	}
	recorder, err := s.system.Spawn(s.system, NewRecorder(RecorderConfig{
		System: s.system, Store: s.rows, Outcomes: NewOutcomes(), Logger: hclog.NewNullLogger(),
	}))
	require.NoError(t, err)
	parentOf(s.system, s.pool)
	pool, err := s.system.Spawn(s.system, s.pool.child("pool"))
	require.NoError(t, err)
	action := &messages.Action{Ref: "act", Pool: "pool"}
	s.cfg = &WorkerConfig{
		System: s.system, Recorder: recorder, Pool: pool, PoolName: "pool",
		Node: "node", Incarnation: messages.NewIncarnation(), Logger: hclog.NewNullLogger(), Feeds: NewFeeds(),
		Runner:      func(*WorkerConfig, messages.WorkerID, messages.Generation) Runner { return runner },
		Action:      func(ref, _ string) (*messages.Action, bool) { return action, ref == "act" },
		InitTimeout: 30 * time.Second, ProbeTimeout: 5 * time.Second, KeepWithin: time.Second,
	}
	if change != nil {
		change(s.cfg)
	}
	done := make(chan *actor.PID, 1)
	s.system.Send(pool, &spawnBelow{NewWorker(s.cfg, 0, 1, "node/pool/0", s.cell), done})
	s.worker = <-done
	s.settle()
	return s
}

func (s *stage) send(message any) {
	s.t.Helper()
	s.system.Send(s.worker, message)
	s.settle()
}

// give places executions on the worker.
func (s *stage) give(placements ...messages.Placement) {
	s.t.Helper()
	s.send(&Execute{Placements: placements, Ahead: 1})
}

// runs adds an execution and has the worker run it.
func (s *stage) runs(change func(*messages.Execution)) messages.Placement {
	s.t.Helper()
	p := s.rows.add(change)
	before := len(s.act.ran())
	s.give(p)
	require.Len(s.t, s.act.ran(), before+1)
	require.Equal(s.t, messages.Running, s.rows.get(p).Status)
	return p
}

// ends has the runner tell the end of a run.
func (s *stage) ends(p messages.Placement, o messages.Outcome) {
	s.t.Helper()
	s.send(&ended{placement: p, outcome: o})
}

func ok() messages.Outcome { return completed(json.RawMessage(`1`)) }

func fault() messages.Outcome {
	return failed(&messages.Error{Code: "broken", Message: "it broke", WorkerFault: true})
}

func (s *stage) state() (state, health string) {
	status := s.cell.Read()
	return status.State, status.Health
}

// is checks the worker's state.
func (s *stage) is(want lifecycle.State) {
	s.t.Helper()
	got, _ := s.state()
	require.Equal(s.t, want.String(), got)
}

// over returns how the worker ended; it must have ended once.
func (s *stage) over() *WorkerEnded {
	s.t.Helper()
	told := of[*WorkerEnded](s.pool)
	require.Len(s.t, told, 1, "a worker ends once")
	_, live := s.system.Registry.Get(s.worker.Id)
	require.False(s.t, live, "its actor must be gone")
	return told[0]
}

// stays checks that the worker has not ended.
func (s *stage) stays() {
	s.t.Helper()
	require.Empty(s.t, of[*WorkerEnded](s.pool))
}
