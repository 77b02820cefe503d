package store

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// from lists, for each change by name, the statuses it may start from and where it leads. A zero target means the
// status of the change's own outcome. It is the only place that knows these edges.
var from = map[string]map[messages.Status]messages.Status{
	"place":     {messages.Requested: messages.Scheduled, messages.Scheduling: messages.Scheduled},
	"take_back": {messages.Scheduled: messages.Requested},
	"claim":     {messages.Scheduled: messages.Running},
	"finish":    {messages.Running: messages.StatusInvalid, messages.Cancelling: messages.Cancelled},
	"end": {messages.Requested: messages.StatusInvalid, messages.Scheduling: messages.StatusInvalid,
		messages.Scheduled: messages.StatusInvalid},
	"cancel": {messages.Requested: messages.Cancelled, messages.Scheduling: messages.Cancelled,
		messages.Scheduled: messages.Cancelled, messages.Running: messages.Cancelling},
	"rescue": {messages.Running: messages.Requested, messages.Cancelling: messages.Cancelled},
}

// Next says where the change named name leads from status s, and whether it may start there at all.
// messages.StatusInvalid with true means: to the status of the outcome that the change carries.
func Next(name string, s messages.Status) (messages.Status, bool) {
	to, ok := from[name][s]
	return to, ok
}

// Changes lists the names of all changes.
func Changes() []string { return slices.Clone(LastChanges[LastPlace:]) }

// MayBeRetried reports whether a retry may follow an execution that stands so: it has ended, without a result.
func MayBeRetried(s messages.Status) bool { return s.Terminal() && s != messages.Completed }

// NotRetried says why no retry may follow the execution, or nil.
func NotRetried(e *messages.Execution) error {
	if MayBeRetried(e.Status) {
		return nil
	}
	return fmt.Errorf("retry of execution %s: %w: it is %s", e.ID, ErrInvalid, e.Status)
}

// Check says what keeps e from being stored, or nil. The error is an ErrInvalid that names the field.
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
	return checkTimes(e)
}

// checkTimes refuses moments that microseconds since 1970 in 64 bits cannot hold.
func checkTimes(e *messages.Execution) error {
	for name, t := range map[string]time.Time{"run_at": e.RunAt, "queue deadline": e.QueueDeadline, "worker deadline": e.WorkerDeadline} {
		if !t.IsZero() && (t.Year() < 1970 || t.Year() > 9999) {
			return fmt.Errorf("%s: %w: the year must be 1970 to 9999, got %d", name, ErrInvalid, t.Year())
		}
	}
	return nil
}

// CheckPlaced says what keeps the placements from being made with the submission of the executions, or nil: each must be
// the first and only one of an execution of the call that has no session and waits for no time.
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

// CheckOutcome says what keeps o from being an outcome, or nil.
func CheckOutcome(o *messages.Outcome) error {
	if !o.Status.Terminal() {
		return fmt.Errorf("outcome: %w: status %s is not terminal", ErrInvalid, o.Status)
	}
	return nil
}

// KeyOwner is whose the execution's idempotency key is: two owners may have the same key, and neither meets the other's. It is who
// created the execution up to a colon, as a token's name, which has none, and sql of sql:NAME: whoever may write to the inbox can
// give any name there.
func KeyOwner(e *messages.Execution) string {
	if e.KeyOwner != "" {
		return e.KeyOwner
	}
	owner, _, _ := strings.Cut(e.CreatedBy, ":")
	return owner
}
