package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/sqlite"
)

// inSessions returns n strict requests. name returns the session of the i-th.
func inSessions(n int, name func(i int) string) []messages.Execution {
	out := noop(n)
	for i := range out {
		out[i].Session, out[i].Affinity = name(i), messages.AffinityStrict
	}
	return out
}

// stepsPerCandidate bounds the machine instructions that one candidate of a Due may cost.
const stepsPerCandidate = 60

// TestDueIsBounded checks that the cost of a look depends on its result, not on how long a session's line is, how many
// wait, or how many are busy.
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

// TestListLooksBackABoundedWay checks that, if no index answers, a page ends after a stretch and its cursor continues.
func TestListLooksBackABoundedWay(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite.Config{WalkMax: 1000, ListFor: time.Minute})
	const all = 2100
	sqlite.Grow(t, s, all)
	first := noop(1)
	first[0].Pool = "rare"
	_, err := s.Submit(t.Context(), first)
	require.NoError(t, err)
	sqlite.Tamper(t, s.Path(), "UPDATE execution SET pool = 'rare', worker_id = 'w' WHERE seq IN (7, 1301)")
	for name, f := range map[string]store.Filter{"pool": {Pools: []string{"rare"}}, "worker and status": {Workers: []string{"w"}, Statuses: []messages.Status{messages.Completed, messages.Requested}}} {
		var seqs []int64
		pages := 0
		for f.Limit = 2; ; pages++ {
			page, err := s.List(t.Context(), f)
			require.NoError(t, err, name)
			for _, e := range page.Executions {
				seqs = append(seqs, e.Seq)
			}
			if page.More == store.MoreUnsearched {
				require.Equal(t, 1000, page.Searched.Walked, name)
				require.NotZero(t, page.Searched.At, name)
			}
			if f.Before = page.Next; f.Before == 0 {
				break
			}
		}
		require.LessOrEqual(t, pages, 3, name)
		require.Contains(t, [][]int64{{all + 1, 1301, 7}, {1301, 7}}, seqs, name)
	}
}

// A page ends with the part of the walk in which its time passed, says so, and its cursor continues.
func TestListLooksBackABoundedTime(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite.Config{ListFor: time.Nanosecond})
	const all = 3000
	sqlite.Grow(t, s, all)
	sqlite.Tamper(t, s.Path(), "UPDATE execution SET pool = 'rare' WHERE seq IN (2, 2999)")
	f := store.Filter{Pools: []string{"rare"}, Limit: 2}
	var seqs []int64
	walked, pages := 0, 0
	for more := store.MoreUnsearched; more == store.MoreUnsearched; pages++ {
		page, err := s.List(t.Context(), f)
		require.NoError(t, err)
		for _, e := range page.Executions {
			seqs = append(seqs, e.Seq)
		}
		require.Less(t, page.Searched.Walked, 1000)
		walked += page.Searched.Walked
		f.Before, more = page.Next, page.More
	}
	require.Equal(t, []int64{2999, 2}, seqs)
	require.Equal(t, all, walked)
	require.Greater(t, pages, 3)
}

// The rows of waiting executions are correct after a restart, if their first placements are many in one call and are
// taken back: their pool, priority and place in the session's line are then read from the file.
func TestFirstPlacementsAfterARestart(t *testing.T) {
	t.Parallel()
	cfg := sqlite.Config{Path: filepath.Join(t.TempDir(), "troupe.db")}
	s, err := sqlite.Open(t.Context(), cfg)
	require.NoError(t, err)
	e := append(noop(3), inSessions(2, func(int) string { return "s" })...)
	for i := range e {
		e[i].Priority, e[i].QueueDeadline = messages.Priority(i), time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()
	}
	_, err = s.Submit(t.Context(), e)
	require.NoError(t, err)
	stands := func(s *sqlite.Store) (all []messages.Execution, due []messages.Candidate) {
		for i := range e {
			stands, err := s.Get(t.Context(), e[i].ID)
			require.NoError(t, err)
			all = append(all, stands)
		}
		page, err := s.Due(t.Context(), store.DueQuery{Pool: e[0].Pool, Limit: 10, Heads: 10})
		require.NoError(t, err)
		return all, page.Candidates
	}
	before, dueBefore := stands(s)
	require.Len(t, dueBefore, 4, "one of the session's two")
	require.NoError(t, s.Close())
	s = open(t, cfg)
	worker := messages.WorkerKey{Incarnation: messages.NewIncarnation(), Pool: e[0].Pool}
	var places, backs []store.Change
	for i := range dueBefore {
		places = append(places, &store.Place{ID: dueBefore[i].ID, Worker: worker, PlacedBy: worker.Incarnation, ClaimWithin: time.Minute})
		backs = append(backs, &store.TakeBack{ID: dueBefore[i].ID, Attempt: 1})
	}
	for _, changes := range [][]store.Change{places, backs} {
		results, err := s.Apply(t.Context(), changes)
		require.NoError(t, err)
		for _, r := range results {
			require.Equal(t, store.Applied, r.Verdict, r.Err)
		}
	}
	after, dueAfter := stands(s)
	for i := range dueAfter {
		require.Equal(t, dueBefore[i].ID, dueAfter[i].ID)
		require.Equal(t, dueBefore[i].Session, dueAfter[i].Session)
	}
	require.Len(t, dueAfter, len(dueBefore))
	for i := range after {
		require.Equal(t, before[i].Priority, after[i].Priority)
		require.Equal(t, before[i].Pool, after[i].Pool)
		require.Equal(t, before[i].QueueDeadline, after[i].QueueDeadline)
	}
}
