package store_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

var (
	decidedAt = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	here      = messages.NewIncarnation()
)

func onSlot(slot int) messages.WorkerKey {
	return messages.WorkerKey{Incarnation: here, Pool: "p", Slot: messages.Slot(slot)}
}

// rowIn returns a row that changes led to the status, with attempt 1 if it was placed.
func rowIn(t require.TestingT, to messages.Status) store.Row {
	row := store.Row{Execution: messages.Execution{ID: messages.NewExecutionID(), Action: "core.echo", Pool: "p", Status: messages.Requested,
		Timeout: time.Minute, RunAt: decidedAt}}
	follow := func(c store.Change) {
		d := store.Decide(&row, nil, c, decidedAt)
		require.Equal(t, store.Applied, d.Verdict, "%s: %v", c.Name(), d.Err)
		row = d.Next
	}
	if to == messages.Requested || to == messages.Scheduling {
		row.Status = to
		return row
	}
	follow(decidedChange("place", &row))
	if to == messages.Scheduled {
		return row
	}
	follow(&store.Claim{ID: row.ID, Attempt: 1, Worker: row.Worker, Generation: 1})
	switch {
	case to == messages.Cancelling:
		follow(&store.Cancel{ID: row.ID})
	case to.Terminal():
		follow(&store.Finish{ID: row.ID, Attempt: 1, Outcome: messages.Outcome{Status: to}})
	}
	require.Equal(t, to, row.Status)
	return row
}

// decidedChange returns the named change with the row's attempt.
func decidedChange(name string, row *store.Row) store.Change {
	id, attempt := row.ID, row.Attempt
	switch name {
	case "place":
		return &store.Place{ID: id, Attempt: attempt, Worker: onSlot(1), WorkerID: "n/p/1", PlacedBy: here, ClaimWithin: time.Minute}
	case "take_back":
		return &store.TakeBack{ID: id, Attempt: attempt, Reason: "claim_by", Delay: time.Second}
	case "claim":
		return &store.Claim{ID: id, Attempt: attempt, Worker: onSlot(1), Generation: 2}
	case "finish":
		return &store.Finish{ID: id, Attempt: attempt, Outcome: messages.Outcome{Status: messages.Completed, Result: json.RawMessage(`1`)}}
	case "end":
		return &store.End{ID: id, Attempt: attempt, Outcome: messages.Outcome{Status: messages.Failed, Error: &messages.Error{Code: messages.CodeNoWorkers}}}
	case "cancel":
		return &store.Cancel{ID: id, By: "me"}
	}
	return &store.Rescue{ID: id, Attempt: attempt, Reason: "node gone"}
}

// TestDecideEveryChange makes every change of a row in every status and checks the next status.
func TestDecideEveryChange(t *testing.T) {
	t.Parallel()
	leads := map[string]map[messages.Status]messages.Status{
		"place":     {messages.Requested: messages.Scheduled, messages.Scheduling: messages.Scheduled},
		"take_back": {messages.Scheduled: messages.Requested},
		"claim":     {messages.Scheduled: messages.Running},
		"finish":    {messages.Running: messages.Completed, messages.Cancelling: messages.Cancelled},
		"end":       {messages.Requested: messages.Failed, messages.Scheduling: messages.Failed, messages.Scheduled: messages.Failed},
		"cancel": {messages.Requested: messages.Cancelled, messages.Scheduling: messages.Cancelled, messages.Scheduled: messages.Cancelled,
			messages.Running: messages.Cancelling},
		"rescue": {messages.Running: messages.Requested, messages.Cancelling: messages.Cancelled},
	}
	for _, name := range store.Changes() {
		for _, from := range messages.Statuses() {
			row := rowIn(t, from)
			c := decidedChange(name, &row)
			d := store.Decide(&row, nil, c, decidedAt)
			to, legal := leads[name][from]
			switch {
			case legal:
				require.Equal(t, store.Applied, d.Verdict, "%s from %s: %v", name, from, d.Err)
				require.Equal(t, to, d.Next.Status, "%s from %s", name, from)
				require.Equal(t, name, d.Event.Kind)
				require.Equal(t, []messages.Status{from, to}, []messages.Status{d.Event.From, d.Event.To})
			case name == "cancel":
				require.Equal(t, store.Already, d.Verdict, "%s from %s", name, from)
				require.Zero(t, d.Event)
			default:
				require.Equal(t, store.Stale, d.Verdict, "%s from %s", name, from)
				require.Equal(t, store.StaleWrite, d.Event.Kind)
				require.Equal(t, name, d.Event.Reason)
			}
			if !legal {
				require.Equal(t, row, d.Next, "%s from %s changed the row", name, from)
			}
		}
	}
	require.Equal(t, store.Missing, store.Decide(nil, nil, &store.Cancel{}, decidedAt).Verdict)
}

