package postgres_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

// A page whose filter no index answers ends after a stretch, says so, and its cursor continues, in both orders.
func TestAListLooksABoundedWay(t *testing.T) {
	t.Parallel()
	s := newBench(t).open(t, postgres.Config{WalkMax: 10})
	var all []messages.Execution
	for i := range 35 {
		e := messages.Execution{ID: messages.NewExecutionID(), Action: "a.b", Version: "1", Pool: "usual"}
		if i%17 == 0 {
			e.Pool = "rare"
		}
		all = append(all, e)
	}
	stored, err := s.Submit(t.Context(), all)
	require.NoError(t, err)
	for _, oldest := range []bool{false, true} {
		f := store.Filter{Pools: []string{"rare"}, Limit: 5, Oldest: oldest}
		var found []messages.ExecutionID
		walked := 0
		for {
			page, err := s.List(t.Context(), f)
			require.NoError(t, err)
			for i := range page.Executions {
				found = append(found, page.Executions[i].ID)
			}
			walked += page.Searched.Walked
			if page.Next == 0 {
				require.Equal(t, store.MoreEnd, page.More)
				break
			}
			require.Equal(t, store.MoreUnsearched, page.More)
			require.Equal(t, 10, page.Searched.Walked)
			require.Equal(t, stored[0].Execution.RequestedAt, page.Searched.At)
			if f.Before = page.Next; oldest {
				f.Before, f.After = 0, page.Next
			}
		}
		want := []messages.ExecutionID{all[34].ID, all[17].ID, all[0].ID}
		if oldest {
			want[0], want[2] = want[2], want[0]
		}
		require.Equal(t, want, found)
		require.Equal(t, 35, walked)
	}
}

// A page ends with the part of the walk in which its time passed, says so, and its cursor continues.
func TestAListLooksABoundedTime(t *testing.T) {
	t.Parallel()
	s := newBench(t).open(t, postgres.Config{ListFor: time.Nanosecond})
	const all = 4 * store.PartsLeast
	executions := make([]messages.Execution, all)
	for i := range executions {
		executions[i] = messages.Execution{ID: messages.NewExecutionID(), Action: "a.b", Version: "1", Pool: "usual"}
	}
	executions[0].Pool, executions[all-1].Pool = "rare", "rare"
	_, err := s.Submit(t.Context(), executions)
	require.NoError(t, err)
	f := store.Filter{Pools: []string{"rare"}, Limit: 5}
	var found []messages.ExecutionID
	walked, pages := 0, 0
	for more := store.MoreUnsearched; more == store.MoreUnsearched; pages++ {
		page, err := s.List(t.Context(), f)
		require.NoError(t, err)
		for i := range page.Executions {
			found = append(found, page.Executions[i].ID)
		}
		require.Less(t, page.Searched.Walked, 2*store.PartsLeast)
		walked += page.Searched.Walked
		f.Before, more = page.Next, page.More
	}
	require.Equal(t, []messages.ExecutionID{executions[all-1].ID, executions[0].ID}, found)
	require.Equal(t, all, walked)
	require.Greater(t, pages, 2)
}

// A walk of several parts finds each execution that matches once, in order, on pages that end within a part.
func TestAListWalksInParts(t *testing.T) {
	t.Parallel()
	s := newBench(t).open(t, postgres.Config{ListFor: time.Minute})
	executions := make([]messages.Execution, 6*store.PartsLeast)
	var want []messages.ExecutionID
	for i := range executions {
		executions[i] = messages.Execution{ID: messages.NewExecutionID(), Action: "a.b", Version: "1", Pool: "usual"}
		if i%(store.PartsLeast/2) == 0 || i > 5*store.PartsLeast && i < 5*store.PartsLeast+20 {
			executions[i].Pool = "rare"
			want = append(want, executions[i].ID)
		}
	}
	_, err := s.Submit(t.Context(), executions)
	require.NoError(t, err)
	for _, oldest := range []bool{false, true} {
		f := store.Filter{Pools: []string{"rare"}, Limit: 8, Oldest: oldest}
		var found []messages.ExecutionID
		for more := store.MoreFound; more == store.MoreFound; {
			page, err := s.List(t.Context(), f)
			require.NoError(t, err)
			for i := range page.Executions {
				found = append(found, page.Executions[i].ID)
			}
			if f.Before, more = page.Next, page.More; oldest {
				f.Before, f.After = 0, page.Next
			}
		}
		if !oldest {
			slices.Reverse(found)
		}
		require.Equal(t, want, found)
	}
}
