package postgres_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
	"github.com/troupe-run/troupe/test/servers"
)

// Tables with changing rows have free space on their pages and are vacuumed early. The others have the server's
// defaults.
func TestTablesAreStoredForWhatChangesInThem(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	c := d.connect(t, d.open(t, postgres.Config{}).Schema())
	rows, err := c.Query(t.Context(), `SELECT relname, o.option_name, o.option_value::float FROM pg_class c, pg_options_to_table(c.reloptions) o
 WHERE c.relkind = 'r' AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())`)
	require.NoError(t, err)
	got := map[string]map[string]float64{}
	var table, option string
	var value float64
	_, err = pgx.ForEachRow(rows, []any{&table, &option, &value}, func() error {
		if got[table] == nil {
			got[table] = map[string]float64{}
		}
		got[table][option] = value
		return nil
	})
	require.NoError(t, err)
	const (
		vacuum        = "autovacuum_vacuum_scale_factor"
		vacuumInserts = "autovacuum_vacuum_insert_scale_factor"
		analyze       = "autovacuum_analyze_scale_factor"
		delay         = "autovacuum_vacuum_cost_delay"
	)
	require.Equal(t, map[string]map[string]float64{
		"execution":     {"fillfactor": 30, vacuum: 0.01, vacuumInserts: 0.05, analyze: 0.05, delay: 0},
		"lane":          {"fillfactor": 80, vacuum: 0.01, delay: 0},
		"session":       {"fillfactor": 70, vacuum: 0.01},
		"rollup":        {"fillfactor": 70},
		"webhook":       {"fillfactor": 70, vacuum: 0.01, delay: 0},
		"node":          {"fillfactor": 50, vacuum: 0.01},
		"worker":        {"fillfactor": 50, vacuum: 0.01},
		"outbox":        {"toast_tuple_target": 8160, vacuum: 0, "autovacuum_vacuum_threshold": 500, "autovacuum_vacuum_insert_threshold": -1, delay: 0},
		"outbox_teller": {"fillfactor": 10, vacuum: 0, "autovacuum_vacuum_threshold": 500, delay: 0},
	}, got)
}

// An index on status would make every change of an execution write to all indexes.
func TestNoIndexMentionsStatus(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	c := d.connect(t, d.open(t, postgres.Config{}).Schema())
	rows, err := c.Query(t.Context(), "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'execution'::regclass")
	require.NoError(t, err)
	indexes, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.NotEmpty(t, indexes)
	for _, index := range indexes {
		require.NotRegexp(t, `\bstatus\b`, index)
	}
}

// heap is a store that works over one connection, with the server's counts of its updates.
type heap struct {
	*postgres.Store
	d         *bench
	t         *testing.T
	c         *pgx.Conn
	key       messages.WorkerKey
	all, only int // updates so far, and those of them that were heap-only
}

func newHeap(t *testing.T) *heap {
	t.Helper()
	d := newBench(t)
	s := d.open(t, postgres.Config{Conns: 1})
	return &heap{Store: s, d: d, t: t, c: d.connect(t, s.Schema()), key: joined(t, s)}
}

// heapOnly makes changes, each of which must update its own row, and returns how many updates were heap-only.
func (h *heap) heapOnly(changes []store.Change) int {
	h.t.Helper()
	results, err := h.Apply(h.t.Context(), changes)
	require.NoError(h.t, err)
	for _, r := range results {
		require.Equal(h.t, store.Applied, r.Verdict, "%v", r.Err)
	}
	// The connection that made them reports its counts at the end of this query, before the client gets the answer.
	_, err = h.Ask(h.t.Context(), "SELECT '' FROM pg_stat_force_next_flush()")
	require.NoError(h.t, err)
	all, only := h.all, h.only
	require.NoError(h.t, h.c.QueryRow(h.t.Context(), "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = 'execution'::regclass").Scan(&h.all, &h.only))
	require.Equal(h.t, len(changes), h.all-all, "each change is one update, and the server has counted it")
	return h.only - only
}

func (h *heap) places(e []messages.Execution) (out []store.Change) {
	for i := range e {
		p := &store.Place{ID: e[i].ID, Worker: h.key, WorkerID: "n/go/0", PlacedBy: h.key.Incarnation, ClaimWithin: time.Minute}
		if e[i].Session != "" {
			p.Session = &store.SessionUse{Pool: "go", Session: e[i].Session, Epoch: 1, Bind: true}
		}
		out = append(out, p)
	}
	return out
}

func (h *heap) claims(e []messages.Execution) (out []store.Change) {
	for i := range e {
		out = append(out, &store.Claim{ID: e[i].ID, Attempt: 1, Worker: h.key, Generation: 1})
	}
	return out
}

func (h *heap) finishes(e []messages.Execution, o messages.Outcome) (out []store.Change) {
	for i := range e {
		out = append(out, &store.Finish{ID: e[i].ID, Attempt: 1, Outcome: o})
	}
	return out
}

