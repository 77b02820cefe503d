package pgtx_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/rabbitmq"
	"github.com/troupe-run/troupe/embedded"
	"github.com/troupe-run/troupe/pgtx"
	"github.com/troupe-run/troupe/test/servers"
)

// greet is a handler.
func greet(_ context.Context, t *troupe.Task) (any, error) {
	var p struct {
		Name string `json:"name"`
	}
	if err := t.Bind(&p); err != nil {
		return nil, err
	}
	return map[string]string{"greeting": "hello, " + p.Name}, nil
}

// signUp stores a customer and submits a mail to it, both or neither.
func signUp(ctx context.Context, db *pgx.Conn, t *embedded.Node, name string) (troupe.ExecutionID, error) {
	tx, err := db.Begin(ctx)
	if err != nil {
		return troupe.ExecutionID{}, err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, "INSERT INTO customer (name) VALUES ($1)", name); err != nil {
		return troupe.ExecutionID{}, err
	}
	e, err := t.SubmitTx(ctx, tx, troupe.Submission{Action: "demo.greet", Parameters: map[string]string{"name": name}})
	if err != nil {
		return troupe.ExecutionID{}, err
	}
	return e.ID, tx.Commit(ctx) // now it runs
}

// A program without a node submits in a transaction of its own.
func ExampleClient_SubmitTx() {
	ctx := context.Background()
	const database = "postgres://shop@db/shop"
	c, err := pgtx.Open(ctx, pgtx.Config{Store: database, CreatedBy: "shop"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	db, err := pgx.Connect(ctx, database)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close(ctx)
	var id troupe.ExecutionID
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO customer (name) VALUES ('Ada')"); err != nil {
			return err
		}
		id, err = c.SubmitTx(ctx, tx, troupe.Submission{Action: "demo.greet", Parameters: map[string]string{"name": "Ada"}})
		return err
	})
	if err == nil {
		e, err := c.Wait(ctx, id)
		fmt.Println(e.Status, string(e.Result), err)
	}
}

// house is a node in full mode, with a program's own connection to its database.
type house struct {
	node     *embedded.Node
	db       *pgx.Conn
	database string
}

func newHouse(t *testing.T) *house {
	t.Helper()
	ctx := t.Context()
	h := &house{database: servers.Postgres(t)}
	url, prefix := servers.RabbitMQ(t)
	schema := json.RawMessage(`{"type":"object","required":["name"],"properties":{"name":{"type":"string"}}}`)
	var err error
	h.node, err = embedded.New(embedded.Config{Data: t.TempDir(), Store: h.database, Broker: url, Prefix: prefix, Workers: 2,
		PeersListen: "off", ShutdownTimeout: time.Second}, troupe.Action{Name: "demo.greet", Handler: act, Parameters: schema})
	require.NoError(t, err)
	require.NoError(t, h.node.Start(ctx))
	h.db, err = pgx.Connect(ctx, h.database)
	require.NoError(t, err)
	_, err = h.db.Exec(ctx, "CREATE TABLE customer (name text PRIMARY KEY)")
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(ctx)
		require.NoError(t, h.db.Close(ctx))
		require.NoError(t, h.node.Stop(ctx))
		b, err := rabbitmq.Open(ctx, rabbitmq.Config{URL: url, WaitAtOpen: true})
		require.NoError(t, err)
		settings := broker.Settings{Prefix: prefix}
		require.NoError(t, b.Delete(ctx, settings.DeadLetterQueue()))
		require.NoError(t, b.Delete(ctx, settings.RequestsQueue()))
		require.NoError(t, b.Close())
	})
	return h
}

// count reads one number.
func (h *house) count(t *testing.T, sql string) (n int) {
	t.Helper()
	require.NoError(t, h.db.QueryRow(t.Context(), sql).Scan(&n))
	return n
}

// code returns the code of a refusal.
func code(t *testing.T, err error) string {
	t.Helper()
	var p *troupe.Problem
	require.True(t, errors.As(err, &p), "%v", err)
	return string(p.Code)
}

