package api

import (
	"context"
	"errors"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// readyFor is how long an answer of /readyz is reused for all callers. So the node is asked about four times a second
// at most.
const readyFor = 250 * time.Millisecond

// readiness asks the node whether it is ready, once for all callers at about the same time. Callers need no token, and
// each answer costs a question to the store and to each pool. The zero value can be used.
type readiness struct {
	mu   sync.Mutex
	last *readyAnswer // nil: not asked yet
}

// readyAnswer is one answer, once done is closed.
type readyAnswer struct {
	done chan struct{}
	is   Readiness
	at   time.Time // when the answer arrived
}

// fresh reports whether the answer can be used now. An answer that is on its way can.
func (a *readyAnswer) fresh(now time.Time) bool {
	select {
	case <-a.done:
		return now.Sub(a.at) < readyFor
	default:
		return true
	}
}

// get returns the answer. The end of ctx ends only this caller's wait. ask goes on for the others, for as long as a
// call may take.
func (r *readiness) get(ctx context.Context, ask func(context.Context) Readiness, logger hclog.Logger) (Readiness, error) {
	a := r.answer(ctx, ask, logger)
	select {
	case <-a.done:
		return a.is, nil
	case <-ctx.Done():
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return Readiness{WaitsFor: []string{"node: it could not tell in time what it waits for"}}, nil
	}
	return Readiness{}, ctx.Err()
}

// answer returns a fresh answer, or one that is on its way.
func (r *readiness) answer(ctx context.Context, ask func(context.Context) Readiness, logger hclog.Logger) *readyAnswer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil && r.last.fresh(time.Now()) {
		return r.last
	}
	a := &readyAnswer{done: make(chan struct{})}
	r.last = a
	go a.find(lifeOf(ctx), ask, logger)
	return a
}

// find asks. A panic must not end the node, as in any request.
func (a *readyAnswer) find(ctx context.Context, ask func(context.Context) Readiness, logger hclog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	defer func() {
		if cause := recover(); cause != nil {
			logger.Error("question after readiness panicked", "panic", cause, "stack", string(debug.Stack()))
			a.is = Readiness{WaitsFor: []string{"node: it could not tell what it waits for; its log says why"}}
		}
		a.at = time.Now()
		close(a.done)
	}()
	a.is = ask(ctx)
}

// lifeKey is the key of the server's context in each request's context.
type lifeKey struct{}

// lifeOf returns the context of a request's server. Work for all callers ends with it, and not with one caller.
func lifeOf(ctx context.Context) context.Context {
	if life, ok := ctx.Value(lifeKey{}).(context.Context); ok {
		return life
	}
	return context.WithoutCancel(ctx)
}

func (s *server) ready(c *call) error {
	is, err := s.readiness.get(c.r.Context(), s.Backend.Ready, s.logger)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if !is.Ready {
		status = http.StatusServiceUnavailable
	}
	return writeJSON(c.w, status, &is)
}
