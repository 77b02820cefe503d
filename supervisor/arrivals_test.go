package supervisor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// arrive tells the pool of executions that are stored already, one by one.
func (h *house) arrive(ids []messages.ExecutionID) {
	for _, id := range ids {
		e := h.get(id)
		h.system.Send(h.pid, &Wake{Arrived: []messages.Candidate{{
			ID: e.ID, Seq: e.Seq, Action: e.Action, Priority: e.Priority, WaitForWorker: true, Timeout: e.Timeout,
		}}})
	}
}

// What arrives while no worker is idle is gathered until the placements before it are claimed, until there is enough of it, or until
// its time is over.
func TestArrivalsAreGatheredBehindUnclaimedWork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		time   time.Duration
		behind int
		end    func(h *house)
	}{
		{"claimed", time.Hour, 10, func(h *house) { h.store.open() }},
		{"an offer", time.Hour, 10, func(h *house) { h.system.Send(h.pid, NewOffer([]messages.Candidate{{ID: messages.NewExecutionID()}})) }},
		{"enough", time.Hour, 255, func(h *house) { h.arrive(h.keep(1, nil)) }},
		{"its time", 50 * time.Millisecond, 10, func(*house) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := build(t, "go", 1, goes(quick), func(p *PoolConfig) { p.GatherTime = c.time })
			h.ready(1)
			h.shut()
			first, behind := h.keep(8, nil), h.keep(c.behind, nil) // what comes behind so many is gathered
			h.arrive(first)
			h.arrive(behind)
			if c.time == time.Hour {
				view := h.describe().Router
				require.Equal(t, len(first), view.Placing+view.Held, "the router knows of the first alone")
			}
			c.end(h)
			soon(t, func() bool { v := h.describe().Router; return v.Placing+v.Held != len(first) }, "the others are no longer gathered")
			h.store.open()
			h.all(append(first, behind...), messages.Completed)
		})
	}
}
