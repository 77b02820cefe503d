package storetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// testSessionLossUntold checks that only an execution whose code was, or may have been, told of a loss ends with one. Its placement has to
// suppose it.
func testSessionLossUntold(t *testing.T, k *kit) {
	cancelled := messages.Outcome{Status: messages.Cancelled, Error: &messages.Error{Code: messages.CodeCancelled}}
	for i, c := range []struct {
		name   string
		claims bool
		end    func(messages.ExecutionID) []store.Change
		lost   bool
	}{
		{"it is cancelled before it starts", false, func(id messages.ExecutionID) []store.Change { return []store.Change{&store.Cancel{ID: id}} }, false},
		{"its message expires", false, func(id messages.ExecutionID) []store.Change {
			return []store.Change{&store.End{ID: id, Attempt: 1, Outcome: failed(messages.Failed)}}
		}, false},
		{"its code never heard of it", true, func(id messages.ExecutionID) []store.Change {
			return []store.Change{&store.Finish{ID: id, Attempt: 1, Outcome: failed(messages.Failed), NeverRan: true}}
		}, false},
		{"it is cancelled before its code hears of it", true, func(id messages.ExecutionID) []store.Change {
			return []store.Change{&store.Cancel{ID: id}, &store.Finish{ID: id, Attempt: 1, Outcome: cancelled, NeverRan: true}}
		}, false},
		{"it is cancelled after its state is restored", true, func(id messages.ExecutionID) []store.Change {
			return []store.Change{&store.Cancel{ID: id}, &store.Finish{ID: id, Attempt: 1, Outcome: cancelled, Restored: true}}
		}, false},
		{"it is cancelled while it runs", true, func(id messages.ExecutionID) []store.Change {
			return []store.Change{&store.Cancel{ID: id}, &store.Finish{ID: id, Attempt: 1, Outcome: cancelled}}
		}, true},
		{"its worker is lost", true, func(id messages.ExecutionID) []store.Change {
			return []store.Change{&store.Finish{ID: id, Attempt: 1, Outcome: crashed()}}
		}, true},
		{"its worker is lost while it is cancelled", true, func(id messages.ExecutionID) []store.Change {
			return []store.Change{&store.Cancel{ID: id}, &store.Rescue{ID: id, Attempt: 1, Reason: "gone"}}
		}, true},
	} {
		e := k.submit(t, ask(inSession(fmt.Sprint("s", i), messages.AffinityStrict)))[0]
		k.applied(t, k.placeIn(e, 1, store.SessionUse{Epoch: 1, Bind: true, Lost: true, Hit: true}))
		require.True(t, k.get(t, e.ID).SessionLost, c.name)
		if c.claims {
			k.applied(t, k.claim(e.ID, 1, 1))
		}
		for _, change := range c.end(e.ID) {
			k.applied(t, change)
		}
		ended := k.get(t, e.ID)
		require.True(t, ended.Status.Terminal(), c.name)
		require.Equal(t, c.lost, ended.SessionLost, c.name)
	}
}
