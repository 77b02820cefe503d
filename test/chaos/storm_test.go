package chaos_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/test/chaos"
)

// storm is a load during which faults are injected again and again.
type storm struct {
	executions, injections, sessions, callers int
	inject                                    func(*node, *rand.Rand)
	first                                     string // the node's binary at its first start; empty: the one that is built
	// gentle: the faults lose nothing, so no work may be abandoned and no session may lose its state.
	gentle bool
	// stretch multiplies the duration of Python and Go runs; 0: 1.
	stretch int
	// events: the store keeps an event for every step, which is not the default.
	events bool
	// direct: the nodes hand work to each other, without RabbitMQ.
	direct bool
	// change: each start of a node gives it the other dispatch. All have RabbitMQ.
	change bool
	// idle is how many idle sessions the store has besides those of the load.
	idle int
	// admit, if set, is called before each piece of work, and may block.
	admit func(at int) error
}

func TestNodeKilledUnderLoad(t *testing.T) {
	t.Parallel()
	underLoad(t, storm{executions: 1000, injections: 4, sessions: 16, callers: 24, inject: killNode})
}

func TestWholeNodeKilledUnderLoad(t *testing.T) {
	wholeOnly(t)
	underLoad(t, storm{executions: 10_000, injections: 20, sessions: 64, callers: 48, inject: killNode})
}

func TestWorkersKilledUnderLoad(t *testing.T) {
	t.Parallel()
	underLoad(t, storm{executions: 600, injections: 20, sessions: 16, callers: 24, stretch: 4, inject: killWorker})
}

func TestWholeWorkersKilledUnderLoad(t *testing.T) {
	wholeOnly(t)
	underLoad(t, storm{executions: 10_000, injections: 300, sessions: 64, callers: 48, inject: killWorker})
}

func TestWorkersKilledUnderLoadWithEvents(t *testing.T) {
	t.Parallel()
	underLoad(t, storm{executions: 400, injections: 24, sessions: 16, callers: 24, stretch: 8, inject: killWorker, events: true})
}

func TestWholeNodeKilledUnderLoadWithEvents(t *testing.T) {
	wholeOnly(t)
	underLoad(t, storm{executions: 10_000, injections: 20, sessions: 64, callers: 48, inject: killNode, events: true})
}

func TestNodeStoppedUnderLoad(t *testing.T) {
	t.Parallel()
	underLoad(t, storm{executions: 400, injections: 2, sessions: 16, callers: 24, inject: stopNode, gentle: true})
}

func TestWholeNodeStoppedUnderLoad(t *testing.T) {
	wholeOnly(t)
	underLoad(t, storm{executions: 10_000, injections: 20, sessions: 64, callers: 48, inject: stopNode, gentle: true})
}

// killNode kills the node. One time in three it kills it again during its start.
func killNode(n *node, random *rand.Rand) {
	n.kill()
	if random.IntN(3) == 0 {
		_, err := n.launch()
		require.NoError(n.t, err)
		time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond) // the time of the kill depends on the seed
		n.kill()
	}
	n.start()
	n.ready()
}

// killWorker kills a process of a worker. Three times in four it chooses a busy one, if there is one. A random choice would
// mostly hit idle workers.
func killWorker(n *node, random *rand.Rand) {
	workers := slices.DeleteFunc(slices.Concat(n.workers("chaos.py"), n.workers("chaos.kept"), n.workers("chaos.gw")), func(w view.Worker) bool { return w.Pid == 0 })
	if len(workers) == 0 {
		return // all of them are being replaced after a timeout
	}
	busy := slices.DeleteFunc(slices.Clone(workers), func(w view.Worker) bool { return w.State != "busy" })
	if random.IntN(4) > 0 && len(busy) > 0 {
		workers = busy
	}
	_ = syscall.Kill(workers[random.IntN(len(workers))].Pid, syscall.SIGKILL) // fails if it has just been replaced
	n.allReady()
}

// stopNode stops the node in order and starts it again.
func stopNode(n *node, _ *rand.Rand) {
	n.stop()
	n.start()
	n.ready()
}

// kind is one kind of work, with its possible outcomes if only the node is killed.
type kind struct {
	action  string
	weight  int
	ms      int    // the longest duration in milliseconds
	session string // the prefix of its sessions' names; empty: it has no session
	want    []messages.Status
	codes   []messages.Code
}

