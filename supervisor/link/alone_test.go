package link

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor/part"
	"github.com/troupe-run/troupe/supervisor/router"
)

// crowd is a node's workers, as a link sees them.
type crowd struct {
	stands []roster.WorkerSeen
	gone   bool // no worker takes anything
	takes  []*actors.Take
}

func (c *crowd) Take(_ messages.Slot, _ messages.Generation, m *actors.Take) bool {
	c.takes = append(c.takes, m)
	return !c.gone
}
func (c *crowd) Execute(*broker.Work) bool                   { return true }
func (c *crowd) Drop(messages.Slot, messages.Placement)      {}
func (c *crowd) EndSession(messages.Slot, string, int64)     {}
func (c *crowd) Expired(messages.Slot, messages.Placement)   {}
func (c *crowd) CancelRun(messages.Slot, *actors.CancelRun)  {}
func (c *crowd) Has(messages.Slot, messages.Generation) bool { return true }
func (c *crowd) Standings() []roster.WorkerSeen              { return c.stands }
func (c *crowd) QueueAttached(string)                        {}
func (c *crowd) ShareQueue() int                             { return 1 }
func (c *crowd) Broken() (bool, string, string)              { return false, "", "" }
func (c *crowd) ShowRouting(string)                          {}

// heard is a router of the node, which only listens.
type heard struct {
	starts, rests int
	wholes        []*router.Report
	events        []roster.Event
}

func (h *heard) Start()                                               { h.starts++ }
func (h *heard) Rest()                                                { h.rests++ }
func (h *heard) Report(_ messages.Incarnation, r *router.Report)      { h.wholes = append(h.wholes, r) }
func (h *heard) Take(_ messages.Incarnation, e roster.Event)          { h.events = append(h.events, e) }
func (h *heard) TakeClaimed(_ messages.Incarnation, e roster.Claimed) { h.events = append(h.events, e) }
func (h *heard) TakeEnded(_ messages.Incarnation, e roster.Ended)     { h.events = append(h.events, e) }
func (h *heard) Drop(messages.Incarnation)                            {}
func (h *heard) Placed(*store.Place, *store.Result)                   {}
func (h *heard) Doubt(...string)                                      {}
func (h *heard) Halted(roster.Reason)                                 {}
func (h *heard) Resign()                                              {}
func (h *heard) Ended(messages.Incarnation) bool                      { return false }
func (h *heard) Waiting() int                                         { return 0 }
func (h *heard) Idle() int                                            { return 0 }
func (h *heard) Drained() bool                                        { return true }

// The workers of a node are reported to one router: to its own, until another has taken all of them, and again once that one is
// silent.
func TestALinkAloneReportsToOneRouter(t *testing.T) {
	t.Parallel()
	s, w, _ := alone()
	var sent []wire.PoolReport
	deaf := false
	s.Config.Peers = &part.Peers{Look: func() {}, Report: func(_ context.Context, _ messages.Incarnation, r wire.PoolReport) (wire.PoolReportResult, error) {
		sent = append(sent, r)
		if deaf {
			return wire.PoolReportResult{}, errors.New("the wire is cut")
		}
		return wire.PoolReportResult{}, nil
	}}
	s.Config.Serves = "same"
	var log bytes.Buffer
	s.Config.Logger = hclog.New(&hclog.LoggerOptions{Output: &log, JSONFormat: true})
	var recorded []string
	s.Config.Journal = func(e messages.JournalEntry) { recorded = append(recorded, e.What+" "+e.Reason+string(e.Detail)) }
	l, own := New(s, Left{}), &heard{}
	seen := idle(w, nearby)
	seen.Queue = s.Config.Settings.PoolQueueName("node", "pool", nearby)
	l.Connect(&crowd{stands: []roster.WorkerSeen{seen}}, own)
	runs := messages.Placement{Execution: messages.NewExecutionID(), Attempt: 1}
	l.running[runs] = 0
	l.Tell(seen)
	require.Len(t, own.events, 1, "it is alone")

	l.Led(faraway, "far", 1)
	l.SendReport()
	w.Answer()
	require.Equal(t, lead.Following, l.mode.Mode())
	require.Contains(t, log.String(), `"mode":"following"`, "a word")
	require.Equal(t, 1, own.rests)
	require.Len(t, sent, 1)
	require.Len(t, sent[0].Entries, 2, "the worker, and what runs on it")
	l.tellEnded(roster.Ended{Placement: runs, Finished: true})
	require.Len(t, own.events, 1, "it follows")
	l.SendReport()
	w.Answer()
	require.Equal(t, []wire.PoolEntry{wire.PoolRunEnded{Placement: runs, Finished: true}}, sent[1].Entries)

	deaf = true
	w.Time = w.Time.Add(lead.Patience)
	l.Tick(w.Time)
	require.Equal(t, lead.Alone, l.mode.Mode())
	require.Equal(t, 1, own.starts)
	require.Len(t, own.wholes, 1)
	require.True(t, own.wholes[0].Exact)
	require.Equal(t, []roster.Event{seen, roster.Claimed{Placement: runs, Worker: seen.Worker}}, own.wholes[0].Events)
	l.tellEnded(roster.Ended{Placement: runs})
	require.Len(t, own.events, 2)
	require.Len(t, recorded, 2)
	require.Contains(t, recorded[1], "alone ")

	deaf = false
	w.Time = w.Time.Add(lead.RetryMost)
	l.SendReport()
	w.Answer()
	require.Equal(t, lead.Following, l.mode.Mode())
	follows := `following far{"epoch":1,"node":"node"}`
	require.Equal(t, []string{follows, follows}, []string{recorded[0], recorded[2]}, "the end of routing alone is recorded, too")

	l.Led(nearby, "node", 2)
	l.Led(messages.Incarnation{}, "", 3)
	require.Equal(t, []string{`taken {"epoch":2,"node":"node"}`, `given_up {"epoch":3,"node":"node"}`}, recorded[3:])
}

// What an actor that failed has left on this node's workers is given back by the node, whoever routes; what the next one has claimed
// is not.
func TestALinkGivesBackWhatTheActorBeforeHasLeft(t *testing.T) {
	t.Parallel()
	s, w, rows := alone()
	row := func(at messages.Incarnation, gen messages.Generation) messages.Execution {
		return messages.Execution{
			ID: messages.NewExecutionID(), Attempt: 1, Status: messages.Running, Idempotent: true, Generation: gen,
			Worker: messages.WorkerKey{Incarnation: at, Pool: "pool"},
		}
	}
	lost, new, other := row(nearby, 3), row(nearby, 4), row(faraway, 3)
	rows.live = []messages.Execution{lost, new, other}
	l := New(s, Left{Generations: map[messages.Slot]messages.Generation{0: 3}})
	l.Connect(&crowd{}, &heard{})
	l.giveBackLeft()
	w.Answer()
	require.Len(t, s.Items, 1)
	require.Equal(t, lost.ID, s.Items[0].Change.(*store.Rescue).ID)
	require.Empty(t, l.left)
	l.giveBackLeft()
	require.Zero(t, w.Busy(), "once")
}
