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
	"github.com/troupe-run/troupe/rules/rollup"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
	"github.com/troupe-run/troupe/store/sqlite"
	"github.com/troupe-run/troupe/test/servers"
)

// What a node had counted when it was killed and not written yet is counted again by another one, once.
func TestTheCountsOfAKilledNodeAreCompleted(t *testing.T) {
	t.Parallel()
	onBothStores(t, testRecount)
}

// What a killed node had submitted, and ended without a worker, no execution says. Such counts stay missing, which is no loss for a ledger, and what
// other nodes ended that was on its workers is not counted twice.
func TestWhatARecountLeavesOut(t *testing.T) {
	t.Parallel()
	onBothStores(t, testRecountLeavesOut)
}

func onBothStores(t *testing.T, test func(t *testing.T, s store.Store)) {
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
			test(t, s)
		})
	}
}

func testRecount(t *testing.T, s store.Store) {
	const lease = 200 * time.Millisecond
	killed, next := counterOn(s), counterOn(s)
	require.NoError(t, s.Join(t.Context(), store.Node{Incarnation: killed.incarnation, Name: "killed"}, time.Hour))
	killed.work(t, s, 7)
	require.NoError(t, killed.finish(t.Context()))
	_, embedded := s.(*sqlite.Store)
	if embedded {
		beat(t, s, killed, time.Microsecond) // it works on: no lease bounds what a node of this store does
	}
	killed.work(t, s, 5)
	if !embedded {
		beat(t, s, killed, lease)
	}

	bury(t, s, next, lease)
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

func beat(t *testing.T, s store.Store, n *rollups, lease time.Duration) {
	_, err := s.Beat(t.Context(), n.incarnation, lease)
	require.NoError(t, err)
}

// bury has the next node join, and declare the one before dead.
func bury(t *testing.T, s store.Store, next *rollups, lease time.Duration) {
	require.NoError(t, s.Join(t.Context(), store.Node{Incarnation: next.incarnation, Name: "next"}, lease))
	dead := func() bool {
		beat(t, s, next, lease)
		_, err := s.DeclareDead(t.Context(), next.incarnation, lease)
		require.NoError(t, err)
		nodes, err := s.ListNodes(t.Context())
		require.NoError(t, err)
		return nodes[0].State == store.NodeDead || nodes[1].State == store.NodeDead
	}
	require.Eventually(t, dead, 20*time.Second, lease/10)
	beat(t, s, next, time.Hour)
}

func testRecountLeavesOut(t *testing.T, s store.Store) {
	const lease = 200 * time.Millisecond
	killed, next := counterOn(s), counterOn(s)
	require.NoError(t, s.Join(t.Context(), store.Node{Incarnation: killed.incarnation, Name: "killed"}, time.Hour))
	before, err := s.Now(t.Context())
	require.NoError(t, err)
	from := before.Truncate(time.Minute)
	executions := make([]messages.Execution, 6)
	for i := range executions {
		executions[i] = messages.Execution{ID: messages.NewExecutionID(), Action: "a", Version: "1", Pool: "p", Parameters: json.RawMessage(`{}`), Timeout: time.Minute}
	}
	submitted, err := s.Submit(t.Context(), executions)
	require.NoError(t, err)
	killed.submitted(submitted)
	killed.collect()

	key := messages.WorkerKey{Incarnation: killed.incarnation, Pool: "p"}
	id := func(i int) messages.ExecutionID { return executions[i].ID }
	failed := func(by string) messages.Outcome {
		return messages.Outcome{Status: messages.Failed, Error: &messages.Error{Code: "late", Message: "no", FailedBy: by}}
	}
	lost := failed("sweep")
	lost.Status = messages.Cancelled
	for i := range 4 {
		killed.apply(t, s, &store.Place{ID: id(i), Worker: key, WorkerID: "n/p/0", PlacedBy: killed.incarnation, ClaimWithin: time.Minute})
	}
	for i := range 2 {
		killed.apply(t, s, &store.Claim{ID: id(i), Attempt: 1, Worker: key, Generation: 1})
	}
	killed.apply(t, s, &store.Finish{ID: id(0), Attempt: 1, Outcome: failed(messages.FailedByWorker)})
	killed.apply(t, s, &store.Cancel{ID: id(4)})
	killed.apply(t, s, &store.End{ID: id(5), Outcome: failed("sweep")})
	next.apply(t, s, &store.Cancel{ID: id(1)})
	if _, embedded := s.(*sqlite.Store); embedded {
		beat(t, s, killed, time.Microsecond)
	} else {
		beat(t, s, killed, lease)
	}
	next.apply(t, s, &store.Finish{ID: id(1), Attempt: 1, Outcome: lost}) // as if it had declared it dead
	next.apply(t, s, &store.Cancel{ID: id(2)})
	next.apply(t, s, &store.End{ID: id(3), Attempt: 1, Outcome: failed("dead_letter_handler")})
	bury(t, s, next, lease)
	require.NoError(t, next.finish(t.Context()))
	require.Equal(t, int64(3), all(t, s), "what the next node ended")

	for range 2 {
		require.NoError(t, (&recounts{base: next.base}).round(t.Context()))
		require.Equal(t, int64(3+1), all(t, s), "and what a worker of the killed one reported")
	}
	counted, err := s.CountRequested(t.Context(), store.CountQuery{From: from, To: from.Add(time.Hour), Within: time.Minute})
	require.NoError(t, err)
	requested := make([]rollup.Requested, len(counted.Minutes))
	for i, c := range counted.Minutes {
		requested[i] = rollup.Requested(c)
	}
	ledger, around := rollup.NewLedger(from, from.Add(time.Hour), requested)
	page, err := s.ReadRollups(t.Context(), store.RollupQuery{})
	require.NoError(t, err)
	sums := rollup.Sums{}
	for _, r := range page.Rows {
		sums[r.Status] += r.N
	}
	require.Zero(t, sums[rollup.Submitted])
	ledger.Compare(sums[rollup.Submitted], around, rollup.Deleted{}, time.Time{})
	require.Equal(t, []any{int64(6), int64(0), true}, []any{ledger.Accepted, ledger.Missing, ledger.AddsUp})
	require.Len(t, ledger.Notes, 1)
	require.Contains(t, ledger.Notes[0], "a node ended before it wrote its last counts")
}

// apply makes a change, and has the node count what it ended.
func (r *rollups) apply(t *testing.T, s store.Store, c store.Change) {
	results, err := s.Apply(t.Context(), []store.Change{c})
	require.NoError(t, err)
	require.Equal(t, store.Applied, results[0].Verdict, "%s: %v", c.Name(), results[0].Err)
	r.transaction([]actors.Recorded{{Items: []actors.Item{{Change: c}}, Results: results}})
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
