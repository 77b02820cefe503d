package link

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// What became of a session's state is recorded once the end of the run that had it, or was told of its loss, is stored.
func TestARestoredOrLostSessionIsRecorded(t *testing.T) {
	t.Parallel()
	s, _, _ := alone()
	var recorded []messages.JournalEntry
	s.Config.Journal = func(e messages.JournalEntry) { recorded = append(recorded, e) }
	l := New(s, Left{})
	l.Connect(&crowd{}, &heard{})
	run := &messages.Execution{ID: messages.NewExecutionID(), Attempt: 1, Session: "s", SessionEpoch: 4, WorkerID: "node/pool/2"}
	told := *run
	told.SessionLost = true
	other := &messages.Execution{ID: messages.NewExecutionID(), Attempt: 1}
	worker := messages.WorkerKey{Incarnation: nearby, Pool: "pool", Slot: 2}
	for name, c := range map[string]struct {
		restored bool
		result   store.Result
		what     string
	}{
		"restored":           {true, store.Result{Verdict: store.Applied, Execution: run}, "restored"},
		"lost":               {false, store.Result{Verdict: store.Applied, Execution: &told}, "lost"},
		"not restored":       {false, store.Result{Verdict: store.Applied, Execution: run}, ""},
		"of no session":      {true, store.Result{Verdict: store.Applied, Execution: other}, ""},
		"rejected":           {true, store.Result{Verdict: store.Stale, Execution: run}, ""},
		"stored by a repeat": {true, store.Result{Verdict: store.Already}, ""},
	} {
		recorded = nil
		l.answered(&actors.Item{Worker: worker, Restored: c.restored, Change: &store.Finish{ID: run.ID, Attempt: 1}}, &c.result)
		if c.what == "" {
			require.Empty(t, recorded, name)
			continue
		}
		require.Len(t, recorded, 1, name)
		e := recorded[0]
		require.Equal(t, []string{"session", "pool/s", c.what}, []string{string(e.Kind), e.Subject, e.What})
		require.JSONEq(t, `{"epoch":4,"incarnation":"`+nearby.String()+`","slot":2,"worker":"node/pool/2","execution":"`+run.ID.String()+`"}`, string(e.Detail))
	}
}
