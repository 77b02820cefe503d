package roster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// A place in line counts those that go first, and says where it may not know all.
func TestTurn(t *testing.T) {
	t.Parallel()
	r := New(Config{})
	perform(t, r, "0s seen w0 refusing")
	perform(t, r, "0s wake")
	require.True(t, r.loading)
	seq := int64(0)
	hold := func(c messages.Candidate) messages.ExecutionID {
		seq++
		c.ID, c.Seq = messages.NewExecutionID(), seq
		require.True(t, r.hold(&c))
		return c.ID
	}
	strict := messages.Candidate{Priority: 5, Session: "s", Affinity: messages.AffinityStrict}
	first, second, urgent := hold(messages.Candidate{Priority: 5}), hold(messages.Candidate{Priority: 5}), hold(messages.Candidate{Priority: 9})
	head, behind, last := hold(strict), hold(strict), hold(strict)
	require.Equal(t, Turn{Ahead: 1, AtLeast: true, Line: PoolLine}, r.Turn(first, 5, 1), "the store is being read")
	r.loading, r.top = false, false
	for id, want := range map[messages.ExecutionID]Turn{
		urgent: {Line: PoolLine},
		first:  {Ahead: 1, Line: PoolLine},
		second: {Ahead: 2, Line: PoolLine},
		head:   {Ahead: 3, Line: PoolLine},
		behind: {Ahead: 1, Line: SessionLine},
		last:   {Ahead: 2, Line: SessionLine},
	} {
		require.Equal(t, want, r.Turn(id, 0, 0))
	}
	require.Equal(t, Turn{Ahead: 1, AtLeast: true, Line: PoolLine}, r.Turn(messages.NewExecutionID(), 7, 99), "the store has it")
	require.Equal(t, Turn{Ahead: 4, AtLeast: true, Line: PoolLine}, r.Turn(messages.NewExecutionID(), 1, 99))
	r.away = true
	require.True(t, r.Turn(first, 0, 0).AtLeast)
}

// What is placed or backed off stands in no line, and what waits for any worker, or for its session's, in one of its own.
func TestTurnInOtherLines(t *testing.T) {
	t.Parallel()
	r := New(Config{})
	perform(t, r, "0s seen w0")
	perform(t, r, "0s wake")
	perform(t, r, "0s loaded a b")
	require.Equal(t, Turn{}, r.Turn(idOf("a"), 5, 1), "it is being placed")
	r.backed[idOf("z")] = epoch0
	require.Equal(t, Turn{}, r.Turn(idOf("z"), 5, 1))

	empty := New(Config{})
	w, o := &waiter{candidate: messages.Candidate{ID: idOf("w"), Seq: 2}}, &waiter{candidate: messages.Candidate{ID: idOf("o"), Seq: 1}}
	empty.top = false
	empty.held[w.candidate.ID], empty.held[o.candidate.ID] = w, o
	empty.patient.push(w)
	empty.patient.push(o)
	require.Equal(t, Turn{Ahead: 1, Line: AnyWorkerLine}, empty.Turn(idOf("w"), 0, 0))
	empty.patient.remove(w)
	of := queue{worker: &worker{}}
	of.push(w)
	require.Equal(t, Turn{Line: WorkerLine}, empty.Turn(idOf("w"), 0, 0))
}

func TestTurnBehind(t *testing.T) {
	t.Parallel()
	later := epoch0.Add(time.Minute)
	strict := messages.Execution{Status: messages.Requested, RunAt: epoch0, Affinity: messages.AffinityStrict}
	runs, ahead, backed, hint := strict, strict, strict, strict
	runs.Status, ahead.RunAt, hint.Affinity = messages.Running, later, messages.AffinityHint
	backed.RunAt, backed.TakeBacks = later, 5
	require.Equal(t, Turn{Ahead: 3, Line: SessionLine}, TurnBehind([]messages.Execution{strict, runs, ahead, backed, hint}, epoch0, false))
	require.True(t, TurnBehind(nil, epoch0, true).AtLeast)
}

// A look at a long line is bounded.
func TestTurnIsBounded(t *testing.T) {
	t.Parallel()
	r := New(Config{})
	r.top = false
	for i := range TurnMax + 1 {
		c := messages.Candidate{ID: messages.NewExecutionID(), Seq: int64(i + 1)}
		require.True(t, r.hold(&c))
	}
	last := messages.Candidate{ID: messages.NewExecutionID(), Seq: TurnMax + 2}
	require.True(t, r.hold(&last))
	require.Equal(t, Turn{Ahead: TurnMax, AtLeast: true, Line: PoolLine}, r.Turn(last.ID, 0, 0))
}
