package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/store"
)

// shelf is the sessions part of a store, in memory, for bubbles of fake time.
type shelf struct {
	store.Sessions
	mu    sync.Mutex
	row   store.Session
	state json.RawMessage
	saved []store.SessionRef
	gate  chan struct{} // where set, each save waits for it
	err   error

	tries   []store.StateTry
	trouble store.StateTrouble
}

func (s *shelf) SaveSnapshot(ctx context.Context, ref store.SessionRef, state json.RawMessage) error {
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved = append(s.saved, ref)
	s.state = state
	return s.err
}

func (s *shelf) GetSession(context.Context, string, string) (store.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.row, nil
}

func (s *shelf) Snapshot(context.Context, string, string) (json.RawMessage, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.row.SnapshotEpoch, nil
}

// TryState counts the tries of placements.
func (s *shelf) TryState(_ context.Context, t store.StateTry) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries = append(s.tries, t)
	return len(s.tries), nil
}

func (s *shelf) StateAnswered(context.Context, string, string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries = nil
	return nil
}

func (s *shelf) StateTrouble(context.Context, string, string) (store.StateTrouble, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trouble, nil
}

// counted is how many tries are counted.
func (s *shelf) counted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tries)
}

func (s *shelf) refs() []store.SessionRef {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]store.SessionRef(nil), s.saved...)
}

// keeper is a stage whose runner can give its sessions' states away.
type keeper struct {
	*stage
	shelf   *shelf
	results []string
}

func keeping(t *testing.T, every int) *keeper {
	k := &keeper{shelf: &shelf{}}
	var mu sync.Mutex
	traits := lives
	traits.Snapshots = true
	k.stage = play(t, &act{traits: traits}, func(c *WorkerConfig) {
		c.Sessions, c.SnapshotEvery = k.shelf, every
		c.Snapshots = func(_, result string) {
			mu.Lock()
			defer mu.Unlock()
			k.results = append(k.results, result)
		}
	})
	return k
}

func aSession(epoch int64) func(*messages.Execution) {
	return func(e *messages.Execution) { e.Session, e.SessionEpoch, e.SessionHit = "s", epoch, true }
}

func (k *keeper) asked() int {
	k.act.mu.Lock()
	defer k.act.mu.Unlock()
	return len(k.act.asks)
}

// answers gives the state for the latest question.
func (k *keeper) answers(epoch int64, state string) {
	k.t.Helper()
	k.act.mu.Lock()
	id := k.act.askIDs[len(k.act.askIDs)-1]
	k.act.mu.Unlock()
	k.send(&snapshot{id: id, session: "s", epoch: epoch, state: json.RawMessage(state)})
}

func TestASnapshotIsTakenBetweenTwoRuns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := keeping(t, 2)
		k.ends(k.runs(aSession(1)), ok())
		require.Zero(t, k.asked(), "not yet due")
		k.ends(k.runs(aSession(1)), ok())
		require.Equal(t, 1, k.asked())
		next := k.rows.add(aSession(1))
		k.give(next)
		require.Len(t, k.act.ran(), 2, "the next run waits for the answer")
		k.answers(1, `{"n":2}`)
		require.Len(t, k.act.ran(), 3)
		require.Equal(t, []store.SessionRef{{Pool: "pool", Session: "s", Epoch: 1, Runs: 2}}, k.shelf.refs())
		require.Equal(t, []string{KeptSaved}, k.results)
		k.ends(next, lost("crash", "", ""))
		require.Equal(t, 1, k.asked(), "a run that took its worker along left nothing")
	})
}

// Only what was written counts as in the state's mark, and what the state lacks is never claimed.
func TestASnapshotsMarkIsOfWrittenFinishes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := keeping(t, 1)
		p := k.runs(aSession(3))
		k.rows.set(p, messages.Abandoned) // a sweep has ended it meanwhile
		k.ends(p, ok())
		require.Zero(t, k.asked(), "a finish that came too late is in nobody's count")
		k.ends(k.runs(aSession(3)), ok())
		k.answers(3, `1`)
		missed := k.runs(func(e *messages.Execution) { e.Session, e.SessionEpoch = "s", 3 })
		k.ends(missed, ok())
		require.Equal(t, 1, k.asked(), "a hint that missed is no run of the session's state")
		k.send(&ended{placement: k.runs(aSession(4)), outcome: failed(&messages.Error{Code: "no", Message: "no"}), neverRan: true})
		require.Equal(t, 1, k.asked(), "a run that its code never heard of left nothing")
		k.ends(k.runs(aSession(4)), failed(&messages.Error{Code: "no", Message: "no"}))
		k.answers(4, `2`)
		require.Equal(t, []store.SessionRef{{Pool: "pool", Session: "s", Epoch: 3, Runs: 1}, {Pool: "pool", Session: "s", Epoch: 4, Runs: 1}}, k.shelf.refs())
		k.send(&EndSession{Session: "s", Epoch: 4})
		require.Equal(t, []string{"s"}, k.act.ends)
	})
}

