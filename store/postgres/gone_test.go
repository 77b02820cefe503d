package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/membership"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

// goneLease is the lease of the nodes below, long enough for a busy machine to renew it without a gap.
const goneLease = 4 * time.Second

// gonePair is a node that looks, and one that is looked at, each with a store of its own.
type gonePair struct {
	t            *testing.T
	d            *bench
	mine, theirs *postgres.Store
	me, other    messages.Incarnation
}

func newGonePair(t *testing.T) *gonePair {
	d := newBench(t)
	p := &gonePair{t: t, d: d}
	p.mine, p.theirs = d.open(t, postgres.Config{Schema: "shared"}), d.open(t, postgres.Config{Schema: "shared"})
	p.me, p.other = joined(t, p.mine).Incarnation, joined(t, p.theirs).Incarnation
	p.beat(p.mine, p.me)
	p.beat(p.theirs, p.other)
	return p
}

func (p *gonePair) beat(s *postgres.Store, inc messages.Incarnation) store.Pulse {
	p.t.Helper()
	pulse, err := s.Beat(p.t.Context(), inc, goneLease)
	require.NoError(p.t, err)
	return pulse
}

func (p *gonePair) row(inc messages.Incarnation) store.Node {
	p.t.Helper()
	nodes, err := p.mine.ListNodes(p.t.Context())
	require.NoError(p.t, err)
	for _, n := range nodes {
		if n.Incarnation == inc {
			return n
		}
	}
	require.Fail(p.t, "the node is not known")
	return store.Node{}
}

// cut ends the connection that holds an incarnation's lock, and waits until the server has freed it.
func (p *gonePair) cut(inc messages.Incarnation) {
	p.t.Helper()
	_, err := p.d.connect(p.t, "shared").Exec(p.t.Context(), `SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN node n
 ON (l.classid::bigint << 32 | l.objid::bigint) = n.lock WHERE n.incarnation = $1`, inc.String())
	require.NoError(p.t, err)
	require.Eventually(p.t, func() bool { return !p.row(inc).Present }, 10*time.Second, 5*time.Millisecond)
}

// renewUntil renews the looking node's lease, as its beats do, until a moment of the store's clock, and then for as long as it
// has to have been seen. It returns once a renewal is old enough to declare by.
func (p *gonePair) renewUntil(moment time.Time) {
	p.t.Helper()
	var last time.Time
	require.Eventually(p.t, func() bool {
		last = p.beat(p.mine, p.me).At
		return last.After(moment)
	}, 30*time.Second, 100*time.Millisecond)
	require.Eventually(p.t, func() bool {
		now, err := p.mine.Now(p.t.Context())
		require.NoError(p.t, err)
		return now.Sub(last) > goneLease*store.SettleShare/1000
	}, 30*time.Second, 10*time.Millisecond)
}

// declare declares the other node gone as of its row, with a lease for which the caller has been seen.
func (p *gonePair) declare(n store.Node, lease time.Duration) []store.Node {
	p.t.Helper()
	dead, err := p.mine.DeclareGone(p.t.Context(), p.me, lease, []store.Gone{{Incarnation: n.Incarnation, BeatAt: n.BeatAt, Ended: store.EndRefused}})
	require.NoError(p.t, err)
	return dead
}

// TestDeclareGone: within its lease a node is declared dead once its connection is gone and it has not renewed over another; and not
// where the caller has not been seen for long, or the node drains, or is of an older release, or has renewed.
func TestDeclareGone(t *testing.T) {
	t.Parallel()
	p := newGonePair(t)
	p.beat(p.theirs, p.other)
	n := p.row(p.other)
	require.True(t, n.Present && !n.PresentSince.IsZero())
	p.cut(p.other)
	require.Empty(t, p.declare(n, time.Millisecond), "the caller has not renewed since the other should have")
	p.renewUntil(n.BeatAt.Add(goneLease * store.SilentShare / 1000))
	require.Empty(t, p.declare(n, time.Hour), "the caller has not been seen for its lease")
	older := n
	older.BeatAt = n.BeatAt.Add(-time.Microsecond)
	require.Empty(t, p.declare(older, time.Millisecond), "it has renewed since")
	set := func(sql string) {
		_, err := p.d.connect(t, "shared").Exec(t.Context(), sql, p.other.String())
		require.NoError(t, err)
	}
	set("UPDATE node SET state = 'draining' WHERE incarnation = $1")
	require.Empty(t, p.declare(n, time.Millisecond), "it leaves in order")
	set("UPDATE node SET state = 'active', locked_since = NULL WHERE incarnation = $1")
	require.Empty(t, p.declare(n, time.Millisecond), "it is of an older release")
	set("UPDATE node SET locked_since = beat_at WHERE incarnation = $1")
	require.Len(t, p.declare(n, time.Millisecond), 1)
	require.Equal(t, store.NodeDead, p.row(p.other).State)
	require.Equal(t, store.EndRefused, p.row(p.other).Ended)
	require.True(t, p.row(p.other).LeaseUntil.After(n.BeatAt.Add(goneLease*9/10)), "its lease had not run out")
	_, err := p.theirs.Beat(t.Context(), p.other, goneLease)
	require.ErrorIs(t, err, store.ErrNotFound, "a living one finds that out with its next beat")
}

