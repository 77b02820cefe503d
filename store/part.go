package store

import (
	"context"
	"errors"

	"github.com/troupe-run/troupe/messages"
)

// ErrBlocked is why a change was not made: another transaction holds the lock of its row or of its session.
var ErrBlocked = errors.New("another transaction holds a lock of its row")

// PartError is the failure of a call because of one part of it, for example a locked row or data that cannot be stored.
// The other parts may succeed without it. Nothing of the call was made, unless Unsure.
type PartError struct {
	Err error
	// Never: a call with this part alone can never succeed. Otherwise it may be repeated.
	Never bool
	// Unsure: parts of the call may have been made.
	Unsure bool
}

func (e *PartError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *PartError) Unwrap() error { return e.Err }

// MayPassInParts reports whether parts of a failed call may succeed alone: the store returned a PartError or an unknown error.
// An error about the store as a whole (unavailable, full, read-only, closed) holds for each part.
func MayPassInParts(err error) bool {
	var part *PartError
	if err == nil || errors.As(err, &part) {
		return err != nil
	}
	for _, whole := range []error{ErrUnavailable, ErrFull, ErrReadOnly, ErrClosed, ErrLocked, ErrNewer, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, whole) {
			return false
		}
	}
	return true
}

// NeverStorable reports whether a call with one change failed because the store can never keep it.
func NeverStorable(err error) bool {
	var part *PartError
	return errors.As(err, &part) && part.Never || errors.Is(err, ErrInvalid)
}

// Size estimates the bytes that a change adds to the store.
func Size(c Change) int {
	switch c := c.(type) {
	case *Finish:
		return fixedSize + outcomeSize(&c.Outcome) + len(c.Output.Stdout) + len(c.Output.Stderr) + len(c.Output.Record) + ExecutionSize(c.Retry)
	case *End:
		return fixedSize + outcomeSize(&c.Outcome) + ExecutionSize(c.Retry)
	}
	return fixedSize
}

// ExecutionSize estimates the bytes that a new execution adds to the store; 0 for nil.
func ExecutionSize(e *messages.Execution) int {
	if e == nil {
		return 0
	}
	n := fixedSize + len(e.Parameters)
	for k, v := range e.Labels {
		n += len(k) + len(v)
	}
	return n
}

// fixedSize estimates the bytes of a change without its data.
const fixedSize = 128

func outcomeSize(o *messages.Outcome) int {
	n := len(o.Result)
	if o.Error != nil {
		n += len(o.Error.Message) + len(o.Error.Details) + len(o.Error.Stderr)
	}
	return n
}

type ownTransactionKey struct{}

// InOwnTransaction marks calls that must not share a transaction with others, because they repeat a failed call.
func InOwnTransaction(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownTransactionKey{}, true)
}

// WantsOwnTransaction reports whether a call is marked by InOwnTransaction.
func WantsOwnTransaction(ctx context.Context) bool { return ctx.Value(ownTransactionKey{}) != nil }
