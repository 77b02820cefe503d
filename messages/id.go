package messages

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// ExecutionID names one execution for ever: a UUIDv7, so ids sort by creation time.
type ExecutionID uuid

// NewExecutionID returns a fresh UUIDv7. It panics only when the system's random source fails.
func NewExecutionID() ExecutionID { return ExecutionID(newUUID()) }

// ParseExecutionID reads the canonical text form. Anything else, other UUID notations included, is an error that
// names the text.
func ParseExecutionID(s string) (ExecutionID, error) {
	id, err := parseUUID(s)
	if err != nil {
		return ExecutionID{}, fmt.Errorf("execution id %q is not a UUID", clip(s))
	}
	return ExecutionID(id), nil
}

func (id ExecutionID) String() string { return uuid(id).string() }

// IsZero reports whether id is the zero id, which names nothing.
func (id ExecutionID) IsZero() bool { return id == ExecutionID{} }

// MarshalText writes the canonical form.
func (id ExecutionID) MarshalText() ([]byte, error) { return uuid(id).marshal() }

// UnmarshalText reads the canonical form.
func (id *ExecutionID) UnmarshalText(b []byte) error {
	parsed, err := ParseExecutionID(string(b))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// OperationID names one operation on many executions, from its preview on: a UUIDv7.
type OperationID uuid

// NewOperationID returns a fresh id.
func NewOperationID() OperationID { return OperationID(newUUID()) }

// ParseOperationID reads the canonical text form.
func ParseOperationID(s string) (OperationID, error) {
	id, err := parseUUID(s)
	if err != nil {
		return OperationID{}, fmt.Errorf("operation id %q is not a UUID", clip(s))
	}
	return OperationID(id), nil
}

func (id OperationID) String() string { return uuid(id).string() }

// IsZero reports whether id is the zero id, which names nothing.
func (id OperationID) IsZero() bool { return id == OperationID{} }

// MarshalText writes the canonical form.
func (id OperationID) MarshalText() ([]byte, error) { return uuid(id).marshal() }

// UnmarshalText reads the canonical form.
func (id *OperationID) UnmarshalText(b []byte) error {
	parsed, err := ParseOperationID(string(b))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// Incarnation names one boot of one node: a UUID that is never reused.
type Incarnation uuid

// NewIncarnation returns a fresh incarnation.
func NewIncarnation() Incarnation { return Incarnation(newUUID()) }

// ParseIncarnation reads the canonical text form.
func ParseIncarnation(s string) (Incarnation, error) {
	id, err := parseUUID(s)
	if err != nil {
		return Incarnation{}, fmt.Errorf("incarnation %q is not a UUID", clip(s))
	}
	return Incarnation(id), nil
}

func (i Incarnation) String() string { return uuid(i).string() }

// Short is the tail of the incarnation in hex, eight digits: the head of a UUIDv7 is time and equal for boots close together.
func (i Incarnation) Short() string { return hex.EncodeToString(i[12:]) }

// IsZero reports whether i is the zero incarnation, which names no boot.
func (i Incarnation) IsZero() bool { return i == Incarnation{} }

// MarshalText writes the canonical form.
func (i Incarnation) MarshalText() ([]byte, error) { return uuid(i).marshal() }

// UnmarshalText reads the canonical form.
func (i *Incarnation) UnmarshalText(b []byte) error {
	parsed, err := ParseIncarnation(string(b))
	if err != nil {
		return err
	}
	*i = parsed
	return nil
}

// Attempt is the fencing number of an execution's current placement. 0: never placed. (ExecutionID, Attempt)
// names one placement for ever.
type Attempt int32

// Generation counts the restarts of one slot, from 1.
type Generation int32

// Slot numbers the workers of one pool on one node, from 0.
type Slot int32

// Placement is the identity a broker message carries: which placement of which execution.
type Placement struct {
	Execution ExecutionID `json:"execution"`
	Attempt   Attempt     `json:"attempt"`
}

// WorkerKey is the key of a worker's row, bindings and claims: whichever generation lives in the slot.
type WorkerKey struct {
	Incarnation Incarnation `json:"incarnation"`
	Pool        string      `json:"pool"`
	Slot        Slot        `json:"slot"`
}

// IsZero reports whether k names no worker.
func (k WorkerKey) IsZero() bool { return k == WorkerKey{} }

// WorkerID is a worker's stable, readable name: <node>/<pool>/<slot>.
type WorkerID string

// NewWorkerID joins the three parts. A node's name and a pool's name hold no slash, so the id splits back.
func NewWorkerID(node, pool string, slot Slot) WorkerID {
	return WorkerID(node + "/" + pool + "/" + strconv.Itoa(int(slot)))
}

// Node is the name of the worker's node, which may have any characters; the whole text where it is no worker's id.
func (w WorkerID) Node() string {
	name := string(w)
	for range 2 {
		if i := strings.LastIndexByte(name, '/'); i >= 0 {
			name = name[:i]
		}
	}
	return name
}

// Split returns the parts of the id; ok is false for a text that is no worker id.
func (w WorkerID) Split() (node, pool string, slot Slot, ok bool) {
	node, rest, _ := strings.Cut(string(w), "/")
	pool, number, _ := strings.Cut(rest, "/")
	n, err := strconv.ParseInt(number, 10, 32) // a fourth part is no number
	if err != nil || n < 0 || node == "" || pool == "" {
		return "", "", 0, false
	}
	return node, pool, Slot(n), true
}

// clip bounds a foreign text that goes into an error.
func clip(s string) string {
	const limit = 64
	if len(s) > limit {
		return s[:limit] + "…"
	}
	return s
}