// quick bounds the time until a submission in a transaction is taken, which must be below the poll of one second. It is
// for the median of several, because the machine is shared.
const quick = 500 * time.Millisecond

// soon reports whether most of the times are quick.
func soon(took []time.Duration) bool {
	late := 0
	for _, d := range took {
		if d > quick {
			late++
		}
	}
	return late <= len(took)/2
}

func TestSubmitInATransaction(t *testing.T) {
	t.Parallel()
	h, ctx := newHouse(t), t.Context()
	client, err := pgtx.Open(ctx, pgtx.Config{Store: h.database, CreatedBy: "shop"})
	require.NoError(t, err)
	defer client.Close()
	hello := func(name string) troupe.Submission {
		return troupe.Submission{Action: "demo.greet", Parameters: map[string]string{"name": name}}
	}
	for name, submit := range map[string]func(pgx.Tx, troupe.Submission) (troupe.ExecutionID, error){
		"node": func(tx pgx.Tx, s troupe.Submission) (troupe.ExecutionID, error) {
			e, err := h.node.SubmitTx(ctx, tx, s)
			return e.ID, err
		},
		"client": func(tx pgx.Tx, s troupe.Submission) (troupe.ExecutionID, error) { return client.SubmitTx(ctx, tx, s) },
	} {
		begin := func() pgx.Tx {
			tx, err := h.db.Begin(ctx)
			require.NoError(t, err)
			return tx
		}
		tx := begin()
		id, err := submit(tx, hello(name))
		require.NoError(t, err)
		_, err = client.Get(ctx, id)
		require.Equal(t, "not_found", code(t, err), "%s: not before the commit", name)
		require.NoError(t, tx.Rollback(ctx))
		_, err = client.Get(ctx, id)
		require.Equal(t, "not_found", code(t, err), "%s: nothing is left of a rollback", name)

		var took []time.Duration
		for range 5 {
			tx := begin()
			id, err := submit(tx, hello(name))
			require.NoError(t, err)
			require.NoError(t, tx.Commit(ctx))
			committed := time.Now()
			var e troupe.Execution
			for e.Status != troupe.Completed {
				e, err = client.Get(ctx, id)
				require.NoError(t, err)
				require.Less(t, time.Since(committed), 20*time.Second, "%s: it never ran", name)
			}
			took = append(took, time.Since(committed))
			require.JSONEq(t, `{"greeting":"hello, `+name+`"}`, string(e.Result))
		}
		require.True(t, soon(took), "%s: it waited for the regular look: %v", name, took)

		tx = begin() // a refusal does not end the transaction
		for want, s := range map[string]troupe.Submission{
			"action_not_found":   {Action: "demo.nothing"},
			"invalid_parameters": {Action: "demo.greet", Parameters: map[string]int{"name": 7}},
			"invalid_request":    {Action: "demo.greet", Trace: "00-x"},
		} {
			_, err := submit(tx, s)
			require.Equal(t, want, code(t, err), name)
		}
		keyed := hello(name)
		keyed.IdempotencyKey, keyed.Timeout, keyed.Labels = "key of "+name, 90*time.Second, map[string]string{"a": `\x41`}
		keyed.RunAt = time.Now().Add(time.Nanosecond)
		keyed.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 a=1"
		first, err := submit(tx, keyed)
		require.NoError(t, err)
		again, err := submit(tx, keyed)
		require.NoError(t, err)
		require.Equal(t, first, again)
		require.NoError(t, tx.Commit(ctx))
		e, err := client.Wait(ctx, first)
		require.NoError(t, err)
		require.Equal(t, troupe.Completed, e.Status)
		require.Equal(t, keyed.Labels, e.Labels)
		require.Equal(t, keyed.Trace, e.Trace)
		require.Equal(t, 90*time.Second, e.Timeout)
		tx = begin()
		again, err = submit(tx, keyed)
		require.NoError(t, err)
		require.Equal(t, first, again, "%s: stored and done", name)
		other := hello("somebody else")
		other.IdempotencyKey = keyed.IdempotencyKey
		_, err = submit(tx, other)
		require.Equal(t, "idempotency_conflict", code(t, err), name)
		require.NoError(t, tx.Commit(ctx))
	}
	accepted := "SELECT count(*) FROM submission WHERE state = 'accepted' AND created_by = 'shop'"
	require.Eventually(t, func() bool { return h.count(t, accepted) == 6 }, 20*time.Second, 10*time.Millisecond, "an execution can end before its row says so")

	id, err := signUp(ctx, h.db, h.node, "Ada")
	require.NoError(t, err)
	e, err := h.node.Wait(ctx, id)
	require.NoError(t, err)
	require.Equal(t, troupe.Completed, e.Status)
	_, err = signUp(ctx, h.db, h.node, "Ada")
	require.ErrorContains(t, err, "customer_pkey")
	require.Equal(t, 1, h.count(t, "SELECT count(*) FROM executions WHERE parameters = '{\"name\":\"Ada\"}'"), "neither customer nor letter")
}

