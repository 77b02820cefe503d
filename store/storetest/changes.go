package storetest

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

func testStraightPath(t *testing.T, k *kit) {
	e := k.submit(t, ask())[0]
	placed := k.applied(t, k.place(e.ID, 0, 3))
	require.Equal(t, messages.Scheduled, placed.Status)
	require.Equal(t, messages.Attempt(1), placed.Attempt)
	got := k.get(t, e.ID)
	require.Equal(t, k.key(3), got.Worker)
	require.Equal(t, workerID(3), got.WorkerID)
	require.Equal(t, k.inc, got.PlacedBy)
	require.Equal(t, placed.At, got.ScheduledAt)
	require.Equal(t, placed.At, got.FirstPlacedAt)
	require.Equal(t, placed.At.Add(time.Minute), got.ClaimBy)

	claimed := k.applied(t, k.claim(e.ID, 1, 3))
	require.Equal(t, messages.Running, claimed.Status)
	require.NotNil(t, claimed.Execution)
	require.Equal(t, k.get(t, e.ID), *claimed.Execution, "a claim carries the execution whole")
	require.JSONEq(t, `{"a": 1}`, string(claimed.Execution.Parameters))
	require.Equal(t, claimed.At.Add(time.Minute), claimed.Execution.RunDeadline)
	require.Equal(t, messages.Generation(1), claimed.Execution.Generation)

	finished := k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: completed(), Output: messages.Output{Stdout: []byte("hi"), ErrCut: true, Stderr: []byte("!"), Record: []byte("r")}})
	require.Equal(t, messages.Completed, finished.Status)
	require.Empty(t, finished.Execution.Parameters)
	require.JSONEq(t, `{"ok":true}`, string(finished.Execution.Result))
	require.Equal(t, workerID(3), finished.Execution.WorkerID, "it says which worker ran it")
	got = k.get(t, e.ID)
	require.Equal(t, finished.At, got.FinishedAt)
	require.JSONEq(t, `{"ok":true}`, string(got.Result))
	out, err := k.Output(t.Context(), e.ID)
	require.NoError(t, err)
	require.Equal(t, messages.Output{Stdout: []byte("hi"), Stderr: []byte("!"), ErrCut: true, Record: []byte("r")}, out)
}

// changeTo returns the named change of an execution that bring made.
func (k *kit) changeTo(name string, e messages.Execution) store.Change {
	switch name {
	case "place":
		return k.place(e.ID, e.Attempt, 2)
	case "take_back":
		return &store.TakeBack{ID: e.ID, Attempt: e.Attempt, Reason: "claim_by"}
	case "claim":
		return &store.Claim{ID: e.ID, Attempt: e.Attempt, Worker: k.key(1), Generation: 2}
	case "finish":
		return &store.Finish{ID: e.ID, Attempt: e.Attempt, Outcome: messages.Outcome{Status: messages.Completed, Result: json.RawMessage(`"late"`)}}
	case "end":
		return &store.End{ID: e.ID, Attempt: e.Attempt, Outcome: messages.Outcome{Status: messages.Failed, Error: &messages.Error{Code: messages.CodeNoWorkers, Message: "no workers available"}}}
	case "cancel":
		return &store.Cancel{ID: e.ID, By: "me"}
	}
	return &store.Rescue{ID: e.ID, Attempt: e.Attempt, Reason: "node gone"}
}

// legal has, for each change, the statuses from which it may start and its next status.
var legal = map[string]map[messages.Status]messages.Status{
	"place":     {messages.Requested: messages.Scheduled},
	"take_back": {messages.Scheduled: messages.Requested},
	"claim":     {messages.Scheduled: messages.Running},
	"finish":    {messages.Running: messages.Completed, messages.Cancelling: messages.Cancelled},
	"end":       {messages.Requested: messages.Failed, messages.Scheduled: messages.Failed},
	"cancel": {messages.Requested: messages.Cancelled, messages.Scheduled: messages.Cancelled,
		messages.Running: messages.Cancelling},
	"rescue": {messages.Running: messages.Requested, messages.Cancelling: messages.Cancelled},
}