func TestNoSnapshotHoldsTheNextRunForLong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := keeping(t, 1)
		k.ends(k.runs(aSession(1)), ok())
		next := k.rows.add(aSession(1))
		k.give(next)
		require.Len(t, k.act.ran(), 1)
		time.Sleep(k.cfg.KeepWithin)
		synctest.Wait()
		require.Len(t, k.act.ran(), 2, "the bound is up")
		k.answers(1, `1`)
		require.Empty(t, k.shelf.refs(), "what comes then may be of a later state")
		require.Equal(t, []string{KeptLate}, k.results)
		k.ends(next, ok())
		k.answers(1, `"`+strings.Repeat("x", keepMax)+`"`)
		require.Equal(t, []string{KeptLate, KeptTooLarge}, k.results)

		k.shelf.gate = make(chan struct{})
		k.ends(k.runs(aSession(1)), ok())
		k.answers(1, `3`)
		k.ends(k.runs(aSession(1)), ok())
		require.Equal(t, KeptBusy, k.results[2], "one is written at a time")
		close(k.shelf.gate)
		synctest.Wait()
		k.ends(k.runs(aSession(1)), ok())
		k.send(&snapshot{id: k.act.askIDs[len(k.act.askIDs)-1], session: "s", epoch: 1, err: errors.New("no JSON")})
		k.ends(k.runs(aSession(1)), ok())
		k.answers(1, `null`)
		require.Equal(t, []string{KeptLate, KeptTooLarge, KeptBusy, KeptSaved, KeptRefused, KeptEmpty}, k.results)
		require.Equal(t, []store.SessionRef{{Pool: "pool", Session: "s", Epoch: 1, Runs: 3}}, k.shelf.refs())
		k.is(lifecycle.Ready)
	})
}

// While the store is away a finish is not written, so no state of it is asked for, and claimed work goes on.
func TestASnapshotWaitsForItsFinish(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := keeping(t, 1)
		k.ends(k.runs(nil), ok()) // it is short, as others will be
		first, second := k.rows.add(aSession(1)), k.rows.add(aSession(1))
		k.send(&Execute{Placements: []messages.Placement{first, second}, Ahead: 2})
		k.rows.close()
		k.ends(first, ok())
		require.Zero(t, k.asked())
		require.Len(t, k.act.ran(), 2)
		time.Sleep(k.cfg.KeepWithin)
		synctest.Wait()
		require.Len(t, k.act.ran(), 3)
		k.rows.open()
		synctest.Wait()
		require.Zero(t, k.asked(), "its moment has passed")
		k.ends(second, ok())
		k.answers(1, `2`)
		require.Equal(t, int64(2), k.shelf.refs()[0].Runs)
	})
}

func TestALeavingWorkerMarksItsSnapshots(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := keeping(t, 0)
		k.ends(k.runs(aSession(1)), ok())
		p := k.runs(aSession(1))
		k.rows.close()
		k.send(&Retire{Reason: lifecycle.Shutdown, Why: "enough", Sessions: []store.SessionRef{{Pool: "pool", Session: "s", Epoch: 1}}})
		k.ends(p, ok())
		require.Zero(t, k.asked(), "not before the last finish is written")
		k.rows.open()
		synctest.Wait()
		require.Equal(t, 1, k.asked())
		k.answers(1, `2`)
		require.Equal(t, []store.SessionRef{{Pool: "pool", Session: "s", Epoch: 1, Runs: 2}}, k.shelf.refs())
		k.is(lifecycle.Terminating)
	})
}

