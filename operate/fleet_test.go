package operate

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/keyframe"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

// Any node shows the workers and pools of all, and of a node that does not answer what the store has of it.
func TestAllNodesAreShown(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, b := c.join("a", "shell", 2), c.join("b", "shell", 1)
	for _, asked := range []*node{a, b} {
		all, err := asked.Workers(t.Context(), "", "")
		require.NoError(t, err)
		require.Empty(t, all.Unreached)
		var ids []messages.WorkerID
		for _, w := range all.Workers {
			require.False(t, w.Stale)
			ids = append(ids, w.ID)
		}
		require.ElementsMatch(t, []messages.WorkerID{"a/shell/0", "a/shell/1", "b/shell/0"}, ids)
		pools, err := asked.Pools(t.Context(), "")
		require.NoError(t, err)
		require.Len(t, pools.Pools, 1)
		require.Equal(t, [3]int{3, 3, 2}, [3]int{pools.Pools[0].Workers, pools.Pools[0].Ready, pools.Pools[0].Nodes})
	}
	live, err := a.LivePools(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, live.Pools[0].Ready, "also without the store")
	b.stage.halted = roster.BrokerAway
	live, err = a.LivePools(t.Context())
	require.NoError(t, err)
	require.Equal(t, "on 1 of 2 nodes "+roster.BrokerAway.Sentence(), live.Pools[0].Reason, "that is no verdict on the pool")
	b.stage.halted = 0
	one, err := a.Workers(t.Context(), "shell", "b")
	require.NoError(t, err)
	require.Len(t, one.Workers, 1)
	_, err = a.Workers(t.Context(), "", "c")
	require.ErrorContains(t, err, "there is no node c")

	c.lost[b.cfg.Incarnation] = true
	all, err := a.Workers(t.Context(), "", "")
	require.NoError(t, err)
	require.Len(t, all.Workers, 3)
	require.Len(t, all.Unreached, 1)
	require.Equal(t, "b", all.Unreached[0].Node)
	require.Contains(t, all.Unreached[0].Why, "node b cannot be reached from node a: too much waits for it")
	require.True(t, all.Workers[1].Stale, "that is its row")
	pools, err := a.Pools(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, [3]int{3, 2, 1}, [3]int{pools.Pools[0].Workers, pools.Pools[0].Ready, pools.Pools[0].Stale})
}

// A lease is shown where the store holds its nodes to it. A node that has the store for itself beats for people to see, and more rarely
// than a lease would last.
func TestALeaseIsShownWhereThereIsOne(t *testing.T) {
	t.Parallel()
	for name, unleased := range map[string]bool{"shared": false, "one node's": true} {
		c := newCluster(t)
		c.unleased = unleased
		nodes, err := c.join("a", "shell", 1).Nodes(t.Context())
		require.NoError(t, err, name)
		require.Equal(t, beaten, nodes[0].BeatAt, name)
		require.Equal(t, unleased, nodes[0].LeaseUntil.IsZero(), name)
		text, err := json.Marshal(nodes[0])
		require.NoError(t, err, name)
		require.Equal(t, !unleased, strings.Contains(string(text), "lease_until"), "%s: %s", name, text)
	}
}

// Any node reads the series of all, and names those that do not answer.
func TestTheSeriesOfAllNodesAreRead(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, b := c.join("a", "shell", 2), c.join("b", "python", 1)
	read, missing, err := a.Readings(t.Context())
	require.NoError(t, err)
	require.Empty(t, missing)
	workers := map[string]float64{}
	for _, n := range read {
		require.Len(t, n.Readings, 2)
		for pool, count := range n.Readings[1].Values {
			workers[n.Node+"/"+pool] = count
		}
	}
	require.Equal(t, map[string]float64{"a/shell": 2, "b/python": 1}, workers)
	c.lost[b.cfg.Incarnation] = true
	read, missing, err = a.Readings(t.Context())
	require.NoError(t, err)
	require.Len(t, read, 1)
	require.Equal(t, "b", missing[0].Node)
}

