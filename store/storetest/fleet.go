package storetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

func (k *kit) node(t *testing.T, inc messages.Incarnation) store.Node {
	all, err := k.ListNodes(t.Context())
	require.NoError(t, err)
	for _, n := range all {
		if n.Incarnation == inc {
			return n
		}
	}
	t.Fatal("no such node")
	return store.Node{}
}

func testNodes(t *testing.T, k *kit) {
	require.Equal(t, store.NodeActive, k.node(t, k.inc).State)
	require.Empty(t, k.node(t, k.inc).PeerAddress)
	require.NoError(t, k.Join(t.Context(), store.Node{Incarnation: k.inc, Name: "n", Address: "a:1", PeerAddress: "b:2", PeerScope: "boot/1", PeerProof: 1}, time.Minute))
	require.Equal(t, "a:1", k.node(t, k.inc).Address)
	require.Equal(t, "b:2", k.node(t, k.inc).PeerAddress)
	require.Equal(t, "boot/1", k.node(t, k.inc).PeerScope)
	require.Equal(t, 1, k.node(t, k.inc).PeerProof)
	before := k.node(t, k.inc).BeatAt
	pulse, err := k.Beat(t.Context(), k.inc, time.Minute)
	require.NoError(t, err)
	n := k.node(t, k.inc)
	require.False(t, n.BeatAt.Before(before))
	require.Equal(t, n.BeatAt.Add(time.Minute), n.LeaseUntil)
	require.NoError(t, k.CordonNode(t.Context(), k.inc, true))
	require.True(t, k.node(t, k.inc).Cordoned)
	require.Equal(t, n.BeatAt.Add(time.Minute), pulse.Lease)
	require.Contains(t, pulse.Nodes, n)
	_, err = k.Beat(t.Context(), messages.NewIncarnation(), time.Minute)
	require.ErrorIs(t, err, store.ErrNotFound)

	require.NoError(t, k.SaveWorkers(t.Context(), []store.Worker{{Key: k.key(1), ID: workerID(1), Runtime: "go", State: "busy", Active: true}}))
	ended, err := k.EndedWorkers(t.Context(), k.inc)
	require.NoError(t, err)
	require.Empty(t, ended, "it lives")
	require.NoError(t, k.SetNode(t.Context(), k.inc, store.NodeDraining))
	workers, err := k.ListWorkers(t.Context(), pool)
	require.NoError(t, err)
	require.Len(t, workers, 1)
	require.False(t, workers[0].Active, "a draining node's workers are inactive")
	require.NoError(t, k.SetNode(t.Context(), k.inc, store.NodeDead))
	_, err = k.Beat(t.Context(), k.inc, time.Minute)
	require.ErrorIs(t, err, store.ErrNotFound, "it was declared dead")
	require.ErrorIs(t, k.SetNode(t.Context(), k.inc, store.NodeActive), store.ErrNotFound, "dead is final")
	require.ErrorIs(t, k.Join(t.Context(), store.Node{Incarnation: k.inc, Name: "n"}, time.Minute), store.ErrNotFound, "nor does it come back by joining again")
	require.Equal(t, store.NodeDead, k.node(t, k.inc).State)
	workers, err = k.ListWorkers(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, workers)
	workers, err = k.EndedWorkers(t.Context(), k.inc)
	require.NoError(t, err)
	require.Equal(t, []store.Worker{{Key: k.key(1), ID: workerID(1), Runtime: "go", State: "busy"}}, workers)
	require.ErrorIs(t, k.SetNode(t.Context(), k.inc, "asleep"), store.ErrInvalid)
}

