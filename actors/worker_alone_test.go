package actors

import (
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/process"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/test/still"
)

// alone is a worker without an actor: a test calls what its mailbox would, and reads what it sends.
type alone struct {
	*Worker
	world   *still.World
	act     *act
	sent    []any
	stopped bool
}

func (a *alone) Send(_ *actor.PID, message any) { a.sent = append(a.sent, message) }
func (a *alone) Stop(*actor.PID)                { a.stopped = true }

// lonely starts a worker alone.
func lonely(script *act) *alone {
	a := &alone{world: still.New(), act: script}
	action := &messages.Action{Ref: "act", Pool: "pool"}
	cfg := &WorkerConfig{
		PoolName: "pool", Logger: hclog.NewNullLogger(), Feeds: NewFeeds(), InitTimeout: 30 * time.Second, ProbeTimeout: 5 * time.Second,
		Runner: func(*WorkerConfig, messages.WorkerID, messages.Generation) Runner { return script },
		Action: func(string, string) (*messages.Action, bool) { return action, true },
	}
	a.Worker = newWorker(cfg, 0, 1, "node/pool/0", &Cell{})
	a.out = a
	a.Worker.start(&actor.PID{Id: "worker"}, a.world)
	return a
}

// records are the changes that the worker has asked for since the last look.
func (a *alone) records() (changes []store.Change) {
	for _, m := range a.sent {
		if r, ok := m.(*Record); ok {
			for i := range r.Items {
				changes = append(changes, r.Items[i].Change)
			}
		}
	}
	a.sent = nil
	return changes
}

// runs has the worker claim and begin an execution.
func (a *alone) runs(t *testing.T, e *messages.Execution) {
	t.Helper()
	e.ID, e.Attempt, e.Status, e.Action = messages.NewExecutionID(), 1, messages.Running, "act"
	a.execute(&Execute{Placements: []messages.Placement{e.Placement()}, Ahead: 1})
	changes := a.records()
	require.Len(t, changes, 1)
	a.recorded(&Recorded{Items: []Item{a.item(changes[0])}, Results: []store.Result{{Verdict: store.Applied, Execution: e}}})
	require.Len(t, a.act.ran(), 1)
}

// A worker can be driven message by message, in a time that the test moves.
func TestAWorkerAloneStopsARunThatGivesNoSign(t *testing.T) {
	t.Parallel()
	a := lonely(&act{traits: lives, pid: 1, silent: true})
	a.begun(&begun{})
	e := &messages.Execution{StallTimeout: 10 * time.Second, Timeout: time.Minute}
	a.runs(t, e)
	for range 5 {
		a.world.Pass(9 * time.Second)
		a.slot.signed()
	}
	a.world.Pass(10*time.Second - time.Nanosecond)
	require.Empty(t, a.act.did())
	a.world.Pass(time.Nanosecond)
	require.Equal(t, []process.Step{process.StepCancel}, a.act.did())
	a.world.Pass(10 * time.Second)
	require.Equal(t, []process.Step{process.StepCancel, process.StepTerminate, process.StepKill}, a.act.did())
	a.gone(&gone{running: e.Placement()})
	require.Equal(t, messages.CodeStalled, a.records()[0].(*store.Finish).Outcome.Error.Code)
	require.True(t, a.stopped)
	require.Equal(t, lifecycle.Terminated, a.condition.machine.State())
}

// A snapshot is read beside the worker. A run that is stopped meanwhile never reaches its runner.
func TestAWorkerAloneDropsARunThatIsStoppedBeforeItsState(t *testing.T) {
	t.Parallel()
	traits := lives
	traits.Snapshots = true
	a := lonely(&act{traits: traits, pid: 1, silent: true})
	a.cfg.Sessions = &shelf{row: store.Session{Runs: 1, SnapshotEpoch: 1, SnapshotRuns: 1}, state: []byte(`1`)}
	a.begun(&begun{})
	e := &messages.Execution{
		ID: messages.NewExecutionID(), Attempt: 1, Status: messages.Running, Action: "act",
		Session: "s", SessionEpoch: 2, SessionHit: true, SessionLost: true,
	}
	a.queue.claimed = []*messages.Execution{e}
	a.next(nil)
	require.Equal(t, 1, a.world.Busy())
	a.cancel(&CancelRun{Placement: e.Placement(), By: "ann"})
	a.world.Answer()
	require.Empty(t, a.act.ran())
	a.sent = nil
	a.world.Pass(0)
	changes := a.records()
	finish := changes[0].(*store.Finish)
	require.Equal(t, messages.Cancelled, finish.Outcome.Status)
	require.True(t, finish.NeverRan, "the next run is given the state")
	require.True(t, a.slot.free())
}

// A worker that is to hold its claims keeps what is delivered, begins what is claimed, and claims once it may again.
func TestAWorkerAloneHoldsItsClaims(t *testing.T) {
	t.Parallel()
	a := lonely(&act{traits: lives, pid: 1, silent: true})
	a.holdClaims(&HoldClaims{Hold: true})
	a.begun(&begun{})
	kept, dropped := claimedFor("act").Placement(), claimedFor("act").Placement()
	for range 2 { // the message comes twice
		a.execute(&Execute{Placements: []messages.Placement{kept, dropped}, Ahead: 1})
	}
	require.Empty(t, a.records())
	require.Len(t, a.queue.delivered, 2)
	a.queue.drop(dropped)
	a.take(&Take{Execution: claimedFor("act"), Number: 1})
	require.Len(t, a.act.ran(), 1, "its claim is stored")
	a.ended(&ended{placement: a.slot.run.Placement(), outcome: completed(nil)})
	require.Len(t, a.records(), 1, "the end of the run alone")
	a.recorded(&Recorded{Items: []Item{a.item(&store.Finish{})}, Results: []store.Result{{Verdict: store.Applied}}})
	require.Empty(t, a.records())

	a.holdClaims(&HoldClaims{})
	changes := a.records()
	require.Len(t, changes, 1)
	require.Equal(t, kept.Execution, changes[0].(*store.Claim).ID)

	a = lonely(&act{traits: lives, pid: 1, silent: true})
	a.holdClaims(&HoldClaims{Hold: true})
	a.begun(&begun{})
	a.execute(&Execute{Placements: []messages.Placement{kept}, Ahead: 1})
	a.halt(&Halt{Reason: lifecycle.Shutdown})
	a.holdClaims(&HoldClaims{})
	require.Empty(t, a.records(), "it leaves: the pool takes it back")
}
