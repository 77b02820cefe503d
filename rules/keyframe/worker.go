package keyframe

import (
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lifecycle"
)

// pastPools are a node's pools as they are put together, by name.
type pastPools map[string]*pastPool

type pastPool struct {
	Pool
	workers []pastWorker
}

// pastWorker is what is known of the worker of a slot.
type pastWorker struct {
	known      bool // a keyframe or an event before the moment has it
	at         time.Time
	state      lifecycle.State // at that time
	generation messages.Generation
	grade      byte
	cordoned   bool
	exact      bool // the state is the one of the moment
}

// maybe says for each state how a worker is shown of which nothing was recorded since it was in the state: what is not recorded are
// the transitions that happen with every execution.
var maybe = quietly()

func quietly() (letters [len(StateLetters)]byte) {
	for i := range letters {
		letters[i] = StateLetters[i]
	}
	lifecycle.ForEachEdge(func(e lifecycle.Edge) {
		if e.Reason.Quiet() {
			letters[e.From], letters[e.To] = Up, Up
		}
	})
	return letters
}

func (ps pastPools) of(name string) *pastPool {
	pool := ps[name]
	if pool == nil {
		pool = &pastPool{Pool: Pool{Name: name}}
		ps[name] = pool
	}
	return pool
}

// worker is that of a slot; nil: no node has so many.
func (p *pastPool) worker(slot messages.Slot) *pastWorker {
	if slot < 0 || slot >= SlotsMax {
		return nil
	}
	for int(slot) >= len(p.workers) {
		p.workers = append(p.workers, pastWorker{grade: noWorker})
	}
	return &p.workers[slot]
}

// add takes a pool of the keyframe before the moment.
func (ps pastPools) add(p *Pool) {
	pool := ps.of(p.Name)
	pool.Pool = *p
	pool.workers = make([]pastWorker, len(p.Slots))
	for i := range p.Slots {
		s := &p.Slots[i]
		c := cellOf(s)
		pool.workers[i] = pastWorker{known: s.Used, state: s.State, generation: s.Generation, grade: c.grade, cordoned: s.Cordoned}
	}
}

// replay takes the events since the keyframe. One behind the moment says since when the worker was as it was before.
func (ps pastPools) replay(events []*Transition, from, at time.Time) {
	for _, p := range ps {
		for i := range p.workers {
			w := &p.workers[i]
			w.at, w.exact = from, w.known && from.Equal(at)
		}
	}
	for _, e := range events {
		if e.At.Before(from) {
			continue
		}
		ahead := e.At.After(at)
		// The time of an event is cut to a millisecond, and how long the state before it lasted is not.
		lasted := ahead && !e.At.Add(time.Millisecond-e.Lasted).After(at)
		if ahead && !lasted {
			continue
		}
		w := ps.of(e.Pool).worker(e.Slot)
		switch {
		case w == nil || w.known && e.Generation < w.generation:
			continue
		case ahead:
			w.become(e.Generation, e.From, at)
			w.exact = true
		default:
			w.become(e.Generation, e.To, e.At)
			w.exact = e.At.Equal(at)
		}
	}
}

func (w *pastWorker) become(generation messages.Generation, state lifecycle.State, at time.Time) {
	if !w.known || generation != w.generation {
		w.grade = GradeLetters[0] // it is not recorded
	}
	w.known, w.generation, w.state, w.at = true, generation, state, at
}

// lasting takes what the keyframe behind the moment says of workers that had been in their states since before it.
func (ps pastPools) lasting(after *Stored, at time.Time) {
	for i := range after.Pools {
		p := &after.Pools[i]
		for slot := range p.Slots {
			s := &p.Slots[slot]
			if !s.Used || after.At.Add(-s.Age).After(at) {
				continue
			}
			pool := ps[p.Name]
			if pool == nil {
				pool = ps.of(p.Name)
				pool.Runtime = p.Runtime
			}
			if w := pool.worker(messages.Slot(slot)); !w.exact && (!w.known || s.Generation >= w.generation) {
				w.become(s.Generation, s.State, at)
				w.exact = true
			}
		}
	}
}

// works reports whether a worker is known that was at work, by the last that is recorded of it.
func (p *pastPool) works() bool {
	return slices.ContainsFunc(p.workers, func(w pastWorker) bool {
		return w.known && (w.state == lifecycle.Ready || w.state == lifecycle.Busy || w.state == lifecycle.Degraded)
	})
}

// cells shows a pool. A worker is not known that was recorded last before the events are complete. Where no keyframe holds, as of a silent
// node, only those are known whose states are exact.
func (p *pastPool) cells(holds bool, from time.Time) Cells {
	cells := make([]cell, len(p.workers))
	for i := range p.workers {
		w := &p.workers[i]
		c := cell{state: noWorker, grade: noWorker}
		if !w.known && !holds {
			c.state = Unknown
		}
		if w.known {
			c = cell{letter(StateLetters, int(w.state)), w.grade, w.cordoned, w.generation}
			switch {
			case !w.exact && (!holds || w.at.Before(from)):
				c.state = Unknown
			case !w.exact && int(w.state) < len(maybe):
				c.state = maybe[w.state]
			}
		}
		cells[i] = c
	}
	return p.show(cells)
}
