package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/test/chaos"
)

// mutantBinary is troupe with the planted faults. TROUPE_MUTANT enables them by name. It is built once, when the first test needs
// it.
var mutantBinary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(programs, "troupe-mutant")
	changed, err := overlay(programs, plants)
	if err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "build", "-overlay", changed, "-o", path, "../../cmd/troupe").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build troupe with its planted faults: %w\n%s", err, out)
	}
	return path, nil
})

// mutants are the planted faults. Each has a history that shows it, and the rule that must find it.
var mutants = []struct {
	name string
	// sound and planted are values of TROUPE_MUTANT. The history must pass the check with the first and fail it with the second.
	sound, planted string
	rule           string
	history        func(*full) *chaos.History
	// only, if set, selects the violations that count. It is for a sound side that lacks layers of defence too.
	only func(chaos.Violation, *chaos.History) bool
}{
	{name: "no attempt in the compare-and-set", planted: "no_attempt", rule: "outcome_of_last_attempt", history: lateOutcome},
	{name: "no claim sweep and no monitor", planted: "no_claims", rule: "has_an_outcome", history: lostMessages},
	{name: "ack before claim without sweeps", sound: "no_claims,no_orphans", planted: "no_claims,no_orphans,ack_first",
		rule: "has_an_outcome", history: lostMemory, only: stillScheduled},
	{name: "a dead-letter handler that looks at the status only", planted: "status_only", rule: "expired_by_its_letter", history: lateDeadLetter},
}

// TestPlantedFaultsAreFound runs before the parallel suites: together their nodes would need more files than a RabbitMQ usually
// may open.
func TestPlantedFaultsAreFound(t *testing.T) {
	troupe, err := mutantBinary()
	require.NoError(t, err)
	for _, m := range mutants {
		for side, planted := range map[string]string{"sound": m.sound, "planted": m.planted} {
			t.Run(m.name+"/"+side, func(t *testing.T) {
				t.Parallel()
				f := newShared(t, "TROUPE_MUTANT="+planted, "TROUPE_EXECUTOR_CLAIM_TIMEOUT=1", "TROUPE_EXECUTOR_TIMEOUT_CHECK_INTERVAL=1")
				f.troupe = troupe
				h := m.history(f)
				found := map[string]int{}
				for _, v := range chaos.Check(h) {
					if m.only == nil || m.only(v, h) {
						found[v.Rule]++
						t.Logf("%s", v)
					}
				}
				if side == "sound" {
					require.Empty(t, found)
					return
				}
				require.NotZero(t, found[m.rule], "the checker has not found the planted fault by %s, but %v", m.rule, found)
			})
		}
	}
}

// TestWholePlantedFaultsFailTheStorm runs the storm on nodes with each planted fault. The check must find the fault.
func TestWholePlantedFaultsFailTheStorm(t *testing.T) {
	wholeOnly(t)
	troupe, err := mutantBinary()
	require.NoError(t, err)
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			f := newStormFleet(t, troupe, "TROUPE_MUTANT="+m.planted)
			c := f.caller()
			c.lossTime = 8 * time.Second
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
			defer cancel()
			load := f.through(ctx, wholeStorm(), wholeFaults(), c)
			defer time.AfterFunc(backTime, cancel).Stop()
			_ = load() // lost executions may prevent its end
			f.nodes[0].quiet(settleTime, underWay)
			h := f.history(c)
			found, shown := map[string]int{}, map[string]chaos.Violation{}
			for _, v := range chaos.Check(h) {
				found[v.Rule]++
				shown[v.Rule] = v
			}
			t.Logf("executions %d, violations %v, of the last of each rule: %v", len(h.Executions), found, shown)
			require.NotZero(t, found[m.rule], "the checker has not found the planted fault by %s", m.rule)
		})
	}
}

// stillScheduled reports whether a violation is that of an execution whose message nobody consumed.
func stillScheduled(v chaos.Violation, h *chaos.History) bool {
	for i := range h.Executions {
		if h.Executions[i].ID == v.Execution {
			return v.Rule == "has_an_outcome" && h.Executions[i].Status == messages.Scheduled
		}
	}
	return false
}

