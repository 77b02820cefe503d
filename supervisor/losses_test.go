package supervisor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/actors/lifecycle"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// The downtime of a node's workers is counted once by the router that saw it die, from its last beat until its next boot
// reports them ready.
func TestDowntimeOfADeadNodesWorkers(t *testing.T) {
	t.Parallel()
	p := attend(t, time.Hour)
	p.joins()
	died := store.Node{Incarnation: p.inc, Name: "far", State: store.NodeActive, BeatAt: time.Now().Add(-40 * time.Second)}
	for range 2 {
		p.system.Send(p.pid, &NodeDown{Node: died})
	}
	p.describe()
	require.Empty(t, p.away, "they are not back")
	p.inc, p.number = messages.NewIncarnation(), 0
	require.NoError(t, p.store.Join(t.Context(), store.Node{Incarnation: p.inc, Name: "far", State: store.NodeActive}, 0))
	p.queue = p.config.Settings.PoolQueueName("far", "pool", p.inc)
	require.NoError(t, p.broker.Declare(t.Context(), p.config.Settings.WorkQueue(p.queue)))
	starts := p.worker(0)
	starts.Starting = true
	require.Empty(t, p.tell(wholly, starts).Refused)
	require.Empty(t, p.away, "it starts")
	for range 3 {
		require.Empty(t, p.tell(wholly, p.worker(0)).Refused)
	}
	require.Len(t, p.away, 1)
	require.GreaterOrEqual(t, <-p.away, 40*time.Second)
}

// A node that drained has left on purpose, and one that lives beside a dead one of its name has not come back.
func TestWhatIsNoLoss(t *testing.T) {
	t.Parallel()
	var l losses
	now := time.Now()
	dead, twin, next := messages.NewIncarnation(), messages.NewIncarnation(), messages.NewIncarnation()
	key := func(inc messages.Incarnation) messages.WorkerKey {
		return messages.WorkerKey{Incarnation: inc, Pool: "p"}
	}
	l.died(&store.Node{Incarnation: dead, Name: "n", State: store.NodeDraining}, now, nil)
	require.Zero(t, l.returned("n/p/0", key(next), now.Add(time.Minute)))
	l.died(&store.Node{Incarnation: dead, Name: "n"}, now, map[messages.Incarnation]*follower{twin: nil})
	require.Zero(t, l.returned("n@12345678/p/0", key(twin), now.Add(time.Minute)))
	require.Equal(t, time.Minute, l.returned("n@12345678/p/0", key(next), now.Add(time.Minute)))
	require.Zero(t, l.returned("n/p/0", key(next), now.Add(time.Hour)))
}

// A worker that is lost and takes several starts to come back was away once, and for all that time.
func TestDowntimeIsCountedOnce(t *testing.T) {
	t.Parallel()
	p := &Pool{}
	var counted []time.Duration
	p.cfg.Hooks.Away = func(_ string, d time.Duration) { counted = append(counted, d) }
	s, now := &slot{}, time.Now()
	p.backAgain(s, now)
	require.Empty(t, counted, "its first start")
	s.lose(&actors.WorkerEnded{WasReady: true, Cause: lifecycle.CausePortFailure}, now)
	for range 3 { // starts that fail
		s.lose(&actors.WorkerEnded{Cause: lifecycle.CausePortFailure}, now.Add(time.Minute))
	}
	p.backAgain(s, now.Add(2*time.Minute))
	p.backAgain(s, now.Add(3*time.Minute))
	require.Equal(t, []time.Duration{2 * time.Minute}, counted)
}
