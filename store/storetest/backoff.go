package storetest

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// The head of a session keeps its place during its back-off. A scheduled start does not hold its session.
func testDueBackedOff(t *testing.T, k *kit) {
	strict, fails := inSession("s", messages.AffinityStrict), inSession("s", messages.AffinityStrictFail)
	now, err := k.Now(t.Context())
	require.NoError(t, err)
	scheduled := k.submit(t, ask(strict, func(e *messages.Execution) { e.RunAt = now.Add(time.Hour) }))[0]
	e := k.submit(t, ask(strict), ask(strict, withPriority(9)), ask(inSession("s", messages.AffinityHint)))
	heads, _ := k.due(t, store.DueQuery{Heads: 10})
	require.Equal(t, idsOf(e, 0), heads, "%s waits for its time", scheduled.ID)

	k.applied(t, k.placeIn(e[0], 1, store.SessionUse{Epoch: 1, Bind: true, Hit: true}))
	k.applied(t, &store.TakeBack{ID: e[0].ID, Attempt: 1, Reason: "test", Delay: time.Hour})
	heads, page := k.due(t, store.DueQuery{Heads: 10})
	require.Empty(t, heads, "nothing overtakes what is backed off")
	require.False(t, page.NextAt.IsZero())
	plain, _ := k.due(t, store.DueQuery{Limit: 10})
	require.Equal(t, idsOf(e, 2), plain, "a hint is not serialised")
	late := k.submit(t, ask(fails))[0]
	heads, page = k.due(t, store.DueQuery{Heads: 10})
	require.Equal(t, []messages.ExecutionID{late.ID}, heads, "a strict_fail does not wait, not even behind a back-off")
	require.Equal(t, []bool{true}, behind(page))
	k.applied(t, &store.Cancel{ID: late.ID})

	k.applied(t, &store.Cancel{ID: e[0].ID})
	heads, _ = k.due(t, store.DueQuery{Heads: 10})
	require.Equal(t, idsOf(e, 1), heads, "what has ended holds nothing")

	one := k.submit(t, ask(inSession("f", messages.AffinityStrictFail)))[0]
	k.applied(t, k.placeIn(one, 1, store.SessionUse{Epoch: 1, Bind: true, Hit: true}))
	k.applied(t, &store.TakeBack{ID: one.ID, Attempt: 1, Reason: "test", Delay: 30 * time.Millisecond})
	heads, page = k.due(t, store.DueQuery{Heads: 10})
	if len(heads) > 1 { // it became due meanwhile
		require.Equal(t, []bool{false, false}, behind(page))
	}
	require.Eventually(t, func() bool {
		heads, page = k.due(t, store.DueQuery{Heads: 10})
		return slices.Equal(heads, []messages.ExecutionID{e[1].ID, one.ID})
	}, 5*time.Second, 5*time.Millisecond, "a strict_fail that is backed off is behind nothing, and comes back")
	require.Equal(t, []bool{false, false}, behind(page))
}

// An execution in a session without an affinity is not serialized, also after it was given back.
func testDueNoAffinity(t *testing.T, k *kit) {
	e := k.submit(t, ask(inSession("s", "")), ask(inSession("s", messages.AffinityStrict)))
	for _, delay := range []time.Duration{0, time.Hour} {
		k.applied(t, k.place(e[0].ID, k.get(t, e[0].ID).Attempt, 1))
		k.applied(t, &store.TakeBack{ID: e[0].ID, Attempt: k.get(t, e[0].ID).Attempt, Reason: "test", Delay: delay})
		heads, page := k.due(t, store.DueQuery{Heads: 10})
		require.Equal(t, idsOf(e, 1), heads, "it holds nobody's turn, and has none")
		require.Equal(t, []bool{false}, behind(page))
	}
}

// The executions of a strict session start in the order of insertion, whichever are taken back and however long their
// back-off is.
func testSessionOrder(t *testing.T, k *kit) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	names := []string{"a", "b", "c", "d", "e", "f"}
	inserted, started := map[string][]messages.ExecutionID{}, map[string][]messages.ExecutionID{}
	var open, all int
	submit := func() {
		name := names[random.IntN(len(names))]
		e := k.submit(t, ask(inSession(name, messages.AffinityStrict), withPriority(messages.Priority(random.IntN(10)))))[0]
		inserted[name] = append(inserted[name], e.ID)
		open, all = open+1, all+1
	}
	for range 18 {
		submit()
	}
	end := time.Now().Add(30 * time.Second)
	for open > 0 {
		require.True(t, time.Now().Before(end), "%d executions never started", open)
		if all < 30 && random.IntN(3) == 0 {
			submit()
		}
		_, page := k.due(t, store.DueQuery{Heads: 3})
		for _, c := range page.Candidates {
			k.placeHead(t, c)
			if random.IntN(5) < 3 {
				delay := time.Duration(random.IntN(20)) * time.Millisecond
				k.applied(t, &store.TakeBack{ID: c.ID, Attempt: c.Attempt + 1, Reason: "test", Delay: delay})
				continue
			}
			k.applied(t, k.claim(c.ID, c.Attempt+1, 1))
			started[c.Session] = append(started[c.Session], c.ID)
			open--
			k.applied(t, &store.Finish{ID: c.ID, Attempt: c.Attempt + 1, Outcome: completed()})
		}
	}
	require.Equal(t, inserted, started)
}

// placeHead places the head of a session on the session's worker, or binds the session there.
func (k *kit) placeHead(t *testing.T, c messages.Candidate) {
	t.Helper()
	epoch := int64(1)
	held, err := k.GetSession(t.Context(), pool, c.Session)
	bound := err == nil && held.Worker == k.key(1)
	if err == nil {
		epoch = held.Epoch
	}
	k.applied(t, k.placeIn(messages.Execution{ID: c.ID, Attempt: c.Attempt, Session: c.Session}, 1,
		store.SessionUse{Epoch: epoch, Bind: !bound, Hit: true}))
}
