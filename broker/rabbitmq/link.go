package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/troupe-run/troupe/broker"
)

// errConnecting is the error of a link before its first attempt has ended.
var errConnecting = errors.New("connecting")

// link maintains one connection to the server. After a loss it connects again with a jittered exponential back-off.
// Every connection is a new session, which keeps nothing of the one before.
type link struct {
	purpose string // publish or consume
	config  Config
	target  target
	start   func(*session) // starts the work of a session
	noted   func()         // called when the status may have changed

	mu      sync.Mutex
	session *session // nil: down
	why     error    // why it is down
	waiting bool     // down, and the first attempt has not ended
	been    bool     // it was up once
	closed  bool
	changed chan struct{} // closed at the next change
}

func newLink(purpose string, c Config, t target) *link {
	return &link{
		purpose: purpose, config: c, target: t, start: func(*session) {}, noted: func() {},
		why: errConnecting, waiting: true, changed: make(chan struct{}),
	}
}

// run maintains the connection until ctx ends.
func (l *link) run(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		connection, err := l.config.dial(ctx, l.target, l.purpose)
		if err != nil {
			if ctx.Err() == nil {
				l.down(err, failures)
			}
			l.pause(ctx, failures)
			failures++
			continue
		}
		began := time.Now()
		s := newSession(connection, l.config.Logger, l.noted)
		l.up(s)
		why := s.wait(ctx)
		l.lost(ctx, s, why)
		if time.Since(began) >= l.config.BackoffMax {
			failures = 0 // reset only after a while: a server may accept connections and drop them at once
		} else {
			l.pause(ctx, failures)
			failures++
		}
	}
	l.end()
}

func (l *link) pause(ctx context.Context, failures int) {
	ceiling := min(l.config.BackoffMin<<min(failures, 16), l.config.BackoffMax)
	wait := time.NewTimer(ceiling/2 + rand.N(ceiling/2+1))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
}

func (l *link) change(f func()) {
	l.mu.Lock()
	f()
	close(l.changed)
	l.changed = make(chan struct{})
	l.mu.Unlock()
	l.noted()
}

func (l *link) up(s *session) {
	l.config.Logger.Info("connected to the broker", "purpose", l.purpose, "server", l.target.String(), "version", s.property("version"))
	l.start(s)
	l.change(func() { l.session, l.why, l.waiting, l.been = s, nil, false, true })
}

func (l *link) down(err error, failures int) {
	if failures == 0 {
		l.config.Logger.Warn("broker not reached, trying again until it is", "purpose", l.purpose, "error", err)
	} else {
		l.config.Logger.Debug("broker not reached", "purpose", l.purpose, "error", err)
	}
	l.change(func() { l.session, l.why, l.waiting = nil, err, false })
}

func (l *link) lost(ctx context.Context, s *session, why error) {
	if ctx.Err() != nil {
		s.close(broker.ErrClosed)
		return
	}
	l.config.Logger.Warn("connection to the broker lost, connecting again", "purpose", l.purpose, "error", why)
	l.change(func() { l.session, l.why = nil, why })
	s.close(why)
}

func (l *link) end() {
	l.change(func() { l.session, l.why, l.waiting, l.closed = nil, broker.ErrClosed, false, true })
}

// get returns the current session. If there is none, it waits only for the first attempt. Otherwise it returns the
// reason at once (broker.ErrUnavailable, broker.ErrClosed).
func (l *link) get(ctx context.Context) (*session, error) {
	for {
		l.mu.Lock()
		s, why, waiting, closed, changed := l.session, l.why, l.waiting, l.closed, l.changed
		l.mu.Unlock()
		switch {
		case closed:
			return nil, broker.ErrClosed
		case s != nil:
			return s, nil
		case !waiting:
			return nil, fmt.Errorf("%w: %w", broker.ErrUnavailable, why)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w: %w", broker.ErrUnavailable, why, ctx.Err())
		}
	}
}

// stand returns the link's state, for Status.
func (l *link) stand() (s *session, been bool, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session, l.been, l.why
}
