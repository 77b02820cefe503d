package postgres_test

import (
	"errors"
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

// holdRow opens a transaction that locks a row until the returned function ends it.
func holdRow(t *testing.T, c *pgx.Conn, sql string, args ...any) (release func()) {
	t.Helper()
	tx, err := c.Begin(t.Context())
	require.NoError(t, err)
	tag, err := tx.Exec(t.Context(), sql+" FOR UPDATE", args...)
	require.NoError(t, err)
	require.EqualValues(t, 1, tag.RowsAffected(), "there is a row to hold")
	return func() { require.NoError(t, tx.Rollback(t.Context())) }
}

// waitsFor returns a function that waits for an answer. It returns the start times of the transactions that meanwhile
// waited for the holder of a lock.
func waitsFor(t *testing.T, watch, holder *pgx.Conn) func(answer chan error) (map[time.Time]bool, error) {
	return func(answer chan error) (map[time.Time]bool, error) {
		began := map[time.Time]bool{}
		for {
			select {
			case err := <-answer:
				return began, err
			case <-time.After(10 * time.Millisecond):
			}
			var at *time.Time
			require.NoError(t, watch.QueryRow(t.Context(), `SELECT min(xact_start) FROM pg_stat_activity
 WHERE $1::int = ANY(pg_blocking_pids(pid))`, int(holder.PgConn().PID())).Scan(&at))
			if at != nil {
				began[*at] = true
			}
		}
	}
}

func placeOf(id messages.ExecutionID, key messages.WorkerKey) *store.Place {
	return &store.Place{ID: id, Worker: key, WorkerID: "n/go/0", PlacedBy: key.Incarnation, ClaimWithin: time.Minute}
}

// A row that another transaction has locked blocks the changes of its own execution only. The first group waits until
// the lock timeout, later groups do not wait.
func TestAHeldRowBlocksItsOwnChangesOnly(t *testing.T) {
	t.Parallel()
	for _, session := range []string{"", "s"} {
		t.Run("session "+session, func(t *testing.T) {
			t.Parallel()
			d := newBench(t)
			s := d.open(t, postgres.Config{})
			key := joined(t, s)
			e := noop(40)
			e[0].Session, e[0].Affinity = session, messages.AffinityStrict
			if session == "" {
				e[0].Affinity = ""
			}
			_, err := s.Submit(t.Context(), e)
			require.NoError(t, err)
			other := d.connect(t, s.Schema())
			release := holdRow(t, other, "SELECT 1 FROM execution WHERE id = $1", e[0].ID.String())
			if session != "" {
				release()
				release = holdRow(t, other, "SELECT 1 FROM lane WHERE session = $1", session)
			}
			apply := func(from, to int) []store.Result {
				var changes []store.Change
				for i := from; i < to; i++ {
					changes = append(changes, placeOf(e[i].ID, key))
				}
				if session != "" && from == 0 {
					changes[0].(*store.Place).Session = &store.SessionUse{Pool: "go", Session: session, Epoch: 1, Bind: true}
				}
				out, err := s.Apply(t.Context(), changes)
				require.NoError(t, err)
				return out
			}
			out := apply(0, 30)
			require.Equal(t, store.Blocked, out[0].Verdict)
			require.ErrorIs(t, out[0].Err, store.ErrBlocked)
			for _, r := range out[1:] {
				require.Equal(t, store.Applied, r.Verdict)
			}
			began := time.Now()
			held := &store.Cancel{ID: e[0].ID}
			for i := 30; i < 40; i++ {
				both, err := s.Apply(t.Context(), []store.Change{held, placeOf(e[i].ID, key)})
				require.NoError(t, err)
				require.Equal(t, store.Blocked, both[0].Verdict)
				require.Equal(t, store.Applied, both[1].Verdict)
			}
			require.Less(t, time.Since(began), 10*time.Second, "ten lock timeouts are 20 s")
			release()
			require.Equal(t, store.Applied, apply(0, 1)[0].Verdict, "nothing had been changed")
		})
	}
}

// A session's row that another transaction has locked rejects submissions to that session only.
func TestAHeldSessionTurnsAwayItsOwnSubmissionsOnly(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	s := d.open(t, postgres.Config{})
	of := func(session string) []messages.Execution {
		e := noop(1)
		e[0].Session, e[0].Affinity = session, messages.AffinityStrict
		return e
	}
	_, err := s.Submit(t.Context(), of("held"))
	require.NoError(t, err)
	release := holdRow(t, d.connect(t, s.Schema()), "SELECT 1 FROM lane WHERE session = 'held'")
	began := time.Now()
	var callers sync.WaitGroup
	for i := range 64 {
		callers.Go(func() {
			session := "held"
			if i%4 > 0 {
				session = fmt.Sprint("free ", i)
			}
			_, err := s.Submit(t.Context(), of(session))
			if session == "held" {
				requireBlocked(t, err)
			} else if err != nil {
				t.Errorf("%s: %v", session, err)
			}
		})
	}
	callers.Wait()
	require.Less(t, time.Since(began), 20*time.Second, "16 lock timeouts are 32 s")
	release()
	_, err = s.Submit(t.Context(), of("held"))
	require.NoError(t, err)
}

// A single submission in a group is also rejected, within one lock timeout.
func TestAHeldSessionTurnsAwayASubmissionAlone(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	s := d.open(t, postgres.Config{})
	e := noop(1)
	e[0].Session, e[0].Affinity = "held", messages.AffinityStrict
	_, err := s.Submit(t.Context(), e)
	require.NoError(t, err)
	holder := d.connect(t, s.Schema())
	waits := waitsFor(t, d.connect(t, s.Schema()), holder)
	release := holdRow(t, holder, "SELECT 1 FROM lane WHERE session = 'held'")
	for n := range 3 { // the first waits for the lock, the others know of it
		e[0].ID = messages.NewExecutionID()
		answer := make(chan error, 1)
		go func() {
			_, err := s.Submit(t.Context(), e)
			answer <- err
		}()
		began, err := waits(answer)
		requireBlocked(t, err)
		require.LessOrEqual(t, len(began), 1, "no call waits a second time: the look after the first has found the holder")
		require.True(t, n == 0 || len(began) == 0, "call %d knows of it", n)
		require.ErrorContains(t, err, `session "held"`)
	}
	release()
	_, err = s.Submit(t.Context(), e)
	require.NoError(t, err)
}

// A submission whose lock has no visible holder waits twice. Then the caller is told that it is blocked. If the holder
// ends meanwhile, the submission is stored.
func TestASubmissionThatWaitsForALockIsMadeTwice(t *testing.T) {
	t.Parallel()
	for _, ends := range []bool{false, true} {
		t.Run(fmt.Sprintf("holder ends %v", ends), func(t *testing.T) {
			t.Parallel()
			d := newBench(t)
			s := d.open(t, postgres.Config{})
			e := noop(1)
			e[0].Session, e[0].Affinity = "s", messages.AffinityStrict
			c, watch := d.connect(t, s.Schema()), d.connect(t, s.Schema())
			tx, err := c.Begin(t.Context())
			require.NoError(t, err)
			_, err = s.SubmitTx(t.Context(), tx, e) // the id is taken by a transaction that nobody sees
			require.NoError(t, err)
			answer := make(chan error, 1)
			go func() {
				_, err := s.Submit(t.Context(), e)
				answer <- err
			}()
			if !ends {
				requireBlocked(t, <-answer)
				require.NoError(t, tx.Rollback(t.Context()))
				return
			}
			var first, now *time.Time // start time of the transaction that waits for ours
			waits := func() *time.Time {
				now = nil
				require.NoError(t, watch.QueryRow(t.Context(), `SELECT min(xact_start) FROM pg_stat_activity
 WHERE $1::int = ANY(pg_blocking_pids(pid))`, int(c.PgConn().PID())).Scan(&now))
				return now
			}
			require.Eventually(t, func() bool { first = waits(); return first != nil }, 20*time.Second, 10*time.Millisecond)
			require.Eventually(t, func() bool { now := waits(); return now != nil && now.After(*first) }, 20*time.Second, 10*time.Millisecond)
			require.NoError(t, tx.Rollback(t.Context()))
			require.NoError(t, <-answer)
		})
	}
}

func requireBlocked(t *testing.T, err error) {
	t.Helper()
	for _, want := range []error{store.ErrBlocked, store.ErrUnavailable} {
		if !errors.Is(err, want) {
			t.Errorf("want %v, got %v", want, err)
		}
	}
}

// An unknown error makes its own call fail, and says that the rest may succeed.
func TestAnUnknownErrorIsOfItsOwnCall(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	s := d.open(t, postgres.Config{})
	key := joined(t, s)
	e := noop(20)
	_, err := s.Submit(t.Context(), e)
	require.NoError(t, err)
	plant(t, d, s, e[7].ID, "RAISE EXCEPTION 'planted'")
	var callers sync.WaitGroup
	for i := range e {
		callers.Go(func() {
			out, err := s.Apply(t.Context(), []store.Change{placeOf(e[i].ID, key)})
			switch {
			case i == 7 && !store.MayPassInParts(err):
				t.Errorf("want an error of its own, got %v", err)
			case i != 7 && (err != nil || out[0].Verdict != store.Applied):
				t.Errorf("%d: %v %v", i, out, err)
			}
		})
	}
	callers.Wait()
}

// plant makes updates of an execution run body.
func plant(t *testing.T, d *bench, s *postgres.Store, id messages.ExecutionID, body string) {
	t.Helper()
	c := d.connect(t, s.Schema())
	defer c.Close(t.Context())
	_, err := c.Exec(t.Context(), `CREATE FUNCTION planted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
 IF NEW.id = '`+id.String()+`' THEN `+body+`; END IF; RETURN NEW; END $$;
 CREATE TRIGGER planted BEFORE UPDATE ON execution FOR EACH ROW EXECUTE FUNCTION planted()`, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
}

// The first caller that meets the locks of a dead incarnation ends its transactions on the server: a node that froze in
// the middle of a batch does not stop the rescue of its executions.
func TestADeadIncarnationKeepsNoLocks(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	s := d.open(t, postgres.Config{})
	frozen, living := joined(t, s), joined(t, s)
	e := noop(20)
	_, err := s.Submit(t.Context(), e)
	require.NoError(t, err)
	var places, rescues []store.Change
	for i := range e {
		places = append(places, placeOf(e[i].ID, frozen))
		rescues = append(rescues, &store.TakeBack{ID: e[i].ID, Attempt: 1, Reason: "node_down"})
	}
	_, err = s.Apply(t.Context(), places)
	require.NoError(t, err)
	c := d.connect(t, s.Schema())
	_, err = c.Exec(t.Context(), "SELECT set_config('application_name', $1, false)", "troupe "+frozen.Incarnation.String())
	require.NoError(t, err)
	_, err = c.Exec(t.Context(), "BEGIN")
	require.NoError(t, err)
	_, err = c.Exec(t.Context(), "UPDATE execution SET crash_count = 0 WHERE id = ANY($1)", []string{e[3].ID.String(), e[4].ID.String()})
	require.NoError(t, err)

	out, err := s.Apply(t.Context(), rescues)
	require.NoError(t, err)
	for i, r := range out {
		want := store.Applied
		if i == 3 || i == 4 {
			want = store.Blocked
		}
		require.Equal(t, want, r.Verdict, "while it may live")
	}
	require.NoError(t, s.SetNode(t.Context(), frozen.Incarnation, store.NodeDead))
	require.Eventually(t, func() bool {
		out, err = s.Apply(t.Context(), rescues[3:5])
		require.NoError(t, err)
		return out[0].Verdict == store.Applied && out[1].Verdict == store.Applied
	}, patience, 10*time.Millisecond, "its locks are ended with it")
	require.NotEqual(t, frozen.Incarnation, living.Incarnation)
}

// A node that froze while it held the locks of its workers' rows is declared dead, and its workers are made inactive.
func TestANodeThatHoldsItsWorkersRowsIsDeclaredDead(t *testing.T) {
	t.Parallel()
	const lease = 300 * time.Millisecond
	d := newBench(t)
	s := d.open(t, postgres.Config{})
	frozen, living := messages.NewIncarnation(), messages.NewIncarnation()
	require.NoError(t, s.Join(t.Context(), store.Node{Incarnation: living, Name: "living"}, time.Hour))
	require.NoError(t, s.Join(t.Context(), store.Node{Incarnation: frozen, Name: "frozen"}, lease))
	key := messages.WorkerKey{Incarnation: frozen, Pool: "go"}
	require.NoError(t, s.SaveWorkers(t.Context(), []store.Worker{{Key: key, ID: "frozen/go/0", Active: true}}))
	c := d.connect(t, s.Schema())
	_, err := c.Exec(t.Context(), "SELECT set_config('application_name', $1, false)", "troupe "+frozen.String())
	require.NoError(t, err)
	_, err = c.Exec(t.Context(), "BEGIN")
	require.NoError(t, err)
	tag, err := c.Exec(t.Context(), "UPDATE worker SET last_heartbeat = now() WHERE incarnation = $1", frozen.String())
	require.NoError(t, err)
	require.EqualValues(t, 1, tag.RowsAffected())
	require.Eventually(t, func() bool {
		_, err := s.Beat(t.Context(), living, time.Hour)
		require.NoError(t, err)
		dead, err := s.DeclareDead(t.Context(), living, lease)
		require.NoError(t, err)
		return len(dead) == 1 && dead[0].Incarnation == frozen
	}, patience, 20*time.Millisecond)
	var active bool
	require.NoError(t, d.connect(t, s.Schema()).QueryRow(t.Context(), "SELECT active FROM worker WHERE incarnation = $1", frozen.String()).Scan(&active))
	require.False(t, active)
}
