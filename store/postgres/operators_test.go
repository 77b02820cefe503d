package postgres_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
	"github.com/troupe-run/troupe/test/servers"
)

// silentSQL names the objects of the schema without a comment: the schema itself, tables, views, indexes and sequences,
// the columns of tables and views, triggers and functions. Constraints need none: each is named after its table and
// column, its definition is its meaning, and the index behind a key has a comment.
const silentSQL = `WITH n AS (SELECT oid FROM pg_namespace WHERE nspname = current_schema()),
 c AS (SELECT c.oid, c.relkind FROM pg_class c JOIN n ON n.oid = c.relnamespace),
 o (class, object, part) AS (
  SELECT 'pg_namespace'::regclass::oid, oid, 0 FROM n
  UNION ALL SELECT 'pg_class'::regclass, oid, 0 FROM c
  UNION ALL SELECT 'pg_class'::regclass, c.oid, a.attnum FROM c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
   WHERE c.relkind NOT IN ('i', 'S')
  UNION ALL SELECT 'pg_trigger'::regclass, t.oid, 0 FROM c JOIN pg_trigger t ON t.tgrelid = c.oid AND NOT t.tgisinternal
  UNION ALL SELECT 'pg_proc'::regclass, p.oid, 0 FROM pg_proc p JOIN n ON n.oid = p.pronamespace)
 SELECT pg_describe_object(class, object, part) FROM o
 WHERE NOT EXISTS (SELECT FROM pg_description d WHERE d.classoid = class AND d.objoid = object AND d.objsubid = part) ORDER BY 1`

// TestComments checks that every object of the schema has a comment for operators.
func TestComments(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	c := d.connect(t, d.open(t, postgres.Config{Schema: "told"}).Schema())
	silent := func() []string {
		rows, err := c.Query(t.Context(), silentSQL)
		require.NoError(t, err)
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return names
	}
	require.Empty(t, silent())
	_, err := c.Exec(t.Context(), `COMMENT ON SCHEMA told IS NULL; COMMENT ON TABLE node IS NULL; COMMENT ON COLUMN node.name IS NULL;
 COMMENT ON VIEW executions IS NULL; COMMENT ON COLUMN executions.id IS NULL; COMMENT ON INDEX node_pkey IS NULL;
 COMMENT ON SEQUENCE notice_n_seq IS NULL; COMMENT ON TRIGGER submission_told ON submission IS NULL;
 COMMENT ON FUNCTION submission_told() IS NULL`, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	require.Equal(t, []string{"column id of view executions", "column name of table node", "function submission_told()", "index node_pkey",
		"schema told", "sequence notice_n_seq", "table node", "trigger submission_told on table submission", "view executions"}, silent(),
		"whatever has none is found")
}

// The schema may belong to another user, who lets the nodes' user create in it. Then its comment stays as the owner
// wrote it.
func TestASchemaOfAnothersKeepsItsComment(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ prepare, want string }{
		"another's without a comment": {"COMMENT ON SCHEMA public IS NULL", ""},
		"another's with one":          {"COMMENT ON SCHEMA public IS 'theirs'", "theirs"},
		"its own without one":         {"ALTER SCHEMA public OWNER TO %s; COMMENT ON SCHEMA public IS NULL", "Troupe: executions, the nodes and workers that run them, and their outcomes."},
		"its own with one":            {"ALTER SCHEMA public OWNER TO %s; COMMENT ON SCHEMA public IS 'ours'", "ours"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := servers.Postgres(t)
			role, as := roleOn(t, database)
			require.NoError(t, servers.Execute(database, strings.ReplaceAll(c.prepare, "%s", role)))
			require.NoError(t, servers.Execute(database, "GRANT CREATE, USAGE ON SCHEMA public TO "+role))
			require.NoError(t, postgres.Migrate(t.Context(), postgres.Config{URL: as}))
			rows, err := servers.Query(database, "SELECT obj_description('public'::regnamespace, 'pg_namespace')")
			require.NoError(t, err)
			require.Equal(t, c.want, rows[0][0])
		})
	}
}

