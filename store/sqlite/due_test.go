package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/sqlite"
)

// inSessions are n strict requests, the i-th in the session that name gives.
func inSessions(n int, name func(i int) string) []messages.Execution {
	out := noop(n)
	for i := range out {
		out[i].Session, out[i].Affinity = name(i), messages.AffinityStrict
	}
	return out
}

// stepsPerCandidate bounds the machine instructions that one candidate of a Due may cost.
const stepsPerCandidate = 60

// TestDueIsBounded: what a look costs depends on what it returns, not on how deep a session is, on how many wait, or on
// how many of them are busy.
func TestDueIsBounded(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite.Config{})
	submit := func(e []messages.Execution) []messages.Execution {
		_, err := s.Submit(t.Context(), e)
		require.NoError(t, err)
		return e
	}
	heads := func(limit int) store.DuePage {
		sqlite.Steps(t, s)
		page, err := s.Due(t.Context(), store.DueQuery{Pool: "go", Heads: limit})
		require.NoError(t, err)
		require.Less(t, sqlite.Steps(t, s), 200+stepsPerCandidate*(len(page.Candidates)+1))
		return page
	}
	deep := submit(inSessions(10, func(int) string { return "deep" }))
	sqlite.Deepen(t, s, "deep", 50_000)
	page := heads(100)
	require.Len(t, page.Candidates, 1)
	require.Equal(t, deep[0].ID, page.Candidates[0].ID)
	require.False(t, page.More)

	wide := submit(inSessions(2000, func(i int) string { return fmt.Sprint("wide", i%1000) }))
	page = heads(100)
	require.Len(t, page.Candidates, 100)
	require.True(t, page.More)

	worker := messages.WorkerKey{Incarnation: messages.NewIncarnation(), Pool: "go"}
	var place []store.Change
	for i := range 1000 {
		place = append(place, &store.Place{ID: wide[i].ID, Worker: worker, PlacedBy: worker.Incarnation, ClaimWithin: time.Minute})
	}
	out, err := s.Apply(t.Context(), place)
	require.NoError(t, err)
	for i := range out {
		require.Equal(t, store.Applied, out[i].Verdict)
	}
	page = heads(100)
	require.Len(t, page.Candidates, 1, "1,000 sessions are busy, and cost nothing")
	require.Equal(t, deep[0].ID, page.Candidates[0].ID)
}

// TestListLooksBackABoundedWay: where no index leads, a page ends after a stretch and its cursor leads on.
func TestListLooksBackABoundedWay(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite.Config{WalkMax: 1000})
	const all = 2100
	sqlite.Grow(t, s, all)
	first := noop(1)
	first[0].Pool = "rare"
	_, err := s.Submit(t.Context(), first)
	require.NoError(t, err)
	sqlite.Tamper(t, s.Path(), "UPDATE execution SET pool = 'rare', worker_id = 'w' WHERE seq IN (7, 1301)")
	for name, f := range map[string]store.Filter{"pool": {Pool: "rare"}, "worker and status": {Worker: "w", Statuses: []messages.Status{messages.Completed, messages.Requested}}} {
		var seqs []int64
		pages := 0
		for f.Limit = 2; ; pages++ {
			page, err := s.List(t.Context(), f)
			require.NoError(t, err, name)
			for _, e := range page.Executions {
				seqs = append(seqs, e.Seq)
			}
			if f.Before = page.Next; f.Before == 0 {
				break
			}
		}
		require.LessOrEqual(t, pages, 3, name)
		require.Contains(t, [][]int64{{all + 1, 1301, 7}, {1301, 7}}, seqs, name)
	}
}