func testPoolCordons(t *testing.T, k *kit) {
	ctx := t.Context()
	cordoned := func() []string {
		list, err := k.CordonedPools(ctx)
		require.NoError(t, err)
		return list
	}
	require.Empty(t, cordoned())
	for _, pool := range []string{"b", "a", "B", "a", "ä"} {
		require.NoError(t, k.CordonPool(ctx, pool, true), "a second time too")
	}
	require.Equal(t, []string{"B", "a", "b", "ä"}, cordoned())
	for range 2 {
		require.NoError(t, k.CordonPool(ctx, "a", false))
	}
	require.Equal(t, []string{"B", "b", "ä"}, cordoned())
	require.NoError(t, k.Join(ctx, store.Node{Incarnation: messages.NewIncarnation(), Name: "n", Version: "1"}, time.Hour))
	require.Equal(t, []string{"B", "b", "ä"}, cordoned(), "a new boot leaves them")
}

func testWorkers(t *testing.T, k *kit) {
	ctx := t.Context()
	rows := make([]store.Worker, 50)
	for i := range rows {
		rows[i] = store.Worker{Key: k.key(i), ID: workerID(i), Generation: 1, Runtime: "go", State: "ready", Health: "healthy",
			Active: i != 3, BeatEvery: 10 * time.Second, Since: time.Now().UTC().Truncate(time.Microsecond)}
	}
	require.NoError(t, k.SaveWorkers(ctx, rows))
	caps := json.RawMessage(`{"health":{"status":"degraded"}}`)
	require.NoError(t, k.Heartbeat(ctx, k.inc, map[messages.WorkerKey]json.RawMessage{k.key(2): caps}))
	at := time.Now().UTC().Truncate(time.Microsecond)
	require.NoError(t, k.RecordTransitions(ctx, []store.WorkerEvent{
		{Key: k.key(1), Generation: 2, At: at, From: "ready", To: "degraded", Reason: "health_check_failed", Lasted: 3 * time.Second, Metadata: json.RawMessage(`{"a":1}`)},
		{Key: k.key(1), Generation: 2, At: at.Add(time.Second), From: "degraded", To: "ready", Reason: "health_restored"},
		{Key: k.key(4), Generation: 1, At: at, From: "ready", To: "terminating", Reason: "shutdown"},
	}, []string{"unhealthy", "healthy", "unknown"}))
	require.ErrorIs(t, k.RecordTransitions(ctx, make([]store.WorkerEvent, 1), nil), store.ErrInvalid)
	require.NoError(t, k.CordonWorker(ctx, k.key(5), true))
	require.ErrorIs(t, k.CordonWorker(ctx, k.key(99), true), store.ErrNotFound)

	all, err := k.ListWorkers(ctx, pool)
	require.NoError(t, err)
	require.Len(t, all, len(rows))
	by := map[messages.WorkerKey]store.Worker{}
	for _, w := range all {
		by[w.Key] = w
	}
	require.Zero(t, by[k.key(3)].Beat, "no heartbeat for an inactive one")
	require.False(t, by[k.key(2)].Beat.IsZero())
	require.JSONEq(t, string(caps), string(by[k.key(2)].Capabilities))
	require.Equal(t, messages.Generation(2), by[k.key(1)].Generation)
	require.Equal(t, "healthy", by[k.key(1)].Health)
	require.Equal(t, "terminating", by[k.key(4)].State)
	require.True(t, by[k.key(5)].Cordoned)
	events, err := k.WorkerEvents(ctx, k.key(1), 1)
	require.NoError(t, err)
	require.Len(t, events, 1)
	require.Equal(t, "health_restored", events[0].Reason, "newest first")
	events, err = k.WorkerEvents(ctx, k.key(1), 10)
	require.NoError(t, err)
	require.Equal(t, 3*time.Second, events[1].Lasted)
	none, err := k.ListWorkers(ctx, "other")
	require.NoError(t, err)
	require.Empty(t, none)
}

// testLargeDeadLetters stores dead letters above the bound of their body.
func testLargeDeadLetters(t *testing.T, k *kit) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 200<<10/16)
	sum := sha256.Sum256(body)
	id, err := k.SaveDeadLetter(t.Context(), store.DeadLetter{Reason: "malformed", Body: body, Resolution: "quarantined"})
	require.NoError(t, err)
	got, err := k.GetDeadLetter(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, body[:store.DeadLetterBodyMax], got.Body)
	require.EqualValues(t, len(body), got.BodySize)
	require.True(t, got.BodyCut)
	require.Equal(t, hex.EncodeToString(sum[:]), got.BodySHA256)
	page, err := k.ListDeadLetters(t.Context(), 0, 10)
	require.NoError(t, err)
	got.Body = nil
	require.Equal(t, []store.DeadLetter{got}, page)
}

