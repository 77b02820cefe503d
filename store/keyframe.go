package store

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Keyframes is the store of what nodes were at some moments: their pools, and the states of their workers.
type Keyframes interface {
	// SaveKeyframe stores a keyframe. One of the same incarnation and time is replaced, so the call may be repeated.
	SaveKeyframe(ctx context.Context, k Keyframe) error
	// ReadKeyframes returns one keyframe of each incarnation, by incarnation: the newest of a time, or the oldest.
	ReadKeyframes(ctx context.Context, q KeyframeQuery) ([]Keyframe, error)
	// WorkerEventsBetween returns the stored transitions of all workers in a time.
	WorkerEventsBetween(ctx context.Context, q WorkerEventQuery) (WorkerEventPage, error)
}

// Bounds of the keyframes.
const (
	KeyframeMax     = 1 << 20 // bytes of one
	KeyframesMax    = 256     // of one answer
	WorkerEventsMax = 20_000  // of one answer
)

// Keyframe is what an incarnation was at a time, as rules/keyframe encodes it.
type Keyframe struct {
	Incarnation messages.Incarnation
	At          time.Time
	Frame       []byte
}

// KeyframeQuery asks for keyframes with From <= at < To.
type KeyframeQuery struct {
	From, To time.Time
	Oldest   bool // the oldest of each incarnation, not the newest
}

// WorkerEventQuery asks for transitions with From <= at < To.
type WorkerEventQuery struct {
	From, To time.Time
	Newest   bool // the newest of them where there are more than Limit
	Limit    int  // 1 to WorkerEventsMax; 0: WorkerEventsMax
}

// Size is the number of events of a page.
func (q *WorkerEventQuery) Size() int {
	if q.Limit <= 0 {
		return WorkerEventsMax
	}
	return min(q.Limit, WorkerEventsMax)
}

// WorkerEventPage has transitions by time, oldest first; those of one worker and time come in the order in which they were stored. They
// have no metadata. More says that there are others in the time.
type WorkerEventPage struct {
	Events []WorkerEvent
	More   bool
}

// CheckKeyframe returns why a keyframe cannot be stored, or nil.
func CheckKeyframe(k *Keyframe) error {
	switch {
	case k.Incarnation.IsZero():
		return fmt.Errorf("save a keyframe: incarnation: %w: it is zero", ErrInvalid)
	case k.At.IsZero():
		return fmt.Errorf("save a keyframe: at: %w: it is zero", ErrInvalid)
	case len(k.Frame) == 0 || len(k.Frame) > KeyframeMax:
		return fmt.Errorf("save a keyframe: frame: %w: %d bytes, want 1 to %d", ErrInvalid, len(k.Frame), KeyframeMax)
	}
	return nil
}