// kinds is the mix. Work that runs when the node dies is abandoned or, if it is idempotent, repeated. If it is repeated too
// often, it fails as poisoned.
var kinds = []kind{
	{action: "chaos.count", weight: 16, ms: 10, session: "s", want: ends(messages.Completed)},
	{action: "chaos.keep", weight: 8, ms: 10, session: "k", want: ends(messages.Completed)},
	{action: "chaos.work", weight: 12, ms: 30, want: ends(messages.Completed)},
	{action: "chaos.redo", weight: 8, ms: 30, want: ends(messages.Completed, messages.Failed), codes: codes(messages.CodePoisoned)},
	{action: "chaos.fail", weight: 5, want: ends(messages.Failed), codes: codes(messages.CodeActionError)},
	{action: "chaos.hang", weight: 1, ms: 60_000, want: ends(messages.TimedOut)},
	{action: "chaos.sh_work", weight: 12, ms: 30, want: ends(messages.Completed)},
	{action: "chaos.sh_fail", weight: 5, want: ends(messages.Failed), codes: codes(messages.CodeExitStatus)},
	{action: "chaos.sh_again", weight: 3, want: ends(messages.Failed), codes: codes(messages.CodeExitStatus)},
	{action: "chaos.sh_hang", weight: 1, want: ends(messages.TimedOut)},
	{action: "chaos.go_work", weight: 10, ms: 20, want: ends(messages.Completed)},
	{action: "chaos.go_redo", weight: 5, ms: 20, want: ends(messages.Completed, messages.Failed), codes: codes(messages.CodePoisoned)},
	{action: "chaos.go_fail", weight: 3, want: ends(messages.Failed), codes: codes("as_asked")},
	{action: "chaos.go_again", weight: 3, want: ends(messages.Failed), codes: codes("as_asked")},
	{action: "core.echo", weight: 5, want: ends(messages.Completed, messages.Failed), codes: codes(messages.CodePoisoned)},
	{action: "core.fail", weight: 3, want: ends(messages.Failed), codes: codes(messages.CodeActionError)},
}

// ends are the given outcomes and abandoned.
func ends(statuses ...messages.Status) []messages.Status { return append(statuses, messages.Abandoned) }

func codes(list ...messages.Code) []messages.Code { return list }

// plan makes the workload from the seed. No other part of it is random.
func (s storm) plan(random *rand.Rand) []*work {
	var lots []*kind
	for i := range kinds {
		if s.gentle && kinds[i].action == "chaos.hang" {
			continue // a run that reaches its timeout ends its worker, with the state of its sessions
		}
		lots = append(lots, slices.Repeat([]*kind{&kinds[i]}, kinds[i].weight)...)
	}
	plan := make([]*work, s.executions)
	for i := range plan {
		k := lots[random.IntN(len(lots))]
		w := &work{want: k.want, codes: k.codes}
		w.ActionRef, w.IdempotencyKey = k.action, fmt.Sprintf("storm-%d", i)
		if k.ms > 0 {
			w.Parameters = json.RawMessage(fmt.Sprintf(`{"ms":%d}`, s.length(k, random)))
		}
		if k.session != "" {
			w.Session = fmt.Sprintf("%s%d", k.session, random.IntN(s.sessions))
		} else if random.IntN(20) == 0 {
			w.want = append(slices.Clone(w.want), messages.Cancelled)
		}
		if s.gentle {
			w.want = slices.DeleteFunc(slices.Clone(w.want), func(e messages.Status) bool { return e == messages.Abandoned })
		}
		plan[i] = w
	}
	return plan
}

// length is the duration of one run in milliseconds. Shell runs stay short, because a shell starts a process for each step.
func (s storm) length(k *kind, random *rand.Rand) int {
	ms := max(k.ms/1000*1000, random.IntN(k.ms))
	if s.stretch > 0 && k.ms < 1000 && !strings.HasPrefix(k.action, "chaos.sh") {
		ms *= s.stretch
	}
	return ms
}

// directly is the setting of a node without RabbitMQ.
const directly = "TROUPE_MESSAGE_QUEUE_RABBITMQ_URL="

// dispatches are the settings that a node has in turn.
func dispatches() []string { return []string{"TROUPE_DISPATCH=broker", "TROUPE_DISPATCH=direct"} }

// env has the settings of the nodes. A node that is stopped gently gets more time: a probe's timeout also bounds the snapshots of a worker
// that leaves.
func (s storm) env() (env []string) {
	if s.events {
		env = append(env, allEvents)
	}
	if s.direct {
		env = append(env, directly)
	}
	if !s.gentle {
		return env
	}
	// A probe or a cancel may take longer than in other storms. A worker that is ended for that would lose its sessions.
	return append(env, "TROUPE_HEALTH_PROBE_TIMEOUT=20", "TROUPE_WORKER_CANCEL_GRACE=20")
}

func underLoad(t *testing.T, s storm) {
	random := rand.New(rand.NewPCG(seed(t), 1))
	n := newNode(t, "pack", s.env()...)
	n.troupe = cmp.Or(s.first, n.troupe)
	c := &caller{node: n}
	n.start()
	n.ready()
	plan := s.plan(random)
	thresholds := make([]int, s.injections) // a fault comes when so many executions have ended
	for i := range thresholds {
		thresholds[i] = random.IntN(s.executions * 95 / 100)
	}
	slices.Sort(thresholds)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute+time.Duration(s.executions)*20*time.Millisecond)
	defer cancel()
	var finished atomic.Int64
	load := startLoad(ctx, c, s, plan, random.Uint64(), &finished)
	injections := n.injectAt(ctx, thresholds, &finished, random, s.inject)
	require.NoError(t, load())
	n.settled(time.Minute)
	h := n.history(c)
	n.verdict(h)
	reportStorm(t, s, c, h, injections)
}