// Any node shows the workers of all as letters, and names those that do not answer.
func TestTheFleetIsShown(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, b := c.join("a", "shell", 2), c.join("b", "shell", 1)
	b.stage.pools["shell"].Workers[0].State = lifecycle.Busy
	for _, asked := range []*node{a, b} {
		f, missing, err := asked.Fleet(t.Context())
		require.NoError(t, err)
		require.Empty(t, missing)
		require.False(t, f.Partial)
		require.Len(t, f.Nodes, 2)
		require.Equal(t, []string{"a", "rr", "b", "b"}, []string{f.Pools[0].Node, f.Pools[0].Slots, f.Pools[1].Node, f.Pools[1].Slots})
		require.Equal(t, []messages.Generation{3, 3}, f.Pools[0].Generations)
		require.Equal(t, b.cfg.Incarnation, f.Pools[1].Incarnation)
	}
	c.lost[b.cfg.Incarnation] = true
	f, missing, err := a.Fleet(t.Context())
	require.NoError(t, err)
	require.Len(t, missing, 1)
	require.True(t, f.Partial)
	require.Len(t, f.Pools, 1)
}

// What the nodes were at a time is read of the store: keyframes, transitions, and the journal.
func TestThePastOfTheFleetIsRead(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := c.join("a", "shell", 1)
	ctx := t.Context()
	begin, key := time.Date(2026, 3, 1, 3, 12, 0, 0, time.UTC), messages.WorkerKey{Incarnation: a.cfg.Incarnation, Pool: "shell"}
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	own := a.Frame(ctx)
	require.Equal(t, "a", own.Node)
	for _, when := range []int{0, 300} {
		b, err := keyframe.Encode(&own)
		require.NoError(t, err)
		require.NoError(t, c.store.SaveKeyframe(ctx, store.Keyframe{Incarnation: a.cfg.Incarnation, At: at(when), Frame: b}))
		own.Pools[0].Slots[0].State, own.Pools[0].Slots[0].Generation = lifecycle.Busy, 4
	}
	require.NoError(t, c.store.RecordTransitions(ctx, []store.WorkerEvent{
		{Key: key, Generation: 3, At: at(10), From: "busy", To: "terminating", Reason: "error"},
		{Key: key, Generation: 3, At: at(20), From: "terminating", To: "terminated", Reason: "cleanup_complete", Lasted: 10 * time.Second},
		{Key: key, Generation: 4, At: at(40), From: "initializing", To: "ready", Reason: "init_complete", Lasted: 15 * time.Second},
		{Key: key, Generation: 4, At: at(45), From: "later", To: "odd", Reason: "of a later version"},
	}, make([]string, 4)))
	require.NoError(t, c.store.AppendJournal(ctx, []messages.JournalEntry{
		{Incarnation: a.cfg.Incarnation, Number: 1, At: at(5), Kind: messages.JournalRouter, Subject: "shell", What: "taken", Detail: []byte(`{"epoch":2}`)},
		{Incarnation: a.cfg.Incarnation, Number: 2, At: at(6), Kind: messages.JournalPool, Subject: "shell", What: "condition", Reason: "ready"},
	}))
	for when, want := range map[int]string{0: "r 3 alone", 4: "u 3 alone", 5: "u 3 leading", 11: "t 3 leading", 20: "x 3 leading", 22: "x 3 leading", 26: "i 4 leading", 41: "u 4 leading"} {
		f, err := a.FleetAt(ctx, at(when))
		require.NoError(t, err)
		require.Empty(t, f.Notes)
		require.Len(t, f.Pools, 1)
		p := &f.Pools[0]
		require.Equal(t, want, fmt.Sprint(p.Slots, " ", p.Generations[0], " ", p.Mode), "at %d", when)
	}
	f, err := a.FleetAt(ctx, at(-1))
	require.NoError(t, err)
	require.Equal(t, []string{"node a stored no keyframe in the hour before, so most of it is not known"}, f.Notes)

	require.NoError(t, c.store.SaveKeyframe(ctx, store.Keyframe{Incarnation: a.cfg.Incarnation, At: at(50), Frame: []byte("none")}))
	f, err = a.FleetAt(ctx, at(60))
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(f.Notes), "cannot be read: the keyframe is damaged")
}

