package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	at := func(change func(u *url.URL)) postgres.Config {
		u, err := url.Parse(d.url)
		require.NoError(t, err)
		change(u)
		return postgres.Config{URL: u.String()}
	}
	admin := d.connect(t, "public")
	_, err := admin.Exec(t.Context(), "CREATE DATABASE "+ascii(d)+" ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
	require.NoError(t, err)
	d.later(t, "DROP DATABASE "+ascii(d)+" WITH (FORCE)")
	for name, c := range map[string]struct {
		cfg  postgres.Config
		says []string
		is   error
	}{
		"no url":       {postgres.Config{}, []string{"url is empty"}, nil},
		"bad url":      {postgres.Config{URL: "postgres://u:secret@host:port/x"}, []string{"store url"}, nil},
		"bad words":    {postgres.Config{URL: "host=h password = 'secret' port=x"}, []string{"store url"}, nil},
		"no database":  {at(func(u *url.URL) { u.Path = "/troupe_none" }), []string{"troupe_none", "does not exist", "create it"}, nil},
		"no server":    {at(func(u *url.URL) { u.Host = "127.0.0.1:1" }), []string{"127.0.0.1:1"}, store.ErrUnavailable},
		"encoding":     {at(func(u *url.URL) { u.Path = "/" + ascii(d) }), []string{"SQL_ASCII", "UTF8"}, nil},
		"no such user": {at(func(u *url.URL) { u.User = url.User("troupe_nobody") }), []string{"troupe_nobody", "user"}, nil},
	} {
		_, err := postgres.Open(t.Context(), c.cfg)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "secret")
		for _, text := range c.says {
			require.ErrorContains(t, err, text, name)
		}
		require.Equal(t, c.is != nil, errors.Is(err, store.ErrUnavailable), "%s: what waiting does not heal ends a start: %v", name, err)
		if c.is != nil {
			require.ErrorIs(t, err, c.is, name)
		}
	}
}

// ascii returns a database of another encoding beside the test's own.
func ascii(d *bench) string {
	u, err := url.Parse(d.url)
	if err != nil {
		return "troupe_ascii"
	}
	return u.Path[1:] + "_a"
}

// later runs a statement after the test.
func (d *bench) later(t *testing.T, statement string) {
	t.Cleanup(func() {
		ctx := context.Background()
		c, err := pgx.Connect(ctx, d.url)
		require.NoError(t, err)
		defer c.Close(ctx)
		_, err = c.Exec(ctx, statement)
		require.NoError(t, err)
	})
}

// TestPermission opens the store as a user without rights on the schema.
func TestPermission(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	c := d.connect(t, "public")
	role := ascii(d) + "_r"
	_, err := c.Exec(t.Context(), "CREATE ROLE "+role+" LOGIN; REVOKE ALL ON SCHEMA public FROM public", pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	d.later(t, "DROP ROLE "+role)
	u, err := url.Parse(d.url)
	require.NoError(t, err)
	u.User = url.User(role)
	_, err = postgres.Open(t.Context(), postgres.Config{URL: u.String()})
	require.ErrorContains(t, err, role)
	require.ErrorContains(t, err, "grant")
}

// TestInsertSubmits checks that an INSERT of two columns by another program is enough, and that its row shows the
// result.
func TestInsertSubmits(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	s := d.open(t, postgres.Config{})
	c := d.connect(t, s.Schema())
	var id string
	require.NoError(t, c.QueryRow(t.Context(), `INSERT INTO submission (action, parameters) VALUES ('a.b', '{"n": 1}') RETURNING id::text`).Scan(&id))
	got, err := s.TakeSubmissions(t.Context(), time.Hour, 10)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, id, got[0].ID.String())
	require.NoError(t, s.SettleSubmissions(t.Context(), []store.Settlement{{ID: got[0].ID, Refused: "no such action"}}))
	var state, refused string
	require.NoError(t, c.QueryRow(t.Context(), "SELECT state, refused FROM submission").Scan(&state, &refused))
	require.Equal(t, "refused", state)
	require.Equal(t, "no such action", refused)
}

