package postgres_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

// Tests of a million rows run with reducedRows each time, and with wholeRows by make chaos.
const (
	reducedRows = 60_000
	wholeRows   = 1_000_000
)

// large is a store into which other programs have put many rows, and the durations of its calls.
type large struct {
	*postgres.Store
	t    *testing.T
	c    *pgx.Conn
	rows int
	key  messages.WorkerKey
}

func newLarge(t *testing.T, rows int) *large {
	t.Helper()
	d := newBench(t)
	s := d.open(t, postgres.Config{Conns: 1})
	l := &large{Store: s, t: t, c: d.connect(t, s.Schema()), rows: rows, key: joined(t, s)}
	return l
}

func (l *large) execute(sql string, args ...any) {
	l.t.Helper()
	_, err := l.c.Exec(l.t.Context(), sql, args...)
	require.NoError(l.t, err, sql)
}

// seedSQL makes $1 waiting executions of pool $2, requested $3 ago, with run_at $4 ahead if that is above 0.
const seedSQL = `WITH i AS MATERIALIZED (SELECT nextval('execution_seq') AS seq, gen_random_uuid() AS id FROM generate_series(1, $1::int)),
 r AS (INSERT INTO request (seq, id, action, version, timeout, stall_timeout, wait_for_worker, idempotent, notify, may_repeat, max_retries,
  retry_count, requested_at, parameters) SELECT seq, id, 'core.noop', '1', '1 minute', '0', false, false, false, false, 0, 0, now() - $3::interval, '{}' FROM i)
INSERT INTO execution (id, seq, rank, timer_at, status, attempt, last_change, priority, pool, run_at)
 SELECT id, seq, CASE WHEN $4::interval > '0' THEN 36 ELSE 4 END, CASE WHEN $4::interval > '0' THEN now() + $4::interval END, 1, 0, 0, 5, $2,
  now() + $4::interval FROM i`

// waiting inserts waiting executions of a pool, and analyzes.
func (l *large) waiting(n int, pool string, ago, ahead time.Duration) {
	l.t.Helper()
	l.execute(seedSQL, n, pool, ago, ahead)
	l.execute("ANALYZE request, execution")
}

// ended inserts executions that have ended, requested ago before now.
func (l *large) ended(n int, ago time.Duration) {
	l.t.Helper()
	l.waiting(n, "ends", ago, 0)
	l.execute("UPDATE execution SET status = 6, rank = NULL, attempt = 1, finished_at = now() - $1::interval WHERE pool = 'ends'", ago)
}

// took bounds one call at the whole size: a statement ends after 5 s. At the reduced size the plans and the rows that
// are read prove the same, on a machine of any speed.
func (l *large) took(what string, call func()) time.Duration {
	l.t.Helper()
	start := time.Now()
	call()
	took := time.Since(start)
	if l.rows >= wholeRows {
		require.Less(l.t, took, 4*time.Second, "%s: a statement ends after 5 s", what)
	}
	return took
}

// plans asserts that no statement of the store reads a whole table.
func (l *large) plans() {
	l.t.Helper()
	var all map[string]string
	require.Eventually(l.t, func() (some bool) { // the store may be using its one connection
		var err error
		all, err = l.Plans(l.t.Context())
		return assert.NoError(l.t, err) && len(all) > 0
	}, 10*time.Second, 10*time.Millisecond)
	for statement, plan := range all {
		require.NotRegexp(l.t, scans, plan, statement)
	}
}

// scales are the costs that must not grow with the rows.
var scales = map[string]func(l *large){
	"retention behind what waits for a far time": retentionBehindTheWaiting,
	"purge of idle sessions":                     purgeOfIdleSessions,
	"bound sessions among idle ones":             boundAmongIdle,
	"due under an old snapshot":                  dueUnderAnOldSnapshot,
	"heads under an old snapshot":                headsUnderAnOldSnapshot,
	"strict_fails under an old snapshot":         failsUnderAnOldSnapshot,
	"timers under an old snapshot":               timersUnderAnOldSnapshot,
	"queries of the quick reference":             quickReference,
	"depths of what waits":                       depthsOfTheWaiting,
	"a removed pool behind others":               aPoolBehindOthers,
	"lists of the console":                       listsOfTheConsole,
	"sessions by prefix":                         sessionsByPrefix,
}

