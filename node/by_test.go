package node_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/store"
)

// What an operator does to an execution is an event with the operator's name.
func TestEventsNameTheOperator(t *testing.T) {
	t.Parallel()
	block := newGate()
	k := lab(t, handle(map[string]messages.Handler{"block": block.run, "fail": func(context.Context, *messages.Task) (any, error) {
		return nil, errors.New("it broke")
	}}), goPack(t, map[string]string{"block": "", "fail": ""}), shellPack(t, map[string]string{"sleep": "exec sleep 600"}, ""))

	cancelled := k.submit("t.block", nil)
	block.next(t)
	k.cancel(cancelled)
	close(block.open)
	require.Equal(t, messages.Cancelled, k.await(cancelled).Status)
	require.Equal(t, "ann", k.events(cancelled)["cancel"][0].By)
	require.Contains(t, k.because(cancelled), "it has ended: cancelled, by ann")

	failed := k.run("t.fail", nil)
	_, err := k.Retry(t.Context(), failed.ID, "", "bob")
	require.NoError(t, err)
	require.Equal(t, "bob", k.events(failed.ID)["retry"][0].By)
	require.NotContains(t, k.because(failed.ID), "by bob", "bob did not end it")

	killed := k.submit("sh.sleep", nil)
	e := k.becomes(killed, messages.Running)
	require.NoError(t, k.Backend.KillWorker(t.Context(), e.WorkerID, "ops"))
	require.Equal(t, messages.Abandoned, k.await(killed).Status)
	ended := k.events(killed)["finish"]
	require.Len(t, ended, 1)
	require.Equal(t, "ops", ended[0].By)
	require.Contains(t, k.because(killed), "it has ended: abandoned, by ops")

	_, err = k.Backend.Reload(t.Context(), "eve")
	require.NoError(t, err)
	require.Contains(t, k.log.String(), "packs are read again for an operator: node=test by=eve")
}

// because is what the node says about an execution.
func (k *kit) because(id messages.ExecutionID) string {
	x, err := k.Why(k.t.Context(), id)
	require.NoError(k.t, err)
	return x.Message
}

// A drain that somebody asked for names them where it ends a run or hands an execution back, and a signal names nobody.
func TestADrainNamesWhoAsked(t *testing.T) {
	t.Parallel()
	pack := pythonPack(t, "workers: 1", map[string]string{"wait": "", "spin": "idempotent: true\n"})
	for _, by := range []string{"ann", ""} {
		for action, kind := range map[string]string{"py.wait": "finish", "py.spin": "rescue"} {
			data, asked := t.TempDir(), make(chan struct{}, 1)
			change := func(c *node.Config) {
				c.ShutdownTimeout, c.Drain = 200*time.Millisecond, func() { asked <- struct{}{} }
			}
			k := boot(t, data, change, pack)
			id := k.submit(action, object{"file": "never"})
			k.becomes(id, messages.Running)
			k.until("it has begun", func() bool { return k.worker("py.lab", 0).State == "busy" })
			if by != "" {
				require.NoError(t, k.Backend.DrainNode(t.Context(), "test", by))
				<-asked
			}
			require.NoError(t, k.stop())
			k = boot(t, data, change, pack)
			events := k.events(id)[kind]
			require.NotEmpty(t, events, kind)
			require.Equal(t, by, events[0].By, "%s: %s", action, kind)
			require.NoError(t, k.stop())
		}
	}
}

// Who has a dead letter's execution submitted again is its event's, and in the log.
func TestARequeuedLetterNamesWhoAsked(t *testing.T) {
	t.Parallel()
	k := lab(t, handle(map[string]messages.Handler{"fail": func(context.Context, *messages.Task) (any, error) {
		return nil, errors.New("it broke")
	}}), goPack(t, map[string]string{"fail": ""}))
	e := k.run("t.fail", nil)
	letter, err := k.DeadLetters().SaveDeadLetter(t.Context(), store.DeadLetter{Execution: e.ID, Attempt: 1, Reason: "expired"})
	require.NoError(t, err)
	_, err = k.RequeueDeadLetter(t.Context(), letter, "ann")
	require.NoError(t, err)
	require.Equal(t, "ann", k.events(e.ID)["retry"][0].By)
	require.Contains(t, k.log.String(), "dead letter's execution is submitted again by an operator: dead_letter=")
	require.Contains(t, k.log.String(), "by=ann")
}
