package store

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Ledger counts executions, for people who ask whether any is missing.
type Ledger interface {
	// CountRequested counts the executions that were requested at from or later and before to. It looks at CountMax of them at most, the
	// oldest.
	CountRequested(ctx context.Context, from, to time.Time) (Counted, error)
}

// CountMax bounds the executions of one count.
const CountMax = 200_000

// Counted are executions by status.
type Counted struct {
	Statuses []StatusCount // by status; none without executions
	// Until is when the last one was requested, where as many as may be were counted; zero: all were counted.
	Until time.Time
}

// StatusCount counts the executions of one status that were requested in a time.
type StatusCount struct {
	Status    messages.Status
	N         int64
	Retries   int64 // of them, made as the retry of another one
	Repeated  int64 // of them, interrupted at least once by the end of a worker
	TakenBack int64 // of them, taken back at least once from a worker that did not claim
	StateLost int64 // of them, told that their session's state was lost
}

// All is the number of all executions that were counted.
func (c *Counted) All() (n int64) {
	for _, s := range c.Statuses {
		n += s.N
	}
	return n
}
