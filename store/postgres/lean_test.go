package postgres_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

// claimer is a store with one live worker.
type claimer struct {
	*postgres.Store
	t   *testing.T
	key messages.WorkerKey
}

func newClaimer(t *testing.T, cfg postgres.Config) *claimer {
	t.Helper()
	s := newBench(t).open(t, cfg)
	return &claimer{s, t, joined(t, s)}
}

func (c *claimer) submit(e messages.Execution) {
	c.t.Helper()
	_, err := c.Submit(c.t.Context(), []messages.Execution{e})
	require.NoError(c.t, err)
}

func (c *claimer) apply(change store.Change) store.Result {
	c.t.Helper()
	results, err := c.Apply(c.t.Context(), []store.Change{change})
	require.NoError(c.t, err)
	return results[0]
}

func (c *claimer) place(id messages.ExecutionID) store.Result {
	c.t.Helper()
	return c.apply(&store.Place{ID: id, Worker: c.key, WorkerID: "n/go/0", PlacedBy: c.key.Incarnation, ClaimWithin: time.Minute})
}

// claimed places the execution and claims it.
func (c *claimer) claimed(id messages.ExecutionID) *messages.Execution {
	c.t.Helper()
	require.Equal(c.t, store.Applied, c.place(id).Verdict)
	result := c.apply(&store.Claim{ID: id, Attempt: 1, Worker: c.key, Generation: 1})
	require.Equal(c.t, store.Applied, result.Verdict)
	return result.Execution
}

// A claim returns the execution as submitted, even if the submitter changes its map and bytes afterwards.
func TestAClaimBringsWhatWasSubmitted(t *testing.T) {
	t.Parallel()
	c := newClaimer(t, postgres.Config{})
	e := noop(1)[0]
	e.Labels = map[string]string{"n": "1"}
	c.submit(e)
	e.Labels["n"], e.Parameters[5] = "2", '9'
	got := c.claimed(e.ID)
	kept, err := c.Get(t.Context(), e.ID)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"n": "1"}, got.Labels)
	require.Equal(t, kept.Labels, got.Labels)
	require.Equal(t, string(kept.Parameters), string(got.Parameters))
}

// If an id is used again after its first execution was purged, it is another execution.
func TestAClaimBringsTheExecutionThatHasTheIDNow(t *testing.T) {
	t.Parallel()
	c := newClaimer(t, postgres.Config{})
	e := noop(1)[0]
	c.submit(e)
	c.apply(&store.Cancel{ID: e.ID, By: "test"})
	n, err := c.Purge(t.Context(), store.Purge{FinishedBefore: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	require.Equal(t, 1, n.Rows)
	e.Action, e.Parameters = "core.other", json.RawMessage(`{"a":"`+strings.Repeat("x", 400)+`"}`)
	c.submit(e)
	got := c.claimed(e.ID)
	require.Equal(t, "core.other", got.Action)
	require.Equal(t, len(e.Parameters), len(got.Parameters))
}

// A placement that another router won is stored as an event only if all changes are.
func TestALostPlacementIsNoEvent(t *testing.T) {
	t.Parallel()
	for _, all := range []bool{false, true} {
		c := newClaimer(t, postgres.Config{EventsAll: all})
		e := noop(1)[0]
		c.submit(e)
		c.claimed(e.ID)
		c.key.Slot = 1 // as if another router had chosen
		require.Equal(t, store.Stale, c.place(e.ID).Verdict)
		events, err := c.Events(t.Context(), e.ID)
		require.NoError(t, err)
		stale := 0
		for _, event := range events {
			if event.Kind == "stale_write" {
				stale++
			}
		}
		require.Equal(t, all, stale == 1, "events %v", events)
		require.LessOrEqual(t, stale, 1)
	}
}

// A duplicate message and the late one of an older attempt are claims in one group. One takes effect and is one event.
func TestClaimsOfOneExecutionInOneGroupAreOneEvent(t *testing.T) {
	t.Parallel()
	c := newClaimer(t, postgres.Config{EventsAll: true})
	e := noop(1)[0]
	c.submit(e)
	require.Equal(t, store.Applied, c.place(e.ID).Verdict)
	c.apply(&store.TakeBack{ID: e.ID, Attempt: 1, Reason: "unclaimed"})
	again := store.Place{ID: e.ID, Attempt: 1, Worker: c.key, WorkerID: "n/go/0", PlacedBy: c.key.Incarnation, ClaimWithin: time.Minute}
	require.Equal(t, store.Applied, c.apply(&again).Verdict)
	claim := func(attempt messages.Attempt) store.Change {
		return &store.Claim{ID: e.ID, Attempt: attempt, Worker: c.key, Generation: 1}
	}
	results, err := c.Apply(t.Context(), []store.Change{claim(1), claim(2), claim(2)})
	require.NoError(t, err)
	applied := 0
	for _, r := range results {
		if r.Verdict == store.Applied {
			applied++
		}
	}
	require.Equal(t, 1, applied, "%+v", results)
	events, err := c.Events(t.Context(), e.ID)
	require.NoError(t, err)
	claims := 0
	for _, event := range events {
		if event.Kind == "claim" {
			claims++
		}
	}
	require.Equal(t, 1, claims, "events %v", events)
}

// A claim and an outcome find the row by its place where that is known, and by the id where another change has moved it meanwhile.
func TestAMovedRowIsFoundByItsID(t *testing.T) {
	t.Parallel()
	for _, moved := range []bool{false, true} {
		d := newBench(t)
		s := d.open(t, postgres.Config{})
		key := joined(t, s)
		_, err := s.Beat(t.Context(), key.Incarnation, time.Hour) // it is the only node, so it remembers what it reads
		require.NoError(t, err)
		move := func() {
			if moved {
				_, err := d.connect(t, s.Schema()).Exec(t.Context(), "UPDATE execution SET take_backs = take_backs")
				require.NoError(t, err)
			}
		}
		es := noop(2)
		_, err = s.Submit(t.Context(), es)
		require.NoError(t, err)
		page, err := s.Due(t.Context(), store.DueQuery{Pool: "go", Limit: 2})
		require.NoError(t, err)
		require.Len(t, page.Candidates, 2)
		move()
		var claims, ends []store.Change
		for _, e := range es {
			claims = append(claims, &store.Claim{ID: e.ID, Attempt: 1, Worker: key, WorkerID: "n/go/0", Generation: 1, PlacedBy: key.Incarnation})
			ends = append(ends, &store.Finish{ID: e.ID, Attempt: 1, Outcome: messages.Outcome{Status: messages.Completed}})
		}
		results, err := s.Apply(t.Context(), claims)
		require.NoError(t, err)
		for _, r := range results {
			require.Equal(t, store.Applied, r.Verdict, "moved %v: %+v", moved, r)
		}
		move()
		results, err = s.Apply(t.Context(), ends)
		require.NoError(t, err)
		for i, r := range results {
			require.Equal(t, store.Applied, r.Verdict, "moved %v: %+v", moved, r)
			kept, err := s.Get(t.Context(), es[i].ID)
			require.NoError(t, err)
			require.Equal(t, messages.Completed, kept.Status)
		}
		plans, err := s.Plans(t.Context())
		require.NoError(t, err)
		byPlace := 0
		for statement, plan := range plans {
			if strings.Contains(statement, "e.ctid = i.at") {
				require.Contains(t, plan, "Tid Scan", statement)
				byPlace++
			}
		}
		want := 2 // the claim's and the outcome's
		if moved {
			want = 1 // a row that was found by its id has no place that is known
		}
		require.Equal(t, want, byPlace)
	}
}
