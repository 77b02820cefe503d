package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

func (k *kit) due(t require.TestingT, q store.DueQuery) ([]messages.ExecutionID, store.DuePage) {
	q.Pool = pool
	page, err := k.Due(ctx(t), q)
	require.NoError(t, err)
	var ids []messages.ExecutionID
	for _, c := range page.Candidates {
		ids = append(ids, c.ID)
	}
	return ids, page
}

func withPriority(p messages.Priority) func(e *messages.Execution) {
	return func(e *messages.Execution) { e.Priority = p }
}

func idsOf(all []messages.Execution, order ...int) []messages.ExecutionID {
	var out []messages.ExecutionID
	for _, i := range order {
		out = append(out, all[i].ID)
	}
	return out
}

func testDueOrder(t *testing.T, k *kit) {
	e := k.submit(t, ask(withPriority(5)), ask(withPriority(9)), ask(withPriority(0)), ask(withPriority(5)),
		ask(withPriority(9), inSession("a", messages.AffinityStrict)), ask(withPriority(5), inSession("h", messages.AffinityHint)),
		ask(func(e *messages.Execution) { e.Pool = "other" }))
	ids, page := k.due(t, store.DueQuery{Limit: 100, Heads: 100})
	require.Equal(t, idsOf(e, 1, 4, 0, 3, 5, 2), ids, "by priority, then insertion")
	require.False(t, page.More)
	require.Zero(t, page.NextAt)
	ids, _ = k.due(t, store.DueQuery{Limit: 100})
	require.Equal(t, idsOf(e, 1, 0, 3, 5, 2), ids)
	ids, _ = k.due(t, store.DueQuery{Heads: 100})
	require.Equal(t, idsOf(e, 4), ids)
	k.applied(t, k.place(e[1].ID, 0, 1))
	k.applied(t, &store.Cancel{ID: e[0].ID})
	ids, _ = k.due(t, store.DueQuery{Limit: 100})
	require.Equal(t, idsOf(e, 3, 5, 2), ids)
	k.applied(t, &store.TakeBack{ID: e[1].ID, Attempt: 1})
	ids, page = k.due(t, store.DueQuery{Limit: 1})
	require.Equal(t, idsOf(e, 1), ids, "what is taken back keeps its place")
	require.Equal(t, messages.Attempt(1), page.Candidates[0].Attempt)
	require.Equal(t, 1, page.Candidates[0].TakeBacks)
	require.Equal(t, time.Minute, page.Candidates[0].Timeout)
}

func testDuePages(t *testing.T, k *kit) {
	var want []messages.ExecutionID
	for _, p := range []messages.Priority{7, 5, 2} {
		for range 11 {
			want = append(want, k.submit(t, ask(withPriority(p)))[0].ID)
		}
	}
	var got []messages.ExecutionID
	q := store.DueQuery{Limit: 4}
	for range 20 {
		ids, page := k.due(t, q)
		got = append(got, ids...)
		require.Equal(t, len(got) < len(want), page.More)
		if !page.More {
			break
		}
		last := page.Candidates[len(page.Candidates)-1]
		q.AfterPriority, q.AfterSeq = last.Priority, last.Seq
	}
	require.Equal(t, want, got)
}

