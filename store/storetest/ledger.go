package storetest

import (
	"cmp"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// testCountRequested compares the counts of each stretch of time with the executions themselves.
func testCountRequested(t *testing.T, k *kit) {
	ctx := t.Context()
	now, err := k.Now(ctx)
	require.NoError(t, err)
	empty, err := k.CountRequested(ctx, store.CountQuery{From: now.Add(-time.Hour), To: now.Add(time.Hour)})
	require.NoError(t, err)
	require.Equal(t, store.Counted{}, empty)

	var all []messages.Execution
	for _, status := range []messages.Status{messages.Requested, messages.Running, messages.Completed, messages.Failed, messages.Completed, messages.Cancelled} {
		all = append(all, k.bring(t, status))
	}
	failed := all[3]
	retried, err := k.Retry(ctx, failed.ID, messages.Execution{
		ID: messages.NewExecutionID(), Action: failed.Action, Pool: failed.Pool, Timeout: failed.Timeout, Original: failed.ID, RetryReason: "manual", RetryCount: 1,
	}, "someone")
	require.NoError(t, err)
	all = append(all, retried.Execution)
	taken := k.bring(t, messages.Scheduled)
	k.applied(t, &store.TakeBack{ID: taken.ID, Attempt: 1, Reason: "none"})
	all = append(all, taken)

	crashed := k.bring(t, messages.Running, func(e *messages.Execution) { e.MayRepeat = true })
	k.applied(t, &store.Rescue{ID: crashed.ID, Attempt: 1, Reason: "worker_lost"})
	all = append(all, crashed)

	times := []time.Time{now.Add(-time.Hour), now.Add(time.Hour)}
	for i := range all {
		all[i] = k.get(t, all[i].ID)
		times = append(times, all[i].RequestedAt)
	}
	listWas(t, k, all)
	slices.SortFunc(times, time.Time.Compare)
	for i, from := range times {
		for _, to := range times[i:] {
			got, err := k.CountRequested(ctx, store.CountQuery{From: from, To: to})
			require.NoError(t, err)
			require.Zero(t, got.Until)
			require.Equal(t, countOf(all, from, to), inOrder(got.Minutes), "from %s to %s", from, to)
		}
	}
}

// listWas compares what lists have of what the ledger counts with the executions themselves.
func listWas(t *testing.T, k *kit, all []messages.Execution) {
	t.Helper()
	holds := map[store.Was]func(e *messages.Execution) bool{
		store.WasRetry:       func(e *messages.Execution) bool { return !e.Original.IsZero() },
		store.WasInterrupted: func(e *messages.Execution) bool { return e.CrashCount > 0 },
		store.WasTakenBack:   func(e *messages.Execution) bool { return e.TakeBacks > 0 },
		store.WasStateLost:   func(e *messages.Execution) bool { return e.SessionLost },
	}
	require.Len(t, holds, len(store.EachWas()))
	for i, was := range store.EachWas() {
		wanted := store.EachWas()[:i+1]
		for _, f := range []store.Filter{{Was: []store.Was{was}}, {Was: wanted}, {Was: []store.Was{was}, Pools: []string{pool}, Statuses: []messages.Status{messages.Requested}},
			{Not: store.Exclusion{Was: []store.Was{was}}}, {Not: store.Exclusion{Was: wanted}}} {
			var want, got []messages.ExecutionID
			for j := range all {
				e := &all[j]
				met := func(w store.Was) bool { return holds[w](e) }
				if (len(f.Was) == 0 || slices.ContainsFunc(f.Was, met)) && !slices.ContainsFunc(f.Not.Was, met) && (len(f.Pools) == 0 || e.Status == messages.Requested) {
					want = append(want, e.ID)
				}
			}
			page, err := k.List(t.Context(), f)
			require.NoError(t, err)
			for j := range page.Executions {
				got = append(got, page.Executions[j].ID)
			}
			require.ElementsMatch(t, want, got, "%v, and not %v", f.Was, f.Not.Was)
		}
	}
}

// countOf counts executions by minute and status as CountRequested does.
func countOf(all []messages.Execution, from, to time.Time) (counts []store.MinuteCount) {
	for i := range all {
		e := &all[i]
		if e.RequestedAt.Before(from) || !e.RequestedAt.Before(to) {
			continue
		}
		minute := e.RequestedAt.Truncate(time.Minute)
		at := slices.IndexFunc(counts, func(c store.MinuteCount) bool { return c.Minute.Equal(minute) && c.Status == e.Status })
		if at < 0 {
			at, counts = len(counts), append(counts, store.MinuteCount{Minute: minute, Status: e.Status})
		}
		c := &counts[at]
		c.N, c.Edge = c.N+1, c.Edge+one(e.RequestedAt.Sub(minute) < store.CountEdge)
		c.Retries, c.Repeated = c.Retries+one(!e.Original.IsZero()), c.Repeated+one(e.CrashCount > 0)
		c.TakenBack, c.StateLost = c.TakenBack+one(e.TakeBacks > 0), c.StateLost+one(e.SessionLost)
	}
	return inOrder(counts)
}

func inOrder(counts []store.MinuteCount) []store.MinuteCount {
	slices.SortFunc(counts, func(a, b store.MinuteCount) int {
		return cmp.Or(a.Minute.Compare(b.Minute), cmp.Compare(a.Status, b.Status))
	})
	return counts
}

// testCountOfMany: a count that meets a bound has all that was requested before the time that it names, and no more slices than it may.
func testCountOfMany(t *testing.T, k *kit) {
	const many = 2*store.CountSlice + 7
	for at := 0; at < many; at += 1000 {
		var some []messages.Execution
		for range min(1000, many-at) {
			some = append(some, messages.Execution{ID: messages.NewExecutionID(), Action: "a.b", Version: "1", Pool: "p", Timeout: time.Minute})
		}
		_, err := k.Submit(t.Context(), some)
		require.NoError(t, err)
	}
	now, err := k.Now(t.Context())
	require.NoError(t, err)
	whole := store.CountQuery{From: now.Add(-time.Hour), To: now.Add(time.Hour)}
	sum := func(q store.CountQuery) (n int64, until time.Time) {
		counted, err := k.CountRequested(t.Context(), q)
		require.NoError(t, err)
		for _, m := range counted.Minutes {
			n += m.N
		}
		return n, counted.Until
	}
	n, until := sum(whole)
	require.EqualValues(t, many, n)
	require.Zero(t, until)
	for name, c := range map[string]struct {
		most, counted int
		within        time.Duration
	}{
		"by number":              {most: 3000, counted: 3000},
		"by time":                {within: 1, counted: store.CountSlice},
		"by number, to the last": {most: many, counted: many},
		"of a slice":             {most: 1, counted: 1},
	} {
		q := whole
		q.Most, q.Within = c.most, c.within
		n, until := sum(q)
		require.EqualValues(t, c.counted, n, name)
		if c.counted == many {
			require.Zero(t, until, name)
			continue
		}
		require.False(t, until.IsZero(), name)
		before, _ := sum(store.CountQuery{From: whole.From, To: until})
		require.LessOrEqual(t, before, n, "%s: all that was requested before that is counted", name)
	}
}

// testCountPurged compares what was counted of purged executions with the executions themselves, after each batch.
func testCountPurged(t *testing.T, k *kit) {
	ctx := t.Context()
	kept := k.bring(t, messages.Running)
	var all []messages.Execution
	for _, status := range []messages.Status{messages.Completed, messages.Failed, messages.Cancelled, messages.Completed, messages.Completed} {
		all = append(all, k.bring(t, status, func(e *messages.Execution) { e.Labels = map[string]string{"a": "b"} }))
	}
	now, err := k.Now(ctx)
	require.NoError(t, err)
	k.countsPurged(t, append(all, kept), nil)
	for more := true; more; {
		purged, err := k.Purge(ctx, store.Purge{FinishedBefore: now.Add(time.Hour), Limit: 2})
		require.NoError(t, err)
		more = purged.More
		var gone []messages.Execution
		for _, e := range all {
			if _, err := k.Get(ctx, e.ID); errors.Is(err, store.ErrNotFound) {
				gone = append(gone, e)
			}
		}
		k.countsPurged(t, append(all, kept), gone)
	}
	k.countsPurged(t, append(all, kept), all)

	last := all[len(all)-1].RequestedAt.Truncate(time.Minute)
	_, err = k.Purge(ctx, store.Purge{HoursBefore: last, Limit: 100})
	require.NoError(t, err)
	all = slices.DeleteFunc(all, func(e messages.Execution) bool { return e.RequestedAt.Before(last) })
	k.countsPurged(t, all, all)
	_, err = k.Purge(ctx, store.Purge{HoursBefore: last.Add(time.Hour), Limit: 100})
	require.NoError(t, err)
	k.countsPurged(t, all, nil)
}

// countsPurged compares the number of purged executions for each stretch of minutes.
func (k *kit) countsPurged(t *testing.T, all, gone []messages.Execution) {
	t.Helper()
	first, last := all[0].RequestedAt, all[0].RequestedAt
	for _, e := range all {
		first, last = store.OldestOf(first, e.RequestedAt), latest(last, e.RequestedAt)
	}
	end := last.Truncate(time.Minute).Add(2 * time.Minute)
	for from := first.Truncate(time.Minute).Add(-2 * time.Minute); !from.After(end); from = from.Add(time.Minute) {
		for to := from; !to.After(end); to = to.Add(time.Minute) {
			var want store.PurgedCount
			for _, e := range gone {
				at := e.RequestedAt
				want.N += one(!at.Before(from) && at.Before(to))
				want.Before += one(at.Before(from) && !at.Before(from.Add(-store.CountTail)))
				want.Behind += one(!at.Before(to) && at.Before(to.Add(store.CountEdge)))
			}
			got, err := k.CountPurged(t.Context(), from, to)
			require.NoError(t, err)
			require.Equal(t, want, got, "from %s to %s", from, to)
		}
	}
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func one(is bool) int64 {
	if is {
		return 1
	}
	return 0
}
