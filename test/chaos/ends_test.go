package chaos_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// endsLease is so long that even a busy machine detects the end of a killed node much earlier.
const endsLease = 8 * time.Second

// TestAKilledNodeIsNotWaitedFor: a killed node is declared dead before its lease ends, because its connection to the store is
// closed and its address refuses connections. Its work is placed on another node. A frozen node is declared dead only when its
// lease ends.
func TestAKilledNodeIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	f := newOwnPostgres(t, directly, allEvents, "TROUPE_NODE_LEASE=8")
	paths, err := built()
	require.NoError(t, err)
	a, b := f.join("a", paths.troupe, "pack"), f.join("b", paths.troupe, "pack")
	f.start()
	c := f.caller()
	a.eventually(backTime, "the nodes have been seen for a lease", func(context.Context) bool {
		n := a.incarnation("a")
		return !n.PresentSince.IsZero() && n.BeatAt.Sub(n.PresentSince) > endsLease && n.BeatAt.Sub(n.SteadySince) > endsLease
	})
	f.occupy(c, b, "killed")
	held := f.heldBy(a, "b", "killed")
	require.NotEmpty(t, held)
	b.kill()
	dead := f.deadOf(a, "b")
	require.Equal(t, store.EndRefused, dead.Ended)
	for _, id := range held {
		require.True(t, f.placedAgain(a, id).Before(dead.LeaseUntil), "its lease would have held until %s", dead.LeaseUntil)
	}
	require.True(t, a.logged("its process ended"), "it says why")
	b.start()
	f.well()

	f.occupy(c, b, "frozen")
	held = f.heldBy(a, "b", "frozen")
	b.signal(syscall.SIGSTOP)
	dead = f.deadOf(a, "b")
	require.Equal(t, store.EndLease, dead.Ended)
	for _, id := range held {
		require.True(t, f.placedAgain(a, id).After(dead.LeaseUntil), "its lease held until %s", dead.LeaseUntil)
	}
	b.signal(syscall.SIGCONT)
	f.well()
	a.settled(backTime)
	a.verdict(f.history(c))
}

// deadOf waits until the newest incarnation of a node is dead, and returns its row.
func (f *full) deadOf(asked *node, name string) (n store.Node) {
	f.t.Helper()
	asked.eventually(backTime, "node "+name+" is declared dead", func(context.Context) bool {
		n = asked.incarnation(name)
		return n.State == store.NodeDead
	})
	return n
}

// placedAgain waits until an execution has its second attempt, and returns the time of that placement.
func (f *full) placedAgain(asked *node, id messages.ExecutionID) time.Time {
	f.t.Helper()
	var e form.ExecutionView
	asked.eventually(backTime, "its work is placed again", func(context.Context) bool {
		asked.get("/api/v1/executions/"+id.String(), &e)
		return e.Attempt > 1 && !placedAt(&e).IsZero()
	})
	return placedAt(&e)
}

// placedAt is when an execution was last placed. One that was handed over directly is placed by its claim.
func placedAt(e *form.ExecutionView) time.Time {
	if e.ScheduledAt.IsZero() {
		return e.StartedAt
	}
	return e.ScheduledAt
}