// operators is a store with its database, from which an operator reads one value at a time.
type operators struct {
	*testing.T
	*postgres.Store
	c *pgx.Conn
}

func newOperators(t *testing.T) *operators {
	d := newBench(t)
	s := d.open(t, postgres.Config{})
	return &operators{t, s, d.connect(t, s.Schema())}
}

func (p *operators) one(sql string, args ...any) (text string) {
	p.Helper()
	require.NoError(p, p.c.QueryRow(p.Context(), sql, args...).Scan(&text), sql)
	return text
}

func (p *operators) change(sql string, args ...any) {
	p.Helper()
	tag, err := p.c.Exec(p.Context(), sql, args...)
	require.NoError(p, err, sql)
	require.Equal(p, int64(1), tag.RowsAffected(), sql)
}

// TestForPeople checks the views and functions for operators.
func TestForPeople(t *testing.T) {
	t.Parallel()
	p := newOperators(t)
	key := joined(t, p.Store)
	e := noop(2)
	_, err := p.Submit(t.Context(), e)
	require.NoError(t, err)
	for i := range e {
		_, err = p.Apply(t.Context(), []store.Change{&store.Place{ID: e[i].ID, Worker: key, WorkerID: "n/go/0", PlacedBy: key.Incarnation, ClaimWithin: time.Minute}})
		require.NoError(t, err)
	}
	failure := messages.Outcome{Status: messages.Failed, Error: &messages.Error{Code: "x", Message: "m"}}
	_, err = p.Apply(t.Context(), []store.Change{&store.Claim{ID: e[1].ID, Attempt: 1, Worker: key, Generation: 1},
		&store.Finish{ID: e[1].ID, Attempt: 1, Outcome: failure}})
	require.NoError(t, err)
	require.Equal(t, "scheduled", p.one("SELECT status FROM executions WHERE id = $1", e[0].ID.String()))
	require.Equal(t, "failed", p.one("SELECT status FROM executions WHERE id = $1", e[1].ID.String()))
	require.Equal(t, `{"n":1}`, p.one("SELECT parameters FROM executions WHERE id = $1", e[1].ID.String()))
}

