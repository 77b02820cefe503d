package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// DeadLetterBodyMax bounds the stored body of a dead letter, in bytes. Brokers bound a message in megabytes, if at all.
const DeadLetterBodyMax = 64 << 10

// DeadLetterFilter says which dead letters a list has. Its zero value has all.
type DeadLetterFilter struct {
	From, To     time.Time // at From or later, and before To
	LetterValues           // one of each kind that is given
	Not          LetterValues
}

// LetterValues are values that dead letters have, by kind.
type LetterValues struct {
	Reasons     []string
	Resolutions []string
	Workers     []messages.WorkerID
	Actions     []string
}

// none reports whether there is no value.
func (v *LetterValues) none() bool {
	return len(v.Reasons) == 0 && len(v.Resolutions) == 0 && len(v.Workers) == 0 && len(v.Actions) == 0
}

// DeadLetterWalk bounds the dead letters that one page of a filtered list looks at, whether they match or not.
const DeadLetterWalk = 20_000

// IsZero reports whether the filter has all.
func (f *DeadLetterFilter) IsZero() bool {
	return f.From.IsZero() && f.To.IsZero() && f.none() && f.Not.none()
}

// Match reports whether the filter has a dead letter.
func (f *DeadLetterFilter) Match(d *DeadLetter) bool {
	return (f.From.IsZero() || !d.At.Before(f.From)) && (f.To.IsZero() || d.At.Before(f.To)) && wanted(f.Reasons, f.Not.Reasons, d.Reason) &&
		wanted(f.Resolutions, f.Not.Resolutions, d.Resolution) && wanted(f.Workers, f.Not.Workers, d.Worker) && wanted(f.Actions, f.Not.Actions, d.Action)
}

// wanted reports whether a value is one of only, or only is empty, and is none of not.
func wanted[T comparable](only, not []T, value T) bool {
	return (len(only) == 0 || slices.Contains(only, value)) && !slices.Contains(not, value)
}

// Letter is a dead letter, without its headers and body, and the state of the execution that it names.
type Letter struct {
	DeadLetter
	Status    messages.Status // zero: the store does not have the execution
	RetriedAs messages.ExecutionID
}

// CutBody returns the record with a body of at most DeadLetterBodyMax bytes and notes the whole size and hash. A record
// that was cut before does not change. The record shares no memory with the original body, so that can be freed.
func CutBody(d DeadLetter) DeadLetter {
	if d.BodySize == 0 {
		d.BodySize = int64(len(d.Body))
	}
	if len(d.Body) > DeadLetterBodyMax {
		if d.BodySHA256 == "" {
			sum := sha256.Sum256(d.Body)
			d.BodySHA256 = hex.EncodeToString(sum[:])
		}
		d.Body = bytes.Clone(d.Body[:DeadLetterBodyMax])
	}
	d.BodyCut = d.BodySize > DeadLetterBodyMax
	return d
}
