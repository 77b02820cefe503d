package storetest

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Option adds tests for more features of an adapter's store.
type Option func() []named

// named is one test of the suite.
type named struct {
	name string
	test func(t *testing.T, k *kit)
}

// Shared adds the tests of a store that several nodes and other programs use at the same time: leases and fencing, dead
// nodes, hints, and the inbox. put submits as another program does.
func Shared(put func(t *testing.T, s store.Store, k store.Submission)) Option {
	return func() []named {
		return []named{
			{"claims are fenced", testFenced},
			{"leases are steady", testSteady},
			{"a gap shorter than the lease ends steadiness", testGap},
			{"a late declaration has no effect", testLateDeclare},
			{"nobody is dead after an outage for everyone", testOutages},
			{"dead nodes are declared", testDeclareDead},
			{"gone nodes are declared", testDeclareGone},
			{"no node is declared dead by one that was away", testDeclareAfterOutage},
			{"routers go by leases", testRouterLeases},
			{"operations go by leases", testOperationLeases},
			{"routers have one taker", testRouterRaces},
			{"routers drain", testRouterDrains},
			{"router hints", testRouterHints},
			{"hints", testHints},
			{"hints end", testHintsEnd},
			{"submissions", func(t *testing.T, k *kit) { testSubmissions(t, k, put) }},
			{"submissions are held", func(t *testing.T, k *kit) { testSubmissionsHeld(t, k, put) }},
			{"submissions of the nil id", func(t *testing.T, k *kit) { testSubmissionsOfNothing(t, k, put) }},
		}
	}
}

// join adds another incarnation.
func (k *kit) join(t *testing.T, lease time.Duration) messages.Incarnation {
	inc := messages.NewIncarnation()
	require.NoError(t, k.Join(t.Context(), store.Node{Incarnation: inc, Name: "other", Version: "1"}, lease))
	return inc
}

// past waits until the store's clock has passed a time.
func (k *kit) past(t *testing.T, at time.Time) {
	require.Eventually(t, func() bool {
		now, err := k.Now(t.Context())
		require.NoError(t, err)
		return now.After(at)
	}, 10*time.Second, 5*time.Millisecond)
}

func testFenced(t *testing.T, k *kit) {
	e := []messages.Execution{k.bring(t, messages.Scheduled), k.bring(t, messages.Scheduled), k.bring(t, messages.Scheduled)}
	fenced := func(c store.Change, why string) {
		t.Helper()
		r := k.apply(t, c)[0]
		require.Equal(t, store.Refused, r.Verdict, why)
		require.ErrorIs(t, r.Err, store.ErrFenced)
		require.Equal(t, messages.Scheduled, k.get(t, c.Target()).Status)
	}
	p, err := k.Beat(t.Context(), k.inc, 20*time.Millisecond)
	require.NoError(t, err)
	k.past(t, p.Lease)
	fenced(k.claim(e[0].ID, 1, 1), "its lease has run out")
	_, err = k.Beat(t.Context(), k.inc, time.Hour)
	require.NoError(t, err)
	k.applied(t, k.claim(e[0].ID, 1, 1))
	require.NoError(t, k.SetNode(t.Context(), k.inc, store.NodeDraining))
	k.applied(t, k.claim(e[1].ID, 1, 1))
	require.NoError(t, k.SetNode(t.Context(), k.inc, store.NodeDead))
	fenced(k.claim(e[2].ID, 1, 1), "it was declared dead")
	require.Equal(t, store.Already, k.apply(t, k.claim(e[0].ID, 1, 1))[0].Verdict, "what it had claimed before it knows")
}

func testSteady(t *testing.T, k *kit) {
	first := k.node(t, k.inc)
	require.False(t, first.SteadySince.IsZero())
	require.True(t, first.Present, "its connection is seen")
	_, err := k.Beat(t.Context(), k.inc, 20*time.Millisecond)
	require.NoError(t, err)
	held := k.node(t, k.inc)
	require.Equal(t, first.SteadySince, held.SteadySince, "renewed without a gap")
	k.past(t, held.LeaseUntil)
	p, err := k.Beat(t.Context(), k.inc, time.Hour)
	require.NoError(t, err)
	since := k.node(t, k.inc).SteadySince // the renewal may be repeated; then the first one ended the pause
	require.True(t, since.After(held.LeaseUntil) && !since.After(p.At), "after a gap it is steady from its renewal on, at %s: %s", p.At, since)
}

// gapLease is a lease that a slow machine renews well within SteadyGap if it does so at once.
const gapLease = 2 * time.Second

