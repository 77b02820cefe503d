package node

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/retry"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/clock"
)

// overdueStore has rows past a deadline and refuses every change of those that stay.
type overdueStore struct {
	store.Store
	rows  []messages.Execution // the oldest first
	stays func(*messages.Execution) bool
	tried map[int64]int

	chain  []messages.Execution
	events map[messages.ExecutionID][]store.Event
}

func (s *overdueStore) Chain(context.Context, messages.ExecutionID) ([]messages.Execution, error) {
	return s.chain, nil
}

func (s *overdueStore) Events(_ context.Context, id messages.ExecutionID) ([]store.Event, error) {
	return s.events[id], nil
}

func (s *overdueStore) Overdue(_ context.Context, q store.OverdueQuery) (page []messages.Execution, _ error) {
	for i := range s.rows {
		e := &s.rows[i]
		if e.Seq > q.After.Seq && !e.ScheduledAt.Before(q.After.At) && len(page) < q.Limit {
			page = append(page, *e)
		}
	}
	return page, nil
}

func (s *overdueStore) Apply(_ context.Context, changes []store.Change) ([]store.Result, error) {
	results := make([]store.Result, len(changes))
	at := map[messages.ExecutionID]int{}
	for i, c := range changes {
		at[c.Target()] = i
	}
	var left []messages.Execution
	for i := range s.rows {
		e := s.rows[i]
		place, changed := at[e.ID]
		switch {
		case changed && s.stays(&e):
			results[place].Verdict = store.Blocked
		case changed:
			results[place].Verdict = store.Applied
		}
		if changed {
			s.tried[e.Seq]++
		}
		if !changed || s.stays(&e) {
			left = append(left, e)
		}
	}
	s.rows = left
	return results, nil
}

func overdueSweeper(count int, stays func(*messages.Execution) bool) (*sweeper, *overdueStore, *prometheus.CounterVec) {
	s := &overdueStore{stays: stays, tried: map[int64]int{}}
	for i := range count {
		s.rows = append(s.rows, messages.Execution{
			ID: messages.ExecutionID{byte(i >> 16), byte(i >> 8), byte(i)}, Seq: int64(i + 1), Pool: "p",
			ScheduledAt: time.Unix(int64(i/7), 0),
		})
	}
	counts := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "take_backs"}, []string{"pool", "reason"})
	return &sweeper{
		store: s, clock: &clock.Clock{}, takenBack: func(pool, reason string) { counts.WithLabelValues(pool, reason).Inc() },
		record: func(ctx context.Context, _ string, items []actors.Item) ([]store.Result, error) {
			changes := make([]store.Change, len(items))
			for i := range items {
				changes[i] = items[i].Change
			}
			return s.Apply(ctx, changes)
		},
	}, s, counts
}

func takeBack(_ context.Context, e *messages.Execution) store.Change {
	return &store.TakeBack{ID: e.ID, Attempt: e.Attempt, Reason: "claim_timeout"}
}

// What cannot be changed hides nothing: a round passes it, and the next one goes on where it ended.
func TestASweepPassesWhatStays(t *testing.T) {
	t.Parallel()
	const free = 3
	n, s, counted := overdueSweeper(2*sweepBatch+free, func(e *messages.Execution) bool { return e.Seq <= 2*sweepBatch })
	orphans := store.OverdueQuery{Deadline: store.Orphaned}
	done, err := n.run(t.Context(), orphans, takeBack)
	require.NoError(t, err)
	require.Equal(t, free, done)
	require.Len(t, s.rows, 2*sweepBatch)
	registry := prometheus.NewRegistry()
	registry.MustRegister(counted)
	counts, err := registry.Gather()
	require.NoError(t, err)
	require.InDelta(t, free, counts[0].GetMetric()[0].GetCounter().GetValue(), 0, "a take-back counts once it is made")
	_, err = n.run(t.Context(), orphans, takeBack)
	require.NoError(t, err)
	require.Equal(t, 2, s.tried[1], "and what stayed is tried again with each round")
	require.Equal(t, 2, s.tried[2*sweepBatch])
}

func TestASweepGoesOnWhereItsLastRoundEnded(t *testing.T) {
	t.Parallel()
	const bound = sweepBatch * sweepBatches
	n, s, _ := overdueSweeper(bound+1, func(e *messages.Execution) bool { return e.Seq <= bound })
	for round, want := range []struct{ done, first, last int }{{0, 1, 0}, {1, 1, 1}, {0, 2, 1}} {
		done, err := n.run(t.Context(), store.OverdueQuery{Deadline: store.Orphaned}, takeBack)
		require.NoError(t, err)
		require.Equal(t, want.done, done, round)
		require.Equal(t, want.first, s.tried[1], round)
		require.Equal(t, want.last, s.tried[bound+1], round)
	}
}