func testDueHeads(t *testing.T, k *kit) {
	strict := func(s string, p messages.Priority) messages.Execution {
		return ask(withPriority(p), inSession(s, messages.AffinityStrict))
	}
	e := k.submit(t, strict("a", 1), strict("a", 9), strict("b", 5), strict("b", 5), strict("c", 7))
	ids, _ := k.due(t, store.DueQuery{Heads: 10})
	require.Equal(t, idsOf(e, 4, 2, 0), ids, "one a session, its earliest, by its own priority")
	ids, page := k.due(t, store.DueQuery{Heads: 2})
	require.Equal(t, idsOf(e, 4, 2), ids)
	require.True(t, page.More)
	k.applied(t, k.placeIn(e[2], 1, store.SessionUse{Epoch: 1, Bind: true}))
	ids, _ = k.due(t, store.DueQuery{Heads: 10})
	require.Equal(t, idsOf(e, 4, 0), ids, "a session with one under way has no head")
	k.applied(t, k.claim(e[2].ID, 1, 1))
	k.applied(t, &store.Cancel{ID: e[3].ID})
	fails := k.submit(t, ask(withPriority(5), inSession("b", messages.AffinityStrictFail)))[0].ID
	ids, _ = k.due(t, store.DueQuery{Heads: 10})
	require.Equal(t, []messages.ExecutionID{e[4].ID, fails, e[0].ID}, ids, "but a strict_fail does not wait")
	waits := k.submit(t, strict("c", 7), ask(withPriority(7), inSession("c", messages.AffinityStrictFail)))
	k.applied(t, k.place(e[4].ID, 0, 2))
	ids, page = k.due(t, store.DueQuery{Heads: 10})
	require.Equal(t, []messages.ExecutionID{waits[1].ID, fails, e[0].ID}, ids, "not even behind one that does")
	require.Equal(t, []bool{true, true, false}, behind(page))
	k.applied(t, &store.Cancel{ID: waits[1].ID})
	k.applied(t, &store.Cancel{ID: waits[0].ID})
	k.applied(t, &store.TakeBack{ID: e[4].ID, Attempt: 1})
	k.applied(t, &store.Finish{ID: e[2].ID, Attempt: 1, Outcome: completed()})
	k.applied(t, &store.Cancel{ID: e[0].ID})
	ids, page = k.due(t, store.DueQuery{Heads: 10})
	require.Equal(t, []messages.ExecutionID{e[1].ID, e[4].ID, fails}, ids)
	require.Equal(t, []bool{false, false, false}, behind(page), "one that is first waits for nothing")
	later := k.submit(t, ask(withPriority(9), inSession("b", messages.AffinityStrictFail)), strict("d", 6),
		ask(withPriority(8), inSession("d", messages.AffinityStrictFail)), ask(withPriority(8), inSession("h", messages.AffinityHint)),
		ask(withPriority(2), inSession("h", messages.AffinityStrictFail)))
	ids, page = k.due(t, store.DueQuery{Heads: 10})
	require.Equal(t, []messages.ExecutionID{e[1].ID, later[0].ID, later[2].ID, e[4].ID, later[1].ID, fails, later[4].ID}, ids,
		"behind one that only waits, whatever its own priority; a hint that waits is not before it")
	require.Equal(t, []bool{false, true, true, false, false, false, false}, behind(page))
}

func behind(page store.DuePage) (all []bool) {
	for i := range page.Candidates {
		all = append(all, page.Candidates[i].Behind)
	}
	return all
}

func testDueTimes(t *testing.T, k *kit) {
	now, err := k.Now(t.Context())
	require.NoError(t, err)
	at := func(d time.Duration) func(e *messages.Execution) {
		return func(e *messages.Execution) { e.RunAt = now.Add(d) }
	}
	e := k.submit(t, ask(at(time.Hour)), ask(at(2*time.Hour)), ask(at(-time.Hour)),
		ask(at(time.Hour), inSession("s", messages.AffinityStrict)), ask(inSession("s", messages.AffinityStrict)))
	ids, page := k.due(t, store.DueQuery{Limit: 10, Heads: 10})
	require.Equal(t, idsOf(e, 2, 4), ids, "one whose run_at lies ahead does not hold its session")
	require.Equal(t, e[0].RunAt, page.NextAt)

	soon := k.submit(t, ask(at(50*time.Millisecond)), ask(at(60*time.Millisecond), inSession("t", messages.AffinityStrict)))
	require.Eventually(t, func() bool {
		ids, _ := k.due(t, store.DueQuery{Limit: 10, Heads: 10})
		return len(ids) == 4 && ids[2] == soon[0].ID && ids[3] == soon[1].ID
	}, 5*time.Second, 10*time.Millisecond)

	k.applied(t, k.place(soon[0].ID, 0, 1))
	k.applied(t, &store.TakeBack{ID: soon[0].ID, Attempt: 1, Delay: time.Hour})
	ids, _ = k.due(t, store.DueQuery{Limit: 10})
	require.Equal(t, idsOf(e, 2), ids, "a take-back with a delay waits")
	k.applied(t, &store.Cancel{ID: e[0].ID})
	_, page = k.due(t, store.DueQuery{Limit: 10})
	require.Equal(t, e[3].RunAt, page.NextAt)
}

func (k *kit) overdue(t *testing.T, d store.Deadline, age time.Duration) []messages.ExecutionID {
	out, err := k.Overdue(t.Context(), store.OverdueQuery{Deadline: d, Age: age, Limit: 100})
	require.NoError(t, err)
	var ids []messages.ExecutionID
	for _, e := range out {
		require.Empty(t, e.Parameters)
		ids = append(ids, e.ID)
	}
	require.Equal(t, ids, k.overdueOneByOne(t, store.OverdueQuery{Deadline: d, Age: age, Limit: 1}, len(ids)), "one behind the other")
	return ids
}

func (k *kit) overdueOneByOne(t *testing.T, q store.OverdueQuery, most int) (ids []messages.ExecutionID) {
	for range most + 1 {
		page, err := k.Overdue(t.Context(), q)
		require.NoError(t, err)
		if len(page) == 0 {
			break
		}
		require.Len(t, page, 1)
		ids, q.After = append(ids, page[0].ID), store.CursorOf(q.Deadline, &page[0])
	}
	return ids
}