// pastGap waits until a steady node would have renewed since the incarnation's last renewal, and its lease has not
// expired.
func (k *kit) pastGap(t *testing.T, inc messages.Incarnation) {
	k.past(t, k.node(t, inc).BeatAt.Add(gapLease*(store.SteadyGap+50)/1000))
}

// An outage lasts almost a lease: this node's lease had not expired when it was renewed, but those of others may have.
func testGap(t *testing.T, k *kit) {
	inc := k.join(t, gapLease)
	first := k.node(t, inc)
	_, err := k.Beat(t.Context(), inc, gapLease)
	require.NoError(t, err)
	require.Equal(t, first.SteadySince, k.node(t, inc).SteadySince, "renewed at once")
	k.pastGap(t, inc)
	before := k.node(t, inc)
	_, err = k.Beat(t.Context(), inc, gapLease)
	require.NoError(t, err)
	require.True(t, k.node(t, inc).SteadySince.After(before.BeatAt), "steady from its renewal on")
}

// testOutages has outages near the length of a lease in which no node can renew. The node that renews first declares no
// other dead, although their last renewal was up to a beat before its own.
func testOutages(t *testing.T, k *kit) {
	const lease = 2 * time.Second
	for _, share := range []time.Duration{500, 800, 950, 1000, 1500} {
		first, other := k.join(t, lease), k.join(t, lease)
		renew := func(inc messages.Incarnation) time.Time {
			p, err := k.Beat(t.Context(), inc, lease)
			require.NoError(t, err, "share %d: it lives", share)
			return p.At
		}
		for at := k.node(t, first).SteadySince; renew(first).Sub(at) < lease; { // until it is steady, and a beat after the other
			k.past(t, renew(other).Add(lease/5))
		}
		k.past(t, k.node(t, first).BeatAt.Add(lease*share/1000))
		renew(first)
		dead, err := k.DeclareDead(t.Context(), first, lease)
		require.NoError(t, err)
		require.Empty(t, dead, "share %d", share)
		renew(other)
		require.NoError(t, k.SetNode(t.Context(), first, store.NodeDead))
		require.NoError(t, k.SetNode(t.Context(), other, store.NodeDead))
	}
}

// A declaration that was decided after a renewal may reach the store after an outage, in which no other node could
// renew.
func testLateDeclare(t *testing.T, k *kit) {
	const lease = 50 * time.Millisecond
	other := k.join(t, lease)
	_, err := k.Beat(t.Context(), k.inc, gapLease)
	require.NoError(t, err)
	k.past(t, k.node(t, other).LeaseUntil)
	k.past(t, k.node(t, k.inc).SteadySince.Add(lease))
	k.pastGap(t, k.inc)
	dead, err := k.DeclareDead(t.Context(), k.inc, lease)
	require.NoError(t, err)
	require.Empty(t, dead, "the caller's own renewal is too long ago")
	_, err = k.Beat(t.Context(), k.inc, time.Hour)
	require.NoError(t, err)
	k.past(t, k.node(t, k.inc).SteadySince.Add(lease))
	dead, err = k.DeclareDead(t.Context(), k.inc, lease)
	require.NoError(t, err)
	require.Len(t, dead, 1, "it has renewed")
}

func testDeclareDead(t *testing.T, k *kit) {
	const lease = 50 * time.Millisecond
	gone, alive := k.join(t, lease), k.join(t, time.Hour)
	key := messages.WorkerKey{Incarnation: gone, Pool: pool, Slot: 1}
	require.NoError(t, k.SaveWorkers(t.Context(), []store.Worker{{Key: key, ID: "other/p/1", Active: true}}))
	e := k.submit(t, ask())[0]
	place := k.place(e.ID, 0, 1)
	place.Worker = key
	k.applied(t, place)
	k.past(t, k.node(t, gone).LeaseUntil)
	require.Empty(t, k.overdue(t, store.Orphaned, 0), "nobody has declared it dead")
	dead, err := k.DeclareDead(t.Context(), k.inc, time.Hour)
	require.NoError(t, err)
	require.Empty(t, dead, "the caller has not been steady for its lease's length")
	k.past(t, k.node(t, k.inc).SteadySince.Add(lease))
	dead, err = k.DeclareDead(t.Context(), k.inc, lease)
	require.NoError(t, err)
	require.Len(t, dead, 1)
	require.Equal(t, gone, dead[0].Incarnation)
	require.Equal(t, store.NodeDead, dead[0].State)
	require.Equal(t, store.EndLease, dead[0].Ended)
	require.Equal(t, store.NodeDead, k.node(t, gone).State)
	require.Equal(t, store.NodeActive, k.node(t, alive).State)
	require.Equal(t, []messages.ExecutionID{e.ID}, k.overdue(t, store.Orphaned, 0))
	_, err = k.Beat(t.Context(), gone, time.Hour)
	require.ErrorIs(t, err, store.ErrNotFound)
	p, err := k.Beat(t.Context(), k.inc, time.Hour)
	require.NoError(t, err)
	require.Len(t, p.Nodes, 2, "the dead are left out")
	dead, err = k.DeclareDead(t.Context(), k.inc, lease)
	require.NoError(t, err)
	require.Empty(t, dead, "dead once")
}