// TestDecideSessions checks which placements a session allows.
func TestDecideSessions(t *testing.T) {
	t.Parallel()
	held := store.Session{Pool: "p", Session: "s", Epoch: 3, Worker: onSlot(1)}
	for name, c := range map[string]struct {
		affinity messages.Affinity
		use      store.SessionUse
		slot     int
		facts    store.Facts
		refused  bool
		effect   store.Effect
	}{
		"a new session":              {use: store.SessionUse{Epoch: 1, Bind: true}, slot: 1, effect: store.SessionBound},
		"no binding to meet":         {use: store.SessionUse{Epoch: 1}, slot: 1, refused: true},
		"the binding is met":         {use: store.SessionUse{Epoch: 3, Hit: true}, slot: 1, facts: store.Facts{Held: held}},
		"another worker has it":      {use: store.SessionUse{Epoch: 3, Hit: true}, slot: 2, facts: store.Facts{Held: held}, refused: true},
		"another epoch":              {use: store.SessionUse{Epoch: 2, Hit: true}, slot: 1, facts: store.Facts{Held: held}, refused: true},
		"it moves":                   {use: store.SessionUse{Epoch: 4, Bind: true}, slot: 2, facts: store.Facts{Held: held}, effect: store.SessionBound},
		"it moves to an old epoch":   {use: store.SessionUse{Epoch: 3, Bind: true}, slot: 2, facts: store.Facts{Held: held}, refused: true},
		"its turn is not yet":        {use: store.SessionUse{Epoch: 3, Hit: true}, slot: 1, facts: store.Facts{Held: held, Busy: true}, refused: true},
		"a hint takes no turns":      {affinity: messages.AffinityHint, use: store.SessionUse{Epoch: 3, Hit: true}, slot: 1, facts: store.Facts{Held: held, Busy: true}},
		"a hint that misses":         {affinity: messages.AffinityHint, use: store.SessionUse{Epoch: 3}, slot: 2, facts: store.Facts{Held: held}},
		"the use of another session": {use: store.SessionUse{Session: "other", Epoch: 4, Bind: true}, slot: 1, facts: store.Facts{Held: held}, refused: true},
	} {
		row := rowIn(t, messages.Requested)
		row.Session, row.Affinity = "s", messages.AffinityStrict
		if c.affinity != "" {
			row.Affinity = c.affinity
		}
		p := decidedChange("place", &row).(*store.Place)
		p.Worker, p.Session = onSlot(c.slot), &c.use
		c.use.Pool = "p"
		if c.use.Session == "" {
			c.use.Session = "s"
		}
		require.True(t, store.NeedsSession(&row, p))
		d := store.Decide(&row, &c.facts, p, decidedAt)
		require.Equal(t, c.refused, d.Verdict == store.Refused, "%s: %v", name, d.Err)
		require.Equal(t, c.effect, d.Session, name)
		if c.refused {
			require.ErrorIs(t, d.Err, store.ErrSession, name)
			require.Equal(t, row, d.Next, name)
		}
	}
}

