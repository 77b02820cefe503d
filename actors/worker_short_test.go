package actors

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
)

var errShort = fmt.Errorf("start sh: %w: pipe2: too many open files", process.ErrShortage)

// told keeps what workers tell of shortages.
type told struct {
	mu   sync.Mutex
	list []error
}

func (o *told) hook(c *WorkerConfig) {
	c.Shortage = func(_ string, err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.list = append(o.list, err)
	}
}

func (o *told) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.list)
}

// A run whose program the node had no descriptors for goes back and waits; its worker is the last resort until a probe passes.
func TestARunThatTheNodeCannotStartGoesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		shortages := &told{}
		a := &act{}
		s := play(t, a, shortages.hook)
		p := s.runs(nil)
		s.send(&ended{placement: p, short: errShort})
		e := s.rows.get(p)
		require.Equal(t, messages.Requested, e.Status)
		require.Zero(t, e.CrashCount)
		require.Nil(t, e.Error)
		s.is(lifecycle.Degraded)
		require.Zero(t, s.cell.Read().Report.FailedExecutions, "nothing has failed")
		require.Equal(t, 1, shortages.count())

		last := s.runs(nil) // it is tried as the last resort
		s.send(&ended{placement: last, short: errShort})
		require.Equal(t, messages.Requested, s.rows.get(last).Status)
		s.is(lifecycle.Degraded)

		a.change(func() { a.sick = errShort })
		time.Sleep(time.Minute)
		synctest.Wait()
		s.is(lifecycle.Degraded)
		s.stays()
		require.Greater(t, shortages.count(), 10)
		a.change(func() { a.sick = nil })
		time.Sleep(6 * time.Second)
		synctest.Wait()
		s.is(lifecycle.Ready)
		s.ends(s.runs(nil), ok())
		s.is(lifecycle.Ready)
	})
}

func TestAShortageAndTheEndOfARun(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*stage, messages.Placement)
		change func(*WorkerConfig)
		want   messages.Status
		state  lifecycle.State
	}{
		"cancelled": {before: func(s *stage, p messages.Placement) {
			s.rows.set(p, messages.Cancelling)
			s.send(&CancelRun{Placement: p, By: "anna"})
		}, want: messages.Cancelled, state: lifecycle.Degraded},
		"halted": {before: func(s *stage, _ messages.Placement) {
			s.send(&Halt{Reason: lifecycle.Shutdown, Why: "drain"})
		}, want: messages.Requested, state: lifecycle.Terminated},
		"retired": {before: func(s *stage, _ messages.Placement) {
			s.send(&Retire{Reason: lifecycle.Shutdown, Why: "recycled"})
		}, want: messages.Requested, state: lifecycle.Terminated},
		"health decides nothing": {change: func(c *WorkerConfig) { c.Thresholds = health.Thresholds{Off: true} },
			want: messages.Requested, state: lifecycle.Ready},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := play(t, &act{}, c.change)
				p := s.runs(nil)
				if c.before != nil {
					c.before(s, p)
				}
				s.send(&ended{placement: p, short: errShort})
				require.Equal(t, c.want, s.rows.get(p).Status)
				s.is(c.state)
			})
		})
	}
}

// A worker process that the node has no room for is a start that is put off, and tells of it.
func TestAWorkerThatTheNodeCannotStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		shortages := &told{}
		s := play(t, &act{traits: lives, silent: true}, shortages.hook)
		s.send(&begun{err: errShort})
		require.Equal(t, lifecycle.CauseNodeShort, s.over().Cause)
		require.Equal(t, 1, shortages.count())
	})
}

func TestAShellCommandThatTheNodeCannotStart(t *testing.T) {
	t.Parallel()
	l := &launcher{refuse: errShort}
	s, in, _ := newOneShot(t, l)
	s.Run(aRun(nil))
	end := next[*ended](t, in, 1)
	require.ErrorIs(t, end.short, process.ErrShortage)
	require.Empty(t, end.crashed)
	require.Nil(t, end.outcome.Error)
}