// testDeclareGone: whom the store sees nobody can declare dead within its lease, whatever its address does. Package postgres tests
// those whose connections are gone.
func testDeclareGone(t *testing.T, k *kit) {
	const lease = 50 * time.Millisecond
	other := k.join(t, time.Hour)
	p, err := k.Beat(t.Context(), other, time.Second)
	require.NoError(t, err)
	require.True(t, k.node(t, other).Present)
	require.False(t, k.node(t, other).PresentSince.IsZero(), "its renewal says that it is seen")
	k.past(t, p.At.Add(time.Second*store.SilentShare/1000))
	p, err = k.Beat(t.Context(), k.inc, lease)
	require.NoError(t, err)
	k.past(t, p.At.Add(lease*store.SettleShare/1000))
	gone := []store.Gone{{Incarnation: other, BeatAt: k.node(t, other).BeatAt, Ended: store.EndRefused}}
	dead, err := k.DeclareGone(t.Context(), k.inc, time.Millisecond, gone)
	require.NoError(t, err)
	require.Empty(t, dead, "the store sees its connection")
	dead, err = k.DeclareGone(t.Context(), k.inc, time.Millisecond, nil)
	require.NoError(t, err)
	require.Empty(t, dead)
	require.Equal(t, store.NodeActive, k.node(t, other).State)
}

func testDeclareAfterOutage(t *testing.T, k *kit) {
	const lease = 50 * time.Millisecond
	other := k.join(t, lease)
	_, err := k.Beat(t.Context(), k.inc, lease)
	require.NoError(t, err)
	k.past(t, k.node(t, k.inc).LeaseUntil)
	k.past(t, k.node(t, other).LeaseUntil)
	dead, err := k.DeclareDead(t.Context(), k.inc, lease)
	require.NoError(t, err)
	require.Empty(t, dead, "the caller's own lease has run out")
	_, err = k.Beat(t.Context(), k.inc, time.Hour)
	require.NoError(t, err)
	dead, err = k.DeclareDead(t.Context(), k.inc, time.Hour)
	require.NoError(t, err)
	require.Empty(t, dead, "it is steady only since now")
	require.Equal(t, store.NodeActive, k.node(t, other).State)
}

// hear waits for a hint and drops the ones before it.
func hear(t *testing.T, hints <-chan store.Hint, want store.Hint) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case h, ok := <-hints:
			require.True(t, ok, "the hints have ended")
			if h == want {
				return
			}
		case <-deadline:
			t.Fatalf("no hint %+v", want)
		}
	}
}

// watch returns hints from a store that already listens: the second hint to look says so.
func (k *kit) watch(t *testing.T) <-chan store.Hint {
	hints, err := k.Watch(t.Context())
	require.NoError(t, err)
	hear(t, hints, store.Hint{Kind: store.HintLook})
	// Values are only hints: those before the store listens may be missing, so the first one is requested until it
	// arrives.
	require.Eventually(t, func() bool {
		k.submit(t, ask(func(e *messages.Execution) { e.Pool = "first" }))
		select {
		case h := <-hints:
			return h.Kind == store.HintRequested
		case <-time.After(50 * time.Millisecond):
			return false
		}
	}, 10*time.Second, time.Millisecond)
	return hints
}

func testHints(t *testing.T, k *kit) {
	hints := k.watch(t)
	e := k.submit(t, ask(), ask(), ask())
	hear(t, hints, store.Hint{Kind: store.HintRequested, Pool: pool})
	k.applied(t, k.place(e[0].ID, 0, 1))
	k.applied(t, &store.TakeBack{ID: e[0].ID, Attempt: 1})
	hear(t, hints, store.Hint{Kind: store.HintRequested, Pool: pool})
	r := k.bring(t, messages.Running)
	k.applied(t, &store.Cancel{ID: r.ID, By: "me"})
	hear(t, hints, store.Hint{Kind: store.HintCancel, Execution: r.ID})
	k.join(t, time.Hour)
	_, err := k.Beat(t.Context(), k.inc, time.Hour)
	require.NoError(t, err)
	f := k.bring(t, messages.Completed)
	hear(t, hints, store.Hint{Kind: store.HintFinished, Execution: f.ID})
}

