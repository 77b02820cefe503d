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

// readyFor is how long an answer of /readyz is given again, to whoever asks. It bounds the questions to some four a second.
const readyFor = 250 * time.Millisecond

// readiness asks the node whether it is ready, once for all who want to know at about the same time. Nobody needs a token for it,
// and every answer costs the store and each pool a question. Its zero value is ready for use.
type readiness struct {
	mu   sync.Mutex
	last *readyAnswer // nil: nobody has asked yet
}

// readyAnswer is one answer, once done is closed.
type readyAnswer struct {
	done chan struct{}
	is   Readiness
	at   time.Time // when it was there
}

// fresh reports whether the answer can be given to who asks now. One that is on its way can.
func (a *readyAnswer) fresh(now time.Time) bool {
	select {
	case <-a.done:
		return now.Sub(a.at) < readyFor
	default:
		return true
	}
}

// get returns the answer. The end of ctx ends this caller's wait alone: ask goes on for the others, for as long as a call may take.
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

// find asks. A panic must not end the node, as none of a request's does.
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

// lifeKey holds the context of the whole server in that of each request.
type lifeKey struct{}

// lifeOf is the context of the server that a request came to: what is done for all callers ends with it, and not with one of them.
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
