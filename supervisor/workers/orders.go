package workers

import (
	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/restart"
	"github.com/troupe-run/troupe/rules/roster"
)

// aheadMax is how many placements one worker claims at once, where the router lets it claim ahead, and no more than is dispatched
// ahead (placement.Window). With a lower limit groups shrink, and cost more, just when runs wait for the cores.
const aheadMax = 8

// Execute hands a worker what a message has for it; false: there is none that could take it.
func (w *Workers) Execute(work *broker.Work) bool {
	s := w.slots.at(work.Worker.Slot)
	if !w.open(s) {
		return false
	}
	ahead := 1
	if work.Ahead {
		ahead = aheadMax
	}
	w.Send(s.cur.pid, &actors.Execute{Placements: work.Placements, Ahead: ahead, By: work.By, Published: work.Published, Arrived: work.Arrived})
	return true
}

// open reports whether a slot has a worker that could take work.
func (w *Workers) open(s *slot) bool {
	return s != nil && s.cur != nil && s.cur.state < lifecycle.Terminating && !s.cur.spent && !s.retiring && !w.Draining
}

// Take hands a worker's generation what was claimed for it as it was stored; false: it is not there, or could not take it.
func (w *Workers) Take(n messages.Slot, gen messages.Generation, m *actors.Take) bool {
	s := w.slots.at(n)
	if !w.open(s) || s.cur.gen != gen {
		return false
	}
	w.Send(s.cur.pid, m)
	return true
}

// Drop has a worker forget a placement that it has not claimed.
func (w *Workers) Drop(n messages.Slot, pl messages.Placement) {
	if s := w.slots.at(n); s != nil && s.cur != nil {
		w.Send(s.cur.pid, &actors.Drop{Placement: pl})
	}
}

// EndSession has a worker drop a session's state.
func (w *Workers) EndSession(n messages.Slot, session string, epoch int64) {
	if s := w.slots.at(n); s != nil && s.cur != nil {
		w.Send(s.cur.pid, &actors.EndSession{Session: session, Epoch: epoch})
	}
}

// Expired counts a message that died on a worker's queue against the worker.
func (w *Workers) Expired(n messages.Slot, pl messages.Placement) {
	if s := w.slots.at(n); s != nil && s.cur != nil {
		w.Send(s.cur.pid, &actors.Expired{Placement: pl})
	}
}

// CancelRun has whichever generation of a slot runs a placement stop it.
func (w *Workers) CancelRun(n messages.Slot, order *actors.CancelRun) {
	s := w.slots.at(n)
	if s == nil {
		return
	}
	for _, m := range []*member{s.cur, s.next} {
		if m != nil {
			w.Send(m.pid, order)
		}
	}
}

// Has reports whether a generation of a slot is here.
func (w *Workers) Has(n messages.Slot, gen messages.Generation) bool {
	return w.slots.at(n).member(gen) != nil
}

// Standings is how each slot stands.
func (w *Workers) Standings() []roster.WorkerSeen {
	all := make([]roster.WorkerSeen, 0, len(w.slots))
	for _, s := range w.slots {
		if !s.dead || s.cur != nil {
			all = append(all, w.standing(s))
		}
	}
	return all
}

// QueueAttached tells how the workers of a queue stand now: what is placed on them will be delivered, or not.
func (w *Workers) QueueAttached(queue string) {
	for _, s := range w.slots {
		if w.queueOf(s) == queue {
			w.seen(s)
		}
	}
}

// ShareQueue is how many workers a queue of this pool serves.
func (w *Workers) ShareQueue() int {
	if w.shared() {
		return len(w.slots)
	}
	return 1
}

// Broken says whether every worker of the pool keeps failing on this node, why, and where their code does.
func (w *Workers) Broken() (broken bool, why, trace string) {
	if w.tracker.State() != restart.Broken {
		return false, "", ""
	}
	why, trace = w.BrokenWhy()
	return true, why, trace
}

// ShowRouting tells the tree who routes, unless it tells that the pool is broken.
func (w *Workers) ShowRouting(routing string) {
	if w.tracker.State() != restart.Broken {
		w.cell.Update(func(s *actors.Status) { s.Why = routing })
	}
}