// Of a moment that is not long past, the live nodes say since when their workers are as they are.
func TestTheLatestPastOfTheFleetIsAsked(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, b := c.join("a", "shell", 2), c.join("b", "shell", 1)
	for _, n := range []*node{a, b} {
		own := n.Frame(t.Context())
		raw, err := keyframe.Encode(&own)
		require.NoError(t, err)
		require.NoError(t, c.store.SaveKeyframe(t.Context(), store.Keyframe{Incarnation: n.cfg.Incarnation, At: time.Now().Add(-3 * time.Minute), Frame: raw}))
		n.stage.pools["shell"].Workers[0].Since = time.Now().Add(-2 * time.Minute)
	}
	of := func(ago time.Duration) (slots []string) {
		f, err := a.FleetAt(t.Context(), time.Now().Add(-ago))
		require.NoError(t, err)
		for i := range f.Pools {
			slots = append(slots, f.Pools[i].Slots)
		}
		return slots
	}
	require.Equal(t, []string{"ru", "r"}, of(time.Minute))
	require.Equal(t, []string{"uu", "u"}, of(150*time.Second), "they were not so yet")
	c.lost[b.cfg.Incarnation] = true
	require.Equal(t, []string{"ru", "u"}, of(time.Minute))
}

// A command is carried out by the node that has the worker, once, whichever node was asked.
func TestCommandsReachTheNodeOfTheWorker(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, b := c.join("a", "shell", 1), c.join("b", "shell", 1)
	ctx := t.Context()
	require.NoError(t, a.KillWorker(ctx, "b/shell/0", "ann"))
	require.NoError(t, a.CordonWorker(ctx, "b/shell/0", true, "ann"))
	_, err := a.ProbeWorker(ctx, "b/shell/0", "ann")
	require.NoError(t, err)
	require.NoError(t, a.CordonNode(ctx, "b", true, "ann"))
	require.NoError(t, a.DrainNode(ctx, "b", "ann"))
	require.Empty(t, a.stage.orders())
	require.Equal(t, "ann", b.stage.drained)
	require.Empty(t, a.stage.drained)
	got := strings.Join(b.stage.orders(), "\n")
	require.Len(t, b.stage.orders(), 4, got)
	require.Contains(t, got, "KillWorker&{Slot:0 Generation:3 By:ann}")
	require.Contains(t, got, "probe 0")
	rows, err := c.store.Store.ListWorkers(ctx, "shell")
	require.NoError(t, err)
	for _, w := range rows {
		require.Equal(t, w.ID == "b/shell/0", w.Cordoned, w.ID)
	}
	_, node := b.Of("shell")
	require.True(t, node)

	require.ErrorContains(t, a.KillWorker(ctx, "b/shell/9", "ann"), "there is no worker \"b/shell/9\"")
	require.ErrorContains(t, a.KillWorker(ctx, "b/none/0", "ann"), "there is no worker \"b/none/0\"")
	require.ErrorContains(t, a.KillWorker(ctx, "c/shell/0", "ann"), "worker c/shell/0: there is no node c")
	c.lost[b.cfg.Incarnation] = true
	require.ErrorContains(t, a.KillWorker(ctx, "b/shell/0", "ann"), "node b cannot be reached from node a")
	require.Len(t, b.stage.orders(), 4)
}

// A pool's cordon is for every node: those that are reached learn of it at once, the others when they read the store.
func TestAPoolsCordonReachesEveryNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, b := c.join("a", "shell", 1), c.join("b", "shell", 1)
	require.NoError(t, a.CordonPool(t.Context(), "shell", true, "ann"))
	require.Eventually(t, func() bool { pool, _ := b.Of("shell"); return pool }, 5*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return len(b.stage.orders()) == 1 }, 5*time.Second, time.Millisecond, "the order follows what is kept")
	c.lost[b.cfg.Incarnation] = true
	require.NoError(t, a.CordonPool(t.Context(), "shell", false, "ann"))
	pool, _ := b.Of("shell")
	require.True(t, pool, "it was not told")
	require.NoError(t, b.Read(t.Context()))
	pool, _ = b.Of("shell")
	require.False(t, pool)
	require.Len(t, b.stage.orders(), 2)
	require.NoError(t, b.Read(t.Context()))
	require.Len(t, b.stage.orders(), 2, "nothing has changed")
	require.ErrorContains(t, a.CordonPool(t.Context(), "none", true, "ann"), "there is no pool none")
}

