package chaos_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/submit"
)

// replaceTime bounds the time from a worker's fault until its successor works. An incomplete frame is an error after 10 s.
const replaceTime = 25 * time.Second

func TestSickWorkersAreReplaced(t *testing.T) {
	t.Parallel()
	sickWorkersAreReplaced(t, 1)
}

func TestWholeSickWorkersAreReplaced(t *testing.T) {
	wholeOnly(t)
	sickWorkersAreReplaced(t, 5)
}

// workers lists this node's workers of a pool; all pools if pool is empty.
func (n *node) workers(pool string) []view.Worker {
	n.t.Helper()
	var nodes api.NodeList
	n.get("/api/v1/nodes", &nodes)
	self := slices.IndexFunc(nodes.Nodes, func(v view.Node) bool { return v.Reach == "self" })
	require.GreaterOrEqual(n.t, self, 0, "%v", nodes)
	var list api.WorkerList
	n.get("/api/v1/workers?limit=1000&node="+nodes.Nodes[self].Incarnation.String()+"&pool="+url.QueryEscape(pool), &list)
	return list.Workers
}

// sickPool is a pool with one worker.
type sickPool struct {
	*node
	pool string
}

// worker returns the pool's worker when it is ready.
func (p *sickPool) worker() view.Worker {
	p.t.Helper()
	return p.until("it is ready", func(w *view.Worker) bool { return w.State == "ready" && w.Health == "healthy" && w.Pid > 0 })
}