// A client submits outside a transaction. It is told if nodes refuse the submission later for a reason that it could
// not know.
func TestClient(t *testing.T) {
	t.Parallel()
	h, ctx := newHouse(t), t.Context()
	client, err := pgtx.Open(ctx, pgtx.Config{Store: h.database})
	require.NoError(t, err)
	defer client.Close()
	id, err := client.Submit(ctx, troupe.Submission{Action: "demo.greet", Parameters: map[string]string{"name": "x"}})
	require.NoError(t, err)
	e, err := client.Wait(ctx, id)
	require.NoError(t, err)
	require.Equal(t, troupe.Completed, e.Status)
	require.Equal(t, "sql", e.CreatedBy)

	_, err = client.Submit(ctx, troupe.Submission{Action: "demo.greet", Parameters: map[string]string{"name": "a\x00b"}})
	require.Equal(t, "invalid_request", code(t, err), "the inbox holds no NUL")
	_, err = h.db.Exec(ctx, `INSERT INTO action (ref, version, pool, definition, saved_at) VALUES ('old.thing', '1', 'go', '{"ref":"old.thing"}', now())`)
	require.NoError(t, err)
	id, err = client.Submit(ctx, troupe.Submission{Action: "old.thing"})
	require.NoError(t, err)
	_, err = client.Wait(ctx, id)
	require.Equal(t, "refused", code(t, err))
	require.ErrorContains(t, err, "old.thing")

	e, err = client.Call(ctx, troupe.Submission{Action: "demo.greet", Parameters: map[string]string{"name": "x"}, Session: "s", Affinity: troupe.Hint})
	require.NoError(t, err)
	require.Equal(t, []any{troupe.Completed, "s", troupe.Hint}, []any{e.Status, e.Session, e.Affinity})
	_, err = client.Submit(ctx, troupe.Submission{Action: "demo.greet", Affinity: troupe.Strict})
	require.Equal(t, "invalid_request", code(t, err), "an affinity without a session")
	e, err = h.node.Call(ctx, troupe.Submission{Action: "demo.greet", Parameters: map[string]string{"name": "x"}, Session: "s", Affinity: troupe.StrictFail})
	require.NoError(t, err)
	require.Equal(t, []any{troupe.Completed, troupe.StrictFail}, []any{e.Status, e.Affinity})
	s, err := h.node.Session(ctx, "go", "s")
	require.NoError(t, err)
	require.False(t, s.Worker.IsZero())
	s, err = h.node.EndSession(ctx, "go", "s")
	require.NoError(t, err)
	require.True(t, s.Worker.IsZero())
	_, err = h.node.EndSession(ctx, "go", "nobody")
	require.Equal(t, "not_found", code(t, err))

	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	later := troupe.Submission{Action: "demo.greet", Parameters: map[string]string{"name": "x"}, RunAt: time.Now().Add(time.Hour)}
	id, err = client.Submit(ctx, later)
	require.NoError(t, err)
	e, err = client.Wait(short, id)
	require.NoError(t, err)
	require.Equal(t, troupe.Requested, e.Status, "as it stands when the caller's time is up")

	_, err = pgtx.Open(ctx, pgtx.Config{Store: servers.Postgres(t)})
	require.ErrorContains(t, err, "troupe migrate")
}