// runs stores an execution that runs on a node's worker.
func (c *cluster) runs(on *node) messages.Execution {
	ctx := c.t.Context()
	e := messages.Execution{ID: messages.NewExecutionID(), Action: "core.echo", Pool: "shell", Status: messages.Requested,
		Parameters: json.RawMessage(`{}`), Timeout: time.Minute, Priority: messages.PriorityNormal}
	_, err := c.store.Submit(ctx, []messages.Execution{e})
	require.NoError(c.t, err)
	key, id := messages.WorkerKey{Incarnation: on.cfg.Incarnation, Pool: "shell"}, messages.NewWorkerID(on.cfg.Name, "shell", 0)
	for _, change := range []store.Change{
		&store.Place{ID: e.ID, Attempt: 0, Worker: key, WorkerID: id, ClaimWithin: time.Minute},
		&store.Claim{ID: e.ID, Attempt: 1, Worker: key, Generation: 3},
	} {
		results, err := c.store.Apply(ctx, []store.Change{change})
		require.NoError(c.t, err)
		require.Equal(c.t, store.Applied, results[0].Verdict, "%T: %v", change, results[0].Err)
	}
	e, err = c.store.Get(ctx, e.ID)
	require.NoError(c.t, err)
	return e
}

// What a run writes is seen from any node, and so is why it is where it is.
func TestARunIsSeenFromAnotherNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, b := c.join("a", "shell", 1), c.join("b", "shell", 1)
	e := c.runs(b)
	b.cfg.Feeds.Add(e.ID, messages.RunEvent{Kind: "stdout", Data: []byte("one\n"), At: time.Now()})
	for _, asked := range []*node{a, b} {
		out, err := asked.Output(t.Context(), e.ID)
		require.NoError(t, err)
		require.Equal(t, "one\n", string(out.Stdout))
	}
	var seen []string
	followed := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		followed <- a.Follow(t.Context(), e.ID, func(l view.Live) error {
			seen = append(seen, l.Kind+" "+string(l.Data))
			if l.Kind == "stdout" {
				close(ready)
			}
			return nil
		})
	}()
	<-ready
	x, err := a.Why(t.Context(), e.ID)
	require.NoError(t, err)
	require.Equal(t, roster.IsRunning.String(), x.Reason)
	require.Contains(t, x.Message, "its worker is b/shell/0, of another node")
	e, err = a.Cancel(t.Context(), e.ID, "ann")
	require.NoError(t, err)
	require.Equal(t, messages.Cancelling, e.Status)
	require.Eventually(t, func() bool { return len(b.stage.orders()) == 1 }, 5*time.Second, time.Millisecond, "its node is told at once")
	require.Contains(t, b.stage.orders()[0], "By:ann")
	b.cfg.Feeds.Close(e.ID)
	results, err := c.store.Apply(t.Context(), []store.Change{&store.Finish{ID: e.ID, Attempt: e.Attempt, Outcome: messages.Outcome{Status: messages.Cancelled}}})
	require.NoError(t, err)
	require.Equal(t, store.Applied, results[0].Verdict)
	a.cfg.Outcomes.Publish(results[0].Execution)
	require.NoError(t, <-followed)
	require.Equal(t, []string{"status ", "stdout one\n", "status "}, seen)
}

