package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/test/chaos"
)

func TestCancelsRaceCompletion(t *testing.T) {
	t.Parallel()
	cancelsRaceCompletion(t, 120)
}

func TestWholeCancelsRaceCompletion(t *testing.T) {
	if !whole {
		return
	}
	cancelsRaceCompletion(t, 1000)
}

// raced are the actions whose runs are cancelled near their end: each runtime stops its code in its own way.
var raced = []string{"chaos.work", "chaos.redo", "chaos.sh_work", "chaos.go_work", "chaos.go_redo"}

// race is one run and its cancel, with the run that follows on the same pool, which the cancel must not hit.
type race struct {
	victim, next work
	length       time.Duration // of the victim's run
	spread       float64       // when the cancel comes, in lengths
}

func cancelsRaceCompletion(t *testing.T, cancels int) {
	random := rand.New(rand.NewPCG(seed(t), 3))
	n := newNode(t, "pack", "TROUPE_WORKER_CANCEL_GRACE=10") // time enough for each code to stop by itself
	n.start()
	n.ready()
	c := &caller{node: n}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	races := make(chan *race, cancels)
	for i := range cancels {
		races <- newRace(i, random)
	}
	close(races)
	const runners = 6 // fewer than the pools have workers, so that most runs start at once
	failures := make([]error, runners)
	var wait sync.WaitGroup
	for i := range runners {
		wait.Go(func() {
			for r := range races {
				if failures[i] = c.race(ctx, r); failures[i] != nil {
					return
				}
			}
		})
	}
	wait.Wait()
	for _, err := range failures {
		require.NoError(t, err)
	}
	n.settled(30 * time.Second)
	h := n.history(c)
	n.verdict(h)
	for _, w := range n.workers("") {
		require.Zero(t, w.Restarts, "worker %s was ended by a cancel: %s", w.ID, w.LastError)
	}
	reportCancels(t, h, cancels)
}

func newRace(i int, random *rand.Rand) *race {
	length := time.Duration(10+random.IntN(30)) * time.Millisecond
	r := &race{length: length, spread: 0.5 + 2*random.Float64()}
	r.victim.want = []messages.Status{messages.Completed, messages.Cancelled}
	r.next.want = []messages.Status{messages.Completed}
	action := raced[random.IntN(len(raced))]
	for name, w := range map[string]*work{"victim": &r.victim, "next": &r.next} {
		w.ActionRef, w.IdempotencyKey = action, fmt.Sprintf("%s-%d", name, i)
		w.Parameters = json.RawMessage(fmt.Sprintf(`{"ms":%d}`, length.Milliseconds()))
	}
	return r
}

// race cancels a run near its end while the one after it is already waiting for the worker.
func (c *caller) race(ctx context.Context, r *race) error {
	victim, err := c.submit(ctx, &r.victim)
	if err != nil {
		return err
	}
	next, err := c.submit(ctx, &r.next)
	if err != nil {
		return err
	}
	time.Sleep(time.Duration(r.spread * float64(r.length))) // the moment of the cancel, from the seed
	if err := c.cancel(ctx, victim); err != nil {
		return err
	}
	for _, id := range []messages.ExecutionID{victim, next} {
		if _, err := c.wait(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// reportCancels logs the figures, and fails when it was no race: when one side nearly always won.
func reportCancels(t *testing.T, h *chaos.History, cancels int) {
	t.Helper()
	outcomes, found := map[messages.Status]int{}, map[messages.Status]int{}
	victims := map[messages.ExecutionID]bool{}
	for _, call := range h.Calls {
		if call.Op == "cancel" && call.State == chaos.OK {
			victims[call.ID] = true
			found[call.Found]++
		}
	}
	for i := range h.Executions {
		if e := &h.Executions[i]; victims[e.ID] {
			outcomes[e.Status]++
		}
	}
	require.Len(t, victims, cancels)
	require.Greater(t, outcomes[messages.Completed], cancels/20, "the runs hardly ever won: %v", outcomes)
	require.Greater(t, outcomes[messages.Cancelled], cancels/20, "the cancels hardly ever won: %v", outcomes)
	t.Logf("cancels %d, answered with %v, outcomes %v", cancels, found, outcomes)
}