// The view shows the workers that may get executions, and their grade. Its limit of three beats is fixed: a node's
// multiplier does not change it.
func TestHealthyWorkers(t *testing.T) {
	t.Parallel()
	p := newOperators(t)
	report := func(status string) func(*store.Worker) {
		return func(w *store.Worker) { w.Capabilities = json.RawMessage(`{"health": {"status": "` + status + `"}}`) }
	}
	reportless := func(health string) func(*store.Worker) {
		return func(w *store.Worker) { w.Capabilities, w.Health = nil, health }
	}
	late := func(by string) func(context.Context, messages.WorkerKey) error {
		return func(ctx context.Context, k messages.WorkerKey) error {
			_, err := p.c.Exec(ctx, "UPDATE worker SET last_heartbeat = now() - $2::text::interval WHERE incarnation = $1", k.Incarnation.String(), by)
			return err
		}
	}
	state := func(to store.NodeState) func(context.Context, messages.WorkerKey) error { // of the node only: SetNode also changes its workers
		return func(ctx context.Context, k messages.WorkerKey) error {
			_, err := p.c.Exec(ctx, "UPDATE node SET state = $2 WHERE incarnation = $1", k.Incarnation.String(), string(to))
			return err
		}
	}
	const hidden = ""
	for _, c := range []struct {
		name  string
		made  func(*store.Worker)                             // nil: healthy, with a heartbeat within an interval of an hour
		then  func(context.Context, messages.WorkerKey) error // nil: nothing
		grade string
	}{
		{"fresh and healthy", nil, nil, "healthy"},
		{"no heartbeat yet", func(w *store.Worker) { w.Beat = time.Time{} }, nil, hidden},
		{"less than three beats late", nil, late("2 hours 50 minutes"), "healthy"},
		{"more than three beats late", nil, late("3 hours 10 minutes"), hidden},
		{"late by a shorter interval of its own", func(w *store.Worker) { w.BeatEvery = time.Minute }, late("50 minutes"), hidden},
		{"degraded by its report", report("degraded"), nil, "degraded"},
		{"unhealthy by its report", report("unhealthy"), nil, hidden},
		{"not probed yet", report("unknown"), nil, hidden},
		{"healthy, and no report", reportless("healthy"), nil, "healthy"},
		{"unhealthy, and no report", reportless("unhealthy"), nil, hidden},
		{"a report outweighs the probes", func(w *store.Worker) { report("degraded")(w); w.Health = "unhealthy" }, nil, "degraded"},
		{"inactive", func(w *store.Worker) { w.Active = false }, nil, hidden},
		{"cordoned", nil, func(ctx context.Context, k messages.WorkerKey) error { return p.CordonWorker(ctx, k, true) }, hidden},
		{"of a cordoned node", nil, func(ctx context.Context, k messages.WorkerKey) error { return p.CordonNode(ctx, k.Incarnation, true) }, hidden},
		{"of a draining node", nil, state(store.NodeDraining), hidden},
		{"of a dead node", nil, state(store.NodeDead), hidden},
		{"of a cordoned pool", nil, func(ctx context.Context, k messages.WorkerKey) error { return p.CordonPool(ctx, k.Pool, true) }, hidden},
	} {
		w := store.Worker{Key: joined(t, p.Store), ID: "n/go/0", State: "ready", Health: "healthy", Active: true, Beat: time.Now(), BeatEvery: time.Hour}
		report("healthy")(&w)
		if c.made != nil {
			c.made(&w)
		}
		require.NoError(t, p.SaveWorkers(t.Context(), []store.Worker{w}), c.name)
		if c.then != nil {
			require.NoError(t, c.then(t.Context(), w.Key), c.name)
		}
		require.Equal(t, c.grade, p.one("SELECT coalesce((SELECT grade FROM healthy_workers WHERE incarnation = $1), '')", w.Key.Incarnation.String()), c.name)
	}
}

// The view of all workers grades each by its own interval. The operators of jsonb work on the row's JSON.
func TestWorkersAreGradedWithTheirHeartbeat(t *testing.T) {
	t.Parallel()
	p := newOperators(t)
	key := joined(t, p.Store)
	for slot, every := range map[messages.Slot]time.Duration{0: time.Second, 1: 10 * time.Second} {
		key.Slot = slot
		require.NoError(t, p.SaveWorkers(t.Context(), []store.Worker{{
			Key: key, ID: messages.NewWorkerID("n", "go", slot), State: "ready", Health: "healthy", Active: true, Beat: time.Now(), BeatEvery: every,
			Capabilities: json.RawMessage(`{"health":{"status":"degraded"}}`),
		}}))
	}
	p.one("WITH u AS (UPDATE worker SET last_heartbeat = last_heartbeat - interval '5 seconds' RETURNING 1) SELECT count(*)::text FROM u")
	require.Equal(t, "n/go/0 unhealthy true, n/go/1 degraded false", p.one("SELECT string_agg(concat_ws(' ', id, grade, stale::text), ', ' ORDER BY id) FROM workers"))
	require.Equal(t, "n/go/1", p.one("SELECT string_agg(id, ' ') FROM healthy_workers"))
	require.Equal(t, "2", p.one(`SELECT count(*)::text FROM worker WHERE capabilities @> '{"health": {"status": "degraded"}}'`))
	require.Equal(t, "jsonb", p.one("SELECT data_type FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = 'worker' AND column_name = 'capabilities'"))
}

// A heartbeat adds a worker to the view.
func TestAWorkerIsHealthyFromItsFirstHeartbeat(t *testing.T) {
	t.Parallel()
	p := newOperators(t)
	key := joined(t, p.Store)
	require.NoError(t, p.SaveWorkers(t.Context(), []store.Worker{{Key: key, ID: "n/go/0", State: "ready", Health: "healthy", Active: true, BeatEvery: time.Hour}}))
	require.Equal(t, "0", p.one("SELECT count(*)::text FROM healthy_workers"))
	require.NoError(t, p.Heartbeat(t.Context(), key.Incarnation, nil))
	require.Equal(t, "n/go/0 n go healthy", p.one("SELECT concat_ws(' ', id, node, pool, grade) FROM healthy_workers"))
}

