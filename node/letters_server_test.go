package node_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
)

// Dead letters on real servers: one that names an execution is requeued, once; one that names none is refused with what to
// do, and discarded.
func TestDeadLettersOnServers(t *testing.T) {
	t.Parallel()
	second := func(_ context.Context, t *messages.Task) (any, error) {
		if t.RetryCount == 0 {
			return nil, errors.New("not the first time")
		}
		return "done", nil
	}
	k, o := onServers(t, handle(map[string]messages.Handler{"second": second}), goPack(t, map[string]string{"second": ""}))
	e := k.run("t.second", nil)
	require.Equal(t, messages.Failed, e.Status)
	late, err := broker.Work{Worker: e.Worker, Placements: []messages.Placement{e.Placement()}}.Encode()
	require.NoError(t, err)
	unknown, err := broker.Work{Worker: e.Worker, Placements: []messages.Placement{{Execution: messages.NewExecutionID(), Attempt: 1}}}.Encode()
	require.NoError(t, err)
	confirms, err := o.Publish(t.Context(), []broker.Message{
		{RoutingKey: o.settings.DeadLetterQueue(), Body: late}, {RoutingKey: o.settings.DeadLetterQueue(), Body: unknown},
		{RoutingKey: o.settings.RequestsQueue(), Body: []byte("{")}, {RoutingKey: o.settings.RequestsQueue(), Body: []byte(`{"action_ref":"t.gone"}`)},
	})
	require.NoError(t, err)
	require.NotContains(t, confirms, broker.Unknown)
	requeue := func(id int64) string {
		_, err := k.RequeueDeadLetter(t.Context(), id, "ann")
		return refused(t, err).Message
	}
	seen := map[string]bool{}
	for _, letter := range k.letters(4) {
		switch {
		case letter.Reason == "malformed":
			seen["malformed"] = true
			require.Contains(t, requeue(letter.ID), "is malformed and names no execution")
		case letter.Reason == "refused":
			seen["refused"] = true
			require.Contains(t, requeue(letter.ID), `there is no action "t.gone"`)
			require.Contains(t, requeue(letter.ID), "submit what was meant anew")
		case letter.Resolution == "missing":
			seen["missing"] = true
			require.Contains(t, requeue(letter.ID), "the store does not have")
		default:
			seen["stale"] = true
			again, err := k.RequeueDeadLetter(t.Context(), letter.ID, "ann")
			require.NoError(t, err)
			require.Equal(t, e.ID, again.Execution.Original)
			require.Equal(t, messages.Completed, k.await(again.Execution.ID).Status)
			twice, err := k.RequeueDeadLetter(t.Context(), letter.ID, "ann")
			require.NoError(t, err)
			require.Equal(t, again.Execution.ID, twice.Execution.ID)
			continue
		}
		require.NoError(t, k.DeadLetters().ResolveDeadLetter(t.Context(), letter.ID, "discarded"))
	}
	require.Len(t, seen, 4)
	counts, err := k.DeadLetters().DeadLetterStats(t.Context(), time.Now().Add(-time.Hour))
	require.NoError(t, err)
	total := 0
	for _, c := range counts {
		total += c.Count
	}
	require.Equal(t, 4, total)
}
