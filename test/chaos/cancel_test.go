package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
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
	wholeOnly(t)
	cancelsRaceCompletion(t, 1000)
}

// raced are the actions whose runs are cancelled shortly before or after their end, by pool. Each runtime has its own way to stop
// code.
var raced = [][]string{{"chaos.work", "chaos.redo"}, {"chaos.sh_work"}, {"chaos.go_work", "chaos.go_redo"}}

// cancelsEach is how often each run is cancelled, without a pause. The last cancels arrive when the run has ended and the next
// one has started.
const cancelsEach = 3

// race is one run and its cancel, and the next run of the same pool, which the cancel must not stop.
type race struct {
	victim, next work
	length       time.Duration // of the victim's run
	spread       float64       // the time of the cancel, as a multiple of length
}

func cancelsRaceCompletion(t *testing.T, cancels int) {
	random := rand.New(rand.NewPCG(seed(t), 3))
	n := newNode(t, "pack", "TROUPE_WORKER_CANCEL_GRACE=10") // long enough for each runtime's code to stop by itself
	n.oneWorkerEach()                                        // so that a run and the next one use the same worker
	n.start()
	n.ready()
	c := &caller{node: n}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	failures := make([]error, len(raced))
	var wait sync.WaitGroup
	for pool, actions := range raced { // one race at a time in each pool, so that its run starts at once
		random := rand.New(rand.NewPCG(random.Uint64(), uint64(pool)))
		wait.Go(func() {
			for i := pool; i < cancels && failures[pool] == nil; i += len(raced) {
				failures[pool] = c.race(ctx, newRace(i, actions[random.IntN(len(actions))], random))
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

func newRace(i int, action string, random *rand.Rand) *race {
	length := time.Duration(10+random.IntN(30)) * time.Millisecond
	r := &race{length: length, spread: 0.4 + 1.2*random.Float64()}
	r.victim.want = []messages.Status{messages.Completed, messages.Cancelled}
	r.next.want = []messages.Status{messages.Completed}
	for name, w := range map[string]*work{"victim": &r.victim, "next": &r.next} {
		w.ActionRef, w.IdempotencyKey = action, fmt.Sprintf("%s-%d", name, i)
		w.Parameters = json.RawMessage(fmt.Sprintf(`{"ms":%d}`, length.Milliseconds()))
	}
	return r
}

// race cancels a run near its end, while the next run already waits for the worker.
func (c *caller) race(ctx context.Context, r *race) error {
	victim, err := c.submit(ctx, &r.victim)
	if err != nil {
		return err
	}
	next, err := c.submit(ctx, &r.next)
	if err != nil {
		return err
	}
	time.Sleep(time.Duration(r.spread * float64(r.length))) // the time of the cancel depends on the seed
	for range cancelsEach {
		if err := c.cancel(ctx, victim); err != nil {
			return err
		}
	}
	for _, id := range []messages.ExecutionID{victim, next} {
		if _, err := c.wait(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// oneWorkerEach gives each pool of the pack one worker.
func (n *node) oneWorkerEach() {
	n.t.Helper()
	path := filepath.Join(n.dir, "pack", "pack.yaml")
	text, err := os.ReadFile(path)
	require.NoError(n.t, err)
	text = regexp.MustCompile(`workers: \d+`).ReplaceAll(text, []byte("workers: 1"))
	require.NoError(n.t, os.WriteFile(path, text, 0o644))
}

// reportCancels logs how the races ended. It fails if nearly all of them ended in the same way, because then nothing raced.
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
