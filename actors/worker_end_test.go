package actors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/lifecycle"
)

func idempotent(e *messages.Execution) { e.Idempotent = true }

func TestATimeoutClimbsTheLadder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &act{traits: lives}
		s := play(t, a, nil)
		p := s.runs(nil)
		for _, c := range []struct {
			after time.Duration
			steps []process.Step
		}{
			{time.Minute - time.Millisecond, nil},
			{time.Millisecond, []process.Step{process.StepCancel}},
			{5 * time.Second, []process.Step{process.StepCancel, process.StepTerminate}},
			{5 * time.Second, []process.Step{process.StepCancel, process.StepTerminate, process.StepKill}},
			{time.Hour, []process.Step{process.StepCancel, process.StepTerminate, process.StepKill}},
		} {
			time.Sleep(c.after)
			synctest.Wait()
			require.Equal(t, c.steps, a.did())
		}
		a.dies(&gone{exit: process.Exit{Code: -1, Signal: "killed", Cause: process.CauseStopped}, running: p})
		synctest.Wait()
		e := s.rows.get(p)
		require.Equal(t, messages.TimedOut, e.Status)
		require.Equal(t, messages.CodeTimeout, e.Error.Code)
		require.Equal(t, "signal: killed", e.Error.Exit)
		require.Equal(t, lifecycle.CauseTimeoutLimit, s.over().Cause)
	})
}

// A run that ends while it is being stopped leaves timers behind; they must not touch the next one.
func TestALateLadderHitsNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &act{traits: lives}
		s := play(t, a, nil)
		first := s.runs(nil)
		s.rows.set(first, messages.Cancelling)
		s.send(&CancelRun{Placement: first, By: "ann"})
		s.ends(first, failed(&messages.Error{Code: "half", Message: "half done"}))
		e := s.rows.get(first)
		require.Equal(t, messages.Cancelled, e.Status)
		require.Equal(t, "cancelled by ann", e.Error.Message)
		require.Contains(t, string(e.Error.Details), "half done")
		second := s.runs(nil)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		require.Equal(t, []process.Step{process.StepCancel}, a.did())
		s.send(&CancelRun{Placement: first})
		require.Equal(t, []process.Step{process.StepCancel}, a.did())
		s.ends(first, ok()) // told twice
		s.is(lifecycle.Busy)
		s.ends(second, ok())
		s.is(lifecycle.Ready)
	})
}

func TestAResultBeatsTheCancel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := play(t, &act{traits: lives}, nil)
		p := s.runs(nil)
		s.send(&CancelRun{Placement: p})
		s.ends(p, ok())
		require.Equal(t, messages.Completed, s.rows.get(p).Status)
		s.is(lifecycle.Ready)
	})
}

// A cancel that another node passes on is logged with the trace of its run, and one of this node's is not logged.
func TestACancelOfAPeerIsLoggedWithItsTrace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		a := &act{traits: lives}
		s := play(t, a, func(c *WorkerConfig) { c.Logger = hclog.New(&hclog.LoggerOptions{Output: &log}) })
		p := s.runs(func(e *messages.Execution) { e.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" })
		peer := messages.NewIncarnation()
		s.send(&CancelRun{Placement: messages.Placement{Execution: p.Execution, Attempt: p.Attempt + 1}, Peer: peer})
		require.NotContains(t, log.String(), "cancelled", "it is not here")
		s.send(&CancelRun{Placement: p, By: "ann", Peer: peer})
		require.Contains(t, log.String(), "run is to be cancelled, says a peer: execution="+p.Execution.String()+
			" trace_id=0af7651916cd43dd8448eb211c80319c attempt=1 worker=node/pool/0 by=ann peer="+peer.String())
		s.send(&CancelRun{Placement: p})
		require.Equal(t, 1, strings.Count(log.String(), "is to be cancelled"))
	})
}

// What is cancelled before its turn never starts, and leaves nothing behind.
func TestCancelBeforeTheStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &act{}
		s := play(t, a, nil)
		s.ends(s.runs(nil), ok()) // it is short, as others will be
		first, ahead, queued := s.runs(idempotent), s.rows.add(idempotent), s.rows.add(idempotent)
		s.send(&Execute{Placements: []messages.Placement{ahead}, Ahead: 2})
		s.send(&Execute{Placements: []messages.Placement{queued}, Ahead: 2})
		require.Equal(t, messages.Running, s.rows.get(ahead).Status)
		s.rows.set(ahead, messages.Cancelling)
		s.send(&CancelRun{Placement: ahead})
		s.send(&CancelRun{Placement: queued})
		s.ends(first, ok())
		require.Len(t, a.ran(), 2)
		require.Empty(t, a.did())
		require.Equal(t, messages.Cancelled, s.rows.get(ahead).Status)
		require.Equal(t, messages.Scheduled, s.rows.get(queued).Status, "the store's own affair")
		s.is(lifecycle.Ready)
	})
}

