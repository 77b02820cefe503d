package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

// TestBatchesMeetWithoutDeadlock has several callers on two nodes make every change of the same few executions and
// sessions at the same time, each batch in an order of its own. No lock conflict may reach a caller.
func TestBatchesMeetWithoutDeadlock(t *testing.T) {
	t.Parallel()
	const sessions, executions, callers, rounds = 6, 24, 6, 25
	d := newBench(t)
	a, b := d.open(t, postgres.Config{Schema: "met"}), d.open(t, postgres.Config{Schema: "met"})
	inc := joined(t, a)
	var asked []messages.Execution
	for i := range executions {
		e := noop(1)[0]
		if i%4 != 0 { // some have none
			e.Session, e.Affinity = fmt.Sprint("s", i%sessions), messages.AffinityHint
		}
		asked = append(asked, e)
	}
	_, err := a.Submit(t.Context(), asked)
	require.NoError(t, err)
	var work sync.WaitGroup
	for n := range callers {
		s, random := []*postgres.Store{a, b}[n%2], rand.New(rand.NewPCG(1, uint64(n)))
		work.Go(func() {
			for range rounds {
				var changes []store.Change
				for _, i := range random.Perm(executions)[:12] {
					changes = append(changes, anyChange(random, inc, &asked[i]))
				}
				results, err := s.Apply(t.Context(), changes)
				if err != nil {
					t.Errorf("apply: %v", err)
					return
				}
				for i, r := range results {
					if r.Verdict != store.Applied && r.Verdict != store.Already && r.Verdict != store.Stale && r.Verdict != store.Refused {
						t.Errorf("%s: %s %v", changes[i].Name(), r.Verdict, r.Err)
					}
				}
			}
		})
	}
	work.Wait()
	sessionsHeld, err := a.ListSessions(t.Context(), store.SessionFilter{Pools: []string{"go"}}, "", 10)
	require.NoError(t, err)
	require.NotEmpty(t, sessionsHeld, "sessions were bound")
}

// anyChange returns one change that may or may not be possible.
func anyChange(random *rand.Rand, inc messages.WorkerKey, e *messages.Execution) store.Change {
	key := inc
	key.Slot = messages.Slot(random.IntN(3))
	attempt := messages.Attempt(random.IntN(6))
	switch random.IntN(10) {
	case 0, 1, 2, 3:
		p := &store.Place{ID: e.ID, Attempt: attempt, Worker: key, WorkerID: messages.NewWorkerID("n", key.Pool, key.Slot), PlacedBy: key.Incarnation,
			ClaimWithin: time.Minute}
		if e.Session != "" {
			p.Session = &store.SessionUse{Pool: key.Pool, Session: e.Session, Epoch: int64(random.IntN(20) + 1), Bind: random.IntN(2) == 0, Hit: random.IntN(2) == 0}
		}
		return p
	case 4, 5, 6, 7:
		return &store.Claim{ID: e.ID, Attempt: attempt, Worker: key, Generation: 1}
	case 8:
		return &store.TakeBack{ID: e.ID, Attempt: attempt}
	}
	return &store.Rescue{ID: e.ID, Attempt: attempt, Reason: "test"}
}
