package link

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
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
	other := &messages.Execution{ID: messages.NewExecutionID(), Attempt: 1}
	worker := messages.WorkerKey{Incarnation: nearby, Pool: "pool", Slot: 2}
	for name, c := range map[string]struct {
		item   actors.Item
		result store.Result
		what   string
	}{
		"restored":           {actors.Item{Restored: true}, store.Result{Verdict: store.Applied, Execution: run}, "restored"},
		"lost":               {actors.Item{Lost: true}, store.Result{Verdict: store.Applied, Execution: run}, "lost"},
		"neither":            {actors.Item{}, store.Result{Verdict: store.Applied, Execution: run}, ""},
		"of no session":      {actors.Item{Restored: true}, store.Result{Verdict: store.Applied, Execution: other}, ""},
		"rejected":           {actors.Item{Restored: true}, store.Result{Verdict: store.Stale, Execution: run}, ""},
		"stored by a repeat": {actors.Item{Lost: true}, store.Result{Verdict: store.Already}, ""},
	} {
		recorded = nil
		c.item.Worker, c.item.Change = worker, &store.Finish{ID: run.ID, Attempt: 1}
		l.answered(&c.item, &c.result)
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

// An execution that ends because its session's state is lost is recorded too. What it ends with otherwise says nothing of the session.
func TestALossThatEndsAnExecutionIsRecorded(t *testing.T) {
	t.Parallel()
	id := messages.NewExecutionID()
	for code, whats := range map[messages.Code][]string{messages.CodeSessionLost: {`lost {"execution":"` + id.String() + `"}`}, messages.CodeSessionBusy: nil} {
		s, _, _ := alone()
		var recorded []string
		s.Config.Journal = func(e messages.JournalEntry) { recorded = append(recorded, e.What+" "+string(e.Detail)) }
		l := New(s, Left{})
		l.Connect(&crowd{}, &heard{})
		e := &messages.Execution{ID: id, Session: "s"}
		end := actors.Item{Change: &store.End{ID: e.ID, Outcome: messages.Outcome{Status: messages.Failed, Error: &messages.Error{Code: code}}}}
		l.answered(&end, &store.Result{Verdict: store.Stale, Execution: e})
		require.Empty(t, recorded, "it ended otherwise")
		l.answered(&end, &store.Result{Verdict: store.Applied, Execution: e})
		require.Equal(t, whats, recorded)
	}
}

// The router is told that a run its code never heard of has ended, and not that it has finished: the session's state is as it was.
func TestARunThatNeverBeganFinishesNothing(t *testing.T) {
	t.Parallel()
	for _, never := range []bool{false, true} {
		s, _, _ := alone()
		l := New(s, Left{})
		said := &heard{}
		l.Connect(&crowd{}, said)
		e := &messages.Execution{ID: messages.NewExecutionID(), Attempt: 1, Session: "s", SessionEpoch: 4}
		l.answered(&actors.Item{Change: &store.Finish{ID: e.ID, Attempt: 1, NeverRan: never}}, &store.Result{Verdict: store.Applied, Execution: e})
		require.Len(t, said.events, 1)
		require.Equal(t, !never, said.events[0].(roster.Ended).Finished)
	}
}
