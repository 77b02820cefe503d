package actors

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/lifecycle"
)

func (s *stage) settle() { synctest.Wait() }

// bubble runs a test in fake time.
func bubble(t *testing.T, test func(*testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(2 * time.Second) }) // the library's window of dead letters ends
		test(t)
	})
}

func TestAWorkerRunsWhatItIsGiven(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := play(t, &act{traits: lives}, nil)
		s.is(lifecycle.Ready)
		first, second := s.rows.add(nil), s.rows.add(nil)
		s.give(first)
		s.is(lifecycle.Busy)
		s.give(second)
		require.Equal(t, messages.Scheduled, s.rows.get(second).Status, "slot first, then claim")
		s.ends(first, ok())
		require.Equal(t, messages.Completed, s.rows.get(first).Status)
		require.Equal(t, [][]string{{"claim"}, {"finish", "claim"}}, s.rows.transactions(), "a finish and the next claim are one transaction")
		require.Len(t, s.act.ran(), 2)
		s.ends(second, failed(&messages.Error{Code: "no", Message: "no"}))
		s.is(lifecycle.Ready)
		require.Equal(t, messages.Failed, s.rows.get(second).Status)
		report := s.cell.Read().Report
		require.EqualValues(t, 2, report.TotalExecutions)
		require.EqualValues(t, 1, report.FailedExecutions)
		require.Zero(t, report.ConsecutiveFailures, "an action's error is never held against the worker")
		s.stays()
	})
}

// A delivery may come twice, before, while and after its placement runs; it runs once.
func TestARedeliveredPlacementRunsOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := play(t, &act{traits: lives}, nil)
		p, other := s.rows.add(nil), s.rows.add(nil)
		s.rows.close()
		s.send(&Execute{Placements: []messages.Placement{p, p}, Ahead: 8})
		s.send(&Execute{Placements: []messages.Placement{p}, Ahead: 8}) // its claim is under way
		s.rows.open()
		s.settle()
		s.send(&Execute{Placements: []messages.Placement{p, other}, Ahead: 8}) // it runs
		require.Len(t, s.act.ran(), 1)
		s.ends(p, ok())
		s.ends(other, ok())
		s.send(&Execute{Placements: []messages.Placement{p}, Ahead: 8}) // it has ended
		require.Len(t, s.act.ran(), 2)
		require.Equal(t, messages.Completed, s.rows.get(p).Status)
		s.is(lifecycle.Ready)
	})
}

// An action that this node does not serve may be served by another one: the worker hands its execution back, and ends it only after long.
func TestAnActionThatIsNotServedIsHandedBack(t *testing.T) {
	for name, c := range map[string]struct {
		since  time.Duration // its first placement
		status messages.Status
	}{
		"just placed": {0, messages.Requested}, "placed long ago": {2 * time.Hour, messages.Failed}, "an hour, but for a second": {time.Hour - time.Second, messages.Requested},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := play(t, &act{traits: lives}, nil)
				p := s.rows.add(func(e *messages.Execution) { e.Action, e.FirstPlacedAt = "gone", time.Now().Add(-c.since) })
				s.give(p)
				e := s.rows.get(p)
				require.Equal(t, c.status, e.Status)
				if c.status == messages.Failed {
					require.Equal(t, messages.CodeNoNodeServes, e.Error.Code)
				}
				require.Zero(t, e.CrashCount)
				require.Empty(t, s.act.ran())
				s.is(lifecycle.Ready)
			})
		})
	}
}

func TestThreeFaultsDegradeAndAProbeRestores(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &act{traits: lives}
		s := play(t, a, nil)
		for range 3 {
			s.is(lifecycle.Ready)
			s.ends(s.runs(nil), fault())
		}
		s.is(lifecycle.Degraded)
		last := s.runs(nil) // the last resort
		before := a.probed()
		s.ends(last, ok())
		require.Greater(t, a.probed(), before, "a check-in after a degraded checkout probes first")
		s.is(lifecycle.Ready)
		_, healthNow := s.state()
		require.Equal(t, "healthy", healthNow)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		s.is(lifecycle.Ready)
	})
}

func TestADegradedWorkerIsProbedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &act{traits: lives, sick: errors.New("ill")}
		s := play(t, a, nil)
		s.send(&Probe{})
		s.is(lifecycle.Degraded)
		time.Sleep(5*time.Second + time.Millisecond)
		synctest.Wait()
		require.Equal(t, 2, a.probed())
		a.change(func() { a.sick = nil })
		time.Sleep(5 * time.Second)
		synctest.Wait()
		s.is(lifecycle.Ready)
		require.Equal(t, 3, a.probed())
	})
}

func TestThreeFailedProbesEndTheWorker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &act{traits: lives, probing: true} // never answers
		s := play(t, a, nil)
		s.send(&Probe{})
		time.Sleep(30 * time.Second)
		synctest.Wait()
		require.Equal(t, 3, a.probed())
		s.is(lifecycle.Terminating)
		require.Contains(t, a.did(), process.StepShutdown)
		a.dies(&gone{})
		synctest.Wait()
		require.Equal(t, lifecycle.CauseHealthCheckLimit, s.over().Cause)
		require.False(t, s.over().Wanted)
	})
}

