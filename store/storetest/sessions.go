package storetest

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

func (k *kit) placeIn(e messages.Execution, slot int, use store.SessionUse) *store.Place {
	p := k.place(e.ID, e.Attempt, slot)
	use.Pool, use.Session = pool, e.Session
	p.Session = &use
	return p
}

func (k *kit) session(t *testing.T, name string) store.Session {
	s, err := k.GetSession(t.Context(), pool, name)
	if errors.Is(err, store.ErrNotFound) {
		return store.Session{}
	}
	require.NoError(t, err)
	return s
}

func (k *kit) refused(t *testing.T, c store.Change) {
	t.Helper()
	r := k.apply(t, c)[0]
	require.Equal(t, store.Refused, r.Verdict)
	require.ErrorIs(t, r.Err, store.ErrSession)
}

func testSessionBind(t *testing.T, k *kit) {
	e := k.submit(t, ask(inSession("s", messages.AffinityStrict)), ask(inSession("s", messages.AffinityStrict)), ask(inSession("s", messages.AffinityHint)))
	k.refused(t, k.placeIn(e[0], 1, store.SessionUse{Epoch: 1}))
	p := k.placeIn(e[0], 1, store.SessionUse{Epoch: 1, Bind: true, Lost: true})
	k.applied(t, p)
	require.Equal(t, store.Already, k.apply(t, p)[0].Verdict, "a repeated placement does not bind again")
	bound := k.session(t, "s")
	require.Equal(t, k.key(1), bound.Worker)
	require.Equal(t, int64(1), bound.Epoch)
	require.False(t, bound.BoundAt.IsZero())
	c := k.applied(t, k.claim(e[0].ID, 1, 1)).Execution
	require.Equal(t, int64(1), c.SessionEpoch)
	require.True(t, c.SessionLost)
	require.False(t, c.SessionHit)
	require.False(t, k.applied(t, &store.Finish{ID: e[0].ID, Attempt: 1, Outcome: completed(), Restored: true}).Execution.SessionLost)
	require.False(t, k.get(t, e[0].ID).SessionLost, "a snapshot was restored")

	k.refused(t, k.placeIn(e[1], 2, store.SessionUse{Epoch: 1, Bind: true}))
	k.refused(t, k.placeIn(e[1], 2, store.SessionUse{Epoch: 1, Hit: true}))
	k.refused(t, k.placeIn(e[1], 1, store.SessionUse{Epoch: 2, Hit: true}))
	require.Equal(t, bound.Worker, k.session(t, "s").Worker)
	k.applied(t, k.placeIn(e[1], 1, store.SessionUse{Epoch: 1, Hit: true}))
	k.applied(t, k.placeIn(e[2], 5, store.SessionUse{Epoch: 1}))
	require.Equal(t, k.key(1), k.session(t, "s").Worker, "a hint that misses leaves the binding alone")
	wrong := k.submit(t, ask())[0]
	wrong.Session = "s"
	k.refused(t, k.placeIn(wrong, 1, store.SessionUse{Epoch: 1}))
}

func testSessionTurns(t *testing.T, k *kit) {
	e := k.submit(t, ask(inSession("s", messages.AffinityStrict)), ask(inSession("s", messages.AffinityStrictFail)), ask(inSession("s", messages.AffinityHint)))
	k.applied(t, k.placeIn(e[0], 1, store.SessionUse{Epoch: 1, Bind: true}))
	second := k.placeIn(e[1], 1, store.SessionUse{Epoch: 1, Hit: true})
	k.refused(t, second) // scheduled
	k.applied(t, k.claim(e[0].ID, 1, 1))
	k.refused(t, second) // running
	k.applied(t, &store.Cancel{ID: e[0].ID})
	k.refused(t, second) // cancelling
	k.applied(t, k.placeIn(e[2], 1, store.SessionUse{Epoch: 1, Hit: true}))
	k.applied(t, &store.TakeBack{ID: e[2].ID, Attempt: 1})
	both := k.apply(t, &store.Finish{ID: e[0].ID, Attempt: 1, Outcome: completed()}, second)
	require.Equal(t, store.Applied, both[1].Verdict, "a finish and the next placement may share a transaction: %v", both[1].Err)

	twins := k.submit(t, ask(inSession("u", messages.AffinityStrict)), ask(inSession("u", messages.AffinityStrict)))
	r := k.apply(t, k.placeIn(twins[0], 1, store.SessionUse{Epoch: 1, Bind: true}), k.placeIn(twins[1], 1, store.SessionUse{Epoch: 1, Hit: true}))
	require.Equal(t, store.Applied, r[0].Verdict)
	require.Equal(t, store.Refused, r[1].Verdict, "two of one session in one call")
}

