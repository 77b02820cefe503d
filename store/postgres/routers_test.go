package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

// contest is a pool whose leader's lease has expired, and another node that wants to lead it.
type contest struct {
	t              *testing.T
	s              *postgres.Store
	c              *pgx.Conn // of an open transaction
	tx             pgx.Tx
	leader, wanter messages.Incarnation
}

func newContest(t *testing.T) *contest {
	d := newBench(t)
	k := &contest{t: t, s: d.open(t, postgres.Config{})}
	k.c = d.connect(t, k.s.Schema())
	k.leader, k.wanter = joined(t, k.s).Incarnation, joined(t, k.s).Incarnation
	require.Equal(t, k.leader, k.lead(k.leader).Incarnation)
	p, err := k.s.Beat(t.Context(), k.leader, time.Millisecond)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		now, err := k.s.Now(t.Context())
		require.NoError(t, err)
		return now.After(p.Lease)
	}, 10*time.Second, time.Millisecond)
	k.tx, err = k.c.Begin(t.Context())
	require.NoError(t, err)
	return k
}

func (k *contest) lead(by messages.Incarnation) store.Router {
	k.t.Helper()
	list, err := k.s.Lead(k.t.Context(), by, []string{"p"})
	require.NoError(k.t, err)
	require.Len(k.t, list, 1)
	return list[0]
}

func (k *contest) execute(sql string, args ...any) {
	k.t.Helper()
	tag, err := k.tx.Exec(k.t.Context(), sql, args...)
	require.NoError(k.t, err)
	require.Equal(k.t, int64(1), tag.RowsAffected())
}

// waits returns once a statement of another connection waits for this transaction.
func (k *contest) waits() {
	k.t.Helper()
	require.Eventually(k.t, func() bool {
		var n int
		require.NoError(k.t, k.tx.QueryRow(k.t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))").Scan(&n))
		return n > 0
	}, 10*time.Second, 5*time.Millisecond)
}

// leadsAfter has the other node lead the pool, which waits for this transaction, and commits the transaction.
func (k *contest) leadsAfter() store.Router {
	k.t.Helper()
	var list []store.Router
	ended := make(chan error, 1)
	go func() {
		var err error
		list, err = k.s.Lead(k.t.Context(), k.wanter, []string{"p"})
		ended <- err
	}()
	k.waits()
	require.NoError(k.t, k.tx.Commit(k.t.Context()))
	require.NoError(k.t, <-ended)
	require.Len(k.t, list, 1)
	return list[0]
}

// TestARouterIsNotTakenFromANodeThatRenews has a renewal that is not committed when the other node looks.
func TestARouterIsNotTakenFromANodeThatRenews(t *testing.T) {
	t.Parallel()
	k := newContest(t)
	k.execute("UPDATE node SET lease_until = now() + '1 hour' WHERE incarnation = $1", k.leader.String())
	require.Equal(t, k.leader, k.lead(k.wanter).Incarnation, "it neither waits nor takes")
	require.NoError(t, k.tx.Commit(t.Context()))
	require.Equal(t, k.leader, k.lead(k.wanter).Incarnation)
}

// TestARouterIsTakenOnce has another node take the pool meanwhile, which is visible only after the commit.
func TestARouterIsTakenOnce(t *testing.T) {
	t.Parallel()
	k := newContest(t)
	winner := joined(t, k.s).Incarnation
	k.execute("UPDATE router SET incarnation = $1, epoch = epoch + 1 WHERE pool = 'p'", winner.String())
	got := k.leadsAfter()
	require.Equal(t, winner, got.Incarnation)
	require.Equal(t, int64(2), got.Epoch)
}

// TestADrainingNodeThatTakesEndsWithNothing has a node take a pool while its drain is not committed.
func TestADrainingNodeThatTakesEndsWithNothing(t *testing.T) {
	t.Parallel()
	k := newContest(t)
	k.execute("UPDATE node SET state = 'draining' WHERE incarnation = $1", k.wanter.String())
	got := k.leadsAfter()
	require.Equal(t, k.leader, got.Incarnation, "nobody took it")
}
