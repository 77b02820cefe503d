package api

import (
	"context"
	"math"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Bounds of the stored bytes that are in memory for answers. An answer takes several times its bytes while it is read, encoded and
// compressed.
const (
	answersMost  = 64 << 20
	answersLeast = 16 << 20 // two of the longest results
	// answersPart is the part of the program's memory limit, where it has one, that the bytes may have.
	answersPart = 16
	// answerWait is how long a call waits for room. It is shorter than callTime, so that what is read then has time left.
	answerWait = 3 * time.Second
	// answerEvents is the weight of the events of an execution, which are bounded in number.
	answerEvents = 1 << 20
	// answerState is the weight of a session's stored state, whatever it has.
	answerState = 8 << 20
	// answerRow is the weight of an execution in a list. A page of a list has store.ListBytes at most.
	answerRow = 4 << 10
)

// streamsCaller is whose the answers of live streams are. No token has this name.
const streamsCaller = ":streams"

// answersMax is the default of Config.AnswersMax.
func answersMax() int64 {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		return answersMost
	}
	return max(min(limit/answersPart, answersMost), answersLeast)
}

// answers bounds the stored bytes that are in memory for answers. Calls wait for room in order. The calls of one token have at most half
// of what those of others leave, or one call, so that there is always room for the next token's.
type answers struct {
	max int64

	mu    sync.Mutex
	now   int64
	own   map[string]int64 // by token; only those with some
	queue []*waiter
}

// waiter is a call that waits for room.
type waiter struct {
	call     *answer
	bytes    int64
	admitted chan struct{} // closed when it has room
}

// answer is one call's part. It is the store.Admission of the call's reads.
type answer struct {
	of     *answers
	caller string // name of its token; empty: the node has no tokens
	taken  int64
}

// Admit implements store.Admission.
func (a *answer) Admit(ctx context.Context, bytes int64) error {
	if bytes = min(bytes, a.of.max); bytes <= store.AdmitFrom || bytes <= a.taken {
		return nil
	}
	w := &waiter{call: a, bytes: bytes, admitted: make(chan struct{})}
	a.of.join(w)
	limit := time.NewTimer(answerWait)
	defer limit.Stop()
	select {
	case <-w.admitted:
		return nil
	case <-limit.C:
	case <-ctx.Done():
	}
	if a.of.leave(w) {
		return nil
	}
	return messages.Problemf(messages.CodeUnavailable,
		"the answers in flight hold the %d bytes of stored payloads that this node keeps in memory for them, or the half of what one token may have; try again", a.of.max)
}

// release frees the call's part. It may be called again.
func (a *answer) release() {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	a.of.free(a)
}

// join frees what the call had, and queues it.
func (q *answers) join(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(q.queue, w)
	q.free(w.call)
}

// leave ends a wait, and reports whether the call has room after all.
func (q *answers) leave(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at := slices.Index(q.queue, w); at >= 0 {
		q.queue = slices.Delete(q.queue, at, at+1)
		q.admit() // those behind it may have waited for it
		return false
	}
	return true
}

func (q *answers) free(a *answer) {
	if a.taken > 0 {
		q.now -= a.taken
		if q.own[a.caller] -= a.taken; q.own[a.caller] == 0 {
			delete(q.own, a.caller)
		}
		a.taken = 0
	}
	q.admit()
}

// admit gives room to those that wait, in order. None is passed but by those of other tokens, where its own has all that it may have.
func (q *answers) admit() {
	q.queue = slices.DeleteFunc(q.queue, func() func(*waiter) bool {
		full := false
		return func(w *waiter) bool {
			if full || !q.shares(w) {
				return false
			}
			if full = q.now+w.bytes > q.max; full {
				return false
			}
			if q.own == nil {
				q.own = map[string]int64{}
			}
			q.now, q.own[w.call.caller], w.call.taken = q.now+w.bytes, q.own[w.call.caller]+w.bytes, w.bytes
			close(w.admitted)
			return true
		}
	}())
}

// shares reports whether a call's token may have so many more bytes.
func (q *answers) shares(w *waiter) bool {
	own := q.own[w.call.caller]
	return own == 0 || own+w.bytes <= (q.max-(q.now-own))/2
}

// reads has the reads of a request admitted.
func (s *server) reads(r *http.Request) (*http.Request, *answer) {
	a := &answer{of: &s.answers}
	return r.WithContext(store.WithAdmission(r.Context(), a)), a
}

// sizeOf is the bytes that an execution holds which may be many.
func sizeOf(e *messages.Execution) int64 {
	n := len(e.Parameters) + len(e.Result)
	if e.Error != nil {
		n += len(e.Error.Details) + len(e.Error.Stderr) + len(e.Error.Message)
	}
	return int64(n)
}
