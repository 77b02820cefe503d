package postgres_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
	"github.com/troupe-run/troupe/test/servers"
)

// roleOn makes a user without any right for the duration of the test. It returns the user's name and URL of the
// database.
func roleOn(t *testing.T, database string) (name, as string) {
	t.Helper()
	name = "troupe_test_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	require.NoError(t, servers.Execute(database, "CREATE ROLE "+name+" LOGIN"))
	t.Cleanup(func() { require.NoError(t, servers.Execute(database, "DROP OWNED BY "+name+"; DROP ROLE "+name)) })
	u, err := url.Parse(database)
	require.NoError(t, err)
	u.User = url.User(name)
	return name, u.String()
}

// forgetful passes connections on to the database, and leaves out settings of a new connection as a pooler may. It returns its address.
func forgetful(t *testing.T, database string, drops ...string) string {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	server := u.Host
	front, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { front.Close() })
	go func() {
		for {
			client, err := front.Accept()
			if err != nil {
				return
			}
			go forget(client, server, drops)
		}
	}()
	u.Host = front.Addr().String()
	query := u.Query()
	query.Set("sslmode", "disable")
	u.RawQuery = query.Encode()
	return u.String()
}

// forget passes one connection on. Its first message has a length, a version, and names with values that each end with a zero byte.
func forget(client net.Conn, server string, drops []string) {
	defer client.Close()
	head := make([]byte, 8)
	if _, err := io.ReadFull(client, head); err != nil {
		return
	}
	body := make([]byte, binary.BigEndian.Uint32(head)-8)
	if _, err := io.ReadFull(client, body); err != nil {
		return
	}
	words := strings.Split(strings.TrimRight(string(body), "\x00"), "\x00")
	var kept strings.Builder
	for i := 0; i+1 < len(words); i += 2 {
		if !slices.Contains(drops, words[i]) {
			kept.WriteString(words[i] + "\x00" + words[i+1] + "\x00")
		}
	}
	kept.WriteByte(0)
	binary.BigEndian.PutUint32(head, uint32(8+kept.Len()))
	back, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer back.Close()
	if _, err := io.WriteString(back, string(head)+kept.String()); err != nil {
		return
	}
	go func() { _, _ = io.Copy(back, client); _ = back.Close() }()
	_, _ = io.Copy(client, back)
}

// A pooler that leaves out settings is found by the settings that the connection has.
func TestProbeFindsSettingsThatAPoolerDrops(t *testing.T) {
	t.Parallel()
	database := servers.Postgres(t)
	r, err := postgres.Probe(t.Context(), postgres.Config{URL: forgetful(t, database)})
	require.NoError(t, err)
	require.Empty(t, r.Dropped)
	r, err = postgres.Probe(t.Context(), postgres.Config{URL: forgetful(t, database, "statement_timeout", "enable_seqscan")})
	require.NoError(t, err)
	require.Equal(t, []string{"enable_seqscan", "statement_timeout"}, r.Dropped)
}

// Probe reports what a person should know before a node runs: versions, rights, settings, clocks, live nodes and ended
// ones.
func TestProbe(t *testing.T) {
	t.Parallel()
	database, ctx := servers.Postgres(t), t.Context()
	role, as := roleOn(t, database)
	probe := func(url string) postgres.Report {
		r, err := postgres.Probe(ctx, postgres.Config{URL: url})
		require.NoError(t, err)
		return r
	}
	r := probe(database)
	require.NoError(t, r.Unfit)
	require.Equal(t, []any{false, false, 0, true}, []any{r.Standby, r.Pooled, r.Schema, r.MayCreate})
	require.NotZero(t, r.Newest)
	require.Contains(t, r.String(), "Postgres 1")
	require.Less(t, r.Ahead.Abs(), time.Minute)
	require.Positive(t, r.AheadError)
	require.False(t, probe(as).MayCreate)

	s, err := postgres.Open(ctx, postgres.Config{URL: database, Conns: 2})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	gone := messages.NewIncarnation()
	live := messages.NewIncarnation()
	for _, inc := range []messages.Incarnation{gone, live} {
		require.NoError(t, s.Join(ctx, store.Node{Incarnation: inc, Name: "n", Version: "1"}, time.Minute))
	}
	key := messages.WorkerKey{Incarnation: gone, Pool: "p", Slot: 3}
	require.NoError(t, s.SaveWorkers(ctx, []store.Worker{{Key: key, ID: "n/p/3", Active: true}}))
	require.NoError(t, s.SetNode(ctx, gone, store.NodeDead))
	r = probe(database)
	require.Equal(t, r.Newest, r.Schema)
	require.Empty(t, r.Forbidden)
	require.Equal(t, []postgres.WorkerRow{{ID: "n/p/3", Key: key}}, r.Gone)
	require.Len(t, r.Nodes, 1)
	require.Equal(t, live, r.Nodes[0].Incarnation)
	require.True(t, r.Nodes[0].LeaseUntil.After(r.Now))

	require.NoError(t, servers.Execute(database, "ALTER TABLE node DROP COLUMN peer_scope, DROP COLUMN peer_address; DELETE FROM schema_version WHERE version > 2"))
	r = probe(database)
	require.Equal(t, 2, r.Schema)
	require.Len(t, r.Nodes, 1, "an older schema is read too")
	require.Equal(t, live, r.Nodes[0].Incarnation)

	r = probe(as)
	require.Contains(t, r.Forbidden, "execution")
	require.Contains(t, r.Forbidden, "execution_seq")
	for _, grant := range []string{ // as in docs/operations.md
		"GRANT USAGE ON SCHEMA public TO ", "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO ", "GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO ",
	} {
		require.NoError(t, servers.Execute(database, grant+role))
	}
	require.Empty(t, probe(as).Forbidden)
	require.NoError(t, servers.Execute(database, "ALTER ROLE "+role+" SET synchronous_commit = off"))
	require.Equal(t, "off", probe(as).Settings["synchronous_commit"])
	require.Equal(t, "on", probe(database).Settings["fsync"])

	require.NoError(t, servers.Execute(database, "INSERT INTO schema_version (version, name) VALUES (4711, '04711_later')"))
	require.Equal(t, 4711, probe(database).Schema)
	steps, err := postgres.Status(ctx, postgres.Config{URL: database})
	require.NoError(t, err)
	require.Contains(t, steps, postgres.Migration{Version: 4711, Name: "04711_later", Applied: true, Newer: true})
}