// What may be repeated is claimed ahead, up to the first that may not; what waits behind a long run goes back.
func TestClaimsAhead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &act{}
		s := play(t, a, nil)
		s.ends(s.runs(nil), ok()) // it is short, as others will be
		first, second, third, once := s.runs(nil), s.rows.add(idempotent), s.rows.add(idempotent), s.rows.add(nil)
		s.send(&Execute{Placements: []messages.Placement{second, third}, Ahead: 8})
		s.send(&Execute{Placements: []messages.Placement{once}, Ahead: 1})
		require.Equal(t, messages.Running, s.rows.get(second).Status)
		require.Equal(t, messages.Running, s.rows.get(third).Status)
		require.Equal(t, messages.Scheduled, s.rows.get(once).Status, "it may not be repeated, and the worker is not free")
		s.ends(first, ok())
		require.Len(t, a.ran(), 3)
		time.Sleep(2 * aheadWait)
		s.settle()
		require.Equal(t, messages.Requested, s.rows.get(third).Status, "the run before it takes long")
		s.ends(second, ok())
		require.Equal(t, messages.Running, s.rows.get(once).Status)
		s.ends(once, ok())
		require.Len(t, a.ran(), 4)
		s.is(lifecycle.Ready)
	})
}

func TestAStalledRunIsStopped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &act{traits: lives}
		s := play(t, a, nil)
		p := s.runs(func(e *messages.Execution) { e.StallTimeout = 10 * time.Second; e.Timeout = 0 })
		for range 5 {
			time.Sleep(9 * time.Second)
			s.send(&sign{})
		}
		require.Empty(t, a.did())
		time.Sleep(9 * time.Second)
		synctest.Wait()
		require.Empty(t, a.did(), "its timer has run out since, and found the signs")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []process.Step{process.StepCancel}, a.did())
		s.ends(p, failed((&messages.Error{Code: messages.CodeCancelled, Message: "cancelled"}).Said()))
		require.Equal(t, messages.CodeStalled, s.rows.get(p).Error.Code)
		require.Equal(t, messages.TimedOut, s.rows.get(p).Status)
		s.is(lifecycle.Terminating)
	})
}

func TestTheProcessEnds(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*messages.Execution)
		m       gone
		before  func(*stage, messages.Placement)
		started bool
		status  messages.Status
		code    messages.Code
		crashes int
		cause   lifecycle.Cause
		wanted  bool
	}{
		"under a run":            {started: true, status: messages.Abandoned, code: messages.CodeWorkerLost, cause: lifecycle.CausePortFailure},
		"under an idempotent":    {change: idempotent, started: true, status: messages.Requested, crashes: 1, cause: lifecycle.CausePortFailure},
		"for the third time":     {change: func(e *messages.Execution) { e.Idempotent, e.CrashCount = true, 2 }, started: true, status: messages.Failed, code: messages.CodePoisoned, crashes: 2, cause: lifecycle.CausePortFailure},
		"before the run began":   {status: messages.Requested, cause: lifecycle.CauseCheckoutFailed},
		"broke the protocol":     {m: gone{broken: "no frame"}, started: true, status: messages.Abandoned, cause: lifecycle.CausePortFailure},
		"killed to be cancelled": {before: func(s *stage, p messages.Placement) { s.send(&CancelRun{Placement: p}) }, started: true, status: messages.Cancelled, code: messages.CodeCancelled, cause: lifecycle.CausePortFailure, wanted: true},
		"killed to be replaced": {before: func(s *stage, _ messages.Placement) {
			s.send(&Halt{Reason: lifecycle.Shutdown, Code: messages.CodeNodeShutdown, Why: "over"})
		}, started: true, status: messages.Abandoned, code: messages.CodeNodeShutdown, cause: lifecycle.CauseEnding, wanted: true},
		"while it was retiring": {before: func(s *stage, _ messages.Placement) { s.send(&Retire{Reason: lifecycle.Shutdown}) }, started: true, status: messages.Abandoned, cause: lifecycle.CausePortFailure},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				a := &act{traits: lives}
				s := play(t, a, nil)
				p := s.runs(c.change)
				if c.before != nil {
					c.before(s, p)
				}
				if c.started {
					c.m.running = p
				}
				a.dies(&c.m)
				synctest.Wait()
				e := s.rows.get(p)
				require.Equal(t, c.status, e.Status)
				require.Equal(t, c.crashes, e.CrashCount)
				if c.code != "" {
					require.Equal(t, c.code, e.Error.Code)
				}
				require.Equal(t, c.cause, s.over().Cause)
				require.Equal(t, c.wanted, s.over().Wanted)
				require.True(t, s.over().WasReady)
			})
		})
	}
}