func TestScale(t *testing.T) {
	t.Parallel()
	for name, check := range scales {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(newLarge(t, reducedRows))
		})
	}
}

// TestWholeScale is the same with a million rows: make chaos.
func TestWholeScale(t *testing.T) {
	if !whole {
		t.Skip("a million rows each: make chaos, or TROUPE_CHAOS=whole")
	}
	for name, check := range scales {
		t.Run(name, func(t *testing.T) { check(newLarge(t, wholeRows)) })
	}
}

// lap purges until there is no more, and returns how many rows were deleted and the longest call.
func (l *large) lap(p store.Purge, callsMax int) (rows int, longest time.Duration) {
	l.t.Helper()
	for calls := 1; ; calls++ {
		require.LessOrEqual(l.t, calls, callsMax, "a call passes a stretch, whatever it finds")
		var done store.Purged
		took := l.took("purge", func() {
			var err error
			done, err = l.Purge(l.t.Context(), p)
			require.NoError(l.t, err)
		})
		rows, longest = rows+done.Rows, max(longest, took)
		if !done.More {
			return rows, longest
		}
	}
}

func retentionBehindTheWaiting(l *large) {
	const day = 24 * time.Hour
	l.waiting(l.rows, "go", 30*day, 365*day)
	l.ended(25, 20*day)
	old := store.Purge{FinishedBefore: time.Now().Add(-7 * day), Limit: 1000}
	rows, longest := l.lap(old, l.rows/100_000+2)
	require.Equal(l.t, 25, rows)
	l.t.Logf("a lap over %d that wait: the longest call took %s", l.rows, longest)
	rows, _ = l.lap(old, l.rows/100_000+2)
	require.Zero(l.t, rows)
	l.ended(5, 20*day)
	rows, _ = l.lap(old, l.rows/100_000+2)
	require.Equal(l.t, 5, rows, "the next lap begins anew")
	l.plans()
}

// idle inserts sessions that were not used for a month, with the lanes of their executions, and a few that wait.
func (l *large) idle() {
	l.t.Helper()
	l.execute(`INSERT INTO session (pool, session, epoch, worker_slot, touched_at, started_epoch, finished_epoch)
 SELECT 'go', 's' || n, 1, 0, now() - interval '30 days', 1, 1 FROM generate_series(1, $1::int) n`, l.rows)
	l.execute("INSERT INTO lane (pool, session) SELECT pool, session FROM session")
	l.execute("INSERT INTO lane (pool, session) SELECT 'go', 't' || n FROM generate_series(1, 1000) n")
	l.execute("INSERT INTO session_snapshot (pool, session, epoch, state) SELECT pool, session, 1, '{}' FROM session WHERE session LIKE 's1%'")
	l.execute("ANALYZE session, lane, session_snapshot")
}

func purgeOfIdleSessions(l *large) {
	l.idle()
	e := noop(1)[0]
	e.Session, e.Affinity = "s1", messages.AffinityStrict
	_, err := l.Submit(l.t.Context(), []messages.Execution{e})
	require.NoError(l.t, err)
	_, err = l.SaveDeadLetter(l.t.Context(), store.DeadLetter{Reason: "malformed", Resolution: "quarantined"})
	require.NoError(l.t, err)
	l.execute("UPDATE dead_letter SET at = now() - interval '30 days'")
	before := time.Now().Add(-7 * 24 * time.Hour)
	old := store.Purge{SessionsBefore: before, DeadLettersBefore: before, Limit: 10_000}
	first, err := l.Purge(l.t.Context(), old)
	require.NoError(l.t, err)
	require.True(l.t, first.More)
	require.Equal(l.t, 10_000, first.Rows, "a batch of sessions but the one that an execution waits in, and the dead letter with it")
	rows, longest := l.lap(old, l.rows/10_000+2)
	require.Equal(l.t, l.rows-10_000, rows)
	l.t.Logf("%d idle sessions: the longest call took %s", l.rows, longest)
	require.Equal(l.t, "s1", l.text("SELECT string_agg(session, ' ') FROM session"))
	require.Equal(l.t, "s1", l.text("SELECT string_agg(session, ' ') FROM session_snapshot"))
	l.lap(old, 3) // lanes alone are deleted one stretch in a call
	require.Equal(l.t, "s1", l.text("SELECT string_agg(session, ' ') FROM lane"))
	l.plans()
}

