package node_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/sqlite"
)

// The work of a pool that a new configuration has taken away ends, however much newer work of other pools waits, and however
// much of its own may wait for a worker.
func TestWorkOfARemovedPoolEndsBehindWhatMayWait(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(data, "troupe.db")})
	require.NoError(t, err)
	put := func(n int, pool string, change func(e *messages.Execution)) (last messages.ExecutionID) {
		var all []messages.Execution
		for range n {
			e := messages.Execution{ID: messages.NewExecutionID(), Action: "t.noop", Pool: pool, Priority: messages.PriorityNormal,
				Parameters: json.RawMessage(`{}`), Timeout: time.Minute}
			change(&e)
			all, last = append(all, e), e.ID
		}
		_, err := s.Submit(t.Context(), all)
		require.NoError(t, err)
		return last
	}
	far := func(e *messages.Execution) { e.RunAt = time.Now().Add(time.Hour) }
	gone := put(1, "gone", func(*messages.Execution) {})
	put(1300, "gone", func(e *messages.Execution) { e.WaitForWorker = true })
	put(6000, "go", far)
	require.NoError(t, s.Close())

	k := boot(t, data, handle(map[string]messages.Handler{"noop": noop}), goPack(t, map[string]string{"noop": ""}))
	e := k.await(gone)
	require.Equal(t, messages.Failed, e.Status)
	require.Equal(t, messages.CodeNoWorkers, e.Error.Code)
	require.Contains(t, e.Error.Message, "this node has no pool gone")
}

// lateStore holds back the other nodes' heartbeats and leases, as an outage does, until it has been asked for the workers often enough.
type lateStore struct {
	store.Store
	behind time.Duration // how old the others' heartbeats are
	lapsed bool          // and their leases
	rounds int64         // for how many looks at the workers; 0: for all
	looks  atomic.Int64
}

func (s *lateStore) wrap(inner store.Store) store.Store {
	s.Store = inner
	return s
}

func (s *lateStore) over() bool { return s.rounds > 0 && s.looks.Load() > s.rounds }

func (s *lateStore) ListWorkers(ctx context.Context, pool string) ([]store.Worker, error) {
	rows, err := s.Store.ListWorkers(ctx, pool)
	for i := range rows {
		if rows[i].Key.Pool == "gpu" {
			if s.looks.Add(1); !s.over() {
				rows[i].Beat = rows[i].Beat.Add(-s.behind)
			}
		}
	}
	return rows, err
}

func (s *lateStore) ListNodes(ctx context.Context) ([]store.Node, error) {
	nodes, err := s.Store.ListNodes(ctx)
	for i := range nodes {
		if nodes[i].Name == "other" && s.lapsed && !s.over() {
			nodes[i].LeaseUntil = nodes[i].LeaseUntil.Add(-2 * time.Hour)
		}
	}
	return nodes, err
}

// serveElsewhere joins an incarnation with a worker of pool gpu, which waits for the execution that it submits.
func (k *kit) serveElsewhere() messages.ExecutionID {
	k.t.Helper()
	inc, s := messages.NewIncarnation(), k.Store()
	require.NoError(k.t, s.Join(k.t.Context(), store.Node{Incarnation: inc, Name: "other", Version: "1"}, time.Hour))
	now, err := s.Now(k.t.Context())
	require.NoError(k.t, err)
	require.NoError(k.t, s.SaveWorkers(k.t.Context(), []store.Worker{{
		Key: messages.WorkerKey{Incarnation: inc, Pool: "gpu"}, ID: "other/gpu/0", Generation: 1, Runtime: "go",
		State: "ready", Active: true, Beat: now, BeatEvery: 10 * time.Second,
	}}))
	e := messages.Execution{ID: messages.NewExecutionID(), Action: "t.noop", Pool: "gpu", Priority: messages.PriorityNormal,
		Parameters: json.RawMessage(`{}`), Timeout: time.Minute}
	_, err = s.Submit(k.t.Context(), []messages.Execution{e})
	require.NoError(k.t, err)
	return e.ID
}

// After an outage of the store all heartbeats are old. The work of a pool that another node serves stays, whether that node has
// renewed its lease before its next heartbeat or not.
func TestWorkOfAPoolElsewhereOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]*lateStore{
		"the lease is renewed": {behind: time.Hour},
		"no lease yet":         {behind: time.Hour, lapsed: true, rounds: 4},
	} {
		t.Run(name, func(t *testing.T) {
			k := lab(t, func(c *node.Config) {
				handle(map[string]messages.Handler{"noop": noop})(c)
				paired(c, database(t))
				c.WrapStore, c.StalenessMultiplier = late.wrap, 3
			}, goPack(t, map[string]string{"noop": ""}))
			id := k.serveElsewhere()
			looks := late.looks.Load()
			k.until("rounds enough have looked", func() bool { return late.looks.Load() > looks+12 })
			require.Equal(t, messages.Requested, k.get(id).Status)
			require.NoError(t, k.stop())
		})
	}
}