// A claim changes no index; a placement and an outcome do. So few rows leave space on their page for every version of
// them.
func TestOnlyAClaimIsHeapOnly(t *testing.T) {
	t.Parallel()
	const n = 5
	h := newHeap(t)
	other := h.d.open(t, postgres.Config{Schema: h.Schema(), Conns: 1})
	completed := messages.Outcome{Status: messages.Completed}
	failed := messages.Outcome{Status: messages.Failed, Error: &messages.Error{Code: "x", Message: "m"}}
	for _, c := range []struct {
		name     string
		made     func(i int, e *messages.Execution)
		stranger bool // another node stored it
		placed   bool // it is stored with its placement
		outcome  messages.Outcome
		claims   int // heap-only ones
	}{
		{name: "completed", outcome: completed, claims: n},
		{name: "failed", outcome: failed, claims: n},
		{name: "stored by another node", stranger: true, outcome: completed, claims: n},
		{name: "stored with its placement", placed: true, outcome: completed, claims: n},
		{name: "of a session", made: func(i int, e *messages.Execution) {
			e.Session, e.Affinity = fmt.Sprint("s", i), messages.AffinityStrict
		}, outcome: completed, claims: n},
		// The sweep of queue deadlines uses an index, from which a claim removes the row.
		{name: "with a queue deadline", made: func(_ int, e *messages.Execution) {
			e.QueueDeadline = time.Now().Add(time.Hour)
		}, outcome: completed, claims: 0},
	} {
		e := noop(n)
		for i := range e {
			if c.made != nil {
				c.made(i, &e[i])
			}
		}
		if c.placed {
			var places []*store.Place
			for _, change := range h.places(e) {
				places = append(places, change.(*store.Place))
			}
			_, err := h.SubmitPlaced(t.Context(), e, places)
			require.NoError(t, err)
		} else {
			by := h.Store
			if c.stranger {
				by = other
			}
			_, err := by.Submit(t.Context(), e)
			require.NoError(t, err)
			require.Zero(t, h.heapOnly(h.places(e)), "%s: placements", c.name)
		}
		require.Equal(t, c.claims, h.heapOnly(h.claims(e)), "%s: claims", c.name)
		require.Zero(t, h.heapOnly(h.finishes(e, c.outcome)), "%s: outcomes", c.name)
	}
}

// settled waits until no transaction sees the rows as they were before the last change: from then on the server may
// remove their old versions.
func (h *heap) settled() {
	h.t.Helper()
	var next string
	require.NoError(h.t, h.c.QueryRow(h.t.Context(), "SELECT pg_snapshot_xmax(pg_current_snapshot())::text").Scan(&next))
	require.Eventually(h.t, func() bool {
		var done bool
		require.NoError(h.t, h.c.QueryRow(h.t.Context(), `SELECT pg_snapshot_xmin(pg_current_snapshot()) >= $1::text::xid8
 AND NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND age(backend_xmin) > age($1::text::xid8::xid))`, next).Scan(&done))
		return done
	}, patience, time.Millisecond)
}

// The free space on the pages of execution is for claims: for nearly all if the server may remove the old versions of
// placements, and for half of them if a snapshot, for example of a report, prevents that.
func TestAPageHasRoomForClaims(t *testing.T) {
	t.Parallel()
	const n = 500
	for _, c := range []struct {
		name       string
		fillfactor int // 0: unchanged
		report     bool
		least      int // heap-only claims
		most       int
	}{
		{name: "nobody looks", least: n * 9 / 10, most: n},
		{name: "a report holds a snapshot", report: true, least: n / 2, most: n},
		{name: "full pages and a report", fillfactor: 100, report: true, most: n / 10},
	} {
		h := newHeap(t)
		if c.fillfactor > 0 {
			_, err := h.c.Exec(t.Context(), fmt.Sprintf("ALTER TABLE execution SET (fillfactor = %d)", c.fillfactor))
			require.NoError(t, err)
		}
		e := noop(n)
		_, err := h.Submit(t.Context(), e)
		require.NoError(t, err)
		if c.report {
			_, err := h.d.connect(t, h.Schema()).Exec(t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM execution LIMIT 1")
			require.NoError(t, err)
		}
		require.Zero(t, h.heapOnly(h.places(e)), c.name)
		if !c.report {
			h.settled()
		}
		got := h.heapOnly(h.claims(e))
		require.GreaterOrEqual(t, got, c.least, c.name)
		require.LessOrEqual(t, got, c.most, c.name)
	}
}

// A connection of the store has the store's settings, whatever the database and the URL set.
func TestConnectionsHaveTheStoresSettings(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	u, err := url.Parse(d.url)
	require.NoError(t, err)
	want := map[string]string{
		"statement_timeout": "5s", "lock_timeout": "2s", "idle_in_transaction_session_timeout": "10s", "idle_session_timeout": "0",
		"default_transaction_isolation": "read committed", "plan_cache_mode": "force_generic_plan", "max_parallel_workers_per_gather": "0",
		"enable_seqscan": "off", "enable_bitmapscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "jit": "off",
	}
	for _, setting := range []string{"statement_timeout = '1h'", "lock_timeout = '1h'", "idle_in_transaction_session_timeout = 0", "idle_session_timeout = '1h'",
		"default_transaction_isolation = 'serializable'", "plan_cache_mode = 'force_custom_plan'", "enable_seqscan = 'on'"} {
		require.NoError(t, servers.Execute(d.url, "ALTER DATABASE "+u.Path[1:]+" SET "+setting))
	}
	s, err := postgres.Open(t.Context(), postgres.Config{URL: d.url + "&statement_timeout=1h&lock_timeout=1h&idle_in_transaction_session_timeout=0"})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	for name, value := range want {
		got, err := s.Ask(t.Context(), "SHOW "+name)
		require.NoError(t, err)
		require.Equal(t, value, got, name)
		got, err = s.AskBeats(t.Context(), "SHOW "+name)
		require.NoError(t, err)
		require.Equal(t, value, got, name+" of beats")
	}
}