func (l *large) text(sql string) (text string) {
	l.t.Helper()
	require.NoError(l.t, l.c.QueryRow(l.t.Context(), sql).Scan(&text))
	return text
}

func boundAmongIdle(l *large) {
	l.idle()
	l.execute(`UPDATE session SET worker_inc = $1, worker_pool = 'go', worker_slot = 3 WHERE session LIKE 's77%'`, l.key.Incarnation.String())
	l.execute(`UPDATE session SET worker_inc = gen_random_uuid(), worker_pool = 'go', worker_slot = 3 WHERE session LIKE 's88%'`)
	want := l.text("SELECT count(*)::text FROM session WHERE session LIKE 's77%'")
	for _, worker := range []messages.WorkerKey{{}, {Incarnation: l.key.Incarnation, Pool: "go", Slot: 3}} {
		got, q := 0, store.BoundQuery{Pool: "go", Worker: worker, Limit: 500}
		for page := []store.Session{{}}; len(page) > 0; {
			l.took("bound sessions", func() {
				var err error
				page, err = l.BoundSessions(l.t.Context(), q)
				require.NoError(l.t, err)
			})
			if got += len(page); len(page) > 0 {
				q.After = page[len(page)-1]
			}
		}
		require.Equal(l.t, want, fmt.Sprint(got))
	}
	all, err := l.Plans(l.t.Context())
	require.NoError(l.t, err)
	for statement, plan := range all {
		if strings.Contains(statement, "FROM session s WHERE s.worker_inc IS NOT NULL") {
			require.Contains(l.t, plan, "session_bound", statement)
			require.NotContains(l.t, plan, "Filter: (ROW", "the cursor leads the index")
		}
	}
	l.plans()
}

func depthsOfTheWaiting(l *large) {
	l.waiting(l.rows, "go", time.Hour, 0)
	l.waiting(l.rows/2, "far", time.Hour, time.Hour)
	l.waiting(3, "few", time.Hour, 0)
	var depths []store.Depth
	l.t.Logf("%d waiting: depths took %s", l.rows, l.took("depths", func() {
		var err error
		depths, err = l.Depths(l.t.Context())
		require.NoError(l.t, err)
	}))
	require.Len(l.t, depths, 3)
	for i, want := range []struct {
		pool string
		n    int
	}{{"far", l.rows / 2}, {"few", 3}, {"go", l.rows}} {
		d := depths[i]
		require.Equal(l.t, want.pool, d.Pool)
		require.Equal(l.t, min(want.n, store.DepthMax), d.Count)
		require.Equal(l.t, want.n >= store.DepthMax, d.More)
		if d.NotDue == d.Count {
			require.Zero(l.t, d.Oldest)
			continue
		}
		require.WithinDuration(l.t, time.Now().Add(-time.Hour), d.Oldest, 10*time.Minute)
	}
	l.plans()
}

func aPoolBehindOthers(l *large) {
	l.waiting(3, "gone", time.Hour, 0)
	l.waiting(l.rows, "go", time.Hour, 0)
	l.took("list", func() {
		page, err := l.List(l.t.Context(), store.Filter{Pools: []string{"gone"}, Statuses: []messages.Status{messages.Requested}, Limit: 2})
		require.NoError(l.t, err)
		require.Len(l.t, page.Executions, 2)
		page, err = l.List(l.t.Context(), store.Filter{Pools: []string{"gone"}, Statuses: []messages.Status{messages.Requested}, Limit: 2, Before: page.Next})
		require.NoError(l.t, err)
		require.Len(l.t, page.Executions, 1)
		require.Zero(l.t, page.Next)
	})
	l.plans()
}

var (
	sqlBlock = regexp.MustCompile("(?s)```sql\n(.*?)```")
	// wholly matches a plan that reads all executions.
	wholly = regexp.MustCompile(`Seq Scan on (execution|request|outcome|execution_event|submission)\b`)
)

