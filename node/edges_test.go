package node_test

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
)

// edges gathers the transitions that the workers of several nodes took.
type edges struct {
	mu   sync.Mutex
	seen map[lifecycle.Edge]int
	bad  []string
}

func (s *edges) note(_ string, e lifecycle.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[lifecycle.Edge{From: e.From, To: e.To, Reason: e.Reason}]++
	if err := lifecycle.Check(e.From, e.To, e.Reason); err != nil {
		s.bad = append(s.bad, err.Error())
	}
}

func (s *edges) has(from, to lifecycle.State, why lifecycle.Reason) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[lifecycle.Edge{From: from, To: to, Reason: why}] > 0
}

// TestEveryEdgeOfTheLifecycleIsReached runs a node for each story, and compares the transitions that its workers
// took with the lifecycle's own table.
func TestEveryEdgeOfTheLifecycleIsReached(t *testing.T) {
	t.Parallel()
	seen := &edges{seen: map[lifecycle.Edge]int{}}
	t.Run("stories", func(t *testing.T) {
		for name, tell := range stories {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				tell(t, seen)
			})
		}
	})
	require.Empty(t, seen.bad, "transitions that the table does not have")
	var missing []string
	for _, e := range lifecycle.Edges() {
		if seen.seen[e] == 0 {
			missing = append(missing, fmt.Sprintf("%s → %s (%s)", e.From, e.To, e.Reason))
		}
	}
	require.Empty(t, missing, "edges that no story reached")
	require.Len(t, seen.seen, len(lifecycle.Edges()))
}

// oddLab is a node with one worker that misbehaves on demand.
func oddLab(t *testing.T, seen *edges, pool string, change func(*node.Config)) *kit {
	return lab(t, func(c *node.Config) {
		quickly(c)
		c.Transitions, c.ProbeAgain, c.ProbeTimeout = seen.note, time.Hour, time.Minute
		c.Thresholds = health.Thresholds{FailuresDegraded: 2, FailuresUnhealthy: 3}
		if change != nil {
			change(c)
		}
	}, oddPack(t, pool))
}

// odd waits for the odd worker to be ready above a generation.
func (k *kit) odd(above messages.Generation) messages.WorkerID {
	return k.ready("odd.lab", 0, above).ID
}

// degrade makes the odd worker fail one probe.
// begins waits until the one worker of odd.lab has heard of its run. The row says running before that, and what ends the worker
// between the two places the run again.
func (k *kit) begins(id messages.ExecutionID) {
	k.t.Helper()
	k.becomes(id, messages.Running)
	k.until("it has begun", func() bool { return k.worker("odd.lab", 0).State == "busy" })
}

func (k *kit) degrade() {
	k.write("sick")
	k.probe(messages.NewWorkerID("test", "odd.lab", 0))
	k.remove("sick")
	require.Equal(k.t, "degraded", k.worker("odd.lab", 0).State)
}

// expire lets a message for the odd worker die, count times, by dead letters of placements that are held back.
func (k *kit) expire(count int) {
	k.t.Helper()
	for range count {
		id := k.submit("odd.do", nil)
		e := k.becomes(id, messages.Scheduled)
		body, err := broker.Work{Worker: e.Worker, Placements: []messages.Placement{e.Placement()}}.Encode()
		require.NoError(k.t, err)
		_, err = k.Broker().Publish(k.t.Context(), []broker.Message{{RoutingKey: (broker.Settings{}).DeadLetterQueue(), Body: body}})
		require.NoError(k.t, err)
		require.Equal(k.t, messages.CodeQueueTimeout, code(k.await(id)))
	}
}