func testSessionEpochs(t *testing.T, k *kit) {
	run := func(e messages.Execution, slot int, u store.SessionUse) {
		k.applied(t, k.placeIn(e, slot, u))
		k.applied(t, k.claim(e.ID, 1, slot))
		k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: completed()})
	}
	e := k.submit(t, ask(inSession("s", messages.AffinityStrict)), ask(inSession("s", messages.AffinityHint)), ask(inSession("s", messages.AffinityStrict)))
	run(e[0], 1, store.SessionUse{Epoch: 3, Bind: true})
	first := k.session(t, "s")
	require.Equal(t, int64(3), first.FinishedEpoch)
	require.False(t, first.TouchedAt.Before(first.BoundAt))

	n, err := k.Unbind(t.Context(), []store.Binding{{Pool: pool, Session: "s", Epoch: 2, Worker: first.Worker},
		{Pool: pool, Session: "none", Epoch: 3, Worker: first.Worker}, {Pool: pool, Session: "s", Epoch: 3, Worker: k.key(2)},
		{Pool: pool, Session: "s", Epoch: 3}})
	require.NoError(t, err)
	require.Zero(t, n, "another epoch or worker is not unbound")
	n, err = k.Unbind(t.Context(), []store.Binding{{Pool: pool, Session: "s", Epoch: 3, Worker: first.Worker}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	gone := k.session(t, "s")
	require.Zero(t, gone.Worker)
	require.Equal(t, int64(3), gone.Epoch, "the epoch stays")

	p := k.placeIn(e[2], 2, store.SessionUse{Epoch: 4, Bind: true})
	k.applied(t, p)
	run(e[1], 7, store.SessionUse{Epoch: 4})
	require.Equal(t, int64(3), k.session(t, "s").FinishedEpoch, "a hint that missed says nothing of the session's state")
	k.applied(t, k.claim(e[2].ID, 1, 2))
	k.applied(t, &store.Rescue{ID: e[2].ID, Attempt: 1})
	require.Equal(t, int64(3), k.session(t, "s").FinishedEpoch, "a rescue finishes nothing")
	stopped := k.submit(t, ask(inSession("s", messages.AffinityHint)))[0]
	k.applied(t, k.placeIn(stopped, 2, store.SessionUse{Epoch: 4, Hit: true}))
	k.applied(t, k.claim(stopped.ID, 1, 2))
	before := k.session(t, "s")
	k.applied(t, &store.Finish{ID: stopped.ID, Attempt: 1, Outcome: failed(messages.Failed), NeverRan: true})
	after := k.session(t, "s")
	require.Equal(t, []int64{3, before.Runs}, []int64{after.FinishedEpoch, after.Runs}, "a run that its code never heard of finishes nothing")

	listed, err := k.ListSessions(t.Context(), store.SessionFilter{Bound: true}, "", 10)
	require.NoError(t, err)
	require.Len(t, listed, 1)
	listed, err = k.ListSessions(t.Context(), store.SessionFilter{Pools: []string{pool}}, "s", 10)
	require.NoError(t, err)
	require.Empty(t, listed)
}

// testSessionsByPrefix checks the list of sessions whose names begin alike, in one pool and in all, in pages of any size.
func testSessionsByPrefix(t *testing.T, k *kit) {
	names := []string{"USER-1", "user", "user-", "user-1", "user-10", "user-2", "user-\u00e9", "user.1", "user_1", "usEr-1", "\U0010FFFFx", "100%", "1000"}
	for _, in := range []string{pool, pool + "2", "z"} {
		for i, name := range names {
			e := k.submit(t, ask(inSession(name, messages.AffinityHint), func(e *messages.Execution) { e.Pool = in }))[0]
			p := k.placeIn(e, i, store.SessionUse{Epoch: 1, Bind: true})
			p.Session.Pool, p.Worker.Pool = in, in
			k.applied(t, p)
			if name == "user-10" {
				n, err := k.Unbind(t.Context(), []store.Binding{{Pool: in, Session: name, Epoch: 1, Worker: p.Worker}})
				require.NoError(t, err)
				require.Equal(t, 1, n)
			}
		}
	}
	for name, c := range map[string]struct {
		f    store.SessionFilter
		want []string
	}{
		"of a pool":          {store.SessionFilter{Pools: []string{pool}, Names: store.NameRanges([]string{"user-"}, nil)}, []string{"p/user-", "p/user-1", "p/user-10", "p/user-2", "p/user-\u00e9"}},
		"of all":             {store.SessionFilter{Names: store.NameRanges([]string{"user-1"}, nil)}, []string{"p/user-1", "p/user-10", "p2/user-1", "p2/user-10", "z/user-1", "z/user-10"}},
		"bound":              {store.SessionFilter{Names: store.NameRanges([]string{"user-1"}, nil), Bound: true}, []string{"p/user-1", "p2/user-1", "z/user-1"}},
		"no pattern":         {store.SessionFilter{Pools: []string{"z"}, Names: store.NameRanges([]string{"100%"}, nil)}, []string{"z/100%"}},
		"case":               {store.SessionFilter{Pools: []string{"z"}, Names: store.NameRanges([]string{"us"}, nil)}, []string{"z/usEr-1", "z/user", "z/user-", "z/user-1", "z/user-10", "z/user-2", "z/user-\u00e9", "z/user.1", "z/user_1"}},
		"the last character": {store.SessionFilter{Names: store.NameRanges([]string{"\U0010FFFF"}, nil)}, []string{"p/\U0010FFFFx", "p2/\U0010FFFFx", "z/\U0010FFFFx"}},
		"none":               {store.SessionFilter{Names: store.NameRanges([]string{"user-3"}, nil)}, nil},
		"of several pools":   {store.SessionFilter{Pools: []string{"z", pool, "q"}, Names: store.NameRanges([]string{"user-1"}, nil)}, []string{"p/user-1", "p/user-10", "z/user-1", "z/user-10"}},
		"of other pools":     {store.SessionFilter{NotPools: []string{pool, "z"}, Names: store.NameRanges([]string{"user-1"}, nil)}, []string{"p2/user-1", "p2/user-10"}},
		"of some but one":    {store.SessionFilter{Pools: []string{"z", pool}, NotPools: []string{"z"}, Names: store.NameRanges([]string{"user-1"}, nil)}, []string{"p/user-1", "p/user-10"}},
		"several beginnings": {store.SessionFilter{Pools: []string{"z"}, Names: store.NameRanges([]string{"user-1", "100", "user-2"}, nil)}, []string{"z/100%", "z/1000", "z/user-1", "z/user-10", "z/user-2"}},
		"other beginnings":   {store.SessionFilter{Pools: []string{"z"}, Names: store.NameRanges([]string{"us"}, []string{"user-1", "user."})}, []string{"z/usEr-1", "z/user", "z/user-", "z/user-2", "z/user-\u00e9", "z/user_1"}},
		"any but":            {store.SessionFilter{Pools: []string{"z"}, Names: store.NameRanges(nil, []string{"u", "U"})}, []string{"z/100%", "z/1000", "z/\U0010FFFFx"}},
		"any of two pools":   {store.SessionFilter{Pools: []string{pool + "2", "z"}, Unbound: true}, []string{"p2/user-10", "z/user-10"}},
		"not bound":          {store.SessionFilter{Pools: []string{pool}, Unbound: true}, []string{"p/user-10"}},
		"no pool":            {store.SessionFilter{Pools: []string{"q"}, Names: store.NameRanges([]string{"user"}, nil)}, nil},
	} {
		for _, limit := range []int{1, 2, 100} {
			require.Equal(t, c.want, k.sessionNames(t, c.f, limit), "%s, %d in a page", name, limit)
		}
	}
}

// sessionNames reads all pages of a list of sessions.
func (k *kit) sessionNames(t *testing.T, f store.SessionFilter, limit int) (got []string) {
	for after := ""; ; {
		page, err := k.ListSessions(t.Context(), f, after, limit)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page), limit)
		if len(page) == 0 {
			return got
		}
		for i := range page {
			got = append(got, page[i].Pool+"/"+page[i].Session)
		}
		if after = got[len(got)-1]; f.Only() != "" {
			after = page[len(page)-1].Session
		}
	}
}