func TestFailedProbesNeverEndABusyWorker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &act{traits: lives, sick: errors.New("ill")}
		s := play(t, a, nil)
		p := s.runs(func(e *messages.Execution) { e.Timeout = time.Hour })
		s.send(&Probe{})
		time.Sleep(time.Minute)
		synctest.Wait()
		s.is(lifecycle.Busy)
		_, health := s.state()
		require.Equal(t, "unhealthy", health)
		require.LessOrEqual(t, a.probed(), 14, "one probe every five seconds, whatever failed")
		a.change(func() { a.sick = nil })
		time.Sleep(6 * time.Second)
		s.ends(p, ok())
		s.is(lifecycle.Ready)
	})
}

// While a check-in waits for its probe anything may happen; the worker must neither hang nor take two decisions.
func TestAHeldCheckin(t *testing.T) {
	held := func(t *testing.T) (*stage, *act) {
		a := &act{traits: lives, sick: errors.New("ill")}
		s := play(t, a, nil)
		s.send(&Probe{})
		s.is(lifecycle.Degraded)
		time.Sleep(time.Second) // so that the next regular probe does not meet the end of the one at check-in
		p := s.runs(nil)
		a.change(func() { a.probing = true })
		s.ends(p, ok())
		require.Equal(t, messages.Completed, s.rows.get(p).Status, "an outcome waits for no probe")
		s.is(lifecycle.Busy)
		return s, a
	}
	answer := func(s *stage, a *act, err error) {
		a.mu.Lock()
		id := a.probes[len(a.probes)-1]
		a.mu.Unlock()
		s.send(&probed{id: id, err: err})
	}
	for name, c := range map[string]struct {
		then func(*stage, *act)
		want lifecycle.State
	}{
		"passes":        {func(s *stage, a *act) { answer(s, a, nil) }, lifecycle.Ready},
		"fails":         {func(s *stage, a *act) { answer(s, a, errors.New("still ill")) }, lifecycle.Degraded},
		"is late":       {func(s *stage, a *act) { time.Sleep(5*time.Second + time.Millisecond); s.settle() }, lifecycle.Degraded},
		"cannot answer": {func(s *stage, a *act) { answer(s, a, errCannotAnswer); answer(s, a, nil) }, lifecycle.Ready},
		"retired":       {func(s *stage, a *act) { s.send(&Retire{Reason: lifecycle.Shutdown}) }, lifecycle.Terminating},
		"halted":        {func(s *stage, a *act) { s.send(&Halt{Reason: lifecycle.Terminate}); answer(s, a, nil) }, lifecycle.Terminating},
		"dead":          {func(s *stage, a *act) { a.dies(&gone{}); s.settle(); answer(s, a, nil) }, lifecycle.Terminated},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s, a := held(t)
				c.then(s, a)
				s.is(c.want)
				if c.want == lifecycle.Terminating {
					a.dies(&gone{})
					synctest.Wait()
				}
				if c.want >= lifecycle.Terminating {
					s.over()
					return
				}
				a.change(func() { a.probing, a.sick = false, nil })
				s.ends(s.runs(nil), ok())
				s.is(lifecycle.Ready)
			})
		})
	}
}

func TestAProbeThatCannotBeAnsweredIsMadeAtCheckin(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &act{traits: lives, sick: errCannotAnswer}
		s := play(t, a, nil)
		p := s.runs(nil)
		s.send(&Probe{})
		a.change(func() { a.sick = nil })
		s.ends(p, ok())
		require.Equal(t, 2, a.probed())
		s.is(lifecycle.Ready)
	})
}

func TestProbeQuestionsAreAnswered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &act{traits: lives, probing: true}
		s := play(t, a, nil)
		wait, q := NewQuestion[struct{}, string](struct{}{})
		s.send(&Probe{Answer: q})
		for range probeAnswersMax {
			_, more := NewQuestion[struct{}, string](struct{}{})
			s.send(&Probe{Answer: more})
		}
		require.Equal(t, 1, a.probed(), "one probe at a time")
		crowd, over := NewQuestion[struct{}, string](struct{}{})
		s.send(&Probe{Answer: over})
		_, err := crowd(t.Context())
		require.ErrorIs(t, err, errProbeCrowd)
		s.send(&Halt{Reason: lifecycle.Terminate, Why: "enough"})
		answer, err := wait(t.Context())
		require.NoError(t, err)
		require.Contains(t, answer, "enough")
	})
}

func TestEchoAndInspection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := play(t, &act{traits: lives}, nil)
		p := s.runs(nil)
		s.send(&Echo{ID: "7"})
		require.Equal(t, "7", of[*EchoAnswered](s.pool)[0].ID, "busy or not")
		seen, err := Ask[Inspect, Inspection](t.Context(), s.system, s.worker, Inspect{})
		require.NoError(t, err)
		require.Equal(t, p.Execution, seen.Execution)
		require.Equal(t, lifecycle.Busy, seen.State)
		require.Equal(t, lifecycle.Checkout, seen.History[0].Reason)
		s.send(&EndSession{Session: "s", Epoch: 1})
		s.act.change(func() { require.Equal(t, []string{"s"}, s.act.ends) })
	})
}
