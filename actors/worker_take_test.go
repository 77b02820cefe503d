package actors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/store"
)

// A worker begins what was claimed for it as it was stored, without a claim of its own. What it cannot begin it gives back.
func TestAWorkerAloneTakesWhatIsClaimedForIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before       func(a *alone)
		runs, behind int // runs, with those before, and what waits behind one
		back         string
	}{
		"idle":          {runs: 1},
		"it runs":       {before: func(a *alone) { a.take(&Take{Execution: claimedFor("x"), Number: 1}) }, runs: 1, behind: 1},
		"it leaves":     {before: func(a *alone) { a.halt(&Halt{Reason: lifecycle.Shutdown}) }, back: "its worker leaves"},
		"it is spent":   {before: func(a *alone) { a.cfg.RunsMax, a.slot.begun = 1, 1 }, back: "its worker has run as often as it may"},
		"its lease ran": {before: func(a *alone) { a.cfg.Lease = NewLease(false) }, back: "its node's lease has run out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := lonely(&act{traits: lives, pid: 1, silent: true})
			a.begun(&begun{})
			if c.before != nil {
				c.before(a)
			}
			a.sent = nil
			e := claimedFor("act")
			a.take(&Take{Execution: e, Number: 2})
			require.Equal(t, uint64(2), a.queue.taken)
			changes := a.records()
			if c.back == "" {
				require.Empty(t, changes, "it needs no claim")
				require.Len(t, a.act.ran(), c.runs)
				a.take(&Take{Execution: e, Number: 2})
				require.Len(t, a.queue.claimed, c.behind, "once")
				return
			}
			require.Equal(t, []store.Change{&store.Rescue{ID: e.ID, Attempt: 1, Reason: neverStarted + c.back, Unstarted: true}}, changes)
			require.Empty(t, a.act.ran())
		})
	}
}

func claimedFor(action string) *messages.Execution {
	return &messages.Execution{ID: messages.NewExecutionID(), Attempt: 1, Status: messages.Running, Action: action, Timeout: time.Minute}
}