func testSnapshots(t *testing.T, k *kit) {
	ref := store.SessionRef{Pool: pool, Session: "s", Epoch: 2}
	require.ErrorIs(t, k.SaveSnapshot(t.Context(), ref, json.RawMessage(`1`)), store.ErrNotFound)
	e := k.submit(t, ask(inSession("s", messages.AffinityStrict)))[0]
	k.applied(t, k.placeIn(e, 1, store.SessionUse{Epoch: 2, Bind: true}))
	_, _, err := k.Snapshot(t.Context(), pool, "s")
	require.ErrorIs(t, err, store.ErrNotFound)
	require.NoError(t, k.SaveSnapshot(t.Context(), ref, json.RawMessage(`{"n":2}`)))
	ref.Epoch = 1
	require.NoError(t, k.SaveSnapshot(t.Context(), ref, json.RawMessage(`{"n":1}`)))
	state, epoch, err := k.Snapshot(t.Context(), pool, "s")
	require.NoError(t, err)
	require.Equal(t, int64(2), epoch, "an older one is ignored")
	require.JSONEq(t, `{"n":2}`, string(state))
	require.Equal(t, int64(2), k.session(t, "s").SnapshotEpoch)
}

// Pages of bound sessions, for all live workers, for one, or for those of dead incarnations.
func testBoundSessions(t *testing.T, k *kit) {
	other := messages.NewIncarnation()
	bind := func(name string, key messages.WorkerKey) {
		e := k.submit(t, ask(inSession(name, messages.AffinityStrict)))[0]
		p := k.placeIn(e, 0, store.SessionUse{Epoch: 1, Bind: true, Hit: true})
		p.Worker = key
		k.applied(t, p)
	}
	names := []string{"a", "b", "c", "d", "e", "f", "g"}
	for i, name := range names {
		bind(name, k.key(i%3))
	}
	bind("dead", messages.WorkerKey{Incarnation: other, Pool: pool, Slot: 1})
	_, err := k.Unbind(t.Context(), []store.Binding{{Pool: pool, Session: "g", Epoch: 1, Worker: k.key(0)}})
	require.NoError(t, err)
	pages := func(q store.BoundQuery) (all []string) {
		q.Pool = pool
		for range 20 {
			page, err := k.BoundSessions(t.Context(), q)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page), max(q.Limit, 1)+store.BoundMax*map[bool]int{true: 1}[q.Limit == 0])
			for _, s := range page {
				require.Equal(t, k.session(t, s.Session), s)
				all = append(all, s.Session)
			}
			if len(page) == 0 {
				return all
			}
			q.After = page[len(page)-1]
		}
		require.Fail(t, "the pages have no end")
		return nil
	}
	for _, limit := range []int{0, 1, 2, 3} {
		require.Equal(t, []string{"a", "d", "b", "e", "c", "f"}, pages(store.BoundQuery{Limit: limit}), "by slot, then by name")
		require.Equal(t, []string{"b", "e"}, pages(store.BoundQuery{Worker: k.key(1), Limit: limit}))
		require.Equal(t, []string{"dead"}, pages(store.BoundQuery{Worker: messages.WorkerKey{Incarnation: other, Pool: pool, Slot: 1}, Limit: limit}))
	}
	none, err := k.BoundSessions(t.Context(), store.BoundQuery{Pool: "other"})
	require.NoError(t, err)
	require.Empty(t, none)
	require.Empty(t, pages(store.BoundQuery{Ended: true}))
	require.NoError(t, k.SetNode(t.Context(), k.inc, store.NodeDead))
	for _, limit := range []int{0, 1, 2, 3} {
		require.Empty(t, pages(store.BoundQuery{Limit: limit}))
		require.Equal(t, []string{"a", "d", "b", "e", "c", "f"}, pages(store.BoundQuery{Ended: true, Limit: limit}), "as they were listed before")
	}
}