// TestDecideClaims checks which claims the session's binding and the claimer's lease allow.
func TestDecideClaims(t *testing.T) {
	t.Parallel()
	row := rowIn(t, messages.Scheduled)
	c := decidedChange("claim", &row)
	require.False(t, store.NeedsSession(&row, c))
	require.ErrorIs(t, store.Decide(&row, &store.Facts{Fenced: true}, c, decidedAt).Err, store.ErrFenced)
	row.Session, row.SessionEpoch, row.SessionHit = "s", 3, true
	require.True(t, store.NeedsSession(&row, c))
	require.ErrorIs(t, store.Decide(&row, nil, c, decidedAt).Err, store.ErrSession, "it is unbound")
	require.ErrorIs(t, store.Decide(&row, &store.Facts{Held: store.Session{Epoch: 4, Worker: row.Worker}}, c, decidedAt).Err, store.ErrSession, "it is bound anew")
	d := store.Decide(&row, &store.Facts{Held: store.Session{Epoch: 3, Worker: row.Worker}}, c, decidedAt)
	require.Equal(t, store.Applied, d.Verdict, d.Err)
	require.Equal(t, store.SessionStarted, d.Session)
	require.Equal(t, decidedAt.Add(row.Timeout), d.Next.RunDeadline)
}

// direct returns the claim of an execution that was handed to the worker with the row's next attempt.
func direct(row *store.Row) *store.Claim {
	return &store.Claim{ID: row.ID, Attempt: row.Attempt + 1, Worker: onSlot(1), Generation: 2, PlacedBy: here, WorkerID: "n/p/1"}
}

// TestDecideDirectClaims checks which claims place an execution too, and what they write.
func TestDecideDirectClaims(t *testing.T) {
	t.Parallel()
	for _, from := range messages.Statuses() {
		row := rowIn(t, from)
		d := store.Decide(&row, nil, direct(&row), decidedAt)
		if from != messages.Requested && from != messages.Scheduling {
			require.Equal(t, store.Stale, d.Verdict, from)
			continue
		}
		require.Equal(t, store.Applied, d.Verdict, "%s: %v", from, d.Err)
		n := d.Next
		require.Equal(t, []any{messages.Running, messages.Attempt(1), onSlot(1), messages.WorkerID("n/p/1"), here, messages.Generation(2)},
			[]any{n.Status, n.Attempt, n.Worker, n.WorkerID, n.PlacedBy, n.Generation})
		require.Equal(t, []time.Time{decidedAt, decidedAt, {}, {}, decidedAt.Add(time.Minute)},
			[]time.Time{n.FirstPlacedAt, n.StartedAt, n.ScheduledAt, n.ClaimBy, n.RunDeadline})
		require.Equal(t, store.Event{At: decidedAt, Attempt: 1, Kind: "claim", From: from, To: messages.Running, Worker: "n/p/1"}, d.Event)
		require.True(t, d.Straight && d.Carry)
		again := store.Decide(&n, nil, direct(&row), decidedAt)
		require.Equal(t, store.Already, again.Verdict)
		require.True(t, again.Carry)
	}
	for name, change := range map[string]func(*store.Row, *store.Claim){
		"no router named":   func(_ *store.Row, c *store.Claim) { c.PlacedBy = messages.Incarnation{} },
		"an older attempt":  func(row *store.Row, _ *store.Claim) { row.Attempt++ },
		"a later attempt":   func(_ *store.Row, c *store.Claim) { c.Attempt++ },
		"a session":         func(row *store.Row, _ *store.Claim) { row.Session = "s" },
		"another pool":      func(row *store.Row, _ *store.Claim) { row.Pool = "q" },
		"no incarnation":    func(_ *store.Row, c *store.Claim) { c.Worker.Incarnation = messages.Incarnation{} },
		"it was taken back": func(row *store.Row, _ *store.Claim) { *row = voided(t, row) },
	} {
		row := rowIn(t, messages.Requested)
		c := direct(&row)
		change(&row, c)
		d := store.Decide(&row, nil, c, decidedAt)
		require.Equal(t, store.Stale, d.Verdict, name)
		require.Equal(t, row, d.Next, name)
	}
	row := rowIn(t, messages.Requested)
	require.ErrorIs(t, store.Decide(&row, &store.Facts{Fenced: true}, direct(&row), decidedAt).Err, store.ErrFenced)
}

