package postgres_test

import (
	"encoding/json"
	"strconv"
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

// tellerOf is a store whose outbox this test tells.
type tellerOf struct {
	*postgres.Store
	t    *testing.T
	hold store.NoticesHold
}

func newTellerOf(t *testing.T, s *postgres.Store) *tellerOf {
	t.Helper()
	o := &tellerOf{Store: s, t: t}
	o.take()
	return o
}

func (o *tellerOf) take() {
	o.t.Helper()
	hold, err := o.HoldNotices(o.t.Context(), messages.NewIncarnation(), time.Microsecond)
	require.NoError(o.t, err)
	require.Positive(o.t, hold.Epoch)
	o.hold = hold
}

// tell tells all notices.
func (o *tellerOf) tell() (ids []messages.ExecutionID) {
	o.t.Helper()
	for {
		page, err := o.ReadNotices(o.t.Context(), o.hold.Cursor, 1000, nil)
		require.NoError(o.t, err)
		for i := range page.Notices {
			ids = append(ids, page.Notices[i].Execution.ID)
		}
		o.hold.Cursor = page.Next
		require.NoError(o.t, o.NoticesTold(o.t.Context(), o.hold.Epoch, time.Microsecond, store.ToldNotices{Cursor: page.Next, Rows: page.Rows}))
		if !page.More {
			return ids
		}
	}
}

// ended submits executions and ends them.
func (o *tellerOf) ended(n int, notify bool) (ids []messages.ExecutionID) {
	o.t.Helper()
	all := noop(n)
	var changes []store.Change
	for i := range all {
		all[i].Notify = notify
		ids = append(ids, all[i].ID)
		changes = append(changes, &store.End{ID: all[i].ID, Outcome: messages.Outcome{Status: messages.Failed, Error: &messages.Error{Code: "x", Message: "m"}}})
	}
	_, err := o.Submit(o.t.Context(), all)
	require.NoError(o.t, err)
	results, err := o.Apply(o.t.Context(), changes)
	require.NoError(o.t, err)
	for _, r := range results {
		require.Equal(o.t, store.Applied, r.Verdict)
	}
	return ids
}

// late begins a transaction that puts a notice into the outbox, and returns it with its number.
func (o *tellerOf) late(c *pgx.Conn, id messages.ExecutionID) (pgx.Tx, string) {
	o.t.Helper()
	tx, err := c.Begin(o.t.Context())
	require.NoError(o.t, err)
	var xid string
	require.NoError(o.t, tx.QueryRow(o.t.Context(), "INSERT INTO outbox (ids) VALUES ($1) RETURNING xid::text", []string{id.String()}).Scan(&xid))
	return tx, xid
}

// The notice of a transaction that took its number early and commits late is told late, and no other notice waits for
// it.
func TestANoticeThatCommitsLateIsTold(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	o := newTellerOf(t, d.open(t, postgres.Config{}))
	quiet := o.ended(3, false)
	slow, slowXID := o.late(d.connect(t, o.Schema()), quiet[0])
	slower, _ := o.late(d.connect(t, o.Schema()), quiet[1])
	undone, _ := o.late(d.connect(t, o.Schema()), quiet[2])
	first := o.ended(5, true)
	require.ElementsMatch(t, first, o.tell(), "what came after it is told at once")
	c := d.connect(t, o.Schema())
	var behind bool
	require.NoError(t, c.QueryRow(t.Context(), "SELECT pg_snapshot_xmax(told) > $1::text::xid8 FROM outbox_teller", slowXID).Scan(&behind))
	require.True(t, behind, "the cursor has passed its number")
	o.take() // the position survives the teller
	require.NoError(t, slow.Commit(t.Context()))
	second := o.ended(1, true)
	require.Equal(t, []messages.ExecutionID{quiet[0], second[0]}, o.tell(), "it is told when it commits")
	require.NoError(t, undone.Rollback(t.Context()))
	require.Empty(t, o.tell())
	require.NoError(t, slower.Commit(t.Context()))
	require.Equal(t, quiet[1:2], o.tell())
	pending, err := o.PendingNotices(t.Context())
	require.NoError(t, err)
	require.Zero(t, pending.Count)
}

// A transaction of another program, in any database of the server, holds back the oldest number that may still commit,
// and vacuum with it. No notice waits for it, and no read meets the rows that were deleted meanwhile.
func TestALongTransactionOfAnotherProgramDelaysNoNotice(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	o := newTellerOf(t, d.open(t, postgres.Config{}))
	c := d.connect(t, o.Schema())
	for _, url := range []string{servers.Postgres(t), d.url} { // another database, and this one
		foreign, err := pgx.Connect(t.Context(), url)
		require.NoError(t, err)
		defer foreign.Close(t.Context())
		tx, err := foreign.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		require.NoError(t, err)
		var xid string
		require.NoError(t, tx.QueryRow(t.Context(), "SELECT pg_current_xact_id()::text").Scan(&xid))
		var held bool
		require.NoError(t, c.QueryRow(t.Context(), "SELECT pg_snapshot_xmin(pg_current_snapshot()) <= $1::text::xid8", xid).Scan(&held))
		require.True(t, held)
		require.ElementsMatch(t, o.ended(3, true), o.tell())
	}
	quiet := o.ended(1, false)[0]
	for range 20 { // two thousand rows that vacuum does not remove
		_, err := c.Exec(t.Context(), "INSERT INTO outbox (ids) SELECT ARRAY[$1::uuid] FROM generate_series(1, 100)", quiet.String())
		require.NoError(t, err)
		require.Len(t, o.tell(), 100)
	}
	_, err := c.Exec(t.Context(), "VACUUM outbox")
	require.NoError(t, err)
	want := o.ended(1, true)
	pages, open := o.buffers(c)
	require.Less(t, pages, 20+3*open, "it reads from the cursor on, and looks for each of the %d open transactions", open)
	require.Equal(t, want, o.tell())
}

// buffers returns how many pages the next read looks at, and how many transactions are open in the cursor: those of all
// databases of the server, so also of other tests.
func (o *tellerOf) buffers(c *pgx.Conn) (pages, open int) {
	o.t.Helper()
	told := strings.Split(strings.Split(string(o.hold.Cursor), "|")[0], ":")
	_, err := c.Exec(o.t.Context(), "SET enable_seqscan = off; SET enable_bitmapscan = off; SET plan_cache_mode = force_generic_plan", pgx.QueryExecModeSimpleProtocol)
	require.NoError(o.t, err)
	statement := postgres.ReadOutboxSQL
	for i, value := range []string{"NULL", "'{" + told[2] + "}'", "'" + told[1] + "'", "'0'", "0", "2000"} {
		statement = strings.ReplaceAll(statement, "$"+strconv.Itoa(i+1), value)
	}
	rows, err := c.Query(o.t.Context(), "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) "+statement)
	require.NoError(o.t, err)
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(o.t, err)
	for _, line := range plan {
		if _, rest, ok := strings.Cut(line, "Buffers: shared hit="); ok {
			pages, err = strconv.Atoi(strings.Fields(rest)[0])
			require.NoError(o.t, err)
			if told[2] != "" {
				open = len(strings.Split(told[2], ","))
			}
			return pages, open
		}
	}
	require.FailNow(o.t, "no buffers", strings.Join(plan, "\n"))
	return 0, 0
}

// Of the outcomes that have one route, only the first of a page is read where no queue gets it, however they were written.
func TestNoticesThatNobodyHearsAreNotRead(t *testing.T) {
	t.Parallel()
	const n = 50
	h := newHeap(t)
	o := newTellerOf(t, h.Store)
	for name, result := range map[string]string{"short": `1`, "long": `"` + strings.Repeat("x", 5000) + `"`} {
		all := noop(n)
		for i := range all {
			all[i].Notify = true
		}
		_, err := h.Submit(t.Context(), all)
		require.NoError(t, err)
		h.heapOnly(h.places(all))
		h.heapOnly(h.claims(all))
		h.heapOnly(h.finishes(all, messages.Outcome{Status: messages.Completed, Result: json.RawMessage(result)}))
		route := store.NoticeRoute{Status: messages.Completed, Action: all[0].Action}
		page, err := o.ReadNotices(t.Context(), o.hold.Cursor, 1000, store.NoticeRoutes{route: {}})
		require.NoError(t, err)
		require.Len(t, page.Notices, 1, name)
		require.Equal(t, map[store.NoticeRoute]int{route: n - 1}, page.Unread, name)
		require.Len(t, o.tell(), n, "all are read where one is heard")
	}
}

// Older nodes insert into their own table, before the migration and after it. All of its notices are told, and the
// bridge of an older node finds none.
func TestNoticesOfOlderNodesAreTold(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	cfg := postgres.Config{URL: d.url, Schema: "old", Conns: 4}
	require.NoError(t, postgres.MigrateTo(t.Context(), cfg, 5))
	c := d.connect(t, "old")
	insert := func(id messages.ExecutionID) {
		_, err := c.Exec(t.Context(), `WITH e (id, at, notify) AS (VALUES ($1::uuid, now() - interval '1 hour', true)) INSERT INTO notice (id, at) SELECT id, at FROM e WHERE notify`, id.String())
		require.NoError(t, err)
	}
	var ids []messages.ExecutionID
	for range 250 {
		ids = append(ids, messages.NewExecutionID())
		insert(ids[len(ids)-1])
	}
	o := newTellerOf(t, d.open(t, cfg))
	pending, err := o.PendingNotices(t.Context())
	require.NoError(t, err)
	require.Equal(t, 250, pending.Count)
	require.GreaterOrEqual(t, pending.Age, time.Hour, "each is as old as it was")
	page, err := o.ReadNotices(t.Context(), o.hold.Cursor, 1000, nil)
	require.NoError(t, err)
	require.Equal(t, 250, page.Gone, "they belong to no execution here")
	o.tell()
	ended := o.ended(1, false)
	insert(ended[0])
	require.Equal(t, ended, o.tell())
	tag, err := c.Exec(t.Context(), `UPDATE notice SET held_until = now() + interval '1 minute' WHERE n IN (SELECT n FROM notice WHERE held_until <= now() ORDER BY n LIMIT 100 FOR UPDATE SKIP LOCKED)`)
	require.NoError(t, err)
	require.Zero(t, tag.RowsAffected())
}

// If another user than the nodes' migrates, older nodes continue before they have any right to the new tables.
func TestNoticesOfOlderNodesNeedNoNewRight(t *testing.T) {
	t.Parallel()
	database := servers.Postgres(t)
	require.NoError(t, postgres.Migrate(t.Context(), postgres.Config{URL: database}))
	role, as := roleOn(t, database)
	require.NoError(t, servers.Execute(database, "GRANT USAGE ON SCHEMA public TO "+role+"; GRANT INSERT ON notice TO "+role+"; GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO "+role))
	require.Error(t, servers.Execute(as, "INSERT INTO outbox (ids) VALUES ('{}')"))
	require.NoError(t, servers.Execute(as, "INSERT INTO notice (id, at) VALUES (gen_random_uuid(), now())"))
	rows, err := servers.Query(database, "SELECT count(*) FROM outbox")
	require.NoError(t, err)
	require.Equal(t, "1", rows[0][0])
}

// A database that was restored into another server has numbers above that server's transactions. The outbox is then
// told from the start.
func TestNoticesOfARestoredDatabaseAreTold(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	o := newTellerOf(t, d.open(t, postgres.Config{}))
	first := o.ended(2, true)
	o.tell()
	second := o.ended(2, true)
	c := d.connect(t, o.Schema())
	_, err := c.Exec(t.Context(), `UPDATE outbox_teller SET told = '4000000000:4000000000:'; UPDATE outbox SET xid = '4000000007'`, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	o.hold.Cursor = "4000000000:4000000000:||0|0|0"
	_, err = o.ReadNotices(t.Context(), o.hold.Cursor, 10, nil)
	require.ErrorIs(t, err, store.ErrNoticesLost, "a teller that runs on notices it")
	o.take()
	told := o.tell()
	require.ElementsMatch(t, second, told)
	require.NotContains(t, told, first[0])
	third := o.ended(1, true)
	require.Equal(t, third, o.tell())
}