// runIn places, claims and ends one execution of a session.
func (k *kit) runIn(t *testing.T, e messages.Execution, slot int, u store.SessionUse, o messages.Outcome) {
	t.Helper()
	k.applied(t, k.placeIn(e, slot, u))
	k.applied(t, k.claim(e.ID, 1, slot))
	k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: o})
}

// A snapshot counts the runs that it includes: those in its epoch, and never more than have finished.
func testSnapshotRuns(t *testing.T, k *kit) {
	var e []messages.Execution
	for range 8 {
		e = append(e, k.submit(t, ask(inSession("s", messages.AffinityStrict)))[0])
	}
	save := func(epoch, runs int64, state string) store.Session {
		ref := store.SessionRef{Pool: pool, Session: "s", Epoch: epoch, Runs: runs}
		require.NoError(t, k.SaveSnapshot(t.Context(), ref, json.RawMessage(state)))
		return k.session(t, "s")
	}
	hit := store.SessionUse{Epoch: 1, Hit: true}
	failure := messages.Outcome{Status: messages.Failed, Error: &messages.Error{Code: "x", Message: "x"}}
	gone := messages.Outcome{Status: messages.Abandoned, Error: &messages.Error{Code: messages.CodeWorkerLost, Message: "x"}}
	k.runIn(t, e[0], 1, store.SessionUse{Epoch: 1, Bind: true, Hit: true}, completed())
	k.runIn(t, e[1], 1, hit, failure)
	k.runIn(t, e[2], 1, hit, gone)
	require.Equal(t, int64(2), k.session(t, "s").Runs, "a run that took its worker along left no state")
	s := save(1, 1, "1")
	require.Equal(t, int64(1), s.SnapshotRuns)
	s = save(1, 9, "2")
	require.Equal(t, int64(2), s.SnapshotRuns, "no more than have finished")
	s = save(1, 1, "3")
	require.Equal(t, int64(2), s.SnapshotRuns, "an older state of the same epoch is ignored")
	k.runIn(t, e[3], 1, hit, completed())
	s = k.session(t, "s")
	require.Equal(t, []int64{3, 2}, []int64{s.Runs, s.SnapshotRuns}, "the kept state is behind")

	k.runIn(t, e[4], 2, store.SessionUse{Epoch: 2, Bind: true, Hit: true}, completed())
	s = save(1, 3, "4")
	require.Equal(t, int64(1), s.SnapshotEpoch, "the session has gone on to another epoch")
	s = save(2, 1, "5")
	require.Equal(t, []int64{4, 4, 2}, []int64{s.Runs, s.SnapshotRuns, s.SnapshotEpoch}, "counted from its binding on")
	state, epoch, err := k.Snapshot(t.Context(), pool, "s")
	require.NoError(t, err)
	require.Equal(t, "5", string(state))
	require.Equal(t, int64(2), epoch)
}

