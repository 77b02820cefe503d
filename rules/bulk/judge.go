package bulk

import (
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/messages"
)

// Kind is what an operation does to each execution, or to each dead letter.
type Kind string

// The kinds.
const (
	Retry  Kind = "retry"
	Cancel Kind = "cancel"

	Requeue Kind = "requeue" // of dead letters: their executions are submitted again
	Discard Kind = "discard" // of dead letters: they are marked as handled
)

// Kinds lists the kinds.
func Kinds() []Kind { return []Kind{Retry, Cancel, Requeue, Discard} }

// Letters reports whether the kind is about dead letters, and not about executions.
func (k Kind) Letters() bool { return k == Requeue || k == Discard }

// ParseKind reads a kind.
func ParseKind(text string) (Kind, error) {
	if k := Kind(text); slices.Contains(Kinds(), k) {
		return k, nil
	}
	return "", fmt.Errorf("want %s, got %q", messages.Alternatives(Kinds()), text)
}

// Why is why an execution or a dead letter is left as it is. Empty: it is acted on.
type Why string

// The reasons.
const (
	NotEnded       Why = "not_ended"       // retry, requeue: it has not ended
	Completed      Why = "completed"       // retry, requeue: it has a result
	AlreadyRetried Why = "already_retried" // retry, requeue: it has a retry
	Ended          Why = "ended"           // cancel: it has ended
	Cancelling     Why = "cancelling"      // cancel: somebody has asked for that
	Unknown        Why = "unknown"         // it was deleted, or never there

	AlreadyRequeued  Why = "already_requeued"  // requeue, discard: somebody has requeued it
	AlreadyDiscarded Why = "already_discarded" // requeue, discard: somebody has discarded it
	NoExecution      Why = "no_execution"      // requeue: it names none
)

// Whys lists the reasons, each with what it means.
func Whys() [][2]string {
	return [][2]string{
		{string(NotEnded), "A retry or requeue: the execution has not ended."},
		{string(Completed), "A retry or requeue: the execution has a result."},
		{string(AlreadyRetried), "A retry or requeue: the execution has a retry already."},
		{string(Ended), "A cancel: the execution has ended."},
		{string(Cancelling), "A cancel: the execution is being cancelled."},
		{string(AlreadyRequeued), "A requeue or discard: the dead letter was requeued before."},
		{string(AlreadyDiscarded), "A requeue or discard: the dead letter was discarded before."},
		{string(NoExecution), "A requeue: the dead letter names no execution."},
		{string(Unknown), "The store does not have the execution, or the dead letter."},
	}
}

// Judge says why an operation leaves an execution as it is; empty: it acts on it. The kind is Retry or Cancel.
func Judge(kind Kind, e *messages.Execution) Why {
	if kind == Cancel {
		switch {
		case e.Status.Terminal():
			return Ended
		case e.Status == messages.Cancelling:
			return Cancelling
		}
		return ""
	}
	switch {
	case !e.Status.Terminal():
		return NotEnded
	case e.Status == messages.Completed:
		return Completed
	case !e.RetriedAs.IsZero():
		return AlreadyRetried
	}
	return ""
}

// Priority is the priority of a retry in an operation: one less than that of its execution, so that it waits behind what was submitted.
func Priority(of messages.Priority) messages.Priority { return max(of-1, messages.PriorityMin) }

// keyPrefix begins the idempotency keys of retries of operations.
const keyPrefix = "op:"

// Key is the idempotency key of the retry of an execution by an operation.
func Key(operation messages.OperationID, execution messages.ExecutionID) string {
	return keyPrefix + operation.String() + ":" + execution.String()
}

// Empty reports whether a filter names nothing, so that it would be everything.
func Empty(filter map[string][]string) bool {
	for _, values := range filter {
		for _, v := range values {
			if strings.TrimSpace(v) != "" {
				return false
			}
		}
	}
	return true
}
