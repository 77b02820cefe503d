package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/test/chaos"
)

// storm is the size of a run in which the node is killed under load.
type storm struct {
	executions, kills, sessions, callers int
}

func TestNodeKilledUnderLoad(t *testing.T) {
	t.Parallel()
	nodeKilledUnderLoad(t, storm{executions: 1000, kills: 4, sessions: 16, callers: 24})
}

func TestWholeNodeKilledUnderLoad(t *testing.T) {
	if !whole {
		return
	}
	nodeKilledUnderLoad(t, storm{executions: 10_000, kills: 20, sessions: 64, callers: 48})
}

// kind is one kind of work: what it may end as when nothing but the node is killed.
type kind struct {
	action  string
	weight  int
	ms      int // work of up to so many milliseconds
	session bool
	want    []messages.Status
	codes   []messages.Code
}

// kinds is the mix. Work that runs when the node dies is abandoned, or, where it may be repeated, run again; run again
// too often it would be poisoned.
var kinds = []kind{
	{action: "chaos.count", weight: 24, ms: 10, session: true, want: ends(messages.Completed)},
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

// ends are outcomes of work that may also be abandoned.
func ends(statuses ...messages.Status) []messages.Status { return append(statuses, messages.Abandoned) }

func codes(list ...messages.Code) []messages.Code { return list }

// plan makes the workload: everything that chance decides, from the seed alone.
func (s storm) plan(random *rand.Rand) []*work {
	var lots []*kind
	for i := range kinds {
		lots = append(lots, slices.Repeat([]*kind{&kinds[i]}, kinds[i].weight)...)
	}
	plan := make([]*work, s.executions)
	for i := range plan {
		k := lots[random.IntN(len(lots))]
		w := &work{want: k.want, codes: k.codes}
		w.ActionRef, w.IdempotencyKey = k.action, fmt.Sprintf("storm-%d", i)
		if k.ms > 0 {
			w.Parameters = json.RawMessage(fmt.Sprintf(`{"ms":%d}`, max(k.ms/1000*1000, random.IntN(k.ms))))
		}
		if k.session {
			w.Session = fmt.Sprintf("s%d", random.IntN(s.sessions))
		} else if random.IntN(20) == 0 {
			w.want = append(slices.Clone(w.want), messages.Cancelled)
		}
		plan[i] = w
	}
	return plan
}

func nodeKilledUnderLoad(t *testing.T, s storm) {
	random := rand.New(rand.NewPCG(seed(t), 1))
	n := newNode(t, "pack")
	c := &caller{node: n}
	n.start()
	n.ready()
	plan := s.plan(random)
	thresholds := make([]int, s.kills) // a kill comes when so many callers have their outcome
	for i := range thresholds {
		thresholds[i] = random.IntN(s.executions * 95 / 100)
	}
	slices.Sort(thresholds)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute+time.Duration(s.executions)*10*time.Millisecond)
	defer cancel()
	var finished atomic.Int64
	load := startLoad(ctx, c, s, plan, random.Uint64(), &finished)
	kills := n.killAt(ctx, thresholds, &finished, random)
	require.NoError(t, load())
	n.settled(time.Minute)
	h := n.history(c)
	n.verdict(h)
	require.Len(t, kills, s.kills)
	reportStorm(t, c, h, kills)
}

// startLoad has the callers work the plan off, and returns what waits for them.
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
				failures[i] = c.perform(ctx, plan[at], random)
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

// perform submits one work, cancels it where that is among its ends, and waits for the outcome.
func (c *caller) perform(ctx context.Context, w *work, random *rand.Rand) error {
	id, err := c.submit(ctx, w)
	if err != nil {
		return err
	}
	if slices.Contains(w.want, messages.Cancelled) {
		time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond) // the moment of the cancel, from the seed
		if err := c.cancel(ctx, id); err != nil {
			return err
		}
	}
	_, err = c.wait(ctx, id)
	return err
}

// blow is one kill of the node, and how long it took to be healed.
type blow struct {
	at     time.Time
	healed time.Duration // until the new node was ready
}

// killAt kills the node each time so many executions have an outcome, at a random moment after it, and starts it
// again. Every third kill hits a node that is only starting.
func (n *node) killAt(ctx context.Context, thresholds []int, finished *atomic.Int64, random *rand.Rand) []blow {
	n.t.Helper()
	var blows []blow
	for i, threshold := range thresholds {
		n.eventually(time.Until(deadlineOf(ctx)), "the load goes on", func(context.Context) bool { return finished.Load() >= int64(threshold) })
		time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond) // the moment of the kill, from the seed
		blows = append(blows, blow{at: time.Now()})
		n.kill()
		n.start()
		if i%3 == 2 {
			continue // the next threshold may have been reached: the node is hit again while its workers start
		}
		n.ready()
		blows[i].healed = time.Since(blows[i].at)
	}
	n.ready()
	return blows
}

func deadlineOf(ctx context.Context) time.Time {
	deadline, _ := ctx.Deadline()
	return deadline
}

// reportStorm logs the figures that docs/chaos.md records.
func reportStorm(t *testing.T, c *caller, h *chaos.History, kills []blow) {
	t.Helper()
	placed, crashed := 0, 0
	var rescues []time.Duration
	for i := range h.Executions {
		e := &h.Executions[i]
		placed += max(0, int(e.Attempt)-1)
		for _, ev := range e.Events {
			if ev.Kind != "rescue" && ev.Reason != string(messages.CodeWorkerLost) {
				continue
			}
			crashed++
			for _, k := range slices.Backward(kills) {
				if k.at.Before(ev.At) {
					rescues = append(rescues, ev.At.Sub(k.at))
					break
				}
			}
		}
	}
	slices.Sort(rescues)
	heal := time.Duration(0)
	for _, k := range kills {
		heal = max(heal, k.healed)
	}
	t.Logf("kills %d, calls repeated %d, placed again %d, runs hit by a kill %d, rescue p50 %s max %s, longest time to heal %s",
		len(kills), c.again, placed, crashed, quantile(rescues, 0.5), quantile(rescues, 1), heal.Round(time.Millisecond))
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))].Round(time.Millisecond)
}