// A session without a started run has no state to lose, and the store knows which sessions those are.
func testSessionStarted(t *testing.T, k *kit) {
	e := k.submit(t, ask(inSession("s", messages.AffinityHint)), ask(inSession("s", messages.AffinityHint)), ask(inSession("s", messages.AffinityHint)))
	k.applied(t, k.placeIn(e[0], 1, store.SessionUse{Epoch: 1, Bind: true, Hit: true}))
	k.applied(t, &store.TakeBack{ID: e[0].ID, Attempt: 1})
	k.runIn(t, e[1], 2, store.SessionUse{Epoch: 1}, completed())
	require.Zero(t, k.session(t, "s").StartedEpoch, "neither a placement nor a hint that missed is a start")
	k.applied(t, k.placeIn(messages.Execution{ID: e[0].ID, Attempt: 1, Session: "s"}, 2, store.SessionUse{Epoch: 2, Bind: true, Hit: true}))
	k.applied(t, k.claim(e[0].ID, 2, 2))
	require.Equal(t, int64(2), k.session(t, "s").StartedEpoch)
	k.applied(t, &store.Finish{ID: e[0].ID, Attempt: 2, Outcome: completed()})
	k.runIn(t, e[2], 3, store.SessionUse{Epoch: 3, Bind: true, Hit: true}, completed())
	require.Equal(t, int64(2), k.session(t, "s").StartedEpoch, "the first one counts")
	one, err := k.GetSession(t.Context(), pool, "s")
	require.NoError(t, err)
	require.Equal(t, int64(2), one.Runs)
}

