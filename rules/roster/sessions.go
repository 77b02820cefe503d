package roster

import (
	"slices"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/placement"
)

// line is a session that has work here: what is placed, and what waits in the store's order. Bindings and epochs live
// in the placement table; a line exists only while it holds something.
type line struct {
	session string
	flights []*flight
	order   []*waiter // strict ones by Seq; only the first may stand in a queue
	hints   int       // held hints: they wait in queues of their own
	stalled []*waiter // hints that wait for the store's word
	asking  bool      // the store is asked about the session: nothing of it is placed
}

func (r *Roster) lineOf(session string) *line {
	l := r.lines[session]
	if l == nil {
		if n := len(r.spareLines); n > 0 {
			l, r.spareLines = r.spareLines[n-1], r.spareLines[:n-1]
		} else {
			l = &line{}
		}
		l.session = session
		r.lines[session] = l
	}
	return l
}

// closeLine forgets a line that holds nothing.
func (r *Roster) closeLine(l *line) {
	if len(l.flights) > 0 || len(l.order) > 0 || l.hints > 0 || l.asking || r.lines[l.session] != l {
		return
	}
	delete(r.lines, l.session)
	l.session = ""
	if len(r.spareLines) < 1024 {
		r.spareLines = append(r.spareLines, l)
	}
}

// lineUp puts a strict candidate in its place in the session's order.
func (r *Roster) lineUp(w *waiter) {
	l := w.line
	i, _ := slices.BinarySearchFunc(l.order, w, func(a, b *waiter) int {
		return int(min(max(a.candidate.Seq-b.candidate.Seq, -1), 1))
	})
	l.order = slices.Insert(l.order, i, w)
	w.why = SessionOrder
	if w.candidate.Behind && w.candidate.Affinity == messages.AffinityStrictFail {
		r.fail(w, messages.CodeSessionBusy, placement.TextSessionBusy)
		return
	}
	if len(l.flights) > 0 {
		r.stall(l, 0)
	} else {
		r.stall(l, 1)
	}
	r.offer(l)
}

// standBack takes a waiter out of its queue, behind another of its session.
func (w *waiter) standBack() {
	if w.queue != nil {
		w.queue.remove(w)
	}
	w.why = SessionOrder
}

// offer lets the first of the session's order be placed, when nothing of the session is.
func (r *Roster) offer(l *line) {
	if l.asking || len(l.flights) > 0 || len(l.order) == 0 || l.order[0].queue != nil {
		return
	}
	first := l.order[0]
	first.why = Ready
	r.ready.push(first)
	if first.candidate.Affinity == messages.AffinityStrictFail {
		r.urgent = append(r.urgent, first)
	}
}

// stall holds the session's order back from a position on, behind what is placed or before it; a strict_fail does not
// wait for that.
func (r *Roster) stall(l *line, from int) {
	for i := len(l.order) - 1; i >= from; i-- {
		w := l.order[i]
		w.standBack()
		if w.candidate.Affinity == messages.AffinityStrictFail {
			r.fail(w, messages.CodeSessionBusy, placement.TextSessionBusy)
		}
	}
}

// leave takes a dropped waiter off the line.
func (l *line) leave(w *waiter) {
	if serial(&w.candidate) {
		if i := slices.Index(l.order, w); i >= 0 {
			l.order = slices.Delete(l.order, i, i+1)
		}
		return
	}
	l.hints--
	if i := slices.Index(l.stalled, w); i >= 0 {
		l.stalled = slices.Delete(l.stalled, i, i+1)
	}
}

// forgetLine drops the session's order, so that the next Load tells it anew.
func (r *Roster) forgetLine(l *line) {
	if l == nil {
		return
	}
	for len(l.order) > 0 {
		w := l.order[len(l.order)-1]
		delete(r.held, w.candidate.ID)
		if w.queue != nil {
			w.queue.remove(w)
		}
		l.order = l.order[:len(l.order)-1]
		r.top = true
	}
}

// leaveLine takes an ended flight off its session.
func (r *Roster) leaveLine(f *flight, finished bool) {
	l := f.line
	if i := slices.Index(l.flights, f); i >= 0 {
		l.flights = slices.Delete(l.flights, i, i+1)
	}
	switch {
	case f.miss:
	case finished:
		r.table.Finished(l.session, f.epoch, r.now)
		if len(l.order) == 0 {
			r.top = true // the store shows a session's next one once nothing of it is placed
		}
	default:
		r.table.TakenBack(l.session, f.epoch, r.now)
	}
	r.offer(l)
	r.closeLine(l)
}