// voided returns the row after the take-back of a placement that was handed over directly.
func voided(t *testing.T, row *store.Row) store.Row {
	t.Helper()
	back := &store.TakeBack{ID: row.ID, Attempt: row.Attempt + 1, Reason: "unclaimed", Delay: time.Second}
	d := store.Decide(row, nil, back, decidedAt)
	require.Equal(t, store.Applied, d.Verdict, d.Err)
	require.Equal(t, store.Already, store.Decide(&d.Next, nil, back, decidedAt).Verdict)
	return d.Next
}

// What is taken back waits on since it was due, unless it is to wait for a while.
func TestDecideTakeBackKeepsWhenItWasDue(t *testing.T) {
	t.Parallel()
	for delay, want := range map[time.Duration]time.Time{0: decidedAt.Add(-time.Minute), time.Second: decidedAt.Add(time.Second)} {
		row := rowIn(t, messages.Scheduled)
		row.RunAt, row.FirstPlacedAt = decidedAt.Add(-time.Minute), decidedAt.Add(-30*time.Second)
		d := store.Decide(&row, nil, &store.TakeBack{ID: row.ID, Attempt: row.Attempt, Reason: "claim_timeout", Delay: delay}, decidedAt)
		require.Equal(t, store.Applied, d.Verdict, d.Err)
		require.Equal(t, want, d.Next.RunAt)
		require.Equal(t, row.RunAt, d.Event.RunAt, "of the placement that ended")
	}
	row := rowIn(t, messages.Running)
	row.RunAt = decidedAt.Add(-time.Minute)
	d := store.Decide(&row, nil, &store.Rescue{ID: row.ID, Attempt: row.Attempt, Reason: "worker_lost"}, decidedAt)
	require.Equal(t, decidedAt, d.Next.RunAt, "a run that was lost is no wait")
}

// A take-back uses up the attempt of a placement that the store does not have, so that a late claim of it is stale.
func TestDecideTakeBackOfADirectPlacement(t *testing.T) {
	t.Parallel()
	row := rowIn(t, messages.Requested)
	back := voided(t, &row)
	require.Equal(t, messages.Requested, back.Status)
	require.Equal(t, row.Attempt+1, back.Attempt)
	require.Equal(t, 1, back.TakeBacks)
	require.Equal(t, decidedAt.Add(time.Second), back.RunAt)
	require.Equal(t, decidedAt, back.FirstPlacedAt, "so that the start deadline counts")
	require.Equal(t, store.Applied, store.Decide(&back, nil, direct(&back), decidedAt).Verdict, "the next attempt")
	started := store.Decide(&row, nil, direct(&row), decidedAt).Next
	late := &store.TakeBack{ID: row.ID, Attempt: started.Attempt, Reason: "unclaimed"}
	require.Equal(t, store.Stale, store.Decide(&started, nil, late, decidedAt).Verdict, "it runs")
	row.Session = "s"
	require.Equal(t, store.Stale, store.Decide(&row, nil, late, decidedAt).Verdict, "a session's placement is stored")
}

// TestDecideRetries checks which outcomes store the retry.
func TestDecideRetries(t *testing.T) {
	t.Parallel()
	row := rowIn(t, messages.Running)
	next := row.Execution
	next.ID, next.IdempotencyKey = messages.NewExecutionID(), "k"
	c := &store.Finish{ID: row.ID, Attempt: 1, Outcome: messages.Outcome{Status: messages.Failed}, Retry: &next}
	d := store.Decide(&row, nil, c, decidedAt)
	require.Equal(t, store.Applied, d.Verdict, d.Err)
	require.Equal(t, next.ID, d.Next.RetriedAs)
	require.Empty(t, d.Retry.IdempotencyKey, "the key stays with the first")
	require.Equal(t, "k", next.IdempotencyKey, "what is given is not changed")
	require.Equal(t, next.ID.String(), d.RetryEvent().Reason)
	require.True(t, d.Straight)

	cancelling := rowIn(t, messages.Cancelling)
	d = store.Decide(&cancelling, nil, &store.Finish{ID: cancelling.ID, Attempt: 1, Outcome: c.Outcome, Retry: &next}, decidedAt)
	require.Equal(t, store.Applied, d.Verdict)
	require.Nil(t, d.Retry, "what was cancelled is not retried")
	require.Zero(t, d.Next.RetriedAs)

	next.Action = ""
	d = store.Decide(&row, nil, c, decidedAt)
	require.Equal(t, store.Refused, d.Verdict)
	require.ErrorIs(t, d.Err, store.ErrInvalid)
	require.Equal(t, row, d.Next)
}

