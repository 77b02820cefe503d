package node

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
	"github.com/troupe-run/troupe/store/sqlite"
	"github.com/troupe-run/troupe/test/servers"
)

// What a node had counted when it was killed and not written yet is counted again by another one, once.
func TestTheCountsOfAKilledNodeAreCompleted(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) (store.Store, error){
		"sqlite": func(t *testing.T) (store.Store, error) {
			return sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "troupe.db")})
		},
		"postgres": func(t *testing.T) (store.Store, error) {
			return postgres.Open(t.Context(), postgres.Config{URL: servers.Postgres(t)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := open(t)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			testRecount(t, s)
		})
	}
}

func testRecount(t *testing.T, s store.Store) {
	const lease = 200 * time.Millisecond
	killed, next := counterOn(s), counterOn(s)
	require.NoError(t, s.Join(t.Context(), store.Node{Incarnation: killed.incarnation, Name: "killed"}, time.Hour))
	killed.work(t, s, 7)
	require.NoError(t, killed.finish(t.Context()))
	beat := func(n *rollups, lease time.Duration) {
		_, err := s.Beat(t.Context(), n.incarnation, lease)
		require.NoError(t, err)
	}
	_, embedded := s.(*sqlite.Store)
	if embedded {
		beat(killed, time.Microsecond) // it works on: no lease bounds what a node of this store does
	}
	killed.work(t, s, 5)
	if !embedded {
		beat(killed, lease)
	}

	require.NoError(t, s.Join(t.Context(), store.Node{Incarnation: next.incarnation, Name: "next"}, lease))
	dead := func() bool {
		beat(next, lease)
		_, err := s.DeclareDead(t.Context(), next.incarnation, lease)
		require.NoError(t, err)
		nodes, err := s.ListNodes(t.Context())
		require.NoError(t, err)
		return nodes[0].State == store.NodeDead || nodes[1].State == store.NodeDead
	}
	require.Eventually(t, dead, 20*time.Second, lease/10)
	beat(next, time.Hour)
	next.work(t, s, 3)
	require.NoError(t, next.finish(t.Context()))
	require.Equal(t, int64(7+3), all(t, s))

	for range 2 { // another node, or the same after its restart
		require.NoError(t, (&recounts{base: next.base}).round(t.Context()))
		require.Equal(t, int64(7+5+3), all(t, s))
	}
	page, err := s.ReadRollups(t.Context(), store.RollupQuery{})
	require.NoError(t, err)
	require.NoError(t, killed.finish(t.Context()), "what it would have written")
	written, err := s.ReadRollups(t.Context(), store.RollupQuery{})
	require.NoError(t, err)
	require.Equal(t, written, page)
}

func counterOn(s store.Store) *rollups {
	return &rollups{base: &base{incarnation: messages.NewIncarnation(), logger: hclog.NewNullLogger(), store: &doubt{Store: s}, runs: &operate.Runs{}}}
}

// work has workers of the node run executions, of which each other one fails, and counts that.
func (r *rollups) work(t *testing.T, s store.Store, n int) {
	key := messages.WorkerKey{Incarnation: r.incarnation, Pool: "p"}
	executions, steps := make([]messages.Execution, n), [3][]store.Change{}
	for i := range executions {
		id := messages.NewExecutionID()
		executions[i] = messages.Execution{ID: id, Action: "a", Version: "1", Pool: "p", Parameters: json.RawMessage(`{}`), Timeout: time.Minute}
		outcome := messages.Outcome{Status: messages.Completed, Result: json.RawMessage(`1`)}
		if i%2 == 1 {
			outcome = messages.Outcome{Status: messages.Failed, Error: &messages.Error{Code: "boom", Message: "no"}}
		}
		steps[0] = append(steps[0], &store.Place{ID: id, Worker: key, WorkerID: "n/p/0", PlacedBy: r.incarnation, ClaimWithin: time.Minute})
		steps[1] = append(steps[1], &store.Claim{ID: id, Attempt: 1, Worker: key, Generation: 1})
		steps[2] = append(steps[2], &store.Finish{ID: id, Attempt: 1, Outcome: outcome})
	}
	_, err := s.Submit(t.Context(), executions)
	require.NoError(t, err)
	for i, changes := range steps {
		results, err := s.Apply(t.Context(), changes)
		require.NoError(t, err)
		items := make([]actors.Item, n)
		for j := range items {
			items[j].Change = changes[j]
			require.Equal(t, store.Applied, results[j].Verdict, "step %d", i)
		}
		r.transaction([]actors.Recorded{{Items: items, Results: results}})
	}
}

// all is the number of executions that ended, by the counts.
func all(t *testing.T, s store.Store) (n int64) {
	page, err := s.ReadRollups(t.Context(), store.RollupQuery{})
	require.NoError(t, err)
	for _, r := range page.Rows {
		n += r.N
	}
	return n
}