// An execution that ended without success may be retried within its limit, whatever its error.
func TestIsExecutionRetriable(t *testing.T) {
	t.Parallel()
	p := newOperators(t)
	for _, c := range []struct {
		name      string
		execution string // columns to set of an execution that failed
		request   string // columns to set of its request: it is the second of three retries
		want      string
	}{
		{"requested", "status = 1", "", "false"},
		{"scheduling", "status = 2", "", "false"},
		{"scheduled", "status = 3", "", "false"},
		{"running", "status = 4", "", "false"},
		{"cancelling", "status = 5", "", "false"},
		{"completed", "status = 6", "", "false"},
		{"failed", "status = 7", "", "true"},
		{"timed_out", "status = 8", "", "true"},
		{"cancelled", "status = 9", "", "false"},
		{"abandoned", "status = 10", "", "true"},
		{"the last retry", "", "retry_count = 3", "false"},
		{"the first of a chain", "", "retry_count = 0", "true"},
		{"no retries at all", "", "retry_count = 0, max_retries = 0", "false"},
		{"past a limit that was lowered", "", "retry_count = 3, max_retries = 1", "false"},
		{"retried already", "retried_as = gen_random_uuid()", "", "false"},
		{"an error that is not to be repeated", `error = '{"code": "x", "retriable": false}'`, "", "true"},
		{"an action that may not run twice", "", "may_repeat = false, idempotent = false", "true"},
	} {
		e := noop(1)
		e[0].MaxRetries, e[0].RetryCount = 3, 2
		_, err := p.Submit(t.Context(), e)
		require.NoError(t, err)
		id := e[0].ID.String()
		p.change("UPDATE execution SET status = 7 WHERE id = $1", id)
		if c.execution != "" {
			p.change("UPDATE execution SET "+c.execution+" WHERE id = $1", id)
		}
		if c.request != "" {
			p.change("UPDATE request SET "+c.request+" WHERE id = $1", id)
		}
		require.Equal(t, c.want, p.one("SELECT is_execution_retriable($1::uuid)::text", id), c.name)
	}
	require.Equal(t, "false", p.one("SELECT is_execution_retriable($1::uuid)::text", messages.NewExecutionID().String()), "an unknown one")
	require.Equal(t, "false", p.one("SELECT is_execution_retriable(NULL)::text"), "none")
}

// The depth of a worker's queue is what its node reports, whether placements stand in rows or, under direct dispatch, only at the worker.
func TestQueueDepthIsTheReportedOne(t *testing.T) {
	t.Parallel()
	p := newOperators(t)
	own, other := joined(t, p.Store), joined(t, p.Store)
	depth := func(key messages.WorkerKey, id messages.WorkerID, capabilities string) store.Worker {
		return store.Worker{Key: key, ID: id, Runtime: "go", Active: true, Capabilities: json.RawMessage(capabilities)}
	}
	at := func(key messages.WorkerKey, slot messages.Slot) messages.WorkerKey {
		key.Slot = slot
		return key
	}
	require.NoError(t, p.SaveWorkers(t.Context(), []store.Worker{
		depth(own, "n/go/0", `{"health": {"queue_depth": 3}}`), depth(at(own, 1), "n/go/1", `{}`), depth(at(other, 2), "n/go/2", `{"health": {"queue_depth": 4}}`),
	}))
	p.change("UPDATE node SET state = 'dead' WHERE incarnation = $1", other.Incarnation.String())
	for id, want := range map[string]string{"n/go/0": "3", "n/go/1": "0", "n/go/2": "0", "n/go/3": "0"} {
		require.Equal(t, want, p.one("SELECT get_worker_queue_depth($1)::text", id), id)
	}
}
