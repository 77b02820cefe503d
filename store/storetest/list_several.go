package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// check walks the list in both orders and several sizes of pages. stored are all executions, newest first.
func (f listCase) check(t *testing.T, k *kit, name string, stored []messages.Execution) {
	for _, limit := range []int{1, 4, 1000} {
		for _, f.filter.Oldest = range []bool{false, true} {
			f.filter.Limit = limit
			var want []messages.ExecutionID
			for _, e := range stored {
				if f.keep(e) {
					want = append(want, e.ID)
				}
			}
			if f.filter.Oldest {
				slices.Reverse(want)
			}
			var got []messages.ExecutionID
			for _, e := range k.walk(t, f.filter) {
				require.Empty(t, e.Parameters)
				got = append(got, e.ID)
			}
			require.Equal(t, want, got, "%s in pages of %d, oldest first: %v", name, limit, f.filter.Oldest)
		}
	}
}

// bringMixed stores executions of all states that can be reached, of three actions, pools, sessions, workers, error codes, labels of a name
// and keys, and some without a session, label or key, and returns them newest first.
func (k *kit) bringMixed(t *testing.T) (stored []messages.Execution) {
	draw := rand.New(rand.NewPCG(1, 2))
	for i, s := range slices.Repeat(reachable(), 8) {
		e := k.submit(t, ask(func(e *messages.Execution) {
			e.Action, e.Pool, e.Priority = fmt.Sprint("a", draw.IntN(3)), fmt.Sprint("p", draw.IntN(3)), messages.Priority(i%10)
			if s := draw.IntN(4); s < 3 {
				e.Session, e.Affinity = fmt.Sprint("s", s), messages.AffinityHint
			}
			if team := draw.IntN(4); team < 3 {
				e.Labels = map[string]string{"team": fmt.Sprint("t", team), "env": fmt.Sprint("v", draw.IntN(2))}
			}
			if i%5 != 0 {
				e.IdempotencyKey, e.CreatedBy, e.RequestHash = fmt.Sprint("k", i%5, "-", i), "a", []byte{byte(i)}
			}
		}))[0]
		slot := messages.Slot(draw.IntN(3))
		key := messages.WorkerKey{Incarnation: k.inc, Pool: e.Pool, Slot: slot}
		if s != messages.Requested {
			k.applied(t, &store.Place{ID: e.ID, Worker: key, WorkerID: messages.NewWorkerID("n", "w", slot), PlacedBy: k.inc, ClaimWithin: time.Minute})
		}
		if s != messages.Requested && s != messages.Scheduled {
			k.applied(t, &store.Claim{ID: e.ID, Attempt: 1, Worker: key, Generation: 1})
		}
		switch {
		case s == messages.Cancelling:
			k.applied(t, &store.Cancel{ID: e.ID})
		case s.Terminal():
			o := outcome(s)
			if o.Error != nil {
				o.Error.Code = messages.Code(fmt.Sprint("e", draw.IntN(3)))
			}
			k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: o})
		}
		stored = append(stored, k.get(t, e.ID))
	}
	slices.Reverse(stored)
	return stored
}

