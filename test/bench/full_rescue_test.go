package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
)

// BenchmarkFullRescue reports, over 30 faults of each kind, the time from the fault to the new placement of the idempotent run
// that it hit, and to the second start of its code. Three nodes share the servers, with leases of 4 s. The fault hits the node of
// the run, so a third of the faults hit the router.
func BenchmarkFullRescue(b *testing.B) {
	f, program := startFull(b), binary(b)
	b.Run("ProcessKilled", func(b *testing.B) { rescueAll(b, f, program, 1, 2, (*rescue).killProcess) })
	b.Run("OnlyProcessKilled", func(b *testing.B) { rescueAll(b, f, program, 1, 1, (*rescue).killProcess) })
	b.Run("NodeKilled", func(b *testing.B) { rescueAll(b, f, program, 3, 1, (*rescue).killNode) })
	b.Run("NodeFrozen", func(b *testing.B) { rescueAll(b, f, program, 3, 1, (*rescue).freezeNode) })
}

// rescue is a series of faults in one cluster.
type rescue struct {
	b       *testing.B
	members []*member
	log     string // the file in which the action notes its starts
	// replaced and again are the times from the fault to the new placement, and to the new start.
	replaced, again []time.Duration
	ids             []messages.ExecutionID
	done            int // how many of the executions completed
	early           int // waits that returned before the execution's end and before their timeout
}

// rescueAll injects 30 faults. The figures lost, early-answers, started-twice and more-starts should be 0. They count executions
// that did not complete, waits that returned before the execution's end and before their timeout, further starts of the same
// attempt, and further starts of an execution beyond the interrupted one and its repetition.
func rescueAll(b *testing.B, f *full, program string, nodes, workers int, blow func(*rescue, *run) (heal func())) {
	for range b.N {
		r := &rescue{b: b, log: filepath.Join(b.TempDir(), "starts")}
		if err := os.WriteFile(r.log, nil, 0o600); err != nil {
			b.Fatal(err)
		}
		r.members = f.cluster(b, program, nodes, "TROUPE_PACKS="+holdPack(b, workers), "TROUPE_POOL_RESTART_INTENSITY=10000")
		for i := range scaled(30) {
			r.round(r.members[i%nodes], blow)
		}
		percentiles(b, "replaced", r.replaced, time.Millisecond, "ms")
		percentiles(b, "started-again", r.again, time.Millisecond, "ms")
		twice, more := r.repeated()
		b.ReportMetric(float64(len(r.ids)-r.done), "lost")
		b.ReportMetric(float64(r.early), "early-answers")
		b.ReportMetric(float64(twice), "started-twice")
		b.ReportMetric(float64(more), "more-starts")
	}
}

// holdPack writes a pack whose action notes its start and waits for the fault. A repetition ends at once.
func holdPack(b *testing.B, workers int) string {
	b.Helper()
	return writePack(b, "rescue", map[string]string{
		"pack.yaml":         fmt.Sprintf("name: rescue\nversion: 1.0.0\npools:\n  - name: hold\n    runtime: python\n    workers: %d\n", workers),
		"actions/hold.yaml": "name: hold\nruntime: python\npool: hold\nentrypoint: actions/hold.py:hold\nidempotent: true\n",
		"actions/hold.py": `import os
import time


def hold(params, ctx):
    with open(params["log"]) as f:
        again = any(line.split()[0] == ctx.execution for line in f)
    with open(params["log"], "a") as f:
        f.write(f"{ctx.execution} {ctx.attempt} {os.getpid()} {time.time_ns()}\n")
    if not again:
        time.sleep(120)
`,
	})
}

// run is the execution that a fault hits.
type run struct {
	id     messages.ExecutionID
	pid    int     // its worker's process
	victim *member // the node that it runs on
	other  *member // a node that the fault does not hit; the victim if there is no other
}

// round starts one execution, injects the fault and waits for the repetition. The fault returns a function that undoes it. It is
// called before the round ends, so that the next round has a complete cluster.
func (r *rescue) round(through *member, blow func(*rescue, *run) (heal func())) {
	r.b.Helper()
	parameters, err := json.Marshal(map[string]string{"log": r.log})
	if err != nil {
		r.b.Fatal(err)
	}
	e, err := through.client.Submit(r.b.Context(), submit.Request{ActionRef: "rescue.hold", Parameters: parameters}, 0)
	if err != nil {
		r.b.Fatal(err)
	}
	r.ids = append(r.ids, e.ID)
	first := r.awaitStart(e.ID, 1)
	hit := r.target(through, e.ID, first.pid)
	at := time.Now()
	heal := blow(r, hit)
	second := r.awaitStart(e.ID, 2)
	ctx, cancel := context.WithTimeout(r.b.Context(), time.Minute)
	defer cancel()
	v, err := hit.other.client.WaitFor(ctx, e.ID.String(), time.Minute)
	if err != nil {
		r.b.Fatal(err)
	}
	if !v.Status.Terminal() { // the wait returned before its timeout
		r.early++
		r.b.Logf("the wait for execution %s on node %s was answered while it was %s", e.ID, hit.other.name, v.Status)
		if v, err = hit.other.client.Wait(ctx, e.ID.String()); err != nil {
			r.b.Fatal(err)
		}
	}
	if v.Status == messages.Completed {
		r.done++
	} else {
		r.b.Logf("execution %s, struck on node %s, is %s at attempt %d on worker %s: %v", e.ID, hit.victim.name, v.Status, v.Attempt, v.Worker, v.Error)
		r.tell(hit, e.ID)
	}
	// The store's server runs on this machine, so the clocks are the same.
	placed := v.ScheduledAt
	if placed.IsZero() { // it was handed to its worker directly, and its claim placed it
		placed = v.StartedAt
	}
	r.replaced, r.again = append(r.replaced, placed.Sub(at)), append(r.again, second.at.Sub(at))
	heal()
}

