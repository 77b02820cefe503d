package postgres_test

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

// walked returns the executions that a look at the pool finds due, and how many entries of the index it reads.
func (l *large) walked(index string) (due []messages.ExecutionID, entries int) {
	l.t.Helper()
	read := func() (n int) {
		_, err := l.Ask(l.t.Context(), "SELECT '' FROM pg_stat_force_next_flush()")
		require.NoError(l.t, err)
		require.NoError(l.t, l.c.QueryRow(l.t.Context(),
			"SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = $1 AND schemaname = current_schema()", index).Scan(&n))
		return n
	}
	before := read()
	l.took("due", func() {
		page, err := l.Due(l.t.Context(), store.DueQuery{Pool: "go", Limit: 100, Heads: 100})
		require.NoError(l.t, err)
		for _, c := range page.Candidates {
			due = append(due, c.ID)
		}
	})
	return due, read() - before
}

// fewWalked looks until a look reads few entries of the index. Every look does so after so many whole ones that no
// execution can have come to wait in an old place. Each look must find the due executions. The look after it also reads
// few.
func (l *large) fewWalked(index string, want []messages.ExecutionID) {
	l.t.Helper()
	for range postgres.LooksUntilNarrow + 1 {
		due, entries := l.walked(index)
		require.ElementsMatch(l.t, want, due)
		if entries < 100 {
			return
		}
	}
	require.FailNow(l.t, "each look walks the whole index")
}

// underAnOldSnapshot places and ends the executions of seed while another program's snapshot is open. Each look then
// reads all of them, until the floors are known.
func (l *large) underAnOldSnapshot(index string, seed func()) {
	l.t.Helper()
	old, err := pgx.ConnectConfig(l.t.Context(), l.c.Config())
	require.NoError(l.t, err)
	l.t.Cleanup(func() { _ = old.Close(l.t.Context()) })
	seed()
	_, err = old.Exec(l.t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM node", pgx.QueryExecModeSimpleProtocol)
	require.NoError(l.t, err)
	l.execute("UPDATE execution SET rank = NULL, turn = NULL, timer_at = NULL, status = 6, finished_at = now() WHERE pool = 'go'")
	l.execute("UPDATE lane SET head = NULL, head_seq = NULL, head_priority = NULL")
	_, entries := l.walked(index)
	require.GreaterOrEqual(l.t, entries, l.rows, "a whole look walks all that was placed since")
	l.SlowLooks()
	for range 4 {
		l.walked(index)
	}
}

// asked submits executions and returns their ids.
func (l *large) asked(e ...messages.Execution) (ids []messages.ExecutionID) {
	l.t.Helper()
	all, err := l.Submit(l.t.Context(), e)
	require.NoError(l.t, err)
	for i := range all {
		ids = append(ids, all[i].Execution.ID)
	}
	return ids
}

// sessioned returns executions of sessions that all wait for their turn.
func sessioned(affinity messages.Affinity, sessions ...string) []messages.Execution {
	e := noop(len(sessions))
	for i, session := range sessions {
		e[i].Session, e[i].Affinity, e[i].Priority = session, affinity, messages.Priority(2*i)
	}
	return e
}

// While an old snapshot is open, looks do not read again the entries of executions placed since then.
func dueUnderAnOldSnapshot(l *large) {
	l.underAnOldSnapshot("execution_waiting", func() { l.waiting(l.rows, "go", time.Hour, 0) })
	e := noop(3)
	for i := range e {
		e[i].Priority = messages.Priority(3 * i)
	}
	l.fewWalked("execution_waiting", l.asked(e...))
	l.plans()
}

// inSessions makes each execution wait for the turn of its session.
func (l *large) inSessions(turn int) {
	l.t.Helper()
	l.waiting(l.rows, "go", time.Hour, 0)
	l.execute("UPDATE execution SET session = 's' || seq, turn = $1, rank = rank + 16", turn)
	l.execute(`INSERT INTO lane (pool, session, head, head_seq, head_priority) SELECT pool, session, id, seq, priority FROM execution`)
	l.execute("ANALYZE execution, lane")
}

// headsUnderAnOldSnapshot also checks that the next execution of a session is found at once when the one before it
// ends, without a whole look, even if it was stored before the head of another session.
func headsUnderAnOldSnapshot(l *large) {
	long := sessioned(messages.AffinityStrict, "long", "long")
	l.underAnOldSnapshot("lane_head", func() { l.inSessions(1) })
	first := l.asked(long...)
	l.started(first[0], "long")
	others := l.asked(sessioned(messages.AffinityStrict, "a", "b", "c")...)
	l.fewWalked("lane_head", others)
	l.finished(first[0])
	due, entries := l.walked("lane_head")
	require.ElementsMatch(l.t, append(others, first[1]), due)
	require.Less(l.t, entries, 100)
	l.plans()
}

func failsUnderAnOldSnapshot(l *large) {
	l.underAnOldSnapshot("execution_turn_fail", func() { l.inSessions(2) })
	ids := l.asked(sessioned(messages.AffinityStrictFail, "a", "b", "c")...)
	l.fewWalked("execution_turn_fail", ids)
	more := l.asked(sessioned(messages.AffinityStrictFail, "a", "c")...)
	due, entries := l.walked("execution_turn_fail")
	require.ElementsMatch(l.t, append(ids, more...), due, "what is behind another is due: it fails")
	require.Less(l.t, entries, 100)
	l.plans()
}

func timersUnderAnOldSnapshot(l *large) {
	l.underAnOldSnapshot("execution_timer", func() {
		l.waiting(l.rows, "go", time.Hour, time.Hour)
		l.execute("UPDATE execution SET timer_at = now() - interval '1 minute'")
	})
	e := noop(3)
	for i := range e {
		e[i].RunAt = time.Now().Add(time.Duration(i+1) * 10 * time.Minute)
	}
	l.asked(e...)
	l.fewWalked("execution_timer", nil)
	e[0].RunAt, e[0].ID = time.Now().Add(300*time.Millisecond), messages.NewExecutionID()
	soon := l.asked(e[0])
	require.Eventually(l.t, func() bool {
		page, err := l.Due(l.t.Context(), store.DueQuery{Pool: "go", Limit: 100, Heads: 100})
		return err == nil && len(page.Candidates) == 1 && page.Candidates[0].ID == soon[0]
	}, 30*time.Second, 20*time.Millisecond, "one that comes to wait before the others is seen when its time comes")
	l.fewWalked("execution_timer", soon)
	l.plans()
}

// started makes a worker run an execution of a session.
func (l *large) started(id messages.ExecutionID, session string) {
	l.t.Helper()
	for _, c := range []store.Change{
		&store.Place{ID: id, Worker: l.key, PlacedBy: l.key.Incarnation, ClaimWithin: time.Minute,
			Session: &store.SessionUse{Pool: "go", Session: session, Epoch: 1, Bind: true}},
		&store.Claim{ID: id, Attempt: 1, Worker: l.key, Generation: 1},
	} {
		l.applied(c)
	}
}

func (l *large) finished(id messages.ExecutionID) {
	l.t.Helper()
	l.applied(&store.Finish{ID: id, Attempt: 1, Outcome: messages.Outcome{Status: messages.Completed}})
}

func (l *large) applied(c store.Change) {
	l.t.Helper()
	results, err := l.Apply(l.t.Context(), []store.Change{c})
	require.NoError(l.t, err)
	require.Equal(l.t, store.Applied, results[0].Verdict, fmt.Sprintf("%T", c))
}