// The queries for operators do not read every execution.
func quickReference(l *large) {
	const day = 24 * time.Hour
	l.ended(l.rows, 6*day)
	l.waiting(100, "go", time.Hour, 0)
	l.execute("INSERT INTO outcome (seq, result) SELECT seq, '{}' FROM execution")
	l.execute("INSERT INTO execution_event (seq, at, attempt, kind, before, after) SELECT seq, now(), 1, 'take_back', 3, 1 FROM execution")
	l.execute("INSERT INTO submission (action, state, settled_at) SELECT 'core.noop', 'accepted', now() FROM execution")
	l.execute("ANALYZE")
	page, err := os.ReadFile("../../docs/quick-reference.md")
	require.NoError(l.t, err)
	blocks := sqlBlock.FindAllStringSubmatch(string(page), -1)
	require.GreaterOrEqual(l.t, len(blocks), 15)
	id := l.text("SELECT id::text FROM execution LIMIT 1")
	for _, b := range blocks {
		rows, err := l.c.Query(l.t.Context(), "EXPLAIN "+strings.ReplaceAll(b[1], ":'id'", "'"+id+"'"), pgx.QueryExecModeSimpleProtocol)
		require.NoError(l.t, err, b[1])
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(l.t, err, b[1])
		assert.NotRegexp(l.t, wholly, strings.Join(plan, "\n"), b[1])
	}
}

// No list of a page for operators reads all executions, whatever it looks for and whether there is any.
func listsOfTheConsole(l *large) {
	l.ended(l.rows, time.Hour)
	l.execute(`UPDATE execution SET status = 7, unusual = 7, error = '{"code":"boom","message":"x"}', session = 's' || seq % 1000, worker_id = 'n/ends/' || seq % 64
 WHERE seq % 20 = 0`)
	l.execute("INSERT INTO execution_label (key, value, seq) SELECT 'team', 'team' || seq % 100, seq FROM execution WHERE seq % 10 = 0")
	l.execute("UPDATE request SET idempotency_key = 'k' || seq % 3, created_by = seq")
	l.execute("ANALYZE")
	failed := []messages.Status{messages.Failed, messages.TimedOut, messages.Abandoned}
	since := time.Now().Add(-2 * time.Hour)
	for name, f := range map[string]store.Filter{
		"all": {}, "oldest": {Oldest: true}, "failed": {Statuses: failed}, "completed": {Statuses: []messages.Status{messages.Completed}},
		"running": {Statuses: []messages.Status{messages.Running, messages.Cancelling}}, "requested": {Statuses: []messages.Status{messages.Requested}},
		"action": {Actions: []string{"core.noop"}}, "no such action": {Actions: []string{"core.none"}}, "pool": {Pools: []string{"ends"}}, "no such pool": {Pools: []string{"none"}},
		"session": {Sessions: []string{"s500"}}, "no such session": {Sessions: []string{"none"}}, "failed of a session": {Sessions: []string{"s500"}, Statuses: failed},
		"worker": {Workers: []string{"n/ends/4"}}, "no such worker": {Workers: []string{"n/ends/none"}}, "failed of a worker": {Workers: []string{"n/ends/4"}, Statuses: failed},
		"label": {Labels: [][2]string{{"team", "team10"}}}, "no such label": {Labels: [][2]string{{"team", "none"}}}, "error": {Errors: []messages.Code{"boom"}}, "no such error": {Errors: []messages.Code{"none"}}, "text": {Texts: []string{"boom"}}, "no such text": {Texts: []string{"nowhere"}},
		"key": {Keys: []string{"order-1"}}, "id": {IDPrefixes: []string{"01a2"}}, "since": {From: since}, "until": {To: since}, "failed within": {Statuses: failed, From: since, To: time.Now()},
		"failed, oldest first": {Statuses: failed, Oldest: true}, "not completed": {Not: store.Exclusion{Statuses: []messages.Status{messages.Completed}}},
		"not that action": {Not: store.Exclusion{Actions: []string{"core.noop"}}},
		"actions":         {Actions: []string{"core.noop", "core.none"}}, "no such actions": {Actions: []string{"core.none", "core.nil"}}, "no such pool of actions": {Actions: []string{"core.noop", "core.none"}, Pools: []string{"none"}},
		"sessions": {Sessions: []string{"s500", "s40", "none"}}, "no such sessions": {Sessions: []string{"none", "nil"}}, "failed of sessions": {Sessions: []string{"s500", "s40"}, Statuses: failed},
		"pools": {Pools: []string{"ends", "none"}}, "no such pools": {Pools: []string{"none", "nil"}}, "workers": {Workers: []string{"n/ends/4", "n/ends/8"}}, "no such workers": {Workers: []string{"n/ends/none", "n/ends/nil"}},
		"keys": {Keys: []string{"order-1", "order-2", "none"}}, "ids": {IDPrefixes: []string{"01a2", "ffff"}}, "no such texts": {Texts: []string{"nowhere", "nothing"}},
		"labels of a name": {Labels: [][2]string{{"team", "team10"}, {"team", "team11"}}}, "not a label": {Not: store.Exclusion{Labels: [][2]string{{"team", "team10"}}}},
		"not a text": {Not: store.Exclusion{Texts: []string{"boom"}}}, "not keys": {Not: store.Exclusion{Keys: []string{"order-1", "order-2"}}},
		"failed but a text": {Statuses: failed, Not: store.Exclusion{Texts: []string{"b"}}}, "not any id": {Not: store.Exclusion{IDPrefixes: []string{"0"}}},
		"not retries": {Not: store.Exclusion{Was: []store.Was{store.WasRetry}}},
		"errors":      {Errors: []messages.Code{"boom", "none"}}, "waiting in pools": {Pools: []string{"ends", "none"}, Statuses: []messages.Status{messages.Requested, messages.Running}},
	} {
		l.took(name, func() {
			page, err := l.List(l.t.Context(), f)
			require.NoError(l.t, err, name)
			require.LessOrEqual(l.t, page.Searched.Walked, store.ListWalk, name)
		})
	}
	all, err := l.Plans(l.t.Context())
	require.NoError(l.t, err)
	keyed, acted := 0, 0
	for statement, plan := range all {
		if strings.Contains(statement, "ORDER BY action") {
			acted++
			require.Contains(l.t, plan, "using request_action on request  (", statement)
		}
		if strings.Contains(statement, "WHERE idempotency_key = ") && strings.Contains(statement, "LEFT JOIN outcome") {
			keyed++
			require.Contains(l.t, plan, "using request_owned_key on request  (", statement)
		}
	}
	require.Equal(l.t, 2, keyed, "by one key, and by three")
	require.Equal(l.t, 3, acted, "by one action, by two, and by two with another filter")
	l.took("a count", func() {
		counted, err := l.CountRequested(l.t.Context(), store.CountQuery{From: since, To: time.Now().Add(time.Minute), Most: store.ListWalk})
		require.NoError(l.t, err)
		require.False(l.t, counted.Until.IsZero())
		n := int64(0)
		for _, m := range counted.Minutes {
			n += m.N
		}
		require.EqualValues(l.t, store.ListWalk, n)
	})
	l.plans()
}

