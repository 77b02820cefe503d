package node_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

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