// sessionMoved takes the store's word on a session.
func (r *Roster) sessionMoved(e *SessionMoved) {
	l := r.lines[e.Session]
	before, known := r.table.Session(e.Session)
	if r.outdated(e, before.Epoch) {
		if e.Asked {
			r.answered(l)
		}
		return
	}
	if known && !before.Worker.IsZero() && (before.Worker != e.Worker || before.Epoch < e.Epoch) {
		r.endSession(before.Worker, before.Name, before.Epoch)
	}
	s := placement.Session{
		Name: e.Session, Worker: e.Worker, Epoch: e.Epoch, Finished: e.FinishedEpoch, Touched: e.TouchedAt,
		Restored: known && before.Restored && before.Epoch == e.Epoch, Started: e.StartedEpoch,
	}
	if s.Started == 0 {
		s.Started = before.Started // it was claimed after the store was read
	}
	if known && e.Epoch >= before.Epoch { // the same
		s.Finished = max(s.Finished, before.Finished)
		if s.Touched.Before(before.Touched) {
			s.Touched = before.Touched
		}
	}
	switch {
	case e.Worker.IsZero():
	case !e.Asked && known && e.Epoch == before.Epoch && e.Worker == before.Left: // it was read before the store knew that it has ended
		s.Worker, s.Left = messages.WorkerKey{}, before.Left
	case r.workers[e.Worker] == nil:
		r.emit(Unbind{Session: e.Session, Worker: e.Worker, Epoch: e.Epoch, Reason: "worker_gone"})
		s.Worker = messages.WorkerKey{}
	}
	if s.Worker.IsZero() && s.Epoch > 0 {
		s.Loss = placement.WorkerGone
		if known && before.Worker.IsZero() && before.Epoch == s.Epoch {
			s.Loss = before.Loss
		}
	}
	if l != nil {
		s.Touched = r.now
		s.InFlight = l.bound(s.Epoch)
	}
	r.table.Load(s)
	if l != nil && (e.Asked || !l.asking) {
		r.answered(l)
	}
}

// outdated reports whether the store's word is older than a binding of the given epoch, which is the newest that is known
// here: epochs only grow. A binding of this roster's may have been refused, and then an older word is right; but only one that was
// asked for since can tell, and none while a placement with that binding is on its way.
func (r *Roster) outdated(e *SessionMoved, known int64) bool {
	if e.Epoch >= known {
		return false
	}
	l := r.lines[e.Session]
	return !e.Asked || l != nil && l.bound(known) > 0
}

// answered lets a session go on after the store has told of it.
func (r *Roster) answered(l *line) {
	l.asking = false
	for _, w := range l.stalled {
		r.ready.push(w)
	}
	clear(l.stalled)
	l.stalled = l.stalled[:0]
	if len(l.order) > 0 && l.order[0].queue != nil { // it may wait for a worker that is no longer the one
		l.order[0].queue.remove(l.order[0])
	}
	r.offer(l)
	r.closeLine(l)
}

// bound counts the flights that run, or will, on the session's worker under the epoch.
func (l *line) bound(epoch int64) (n int) {
	for _, f := range l.flights {
		if !f.miss && f.epoch == epoch {
			n++
		}
	}
	return n
}

// recount tells the table how much of the session is placed.
func (r *Roster) recount(l *line) {
	if s, ok := r.table.Session(l.session); ok {
		s.InFlight, s.Touched = l.bound(s.Epoch), r.now
		r.table.Load(s)
	}
}

// sweep ends the bindings that have idled out. What waits for its session's worker keeps the binding alive while the
// worker is in service.
func (r *Roster) sweep() {
	if r.now.Before(r.sweepAt) {
		return
	}
	r.sweepAt = r.now.Add(r.config.SessionSweep)
	for _, l := range r.lines {
		if len(l.order) > 0 && l.order[0].queue != nil {
			if on := l.order[0].queue.worker; on != nil && on.seen.Active {
				r.table.Touch(l.session, r.now)
			}
		}
	}
	ended, more := r.table.Sweep(r.now, sweepPerTick)
	if more {
		r.sweepAt = r.now
	}
	for _, e := range ended {
		r.endSession(e.Worker, e.Session, e.Epoch)
		r.emit(Unbind{Session: e.Session, Worker: e.Worker, Epoch: e.Epoch, Reason: Expired})
		if l := r.lines[e.Session]; l != nil && len(l.order) > 0 && l.order[0].queue != nil {
			l.order[0].queue.remove(l.order[0])
			r.offer(l)
		}
	}
	r.expired += len(ended)
}

// begun notes that a flight runs, so that its session has something to lose.
func (r *Roster) begun(f *flight) {
	if f.line != nil && !f.miss {
		r.table.Began(f.line.session, f.epoch)
	}
}

// suspect is the first epoch in which something of the session is placed that may have begun: a hint does not wait for
// the word on the others. 0: nothing is. It is asked anew for each verdict, for what is taken back has not begun.
func (l *line) suspect() (epoch int64) {
	for _, f := range l.flights {
		if f.phase > placing && !f.miss && (epoch == 0 || f.epoch < epoch) {
			epoch = f.epoch
		}
	}
	return epoch
}

// endSession tells a worker that still lives to drop a session's state.
func (r *Roster) endSession(key messages.WorkerKey, session string, epoch int64) {
	if r.workers[key] != nil {
		r.emit(EndSession{Worker: key, Session: session, Epoch: epoch})
	}
}