// testClaimUnbound claims a run whose session has lost its worker's process since the placement.
func testClaimUnbound(t *testing.T, k *kit) {
	e := k.submit(t, ask(inSession("s", messages.AffinityStrict)))[0]
	k.applied(t, k.placeIn(e, 1, store.SessionUse{Epoch: 1, Bind: true, Hit: true}))
	n, err := k.Unbind(t.Context(), []store.Binding{{Pool: pool, Session: "s", Epoch: 1, Worker: k.key(1)}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	r := k.apply(t, k.claim(e.ID, 1, 1))[0]
	require.Equal(t, store.Refused, r.Verdict)
	require.ErrorIs(t, r.Err, store.ErrSession)
	k.applied(t, &store.TakeBack{ID: e.ID, Attempt: 1, Reason: "test"})
	e = k.get(t, e.ID)
	k.applied(t, k.placeIn(e, 1, store.SessionUse{Epoch: 2, Bind: true, Hit: true}))
	k.applied(t, k.claim(e.ID, 2, 1))
}

// testClaimRebound claims a run whose session was bound again since the placement, to the next process of the same
// slot. That process does not have the session's state, and the run would not be told.
func testClaimRebound(t *testing.T, k *kit) {
	e := k.submit(t, ask(inSession("s", messages.AffinityHint)), ask(inSession("s", messages.AffinityHint)))
	k.applied(t, k.placeIn(e[0], 1, store.SessionUse{Epoch: 1, Bind: true, Hit: true}))
	n, err := k.Unbind(t.Context(), []store.Binding{{Pool: pool, Session: "s", Epoch: 1, Worker: k.key(1)}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	k.applied(t, k.placeIn(e[1], 1, store.SessionUse{Epoch: 2, Bind: true, Hit: true}))
	require.Equal(t, k.key(1), k.session(t, "s").Worker)
	r := k.apply(t, k.claim(e[0].ID, 1, 1))[0]
	require.Equal(t, store.Refused, r.Verdict)
	require.ErrorIs(t, r.Err, store.ErrSession)
	require.Equal(t, int64(2), k.applied(t, k.claim(e[1].ID, 1, 1)).Execution.SessionEpoch)
}

// A stored state that ends each worker that it is given back to is set aside after three in a row, whichever nodes they were on, and kept.
func testStateTries(t *testing.T, k *kit) {
	ref := store.SessionRef{Pool: pool, Session: "s", Epoch: 1, Runs: 1}
	k.runIn(t, k.submit(t, ask(inSession("s", messages.AffinityStrict)))[0], 1, store.SessionUse{Epoch: 1, Bind: true, Hit: true}, completed())
	state := json.RawMessage(`{"n":"\u00fc"}`)
	require.NoError(t, k.SaveSnapshot(t.Context(), ref, state))
	at := k.session(t, "s")
	try := func(by messages.ExecutionID, attempt messages.Attempt) int {
		t.Helper()
		tries, err := k.TryState(t.Context(), store.StateTry{
			Pool: pool, Session: "s", Epoch: at.SnapshotEpoch, Runs: at.SnapshotRuns, SessionEpoch: 7, Worker: "n/go/1",
			By: messages.Placement{Execution: by, Attempt: attempt},
		})
		require.NoError(t, err)
		return tries
	}
	trouble := func() store.StateTrouble {
		t.Helper()
		found, err := k.StateTrouble(t.Context(), pool, "s")
		require.NoError(t, err)
		return found
	}
	require.Zero(t, trouble())
	id := messages.NewExecutionID()
	require.Equal(t, []int{1, 1, 2}, []int{try(id, 1), try(id, 1), try(id, 2)}, "a repeated call counts once")
	require.Equal(t, messages.WorkerID("n/go/1"), trouble().TriedOn)
	require.NoError(t, k.StateAnswered(t.Context(), pool, "s"))
	require.Zero(t, trouble(), "an answer ends the count")

	require.Equal(t, []int{1, 2, 3}, []int{try(id, 3), try(id, 4), try(id, 5)})
	require.Equal(t, 3, trouble().Tries)
	_, _, err := k.Snapshot(t.Context(), pool, "s")
	require.NoError(t, err)
	require.Equal(t, store.StateTriesMax+1, try(id, 6))
	_, _, err = k.Snapshot(t.Context(), pool, "s")
	require.ErrorIs(t, err, store.ErrNotFound)
	require.Zero(t, k.session(t, "s").SnapshotEpoch)
	found := trouble()
	require.Zero(t, found.Tries)
	require.JSONEq(t, string(state), string(found.Aside.State))
	require.Equal(t, []int64{1, 7, 3}, []int64{found.Aside.Epoch, found.Aside.SessionEpoch, int64(found.Aside.Tries)})
	list, err := k.AsideStates(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Nil(t, list[0].State)
	require.Equal(t, found.Aside.At, list[0].At)

	had, err := k.DropState(t.Context(), pool, "s")
	require.NoError(t, err)
	require.True(t, had)
	require.Zero(t, trouble())
	had, err = k.DropState(t.Context(), pool, "s")
	require.NoError(t, err)
	require.False(t, had)
}
