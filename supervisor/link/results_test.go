package link

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// A restored session is recorded once the end of the run that had its state is stored.
func TestARestoredSessionIsRecorded(t *testing.T) {
	t.Parallel()
	s, _, _ := alone()
	var recorded []messages.JournalEntry
	s.Config.Journal = func(e messages.JournalEntry) { recorded = append(recorded, e) }
	l := New(s, Left{})
	l.Connect(&crowd{}, &heard{})
	run := &messages.Execution{ID: messages.NewExecutionID(), Attempt: 1, Session: "s", SessionEpoch: 4, WorkerID: "node/pool/2"}
	other := &messages.Execution{ID: messages.NewExecutionID(), Attempt: 1}
	worker := messages.WorkerKey{Incarnation: nearby, Pool: "pool", Slot: 2}
	for name, c := range map[string]struct {
		restored bool
		result   store.Result
		entries  int
	}{
		"restored":           {true, store.Result{Verdict: store.Applied, Execution: run}, 1},
		"not restored":       {false, store.Result{Verdict: store.Applied, Execution: run}, 0},
		"of no session":      {true, store.Result{Verdict: store.Applied, Execution: other}, 0},
		"rejected":           {true, store.Result{Verdict: store.Stale, Execution: run}, 0},
		"stored by a repeat": {true, store.Result{Verdict: store.Already}, 0},
	} {
		recorded = nil
		l.answered(&actors.Item{Worker: worker, Restored: c.restored, Change: &store.Finish{ID: run.ID, Attempt: 1}}, &c.result)
		require.Len(t, recorded, c.entries, name)
		if c.entries > 0 {
			e := recorded[0]
			require.Equal(t, []string{"session", "pool/s", "restored"}, []string{string(e.Kind), e.Subject, e.What})
			require.JSONEq(t, `{"epoch":4,"incarnation":"`+nearby.String()+`","slot":2,"worker":"node/pool/2","execution":"`+run.ID.String()+`"}`, string(e.Detail))
		}
	}
}
