package store

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// from lists, for each change by name, the statuses from which it may start and its next status. A zero target means
// the status of the change's outcome. Only this table has these edges. A take_back or a claim of an execution that waits is of a
// placement that was handed over directly: see TakeBack and Claim.
var from = map[string]map[messages.Status]messages.Status{
	"place":     {messages.Requested: messages.Scheduled, messages.Scheduling: messages.Scheduled},
	"take_back": {messages.Requested: messages.Requested, messages.Scheduling: messages.Requested, messages.Scheduled: messages.Requested},
	"claim":     {messages.Requested: messages.Running, messages.Scheduling: messages.Running, messages.Scheduled: messages.Running},
	"finish":    {messages.Running: messages.StatusInvalid, messages.Cancelling: messages.Cancelled},
	"end": {messages.Requested: messages.StatusInvalid, messages.Scheduling: messages.StatusInvalid,
		messages.Scheduled: messages.StatusInvalid},
	"cancel": {messages.Requested: messages.Cancelled, messages.Scheduling: messages.Cancelled,
		messages.Scheduled: messages.Cancelled, messages.Running: messages.Cancelling},
	"rescue": {messages.Running: messages.Requested, messages.Cancelling: messages.Cancelled},
}

// Next returns the next status of the named change from status s, and whether it may start there.
// messages.StatusInvalid with true means the status of the change's outcome.
func Next(name string, s messages.Status) (messages.Status, bool) {
	to, ok := from[name][s]
	return to, ok
}

// Changes lists the names of all changes.
func Changes() []string { return slices.Clone(LastChanges[LastPlace:]) }

// MayBeRetried reports whether a retry may follow an execution with this status: it has ended without a result.
func MayBeRetried(s messages.Status) bool { return s.Terminal() && s != messages.Completed }

// NotRetried returns why no retry may follow the execution, or nil.
func NotRetried(e *messages.Execution) error {
	if MayBeRetried(e.Status) {
		return nil
	}
	return fmt.Errorf("retry of execution %s: %w: it is %s", e.ID, ErrInvalid, e.Status)
}

// Check returns why e cannot be stored, or nil. The error is an ErrInvalid and names the field.
func Check(e *messages.Execution) error {
	switch {
	case e.Action == "":
		return fmt.Errorf("action: %w: it is empty", ErrInvalid)
	case e.Pool == "":
		return fmt.Errorf("pool: %w: it is empty", ErrInvalid)
	case e.Priority < messages.PriorityMin || e.Priority > messages.PriorityMax:
		return fmt.Errorf("priority: %w: want 0 to 9, got %d", ErrInvalid, e.Priority)
	case len(e.Session) > messages.SessionMax:
		return fmt.Errorf("session: %w: at most %d bytes, got %d", ErrInvalid, messages.SessionMax, len(e.Session))
	case len(e.IdempotencyKey) > messages.KeyMax:
		return fmt.Errorf("idempotency key: %w: at most %d bytes, got %d", ErrInvalid, messages.KeyMax, len(e.IdempotencyKey))
	case len(e.Parameters) > messages.ParametersMax:
		return fmt.Errorf("parameters: %w: at most %d bytes, got %d", ErrInvalid, messages.ParametersMax, len(e.Parameters))
	case e.Timeout < 0 || e.StallTimeout < 0:
		return fmt.Errorf("timeout: %w: it must not be negative, got %s and %s", ErrInvalid, e.Timeout, e.StallTimeout)
	}
	if _, err := messages.ParseAffinity(string(e.Affinity)); err != nil {
		return fmt.Errorf("affinity: %w: %w", ErrInvalid, err)
	}
	if err := checkWebhook(e.Webhook); err != nil {
		return err
	}
	return checkTimes(e)
}

// checkTimes rejects times that 64 bits of microseconds since 1970 cannot hold.
func checkTimes(e *messages.Execution) error {
	for name, t := range map[string]time.Time{"run_at": e.RunAt, "queue deadline": e.QueueDeadline, "worker deadline": e.WorkerDeadline} {
		if !t.IsZero() && (t.Year() < 1970 || t.Year() > 9999) {
			return fmt.Errorf("%s: %w: the year must be 1970 to 9999, got %d", name, ErrInvalid, t.Year())
		}
	}
	return nil
}

// CheckPlaced returns why the placements cannot be made with the submission of the executions, or nil. Each must be the
// first and only placement of an execution of the call that has no session and no run_at ahead.
func CheckPlaced(executions []messages.Execution, places []*Place) error {
	if len(places) == 0 {
		return nil
	}
	byID := make(map[messages.ExecutionID]*messages.Execution, len(executions))
	for i := range executions {
		byID[executions[i].ID] = &executions[i]
	}
	for _, p := range places {
		e := byID[p.ID]
		delete(byID, p.ID)
		switch {
		case e == nil || p.ID.IsZero():
			return fmt.Errorf("placement of %s: %w: it is not submitted with it, or is placed twice", p.ID, ErrInvalid)
		case p.Attempt != 0:
			return fmt.Errorf("placement of %s: %w: a new execution has had no attempt, got %d", p.ID, ErrInvalid, p.Attempt)
		case p.Session != nil || e.Session != "" || !e.RunAt.IsZero():
			return fmt.Errorf("placement of %s: %w: it has a session or a time of its own", p.ID, ErrInvalid)
		case p.Worker.Pool != e.Pool || p.Worker.Incarnation.IsZero():
			return fmt.Errorf("placement of %s: %w: worker %s of pool %q cannot take work of pool %q", p.ID, ErrInvalid, p.WorkerID, p.Worker.Pool, e.Pool)
		}
	}
	return nil
}

// CheckOutcome returns why o cannot be an outcome, or nil.
func CheckOutcome(o *messages.Outcome) error {
	if !o.Status.Terminal() {
		return fmt.Errorf("outcome: %w: status %s is not terminal", ErrInvalid, o.Status)
	}
	return nil
}

// KeyOwner returns the owner of the execution's idempotency key. Two owners may use the same key and do not affect each
// other. The owner is CreatedBy up to a colon: the name of a token, which has no colon, or sql of sql:NAME. Any program
// that may write to the inbox can choose NAME.
func KeyOwner(e *messages.Execution) string {
	if e.KeyOwner != "" {
		return e.KeyOwner
	}
	owner, _, _ := strings.Cut(e.CreatedBy, ":")
	return owner
}