// An inbox client needs only the rights in its documentation, and works on connections of any mode.
func TestInboxClient(t *testing.T) {
	t.Parallel()
	database, ctx := servers.Postgres(t), t.Context()
	_, err := postgres.OpenInboxClient(ctx, postgres.Config{URL: database})
	require.ErrorIs(t, err, store.ErrNotFound)
	s, err := postgres.Open(ctx, postgres.Config{URL: database, Conns: 2})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	require.NoError(t, s.SaveActions(ctx, []messages.Action{{Ref: "a.b", Version: "1", Pool: "go", Parameters: json.RawMessage(`{"type":"object"}`)}}))
	role, as := roleOn(t, database)
	require.NoError(t, servers.Execute(database, "GRANT SELECT ON action, request, execution, outcome, submission TO "+role))
	require.NoError(t, servers.Execute(database, "GRANT INSERT ON submission TO "+role))
	g, err := postgres.OpenInboxClient(ctx, postgres.Config{URL: as, Conns: 2})
	require.NoError(t, err)
	defer g.Close()
	a, err := g.Action(ctx, "a.b")
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"object"}`, string(a.Parameters))
	_, err = g.Action(ctx, "a.c")
	require.ErrorIs(t, err, store.ErrNotFound)
	for _, mode := range []string{"cache_statement", "exec", "simple_protocol"} {
		c, err := pgx.Connect(ctx, as+fmt.Sprintf("&default_query_exec_mode=%s", mode))
		require.NoError(t, err)
		tx, err := c.Begin(ctx)
		require.NoError(t, err)
		p, n := messages.Priority(7), 2
		sub := store.Submission{
			ID: messages.NewExecutionID(), Action: "a.b", Parameters: json.RawMessage(`{"n": 1}`), Session: `\x00`, Priority: &p,
			RunAt: time.Now().UTC().Truncate(time.Microsecond), IdempotencyKey: mode, Timeout: 90 * time.Second, MaxRetries: &n,
			Labels: map[string]string{"k": "v"}, CreatedBy: "me",
		}
		require.NoError(t, g.Put(ctx, tx, &sub), mode)
		claim, err := g.Holder(ctx, tx, &sub)
		require.NoError(t, err)
		require.Equal(t, postgres.KeyHolder{ID: sub.ID, Same: true}, claim, mode)
		require.NoError(t, tx.Commit(ctx))
		e, refused, err := g.Look(ctx, sub.ID)
		require.NoError(t, err)
		require.Empty(t, refused)
		require.Equal(t, messages.Requested, e.Status)
		taken, err := s.TakeSubmissions(ctx, time.Minute, 10)
		require.NoError(t, err)
		require.Len(t, taken, 1)
		sub.At = taken[0].At
		require.Equal(t, sub, taken[0], mode)
		tx, err = c.Begin(ctx)
		require.NoError(t, err)
		_, err = s.SubmitTx(ctx, tx, noop(1))
		if mode != "cache_statement" {
			require.ErrorIs(t, err, store.ErrInvalid, "its results would come as text")
		}
		require.NoError(t, tx.Rollback(ctx))
		require.NoError(t, c.Close(ctx))
	}
	require.ErrorIs(t, g.Put(ctx, nil, &store.Submission{ID: messages.NewExecutionID(), Action: "a.b", Parameters: json.RawMessage(`{"a":"\u0000"}`)}), store.ErrInvalid)
}