// Where nothing has finished since a loss was told, a state that is kept would count as all that had finished before.
func TestALeavingWorkerKeepsNoStateThatHidesALoss(t *testing.T) {
	for name, c := range map[string]struct{ lost, restored, finished, kept bool }{
		"told and stopped":     {lost: true},
		"not told":             {kept: true},
		"restored and stopped": {lost: true, restored: true, kept: true},
		"told and finished":    {lost: true, finished: true, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				k := keeping(t, 0)
				of := func(e *messages.Execution) {
					aSession(2)(e)
					e.SessionLost, e.Idempotent = c.lost, true
				}
				if c.finished {
					k.ends(k.runs(of), ok())
				}
				p := k.runs(of)
				k.send(&Retire{Reason: lifecycle.Shutdown, Why: "enough", Sessions: []store.SessionRef{{Pool: "pool", Session: "s", Epoch: 2}}})
				k.send(&Halt{Reason: lifecycle.Shutdown, Code: messages.CodeNodeShutdown, Why: "over"})
				k.send(&ended{placement: p, outcome: failed(&messages.Error{Code: messages.CodeCancelled}), restored: c.restored})
				require.Equal(t, messages.Requested, k.rows.get(p).Status)
				if !c.kept {
					require.Zero(t, k.asked())
					require.Equal(t, []string{KeptRefused}, k.results)
					return
				}
				require.Equal(t, 1, k.asked())
				k.answers(2, `1`)
				require.Len(t, k.shelf.refs(), 1)
			})
		})
	}
}

func TestALeavingWorkerWaitsForNoStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := keeping(t, 0)
		p := k.runs(aSession(1))
		k.rows.close()
		k.send(&Retire{Reason: lifecycle.Shutdown, Why: "enough", Sessions: []store.SessionRef{{Pool: "pool", Session: "s", Epoch: 1}}})
		k.ends(p, ok())
		k.is(lifecycle.Ready)
		time.Sleep(k.cfg.ProbeTimeout)
		synctest.Wait()
		k.is(lifecycle.Terminating)
		require.Zero(t, k.asked())
		k.rows.open()
	})
}

func TestWhatASessionIsGivenBack(t *testing.T) {
	for name, c := range map[string]struct {
		row    store.Session
		state  bool
		behind int64
	}{
		"nothing kept":             {row: store.Session{Epoch: 2, Runs: 3}},
		"all that finished":        {row: store.Session{Epoch: 2, Runs: 3, SnapshotEpoch: 1, SnapshotRuns: 3, FinishedEpoch: 1}, state: true},
		"less":                     {row: store.Session{Epoch: 2, Runs: 5, SnapshotEpoch: 1, SnapshotRuns: 3, FinishedEpoch: 1}, state: true, behind: 2},
		"its state is newer, here": {row: store.Session{Epoch: 2, Runs: 4, SnapshotEpoch: 1, SnapshotRuns: 3, FinishedEpoch: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				k := keeping(t, 0)
				k.shelf.row, k.shelf.state = c.row, json.RawMessage(`1`)
				told := func(e *messages.Execution) { aSession(2)(e); e.SessionLost = true }
				p := k.rows.add(told)
				k.give(p)
				r := k.act.ran()[0]
				require.Equal(t, c.state, r.Restore != nil)
				require.Equal(t, c.behind, r.Behind)
				k.send(&ended{placement: p, outcome: failed(&messages.Error{Code: messages.CodeTooLarge}), neverRan: true})
				p = k.runs(told)
				require.Equal(t, r.Restore, k.act.ran()[1].Restore, "the run before never came to its code")
				require.Equal(t, c.behind, k.act.ran()[1].Behind)
				k.ends(p, ok())
				p = k.runs(told)
				require.Nil(t, k.act.ran()[2].Restore, "a state that lives is not overwritten")
				k.send(&ended{placement: p, outcome: failed(&messages.Error{Code: messages.CodeTooLarge}), neverRan: true})
				k.runs(told)
				require.Nil(t, k.act.ran()[3].Restore, "whatever a later run comes to")
			})
		})
	}
}

