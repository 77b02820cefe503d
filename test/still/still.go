// Package still holds the world of tests that drive a shell single-threaded: nothing happens before the test says so.
package still

import (
	"context"
	"slices"
	"time"
)

// World is an actors.World in which time stands still and no work is done before the test says so. What comes back runs in the
// test's goroutine, which is the only one that may use the World.
type World struct {
	Time   time.Time // what Now returns
	Draw   float64   // what Random returns
	beside []func()
	timers []*timer
}

// New returns a world at some time.
func New() *World { return &World{Time: time.Unix(1_000_000, 0)} }

// timer is one that After has started.
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

// Beside implements actors.World. The limit means nothing here.
func (w *World) Beside(_ time.Duration, work func(context.Context) func()) {
	w.beside = append(w.beside, func() {
		if then := work(context.Background()); then != nil {
			then()
		}
	})
}

// Busy is how much work waits beside the shell.
func (w *World) Busy() int { return len(w.beside) }

// Answer does all that waits beside the shell now, and brings it back. What that begins waits for the next Answer.
func (w *World) Answer() {
	all := w.beside
	w.beside = nil
	for _, work := range all {
		work()
	}
}

// Pass lets time pass. Timers that run out meanwhile come back in the order of their times.
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