var stories = map[string]func(*testing.T, *edges){
	"hello refused, unanswered, and killed meanwhile": func(t *testing.T, seen *edges) {
		k := oddLab(t, seen, "init_timeout: 2s", nil)
		w := k.odd(0)
		k.write("refuse")
		require.NoError(t, k.KillWorker(t.Context(), w))
		k.until("a start failed", func() bool { return seen.has(lifecycle.Initializing, lifecycle.Terminated, lifecycle.Error) })
		k.write("deaf")
		k.remove("refuse")
		k.until("a start timed out", func() bool { return seen.has(lifecycle.Initializing, lifecycle.Terminated, lifecycle.Timeout) })
		k.until("one starting is killed", func() bool {
			if k.worker("odd.lab", 0).State == "initializing" {
				require.NoError(t, k.KillWorker(t.Context(), w))
			}
			return seen.has(lifecycle.Initializing, lifecycle.Terminated, lifecycle.Terminate)
		})
	},
	"stopped while it starts": func(t *testing.T, seen *edges) {
		pack := oddPack(t, "")
		writeFiles(t, pack, files{"deaf": ""})
		k := lab(t, func(c *node.Config) { c.Transitions = seen.note }, pack)
		k.until("it is starting", func() bool { return k.worker("odd.lab", 0).State == "initializing" })
		require.NoError(t, k.stop())
		require.True(t, seen.has(lifecycle.Initializing, lifecycle.Terminated, lifecycle.Shutdown))
	},
	"idle ends": func(t *testing.T, seen *edges) {
		k := oddLab(t, seen, "", nil)
		w := k.odd(0)
		require.NoError(t, k.KillWorker(t.Context(), w)) // ready, terminate
		k.odd(1)
		require.NoError(t, syscall.Kill(k.worker("odd.lab", 0).Pid, syscall.SIGKILL)) // ready, error
		k.odd(2)
		require.NoError(t, k.stop()) // ready, shutdown
	},
	"busy ends": func(t *testing.T, seen *edges) {
		k := oddLab(t, seen, "", func(c *node.Config) { c.ShutdownTimeout = 100 * time.Millisecond })
		k.odd(0)
		require.Equal(t, messages.Failed, k.run("odd.do", object{"error": true}).Status)      // ready, checkin_error
		require.Equal(t, messages.Completed, k.run("odd.do", object{"close": true}).Status)   // closed_by_client
		require.Equal(t, messages.Abandoned, k.run("odd.do", object{"exit": true}).Status)    // error
		require.Equal(t, messages.Abandoned, k.run("odd.do", object{"garbage": true}).Status) // error
		require.Equal(t, messages.TimedOut, k.run("odd.do", object{"seconds": 60}, timeout(0.2)).Status)
		id := k.submit("odd.do", object{"seconds": 60})
		k.begins(id)
		require.NoError(t, k.KillWorker(t.Context(), messages.NewWorkerID("test", "odd.lab", 0)))
		require.Equal(t, messages.Abandoned, k.await(id).Status) // terminate
		id = k.submit("odd.do", object{"seconds": 60})
		k.begins(id)
		require.NoError(t, k.stop()) // shutdown
	},
	"faults": func(t *testing.T, seen *edges) {
		k := oddLab(t, seen, "", nil)
		w := k.odd(0)
		fault := object{"error": true, "worker_fault": true}
		k.run("odd.do", fault)
		k.run("odd.do", fault) // busy, degraded, checkin_error
		k.until("it is degraded", func() bool { return k.worker("odd.lab", 0).State == "degraded" })
		k.probe(w) // health_restored
		k.odd(0)
		k.run("odd.do", fault) // busy, terminating, max_retries_exceeded
		k.odd(1)
	},
	"three failed probes": func(t *testing.T, seen *edges) {
		k := oddLab(t, seen, "", nil)
		w := k.odd(0)
		k.degrade()
		k.write("sick")
		k.probe(w)
		k.probe(w) // degraded, terminating, health_check_failed
		k.remove("sick")
		k.odd(1)
	},
	"probes fail while it is busy": func(t *testing.T, seen *edges) {
		k := oddLab(t, seen, "", nil)
		w := k.odd(0)
		id := k.submit("odd.do", object{"file": "go"})
		k.begins(id)
		k.write("sick")
		k.probe(w)
		k.probe(w)
		k.write("go")
		require.Equal(t, messages.Completed, k.await(id).Status)
		k.until("it is ready", func() bool { return k.worker("odd.lab", 0).State == "ready" })
		k.probe(w) // ready, terminating, health_check_failed
		k.remove("sick")
		k.odd(1)
	},
	"a degraded worker's check-in probes": func(t *testing.T, seen *edges) {
		k := oddLab(t, seen, "", nil)
		w := k.odd(0)
		k.degrade()
		id := k.submit("odd.do", object{"file": "go"}) // degraded, busy, checkout
		k.begins(id)
		k.write("sick_health_check")
		k.write("go")
		k.await(id)
		k.until("it fell back", func() bool { return seen.has(lifecycle.Busy, lifecycle.Degraded, lifecycle.HealthCheckFailed) })
		k.remove("sick_health_check")
		k.probe(w)
		k.odd(0)
		k.degrade()
		k.remove("go")
		id = k.submit("odd.do", object{"file": "go"})
		k.begins(id)
		k.write("sick")
		k.probe(w)
		k.write("go") // busy, terminating, health_check_failed
		k.await(id)
		k.until("it left", func() bool { return seen.has(lifecycle.Busy, lifecycle.Terminating, lifecycle.HealthCheckFailed) })
		k.remove("sick")
		k.odd(1)
	},
	"a degraded worker ends": func(t *testing.T, seen *edges) {
		k := oddLab(t, seen, "", nil)
		w := k.odd(0)
		k.degrade()
		require.NoError(t, k.KillWorker(t.Context(), w)) // terminate
		k.odd(1)
		k.degrade()
		require.NoError(t, syscall.Kill(k.worker("odd.lab", 0).Pid, syscall.SIGKILL)) // error
		k.odd(2)
		k.degrade()
		require.NoError(t, k.stop()) // shutdown
	},
	"dead letters": func(t *testing.T, seen *edges) {
		paused := newPausedBroker()
		k := oddLab(t, seen, "", func(c *node.Config) { c.WrapBroker, c.ClaimSweepOff = paused.wrap, true })
		k.odd(0)
		k.expire(2) // ready, degraded, recovery_degrade
		k.until("it is degraded", func() bool { return k.worker("odd.lab", 0).State == "degraded" })
		k.expire(1) // degraded, terminating, max_retries_exceeded
		k.odd(1)
	},
	"dead letters while a check-in waits for its probe": func(t *testing.T, seen *edges) {
		k := oddLab(t, seen, "", func(c *node.Config) {
			c.Thresholds, c.ClaimSweepOff = health.Thresholds{FailuresDegraded: 1, FailuresUnhealthy: 9}, true
		})
		k.odd(0)
		k.degrade()
		id := k.submit("odd.do", object{"file": "go"})
		k.begins(id)
		k.write("slow")
		k.write("go")
		k.await(id)
		require.Equal(t, "busy", k.worker("odd.lab", 0).State)
		k.expire(1) // of a placement behind it: busy, degraded, recovery_degrade
		k.until("it is degraded", func() bool { return seen.has(lifecycle.Busy, lifecycle.Degraded, lifecycle.RecoveryDegrade) })
		k.remove("slow")
		k.probe(messages.NewWorkerID("test", "odd.lab", 0))
		k.odd(0)
	},
}
