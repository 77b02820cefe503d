package storetest

import (
	"encoding/json"
	"errors"
	"time"

	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

func isError(err, kind error) bool { return errors.Is(err, kind) }

// draw draws a change of row i that fits now and then. A placement without the session of its execution is alone in its
// call: other changes need not see it.
func (m *decided) draw(r *rapid.T, k *kit, i int, alone bool) store.Change {
	row := &m.rows[i]
	id, attempt := row.ID, row.Attempt+messages.Attempt(rapid.SampledFrom([]int{0, 0, 0, 0, -1, 1}).Draw(r, "off"))
	slot := rapid.IntRange(1, 2).Draw(r, "slot")
	delay := rapid.SampledFrom([]time.Duration{0, 0, -time.Second, time.Hour}).Draw(r, "delay")
	by := rapid.SampledFrom([]string{"", "", "me"}).Draw(r, "by")
	switch rapid.SampledFrom(likely(row.Status)).Draw(r, "change") {
	case "place":
		p := k.place(id, attempt, slot)
		if row.Session != "" && !(alone && rapid.IntRange(0, 9).Draw(r, "without its session") == 0) {
			p.Session = m.use(r, row)
		}
		return p
	case "take_back":
		if row.Status == messages.Requested && rapid.Bool().Draw(r, "handed over") {
			attempt++
		}
		return &store.TakeBack{ID: id, Attempt: attempt, Reason: "claim_by", Delay: delay, By: by}
	case "claim":
		c := k.claim(id, attempt, slot)
		if row.Status == messages.Requested && rapid.IntRange(0, 3).Draw(r, "handed over") > 0 {
			c = k.direct(id, attempt, slot)
		}
		if row.Worker.Slot > 0 && rapid.IntRange(0, 4).Draw(r, "its worker") > 0 {
			c.Worker = row.Worker
		}
		c.Generation = messages.Generation(rapid.IntRange(1, 2).Draw(r, "generation"))
		return c
	case "finish":
		c := &store.Finish{ID: id, Attempt: attempt, Outcome: drawOutcome(r), Retry: drawRetry(r, row), By: by, Restored: rapid.Bool().Draw(r, "restored"), NeverRan: rapid.IntRange(0, 3).Draw(r, "never ran") == 0}
		if rapid.IntRange(0, 3).Draw(r, "output") == 0 {
			c.Output = messages.Output{Stdout: []byte("out"), Record: []byte(`{"kind":"stdout","bytes":3}`)}
		}
		return c
	case "end":
		return &store.End{ID: id, Attempt: attempt, Outcome: drawOutcome(r), Retry: drawRetry(r, row)}
	case "cancel":
		return &store.Cancel{ID: id, By: by}
	}
	return &store.Rescue{ID: id, Attempt: attempt, Reason: "node gone", Delay: delay, Unstarted: rapid.Bool().Draw(r, "unstarted"), By: by}
}

// likely returns the changes, with those of the straight path repeated if they fit, so that histories make progress.
func likely(s messages.Status) []string {
	all := store.Changes()
	switch s {
	case messages.Requested:
		return append(all, "place", "place", "place", "place", "place", "claim", "claim")
	case messages.Scheduled:
		return append(all, "claim", "claim", "claim", "claim", "take_back")
	case messages.Running, messages.Cancelling:
		return append(all, "finish", "finish", "rescue", "cancel")
	}
	return all
}

func (m *decided) use(r *rapid.T, row *store.Row) *store.SessionUse {
	u := &store.SessionUse{Pool: row.Pool, Session: row.Session, Epoch: m.held.Epoch + int64(rapid.IntRange(-1, 1).Draw(r, "epoch"))}
	u.Bind = rapid.Bool().Draw(r, "bind")
	u.Lost, u.Hit = rapid.Bool().Draw(r, "lost"), rapid.Bool().Draw(r, "hit")
	if u.Bind && u.Epoch <= 0 {
		u.Epoch = 1
	}
	return u
}

func drawOutcome(r *rapid.T) messages.Outcome {
	switch status := rapid.SampledFrom([]messages.Status{messages.Completed, messages.Completed, messages.Failed, messages.TimedOut, messages.Cancelled,
		messages.Abandoned}).Draw(r, "outcome"); {
	case status == messages.Completed && rapid.IntRange(0, 3).Draw(r, "long") == 0:
		long, _ := json.Marshal(string(make([]byte, 300)))
		return messages.Outcome{Status: status, Result: long}
	case status == messages.Abandoned:
		return crashed()
	default:
		return outcome(status)
	}
}

func drawRetry(r *rapid.T, row *store.Row) *messages.Execution {
	if rapid.IntRange(0, 2).Draw(r, "retry") > 0 {
		return nil
	}
	next := row.Execution
	next.ID, next.RetryCount, next.RetryReason, next.Original, next.Parameters = messages.NewExecutionID(), row.RetryCount+1, "transient", row.ID, nil
	return &next
}