// drawn draws a change that fits the row now and then.
func drawn(r *rapid.T, row *store.Row) store.Change {
	seen := *row
	seen.Attempt += messages.Attempt(rapid.SampledFrom([]int{0, 0, 0, -1, 1}).Draw(r, "off"))
	c := decidedChange(rapid.SampledFrom(store.Changes()).Draw(r, "change"), &seen)
	slot := onSlot(rapid.IntRange(0, 1).Draw(r, "slot"))
	said := messages.Outcome{Status: rapid.SampledFrom(messages.Statuses()).Draw(r, "said"), Result: rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(r, "result")}
	switch c := c.(type) {
	case *store.Place:
		c.Worker = slot
	case *store.Claim:
		c.Worker = slot
		if rapid.Bool().Draw(r, "direct") {
			c.PlacedBy, c.WorkerID = here, "n/p/1"
		}
	case *store.Finish:
		c.Outcome = said
		if rapid.Bool().Draw(r, "worker fault") {
			c.Outcome.Error = &messages.Error{Code: messages.CodeWorkerLost, WorkerFault: true}
		}
	case *store.End:
		c.Outcome = said
	case *store.Rescue:
		c.Unstarted = rapid.Bool().Draw(r, "unstarted")
	}
	return c
}

// TestDecideHistories checks that in every history an outcome is final, an attempt never falls and rises only by a
// placement, or the claim or take-back of one that the store did not have, a rejected change changes nothing, and a repeated change is Already.
func TestDecideHistories(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		row := rowIn(r, messages.Requested)
		outcomes := 0
		for range rapid.IntRange(1, 40).Draw(r, "changes") {
			before := row
			c := drawn(r, &row)
			d := store.Decide(&row, nil, c, decidedAt)
			require.Equal(r, before, row, "what is given is not changed")
			if d.Verdict != store.Applied {
				require.Equal(r, before, d.Next, "%s is %s and changed the row", c.Name(), d.Verdict)
				require.Equal(r, d.Verdict == store.Refused, d.Err != nil)
				require.Equal(r, d.Verdict == store.Stale, d.Event.Kind == store.StaleWrite)
				continue
			}
			row = d.Next
			require.False(r, before.Status.Terminal(), "%s follows an outcome", c.Name())
			to, ok := store.Next(c.Name(), before.Status)
			require.True(r, ok)
			require.True(r, to == messages.StatusInvalid || to == row.Status)
			waited := before.Status == messages.Requested
			begins := c.Name() == "place" || waited && (c.Name() == "claim" || c.Name() == "take_back")
			require.Equal(r, before.Attempt+map[bool]messages.Attempt{true: 1}[begins], row.Attempt)
			require.GreaterOrEqual(r, row.CrashCount, before.CrashCount)
			if row.Status.Terminal() {
				outcomes++
				require.Equal(r, decidedAt, row.FinishedAt)
			}
			if row.Status == messages.Requested {
				require.Zero(r, row.Worker, "what waits has no worker")
			}
			again := store.Decide(&row, nil, c, decidedAt)
			require.Equal(r, store.Already, again.Verdict, "%s, made again", c.Name())
			require.Equal(r, row, again.Next)
		}
		require.LessOrEqual(r, outcomes, 1)
	})
}