// What a dead incarnation had is given back with a reason that is true of it: what was only placed there never ran.
func TestARescueSaysHowFarTheExecutionCame(t *testing.T) {
	t.Parallel()
	const before, during = "its node ended before it started", "its node ended while it ran"
	id := messages.NewExecutionID()
	history := &overdueStore{events: map[messages.ExecutionID][]store.Event{id: {
		{Kind: "rescue", Reason: during, Worker: "b/go/0"}, {Kind: "rescue", Reason: "signal: killed", Worker: "c/go/0"},
		{Kind: "rescue", Reason: during, Worker: "b/go/1"}, {Kind: "take_back", Reason: before, Worker: "c/go/0"},
	}}}
	s := &sweeper{store: history, judge: &actors.WorkerConfig{
		Retry: messages.RetryPolicy{Jitter: -1},
		Clock: &clock.Clock{}, Action: func(string, string) (*messages.Action, bool) { return nil, false },
	}}
	for name, c := range map[string]struct {
		status     messages.Status
		idempotent bool
		want       store.Change // nil: it ends, with an outcome that says why
		why        string
	}{
		"placed":                 {messages.Scheduled, false, &store.TakeBack{ID: id, Attempt: 2, Reason: before}, ""},
		"placed, may repeat":     {messages.Scheduled, true, &store.TakeBack{ID: id, Attempt: 2, Reason: before}, ""},
		"it ran, and may repeat": {messages.Running, true, &store.Rescue{ID: id, Attempt: 2, Reason: during, Delay: 4 * time.Second, Unstarted: true}, ""},
		"it ran":                 {messages.Running, false, nil, during},
		"it was being cancelled": {messages.Cancelling, false, nil, during},
		"cancelled, may repeat":  {messages.Cancelling, true, nil, during},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			change := s.rescue(t.Context(), &messages.Execution{ID: id, Attempt: 2, Status: c.status, Idempotent: c.idempotent, WorkerID: "a/go/0"})
			if c.want != nil {
				require.Equal(t, c.want, change)
				return
			}
			require.Contains(t, change.(*store.Finish).Outcome.Error.Message, c.why)
		})
	}
	require.Nil(t, s.rescue(t.Context(), &messages.Execution{ID: id, Status: messages.Requested}), "nothing has it")
}

// The nodes that ended with an execution are counted over its chain, by what the store keeps of it. What its workers died of is not.
func TestNodesThatEndedAreCountedOverTheChain(t *testing.T) {
	t.Parallel()
	first, last := messages.NewExecutionID(), messages.NewExecutionID()
	sweeping, crashed := &messages.Error{Code: messages.CodeWorkerLost, FailedBy: failedBySweep}, &messages.Error{Code: messages.CodeWorkerLost, FailedBy: messages.FailedByWorker}
	history := &overdueStore{
		chain: []messages.Execution{
			{ID: first, Status: messages.Abandoned, WorkerID: "a/go/0", Error: sweeping}, {Status: messages.Abandoned, WorkerID: "x/go/0", Error: crashed},
			{ID: last, Status: messages.Running, WorkerID: "e/go/0"},
		},
		events: map[messages.ExecutionID][]store.Event{last: {
			{Kind: "rescue", Reason: retry.NodeEnded, Worker: "b/go/0"}, {Kind: "rescue", Reason: retry.NodeEnded, Worker: "c/go/0"},
			{Kind: "rescue", Reason: retry.NodeEnded, Worker: "d/go/0"},
		}},
	}
	s := &sweeper{store: history, judge: &actors.WorkerConfig{
		Clock: &clock.Clock{}, Action: func(string, string) (*messages.Action, bool) { return nil, false },
	}}
	change := s.rescue(t.Context(), &messages.Execution{
		ID: last, Attempt: 4, RetryCount: 2, MaxRetries: 9, Status: messages.Running, Idempotent: true, CrashCount: 1, WorkerID: "e/go/0",
	})
	finish := change.(*store.Finish)
	require.Equal(t, messages.CodePoisoned, finish.Outcome.Error.Code)
	require.Contains(t, finish.Outcome.Error.Message, "5 nodes ended while they ran the execution or those it retries: a, b, c, d, e;")
	require.Nil(t, finish.Retry)
}
