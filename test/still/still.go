// Package still is the world of tests that run a shell on one goroutine: nothing happens before the test asks for it.
package still

import (
	"context"
	"slices"
	"time"
)

// World is an actors.World in which time does not pass and no work runs before the test asks for it. Results come back
// in the test's goroutine, the only one that may use the World.
type World struct {
	Time   time.Time // what Now returns
	Draw   float64   // what Random returns
	beside []func()
	timers []*timer
}

// New returns a world at some time.
func New() *World { return &World{Time: time.Unix(1_000_000, 0)} }

// timer is a timer that After started.
type timer struct {
	world *World
	due   time.Time
	then  func()
}

// Stop ends the timer.
func (t *timer) Stop() bool {
	at := slices.Index(t.world.timers, t)
	if at < 0 {
		return false
	}
	t.world.timers = slices.Delete(t.world.timers, at, at+1)
	return true
}

// Now implements actors.World.
func (w *World) Now() time.Time { return w.Time }

// Random implements actors.World.
func (w *World) Random() float64 { return w.Draw }

// After implements actors.World.
func (w *World) After(d time.Duration, then func()) interface{ Stop() bool } {
	t := &timer{world: w, due: w.Time.Add(max(d, 0)), then: then}
	w.timers = append(w.timers, t)
	return t
}

// Beside implements actors.World. The limit is ignored.
func (w *World) Beside(_ time.Duration, work func(context.Context) func()) {
	w.beside = append(w.beside, func() {
		if then := work(context.Background()); then != nil {
			then()
		}
	})
}

// Busy returns the amount of work that waits beside the shell.
func (w *World) Busy() int { return len(w.beside) }

// Answer runs all work that waits beside the shell, and brings the results back. Work that this starts waits for the
// next Answer.
func (w *World) Answer() {
	all := w.beside
	w.beside = nil
	for _, work := range all {
		work()
	}
}

// Pass advances the time. Timers that expire meanwhile run in the order of their times.
func (w *World) Pass(d time.Duration) {
	until := w.Time.Add(d)
	for {
		next := w.next()
		if next == nil || next.due.After(until) {
			w.Time = until
			return
		}
		w.Time = next.due
		next.Stop()
		next.then()
	}
}

// next is the timer that runs out first; nil: there is none.
func (w *World) next() *timer {
	var first *timer
	for _, t := range w.timers {
		if first == nil || t.due.Before(first.due) {
			first = t
		}
	}
	return first
}
