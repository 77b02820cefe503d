package postgres_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

func TestMigrations(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	cfg := postgres.Config{URL: d.url, Schema: "m"}
	before, err := postgres.Status(t.Context(), cfg)
	require.NoError(t, err)
	require.False(t, before[0].Applied)
	var group sync.WaitGroup
	for range 4 { // nodes that start at the same time
		group.Go(func() {
			if err := postgres.Migrate(t.Context(), cfg); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	s := d.open(t, cfg)
	_, err = s.Submit(t.Context(), noop(1))
	require.NoError(t, err)
	after, err := postgres.Status(t.Context(), cfg)
	require.NoError(t, err)
	for _, m := range after {
		require.True(t, m.Applied, m.Name)
	}
	_, err = d.connect(t, "m").Exec(t.Context(), "INSERT INTO schema_version (version, name) VALUES (4711, 'later')")
	require.NoError(t, err)
	_, err = postgres.Open(t.Context(), cfg)
	require.ErrorIs(t, err, store.ErrNewer)
	require.ErrorContains(t, err, "version 4711")
}

// After a failed step the steps before it stay made, and none of their locks are held. Once the step is possible, the
// next start continues with it. An index that an operator built before is used as it is.
func TestMigrationsAreMadeOneByOne(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	cfg := postgres.Config{URL: d.url, Schema: "one"}
	require.NoError(t, postgres.MigrateTo(t.Context(), cfg, 5))
	c := d.connect(t, "one")
	write := func(sql string) {
		_, err := c.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
	write("CREATE INDEX CONCURRENTLY request_requested_at ON request USING brin (requested_at) WITH (pages_per_range = 32, autosummarize = on)")
	write("CREATE TABLE outbox (x int)") // blocks step 12
	require.ErrorContains(t, postgres.Migrate(t.Context(), cfg), "00012_outbox")
	steps, err := postgres.Status(t.Context(), cfg)
	require.NoError(t, err)
	var made []int
	for _, m := range steps {
		if m.Applied {
			made = append(made, m.Version)
		}
	}
	require.Equal(t, []int{1, 2, 3, 4, 5, 8, 9, 10}, made)
	write("DROP TABLE outbox")
	require.NoError(t, postgres.Migrate(t.Context(), cfg))
	steps, err = postgres.Status(t.Context(), cfg)
	require.NoError(t, err)
	for _, m := range steps {
		require.True(t, m.Applied, m.Name)
	}
}

// firstNode writes like a node of the schema's first version: its own row, a worker's, and those of two executions, one
// waiting and one running.
type firstNode struct {
	worker           messages.WorkerKey
	waiting, running messages.ExecutionID
}

func newFirstNode(t *testing.T, c *pgx.Conn) firstNode {
	t.Helper()
	n := firstNode{messages.WorkerKey{Incarnation: messages.NewIncarnation(), Pool: "go"}, messages.NewExecutionID(), messages.NewExecutionID()}
	write := func(sql string, args ...any) {
		_, err := c.Exec(t.Context(), sql, args...)
		require.NoError(t, err, sql)
	}
	write(`INSERT INTO node (incarnation, name, version, state, cordoned, started_at, beat_at, lease_until, steady_since, address, lock)
 VALUES ($1, 'first', '1', 'active', false, now(), now(), now() + interval '1 hour', now(), '127.0.0.1:7070', 1)`, n.worker.Incarnation.String())
	write(`INSERT INTO worker (incarnation, pool, slot, id, generation, runtime, state, health, active, cordoned, last_heartbeat, heartbeat_interval, since)
 VALUES ($1, 'go', 0, 'first/go/0', 1, 'go', 'ready', 'healthy', true, false, now(), '1 hour', now())`, n.worker.Incarnation.String())
	for _, id := range []messages.ExecutionID{n.waiting, n.running} {
		write(`WITH r AS (INSERT INTO request (seq, id, action, version, timeout, stall_timeout, wait_for_worker, idempotent, notify, may_repeat, max_retries,
  retry_count, requested_at, parameters)
 VALUES (nextval('execution_seq'), $1, 'core.noop', '1.0.0', '1 minute', '0', false, false, false, false, 0, 0, now(), '{"n":1}') RETURNING seq)
 INSERT INTO execution (id, seq, rank, status, attempt, last_change, priority, pool, run_at) SELECT $1, seq, 4, 1, 0, 0, 5, 'go', now() FROM r`, id.String())
	}
	write(`UPDATE execution SET rank = NULL, on_worker = 1, status = 4, attempt = 1, last_change = 3, worker_inc = $2, worker_slot = 0,
  worker_id = 'first/go/0', generation = 1, placed_by = $2, first_placed_at = now(), scheduled_at = now(), claim_by = now() + interval '1 minute',
  started_at = now(), run_deadline = now() + interval '1 minute' WHERE id = $1`, n.running.String(), n.worker.Incarnation.String())
	return n
}

// The newest store works off the rows of a store of the first version, and the rows that nodes of that version still
// write.
func TestANewerStoreWorksOffWhatAnOlderOneHolds(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	cfg := postgres.Config{URL: d.url, Schema: "old", Conns: 4}
	require.NoError(t, postgres.MigrateTo(t.Context(), cfg, 1))
	steps, err := postgres.Status(t.Context(), cfg)
	require.NoError(t, err)
	for _, m := range steps {
		require.Equal(t, m.Version == 1, m.Applied, m.Name)
	}
	c := d.connect(t, "old")
	before := newFirstNode(t, c)
	s := d.open(t, cfg)
	for name, n := range map[string]firstNode{"before the migration": before, "after it": newFirstNode(t, c)} {
		t.Log("what an old node stored " + name)
		n.workedOff(t, s)
	}
	nodes, err := s.ListNodes(t.Context())
	require.NoError(t, err)
	require.Len(t, nodes, 4, "two of each version")
	for _, n := range nodes {
		require.Empty(t, n.PeerAddress, "nobody dials them")
	}
	workers, err := s.ListWorkers(t.Context(), "go")
	require.NoError(t, err)
	require.Len(t, workers, 2)
}

// workedOff ends the running execution on its old worker, and runs the waiting one on a new node's.
func (n firstNode) workedOff(t *testing.T, s *postgres.Store) {
	get := func(id messages.ExecutionID) messages.Execution {
		e, err := s.Get(t.Context(), id)
		require.NoError(t, err)
		return e
	}
	apply := func(change store.Change) store.Result {
		out, err := s.Apply(t.Context(), []store.Change{change})
		require.NoError(t, err)
		require.Equal(t, store.Applied, out[0].Verdict, "%s: %v", change.Name(), out[0].Err)
		return out[0]
	}
	done := messages.Outcome{Status: messages.Completed, Result: json.RawMessage(`{"ok":true}`)}
	runs := get(n.running)
	require.Equal(t, messages.Running, runs.Status)
	require.Equal(t, n.worker, runs.Worker)
	require.Equal(t, messages.WorkerID("first/go/0"), runs.WorkerID)
	require.Equal(t, messages.Attempt(1), runs.Attempt)
	require.False(t, runs.StartedAt.IsZero())
	require.Equal(t, time.Minute, runs.RunDeadline.Sub(runs.StartedAt))
	require.JSONEq(t, `{"n":1}`, string(runs.Parameters))

	key := joined(t, s)
	page, err := s.Due(t.Context(), store.DueQuery{Pool: "go", Limit: 10, Heads: 10})
	require.NoError(t, err)
	var due []messages.ExecutionID
	for _, candidate := range page.Candidates {
		due = append(due, candidate.ID)
	}
	require.Contains(t, due, n.waiting)
	apply(&store.Place{ID: n.waiting, Worker: key, WorkerID: "n/go/0", PlacedBy: key.Incarnation, ClaimWithin: time.Minute})
	claimed := apply(&store.Claim{ID: n.waiting, Attempt: 1, Worker: key, Generation: 1})
	require.Equal(t, "core.noop", claimed.Execution.Action)
	for _, id := range []messages.ExecutionID{n.waiting, n.running} {
		apply(&store.Finish{ID: id, Attempt: 1, Outcome: done})
		e := get(id)
		require.Equal(t, messages.Completed, e.Status)
		require.JSONEq(t, `{"ok":true}`, string(e.Result))
	}
}

// A key that a node of an older version wrote, before the migration or at the same time as newer nodes, belongs to the
// creator of its execution. Such a node finds the keys of the same creator that newer nodes write.
func TestKeysOfOlderNodesHaveOwners(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	cfg := postgres.Config{URL: d.url, Schema: "keys", Conns: 4}
	require.NoError(t, postgres.MigrateTo(t.Context(), cfg, 12)) // the steps up to 00015
	c := d.connect(t, "keys")
	old := func(id messages.ExecutionID, creator, key string) error {
		_, err := c.Exec(t.Context(), `WITH r AS (INSERT INTO request (seq, id, action, version, timeout, stall_timeout, wait_for_worker, idempotent, notify,
  may_repeat, max_retries, retry_count, requested_at, parameters, created_by, idempotency_key, request_hash)
 VALUES (nextval('execution_seq'), $1, 'core.noop', '1.0.0', '1 minute', '0', false, false, false, false, 0, 0, now(), '{}', $2, $3, 'h') RETURNING seq)
 INSERT INTO execution (id, seq, rank, status, attempt, last_change, priority, pool, run_at) SELECT $1, seq, 4, 1, 0, 0, 5, 'go', now() FROM r`,
			id.String(), creator, key)
		return err
	}
	before, beside := messages.NewExecutionID(), messages.NewExecutionID()
	require.NoError(t, old(before, "ci", "before"))
	_, err := c.Exec(t.Context(), `ALTER TABLE request ADD COLUMN key_owner text`) // as an operator may, so that the step is short
	require.NoError(t, err)
	_, err = c.Exec(t.Context(), `CREATE UNIQUE INDEX CONCURRENTLY request_owned_key ON request (idempotency_key,
 coalesce(key_owner, split_part(created_by, ':', 1), '')) WHERE idempotency_key IS NOT NULL`)
	require.NoError(t, err)
	s := d.open(t, cfg)
	require.NoError(t, old(beside, "ci", "beside"))
	for key, id := range map[string]messages.ExecutionID{"before": before, "beside": beside} {
		ask := func(creator string) messages.Execution {
			return messages.Execution{Action: "core.noop", Pool: "go", CreatedBy: creator, IdempotencyKey: key, RequestHash: []byte("h"), Priority: 5}
		}
		out, err := s.Submit(t.Context(), []messages.Execution{ask("ci"), ask("ops")})
		require.NoError(t, err)
		require.True(t, out[0].Existing, key)
		require.Equal(t, id, out[0].Execution.ID)
		require.False(t, out[1].Existing, key)
		require.ErrorContains(t, old(messages.NewExecutionID(), "ops", key), "request_owned_key")
		require.NoError(t, old(messages.NewExecutionID(), "local", key))
	}
}

// Steps that only add to the schema are made whatever others there are, and a program goes on with those that it does not know. Where one has
// taken something away, an older program is refused by name.
func TestStepsThatOnlyAdd(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	cfg := postgres.Config{URL: d.url, Schema: "adds"}
	require.NoError(t, d.open(t, cfg).Close())
	c := d.connect(t, "adds")
	write := func(sql string) {
		_, err := c.Exec(t.Context(), sql)
		require.NoError(t, err, sql)
	}
	states := func() (list []string) {
		steps, err := postgres.Status(t.Context(), cfg)
		require.NoError(t, err)
		for _, m := range steps {
			if m.Version == 0 {
				list = append(list, fmt.Sprintf("%s %v %v", m.Name, m.Applied, m.Newer))
			}
		}
		return list
	}
	require.Contains(t, states(), "0030_queue_depth true false")
	write("DELETE FROM schema_step WHERE name = '0030_queue_depth'; DROP FUNCTION get_worker_queue_depth(text)")
	write("INSERT INTO schema_step (name) VALUES ('9999_later')")
	require.Contains(t, states(), "0030_queue_depth false false")
	require.Contains(t, states(), "9999_later true true")
	var group sync.WaitGroup
	for range 4 { // nodes that start at the same time
		group.Go(func() {
			s, err := postgres.Open(t.Context(), cfg)
			if err == nil {
				err = s.Close()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.Contains(t, states(), "0030_queue_depth true false")
	write("UPDATE schema_oldest SET generation = 4711, release = '9.9.0'")
	_, err := postgres.Open(t.Context(), cfg)
	require.ErrorIs(t, err, store.ErrNewer)
	require.ErrorContains(t, err, "it needs troupe 9.9.0 or newer (generation 4711, this is 1)")
}