// A search of sessions by the beginning of their names reads no more than it finds, in one pool and in all.
func sessionsByPrefix(l *large) {
	l.execute(`INSERT INTO session (pool, session, epoch, worker_slot) SELECT 'p' || i % 3, 'user-' || i, 1, 0 FROM generate_series(1, $1::int) i`, l.rows)
	l.execute("ANALYZE session")
	begin := func(prefixes ...string) []store.NameRange { return store.NameRanges(prefixes, nil) }
	for name, f := range map[string]store.SessionFilter{
		"of all": {Names: begin("user-7777")}, "of a pool": {Pools: []string{"p1"}, Names: begin("user-77")}, "none": {Names: begin("user-x")}, "most": {Names: begin("u")},
		"most of a pool": {Pools: []string{"p2"}, Names: begin("u")}, "two beginnings": {Names: begin("user-7777", "user-9")}, "all but one pool": {NotPools: []string{"p0"}, Names: begin("user-7777")},
		"all but the most": {Names: store.NameRanges(nil, []string{"user-1", "user-2", "user-3", "user-4", "user-5", "user-6"})},
	} {
		l.took(name, func() {
			page, err := l.ListSessions(l.t.Context(), f, "", 5)
			require.NoError(l.t, err, name)
			require.Equal(l.t, name == "none", len(page) == 0, name)
			if len(page) > 0 {
				last := page[len(page)-1]
				after := last.Pool + "/" + last.Session
				if f.Only() != "" {
					after = last.Session
				}
				_, err = l.ListSessions(l.t.Context(), f, after, 5)
				require.NoError(l.t, err, name)
			}
		})
	}
	l.plans()
}
