package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/rollup"
	"github.com/troupe-run/troupe/store"
)

// rollupStore keeps the rows that it is given, or fails.
type rollupStore struct {
	store.Store
	fails error
	rows  map[string]store.Rollup
	calls int
}

func (s *rollupStore) SaveRollups(_ context.Context, rows []store.Rollup) error {
	if s.calls++; s.fails != nil {
		return s.fails
	}
	if err := store.CheckRollups(rows); err != nil {
		return err
	}
	for _, r := range rows {
		s.rows[fmt.Sprint(r.Minute.Unix(), r.Pool, r.Action, r.Status, r.Code)] = r
	}
	return nil
}

func counter() (*rollups, *rollupStore) {
	rows := &rollupStore{rows: map[string]store.Rollup{}}
	return &rollups{base: &base{incarnation: messages.NewIncarnation(), logger: hclog.NewNullLogger(), store: &doubt{Store: rows}}}, rows
}

func stored(n int, pool string) (list []store.Submitted) {
	for range n {
		list = append(list, store.Submitted{Execution: messages.Execution{Pool: pool, Action: "a", Version: "1"}})
	}
	return list
}

// What a node submits and ends is counted once, also where the store has not taken it at first.
func TestCountsAreWrittenAgainAfterAnError(t *testing.T) {
	t.Parallel()
	r, rows := counter()
	require.NoError(t, r.finish(t.Context()))
	require.Zero(t, rows.calls, "nothing costs nothing")
	at := time.Date(2026, 3, 1, 3, 12, 59, 0, time.UTC)
	ended := func(status messages.Status, e messages.Execution, verdict store.Verdict) actors.Recorded {
		return actors.Recorded{Items: []actors.Item{{Change: &store.Finish{Retry: &messages.Execution{Pool: "p", Action: "a", Version: "1"}}}},
			Results: []store.Result{{Verdict: verdict, Status: status, At: at, Execution: &e}}}
	}
	run := messages.Execution{Pool: "p", Action: "a", Version: "1", RequestedAt: at.Add(-10 * time.Second), RunAt: at.Add(-8 * time.Second),
		StartedAt: at.Add(-4 * time.Second), FinishedAt: at, Error: &messages.Error{Code: "e"}}
	never := run
	never.StartedAt = time.Time{}
	r.transaction([]actors.Recorded{ended(messages.Failed, run, store.Applied), ended(messages.Failed, never, store.Applied), ended(messages.Failed, run, store.Stale),
		ended(messages.Running, run, store.Applied)})
	r.submitted(append(stored(3, "p"), append(stored(2, "q"), store.Submitted{Existing: true, Execution: messages.Execution{Pool: "p", Action: "a", Version: "1"}})...))
	rows.fails = fmt.Errorf("no answer: %w", store.ErrUnavailable)
	require.Error(t, r.finish(t.Context()))
	rows.fails = nil
	require.NoError(t, r.finish(t.Context()))
	require.NoError(t, r.finish(t.Context()))
	require.Equal(t, 2, rows.calls)
	totals := map[string]int64{}
	for _, row := range rows.rows {
		totals[fmt.Sprint(row.Pool, " ", int(row.Status))] += row.N
		require.Equal(t, r.incarnation, row.Incarnation)
		if row.Status == messages.Failed {
			require.Equal(t, "e", row.Code)
			wait, took := rollup.Decode(row.Wait), rollup.Decode(row.Run)
			require.InEpsilon(t, float64(4*time.Second), float64(wait.Quantile(1)), 0.19, "from when it was due")
			require.InEpsilon(t, float64(4*time.Second), float64(took.Quantile(1)), 0.19)
		}
	}
	require.Equal(t, map[string]int64{fmt.Sprint("p ", int(messages.Failed)): 2, "p 0": 3 + 2, "q 0": 2}, totals, "two retries were stored with the ends")

	r.submitted(stored(1, "p"))
	rows.fails = fmt.Errorf("odd: %w", store.ErrInvalid)
	require.NoError(t, r.finish(t.Context()), "what can never be stored keeps nothing back")
	rows.fails = nil
	require.NoError(t, r.finish(t.Context()))
	require.Equal(t, 3, rows.calls)
}

// Keys that are too many are counted together.
func TestSubmissionsOfManyKeysAreBounded(t *testing.T) {
	t.Parallel()
	r, rows := counter()
	for i := range submitKeysMax + 50 {
		r.submitted(stored(1, fmt.Sprint("pool", i)))
	}
	require.Equal(t, int32(submitKeysMax+1), r.keys.Load())
	require.NoError(t, r.finish(t.Context()))
	total := int64(0)
	for _, row := range rows.rows {
		total += row.N
	}
	require.Equal(t, int64(submitKeysMax+50), total)
	require.LessOrEqual(t, len(rows.rows), 2*(rollup.KeysMax+1), "it may be the next minute meanwhile")
}

func TestCountsAreWrittenEveryTenSeconds(t *testing.T) {
	t.Parallel()
	r, rows := counter()
	r.submitted(stored(1, "p"))
	require.NoError(t, r.round(t.Context()))
	r.submitted(stored(1, "p"))
	require.NoError(t, r.round(t.Context()))
	require.Equal(t, 1, rows.calls)
	r.written = r.written.Add(-rollupEvery)
	require.NoError(t, r.round(t.Context()))
	require.Equal(t, 2, rows.calls)
}