func testDeadLetters(t *testing.T, k *kit) {
	ctx := t.Context()
	e := k.bring(t, messages.Scheduled)
	at := time.Now().UTC().Truncate(time.Microsecond)
	d := store.DeadLetter{At: at, Execution: e.ID, Attempt: 1, Action: e.Action, Worker: workerID(1), Queue: "q", Reason: "expired",
		DiedAt: at.Add(-time.Second), Headers: json.RawMessage(`{"x-death":[]}`), Body: []byte("\x00\xff"), Resolution: "failed"}
	var ids []int64
	for range 5 {
		id, err := k.SaveDeadLetter(ctx, d)
		require.NoError(t, err)
		ids = append(ids, id)
	}
	_, err := k.SaveDeadLetter(ctx, store.DeadLetter{Reason: "malformed", Body: []byte("{"), Resolution: "quarantined"})
	require.NoError(t, err)
	got, err := k.GetDeadLetter(ctx, ids[0])
	require.NoError(t, err)
	d.ID, d.BodySize = ids[0], 2
	require.Equal(t, d, got)
	_, err = k.GetDeadLetter(ctx, 1<<40)
	require.ErrorIs(t, err, store.ErrNotFound)
	page, err := k.ListDeadLetters(ctx, 0, 2)
	require.NoError(t, err)
	require.Len(t, page, 2)
	require.Equal(t, "malformed", page[0].Reason, "newest first")
	require.Nil(t, page[0].Body, "lists carry no bodies")
	require.EqualValues(t, 1, page[0].BodySize)
	page, err = k.ListDeadLetters(ctx, page[1].ID, 100)
	require.NoError(t, err)
	require.Len(t, page, 4)
	require.NoError(t, k.ResolveDeadLetter(ctx, ids[1], "requeued"))
	got, err = k.GetDeadLetter(ctx, ids[1])
	require.NoError(t, err)
	require.Equal(t, "requeued", got.Resolution)
	require.ErrorIs(t, k.ResolveDeadLetter(ctx, 1<<40, "discarded"), store.ErrNotFound)
	stats, err := k.DeadLetterStats(ctx, at.Add(-time.Hour))
	require.NoError(t, err)
	counts := map[string]int{}
	for _, s := range stats {
		counts[s.Reason] += s.Count
		require.Zero(t, s.Hour.Minute())
	}
	require.Equal(t, map[string]int{"expired": 5, "malformed": 1}, counts)
}