// submitAll submits count pieces of work of the given duration. Their keys name the round.
func (f *full) submitAll(c *caller, action, round string, count int, length time.Duration, want ...messages.Status) {
	f.t.Helper()
	for i := range count {
		w := &work{want: want}
		w.ActionRef, w.IdempotencyKey, w.Parameters = action, fmt.Sprintf("%s-%s-%d", action, round, i), parameters(length)
		_, err := c.submit(f.t.Context(), w)
		require.NoError(f.t, err)
	}
}

// with lists the executions in the given statuses.
func (n *node) with(statuses string) []form.ExecutionView {
	n.t.Helper()
	executions, err := n.list(statuses)
	require.NoError(n.t, err)
	return executions
}

// list is with, but returns an error, for a node whose store may be away.
func (n *node) list(statuses string) ([]form.ExecutionView, error) {
	ctx, cancel := context.WithTimeout(n.t.Context(), 30*time.Second)
	defer cancel()
	var list api.ExecutionList
	err := n.client.Load().Get(ctx, "/api/v1/executions?limit=1000&status="+statuses, &list)
	return list.Executions, err
}

// quiet waits up to limit until no execution is in the statuses, and reports whether that is so.
func (n *node) quiet(limit time.Duration, statuses string) bool {
	n.t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if len(n.with(statuses)) == 0 {
			return true
		}
	}
	return false
}

const underWay = "requested,scheduling,scheduled,running,cancelling"

// lateRounds bounds the tries of lateOutcome: a thawed node stops itself within milliseconds, so it may or may not report its
// workers' outcomes before that.
const lateRounds = 10

// lateOutcome freezes a node until its runs have ended and are repeated elsewhere, and then thaws it. It repeats this until such
// an outcome has reached the store.
func lateOutcome(f *full) *chaos.History {
	a, b := f.join("a", f.troupe, "pack"), f.join("b", f.troupe, "pack")
	f.start()
	c := &caller{node: b}
	for round := range lateRounds {
		f.submitAll(c, "chaos.redo", fmt.Sprint(round), 6, 2*time.Second, messages.Completed)
		f.submitAll(c, "chaos.go_redo", fmt.Sprint(round), 4, 2*time.Second, messages.Completed)
		f.repeatElsewhere(a, b)
		f.well()
		b.settled(backTime)
		if h := f.history(c); lateWrites(h) > 0 {
			f.t.Logf("an outcome came late in round %d of %d", round+1, lateRounds)
			return h
		}
	}
	require.FailNow(f.t, "no outcome came late")
	return nil
}

// repeatElsewhere freezes a while it runs work, until b runs that work again. Then it thaws a.
func (f *full) repeatElsewhere(a, b *node) {
	f.t.Helper()
	runs := func(attempt messages.Attempt, at string) (count int) {
		for _, e := range b.with("running") {
			if e.Attempt == attempt && strings.HasPrefix(string(e.Worker), at+"/") {
				count++
			}
		}
		return count
	}
	b.eventually(backTime, "work runs on the first node", func(context.Context) bool { return runs(1, "a") >= 2 })
	a.signal(syscall.SIGSTOP)
	b.eventually(backTime, "the frozen node is declared dead", func(context.Context) bool {
		return b.incarnation("a").State == store.NodeDead
	})
	b.eventually(backTime, "its work is repeated", func(context.Context) bool { return runs(2, "b") >= 2 })
	a.signal(syscall.SIGCONT)
	b.eventually(backTime, "the first node is back as another incarnation", func(context.Context) bool {
		return b.incarnation("a").State == store.NodeActive
	})
}

// lateWrites counts the outcomes of old attempts that reached the store while the next attempt ran, whether they took effect or
// not. If the next attempt still waits for its worker, an old outcome cannot take effect even with the planted fault, so it does
// not count.
func lateWrites(h *chaos.History) (count int) {
	for i := range h.Executions {
		e := &h.Executions[i]
		for _, ev := range e.Events {
			if ev.Kind == "stale_write" && ev.Reason == "finish" && ev.Attempt < e.Attempt && ev.From == messages.Running {
				count++
			}
		}
		var by struct{ Attempt messages.Attempt }
		if json.Unmarshal(e.Result, &by) == nil && by.Attempt > 0 && by.Attempt < e.Attempt {
			count++
		}
	}
	return count
}