// startLoad makes the callers perform the plan. The returned function waits for them.
func startLoad(ctx context.Context, c *caller, s storm, plan []*work, seed uint64, finished *atomic.Int64) func() error {
	next := atomic.Int64{}
	failures := make([]error, s.callers)
	var wait sync.WaitGroup
	for i := range s.callers {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		wait.Go(func() {
			for failures[i] == nil {
				at := int(next.Add(1)) - 1
				if at >= len(plan) {
					return
				}
				if s.admit != nil {
					failures[i] = s.admit(at)
				}
				if failures[i] == nil {
					failures[i] = c.perform(ctx, plan[at], random)
				}
				finished.Add(1)
			}
		})
	}
	return func() error {
		wait.Wait()
		for _, err := range failures {
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// perform submits one piece of work, cancels it if cancelled is a possible outcome, and waits for the outcome.
func (c *caller) perform(ctx context.Context, w *work, random *rand.Rand) error {
	began := time.Now()
	id, err := c.submit(ctx, w)
	if err != nil {
		return err
	}
	if slices.Contains(w.want, messages.Cancelled) {
		time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond) // the time of the cancel depends on the seed
		if err := c.cancel(ctx, id); err != nil {
			return err
		}
	}
	view, err := c.wait(ctx, id)
	if err == nil && c.heard != nil {
		c.heard(w, began, &view)
	}
	return err
}

// injection is one injected fault: its time, and how long it took until all was ready again.
type injection struct {
	at     time.Time
	healed time.Duration
}

// injectAt injects a fault each time that so many executions have ended, after a random pause.
func (n *node) injectAt(ctx context.Context, thresholds []int, finished *atomic.Int64, random *rand.Rand, inject func(*node, *rand.Rand)) []injection {
	n.t.Helper()
	deadline, _ := ctx.Deadline()
	injections := make([]injection, len(thresholds))
	for i, threshold := range thresholds {
		n.eventually(time.Until(deadline), "the load goes on", func(context.Context) bool { return finished.Load() >= int64(threshold) })
		time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond) // the time of the fault depends on the seed
		injections[i].at = time.Now()
		inject(n, random)
		injections[i].healed = time.Since(injections[i].at)
	}
	return injections
}

// reportStorm logs the figures that docs/chaos.md records. It fails if the faults hit nothing, because then the storm tested
// nothing.
func reportStorm(t *testing.T, s storm, c *caller, h *chaos.History, injections []injection) {
	t.Helper()
	again := 0
	var rescues []time.Duration
	for i := range h.Executions {
		e := &h.Executions[i]
		again += max(0, int(e.Attempt)-1)
		for _, ev := range e.Events {
			if ev.Kind == "rescue" && !chaos.NotStarted(ev.Reason) || ev.Reason == string(messages.CodeWorkerLost) {
				rescues = append(rescues, since(injections, ev.At))
			}
		}
	}
	told, broken := losses(h.Effects)
	healed := make([]time.Duration, len(injections))
	for i := range injections {
		healed[i] = injections[i].healed
	}
	slices.Sort(rescues)
	slices.Sort(healed)
	t.Logf("faults %d, boots %d, calls repeated %d, placements beyond the first %d, losses told to sessions %d, counters restarted %d",
		len(injections), c.node.boots, c.again, again, told, broken)
	t.Logf("runs hit %d and settled after p50 %s, max %s; healed after p50 %s, max %s",
		len(rescues), quantile(rescues, 0.5), quantile(rescues, 1), quantile(healed, 0.5), quantile(healed, 1))
	if s.gentle {
		require.Zero(t, broken, "state of sessions was lost")
		require.Empty(t, rescues, "runs were lost")
		return
	}
	require.NotZero(t, broken, "no session was hit")
	require.NotEmpty(t, rescues, "no run was hit")
}

// losses counts the runs that were informed of a loss, and those whose session's counter did not continue. A session that was
// bound, and moved before its first run, is informed of a loss although it had no state.
func losses(effects []chaos.Effect) (told, broken int) {
	counts := map[string]int{}
	for _, f := range effects {
		if f.Kind != "start" || f.Session == "" {
			continue
		}
		if f.Lost {
			told++
		}
		if f.Count != counts[f.Session]+1 {
			broken++
		}
		counts[f.Session] = f.Count
	}
	return told, broken
}

// since is the time from the last fault before at.
func since(injections []injection, at time.Time) time.Duration {
	for _, b := range slices.Backward(injections) {
		if b.at.Before(at) {
			return at.Sub(b.at)
		}
	}
	return 0
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))].Round(time.Millisecond)
}
