package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// model is one execution in a slow, simple second implementation.
type model struct {
	status  messages.Status
	attempt messages.Attempt
	crashes int
	backs   int
	slot    int
	last    string
	said    messages.Status // the outcome of the last finish or end
}

// testHistories makes random changes of a few executions and compares every verdict and every row with the model.
func testHistories(t *testing.T, k *kit) {
	rapid.Check(t, func(r *rapid.T) {
		const executions = 3
		ids := make([]messages.ExecutionID, executions)
		models := make([]model, executions)
		k.born(r, ids, models)
		for range rapid.IntRange(1, 25).Draw(r, "calls") {
			var changes []store.Change
			var wants []store.Verdict
			for range rapid.IntRange(1, 4).Draw(r, "changes") {
				i := rapid.IntRange(0, executions-1).Draw(r, "execution")
				c, want := models[i].step(r, k, ids[i])
				changes, wants = append(changes, c), append(wants, want)
			}
			for i, got := range k.apply(r, changes...) {
				require.Equal(r, wants[i], got.Verdict, "%s: %v", changes[i].Name(), got.Err)
			}
			for i, m := range models {
				e := k.get(r, ids[i])
				require.Equal(r, m.status, e.Status)
				require.Equal(r, m.attempt, e.Attempt)
				require.Equal(r, m.crashes, e.CrashCount)
				require.Equal(r, m.backs, e.TakeBacks)
				require.Equal(r, m.status.Terminal(), e.Status.Terminal() && !e.FinishedAt.IsZero())
			}
		}
		for _, id := range ids { // so that the next history has no backlog
			k.apply(r, &store.Cancel{ID: id})
		}
	})
}

// born stores executions, each with or without a placement, which may carry its claim.
func (k *kit) born(r *rapid.T, ids []messages.ExecutionID, models []model) {
	in, places := make([]messages.Execution, len(ids)), []*store.Place(nil)
	for i := range in {
		in[i], models[i] = ask(), model{status: messages.Requested}
		ids[i] = in[i].ID
		switch rapid.IntRange(0, 2).Draw(r, "born") {
		case 1:
			places, models[i] = append(places, k.place(ids[i], 0, 0)), model{status: messages.Scheduled, attempt: 1, last: "place"}
		case 2:
			places, models[i] = append(places, k.carries(ids[i], 1)), model{status: messages.Running, attempt: 1, slot: 1, last: "claim"}
		}
	}
	_, err := k.SubmitPlaced(ctx(r), in, places)
	require.NoError(r, err)
}

// step draws one change, predicts its verdict, and applies it.
func (m *model) step(r *rapid.T, k *kit, id messages.ExecutionID) (store.Change, store.Verdict) {
	attempt := m.attempt + messages.Attempt(rapid.SampledFrom([]int{0, 0, 0, -1, 1}).Draw(r, "off"))
	slot := rapid.IntRange(0, 1).Draw(r, "slot")
	fits := attempt == m.attempt
	handed := m.status == messages.Requested && attempt == m.attempt+1 // without a stored placement
	switch rapid.SampledFrom(store.Changes()).Draw(r, "change") {
	case "place":
		already := m.attempt == attempt+1 && m.slot == slot && m.status >= messages.Scheduled && !m.status.Terminal()
		return k.place(id, attempt, slot), m.move(fits && m.status == messages.Requested, already, func() {
			m.status, m.attempt, m.slot, m.last = messages.Scheduled, m.attempt+1, slot, "place"
		})
	case "take_back":
		already := fits && m.status == messages.Requested && m.last == "take_back"
		return &store.TakeBack{ID: id, Attempt: attempt}, m.move(fits && m.status == messages.Scheduled || handed, already, func() {
			m.status, m.attempt, m.backs, m.last = messages.Requested, attempt, m.backs+1, "take_back"
		})
	case "claim":
		already := fits && m.status.Started() && m.slot == slot
		c := k.claim(id, attempt, slot)
		if rapid.Bool().Draw(r, "handed over") {
			c = k.direct(id, attempt-1, slot)
		}
		handed = handed && !c.PlacedBy.IsZero()
		return c, m.move(fits && m.status == messages.Scheduled && m.slot == slot || handed, already, func() {
			m.status, m.attempt, m.slot, m.backs, m.last = messages.Running, attempt, slot, 0, "claim"
		})
	case "finish":
		return m.finish(r, id, attempt)
	case "end":
		already := fits && m.last == "end" && m.said == messages.Failed
		waits := m.status == messages.Requested || m.status == messages.Scheduled
		return &store.End{ID: id, Attempt: attempt, Outcome: failed(messages.Failed)}, m.move(fits && waits, already, func() {
			m.status, m.last, m.said = messages.Failed, "end", messages.Failed
		})
	case "cancel":
		return &store.Cancel{ID: id}, m.move(!m.status.Terminal() && m.status != messages.Cancelling, true, func() {
			m.status, m.last = map[bool]messages.Status{true: messages.Cancelling, false: messages.Cancelled}[m.status == messages.Running], "cancel"
		})
	}
	already := fits && m.last == "rescue"
	return &store.Rescue{ID: id, Attempt: attempt, Delay: -time.Second}, m.move(fits && m.status.Started(), already, func() {
		m.status, m.crashes, m.last = map[bool]messages.Status{true: messages.Requested, false: messages.Cancelled}[m.status == messages.Running], m.crashes+1, "rescue"
	})
}

func (m *model) finish(r *rapid.T, id messages.ExecutionID, attempt messages.Attempt) (store.Change, store.Verdict) {
	said := rapid.SampledFrom([]messages.Status{messages.Completed, messages.Failed, messages.TimedOut, messages.Abandoned}).Draw(r, "outcome")
	fits := attempt == m.attempt
	already := fits && m.last == "finish" && m.said == said
	return &store.Finish{ID: id, Attempt: attempt, Outcome: outcome(said)}, m.move(fits && m.status.Started(), already, func() {
		m.last, m.said = "finish", said
		m.status = said
	})
}

// move applies the change if it is legal, and returns the verdict.
func (m *model) move(legal, already bool, follow func()) store.Verdict {
	switch {
	case legal:
		before := *m
		follow()
		if before.status == messages.Cancelling && m.status.Terminal() {
			m.status = messages.Cancelled
		}
		return store.Applied
	case already:
		return store.Already
	}
	return store.Stale
}
