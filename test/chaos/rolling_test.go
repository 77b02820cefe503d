package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/test/chaos"
)

// offlineTime is the promised bound: after it, every node shows a stopping node as stopping.
const offlineTime = time.Second

func TestRollingRestarts(t *testing.T) {
	t.Parallel()
	rollingRestarts(t, storm{executions: 900, injections: 3, sessions: 16, callers: 24, gentle: true})
}

func TestDirectRollingRestarts(t *testing.T) {
	t.Parallel()
	rollingRestarts(t, storm{executions: 600, injections: 3, sessions: 16, callers: 24, gentle: true, direct: true})
}

func TestWholeDirectRollingRestarts(t *testing.T) {
	wholeOnly(t)
	rollingRestarts(t, storm{executions: 12_000, injections: 60, sessions: 64, callers: 32, gentle: true, direct: true})
}

// Each restart gives a node the other dispatch: work that waits on RabbitMQ, and work that is handed over, goes on with the other.
func TestRollingRestartsChangeTheDispatch(t *testing.T) {
	t.Parallel()
	rollingRestarts(t, storm{executions: 500, injections: 4, sessions: 16, callers: 24, gentle: true, change: true})
}

func TestWholeRollingRestartsChangeTheDispatch(t *testing.T) {
	wholeOnly(t)
	rollingRestarts(t, storm{executions: 12_000, injections: 60, sessions: 64, callers: 32, gentle: true, change: true})
}

func TestWholeRollingRestarts(t *testing.T) {
	wholeOnly(t)
	rollingRestarts(t, storm{executions: 12_000, injections: 60, sessions: 64, callers: 32, gentle: true})
}

// rollingRestarts stops and starts three nodes in turn, under load. Because of that no work may fail or start twice, and no
// session whose workers can store its state may lose it.
func rollingRestarts(t *testing.T, s storm) {
	paths, err := built()
	require.NoError(t, err)
	rolling(t, s, paths.troupe, nil)
}

// rolling does so with nodes of one binary, which may be replaced by another one before the i-th start.
func rolling(t *testing.T, s storm, first string, next func(i int) string) {
	random := rand.New(rand.NewPCG(seed(t), 5))
	f := newShared(t, s.env()...)
	for _, name := range []string{"a", "b", "c"} {
		f.join(name, first, "pack")
	}
	f.start()
	f.alternate(s)
	c := f.caller()
	plan := s.plan(random)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute+time.Duration(s.executions)*30*time.Millisecond)
	defer cancel()
	var finished, gate atomic.Int64
	load := startGated(ctx, c, s, plan, random.Uint64(), &finished, &gate)
	share := s.executions / (s.injections + 1)
	var offline, restarted []time.Duration
	for i := range s.injections {
		gate.Store(int64((i+2)*share + s.callers))
		f.nodes[0].eventually(time.Minute, "the load goes on", func(context.Context) bool { return finished.Load() >= int64(i*share) })
		moment(random, 100*time.Millisecond)
		n, other := f.nodes[i%3], f.nodes[(i+1)%3]
		began := time.Now()
		offline = append(offline, n.goOffline(other))
		n.exited()
		if next != nil {
			n.troupe = next(i)
		}
		n.start()
		f.well()
		restarted = append(restarted, time.Since(began))
	}
	gate.Store(int64(s.executions))
	f.ended(load)
	f.nodes[0].settled(backTime)
	h := f.history(c)
	f.nodes[0].verdict(h)
	starts := map[messages.ExecutionID]int{}
	for _, effect := range h.Effects {
		if effect.Kind == "start" {
			starts[effect.Execution]++
			require.Equal(t, 1, starts[effect.Execution], "starts of %s", effect.Execution)
		}
	}
	told, broken := losses(h.Effects)
	slices.Sort(offline)
	slices.Sort(restarted)
	t.Logf("%d restarts; shown as stopping after p50 %s, max %s; stopped, started and all ready after p50 %s, max %s; calls repeated %d, losses told to sessions %d",
		s.injections, quantile(offline, 0.5), quantile(offline, 1), quantile(restarted, 0.5), quantile(restarted, 1), c.again, told)
	require.Zero(t, broken, "state of sessions was lost: %s", f.restartedCounters(h))
}

// goOffline sends SIGTERM to the node, and returns the time until the other node shows it as stopping.
func (n *node) goOffline(other *node) time.Duration {
	n.t.Helper()
	before := other.incarnation(n.name).Incarnation
	began := time.Now()
	n.signal(syscall.SIGTERM)
	other.eventually(offlineTime, "node "+n.name+" is shown as stopping", func(context.Context) bool {
		now := other.incarnation(n.name)
		return now.Incarnation == before && now.State != store.NodeActive
	})
	return time.Since(began)
}

// restartedCounters names the runs whose session's counter did not continue.
func (f *full) restartedCounters(h *chaos.History) (all []string) {
	counts := map[string]chaos.Effect{}
	for _, effect := range h.Effects {
		if effect.Kind != "start" || effect.Session == "" {
			continue
		}
		if before := counts[effect.Session]; effect.Count != before.Count+1 {
			all = append(all, fmt.Sprintf("%+v after %+v\n", effect, before))
			for i := range h.Executions {
				if e := &h.Executions[i]; e.Session == effect.Session {
					all = append(all, fmt.Sprintf("%s %v\n", e.ID, e.Events))
				}
			}
		}
		counts[effect.Session] = effect
	}
	return all
}
