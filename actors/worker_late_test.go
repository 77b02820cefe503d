package actors

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/store"
)

// lateFailures is a store of late failures that keeps them in memory.
type lateFailures struct {
	mu   sync.Mutex
	kept []store.LateFailure
}

func (l *lateFailures) SaveLateFailure(_ context.Context, f store.LateFailure) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, f)
	return nil
}

// A failure of an ended run's code is told on that run and counted against the worker. The run that is on the worker meanwhile
// ends as if nothing had been.
func TestALateFailureSpendsNothingOfTheNextRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var kept lateFailures
		a := &act{traits: lives}
		s := play(t, a, func(c *WorkerConfig) { c.Failures = &kept })
		first := s.runs(nil)
		s.ends(first, ok())
		second := s.runs(nil)
		s.send(&lateFailure{placement: first, err: &messages.Error{Message: "TypeError: late"}})
		s.send(&lateFailure{err: &messages.Error{Message: "of nobody knows what"}})
		s.stays()
		s.is(lifecycle.Busy)
		s.ends(second, ok())
		require.Equal(t, []store.LateFailure{{Execution: first.Execution, Attempt: first.Attempt, Reason: "TypeError: late", Worker: "node/pool/0"}}, kept.kept)
		require.Equal(t, messages.Completed, s.rows.get(second).Status)
		require.Zero(t, s.rows.get(second).CrashCount)
		s.is(lifecycle.Ready)
		s.stays()
		s.ends(s.runs(nil), ok())
	})
}

// Three in a row degrade a worker that is idle, and it is probed.
func TestLateFailuresDegrade(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := play(t, &act{traits: lives}, nil)
		for range lifecycle.WorkerFaultLimit {
			s.is(lifecycle.Ready)
			s.send(&lateFailure{err: &messages.Error{Message: "late"}})
		}
		s.is(lifecycle.Degraded)
		s.stays()
	})
}

// A worker whose ended runs fail without end is unhealthy. Its run ends in peace, it begins no other, and its pool, which is told
// that it is spent, replaces it in order.
func TestAWorkerThatIsWornIsReplacedAfterItsRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := play(t, &act{traits: lives}, nil)
		run := s.runs(nil)
		for range health.Defaults().FailuresUnhealthy + 40 {
			s.send(&lateFailure{err: &messages.Error{Message: "late"}})
		}
		s.stays()
		changes := of[*WorkerChanged](s.pool)
		require.True(t, changes[len(changes)-1].Spent)
		require.Equal(t, health.Degraded, changes[len(changes)-1].Grade, "its sessions stay until their states are kept")
		s.ends(run, ok())
		require.Equal(t, messages.Completed, s.rows.get(run).Status)
		s.stays()
		began := len(s.act.ran())
		s.give(s.rows.add(nil))
		require.Len(t, s.act.ran(), began, "it begins no other")
		s.send(&Retire{Reason: lifecycle.Error, Why: "spent"})
		s.send(&gone{exit: process.Exit{Cause: process.CauseStopped}})
		require.True(t, s.over().Wanted)
	})
}

// A program names the run that a failure came from. One that it has not had, and a log line without a run, are the worker's own.
func TestProcessTellsLateFailures(t *testing.T) {
	t.Parallel()
	c, p := greeted(t, allCapabilities)
	r := aRun(nil)
	c.Run(r)
	p.sink(process.Reply{ID: p.asked(t, "execute", 1).id})
	next[*ended](t, c.in, 1)
	failure := &messages.Error{Code: "action_error", Message: "late"}
	p.sink(process.Fault{Execution: r.Execution.ID, Attempt: r.Execution.Attempt, Err: failure})
	p.sink(process.Fault{Execution: r.Execution.ID, Attempt: r.Execution.Attempt + 1, Err: failure})
	p.sink(process.Fault{Execution: messages.NewExecutionID(), Attempt: 1, Err: failure})
	p.sink(process.Fault{Err: failure})
	told := posted[*lateFailure](c.in)
	require.Len(t, told, 4)
	require.Equal(t, lateFailure{r.Placement(), failure}, *told[0])
	for _, m := range told[1:] {
		require.Equal(t, lateFailure{err: failure}, *m)
	}
	for range 2 * faultsMax {
		p.sink(process.Fault{Err: failure})
	}
	require.Len(t, posted[*lateFailure](c.in), faultsMax, "one that tells them without end is heard up to a bound")
}

// What a program logs without a run is its own, also while a run waits for its session's state.
func TestProcessLogsOfItsOwnAreOfNoRun(t *testing.T) {
	t.Parallel()
	c, p := greeted(t, allCapabilities)
	r := aRun(func(e *messages.Execution, _ *messages.Action) { e.Session, e.SessionEpoch = "alice", 1 })
	r.Restore = []byte(`{}`)
	c.Run(r)
	p.asked(t, "restore", 1)
	p.sink(process.Log{Message: "late"})
	p.sink(process.Chunk{Data: []byte(`1`)})
	require.Empty(t, c.cfg.Feeds.Record(r.Execution.ID))
}
