package postgres

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Collected news are sent once: each pool by name, ended executions by id, and above the bound a payload that says to
// look.
func TestWordsGather(t *testing.T) {
	t.Parallel()
	h := &notifier{wake: make(chan struct{}, 1), pools: map[string]struct{}{}}
	requested := func(pool string, status messages.Status) {
		h.requested([]store.Submitted{{Execution: messages.Execution{Pool: pool, Status: status}}})
	}
	requested("b", messages.Requested)
	requested("a", messages.Requested)
	requested("b", messages.Requested)
	requested("placed", messages.Scheduled)
	require.Equal(t, []string{"pool a", "pool b"}, h.take())
	require.Empty(t, h.take())

	ended := make([]messages.ExecutionID, notifyMax)
	for i := range ended {
		ended[i] = messages.NewExecutionID()
	}
	h.finished(ended[:1])
	h.finished(ended)
	payloads := h.take()
	require.Equal(t, payloadLook, payloads[len(payloads)-1])
	var told []messages.ExecutionID
	for _, payload := range payloads[:len(payloads)-1] {
		require.Less(t, len(payload), 8000, "a notification's bound")
		require.True(t, strings.HasPrefix(payload, payloadFinished))
		for _, hint := range hintsOf(payload) {
			require.Equal(t, store.HintFinished, hint.Kind)
			told = append(told, hint.Execution)
		}
	}
	require.Equal(t, append(ended[:1:1], ended[:notifyMax-1]...), told)
	require.Equal(t, []store.Hint{{Kind: store.HintLook}}, hintsOf(payloadLook))

	h.tellToLook()
	require.Equal(t, []string{payloadLook}, h.take())
	require.Len(t, h.wake, 1)
}

// Only ends of this node's own changes are notified, and none if there is no other node.
func TestEndsThatAreTold(t *testing.T) {
	t.Parallel()
	s := &applier{core: &core{beats: &beater{}, notifier: &notifier{wake: make(chan struct{}, 1), pools: map[string]struct{}{}}}}
	of := func(done bool, status messages.Status) *item {
		return &item{id: messages.NewExecutionID(), done: done, out: store.Result{Status: status}}
	}
	items := []*item{of(true, messages.Running), of(true, messages.Completed), of(false, messages.Failed), of(false, messages.Scheduled)}
	s.beats.nodes.Store(1)
	s.tellEnds(items)
	require.Empty(t, s.notifier.take())
	s.beats.nodes.Store(2)
	s.tellEnds(items)
	payloads := s.notifier.take()
	require.Len(t, payloads, 1)
	require.Equal(t, []store.Hint{{Kind: store.HintFinished, Execution: items[1].id}}, hintsOf(payloads[0]))
}
