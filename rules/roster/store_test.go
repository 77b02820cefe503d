package roster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
)

// While the store is away no heartbeat can be written, so every worker looks stale. Nothing fails for that, neither then
// nor within SteadyAfter of the store's return, unless the workers stay stale.
func TestAStoreThatWasAwayFailsNothing(t *testing.T) {
	t.Parallel()
	r, now := New(Config{}), epoch0
	step := func(d time.Duration, e Event) (failed, placed int) {
		now = now.Add(d)
		for _, effect := range r.Step(now, e) {
			switch effect := effect.(type) {
			case Fail:
				require.Equal(t, messages.CodeNoWorkers, effect.Code)
				failed++
			case Place:
				placed += len(effect.Assignments)
			}
		}
		return failed, placed
	}
	key := messages.WorkerKey{Pool: "p"}
	step(0, WorkerSeen{Worker: key, ID: "n/p/0", Generation: 1, Accepts: true, Active: true, Grade: health.Healthy, BeatAt: now})
	step(15*time.Second, Tick{}) // it has led for long enough
	step(0, Store{Away: true})
	step(0, Loaded{Candidates: []messages.Candidate{{ID: messages.ExecutionID{1}, Seq: 1}}})
	step(0, Placed{ID: messages.ExecutionID{1}}) // which the store did not take
	for range 60 {
		failed, placed := step(time.Second, Tick{})
		require.Zero(t, failed+placed)
		failed, placed = step(0, Loaded{Candidates: []messages.Candidate{{ID: messages.ExecutionID{2}, Seq: 2}}})
		require.Zero(t, failed, "the worker is stale because the store is away")
		if now.Sub(epoch0) > 30*time.Second {
			require.Zero(t, placed)
		}
		step(0, Placed{ID: messages.ExecutionID{2}})
	}
	step(0, Store{})
	failed, _ := step(9*time.Second, Tick{})
	require.Zero(t, failed)
	failed, _ = step(2*time.Second, Loaded{Candidates: []messages.Candidate{{ID: messages.ExecutionID{3}, Seq: 3}}})
	require.Equal(t, 2, failed, "now it is believed: the workers are gone")
}