// A worker stores what its run wrote with the end. Where another ends the run, whoever asks for the output is told that it is lost.
func TestTheOutputOfALostRunIsSaidToBeLost(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, b := c.join("a", "shell", 1), c.join("b", "shell", 1)
	lost := func(by string) messages.Outcome {
		return messages.Outcome{Status: messages.Abandoned, Error: &messages.Error{Code: messages.CodeWorkerLost, FailedBy: by}}
	}
	const text = "what it wrote is lost: a worker stores that with the end of its run, and the end of this one was not written by its worker"
	for about, of := range map[string]struct {
		ends func(e *messages.Execution) []store.Change
		want string
	}{
		"by the sweep": {func(e *messages.Execution) []store.Change {
			return []store.Change{&store.Finish{ID: e.ID, Attempt: e.Attempt, Outcome: lost("sweep")}}
		}, text + " (failed_by: sweep)"},
		"given back and cancelled": {func(e *messages.Execution) []store.Change {
			return []store.Change{&store.Rescue{ID: e.ID, Attempt: e.Attempt, Reason: "node gone"}, &store.Cancel{ID: e.ID}}
		}, text},
		"by its worker": {func(e *messages.Execution) []store.Change {
			return []store.Change{&store.Finish{ID: e.ID, Attempt: e.Attempt, Outcome: lost(messages.FailedByWorker)}}
		}, ""},
		"by the recorder, without what could not be stored": {func(e *messages.Execution) []store.Change {
			return []store.Change{&store.Finish{ID: e.ID, Attempt: e.Attempt, Outcome: lost(messages.FailedByRecorder)}}
		}, "what it wrote is not stored: its end could not be stored as it was"},
		"well": {func(e *messages.Execution) []store.Change {
			return []store.Change{&store.Finish{ID: e.ID, Attempt: e.Attempt, Outcome: messages.Outcome{Status: messages.Completed}}}
		}, ""},
	} {
		e := c.runs(b)
		b.cfg.Feeds.Add(e.ID, messages.RunEvent{Kind: "stdout", Data: []byte("one\n"), At: time.Now()})
		var live []string
		ready, followed := make(chan struct{}), make(chan error, 1)
		go func() {
			followed <- a.Follow(t.Context(), e.ID, func(l view.Live) error {
				if live = append(live, l.Kind+" "+l.Message); l.Kind == "stdout" {
					close(ready)
				}
				return nil
			})
		}()
		<-ready
		b.cfg.Feeds.Close(e.ID)
		_, err := c.store.Apply(t.Context(), of.ends(&e))
		require.NoError(t, err)
		e, err = c.store.Get(t.Context(), e.ID)
		require.NoError(t, err)
		require.True(t, e.Status.Terminal())
		a.cfg.Outcomes.Publish(&e)
		require.NoError(t, <-followed, about)
		out, err := a.Output(t.Context(), e.ID)
		require.NoError(t, err)
		require.Equal(t, of.want, out.Notice, about)
		var later []string
		require.NoError(t, a.Follow(t.Context(), e.ID, func(l view.Live) error {
			later = append(later, l.Kind+" "+l.Message)
			return nil
		}))
		if of.want == "" {
			require.Equal(t, []string{"status "}, later, about)
			require.NotContains(t, strings.Join(live, "\n"), "lost", about)
			continue
		}
		require.Equal(t, []string{"notice " + of.want, "status "}, later, about)
		require.Equal(t, later, live[len(live)-2:], about)
	}
}

// Who comes late to a run that says much learns how many entries are missing, from whichever node it is asked, and output without its
// beginning is marked.
func TestWhatARunSaidTooEarlyIsTold(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a, b := c.join("a", "shell", 1), c.join("b", "shell", 1)
	e := c.runs(b)
	for i := range 3 {
		b.cfg.Feeds.Add(e.ID, messages.RunEvent{Kind: "stderr", Data: []byte{byte('0' + i)}, At: time.Now()})
	}
	b.cfg.Feeds.Add(e.ID, messages.RunEvent{Kind: "log", Message: strings.Repeat("x", 2<<20), At: time.Now()})
	b.cfg.Feeds.Add(e.ID, messages.RunEvent{Kind: "stdout", Data: []byte("end\n"), At: time.Now()})
	for _, asked := range []*node{a, b} {
		out, err := asked.Output(t.Context(), e.ID)
		require.NoError(t, err)
		require.Equal(t, "end\n", string(out.Stdout))
		require.True(t, out.ErrCut)
		require.False(t, out.StdoutCut)
		var seen []string
		gone := errors.New("seen")
		require.ErrorIs(t, asked.Follow(t.Context(), e.ID, func(l view.Live) error {
			if seen = append(seen, l.Kind+" "+l.Message+string(l.Data)); l.Kind == "stdout" {
				return gone
			}
			return nil
		}), gone)
		require.Equal(t, []string{"status ", "notice 4 entries before this one were not kept", "stdout end\n"}, seen)
	}
}

// An execution that waits is explained by the router of its pool, on whichever node that is.
func TestARouterOnAnotherNodeExplains(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	a := c.join("a", "shell", 1)
	b := c.join("b", "shell", 1)
	e := messages.Execution{ID: messages.NewExecutionID(), Action: "core.echo", Pool: "shell", Status: messages.Requested,
		Parameters: json.RawMessage(`{}`), Timeout: time.Minute, Priority: messages.PriorityNormal}
	_, err := c.store.Submit(t.Context(), []messages.Execution{e})
	require.NoError(t, err)
	x, err := a.Why(t.Context(), e.ID)
	require.NoError(t, err)
	require.Equal(t, roster.WorkersBusy.String(), x.Reason)
	c.lost[b.cfg.Incarnation] = true
	x, err = a.Why(t.Context(), e.ID)
	require.NoError(t, err)
	require.Equal(t, "router_silent", x.Reason)
	require.Contains(t, x.Message, "it is on node "+b.cfg.Incarnation.String())
	_, err = a.Why(t.Context(), messages.NewExecutionID())
	require.ErrorContains(t, err, "there is no execution")
}