// alternatives are a case for several values of each field, alone, together, and with values that are left out. stored are those of bringMixed.
func alternatives(stored []messages.Execution) map[string]listCase {
	in := func(is string, list ...string) bool { return slices.Contains(list, is) }
	worker := func(slot messages.Slot) string { return string(messages.NewWorkerID("n", "w", slot)) }
	waiting := []messages.Status{messages.Requested, messages.Scheduled, messages.Running, messages.Cancelling}
	middle := stored[len(stored)/2]
	return map[string]listCase{
		"actions":  {store.Filter{Actions: []string{"a2", "a0"}}, func(e messages.Execution) bool { return in(e.Action, "a0", "a2") }},
		"pools":    {store.Filter{Pools: []string{"p2", "p0"}}, func(e messages.Execution) bool { return in(e.Pool, "p0", "p2") }},
		"sessions": {store.Filter{Sessions: []string{"s2", "s0"}}, func(e messages.Execution) bool { return in(e.Session, "s0", "s2") }},
		"workers":  {store.Filter{Workers: []string{worker(2), worker(0)}}, func(e messages.Execution) bool { return in(string(e.WorkerID), worker(0), worker(2)) }},
		"errors":   {store.Filter{Errors: []messages.Code{"e2", "e0"}}, func(e messages.Execution) bool { return in(string(codeOf(e)), "e0", "e2") }},
		"each":     {store.Filter{Actions: []string{"a0", "a1", "a2"}, Pools: []string{"p0", "p1", "p2"}}, func(messages.Execution) bool { return true }},
		"some that nothing has": {store.Filter{Actions: []string{"none", "a1"}, Pools: []string{"p1", "none"}},
			func(e messages.Execution) bool { return e.Action == "a1" && e.Pool == "p1" }},
		"what nothing has": {store.Filter{Sessions: []string{"none", "nothing"}}, func(messages.Execution) bool { return false }},
		"the same twice":   {store.Filter{Actions: []string{"a1", "a1"}}, func(e messages.Execution) bool { return e.Action == "a1" }},
		"a session twice, and another one": {store.Filter{Sessions: []string{"s1", "s0", "s1"}},
			func(e messages.Execution) bool { return in(e.Session, "s0", "s1") }},
		"a pool twice, waiting": {store.Filter{Pools: []string{"p1", "p1"}, Statuses: waiting[:1]},
			func(e messages.Execution) bool { return e.Pool == "p1" && e.Status == messages.Requested }},
		"what waits in pools": {store.Filter{Pools: []string{"p2", "none", "p0"}, Statuses: waiting[:1]},
			func(e messages.Execution) bool { return e.Status == messages.Requested && in(e.Pool, "p0", "p2") }},
		"what has not ended in pools": {store.Filter{Pools: []string{"p2", "p0"}, Statuses: waiting},
			func(e messages.Execution) bool { return !e.Status.Terminal() && in(e.Pool, "p0", "p2") }},
		"what is on workers in pools": {store.Filter{Pools: []string{"p1", "p0"}, Statuses: waiting[1:3]},
			func(e messages.Execution) bool {
				return slices.Contains(waiting[1:3], e.Status) && in(e.Pool, "p0", "p1")
			}},
		"what waits of pools and actions": {store.Filter{Pools: []string{"p1", "p0"}, Actions: []string{"a1", "a2"}, Statuses: waiting},
			func(e messages.Execution) bool {
				return !e.Status.Terminal() && in(e.Pool, "p0", "p1") && in(e.Action, "a1", "a2")
			}},
		"errors of pools": {store.Filter{Pools: []string{"p1", "p2"}, Errors: []messages.Code{"e1", "e2"}},
			func(e messages.Execution) bool { return in(string(codeOf(e)), "e1", "e2") && in(e.Pool, "p1", "p2") }},
		"sessions of workers and statuses": {store.Filter{Sessions: []string{"s1", "s2"}, Workers: []string{worker(0), worker(1)}, Statuses: []messages.Status{messages.Completed, messages.Failed}},
			func(e messages.Execution) bool {
				return in(e.Session, "s1", "s2") && in(string(e.WorkerID), worker(0), worker(1)) && (e.Status == messages.Completed || e.Status == messages.Failed)
			}},
		"actions and sessions, from a time on": {store.Filter{Actions: []string{"a0", "a1"}, Sessions: []string{"s0", "s1"}, From: middle.RequestedAt},
			func(e messages.Execution) bool {
				return in(e.Action, "a0", "a1") && in(e.Session, "s0", "s1") && !e.RequestedAt.Before(middle.RequestedAt)
			}},
		"actions but one, not of a pool": {store.Filter{Actions: []string{"a0", "a1"}, Not: store.Exclusion{Actions: []string{"a1"}, Pools: []string{"p2"}}},
			func(e messages.Execution) bool { return e.Action == "a0" && e.Pool != "p2" }},
		"sessions, not of workers and errors": {store.Filter{Sessions: []string{"s0", "s1"}, Not: store.Exclusion{Workers: []string{worker(0), worker(2)}, Errors: []messages.Code{"e0"}}},
			func(e messages.Execution) bool {
				return in(e.Session, "s0", "s1") && !in(string(e.WorkerID), worker(0), worker(2)) && codeOf(e) != "e0"
			}},
		"workers, with no session": {store.Filter{Workers: []string{worker(1), worker(2)}, Not: store.Exclusion{Sessions: []string{"s0", "s1", "s2"}}},
			func(e messages.Execution) bool {
				return in(string(e.WorkerID), worker(1), worker(2)) && e.Session == ""
			}},
		"errors but one": {store.Filter{Errors: []messages.Code{"e0", "e1"}, Not: store.Exclusion{Errors: []messages.Code{"e1"}, Sessions: []string{"s0"}}},
			func(e messages.Execution) bool { return codeOf(e) == "e0" && e.Session != "s0" }},
	}
}

// testListAlternatives gives several values of a field.
func testListAlternatives(t *testing.T, k *kit) {
	stored := k.bringMixed(t)
	for name, c := range alternatives(stored) {
		require.Equal(t, name != "what nothing has", slices.ContainsFunc(stored, c.keep), "the executions are mixed enough: %s", name)
		c.check(t, k, name, stored)
	}
	k.listBetween(t, stored)
}

// listBetween walks a list of alternatives between two bounds.
func (k *kit) listBetween(t *testing.T, stored []messages.Execution) {
	for _, oldest := range []bool{false, true} {
		f := store.Filter{Actions: []string{"a0", "a1"}, Oldest: oldest, After: stored[20].Seq, Before: stored[3].Seq, Limit: 3}
		var want, got []messages.ExecutionID
		for _, e := range stored[4:20] {
			if e.Action == "a0" || e.Action == "a1" {
				want = append(want, e.ID)
			}
		}
		for more := store.MoreFound; more == store.MoreFound; {
			page, err := k.List(t.Context(), f)
			require.NoError(t, err)
			for _, e := range page.Executions {
				got = append(got, e.ID)
			}
			if more = page.More; oldest {
				f.After = page.Next
			} else {
				f.Before = page.Next
			}
		}
		if oldest {
			slices.Reverse(want)
		}
		require.Equal(t, want, got, "between two bounds, oldest first: %v", oldest)
	}
}