func testEveryChange(t *testing.T, k *kit) {
	for _, name := range store.Changes() {
		for _, from := range reachable() {
			e := k.bring(t, from)
			to, ok := legal[name][from]
			c := k.changeTo(name, e)
			require.Equal(t, name, c.Name())
			r := k.apply(t, c)[0]
			after := k.get(t, e.ID)
			if !ok {
				want := store.Stale
				if name == "cancel" {
					want = store.Already
				}
				require.Equal(t, want, r.Verdict, "%s from %s", name, from)
				require.Equal(t, from, r.Status)
				require.Equal(t, e, after, "%s from %s changed the row", name, from)
				continue
			}
			require.Equal(t, store.Applied, r.Verdict, "%s from %s: %v", name, from, r.Err)
			require.Equal(t, to, r.Status)
			require.Equal(t, to, after.Status, "%s from %s", name, from)
			require.Equal(t, r.Attempt, after.Attempt)
			again := k.apply(t, c)[0]
			require.Equal(t, store.Already, again.Verdict, "%s from %s, made again", name, from)
			require.Equal(t, after, k.get(t, e.ID), "%s from %s, made again, changed the row", name, from)
			k.wrongAttempt(t, name, from)
		}
	}
	for _, name := range store.Changes() {
		r := k.apply(t, k.changeTo(name, ask()))[0]
		require.Equal(t, store.Missing, r.Verdict, name)
	}
}

// wrongAttempt makes a change with an attempt that is not the row's.
func (k *kit) wrongAttempt(t *testing.T, name string, from messages.Status) {
	if name == "cancel" {
		return // it has none
	}
	e := k.bring(t, from)
	for _, off := range []messages.Attempt{-1, 1, 7} {
		wrong := e
		wrong.Attempt += off
		require.Equal(t, store.Stale, k.apply(t, k.changeTo(name, wrong))[0].Verdict, "%s from %s", name, from)
	}
	require.Equal(t, e, k.get(t, e.ID))
}

func testRaces(t *testing.T, k *kit) {
	for _, name := range []string{"place", "claim", "finish", "cancel", "rescue", "take_back", "end"} {
		from := messages.Requested
		switch name {
		case "claim", "take_back":
			from = messages.Scheduled
		case "finish", "rescue":
			from = messages.Running
		}
		e := k.bring(t, from)
		const contenders = 16
		verdicts := make([]store.Verdict, contenders)
		var group sync.WaitGroup
		for i := range contenders {
			group.Go(func() {
				c := k.changeTo(name, e)
				switch c := c.(type) {
				case *store.Place: // each has another worker
					c.Worker, c.WorkerID = k.key(i), workerID(i)
				case *store.Claim:
					c.Generation = messages.Generation(i + 1)
				case *store.Finish:
					c.Outcome.Result, _ = json.Marshal(i)
				case *store.End:
					c.Outcome.Error = &messages.Error{Code: messages.CodeNoWorkers, Message: workerIDText(i)}
				}
				out, err := k.Apply(t.Context(), []store.Change{c})
				if err == nil {
					verdicts[i] = out[0].Verdict
				}
			})
		}
		group.Wait()
		won := 0
		for _, v := range verdicts {
			require.Contains(t, []store.Verdict{store.Applied, store.Already, store.Stale}, v)
			if v == store.Applied {
				won++
			}
		}
		require.Equal(t, 1, won, "%s: %v", name, verdicts)
	}
}

func workerIDText(i int) string { return string(workerID(i)) }

