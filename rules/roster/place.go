package roster

import (
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/placement"
)

// round places what is ready, the best first, while there is room, and fails what may not wait.
func (r *Roster) round() {
	if r.resigned {
		return
	}
	if r.stands() {
		r.again = false
		return
	}
	r.rounds++
	failed := 0
	for w := r.ready.top(); w != nil && failed < failsPerStep; w = r.ready.top() {
		if !r.table.Free() && (r.present() || !r.steady) {
			break
		}
		if r.decide(w) == placement.Fail {
			failed++
		}
	}
	r.again = failed == failsPerStep
	r.judgeUrgent()
	if len(r.assigned) > 0 {
		r.emit(Place{Assignments: r.assigned})
		r.assigned = nil
	}
	r.sendDirect()
}

// sendDirect sends what the round has placed without the store. Where a worker also gets what is being stored, its message waits
// for that.
func (r *Roster) sendDirect() {
	for i, b := range r.direct {
		if b.open == 0 {
			r.send(b)
		}
		r.direct[i] = nil
	}
	r.direct = r.direct[:0]
}

// judgeUrgent judges those of strict_fail that the round has not come to: one fails, or waits for its session's worker
// where that worker's return will find it. Any other keeps its turn.
func (r *Roster) judgeUrgent() {
	for i, w := range r.urgent {
		r.urgent[i] = nil
		if w.queue != &r.ready || w.line.asking {
			continue
		}
		request := placement.RequestOf(&w.candidate)
		if v := r.table.Pick(&request, r.now); v.Kind == placement.Fail || v.Kind == placement.Wait && v.Waiting == placement.SessionWorker {
			r.decide(w)
		}
	}
	r.urgent = r.urgent[:0]
}

// decide judges a waiter of the ready queue; it leaves the queue in every case.
func (r *Roster) decide(w *waiter) placement.Kind {
	if l := w.line; l != nil && l.asking {
		r.ready.remove(w)
		w.why = SessionUnknown
		if !serial(&w.candidate) {
			l.stalled = append(l.stalled, w)
		}
		return placement.Wait
	}
	request := placement.RequestOf(&w.candidate)
	if w.line != nil {
		request.Suspect = w.line.suspect()
	}
	bound := r.boundWorker(&w.candidate)
	v := r.table.Pick(&request, r.now)
	r.table.Commit(&request, &v, r.now)
	switch v.Kind {
	case placement.Place:
		r.assign(w, &v, manner{direct: r.workers[v.Worker].seen.Direct && w.candidate.Session == ""})
	case placement.Fail:
		r.endBinding(&v)
		r.fail(w, v.Code, v.Text)
	default:
		r.wait(w, &v, bound)
	}
	if bound != nil && bound.free > 0 {
		r.unpark(bound)
	}
	return v.Kind
}

// boundWorker is the worker that the candidate's session is bound to; nil: none.
func (r *Roster) boundWorker(c *messages.Candidate) *worker {
	if c.Session == "" {
		return nil
	}
	s, _ := r.table.Session(c.Session)
	return r.workers[s.Worker]
}

// endBinding ends the binding that a verdict to fail ends. One that a placement ends is ended once the store has the new one.
func (r *Roster) endBinding(v *placement.Verdict) {
	if v.Ended.Epoch == 0 {
		return
	}
	r.endSession(v.Ended.Worker, v.Ended.Session, v.Ended.Epoch)
	r.emit(Unbind{Session: v.Ended.Session, Worker: v.Ended.Worker, Epoch: v.Ended.Epoch, Reason: "lost"})
}

// wait puts a waiter where the event that it waits for will find it.
func (r *Roster) wait(w *waiter, v *placement.Verdict, bound *worker) {
	switch v.Waiting {
	case placement.SessionWorker, placement.SessionInOrder:
		w.why = SessionWorker
		if bound != nil {
			r.park(w, bound)
			return
		}
	case placement.NoWorkerYet:
		w.why = NoWorkerYet
	case placement.Settling:
		w.why = Settling
	default:
		w.why = WorkersBusy
	}
	r.ready.remove(w)
	r.patient.push(w)
}

// manner says what the store has of a placement before its worker is told: all of it, nothing (direct), or its claim too (carried).
type manner struct{ direct, carried bool }

// assign decides a placement.
func (r *Roster) assign(w *waiter, v *placement.Verdict, m manner) {
	c, to := &w.candidate, r.workers[v.Worker]
	f := r.launch(messages.Placement{Execution: c.ID, Attempt: c.Attempt + 1}, to, w.line)
	f.epoch, f.takeBacks, f.timeout, f.repeats = v.Epoch, c.TakeBacks, c.Timeout, c.Idempotent
	f.miss, f.bind, f.ends, f.direct = v.Effect == placement.Miss, v.Binds(), v.Ended, m.direct
	r.unanswered++
	a := Assignment{ID: c.ID, Attempt: c.Attempt, Worker: v.Worker, WorkerID: v.WorkerID, Grade: to.seen.Grade, Direct: m.direct}
	if f.carried = m.carried; f.carried {
		a.Generation = to.seen.Generation
	}
	if c.Session != "" {
		a.Session = &SessionUse{
			Session: c.Session, Epoch: v.Epoch, Bind: f.bind, Lost: v.Told, Hit: !f.miss, Effect: v.Effect,
		}
	}
	b := r.batchOf(to)
	if m.direct {
		f.phase = publishing
		r.time(f, r.now.Add(r.config.ClaimTimeout))
		if len(b.placements) == 0 {
			r.direct = append(r.direct, b)
		}
		b.placements = append(b.placements, f.placement)
	} else {
		f.batch = b
		b.open++
	}
	r.assigned = append(r.assigned, a)
	r.settleFree(to)
	r.drop(w)
	if w.line != nil {
		r.stall(w.line, 0)
	}
}

// batchOf is the round's batch for a worker.
func (r *Roster) batchOf(w *worker) *batch {
	if w.batch == nil || w.batch.round != r.rounds {
		if n := len(r.spareBatches); n > 0 {
			w.batch, r.spareBatches = r.spareBatches[n-1], r.spareBatches[:n-1]
		} else {
			w.batch = &batch{}
		}
		w.batch.worker, w.batch.round = w, r.rounds
	}
	return w.batch
}

// Openings is how many executions would be accepted if they were offered now: one for each idle worker, where nothing waits, neither
// here nor, as far as is known, in the store.
func (r *Roster) Openings() int {
	if r.resigned || r.stands() || r.top || r.rest || r.loading || len(r.held) > 0 {
		return 0
	}
	return r.idle
}

// Idle is how many healthy workers have nothing on them, of those that what is offered may be given to.
func (r *Roster) Idle() int { return r.idle }

// offered accepts executions that are not stored yet, as far as there are openings.
func (r *Roster) offered(e *Offered) {
	if r.Openings() == 0 {
		return
	}
	r.rounds++
	for i := range e.Candidates {
		c := &e.Candidates[i]
		to, ok := r.table.Idle(r.config.Claims)
		if !ok || c.Session != "" || r.flights[c.ID] != nil {
			break
		}
		request, v := placement.RequestOf(c), placement.Verdict{Kind: placement.Place, Worker: to.Key, WorkerID: to.ID}
		r.table.Commit(&request, &v, r.now)
		r.assign(&waiter{candidate: *c}, &v, manner{carried: r.workers[to.Key].seen.Direct && !r.config.Claims.IsZero()})
	}
	if len(r.assigned) > 0 {
		r.emit(Accept{Assignments: r.assigned})
		r.assigned = nil
	}
}
