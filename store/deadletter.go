package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// DeadLetterBodyMax bounds the stored body of a dead letter, in bytes. Brokers bound a message in megabytes, if at all.
const DeadLetterBodyMax = 64 << 10

// DeadLetterFilter says which dead letters a list has. Its zero value has all.
type DeadLetterFilter struct {
	From, To   time.Time // at From or later, and before To
	Reason     string
	Resolution string
	Worker     messages.WorkerID
	Action     string
}

// DeadLetterWalk bounds the dead letters that one page of a filtered list looks at, whether they match or not.
const DeadLetterWalk = 20_000

// IsZero reports whether the filter has all.
func (f *DeadLetterFilter) IsZero() bool { return *f == DeadLetterFilter{} }

// Match reports whether the filter has a dead letter.
func (f *DeadLetterFilter) Match(d *DeadLetter) bool {
	return (f.From.IsZero() || !d.At.Before(f.From)) && (f.To.IsZero() || d.At.Before(f.To)) && (f.Reason == "" || f.Reason == d.Reason) &&
		(f.Resolution == "" || f.Resolution == d.Resolution) && (f.Worker == "" || f.Worker == d.Worker) && (f.Action == "" || f.Action == d.Action)
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
