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

// mutantBinary is troupe with the planted faults. TROUPE_MUTANT switches each on by its name. It is built once, when the first test needs it.
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

// mutants are the planted faults, each with a history in which it shows, and the rule that must find it.
var mutants = []struct {
	name string
	// sound and planted are values of TROUPE_MUTANT: the same history passes with the first, and not with the second.
	sound, planted string
	rule           string
	history        func(*full) *chaos.History
	// only, where set, is what is judged: the sound side lacks layers of defence too.
	only func(chaos.Violation, *chaos.History) bool
}{
	{name: "no attempt in the compare-and-set", planted: "no_attempt", rule: "outcome_of_last_attempt", history: lateOutcome},
	{name: "no claim sweep and no monitor", planted: "no_claims", rule: "has_an_outcome", history: lostMessages},
	{name: "ack before claim without sweeps", sound: "no_claims,no_orphans", planted: "no_claims,no_orphans,ack_first",
		rule: "has_an_outcome", history: lostMemory, only: stillScheduled},
	{name: "a dead-letter handler that looks at the status only", planted: "status_only", rule: "expired_by_its_letter", history: lateLetter},
}

// TestPlantedFaultsAreFound runs before the suites that run side by side: their nodes together would take more files than a
// RabbitMQ usually has.
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

// TestWholePlantedFaultsFailTheStorm drives nodes with each planted fault through the storm that sound ones live through.
func TestWholePlantedFaultsFailTheStorm(t *testing.T) {
	wholeOnly(t)
	troupe, err := mutantBinary()
	require.NoError(t, err)
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			f := newStormy(t, troupe, "TROUPE_MUTANT="+m.planted)
			c := f.caller()
			c.lossTime = 8 * time.Second
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
			defer cancel()
			load := f.through(ctx, wholeStorm(), wholeFaults(), c)
			defer time.AfterFunc(backTime, cancel).Stop()
			_ = load() // what is lost may keep it from its end
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

// stillScheduled reports whether a violation is that of an execution which nobody took off its worker's queue.
func stillScheduled(v chaos.Violation, h *chaos.History) bool {
	for i := range h.Executions {
		if h.Executions[i].ID == v.Execution {
			return v.Rule == "has_an_outcome" && h.Executions[i].Status == messages.Scheduled
		}
	}
	return false
}

// submitAll submits so many pieces of work that run for so long, under keys of their round.
func (f *full) submitAll(c *caller, action, round string, count int, length time.Duration, want ...messages.Status) {
	f.t.Helper()
	for i := range count {
		w := &work{want: want}
		w.ActionRef, w.IdempotencyKey, w.Parameters = action, fmt.Sprintf("%s-%s-%d", action, round, i), parameters(length)
		_, err := c.submit(f.t.Context(), w)
		require.NoError(f.t, err)
	}
}

// with lists the executions in the given statuses, as the node knows them.
func (n *node) with(statuses string) []form.ExecutionView {
	n.t.Helper()
	executions, err := n.list(statuses)
	require.NoError(n.t, err)
	return executions
}

// list is with, where the node may be without its store.
func (n *node) list(statuses string) ([]form.ExecutionView, error) {
	ctx, cancel := context.WithTimeout(n.t.Context(), 30*time.Second)
	defer cancel()
	var list api.ExecutionList
	err := n.client.Load().Get(ctx, "/api/v1/executions?limit=1000&status="+statuses, &list)
	return list.Executions, err
}

// quiet waits until nothing stands in the statuses any more, for at most limit, and reports whether it is so.
func (n *node) quiet(limit time.Duration, statuses string) bool {
	n.t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) { // between two looks
		if len(n.with(statuses)) == 0 {
			return true
		}
	}
	return false
}

const underWay = "requested,scheduling,scheduled,running,cancelling"

// lateRounds bounds how often lateOutcome tries: a thawed node gives itself up within milliseconds, and what its workers
// have said may or may not be told before that.
const lateRounds = 10

// lateOutcome has runs end while their node is frozen, and lets it tell of them while the runs are repeated elsewhere,
// until one such outcome has come to the store.
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

// repeatElsewhere freezes a while it runs work, until b has been given that work again, and runs it.
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

// lateWrites counts the outcomes of old attempts that came to the store while the next attempt ran, whether they took effect or not. One that
// comes while the next attempt still waits for its worker could not take effect on it, whatever the program does.
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

// settleTime is how long lost work may take to have its outcome, on a busy machine: a few claim timeouts of 1 s, with the back-off.
const settleTime = 20 * time.Second

// lostMessages takes messages off the workers' queues, which nobody will deliver again.
func lostMessages(f *full) *chaos.History {
	n := f.join("a", f.troupe, "pack")
	f.start()
	c := &caller{node: n}
	var stolen atomic.Int64
	stop := f.thieves(n, func(_ string, d broker.Delivery) {
		if _, err := broker.DecodeWork(d.Body); err == nil { // no echo
			stolen.Add(1)
		}
	})
	f.submitAll(c, "chaos.go_work", "0", 20, 5*time.Millisecond, messages.Completed)
	n.eventually(backTime, "messages are lost", func(context.Context) bool { return stolen.Load() >= 2 })
	stop()
	n.quiet(settleTime, underWay)
	return f.history(c)
}

// thieves consume beside the workers of the Go pool until they are stopped.
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

// lostMemory kills a node while work waits for its workers, which are busy. Where messages are acked with the claim, that work
// expires on the dead node's queues, which another node hears of.
func lostMemory(f *full) *chaos.History {
	ttl := "TROUPE_MESSAGE_QUEUE_RABBITMQ_WORKER_QUEUE_TTL_MS=2500"
	a, b := f.join("a", f.troupe, "pack", ttl), f.join("b", f.troupe, "pack", ttl)
	a.start()
	a.ready()
	c := &caller{node: a}
	ends := []messages.Status{messages.Completed, messages.Failed}
	f.submitAll(c, "chaos.go_work", "short", 40, 2*time.Millisecond, ends...) // what is short is placed ahead of its worker
	a.settled(backTime)
	f.submitAll(c, "chaos.go_work", "long", 2, 20*time.Second, ends...)
	a.eventually(backTime, "both workers are busy", func(context.Context) bool { return len(a.with("running")) == 2 })
	f.submitAll(c, "chaos.go_work", "ahead", 10, 2*time.Millisecond, ends...)
	quiet, before := 0, 0 // a placement that has not been published yet is no message's to save
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

// lateLetter sends the dead letters of old attempts while a newer one waits on its queue.
func lateLetter(f *full) *chaos.History {
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