func TestSubmitTx(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	s := d.open(t, postgres.Config{})
	c := d.connect(t, "public") // the caller's own connection does not know the schema
	_, err := c.Exec(t.Context(), "CREATE TABLE theirs (n int)")
	require.NoError(t, err)
	first, second := noop(60), noop(2)
	second[1].Session, second[1].Affinity, second[1].Labels = "s", messages.AffinityStrict, map[string]string{"a": "b"}
	second[0].Webhook = &messages.Webhook{URL: "https://hooks.example/"}
	for _, commit := range []bool{false, true} {
		tx, err := c.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "INSERT INTO theirs VALUES (1)")
		require.NoError(t, err)
		for _, e := range [][]messages.Execution{first, second, first[:1]} {
			out, err := s.SubmitTx(t.Context(), tx, e)
			require.NoError(t, err)
			require.Len(t, out, len(e))
		}
		_, err = s.Get(t.Context(), first[0].ID)
		require.ErrorIs(t, err, store.ErrNotFound, "not before the commit")
		if commit {
			require.NoError(t, tx.Commit(t.Context()))
		} else {
			require.NoError(t, tx.Rollback(t.Context()))
			_, err = s.Get(t.Context(), first[0].ID)
			require.ErrorIs(t, err, store.ErrNotFound)
		}
	}
	page, err := s.Due(t.Context(), store.DueQuery{Pool: "go", Limit: 100, Heads: 10})
	require.NoError(t, err)
	require.Len(t, page.Candidates, 62)
	listed, err := s.List(t.Context(), store.Filter{Labels: [][2]string{{"a", "b"}}})
	require.NoError(t, err)
	require.Len(t, listed.Executions, 1)
	hook, err := s.Webhook(t.Context(), second[0].ID)
	require.NoError(t, err)
	require.Equal(t, messages.WebhookWaiting, hook.State)
	results, err := s.Apply(t.Context(), []store.Change{&store.Cancel{ID: second[0].ID, By: "test"}})
	require.NoError(t, err)
	require.Equal(t, store.Applied, results[0].Verdict)
	hook, err = s.Webhook(t.Context(), second[0].ID)
	require.NoError(t, err)
	require.Equal(t, messages.WebhookDue, hook.State)
}

// TestGroupedCalls checks that callers share transactions, and that the conflict of one caller does not affect others.
func TestGroupedCalls(t *testing.T) {
	t.Parallel()
	s := newBench(t).open(t, postgres.Config{})
	taken := noop(1)
	_, err := s.Submit(t.Context(), taken)
	require.NoError(t, err)
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			e := noop(1)
			if i%8 == 0 {
				e[0].ID, e[0].Action = taken[0].ID, "another.request"
			}
			_, err := s.Submit(t.Context(), e)
			if i%8 == 0 && !errors.Is(err, store.ErrConflict) || i%8 != 0 && err != nil {
				t.Errorf("caller %d: %v", i, err)
			}
		})
	}
	group.Wait()
}

