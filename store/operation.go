package store

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Operations is the part of the store that holds operations on many executions or dead letters: what was previewed and confirmed, who works on it and
// how far it is. One node works on an operation at a time. When it dies, another one goes on from the saved progress.
type Operations interface {
	// AddOperation stores a preview, which ends after the given time unless it is started, and returns it as stored. A caller has at
	// most PreviewsMax of them: the oldest ones make room. It also deletes previews that have ended, and the oldest of more than
	// OperationsKept ended operations. It may be repeated.
	AddOperation(ctx context.Context, o Operation, lasts time.Duration) (Operation, error)
	// StartOperation starts a preview that has not ended, and returns the operation as it stands. One that was started before does not
	// change. ErrNotFound: it is unknown, or its time as a preview is over. ErrCrowded: OperationsMax have not ended.
	StartOperation(ctx context.Context, id messages.OperationID, reason string, rate int) (Operation, error)
	// LeaseOperations takes every operation that has not ended and that no living node holds, and returns those that the incarnation
	// holds, the oldest first. Only an active incarnation with a live lease of its own takes any.
	LeaseOperations(ctx context.Context, inc messages.Incarnation) ([]Operation, error)
	// SaveOperation saves the progress of an operation that the caller holds: Cursor, Pending, the counts, Failures, Problem, and State
	// where it has ended. It returns the state as stored, so that the holder hears of a stop. ErrTaken: the caller does not hold it any
	// more, by Incarnation and Epoch, or it has ended.
	SaveOperation(ctx context.Context, o *Operation) (OperationState, error)
	// StopOperation asks the holder to stop a running operation, and returns the operation as it stands. Others do not change.
	StopOperation(ctx context.Context, id messages.OperationID) (Operation, error)
	// GetOperation returns one, also a preview, or ErrNotFound.
	GetOperation(ctx context.Context, id messages.OperationID) (Operation, error)
	// ListOperations returns operations that were started, the newest previews first. It looks at no more than all that are kept.
	ListOperations(ctx context.Context, q OperationQuery) ([]Operation, error)
}

// Bounds of operations.
const (
	PreviewsMax          = 20   // previews of one caller
	OperationsMax        = 32   // operations that have not ended
	OperationsKept       = 1000 // ended operations
	OperationIDsMax      = 1000 // executions or dead letters that an operation names
	OperationPendingMax  = 500  // those of one step
	OperationFailuresMax = 100  // failures that are kept with their reasons
	OperationFilterMax   = 16 << 10
	OperationTextMax     = 512 // bytes of each text
)

// OperationState is how far an operation is.
type OperationState string

// The states of an operation.
const (
	OperationPreviewed OperationState = "previewed" // nobody has confirmed it yet
	OperationRunning   OperationState = "running"
	OperationStopping  OperationState = "stopping" // it ends behind the step under way
	OperationStopped   OperationState = "stopped"
	OperationDone      OperationState = "done"
	OperationFailed    OperationState = "failed" // it could not go on: see Problem
)

// Ended reports whether nothing follows the state.
func (s OperationState) Ended() bool {
	return s == OperationStopped || s == OperationDone || s == OperationFailed
}

// Operation is one operation on many executions, or on many dead letters, as its kind says.
type Operation struct {
	ID   messages.OperationID
	Kind string
	// Filter, JSON, says which ones it is for, or IDs names them. SeqMax is the upper bound, the seq of an execution or the number of a
	// dead letter: later ones are left alone.
	Filter json.RawMessage
	IDs    []OperationItem
	SeqMax int64

	Count int64 // that the preview found to act on
	Exact bool  // of Count; otherwise there are more

	By     string
	Reason string
	Rate   int // how many a second
	State  OperationState

	CreatedAt time.Time
	ExpiresAt time.Time // of the preview
	StartedAt time.Time
	EndedAt   time.Time

	Done, Skipped, Failed int64
	Skips                 map[string]int64 // Skipped by why
	Failures              []OperationFailure
	Problem               string // why it could not go on

	// Cursor is the last position that was looked at: a seq or number of the filter, or how many of IDs. Pending are those of them that
	// are being worked on: saved before, so that after a crash they are done again, which is harmless, and counted once.
	Cursor  int64
	Pending []OperationItem

	Incarnation messages.Incarnation // who works on it; zero: nobody
	Epoch       int64                // counts how often it was taken
}

// OperationItem is what an operation acts on: an execution by its id, or a dead letter by its number. No execution's id begins with
// eight bytes of zero.
type OperationItem [16]byte