func TestAnIdempotentRunIsGivenBackAtShutdown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &act{traits: lives}
		s := play(t, a, nil)
		p := s.runs(idempotent)
		s.send(&Halt{Reason: lifecycle.Shutdown, Code: messages.CodeNodeShutdown, Why: "over"})
		s.is(lifecycle.Busy) // a worker leaves busy only when no execution is on it
		a.dies(&gone{running: p})
		synctest.Wait()
		require.Equal(t, messages.Requested, s.rows.get(p).Status)
		require.Zero(t, s.rows.get(p).CrashCount, "a node that stops is no crash")
		require.True(t, s.over().Wanted)
	})
}

func TestAnExecuteThatIsNotTakenIsPlacedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &act{traits: lives}
		s := play(t, a, nil)
		p := s.runs(nil)
		s.send(notTaken(a.ran()[0], process.ErrInputClosed))
		e := s.rows.get(p)
		require.Equal(t, messages.Requested, e.Status)
		require.Zero(t, e.CrashCount)
		a.dies(&gone{})
		synctest.Wait()
		require.Equal(t, lifecycle.CauseCheckoutFailed, s.over().Cause)
	})
}

func TestAnExecuteThatIsTooLargeFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &act{traits: lives}
		s := play(t, a, nil)
		p := s.runs(nil)
		s.send(notTaken(a.ran()[0], process.ErrTooLarge))
		require.Equal(t, messages.CodeTooLarge, s.rows.get(p).Error.Code)
		s.is(lifecycle.Ready)
	})
}

func TestAnIdleProcessEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &act{traits: lives}
		s := play(t, a, nil)
		a.dies(&gone{})
		synctest.Wait()
		require.Equal(t, lifecycle.CausePortFailure, s.over().Cause)
		require.Contains(t, s.over().Why, "exit status 3")
	})
}

func TestTheStartFails(t *testing.T) {
	for name, c := range map[string]struct {
		then  func(*stage, *act)
		cause lifecycle.Cause
		why   string
	}{
		"hello fails":       {func(s *stage, _ *act) { s.send(&begun{err: errors.New("no module")}) }, lifecycle.CauseInitFailed, "worker initialization failed: no module"},
		"hello is late":     {func(s *stage, _ *act) { time.Sleep(30 * time.Second); s.settle() }, lifecycle.CauseInitTimeout, "init timeout"},
		"the process ends":  {func(s *stage, a *act) { a.dies(&gone{stderr: "no such file"}) }, lifecycle.CauseInitFailed, "stderr: no such file"},
		"it is told to end": {func(s *stage, _ *act) { s.send(&Halt{Reason: lifecycle.Terminate, Why: "enough"}) }, lifecycle.CauseEnding, "enough"},
		"it is retired":     {func(s *stage, _ *act) { s.send(&Retire{Reason: lifecycle.Shutdown, Why: "enough"}) }, lifecycle.CauseEnding, "enough"},
	} {
		for _, launched := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					a := &act{traits: lives, silent: true}
					if launched {
						a.pid = 4711
					}
					s := play(t, a, nil)
					p := s.rows.add(nil)
					s.give(p)
					c.then(s, a)
					synctest.Wait()
					if a.Pid() != 0 {
						s.stays()
						require.Equal(t, []process.Step{process.StepTerminate}, a.did(), "one that never was ready knows no shutdown")
						a.dies(&gone{})
						synctest.Wait()
					}
					require.Equal(t, c.cause, s.over().Cause)
					require.Contains(t, s.over().Why, c.why)
					require.False(t, s.over().WasReady)
					require.Equal(t, messages.Scheduled, s.rows.get(p).Status)
					if !launched {
						require.Contains(t, a.did(), process.StepKill, "a process that is only being started must not outlive its worker")
					}
				})
			})
		}
	}
}