// TestConnectionsTerminated ends every connection again and again while callers work. Every failed call says that it
// may be repeated, and repeating gives each execution exactly one outcome.
func TestConnectionsTerminated(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	s := d.open(t, postgres.Config{EventsAll: true})
	key := joined(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // only what hangs takes as long
	defer cancel()
	// again repeats a call with an unknown outcome. Each success is the signal for the next kill, so callers make progress
	// between two kills on a machine of any speed.
	progress := make(chan struct{}, 1)
	again := func(f func() error) {
		for {
			err := f()
			if err == nil {
				select {
				case progress <- struct{}{}:
				default:
				}
				return
			}
			if ctx.Err() != nil {
				t.Errorf("no success: %v", err)
				return
			}
			if !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("want an error that may be repeated, got %v", err)
				return
			}
		}
	}
	killer := d.connect(t, "public")
	done := make(chan struct{})
	kills := 0
	var killing, work sync.WaitGroup
	killing.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-progress:
			}
			var n int
			if err := killer.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE 'troupe%'`).Scan(&n); err != nil {
				t.Error(err)
				return
			}
			kills += n
		}
	})
	apply := func(c store.Change) {
		again(func() error {
			out, err := s.Apply(ctx, []store.Change{c})
			if err == nil && out[0].Verdict != store.Applied && out[0].Verdict != store.Already {
				t.Errorf("%s: %s %v", c.Name(), out[0].Verdict, out[0].Err)
			}
			return err
		})
	}
	ids := make(chan messages.ExecutionID, 1000)
	for range 4 {
		work.Go(func() {
			for range 5 {
				e := noop(1)
				again(func() error { _, err := s.Submit(ctx, e); return err })
				again(func() error { _, err := s.Beat(ctx, key.Incarnation, time.Hour); return err })
				apply(&store.Place{ID: e[0].ID, Worker: key, WorkerID: "n/go/0", PlacedBy: key.Incarnation, ClaimWithin: time.Minute})
				apply(&store.Claim{ID: e[0].ID, Attempt: 1, Worker: key, Generation: 1})
				apply(&store.Finish{ID: e[0].ID, Attempt: 1, Outcome: messages.Outcome{Status: messages.Completed}})
				ids <- e[0].ID
			}
		})
	}
	work.Wait()
	close(done)
	killing.Wait()
	close(ids)
	require.Positive(t, kills)
	for id := range ids {
		var events []store.Event
		again(func() (err error) { events, err = s.Events(ctx, id); return err })
		var kinds []string
		for _, e := range events {
			kinds = append(kinds, e.Kind)
		}
		require.Equal(t, []string{"place", "claim", "finish"}, kinds, "each change took effect once")
	}
}

// TestPresent checks that others see when a node's own connection is lost, and when it is back.
func TestPresent(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	a, b := d.open(t, postgres.Config{Schema: "shared"}), d.open(t, postgres.Config{Schema: "shared"})
	first, second := joined(t, a), joined(t, b)
	present := func() bool {
		p, err := b.Beat(t.Context(), second.Incarnation, time.Hour)
		require.NoError(t, err)
		require.Len(t, p.Nodes, 2)
		for _, n := range p.Nodes {
			if n.Incarnation == first.Incarnation {
				return n.Present
			}
		}
		return false
	}
	require.True(t, present())
	_, err := d.connect(t, "shared").Exec(t.Context(), `SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN node n
 ON (l.classid::bigint << 32 | l.objid::bigint) = n.lock WHERE n.incarnation = $1`, first.Incarnation.String())
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !present() }, 10*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		_, err := a.Beat(t.Context(), first.Incarnation, time.Hour)
		if err != nil {
			require.ErrorIs(t, err, store.ErrUnavailable)
		}
		return err == nil
	}, 10*time.Second, 10*time.Millisecond, "it connects again by itself")
	require.True(t, present())
}

// TestWatchComesBack checks that after the loss of its connection a watcher is told to look, and then gets hints again.
func TestASilentListenIsFound(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	s := d.open(t, postgres.Config{})
	for _, listens := range []bool{true, false} {
		heard, err := s.Echoes(t.Context(), listens)
		require.NoError(t, err)
		require.Equal(t, listens, heard)
	}
	s.SetSilence(time.Millisecond)
	hints, err := s.Watch(t.Context())
	require.NoError(t, err)
	c, looks := d.connect(t, s.Schema()), 0
	for heard := 0; heard < 10; { // its silences are checked all the time, what is told comes through, and it stays the same connection
		_, err = c.Exec(t.Context(), "SELECT pg_notify($1, 'inbox')", "troupe."+s.Schema())
		require.NoError(t, err)
		select {
		case h := <-hints:
			if h.Kind == store.HintInbox {
				heard++
				continue
			}
			looks++ // of the beginning, and of the connection
		case <-time.After(20 * time.Millisecond): // it did not listen yet
		}
	}
	require.LessOrEqual(t, looks, 2)
}

func TestWatchComesBack(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	s := d.open(t, postgres.Config{})
	hints, err := s.Watch(t.Context())
	require.NoError(t, err)
	c := d.connect(t, s.Schema())
	listening := func() (n int) {
		require.NoError(t, c.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'").Scan(&n))
		return n
	}
	require.Eventually(t, func() bool { return listening() == 1 }, 10*time.Second, 5*time.Millisecond)
	next := func(kind store.HintKind) {
		deadline := time.After(10 * time.Second)
		for {
			select {
			case h := <-hints:
				if h.Kind == kind {
					return
				}
			case <-deadline:
				t.Fatalf("no hint of kind %d", kind)
			}
		}
	}
	_, err = s.Submit(t.Context(), noop(1))
	require.NoError(t, err)
	next(store.HintRequested)
	_, err = c.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'")
	require.NoError(t, err)
	next(store.HintLook)
	require.Eventually(t, func() bool { return listening() == 1 }, 10*time.Second, 5*time.Millisecond)
	_, err = s.Submit(t.Context(), noop(1))
	require.NoError(t, err)
	next(store.HintRequested)
}

func TestClose(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	s, err := postgres.Open(t.Context(), postgres.Config{URL: d.url})
	require.NoError(t, err)
	var group sync.WaitGroup
	started := make(chan struct{}, 1000)
	for range 8 {
		group.Go(func() {
			for {
				_, err := s.Submit(t.Context(), noop(1))
				if err != nil {
					if !errors.Is(err, store.ErrClosed) {
						t.Errorf("submit while closing: %v", err)
					}
					return
				}
				select {
				case started <- struct{}{}:
				default:
				}
			}
		})
	}
	for range 50 {
		<-started
	}
	alone := func() ([]store.Result, error) { // as a recorder repeats a failed call
		return s.Apply(store.InOwnTransaction(t.Context()), []store.Change{&store.Cancel{ID: messages.NewExecutionID()}})
	}
	out, err := alone()
	require.NoError(t, err)
	require.Equal(t, store.Missing, out[0].Verdict)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "closing twice is one close")
	group.Wait()
	_, err = s.Depths(t.Context())
	require.ErrorIs(t, err, store.ErrClosed)
	_, err = s.Apply(t.Context(), []store.Change{&store.Cancel{}})
	require.ErrorIs(t, err, store.ErrClosed)
	_, err = alone()
	require.ErrorIs(t, err, store.ErrClosed)
	_, err = s.Beat(t.Context(), messages.NewIncarnation(), time.Minute)
	require.ErrorIs(t, err, store.ErrClosed)
}

func TestTheURLMaySetTheConnections(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]int32{"postgres://u@h/d": 8, "postgres://u@h/d?pool_max_conns=3": 3, "host=h pool_max_conns=20": 20} {
		got, err := postgres.ConnsMax(postgres.Config{URL: url})
		require.NoError(t, err)
		require.Equal(t, want, got, url)
	}
}
