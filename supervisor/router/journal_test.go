package router

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

// recorded is a router on its own, with what it records.
func recorded() (*Router, func(time.Duration), *[]messages.JournalEntry) {
	s, w, _ := alone()
	entries := &[]messages.JournalEntry{}
	s.Config.Journal = func(e messages.JournalEntry) { *entries = append(*entries, e) }
	r := New(s, &ordered{})
	r.Start()
	r.Report(nearby, &Report{First: true, Last: true, Exact: true, Events: []roster.Event{idle(w, nearby)}})
	w.Answer()
	w.Answer()
	return r, func(d time.Duration) { w.Time = w.Time.Add(d) }, entries
}

// The router records the condition of its pool once a second at most, and when it stops to know it.
func TestTheConditionOfThePoolIsRecorded(t *testing.T) {
	t.Parallel()
	r, pass, entries := recorded()
	pass(time.Second)
	r.Tick()
	require.Len(t, *entries, 1)
	require.Equal(t, "condition ready", (*entries)[0].What+" "+(*entries)[0].Reason)
	require.Equal(t, "pool", (*entries)[0].Subject)
	r.Tick()
	require.Len(t, *entries, 1, "what has not changed is not told again")

	for range 100 {
		r.Halted(roster.StoreAway)
		pass(6 * time.Millisecond)
		r.Halted(roster.Ready)
		pass(4 * time.Millisecond)
	}
	require.Len(t, *entries, 1)
	r.Tick()
	require.Len(t, *entries, 2)
	require.Equal(t, "store_away", (*entries)[1].Reason)
	require.Contains(t, string((*entries)[1].Detail), `"then":"ready","shares":{"ready":0.4,"store_away":0.6}`)

	r.Rest()
	require.Len(t, *entries, 3)
	require.Equal(t, "handed_over", (*entries)[2].Reason)
	r.Stop()
	require.Len(t, *entries, 3)
}

// A binding is recorded once the store has made it, with its worker and epoch.
func TestABindingIsRecorded(t *testing.T) {
	t.Parallel()
	r, _, entries := recorded()
	place := func(bind bool) *store.Place {
		c := &store.Place{ID: messages.NewExecutionID(), Worker: messages.WorkerKey{Incarnation: nearby, Pool: "pool", Slot: 2}, WorkerID: "node/pool/2",
			Session: &store.SessionUse{Pool: "pool", Session: "s", Epoch: 3, Bind: bind, Lost: true}}
		r.placing[c.ID] = c
		return c
	}
	r.Placed(place(true), &store.Result{Verdict: store.Stale})
	r.Placed(place(false), &store.Result{Verdict: store.Applied})
	require.Empty(t, *entries)
	r.Placed(place(true), &store.Result{Verdict: store.Applied})
	require.Len(t, *entries, 1)
	e := (*entries)[0]
	require.Equal(t, messages.JournalEntry{Kind: messages.JournalSession, Subject: "pool/s", What: "bound", Detail: e.Detail}, e)
	require.JSONEq(t, `{"epoch":3,"incarnation":"`+nearby.String()+`","slot":2,"worker":"node/pool/2","lost":true}`, string(e.Detail))
}
