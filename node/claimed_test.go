package node_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
)

// forgetful is a store that stores what is submitted with a claim and, once told to, says that nobody knows whether it has.
type forgetful struct {
	store.Store
	forgets atomic.Bool
	forgot  atomic.Pointer[messages.Execution]
}

func (f *forgetful) wrap(inner store.Store) store.Store {
	f.Store = inner
	return f
}

func (f *forgetful) SubmitPlaced(ctx context.Context, e []messages.Execution, p []*store.Place) ([]store.Submitted, error) {
	out, err := f.Store.SubmitPlaced(ctx, e, p)
	if err == nil && len(p) > 0 && f.forgets.CompareAndSwap(true, false) {
		f.forgot.Store(&out[0].Execution)
		return nil, fmt.Errorf("submit: %w: the answer is lost", store.ErrUnavailable)
	}
	return out, err
}

// The insert of an execution carries the claim of an idle worker of the node. One that finds no idle worker waits. One of which nobody knows
// whether it was stored is given back as never started, and runs once.
func TestAnIdleWorkersClaimIsStoredWithTheExecution(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, change func(*node.Config)) {
		gate, rows := newGate(), &forgetful{}
		k := lab(t, func(c *node.Config) {
			change(c)
			handle(map[string]messages.Handler{"gate": gate.run})(c)
			c.WrapStore, c.Workers["go"] = rows.wrap, 1
		}, goPack(t, map[string]string{"gate": ""}))
		var stored store.Submitted
		var awaited api.Awaited
		var err error
		k.until("an idle worker", func() bool {
			stored, awaited, err = k.SubmitAwaited(t.Context(), ask("t.gate", nil))
			require.NoError(t, err)
			if stored.Execution.Status == messages.Running {
				return true
			}
			awaited.Leave() // the router looks at the store for what waits
			gate.next(t)
			gate.open <- struct{}{}
			return false
		})
		defer awaited.Leave()
		e := stored.Execution
		require.Equal(t, []any{messages.Running, messages.Attempt(1)}, []any{e.Status, e.Attempt})
		require.Equal(t, e.RequestedAt, e.StartedAt, "it was claimed as it was stored")
		require.Equal(t, e.ID, gate.next(t).ID)
		behind, err := k.Submit(t.Context(), []submit.Request{ask("t.gate", nil)})
		require.NoError(t, err)
		require.Equal(t, messages.Requested, behind[0].Execution.Status, "no worker is idle")
		gate.open <- struct{}{}
		ended, err := awaited.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, messages.Completed, ended.Status)
		gate.next(t)
		gate.open <- struct{}{}
		require.Equal(t, messages.Completed, k.await(behind[0].Execution.ID).Status)

		rows.forgets.Store(true)
		k.until("an idle worker", func() bool {
			_, err = k.Submit(t.Context(), []submit.Request{ask("t.gate", nil)})
			if err == nil { // the worker was not idle yet
				gate.next(t)
				gate.open <- struct{}{}
			}
			return err != nil
		})
		require.ErrorIs(t, err, store.ErrUnavailable)
		lost := rows.forgot.Load()
		require.Equal(t, messages.Running, lost.Status)
		again := gate.next(t)
		require.Equal(t, messages.Placement{Execution: lost.ID, Attempt: 2}, messages.Placement{Execution: again.ID, Attempt: again.Attempt})
		gate.open <- struct{}{}
		ended = k.await(lost.ID)
		require.Equal(t, []any{messages.Completed, 0}, []any{ended.Status, ended.CrashCount}, "it never started before")
	})
}

// together is a store in which submissions meet: none is stored before as many have come as were asked for.
type together struct {
	store.Store
	meets  atomic.Pointer[sync.WaitGroup]
	placed atomic.Int32 // how many came with a placement
}

func (m *together) wrap(inner store.Store) store.Store {
	m.Store = inner
	return m
}

func (m *together) SubmitPlaced(ctx context.Context, e []messages.Execution, p []*store.Place) ([]store.Submitted, error) {
	if meets := m.meets.Load(); meets != nil {
		m.placed.Add(int32(len(p)))
		meets.Done()
		meets.Wait()
	}
	return m.Store.SubmitPlaced(ctx, e, p)
}

// meet makes so many calls submit at once, and returns for how many of them a worker was named first.
func (m *together) meet(calls int, submit func()) int {
	var meets, ended sync.WaitGroup
	meets.Add(calls)
	m.placed.Store(0)
	m.meets.Store(&meets)
	for range calls {
		ended.Go(submit)
	}
	ended.Wait()
	m.meets.Store(nil)
	return int(m.placed.Load())
}

// Of many calls that submit at once and do not wait for the outcome, no more than five ask for an idle worker first. Each that waits asks.
func TestManyCallsThatDoNotWaitAskForNoWorker(t *testing.T) {
	t.Parallel()
	const calls = 12
	rows := &together{}
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"quick": func(context.Context, *messages.Task) (any, error) { return nil, nil }})(c)
		c.WrapStore, c.Workers["go"] = rows.wrap, calls
	}, goPack(t, map[string]string{"quick": ""}))
	most := 0
	passing := func() { // each round finds the workers idle that the one before used
		submitted, err := k.Submit(t.Context(), []submit.Request{ask("t.quick", nil)})
		if assert.NoError(t, err) {
			ended, err := k.Wait(t.Context(), submitted[0].Execution.ID)
			assert.NoError(t, err)
			assert.Equal(t, messages.Completed, ended.Status)
		}
	}
	k.until("five that do not wait ask", func() bool {
		asked := rows.meet(calls, passing)
		require.LessOrEqual(t, asked, 5)
		most = max(most, asked)
		return most == 5
	})
	k.until("all that wait ask", func() bool {
		return calls == rows.meet(calls, func() {
			e, awaited, err := k.SubmitAwaited(t.Context(), ask("t.quick", nil))
			if assert.NoError(t, err) {
				defer awaited.Leave()
				ended, err := awaited.Wait(t.Context())
				assert.NoError(t, err)
				assert.Equal(t, []any{e.Execution.ID, messages.Completed}, []any{ended.ID, ended.Status})
			}
		})
	})
}
