package operate

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/rollup"
	"github.com/troupe-run/troupe/store"
)

// counting is a store that counts for another time than it is told: 1 is one slice, 0 all.
type counting struct {
	Store
	within time.Duration
}

func (s counting) CountRequested(ctx context.Context, q store.CountQuery) (store.Counted, error) {
	q.Within = s.within
	return s.Store.CountRequested(ctx, q)
}

// A ledger compares what it could count. Of the rest it says what the nodes counted, and from where to ask again.
func TestALedgerComparesWhatItCounts(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := c.join("a", "shell", 1)
	now, err := c.store.Now(t.Context())
	require.NoError(t, err)
	begin := now.Truncate(time.Minute)
	submit := func(n int) {
		var some []messages.Execution
		for range n {
			some = append(some, messages.Execution{ID: messages.NewExecutionID(), Action: "a.b", Version: "1", Pool: "shell", Timeout: time.Minute})
		}
		_, err := c.store.Submit(t.Context(), some)
		require.NoError(t, err)
	}
	submit(3)
	key := rollup.Key{Pool: "shell", Action: "a.b", Version: "1"}
	count := func(at time.Time, n int64) {
		rows := []rollup.Row{{Minute: at, Key: key, N: n}}
		rows = append(rows, rollup.Row{Minute: at, Key: rollup.Key{Pool: "shell", Action: "a.b", Version: "1", Status: messages.Completed}, N: 2})
		require.NoError(t, c.store.SaveRollups(t.Context(), StoredRows(a.cfg.Incarnation, rows)))
	}
	count(begin, 5)
	ask := func(within time.Duration, from, to time.Time) *rollup.Ledger {
		cfg := *a.cfg
		cfg.Store = counting{c.store, within}
		l, err := (&executions{cfg: &cfg}).Ledger(t.Context(), from, to)
		require.NoError(t, err)
		return l
	}
	l := ask(0, begin.Add(-time.Hour), begin.Add(time.Hour))
	require.Equal(t, []int64{3, 5, 2}, []int64{l.Accepted, l.Counted, l.Missing})
	require.Nil(t, l.Rest)
	require.Zero(t, l.Until)

	submit(store.CountSlice) // they are of this minute, and perhaps of the next
	count(begin.Add(time.Minute), store.CountSlice-2)
	l = ask(1, begin, begin.Add(time.Hour))
	require.NotNil(t, l.Rest, "a slice is not all")
	require.Equal(t, l.To, l.Rest.From)
	require.Equal(t, begin.Add(time.Hour), l.Rest.To)
	require.True(t, l.Until.After(begin), "who asks again from there goes on")
	require.EqualValues(t, store.CountSlice+3, l.Counted+l.Rest.Submitted, "nothing that the nodes counted is left out")
	require.NotEmpty(t, l.Rest.Ended)
	l = ask(0, begin, begin.Add(time.Hour))
	require.Nil(t, l.Rest)
	require.EqualValues(t, store.CountSlice+3, l.Accepted)
	require.True(t, l.AddsUp)
}
