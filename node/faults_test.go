package node_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
)

// forgetfulStore makes changes and loses the answer, or does not make them, every few times.
type forgetfulStore struct {
	store.Store
	calls, lost atomic.Int64
	heals       atomic.Bool
}

func (s *forgetfulStore) wrap(inner store.Store) store.Store {
	s.Store = inner
	return s
}

func (s *forgetfulStore) Apply(ctx context.Context, changes []store.Change) ([]store.Result, error) {
	n := s.calls.Add(1)
	if s.heals.Load() || n%3 > 0 {
		return s.Store.Apply(ctx, changes)
	}
	s.lost.Add(1)
	if n%2 == 0 {
		return nil, fmt.Errorf("the connection broke before: %w", store.ErrUnavailable)
	}
	if _, err := s.Store.Apply(ctx, changes); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("the connection broke after: %w", store.ErrUnavailable)
}

// starts counts how often each execution was started.
type starts struct {
	mu   sync.Mutex
	byID map[messages.ExecutionID]int
}

func (s *starts) run(_ context.Context, task *messages.Task) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[task.ID]++
	return s.byID[task.ID], nil
}

func TestALostAnswerOfTheStoreMakesNoSecondOutcome(t *testing.T) {
	t.Parallel()
	forgetful, started := &forgetfulStore{}, &starts{byID: map[messages.ExecutionID]int{}}
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"work": started.run, "again": tryAgain})(c)
		c.WrapStore, c.EventsAll = forgetful.wrap, true
		c.Workers["go"] = 4
	}, goPack(t, map[string]string{"work": "", "again": "max_retries: 1\n"}))
	var requests []submit.Request
	for i := range 200 {
		ref := "t.work"
		if i%5 == 0 {
			ref = "t.again"
		}
		requests = append(requests, ask(ref, nil))
	}
	submitted, err := k.Submit(t.Context(), requests)
	require.NoError(t, err)
	for i, s := range submitted {
		e := k.await(s.Execution.ID)
		require.Len(t, k.events(e.ID)["finish"], 1, "one outcome")
		if i%5 == 0 {
			require.Equal(t, messages.Failed, e.Status)
			chain := k.chain(e.ID, 2)
			require.Len(t, k.events(chain[1].ID)["finish"], 1)
			continue
		}
		require.Equal(t, "1", string(e.Result), "%v", e.Error)
	}
	require.NotZero(t, forgetful.lost.Load())
	forgetful.heals.Store(true)
	for id, count := range started.byID {
		require.Equal(t, 1, count, "execution %s", id)
	}
}

// crashes of actors while they are at work.
func TestTheTreeRecoversFromPanicsAndLosesNothing(t *testing.T) {
	t.Parallel()
	for name, ids := range map[string][]string{
		"worker":   {"troupe/pools/go/0.%d", "troupe/pools/go/1.%d"},
		"pool":     {"troupe/pools/go"},
		"recorder": {"troupe/recorder"},
		"bridges":  {"troupe/bridges/delivery", "troupe/bridges/dead_letter"},
		"monitors": {
			"troupe/monitors/heartbeat", "troupe/monitors/deadlines", "troupe/monitors/orphans",
			"troupe/monitors/cancels", "troupe/monitors/claims", "troupe/monitors/timeout",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := lab(t, func(c *node.Config) {
				handle(map[string]messages.Handler{"work": func(ctx context.Context, task *messages.Task) (any, error) {
					select {
					case <-time.After(time.Duration(rand.IntN(8)) * time.Millisecond):
						return "done", nil
					case <-ctx.Done():
						return nil, errors.New("stopped")
					}
				}})(c)
				c.ClaimTimeout = 2 * time.Second
				c.Workers["go"] = 3
			}, goPack(t, map[string]string{"work": "max_retries: 10\n"}))
			k.ready("go", 2, 0)
			var all []messages.ExecutionID
			for round := range 4 {
				for range 40 {
					all = append(all, k.submit("t.work", nil))
				}
				id := ids[round%len(ids)]
				if contains(id, "%") {
					id = fmt.Sprintf(id, k.worker("go", round%len(ids)).Generation)
				}
				k.Crash(id)
				k.until("the actor failed", func() bool {
					_, failed := k.Registry().Failure(id)
					return failed
				})
			}
			for _, id := range all {
				e := k.await(id)
				for !e.RetriedAs.IsZero() {
					e = k.await(e.RetriedAs)
				}
				require.Equal(t, messages.Completed, e.Status, "%v", e.Error)
			}
			for slot := range 3 {
				k.ready("go", slot, 0)
			}
			for _, id := range ids {
				if !contains(id, "%") {
					_, alive := k.Registry().Get(id)
					require.True(t, alive, id)
				}
			}
		})
	}
}

func TestAPanicBesideAnActorIsTheActors(t *testing.T) {
	t.Parallel()
	broken := &panickyStore{}
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"noop": noop})(c)
		c.WrapStore = broken.wrap
	}, goPack(t, map[string]string{"noop": "idempotent: true\n"})) // the one that runs when its pool falls is placed again
	require.Equal(t, messages.Completed, k.run("t.noop", nil).Status)
	broken.left.Store(3)
	for range 5 {
		require.Equal(t, messages.Completed, k.run("t.noop", nil).Status)
	}
	k.until("monitors panicked too", func() bool { return broken.left.Load() <= 0 })
}

// panickyStore panics a few times where the recorder, a pool or a monitor calls it.
type panickyStore struct {
	store.Store
	left atomic.Int64
}

func (s *panickyStore) wrap(inner store.Store) store.Store {
	s.Store = inner
	return s
}

func (s *panickyStore) maybe() {
	if s.left.Add(-1) >= 0 {
		panic("a bug in the adapter")
	}
}

func (s *panickyStore) Apply(ctx context.Context, changes []store.Change) ([]store.Result, error) {
	s.maybe()
	return s.Store.Apply(ctx, changes)
}

func (s *panickyStore) Due(ctx context.Context, q store.DueQuery) (store.DuePage, error) {
	s.maybe()
	return s.Store.Due(ctx, q)
}

func (s *panickyStore) Overdue(ctx context.Context, q store.OverdueQuery) ([]messages.Execution, error) {
	s.maybe()
	return s.Store.Overdue(ctx, q)
}