func testPurge(t *testing.T, k *kit) {
	ctx := t.Context()
	labelled := func(e *messages.Execution) { e.Labels = map[string]string{"a": "b"} }
	var gone []messages.Execution
	for range 7 {
		e := k.bring(t, messages.Running, labelled)
		k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: completed(), Output: messages.Output{Stdout: []byte("x")}})
		require.Equal(t, store.Already, k.apply(t, &store.Cancel{ID: e.ID})[0].Verdict, "a late look must not keep it known")
		gone = append(gone, e)
	}
	first := k.bring(t, messages.Failed)
	retried, err := k.Retry(ctx, first.ID, retryOf(first), "ann")
	require.NoError(t, err)
	gone = append(gone, first)
	waiting, running := k.bring(t, messages.Requested, labelled), k.bring(t, messages.Running)
	now, err := k.Now(ctx)
	require.NoError(t, err)
	n, err := k.Purge(ctx, store.Purge{Limit: 100})
	require.NoError(t, err)
	require.Zero(t, n.Rows, "zero times keep everything")
	n, err = k.Purge(ctx, store.Purge{FinishedBefore: now.Add(-time.Hour), Limit: 100})
	require.NoError(t, err)
	require.Zero(t, n.Rows)
	total := 0
	for range 10 {
		n, err = k.Purge(ctx, store.Purge{FinishedBefore: now.Add(time.Hour), Limit: 3})
		require.NoError(t, err)
		require.LessOrEqual(t, n.Rows, 3)
		if total += n.Rows; !n.More {
			break
		}
	}
	require.Equal(t, len(gone), total)
	for _, e := range gone {
		_, err := k.Get(ctx, e.ID)
		require.ErrorIs(t, err, store.ErrNotFound)
		_, err = k.Output(ctx, e.ID)
		require.ErrorIs(t, err, store.ErrNotFound)
		require.Equal(t, store.Missing, k.apply(t, &store.Cancel{ID: e.ID})[0].Verdict)
	}
	chain, err := k.Chain(ctx, first.ID)
	require.NoError(t, err)
	require.Len(t, chain, 1, "the first of a chain still gives the others")
	require.Equal(t, retried.Execution.ID, chain[0].ID)
	_, err = k.Chain(ctx, gone[0].ID)
	require.ErrorIs(t, err, store.ErrNotFound)
	require.Equal(t, waiting, k.get(t, waiting.ID))
	require.Equal(t, running, k.get(t, running.ID))
	left, err := k.List(ctx, store.Filter{Labels: [][2]string{{"a", "b"}}})
	require.NoError(t, err)
	require.Len(t, left.Executions, 1)
	require.Greater(t, k.submit(t, ask())[0].Seq, running.Seq)
	k.purgeOthers(t, now)
}

// A session stays while an execution of it waits with run_at far ahead, so that the run is told of lost state.
func testPurgeKeepsSessions(t *testing.T, k *kit) {
	now, err := k.Now(t.Context())
	require.NoError(t, err)
	var waits []messages.Execution
	for _, affinity := range []messages.Affinity{messages.AffinityStrict, messages.AffinityHint} {
		name := string(affinity)
		far := func(e *messages.Execution) { e.RunAt = now.Add(24 * time.Hour) }
		first := k.submit(t, ask(inSession(name, affinity)))[0]
		k.runIn(t, first, 1, store.SessionUse{Epoch: 1, Bind: true, Hit: true}, completed())
		waits = append(waits, k.submit(t, ask(inSession(name, affinity), far))...)
		_, err = k.Unbind(t.Context(), []store.Binding{{Pool: pool, Session: name, Epoch: 1, Worker: k.key(1)}})
		require.NoError(t, err)
	}
	old := store.Purge{FinishedBefore: now.Add(time.Hour), SessionsBefore: now.Add(time.Hour), Limit: 100}
	n, err := k.Purge(t.Context(), old)
	require.NoError(t, err)
	require.Equal(t, 2, n.Rows, "what has ended")
	for _, e := range waits {
		require.Equal(t, int64(1), k.session(t, e.Session).StartedEpoch, "it had something to lose")
		k.applied(t, &store.Cancel{ID: e.ID})
	}
	total := 0
	for range 5 {
		n, err = k.Purge(t.Context(), old)
		require.NoError(t, err)
		total += n.Rows
	}
	require.Equal(t, 4, total, "two executions and two sessions")
}