func (p *sickPool) until(what string, holds func(*view.Worker) bool) view.Worker {
	p.t.Helper()
	var last view.Worker
	end := time.Now().Add(replaceTime)
	for time.Now().Before(end) {
		if list := p.workers("sick." + p.pool); len(list) == 1 {
			if last = list[0]; holds(&last) {
				return last
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	require.FailNowf(p.t, "worker not as wanted", "not within %s: %s; it is %+v", replaceTime, what, last)
	return last
}

// submit submits an action and returns its id.
func (p *sickPool) submit(action, session string) messages.ExecutionID {
	p.t.Helper()
	var view form.ExecutionView
	p.post("/api/v1/executions", &submit.Request{ActionRef: "sick." + action, Session: session}, &view)
	return view.ID
}

func (p *sickPool) running(id messages.ExecutionID) {
	p.t.Helper()
	p.until("it runs "+id.String(), func(w *view.Worker) bool { return w.Execution == id })
}

func (p *sickPool) outcome(id messages.ExecutionID) form.ExecutionView {
	p.t.Helper()
	var view form.ExecutionView
	p.get("/api/v1/executions/"+id.String()+"/wait?timeout_seconds=25", &view)
	require.True(p.t, view.Status.Terminal(), "%s stands in %s", id, view.Status)
	return view
}

// replaced waits for the successor of a worker. It must name the cause, and it must work.
func (p *sickPool) replaced(before view.Worker, why string) {
	p.t.Helper()
	after := p.until("it has a successor", func(w *view.Worker) bool {
		return w.Generation > before.Generation && w.State == "ready" && w.Pid > 0
	})
	require.NotEqual(p.t, before.Pid, after.Pid)
	require.Contains(p.t, after.LastError, why)
	old, alive := readProc(before.Pid)
	require.False(p.t, alive && old.state != "Z", "the sick process %d lives on", before.Pid)
	p.works(after)
}

// works runs an execution on the worker.
func (p *sickPool) works(w view.Worker) {
	p.t.Helper()
	view := p.outcome(p.submit("ok_"+p.pool, ""))
	require.Equal(p.t, messages.Completed, view.Status, "%+v", view.Error)
	var by struct{ Pid int }
	require.NoError(p.t, json.Unmarshal(view.Result, &by))
	require.Equal(p.t, w.Pid, by.Pid)
}

// workerFault is one fault of a worker: how it comes about, the outcome of the run, and what the API then says of the worker.
type workerFault struct {
	pool, action string
	inject       func(*testing.T, *sickPool, view.Worker) // nil if the action causes the fault itself
	status       messages.Status
	code         messages.Code
	says         string // a part of the error's message
	exit         string
	why          string
}

// workerFaults are the faults during a run.
var workerFaults = []workerFault{
	{pool: "killed", action: "hold_killed", inject: signal(syscall.SIGKILL), status: messages.Abandoned, code: messages.CodeWorkerLost, exit: "signal: SIGKILL", why: "signal: SIGKILL"},
	{pool: "frozen_busy", action: "hold_frozen", inject: signal(syscall.SIGSTOP), status: messages.TimedOut, code: messages.CodeTimeout, why: "ran longer than its timeout"},
	{pool: "deadlocked", action: "deadlock", status: messages.TimedOut, code: messages.CodeStalled, why: "no progress for"},
	{pool: "spinning", action: "spin_stalled", status: messages.TimedOut, code: messages.CodeStalled, why: "no progress for"},
	{pool: "spinning", action: "spin_late", status: messages.TimedOut, code: messages.CodeTimeout, why: "ran longer than its timeout"},
	{pool: "deaf", action: "deaf", status: messages.TimedOut, code: messages.CodeTimeout, why: "ran longer than its timeout"},
	{pool: "leaking", action: "leak", status: messages.Abandoned, code: messages.CodeWorkerLost, exit: "limit: memory", why: "limit: memory"},
	{pool: "garbage", action: "garbage", status: messages.Abandoned, code: messages.CodeWorkerLost, says: "protocol error: ", why: "protocol error: "},
	{pool: "half", action: "half", status: messages.Abandoned, code: messages.CodeWorkerLost, says: "protocol error: ", why: "protocol error: "},
	{pool: "exits", action: "exits", status: messages.Abandoned, code: messages.CodeWorkerLost, exit: "exit status 0", why: "exit status 0"},
}

func signal(s syscall.Signal) func(*testing.T, *sickPool, view.Worker) {
	return func(t *testing.T, _ *sickPool, w view.Worker) {
		t.Helper()
		require.NoError(t, syscall.Kill(w.Pid, s))
	}
}

func sickWorkersAreReplaced(t *testing.T, rounds int) {
	seed(t)
	n := newNode(t, "sick")
	n.start()
	n.ready()
	t.Run("faults", func(t *testing.T) {
		byPool := map[string][]workerFault{}
		for _, i := range workerFaults {
			byPool[i.pool] = append(byPool[i.pool], i)
		}
		for pool, list := range byPool {
			t.Run(pool, func(t *testing.T) {
				t.Parallel()
				p := &sickPool{node: n.in(t), pool: pool}
				for range rounds {
					for _, i := range list {
						p.cause(i)
					}
				}
			})
		}
		for name, test := range map[string]func(*sickPool, int){
			"killed": killedIdle, "frozen": frozenIdle, "grown": grown, "slow": slow, "inputs": badInputs, "silent": silent,
		} {
			t.Run(name+" idle", func(t *testing.T) {
				if name != "killed" { // it uses the same pool as the fault of that name, and runs before it
					t.Parallel()
				}
				test(&sickPool{node: n.in(t), pool: name}, rounds)
			})
		}
	})
}

// in is the node for a subtest: its failures are the subtest's.
func (n *node) in(t *testing.T) *node {
	c := &node{t: t, dir: n.dir, effects: n.effects, mark: n.mark, log: n.log, command: n.command}
	c.client.Store(n.client.Load())
	return c
}

func (p *sickPool) cause(i workerFault) {
	p.t.Helper()
	before := p.worker()
	id := p.submit(i.action, "")
	if i.inject != nil {
		p.running(id)
		i.inject(p.t, p, before)
	}
	view := p.outcome(id)
	require.Equal(p.t, i.status, view.Status, "%+v", view.Error)
	require.Equal(p.t, i.code, view.Error.Code, "%+v", view.Error)
	require.Contains(p.t, view.Error.Message, i.says)
	require.Contains(p.t, view.Error.Exit, i.exit)
	p.replaced(before, i.why)
}

func killedIdle(p *sickPool, rounds int) {
	for range rounds {
		before := p.worker()
		require.NoError(p.t, syscall.Kill(before.Pid, syscall.SIGKILL))
		p.replaced(before, "signal: SIGKILL")
	}
}

// frozenIdle: a frozen process answers nothing and takes no signal but SIGKILL. Its probes detect this.
func frozenIdle(p *sickPool, rounds int) {
	for range rounds {
		before := p.worker()
		require.NoError(p.t, syscall.Kill(before.Pid, syscall.SIGSTOP))
		p.until("it is degraded", func(w *view.Worker) bool { return w.Health == "unhealthy" || w.Generation > before.Generation })
		p.replaced(before, "health_check")
	}
}

// grown: a worker whose memory exceeds its recycling size is replaced in order, and its run completes.
func grown(p *sickPool, _ int) {
	before := p.worker()
	view := p.outcome(p.submit("grow", ""))
	require.Equal(p.t, messages.Completed, view.Status, "%+v", view.Error)
	p.replaced(before, "")
}

// slow: a worker that reports progress is not replaced, however slow it is.
func slow(p *sickPool, rounds int) {
	before := p.worker()
	for range rounds {
		view := p.outcome(p.submit("slow", ""))
		require.Equal(p.t, messages.Completed, view.Status, "%+v", view.Error)
	}
	after := p.worker()
	require.Equal(p.t, before.Generation, after.Generation)
	require.Equal(p.t, before.Pid, after.Pid)
}

// badInputs: bad input ends neither the worker nor its sessions.
func badInputs(p *sickPool, rounds int) {
	before := p.worker()
	count := func() (n, pid int) {
		view := p.outcome(p.submit("count", "alice"))
		require.Equal(p.t, messages.Completed, view.Status, "%+v", view.Error)
		var by struct{ N, Pid int }
		require.NoError(p.t, json.Unmarshal(view.Result, &by))
		return by.N, by.Pid
	}
	for round := range rounds {
		n, pid := count()
		require.Equal(p.t, 2*round+1, n)
		require.Equal(p.t, before.Pid, pid)
		for range 10 {
			p.badInput()
		}
		n, pid = count()
		require.Equal(p.t, 2*round+2, n, "the session has lost its state")
		require.Equal(p.t, before.Pid, pid)
	}
	after := p.worker()
	require.Equal(p.t, before.Generation, after.Generation)
	require.Zero(p.t, after.Restarts)
	require.Equal(p.t, "healthy", after.Grade)
}

// badInput submits parameters that the code refuses, and some that the schema refuses.
func (p *sickPool) badInput() {
	p.t.Helper()
	var view form.ExecutionView
	p.post("/api/v1/executions", &submit.Request{ActionRef: "sick.picky", Parameters: json.RawMessage(`{"n":7}`)}, &view)
	ended := p.outcome(view.ID)
	require.Equal(p.t, messages.Failed, ended.Status)
	require.Contains(p.t, ended.Error.Message, "n is 7, which nobody wants")
	for _, parameters := range []string{`{}`, `{"n":"seven"}`, `{"n":-1}`, `{"n":1,"m":2}`} {
		err := p.client.Load().Post(p.t.Context(), "/api/v1/executions",
			&submit.Request{ActionRef: "sick.picky", Parameters: json.RawMessage(parameters)}, nil)
		var answer *client.Error
		require.True(p.t, errors.As(err, &answer), "%s: %v", parameters, err)
		require.Contains(p.t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, answer.Status)
	}
}

// silent: a program that does not answer hello makes its pool broken, with the reason. The other pools work.
func silent(p *sickPool, _ int) {
	var pool view.Pool
	p.eventually(replaceTime, "the pool is broken", func(ctx context.Context) bool {
		var list api.PoolList
		if err := p.client.Load().Get(ctx, "/api/v1/pools", &list); err != nil {
			return false
		}
		for i := range list.Pools {
			if list.Pools[i].Name == "sick.silent" {
				pool = list.Pools[i]
			}
		}
		return pool.Broken
	})
	require.Contains(p.t, pool.Reason, "worker initialization failed: no answer to hello")
	var ready api.Readiness
	p.eventually(replaceTime, "readiness names the pool", func(ctx context.Context) bool {
		ready = api.Readiness{}
		return p.client.Load().Get(ctx, "/readyz", &ready) == nil && slices.Contains(ready.BrokenPools, "sick.silent")
	})
	require.True(p.t, ready.Ready)
}