func testHintsEnd(t *testing.T, k *kit) {
	ctx, cancel := context.WithCancel(t.Context())
	hints, err := k.Watch(ctx)
	require.NoError(t, err)
	cancel()
	for range hints {
		continue // until it is closed
	}
	hints = k.watch(t)
	require.NoError(t, k.Close())
	for range hints {
		continue
	}
	_, err = k.Watch(t.Context())
	require.ErrorIs(t, err, store.ErrClosed)
}

func testSubmissions(t *testing.T, k *kit, put func(*testing.T, store.Store, store.Submission)) {
	hints := k.watch(t)
	none, err := k.TakeSubmissions(t.Context(), time.Hour, 10)
	require.NoError(t, err)
	require.Empty(t, none)
	priority, retries := messages.Priority(0), 0
	full := store.Submission{
		ID: messages.NewExecutionID(), Action: "a.b", Parameters: json.RawMessage(`{"a": 1}`), Session: "s", Affinity: messages.AffinityHint,
		Priority: &priority, RunAt: time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond), IdempotencyKey: "k", Timeout: 90 * time.Second,
		MaxRetries: &retries, Labels: map[string]string{"a": "b"}, CreatedBy: "me", Trace: "t",
	}
	bare := store.Submission{ID: messages.NewExecutionID(), Action: "c.d", Parameters: json.RawMessage(`{}`)}
	put(t, k.Store, full)
	hear(t, hints, store.Hint{Kind: store.HintInbox})
	put(t, k.Store, bare)
	got, err := k.TakeSubmissions(t.Context(), time.Hour, 10)
	require.NoError(t, err)
	require.Len(t, got, 2)
	for i, want := range []store.Submission{full, bare} {
		require.False(t, got[i].At.IsZero())
		require.JSONEq(t, string(want.Parameters), string(got[i].Parameters))
		want.At, want.Parameters = got[i].At, got[i].Parameters
		require.Equal(t, want, got[i], "oldest first, with every field")
	}
	again, err := k.TakeSubmissions(t.Context(), time.Hour, 10)
	require.NoError(t, err)
	require.Empty(t, again, "they are held")
}

func testSubmissionsHeld(t *testing.T, k *kit, put func(*testing.T, store.Store, store.Submission)) {
	var ids []messages.ExecutionID
	for range 3 {
		s := store.Submission{ID: messages.NewExecutionID(), Action: "a.b", Parameters: json.RawMessage(`{}`)}
		put(t, k.Store, s)
		ids = append(ids, s.ID)
	}
	got, err := k.TakeSubmissions(t.Context(), 30*time.Millisecond, 10)
	require.NoError(t, err)
	require.Len(t, got, 3)
	require.NoError(t, k.SettleSubmissions(t.Context(), []store.Settlement{{ID: ids[0]}, {ID: ids[1], Refused: "no such action"}, {ID: messages.NewExecutionID()}}))
	require.NoError(t, k.SettleSubmissions(t.Context(), nil))
	var left []store.Submission
	require.Eventually(t, func() bool {
		left, err = k.TakeSubmissions(t.Context(), time.Hour, 10)
		require.NoError(t, err)
		return len(left) > 0
	}, 10*time.Second, 5*time.Millisecond, "what nobody settled comes again")
	require.Len(t, left, 1)
	require.Equal(t, ids[2], left[0].ID)
}

// testSubmissionsOfNothing checks that the nil id, which another program may insert, identifies its row like any other.
func testSubmissionsOfNothing(t *testing.T, k *kit, put func(*testing.T, store.Store, store.Submission)) {
	put(t, k.Store, store.Submission{Action: "a.b", Parameters: json.RawMessage(`{}`)})
	got, err := k.TakeSubmissions(t.Context(), time.Nanosecond, 10)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.True(t, got[0].ID.IsZero())
	require.NotEmpty(t, got[0].Invalid)
	require.NoError(t, k.SettleSubmissions(t.Context(), []store.Settlement{{Refused: got[0].Invalid}}))
	got, err = k.TakeSubmissions(t.Context(), time.Hour, 10)
	require.NoError(t, err)
	require.Empty(t, got, "it is settled")
}