// A state that is given back is counted until the program answers. Its death before that is the state's, and so is a program that hangs. Where
// Troupe itself ends the program, it is nobody's.
func TestATryOfAStateIsCountedUntilItsAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		then    func(k *keeper, p messages.Placement)
		counted int
	}{
		"nothing yet":  {func(*keeper, messages.Placement) {}, 1},
		"it answers":   {func(k *keeper, p messages.Placement) { k.send(&stateAnswered{placement: p}) }, 0},
		"another run":  {func(k *keeper, p messages.Placement) { p.Attempt++; k.send(&stateAnswered{placement: p}) }, 1},
		"it dies":      {func(k *keeper, _ messages.Placement) { k.send(&gone{}) }, 1},
		"it hangs":     {nil, 1},
		"is cancelled": {func(k *keeper, p messages.Placement) { k.send(&CancelRun{Placement: p}) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				k := keeping(t, 0)
				k.shelf.row = store.Session{Epoch: 2, Runs: 3, SnapshotEpoch: 1, SnapshotRuns: 3, FinishedEpoch: 1}
				k.shelf.state = json.RawMessage(`1`)
				p := k.rows.add(func(e *messages.Execution) { aSession(2)(e); e.SessionLost, e.Timeout = true, time.Minute })
				k.give(p)
				require.NotNil(t, k.act.ran()[0].Restore)
				if c.then != nil {
					c.then(k, p)
				} else {
					time.Sleep(time.Hour)
				}
				synctest.Wait()
				require.Equal(t, c.counted, k.shelf.counted())
			})
		})
	}
}

// A state whose restore ends its worker is charged with that, and neither the run nor the pool is: no crash and no restart is counted. The run
// is placed again after a back-off, so that its worker is back before another takes it.
func TestADeathInARestoreIsChargedToTheState(t *testing.T) {
	for name, c := range map[string]struct {
		tries  int
		before func(k *keeper, p messages.Placement)
		hangs  bool // past the run's timeout
		runs   bool // its code has its run
		cause  lifecycle.Cause
		status messages.Status
		wanted bool
		delay  time.Duration
		says   string
	}{
		"the first":         {cause: lifecycle.CauseSessionState, status: messages.Requested, wanted: true, delay: time.Second, says: "while it was restored, 1 of 3 times"},
		"the third":         {tries: 2, cause: lifecycle.CauseSessionState, status: messages.Requested, wanted: true, delay: 4 * time.Second, says: "while it was restored, 3 of 3 times"},
		"it took too long":  {hangs: true, cause: lifecycle.CauseSessionState, status: messages.Requested, wanted: true, delay: time.Second},
		"it had answered":   {before: func(k *keeper, p messages.Placement) { k.send(&stateAnswered{placement: p}) }, runs: true, cause: lifecycle.CausePortFailure, status: messages.Failed},
		"it was cancelled":  {before: func(k *keeper, p messages.Placement) { k.send(&CancelRun{Placement: p}) }, cause: lifecycle.CausePortFailure, status: messages.Cancelled, wanted: true},
		"its node is ended": {before: func(k *keeper, _ messages.Placement) { k.send(&Halt{Reason: lifecycle.Shutdown, Why: "over"}) }, cause: lifecycle.CauseEnding, status: messages.Requested, wanted: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				k := keeping(t, 0)
				k.shelf.row, k.shelf.state = store.Session{SnapshotEpoch: 1, FinishedEpoch: 1}, json.RawMessage(`1`)
				k.shelf.tries = make([]store.StateTry, c.tries)
				p := k.rows.add(func(e *messages.Execution) {
					aSession(2)(e)
					e.SessionLost, e.Idempotent, e.CrashCount = true, true, 2
				})
				k.give(p)
				if c.before != nil {
					c.before(k, p)
				}
				if c.hangs {
					time.Sleep(90 * time.Second)
				}
				m := &gone{}
				if c.runs {
					m.running = p
				}
				k.act.dies(m)
				synctest.Wait()
				e := k.rows.get(p)
				require.Equal(t, c.status, e.Status)
				require.Equal(t, 2, e.CrashCount)
				require.Equal(t, []any{c.cause, c.wanted}, []any{k.over().Cause, k.over().Wanted})
				require.Contains(t, k.over().Why, c.says)
				if c.status == messages.Requested {
					require.Equal(t, c.delay, time.Until(e.RunAt))
				}
			})
		})
	}
}