// tell logs the history of an execution that did not complete.
func (r *rescue) tell(hit *run, id messages.ExecutionID) {
	r.b.Helper()
	var view api.EventsView
	if err := hit.other.client.Get(r.b.Context(), "/api/v1/executions/"+id.String()+"/events", &view); err != nil {
		r.b.Log(err)
	}
	for _, e := range view.Events {
		r.b.Logf("%s attempt %d %s: %s to %s on %s (%s)", e.At.Format(time.StampMilli), e.Attempt, e.Kind, e.From, e.To, e.Worker, e.Reason)
	}
	for _, s := range r.starts()[id.String()] {
		r.b.Logf("%s attempt %s started in process %d", s.at.Format(time.StampMilli), s.attempt, s.pid)
	}
}

// target finds the node and the process of the execution.
func (r *rescue) target(through *member, id messages.ExecutionID, pid int) *run {
	r.b.Helper()
	v, err := through.client.Execution(r.b.Context(), id.String())
	if err != nil {
		r.b.Fatal(err)
	}
	name, _, _ := strings.Cut(string(v.Worker), "/")
	hit := &run{id: id, pid: pid}
	for _, m := range r.members {
		if m.name == name {
			hit.victim = m
		} else {
			hit.other = m
		}
	}
	if hit.victim == nil {
		r.b.Fatalf("execution %s runs on worker %q, which is on none of the nodes", id, v.Worker)
	}
	if hit.other == nil {
		hit.other = hit.victim
	}
	return hit
}

// begun is one start of the action's code.
type begun struct {
	attempt string
	pid     int
	at      time.Time
}

// awaitStart waits for the nth start of the execution.
func (r *rescue) awaitStart(id messages.ExecutionID, nth int) begun {
	r.b.Helper()
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(2 * time.Millisecond) {
		if list := r.starts()[id.String()]; len(list) >= nth {
			return list[nth-1]
		}
	}
	r.b.Fatalf("execution %s was not started %d times within a minute", id, nth)
	return begun{}
}

// starts reads the starts by execution.
func (r *rescue) starts() map[string][]begun {
	r.b.Helper()
	text, err := os.ReadFile(r.log)
	if err != nil {
		r.b.Fatal(err)
	}
	all := map[string][]begun{}
	for line := range strings.Lines(string(text)) {
		var id string
		var s begun
		var at int64
		if _, err := fmt.Sscan(line, &id, &s.attempt, &s.pid, &at); err != nil || !strings.HasSuffix(line, "\n") {
			continue // the line is not complete yet
		}
		s.at = time.Unix(0, at)
		all[id] = append(all[id], s)
	}
	return all
}

// repeated counts the starts that should not have happened.
func (r *rescue) repeated() (twice, more int) {
	for _, list := range r.starts() {
		attempts := map[string]bool{}
		for _, s := range list {
			attempts[s.attempt] = true
		}
		twice += len(list) - len(attempts)
		more += max(len(list)-2, 0)
	}
	return twice, more
}

// killProcess kills the worker's process.
func (r *rescue) killProcess(hit *run) (heal func()) {
	if err := syscall.Kill(hit.pid, syscall.SIGKILL); err != nil {
		r.b.Fatal(err)
	}
	return hit.victim.ready
}

// killNode kills the node's process. Its guardian ends the workers' processes. heal starts the node again.
func (r *rescue) killNode(hit *run) (heal func()) {
	hit.victim.kill()
	return func() {
		hit.victim.start()
		hit.victim.ready()
	}
}

// freezeNode stops the node's process by SIGSTOP. Its guardian ends the workers' processes when the lease is over. heal continues
// the node, which then finds itself declared dead.
func (r *rescue) freezeNode(hit *run) (heal func()) {
	before := hit.other.incarnation(hit.victim.name)
	hit.victim.signal(syscall.SIGSTOP)
	return func() {
		hit.victim.signal(syscall.SIGCONT)
		await(r.b, "node "+hit.victim.name+" back as a new incarnation", func() bool {
			now := hit.other.incarnation(hit.victim.name)
			return now != "" && now != before
		})
		hit.victim.ready()
	}
}