// ExecutionItem is an execution.
func ExecutionItem(id messages.ExecutionID) OperationItem { return OperationItem(id) }

// LetterItem is a dead letter.
func LetterItem(number int64) (i OperationItem) {
	binary.BigEndian.PutUint64(i[8:], uint64(number))
	return i
}

// Execution is the execution's id; zero where it is none.
func (i OperationItem) Execution() messages.ExecutionID {
	if i.Letter() != 0 {
		return messages.ExecutionID{}
	}
	return messages.ExecutionID(i)
}

// Letter is the dead letter's number; 0 where it is none.
func (i OperationItem) Letter() int64 {
	if binary.BigEndian.Uint64(i[:8]) != 0 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(i[8:]))
}

// OperationFailure is why an execution or a dead letter was not changed.
type OperationFailure struct {
	Execution  messages.ExecutionID `json:"execution,omitzero"`
	DeadLetter int64                `json:"dead_letter,omitempty"`
	Error      string               `json:"error"`
}

// OperationCursor is a position in the list of operations: that of one of them.
type OperationCursor struct {
	At time.Time // CreatedAt
	ID messages.OperationID
}

// OperationQuery asks for operations.
type OperationQuery struct {
	After    OperationCursor // the last one of the page before; zero: from the newest
	From, To time.Time       // those that were started at From or later, and before To; zero: all
	Limit    int             // 1 to 1,000; 0: 100
}

// CheckOperation returns why an operation cannot be stored, or nil. The error is an ErrInvalid.
func CheckOperation(o *Operation) error {
	fail := func(field string, got, most int) error {
		return fmt.Errorf("operation %s: %s: %w: %d, at most %d", o.ID, field, ErrInvalid, got, most)
	}
	for _, bound := range []struct {
		field     string
		got, most int
	}{
		{"ids", len(o.IDs), OperationIDsMax}, {"pending", len(o.Pending), OperationPendingMax}, {"failures", len(o.Failures), OperationFailuresMax},
		{"bytes of filter", len(o.Filter), OperationFilterMax}, {"bytes of kind", len(o.Kind), OperationTextMax},
		{"bytes of by", len(o.By), OperationTextMax}, {"bytes of reason", len(o.Reason), OperationTextMax}, {"bytes of problem", len(o.Problem), OperationTextMax},
	} {
		if bound.got > bound.most {
			return fail(bound.field, bound.got, bound.most)
		}
	}
	switch {
	case o.ID.IsZero():
		return fmt.Errorf("operation: id: %w: it is zero", ErrInvalid)
	case o.Kind == "":
		return fmt.Errorf("operation %s: kind: %w: it is empty", o.ID, ErrInvalid)
	case len(o.Filter) > 0 && !json.Valid(o.Filter):
		return fmt.Errorf("operation %s: filter: %w: it is not JSON", o.ID, ErrInvalid)
	}
	return nil
}

// JoinIDs returns items as the bytes that adapters store; nil for none.
func JoinIDs(ids []OperationItem) []byte {
	if len(ids) == 0 {
		return nil
	}
	b := make([]byte, 0, len(ids)*16)
	for i := range ids {
		b = append(b, ids[i][:]...)
	}
	return b
}

// SplitIDs is the inverse of JoinIDs.
func SplitIDs(b []byte) []OperationItem {
	if len(b) < 16 {
		return nil
	}
	ids := make([]OperationItem, len(b)/16)
	for i := range ids {
		copy(ids[i][:], b[i*16:])
	}
	return ids
}

// OperationNotes are the parts of an operation that adapters store as JSON: Skips and Failures.
func OperationNotes(o *Operation) (skips, failures []byte, err error) {
	if len(o.Skips) > 0 {
		if skips, err = json.Marshal(o.Skips); err != nil {
			return nil, nil, fmt.Errorf("operation %s: skips: %w", o.ID, err)
		}
	}
	if len(o.Failures) > 0 {
		if failures, err = json.Marshal(o.Failures); err != nil {
			return nil, nil, fmt.Errorf("operation %s: failures: %w", o.ID, err)
		}
	}
	return skips, failures, nil
}

// ReadOperationNotes is the inverse of OperationNotes. What cannot be read is left out.
func ReadOperationNotes(o *Operation, skips, failures []byte) {
	if len(skips) > 0 && json.Unmarshal(skips, &o.Skips) != nil {
		o.Skips = nil
	}
	if len(failures) > 0 && json.Unmarshal(failures, &o.Failures) != nil {
		o.Failures = nil
	}
}