// A state that was set aside is given to nobody. The run goes on without it, or fails where it may not.
func TestAStateThatWasSetAsideIsGivenToNobody(t *testing.T) {
	aside := &store.AsideState{SessionEpoch: 2}
	for name, c := range map[string]struct {
		affinity messages.Affinity
		row      store.Session
		tries    int
		trouble  store.StateTrouble
		fails    bool
	}{
		"now":                     {messages.AffinityStrict, store.Session{SnapshotEpoch: 1}, 3, store.StateTrouble{}, false},
		"now, strict_fail":        {messages.AffinityStrictFail, store.Session{SnapshotEpoch: 1}, 3, store.StateTrouble{}, true},
		"third, strict_fail":      {messages.AffinityStrictFail, store.Session{SnapshotEpoch: 1}, 2, store.StateTrouble{}, false},
		"before":                  {messages.AffinityStrict, store.Session{}, 0, store.StateTrouble{Aside: aside}, false},
		"before, strict_fail":     {messages.AffinityStrictFail, store.Session{}, 0, store.StateTrouble{Aside: aside}, true},
		"long before":             {messages.AffinityStrictFail, store.Session{}, 0, store.StateTrouble{Aside: &store.AsideState{SessionEpoch: 1}}, false},
		"before, and one has run": {messages.AffinityStrictFail, store.Session{FinishedEpoch: 2}, 0, store.StateTrouble{Aside: aside}, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				k := keeping(t, 0)
				k.shelf.row, k.shelf.state, k.shelf.trouble = c.row, json.RawMessage(`1`), c.trouble
				k.shelf.tries = make([]store.StateTry, c.tries)
				p := k.rows.add(func(e *messages.Execution) { aSession(2)(e); e.SessionLost, e.Affinity = true, c.affinity })
				k.give(p)
				if !c.fails {
					require.Equal(t, c.tries == 2, k.act.ran()[0].Restore != nil)
					return
				}
				synctest.Wait()
				require.Empty(t, k.act.ran())
				e := k.rows.get(p)
				require.Equal(t, messages.Failed, e.Status)
				require.Equal(t, messages.CodeSessionStateBroken, e.Error.Code)
			})
		})
	}
}

// leaves retires the worker with so many sessions; its program answers so many of them, each after the given time.
func (k *keeper) leaves(sessions, answers int, each time.Duration) {
	k.t.Helper()
	var refs []store.SessionRef
	for i := range sessions {
		refs = append(refs, store.SessionRef{Pool: "pool", Session: fmt.Sprint("s", i), Epoch: 1})
	}
	k.send(&Retire{Reason: lifecycle.Shutdown, Why: "enough", Sessions: refs})
	for answered := range answers {
		time.Sleep(each)
		synctest.Wait()
		k.act.mu.Lock()
		open := k.act.asks[answered:]
		k.act.mu.Unlock()
		require.LessOrEqual(k.t, len(open), leavingMax, "states asked for at once")
		k.send(&snapshot{session: open[0], epoch: 1, state: json.RawMessage(`1`)})
	}
}

func TestALeavingWorkersSessionsHaveATimeOfTheirOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := keeping(t, 0)
		k.cfg.LeaveWithin = time.Minute
		k.leaves(240, 240, 60*time.Millisecond)
		require.Len(t, k.shelf.refs(), 240)
		require.Equal(t, slices.Repeat([]string{KeptSaved}, 240), k.results)
		k.is(lifecycle.Terminating)
	})
}

func TestWhatALeavingWorkerCannotKeepIsCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := keeping(t, 0)
		k.cfg.LeaveWithin = 10 * time.Second
		k.leaves(20, 9, time.Second)
		k.is(lifecycle.Ready)
		time.Sleep(time.Second)
		synctest.Wait()
		k.is(lifecycle.Terminating)
		require.Equal(t, append(slices.Repeat([]string{KeptSaved}, 9), slices.Repeat([]string{KeptLate}, 11)...), k.results)
	})
}

func TestTheEndOfAShutdownCutsSnapshotsShort(t *testing.T) {
	bubble(t, func(t *testing.T) {
		k := keeping(t, 0)
		k.cfg.LeaveWithin = time.Minute
		k.send(&Retire{Reason: lifecycle.Shutdown, Why: "enough", Sessions: []store.SessionRef{{Pool: "pool", Session: "s", Epoch: 1}}})
		require.Equal(t, 1, k.asked())
		k.send(&Halt{Reason: lifecycle.Shutdown, Why: "time is up"})
		k.is(lifecycle.Terminating)
		require.Equal(t, []string{KeptLate}, k.results)
	})
}