// A session with more stored executions than a purge looks at stays until they are purged, and sessions after it are
// deleted.
func testPurgePassesLargeSessions(t *testing.T, k *kit) {
	now, err := k.Now(t.Context())
	require.NoError(t, err)
	for _, name := range []string{"a", "b"} {
		first := k.submit(t, ask(inSession(name, messages.AffinityStrict)))[0]
		k.runIn(t, first, 1, store.SessionUse{Epoch: 1, Bind: true, Hit: true}, completed())
		_, err = k.Unbind(t.Context(), []store.Binding{{Pool: pool, Session: name, Epoch: 1, Worker: k.key(1)}})
		require.NoError(t, err)
	}
	for range 10 {
		var many []messages.Execution
		for range 100 {
			many = append(many, ask(inSession("a", messages.AffinityStrict)))
		}
		var cancels []store.Change
		for _, e := range k.submit(t, many...) {
			cancels = append(cancels, &store.Cancel{ID: e.ID})
		}
		_, err = k.Apply(t.Context(), cancels)
		require.NoError(t, err)
	}
	later := now.Add(time.Hour)
	n, err := k.Purge(t.Context(), store.Purge{SessionsBefore: later, Limit: 100})
	require.NoError(t, err)
	require.Equal(t, 1, n.Rows, "b goes, a has 1,001 executions")
	total := 0
	for range 5 {
		n, err = k.Purge(t.Context(), store.Purge{FinishedBefore: later, SessionsBefore: later, Limit: 1000})
		require.NoError(t, err)
		total += n.Rows
	}
	require.Equal(t, 1003, total, "all executions, and a")
}

func (k *kit) purgeOthers(t *testing.T, now time.Time) {
	ctx := t.Context()
	e := k.submit(t, ask(inSession("s", messages.AffinityStrict)))[0]
	k.applied(t, k.placeIn(e, 1, store.SessionUse{Epoch: 1, Bind: true}))
	_, err := k.SaveDeadLetter(ctx, store.DeadLetter{Reason: "malformed", Resolution: "quarantined"})
	require.NoError(t, err)
	require.NoError(t, k.RecordTransitions(ctx, []store.WorkerEvent{{Key: k.key(1), At: now, From: "a", To: "b", Reason: "error"}}, []string{""}))
	later := now.Add(time.Hour)
	k.purgeJournal(t)
	all := store.Purge{DeadLettersBefore: later, EventsBefore: later, SessionsBefore: later, NodesBefore: later, Limit: 100}
	n, err := k.Purge(ctx, all)
	require.NoError(t, err)
	require.Equal(t, 2, n.Rows, "a dead letter and a worker event; a bound session and a live node stay")
	_, err = k.Unbind(ctx, []store.Binding{{Pool: pool, Session: "s", Epoch: 1, Worker: k.key(1)}})
	require.NoError(t, err)
	n, err = k.Purge(ctx, all)
	require.NoError(t, err)
	require.Zero(t, n.Rows, "an execution of the session may still have to tell what it has lost")
	k.applied(t, &store.Cancel{ID: e.ID})
	other := k.submit(t, ask(inSession("bound", messages.AffinityStrict)))[0]
	k.applied(t, k.placeIn(other, 1, store.SessionUse{Epoch: 1, Bind: true}))
	k.applied(t, &store.Cancel{ID: other.ID})
	n, err = k.Purge(ctx, all)
	require.NoError(t, err)
	require.Equal(t, 1, n.Rows, "the unbound session")
	require.NoError(t, k.SetNode(ctx, k.inc, store.NodeDead))
	n, err = k.Purge(ctx, all)
	require.NoError(t, err)
	require.Equal(t, 2, n.Rows, "the node, and the session that was bound there")
	for _, name := range []string{"s", "bound"} {
		_, err = k.GetSession(ctx, pool, name)
		require.ErrorIs(t, err, store.ErrNotFound)
	}
	nodes, err := k.ListNodes(ctx)
	require.NoError(t, err)
	require.Empty(t, nodes)
}

func testActionsAndClock(t *testing.T, k *kit) {
	a := []messages.Action{{Ref: "a.b", Pack: "a", Version: "1", Pool: pool, Runtime: "go"}, {Ref: "a.b", Pack: "a", Version: "2", Pool: pool, Runtime: "go"}}
	require.NoError(t, k.SaveActions(t.Context(), a))
	require.NoError(t, k.SaveActions(t.Context(), a))
	last := time.Time{}
	for range 1000 {
		now, err := k.Now(t.Context())
		require.NoError(t, err)
		require.False(t, now.Before(last), "the clock goes back")
		require.Equal(t, time.UTC, now.Location())
		last = now
	}
}