func testLateOutcomes(t *testing.T, k *kit) {
	e := k.bring(t, messages.Running)
	k.applied(t, &store.Rescue{ID: e.ID, Attempt: 1, Reason: "node gone"})
	k.applied(t, k.place(e.ID, 1, 2))
	k.applied(t, k.claim(e.ID, 2, 2))
	old := &store.Finish{ID: e.ID, Attempt: 1, Outcome: completed()}
	require.Equal(t, store.Stale, k.apply(t, old)[0].Verdict, "the old attempt can no longer write")
	k.applied(t, &store.Finish{ID: e.ID, Attempt: 2, Outcome: failed(messages.TimedOut)})
	late := k.apply(t, &store.Finish{ID: e.ID, Attempt: 2, Outcome: completed()})[0]
	require.Equal(t, store.Stale, late.Verdict, "another outcome of the same attempt is not already stored")
	require.Equal(t, messages.TimedOut, late.Status)
	require.Equal(t, store.Already, k.apply(t, &store.Finish{ID: e.ID, Attempt: 2, Outcome: failed(messages.TimedOut)})[0].Verdict)

	r := k.apply(t, &store.Finish{ID: e.ID, Attempt: 2, Outcome: messages.Outcome{Status: messages.Running}})[0]
	require.Equal(t, store.Refused, r.Verdict)
	require.ErrorIs(t, r.Err, store.ErrInvalid)
}

func testRetry(t *testing.T, k *kit) {
	e := k.bring(t, messages.Running, func(e *messages.Execution) { e.IdempotencyKey, e.MaxRetries = "k", 2 })
	next := e
	next.ID, next.RetryCount, next.RetryReason, next.Original = messages.NewExecutionID(), 1, "transient", e.ID
	next.Parameters, next.RunAt = nil, time.Now().Add(time.Hour)
	finish := &store.Finish{ID: e.ID, Attempt: 1, Outcome: failed(messages.Failed), Retry: &next}
	r := k.applied(t, finish)
	require.Equal(t, next.ID, r.Execution.RetriedAs)
	require.Equal(t, next.ID, k.get(t, e.ID).RetriedAs)
	got := k.get(t, next.ID)
	require.Equal(t, messages.Requested, got.Status)
	require.Zero(t, got.Attempt)
	require.Greater(t, got.Seq, e.Seq)
	require.Equal(t, e.ID, got.Original)
	require.Equal(t, 1, got.RetryCount)
	require.Equal(t, e.Parameters, got.Parameters, "a retry has its forerunner's parameters")
	require.Empty(t, got.IdempotencyKey, "the key stays with the first")
	require.Zero(t, got.Worker)
	require.Equal(t, store.Already, k.apply(t, finish)[0].Verdict)

	ended := k.submit(t, ask())[0]
	after := ask(func(n *messages.Execution) { n.Original, n.RetryCount = ended.ID, 1 })
	k.applied(t, &store.End{ID: ended.ID, Attempt: 0, Outcome: failed(messages.Failed), Retry: &after})
	require.Equal(t, after.ID, k.get(t, ended.ID).RetriedAs)

	cancelling := k.bring(t, messages.Cancelling)
	none := ask()
	k.applied(t, &store.Finish{ID: cancelling.ID, Attempt: 1, Outcome: failed(messages.Failed), Retry: &none})
	_, err := k.Get(t.Context(), none.ID)
	require.ErrorIs(t, err, store.ErrNotFound, "what was cancelled is not retried")

	avoided := k.bring(t, messages.Running)
	now := ask()
	k.applied(t, &store.Finish{ID: avoided.ID, Attempt: 1, Outcome: failed(messages.Failed), Retry: &now})
	page, err := k.Due(t.Context(), store.DueQuery{Pool: pool, Limit: 10})
	require.NoError(t, err)
	for _, c := range page.Candidates {
		if c.ID == now.ID {
			require.Equal(t, workerID(1), c.Avoid)
			return
		}
	}
	t.Fatal("the retry is not due")
}

