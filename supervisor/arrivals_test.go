package supervisor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// arrive tells the pool of executions that are stored already, one by one.
func (h *house) arrive(ids []messages.ExecutionID, more bool) {
	for _, id := range ids {
		e := h.get(id)
		h.system.Send(h.pid, &Wake{More: more, Arrived: []messages.Candidate{{
			ID: e.ID, Seq: e.Seq, Action: e.Action, Priority: e.Priority, WaitForWorker: true, Timeout: e.Timeout,
		}}})
	}
}

// What arrives while others are being stored is gathered until the placements before it are claimed, until nothing more
// comes, until there is enough of it, or until its time is over; then it is placed at once.
func TestArrivalsAreGatheredBehindUnclaimedWork(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		time   time.Duration
		behind int
		end    func(h *house)
	}{
		{"claimed", time.Hour, 10, func(h *house) { h.store.open() }},
		{"nothing more comes", time.Hour, 10, func(h *house) { h.arrive(h.keep(1, nil), false) }},
		{"an offer", time.Hour, 10, func(h *house) { h.system.Send(h.pid, NewOffer([]messages.Candidate{{ID: messages.NewExecutionID()}})) }},
		{"enough", time.Hour, 255, func(h *house) { h.arrive(h.keep(1, nil), true) }},
		{"its time", 50 * time.Millisecond, 10, func(*house) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := build(t, "go", 2, goes(quick), func(p *PoolConfig) { p.GatherTime = c.time })
			h.ready(2)
			h.shut()
			first, behind := h.keep(1, nil), h.keep(c.behind, nil)
			h.arrive(first, true)
			h.arrive(behind, true)
			if c.time == time.Hour {
				view := h.describe().Router
				require.Equal(t, 1, view.Placing, "only the first is placed, although a worker is free")
				require.Zero(t, view.Held)
			}
			c.end(h)
			soon(t, func() bool { v := h.describe().Router; return v.Placing+v.Held+v.Running != 1 }, "the others are no longer gathered")
			h.store.open()
			h.all(append(first, behind...), messages.Completed)
		})
	}
}