// testListTurned gives each thing that a list can be asked for, several of it, and turned round: what a list has and what it leaves out are
// all executions, and none is in both.
func testListTurned(t *testing.T, k *kit) {
	stored := k.bringMixed(t)
	digits := func(e messages.Execution) string { return strings.ReplaceAll(e.ID.String(), "-", "") }
	first, last := digits(stored[len(stored)-1])[:31], digits(stored[2])
	keys := []string{stored[1].IdempotencyKey, stored[7].IdempotencyKey, stored[11].IdempotencyKey, "none"}
	keys = slices.DeleteFunc(keys, func(key string) bool { return key == "" })
	in := func(is string, list ...string) bool { return slices.Contains(list, is) }
	for name, c := range map[string]struct {
		has  store.Filter
		not  store.Exclusion
		keep func(e messages.Execution) bool
	}{
		"keys":  {store.Filter{Keys: keys}, store.Exclusion{Keys: keys}, func(e messages.Execution) bool { return in(e.IdempotencyKey, keys...) }},
		"a key": {store.Filter{Keys: keys[:1]}, store.Exclusion{Keys: keys[:1]}, func(e messages.Execution) bool { return e.IdempotencyKey == keys[0] }},
		"ids": {store.Filter{IDPrefixes: []string{last, first, "ffff", last[:30]}}, store.Exclusion{IDPrefixes: []string{last, first, "ffff", last[:30]}},
			func(e messages.Execution) bool {
				return strings.HasPrefix(digits(e), first) || strings.HasPrefix(digits(e), last[:30])
			}},
		"an id that nothing can have": {store.Filter{IDPrefixes: []string{"odd"}}, store.Exclusion{IDPrefixes: []string{"odd"}}, func(messages.Execution) bool { return false }},
		"labels of a name": {store.Filter{Labels: [][2]string{{"team", "t2"}, {"team", "t0"}}}, store.Exclusion{Labels: [][2]string{{"team", "t2"}, {"team", "t0"}}},
			func(e messages.Execution) bool { return in(e.Labels["team"], "t0", "t2") }},
		"texts": {store.Filter{Texts: []string{"E1", "e2"}, Statuses: messages.Statuses()}, store.Exclusion{Texts: []string{"E1", "e2"}},
			func(e messages.Execution) bool { return in(string(codeOf(e)), "e1", "e2") }},
		"a text": {store.Filter{Texts: []string{"e1"}, Statuses: messages.Statuses()}, store.Exclusion{Texts: []string{"e1"}},
			func(e messages.Execution) bool { return codeOf(e) == "e1" }},
		"errors": {store.Filter{Errors: []messages.Code{"e0", "e2"}}, store.Exclusion{Errors: []messages.Code{"e0", "e2"}},
			func(e messages.Execution) bool { return in(string(codeOf(e)), "e0", "e2") }},
	} {
		require.Equal(t, name != "an id that nothing can have", slices.ContainsFunc(stored, c.keep), "some match: %s", name)
		require.True(t, slices.ContainsFunc(stored, func(e messages.Execution) bool { return !c.keep(e) }), "some do not: %s", name)
		listCase{c.has, c.keep}.check(t, k, name, stored)
		listCase{store.Filter{Not: c.not}, func(e messages.Execution) bool { return !c.keep(e) }}.check(t, k, "none of "+name, stored)
	}
	for name, c := range map[string]listCase{
		"labels of two names": {store.Filter{Labels: [][2]string{{"team", "t2"}, {"env", "v1"}, {"team", "t0"}}},
			func(e messages.Execution) bool { return in(e.Labels["team"], "t0", "t2") && e.Labels["env"] == "v1" }},
		"labels of sessions": {store.Filter{Labels: [][2]string{{"team", "t2"}, {"team", "t0"}}, Sessions: []string{"s1", "s2"}},
			func(e messages.Execution) bool { return in(e.Labels["team"], "t0", "t2") && in(e.Session, "s1", "s2") }},
		"labels of a name, but one": {store.Filter{Labels: [][2]string{{"team", "t2"}, {"team", "t0"}}, Not: store.Exclusion{Labels: [][2]string{{"team", "t2"}, {"env", "v0"}}}},
			func(e messages.Execution) bool { return e.Labels["team"] == "t0" && e.Labels["env"] != "v0" }},
		"keys and labels": {store.Filter{Keys: keys, Labels: [][2]string{{"env", "v0"}, {"env", "v1"}}},
			func(e messages.Execution) bool { return in(e.IdempotencyKey, keys...) && e.Labels["env"] != "" }},
		"errors without a text": {store.Filter{Errors: []messages.Code{"e0", "e2"}, Not: store.Exclusion{Texts: []string{"E2"}}},
			func(e messages.Execution) bool { return codeOf(e) == "e0" }},
	} {
		require.True(t, slices.ContainsFunc(stored, c.keep), "some match: %s", name)
		c.check(t, k, name, stored)
	}
}