// settleTime is the time after which lost work must have an outcome, on a busy machine: some claim timeouts of 1 s, with the
// back-off.
const settleTime = 20 * time.Second

// lostMessages removes messages from the workers' queues. Nobody delivers them again.
func lostMessages(f *full) *chaos.History {
	n := f.join("a", f.troupe, "pack")
	f.start()
	c := &caller{node: n}
	var stolen atomic.Int64
	stop := f.thieves(n, func(_ string, d broker.Delivery) {
		if _, err := broker.DecodeWork(d.Body); err == nil { // not an echo
			stolen.Add(1)
		}
	})
	f.submitAll(c, "chaos.go_work", "0", 20, 5*time.Millisecond, messages.Completed)
	n.eventually(backTime, "messages are lost", func(context.Context) bool { return stolen.Load() >= 2 })
	stop()
	n.quiet(settleTime, underWay)
	return f.history(c)
}

// thieves consume beside the workers of the Go pool until stop is called.
func (f *full) thieves(n *node, take func(queue string, d broker.Delivery)) (stop func()) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	var wait sync.WaitGroup
	incarnation := n.incarnation(n.name).Incarnation
	for _, w := range n.workers("chaos.gw") {
		queue := f.settings.WorkerQueueName(w.ID, incarnation)
		consumer, err := f.side.Consume(ctx, queue, thiefWindow)
		require.NoError(f.t, err)
		wait.Go(func() { stealFrom(ctx, consumer, func(d broker.Delivery) { take(queue, d) }) })
	}
	return func() {
		cancel()
		wait.Wait()
	}
}

// lostMemory kills a node while work waits for its busy workers. If messages are acked at the claim, that work expires on the
// dead node's queues, and another node gets the dead letters.
func lostMemory(f *full) *chaos.History {
	ttl := "TROUPE_MESSAGE_QUEUE_RABBITMQ_WORKER_QUEUE_TTL_MS=2500"
	a, b := f.join("a", f.troupe, "pack", ttl), f.join("b", f.troupe, "pack", ttl)
	a.start()
	a.ready()
	c := &caller{node: a}
	ends := []messages.Status{messages.Completed, messages.Failed}
	f.submitAll(c, "chaos.go_work", "short", 40, 2*time.Millisecond, ends...) // after short runs, work is placed ahead on its worker's queue
	a.settled(backTime)
	f.submitAll(c, "chaos.go_work", "long", 2, 20*time.Second, ends...)
	a.eventually(backTime, "both workers are busy", func(context.Context) bool { return len(a.with("running")) == 2 })
	f.submitAll(c, "chaos.go_work", "ahead", 10, 2*time.Millisecond, ends...)
	quiet, before := 0, 0 // the number must be stable: a placement that is not published yet has no message that could expire
	a.eventually(backTime, "work is placed ahead of its workers", func(context.Context) bool {
		count := len(a.with("scheduled"))
		if quiet++; count != before || count == 0 {
			quiet, before = 0, count
		}
		return quiet >= 10
	})
	a.kill()
	b.start()
	b.ready()
	b.quiet(settleTime, "requested,scheduling,scheduled")
	c.node, f.nodes[0] = b, b
	return f.history(c)
}

// lateDeadLetter sends the dead letters of old attempts while a newer attempt waits on its queue.
func lateDeadLetter(f *full) *chaos.History {
	n := f.join("a", f.troupe, "pack")
	f.start()
	c := &caller{node: n}
	var sent atomic.Int64
	stop := f.thieves(n, func(_ string, d broker.Delivery) {
		lost, err := broker.DecodeWork(d.Body)
		if err != nil {
			return // an echo
		}
		for _, p := range placements(lost) {
			if p.Attempt--; p.Attempt > 0 {
				f.post([]broker.Message{f.letter(lost[0].Worker, p)}, 2)
				sent.Add(1)
			}
		}
	})
	f.submitAll(c, "chaos.go_work", "0", 20, 5*time.Millisecond, messages.Completed, messages.Failed)
	n.eventually(backTime, "letters of old attempts are sent", func(context.Context) bool { return sent.Load() >= 2 })
	stop()
	n.settled(backTime)
	return f.history(c)
}