// testCrashes checks that a chain has one crash count. It includes the last crash, and a retry continues it.
func testCrashes(t *testing.T, k *kit) {
	e := k.bring(t, messages.Running, func(e *messages.Execution) { e.MaxRetries, e.MayRepeat = 9, true })
	for crashes := 1; crashes <= 3; crashes++ {
		next := e
		next.ID, next.RetryCount, next.Original, next.CrashCount = messages.NewExecutionID(), crashes, e.ID, 0
		k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: crashed(), Retry: &next})
		require.Equal(t, crashes, k.get(t, e.ID).CrashCount, "the last crash counts")
		e = k.get(t, next.ID)
		require.Equal(t, crashes, e.CrashCount, "a retry goes on from its forerunner's count")
		k.start(t, e)
	}
	next := e
	next.ID, next.CrashCount = messages.NewExecutionID(), 0
	finish := &store.Finish{ID: e.ID, Attempt: 1, Outcome: failed(messages.Failed), Retry: &next}
	k.applied(t, finish)
	require.Equal(t, 3, k.get(t, next.ID).CrashCount, "an ordinary failure neither counts nor clears")
	require.Equal(t, store.Already, k.apply(t, finish)[0].Verdict)
	require.Equal(t, 3, k.get(t, e.ID).CrashCount)

	ended := k.submit(t, ask())[0]
	after := ask()
	k.applied(t, &store.End{ID: ended.ID, Attempt: 0, Outcome: failed(messages.Failed), Retry: &after})
	require.Zero(t, k.get(t, after.ID).CrashCount)

	alone := k.bring(t, messages.Running)
	k.applied(t, &store.Finish{ID: alone.ID, Attempt: 1, Outcome: crashed()})
	require.Equal(t, 1, k.get(t, alone.ID).CrashCount, "also where no retry follows")
}

func testCancel(t *testing.T, k *kit) {
	for _, from := range []messages.Status{messages.Requested, messages.Scheduled} {
		e := k.bring(t, from)
		r := k.applied(t, &store.Cancel{ID: e.ID, By: "me"})
		require.Equal(t, messages.Cancelled, r.Execution.Status)
		require.Equal(t, messages.CodeCancelled, k.get(t, e.ID).Error.Code)
	}
	e := k.bring(t, messages.Running)
	r := k.applied(t, &store.Cancel{ID: e.ID, By: "me"})
	require.Equal(t, messages.Cancelling, r.Execution.Status)
	require.Equal(t, k.key(1), r.Execution.Worker, "it says where the running one is")
	k.applied(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: completed()})
	got := k.get(t, e.ID)
	require.Equal(t, messages.Cancelled, got.Status)
	require.Empty(t, got.Result)
	require.JSONEq(t, `{"status":"completed","result":{"ok":true}}`, string(got.Error.Details))
	again := k.apply(t, &store.Cancel{ID: e.ID, By: "me"})[0]
	require.Equal(t, store.Already, again.Verdict)
	require.Equal(t, messages.CodeCancelled, again.Execution.Error.Code)
}

func testRescue(t *testing.T, k *kit) {
	e := k.bring(t, messages.Running)
	r := k.applied(t, &store.Rescue{ID: e.ID, Attempt: 1, Reason: "node gone", Delay: time.Hour})
	got := k.get(t, e.ID)
	require.Equal(t, messages.Requested, got.Status)
	require.Equal(t, messages.Attempt(1), got.Attempt)
	require.Equal(t, 1, got.CrashCount)
	require.Zero(t, got.Worker)
	require.Zero(t, got.RunDeadline)
	require.Equal(t, r.At.Add(time.Hour), got.RunAt)

	e = k.bring(t, messages.Cancelling)
	k.applied(t, &store.Rescue{ID: e.ID, Attempt: 1, Reason: "node gone"})
	require.Equal(t, messages.CodeCancelled, k.get(t, e.ID).Error.Code)

	e = k.bring(t, messages.Scheduled)
	k.applied(t, &store.TakeBack{ID: e.ID, Attempt: 1, Reason: "claim_by"})
	k.applied(t, k.place(e.ID, 1, 1))
	k.applied(t, &store.TakeBack{ID: e.ID, Attempt: 2, Reason: "claim_by"})
	require.Equal(t, 2, k.get(t, e.ID).TakeBacks)
	k.applied(t, k.place(e.ID, 2, 1))
	require.Zero(t, k.applied(t, k.claim(e.ID, 3, 1)).Execution.TakeBacks, "in a row, without a start")
}