func testOverdue(t *testing.T, k *kit) {
	late := k.submit(t, ask(), ask(), ask(), ask())
	for i, e := range late {
		p := k.place(e.ID, 0, i)
		p.ClaimWithin = -time.Minute
		k.applied(t, p)
	}
	fresh := k.bring(t, messages.Scheduled)
	require.Equal(t, idsOf(late, 0, 1, 2, 3), k.overdue(t, store.ClaimBy, 0), "oldest first")
	require.Equal(t, append(idsOf(late, 0, 1, 2, 3), fresh.ID), k.overdue(t, store.StartBy, 0))
	require.Empty(t, k.overdue(t, store.StartBy, time.Hour))
	k.applied(t, &store.TakeBack{ID: late[0].ID, Attempt: 1})
	k.applied(t, k.claim(late[1].ID, 1, 1))
	k.applied(t, &store.Cancel{ID: late[2].ID})
	require.Equal(t, idsOf(late, 3), k.overdue(t, store.ClaimBy, 0))
	require.Equal(t, append(idsOf(late, 0, 3), fresh.ID), k.overdue(t, store.StartBy, 0), "taken back and never started counts")

	past := time.Now().Add(-time.Minute)
	q := k.submit(t, ask(func(e *messages.Execution) { e.QueueDeadline = past }), ask(func(e *messages.Execution) { e.QueueDeadline = past.Add(time.Hour) }))
	require.Equal(t, idsOf(q, 0), k.overdue(t, store.QueueBy, 0))
	k.applied(t, k.place(q[0].ID, 0, 9))
	require.Equal(t, idsOf(q, 0), k.overdue(t, store.QueueBy, 0), "scheduled still waits")
	k.applied(t, k.claim(q[0].ID, 1, 9))
	require.Empty(t, k.overdue(t, store.QueueBy, 0))

	w := k.submit(t, ask(func(e *messages.Execution) { e.WaitForWorker, e.WorkerDeadline = true, past }))
	require.Equal(t, idsOf(w, 0), k.overdue(t, store.WorkerBy, 0))
	k.applied(t, k.place(w[0].ID, 0, 9))
	require.Empty(t, k.overdue(t, store.WorkerBy, 0))

	r := k.bring(t, messages.Running, func(e *messages.Execution) { e.Timeout = time.Millisecond })
	c := k.bring(t, messages.Cancelling, func(e *messages.Execution) { e.Timeout = time.Millisecond })
	require.Eventually(t, func() bool {
		out, err := k.Overdue(t.Context(), store.OverdueQuery{Deadline: store.RunBy, Limit: 100})
		return err == nil && len(out) == 2
	}, 5*time.Second, 5*time.Millisecond)
	require.Equal(t, []messages.ExecutionID{r.ID, c.ID}, k.overdue(t, store.RunBy, 0))
	require.Empty(t, k.overdue(t, store.RunBy, time.Hour))
	_, err := k.Overdue(t.Context(), store.OverdueQuery{Deadline: 99, Limit: 1})
	require.ErrorIs(t, err, store.ErrInvalid)
	one, err := k.Overdue(t.Context(), store.OverdueQuery{Deadline: store.StartBy, Limit: 1})
	require.NoError(t, err)
	require.Len(t, one, 1)
}

func testOrphans(t *testing.T, k *kit) {
	require.Empty(t, k.overdue(t, store.Orphaned, 0))
	s, r, c := k.bring(t, messages.Scheduled), k.bring(t, messages.Running), k.bring(t, messages.Cancelling)
	require.Empty(t, k.overdue(t, store.Orphaned, 0), "the incarnation lives")
	require.NoError(t, k.SetNode(t.Context(), k.inc, store.NodeDraining))
	require.Empty(t, k.overdue(t, store.Orphaned, 0), "a draining incarnation lives")
	require.NoError(t, k.SetNode(t.Context(), k.inc, store.NodeDead))
	require.Equal(t, []messages.ExecutionID{s.ID, r.ID, c.ID}, k.overdue(t, store.Orphaned, 0))
	k.applied(t, &store.Rescue{ID: r.ID, Attempt: 1})
	require.Equal(t, []messages.ExecutionID{s.ID, c.ID}, k.overdue(t, store.Orphaned, 0))
}

func testLive(t *testing.T, k *kit) {
	s, r, c := k.bring(t, messages.Scheduled), k.bring(t, messages.Running), k.bring(t, messages.Cancelling)
	k.bring(t, messages.Completed)
	k.bring(t, messages.Requested)
	live, err := k.Live(t.Context(), pool)
	require.NoError(t, err)
	require.Len(t, live, 3)
	for i, e := range []messages.Execution{s, r, c} {
		e.Parameters = nil
		require.Equal(t, e, live[i])
	}
	live, err = k.Live(t.Context(), "other")
	require.NoError(t, err)
	require.Empty(t, live)
}
