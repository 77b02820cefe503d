package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

// A node that was alone notifies nobody. Once it learns of another, it has that one look for what it has missed, once.
func TestANodeThatWasAloneHasTheNextOneLook(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	a, b := d.open(t, postgres.Config{Schema: "shared"}), d.open(t, postgres.Config{Schema: "shared"})
	first := joined(t, a)
	beat := func() {
		_, err := a.Beat(t.Context(), first.Incarnation, time.Hour)
		require.NoError(t, err)
	}
	beat()
	hints, err := b.Watch(t.Context())
	require.NoError(t, err)
	heard := func() (kinds []store.HintKind) { // until b hears what it has submitted itself
		_, err := b.Submit(t.Context(), noop(1))
		require.NoError(t, err)
		for {
			select {
			case h := <-hints:
				if h.Kind == store.HintRequested {
					return kinds
				}
				kinds = append(kinds, h.Kind)
			case <-time.After(10 * time.Second):
				require.FailNow(t, "it hears nothing")
			}
		}
	}
	c := d.connect(t, "shared")
	require.Eventually(t, func() bool {
		var n int
		require.NoError(t, c.QueryRow(t.Context(),
			"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'").Scan(&n))
		return n == 1
	}, 10*time.Second, 5*time.Millisecond)
	heard()
	heard()
	beat()
	require.Empty(t, heard(), "it is still alone")
	joined(t, b)
	beat()
	require.Equal(t, store.HintLook, (<-hints).Kind)
	beat()
	require.Empty(t, heard(), "it has told that")
}
