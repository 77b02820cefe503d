package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

// Each call of a failed group has its own timeout: a call that is slow and fails takes no time from the others.
func TestCallsOfAFailedGroupHaveTheirOwnTime(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	s := d.open(t, postgres.Config{})
	key := joined(t, s)
	e := noop(3)
	_, err := s.Submit(t.Context(), e)
	require.NoError(t, err)
	plant(t, d, s, e[0].ID, "PERFORM pg_sleep(2); RAISE EXCEPTION 'planted'")
	limited, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var calls [][]store.Change
	for i := range e {
		calls = append(calls, []store.Change{placeOf(e[i].ID, key)})
	}
	failures := postgres.ApplyTogether(limited, s, calls...)
	require.ErrorContains(t, failures[0], "planted")
	require.NoError(t, failures[1])
	require.NoError(t, failures[2])
}
