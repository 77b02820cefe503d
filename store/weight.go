package store

import (
	"context"
	"errors"

	"github.com/troupe-run/troupe/messages"
)

// AdmitFrom is the size in bytes from which a read for a caller is admitted before it is made. What is smaller is bounded by the number
// of calls.
const AdmitFrom = 64 << 10

// ListBytes is about how many bytes one page of a list holds: it ends short behind them.
const ListBytes = 4 << 20

// PageBytes bounds a page of a list in bytes. The zero value is that of a page without rows.
type PageBytes struct {
	bytes, rows int
	full        bool
}

// Takes reports whether the page has room for another row, and counts it. The last one that it takes only shows that more follow.
func (p *PageBytes) Takes(e *messages.Execution) bool {
	if p.full {
		return false
	}
	p.rows++
	p.bytes += ExecutionSize(e)
	if e.Error != nil {
		p.bytes += len(e.Error.Message) + len(e.Error.Details) + len(e.Error.Stderr)
	}
	p.full = p.rows > 1 && p.bytes >= ListBytes
	return true
}

// Limit is the number of rows of the page, of at most limit.
func (p *PageBytes) Limit(limit int) int {
	if p.full {
		return min(limit, p.rows-1)
	}
	return limit
}

// Admission admits what is read for the answer to a caller. A store weighs what is long before it reads it, has it admitted, and reads it on
// connections that nothing else uses, so that many callers neither fill the memory nor hold up what keeps the node alive.
type Admission interface {
	// Admit waits for room for so many bytes, or returns why there is none. They replace what was admitted before.
	Admit(ctx context.Context, bytes int64) error
}

type admissionKey struct{}

// WithAdmission returns a context whose reads are admitted.
func WithAdmission(ctx context.Context, a Admission) context.Context {
	return context.WithValue(ctx, admissionKey{}, a)
}

// AdmissionOf returns who admits the reads of a context; nil: they are not weighed.
func AdmissionOf(ctx context.Context) Admission {
	a, _ := ctx.Value(admissionKey{}).(Admission)
	return a
}

// bare admits nothing.
type bare struct{}

var errBare = errors.New("only what is short is read")

func (bare) Admit(context.Context, int64) error { return errBare }

// Bare returns a context whose Get leaves out parameters and result that are long, and of a long error all but its beginning.
func Bare(ctx context.Context) context.Context { return WithAdmission(ctx, bare{}) }

// Weighed says what follows from the weight of what a caller asks for: whether all of it is to be read apart. Otherwise what was read with
// the weight is the answer, whole where that is short.
func Weighed(ctx context.Context, bytes int64) (apart bool, err error) {
	a := AdmissionOf(ctx)
	if a == nil || bytes <= AdmitFrom {
		return false, nil
	}
	err = a.Admit(ctx, bytes)
	if errors.Is(err, errBare) {
		return false, nil
	}
	return err == nil, err
}