// Whatever a worker is told to end by, while its claim is under way: what it claims goes back, none is lost, and only
// then is it gone.
func TestAClaimThatComesTooLateGoesBack(t *testing.T) {
	for name, message := range map[string]any{
		"retire": &Retire{Reason: lifecycle.Shutdown}, "halt": &Halt{Reason: lifecycle.Terminate},
		"hard": &Halt{Reason: lifecycle.Terminate, Hard: true}, "gone": &gone{exit: process.Exit{Cause: process.CauseExit}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				a := &act{traits: lives}
				s := play(t, a, nil)
				p, later := s.rows.add(nil), s.rows.add(nil)
				s.rows.close()
				s.give(p, later)
				if m, dies := message.(*gone); dies {
					a.dies(m)
					synctest.Wait()
				} else {
					s.send(message)
					a.dies(&gone{})
					synctest.Wait()
				}
				s.stays()
				s.give(later)
				s.rows.open()
				synctest.Wait()
				require.Equal(t, messages.Requested, s.rows.get(p).Status)
				require.Zero(t, s.rows.get(p).CrashCount)
				require.Equal(t, messages.Scheduled, s.rows.get(later).Status)
				require.Empty(t, a.ran())
				s.over()
			})
		})
	}
}

func TestARetiredWorkerFinishesItsRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &act{traits: lives}
		s := play(t, a, nil)
		p := s.runs(nil)
		s.send(&Retire{Reason: lifecycle.Shutdown, Why: "enough"})
		s.send(&Retire{Reason: lifecycle.Shutdown, Why: "again"})
		require.Empty(t, a.did())
		s.ends(p, ok())
		require.Equal(t, messages.Completed, s.rows.get(p).Status)
		require.Equal(t, []process.Step{process.StepShutdown}, a.did())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []process.Step{process.StepShutdown, process.StepTerminate}, a.did())
		a.dies(&gone{})
		synctest.Wait()
		require.Equal(t, "enough", s.over().Why)
		require.True(t, s.over().Wanted)
	})
}

func TestAResultMayCloseItsWorker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := &act{traits: lives}
		s := play(t, a, nil)
		p := s.runs(nil)
		s.send(&ended{placement: p, outcome: completed(json.RawMessage(`1`)), close: true})
		s.is(lifecycle.Terminating)
		a.dies(&gone{})
		synctest.Wait()
		require.True(t, s.over().Wanted)
		require.Equal(t, lifecycle.CauseClosedByClient, s.over().Cause)
	})
}

// An actor that is stopped out of turn, by a panic or with its parent, must not leave what it runs behind.
func TestAWorkerThatIsStoppedOutOfTurnKillsItsRunner(t *testing.T) {
	for name, c := range map[string]struct {
		traits Traits
		before func(*stage)
	}{
		"idle":         {lives, func(*stage) {}},
		"busy":         {lives, func(s *stage) { s.runs(nil) }},
		"busy shell":   {Traits{}, func(s *stage) { s.runs(nil) }},
		"halted shell": {Traits{}, func(s *stage) { s.runs(nil); s.send(&Halt{Reason: lifecycle.Shutdown}) }},
		"ending":       {lives, func(s *stage) { s.send(&Halt{Reason: lifecycle.Shutdown}) }},
	} {
		for _, how := range []string{"stop", "crash"} {
			t.Run(name+" "+how, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					a := &act{traits: c.traits}
					s := play(t, a, nil)
					c.before(s)
					if how == "crash" {
						s.send(&Crash{Reason: "test"})
					} else {
						require.NoError(t, s.system.StopAndWait(t.Context(), s.worker))
					}
					synctest.Wait()
					require.Contains(t, a.did(), process.StepKill)
				})
			})
		}
	}
}

// A worker that is killed by an operator kills its program at once, with and without a run, and does not wait for the steps
// of an orderly stop.
func TestAHardHaltKillsAtOnce(t *testing.T) {
	for _, hard := range []bool{true, false} {
		t.Run(fmt.Sprint(hard), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				a := &act{traits: lives}
				s := play(t, a, nil)
				s.runs(nil)
				s.send(&Halt{Reason: lifecycle.Terminate, Hard: hard})
				require.Equal(t, hard, slices.Contains(a.did(), process.StepKill))
				a.dies(&gone{})
				synctest.Wait()
				s.over()
			})
		})
	}
}