// TestALostConnectionIsNoEnd: a node whose connection was ended has its lock back with its next beat, and is declared dead by nobody.
func TestALostConnectionIsNoEnd(t *testing.T) {
	t.Parallel()
	p := newGonePair(t)
	before := p.row(p.other)
	p.cut(p.other)
	p.beat(p.theirs, p.other) // at once, and not with the beat after it
	after := p.row(p.other)
	require.True(t, after.Present)
	require.True(t, after.PresentSince.After(before.PresentSince), "it says since when")
	p.renewUntil(after.BeatAt.Add(goneLease * store.SilentShare / 1000))
	require.Empty(t, p.declare(before, time.Millisecond))
	require.Empty(t, p.declare(after, time.Millisecond))
	require.Equal(t, store.NodeActive, p.row(p.other).State)
}

// TestARestartOfTheServerIsNobodysEnd: where all connections have ended, whoever is back first declares nobody dead, and nobody who
// has not got its own lock back.
func TestARestartOfTheServerIsNobodysEnd(t *testing.T) {
	t.Parallel()
	p := newGonePair(t)
	n := p.row(p.other)
	p.renewUntil(n.BeatAt.Add(goneLease * store.SilentShare / 1000))
	p.cut(p.other)
	p.cut(p.me)
	require.Empty(t, p.declare(n, time.Millisecond), "its own connection is gone")
	p.renewUntil(n.BeatAt)
	require.Empty(t, p.declare(n, goneLease), "it has its own back since a moment")
	require.Equal(t, store.NodeActive, p.row(p.other).State)
}

// TestALockThatIsNotGotBackIsSaid: where another connection has the lock, the row says that this one does not.
func TestALockThatIsNotGotBackIsSaid(t *testing.T) {
	t.Parallel()
	p := newGonePair(t)
	p.cut(p.other)
	c := p.d.connect(t, "shared")
	_, err := c.Exec(t.Context(), "SELECT pg_advisory_lock((SELECT lock FROM node WHERE incarnation = $1))", p.other.String())
	require.NoError(t, err)
	p.beat(p.theirs, p.other)
	require.Zero(t, p.row(p.other).PresentSince)
	_, err = c.Exec(t.Context(), "SELECT pg_advisory_unlock_all()")
	require.NoError(t, err)
	p.beat(p.theirs, p.other)
	require.NotZero(t, p.row(p.other).PresentSince)
}

func TestTheSharesOfAnEnd(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, membership.SilentShare, store.SilentShare)
	require.EqualValues(t, membership.SettleShare, store.SettleShare)
}

// Only an error of a statement leaves a connection in use. What is not known is none.
func TestErrorsOfAStatement(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]bool{
		"":      false, // the network, or nobody
		"22P02": true, "23505": true, "40001": true, "40P01": true, "42501": true, "42P01": true, "3F000": true, "54000": true, "P0001": true, "0A000": true,
		"53100": true, "53200": true, "55P03": true, "57014": true, "55000": true, "55006": true,
		"25006": false, // the server, or the transaction, takes no writes
		"25P02": false, "25P03": false, "25001": false, "08006": false, "08P01": false, "26000": false, "28000": false, "28P01": false, "3D000": false,
		"53300": false, "53400": false, "57P01": false, "57P02": false, "57P03": false, "57P05": false, "58000": false, "58030": false, "F0000": false,
		"XX000": false, "XX001": false, "72000": false, "ZZ999": false, "4": false,
	} {
		require.Equal(t, want, postgres.OfStatement(code), "code %q", code)
	}
}
