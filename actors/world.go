package actors

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// World is how a shell reaches what is neither a message nor its own state: the clock, timers, work beside it, and
// randomness. What comes back runs in the actor, between two messages, unless the actor has ended or failed meanwhile.
type World interface {
	// Now is the time.
	Now() time.Time
	// After resumes the actor with then once d has passed; where d is not positive, behind the messages that it has now. A
	// timer that has run out cannot be stopped any more.
	After(d time.Duration, then func()) Timer
	// Beside does work next to the actor and resumes the actor with what it returns; nil: with nothing. The context ends with
	// the actor, and after limit; 0: the work has bounds of its own.
	Beside(limit time.Duration, work func(context.Context) (then func()))
	// Random is a number of [0, 1).
	Random() float64
}

// Timer is what After starts. Stop reports whether the timer was stopped before it ran out. It is an alias, so that a World of
// tests need not import this package, whose own tests use it too.
type Timer = interface{ Stop() bool }

// stopTimer stops a timer, of a World or of the library, where there is one.
func stopTimer[T interface {
	comparable
	Stop() bool
}](t T) {
	if none := *new(T); t != none {
		t.Stop()
	}
}

// over is a timer that has run out.
type over struct{}

func (over) Stop() bool { return false }

// Resume is the one message by which what ran beside an actor, or waited for a timer, comes back to it.
type Resume struct {
	of   *RealWorld
	then func()
}

// RealWorld is the World of one actor from its start to its end. An actor that is started again makes a new one: what
// comes back for the actor before it is dropped.
type RealWorld struct {
	system *System
	self   *actor.PID
	ended  atomic.Bool
	// beside is what work beside the actor ends with; made for the first, as most actors never have any.
	beside context.Context
	cancel context.CancelFunc
}

// NewWorld returns the world of the actor that starts as self.
func NewWorld(system *System, self *actor.PID) *RealWorld {
	return &RealWorld{system: system, self: self}
}

// End ends what runs beside the actor.
func (w *RealWorld) End() {
	w.ended.Store(true)
	if w.cancel != nil {
		w.cancel()
	}
}

// Resume does what has come back, where it is for this actor and not for one before it.
func (w *RealWorld) Resume(m *Resume) {
	if m.of == w {
		m.then()
	}
}

// post has the actor do then, unless it has ended.
func (w *RealWorld) post(then func()) {
	if !w.ended.Load() {
		w.system.Send(w.self, &Resume{w, then})
	}
}

// Now implements World.
func (w *RealWorld) Now() time.Time { return time.Now() }

// Random implements World.
func (w *RealWorld) Random() float64 { return rand.Float64() }

// After implements World.
func (w *RealWorld) After(d time.Duration, then func()) Timer {
	if d <= 0 {
		w.post(then)
		return over{}
	}
	return time.AfterFunc(d, func() { w.post(then) })
}

// Beside implements World. A panic of the work fails the actor.
func (w *RealWorld) Beside(limit time.Duration, work func(context.Context) func()) {
	if w.beside == nil {
		w.beside, w.cancel = context.WithCancel(context.Background())
		if w.ended.Load() {
			w.cancel()
		}
	}
	ctx := w.beside
	go func() {
		defer w.system.Carry(w.self)
		if limit > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
		if then := work(ctx); then != nil {
			w.post(then)
		}
	}()
}
