package placement

import (
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Pick says where an execution goes now. It changes nothing but the session's last use, which waiting for the
// bound worker counts as; Commit takes a verdict up. It allocates nothing.
func (t *Table) Pick(r *Request, now time.Time) Verdict {
	if r.Session == "" {
		return t.place(r, now, Verdict{})
	}
	s := t.sessions[r.Session]
	switch {
	case s == nil:
		return t.place(r, now, Verdict{Effect: Opened, Epoch: 1})
	case !s.bound():
		return t.rebind(r, s, s.Loss, now)
	case t.idle(s, now):
		return t.rebind(r, s, IdledOut, now)
	case !s.node.present() && s.InFlight == 0 && t.settled:
		return t.rebind(r, s, WorkerGone, now)
	case s.node.free() && (s.InFlight == 0 || r.Affinity == messages.AffinityHint):
		return t.hit(r, s)
	}
	return t.missed(r, s, now)
}

// hit places the execution on its session's worker.
func (t *Table) hit(r *Request, s *session) Verdict {
	return Verdict{
		Kind: Place, Worker: s.node.Key, WorkerID: s.node.ID,
		Effect: Hit, Epoch: s.Epoch, Told: s.told(r),
	}
}

// missed judges an execution whose session's worker lives, for all that is known, and is not free for it.
func (t *Table) missed(r *Request, s *session, now time.Time) Verdict {
	if r.Affinity == messages.AffinityHint {
		return t.place(r, now, Verdict{Effect: Miss, Epoch: s.Epoch, Told: s.told(r)})
	}
	if r.Affinity == messages.AffinityStrictFail {
		if !s.node.present() && s.InFlight == 0 { // not busy: gone, or not seen yet, which nobody can tell before the table settles
			return Verdict{Kind: Wait, Waiting: SessionWorker}
		}
		return Verdict{Kind: Fail, Code: messages.CodeSessionBusy, Text: TextSessionBusy}
	}
	if s.node.Tier.keeps() {
		t.touch(s, now)
	}
	if s.InFlight > 0 {
		return Verdict{Kind: Wait, Waiting: SessionInOrder}
	}
	return Verdict{Kind: Wait, Waiting: SessionWorker}
}

// rebind judges an execution whose session has no live binding and had one: it is told of the loss, unless nothing has
// begun yet that could have made a state.
func (t *Table) rebind(r *Request, s *session, loss Loss, now time.Time) Verdict {
	begun := s.started(r) > 0
	v := Verdict{Effect: Opened, Epoch: s.Epoch + 1, Told: begun}
	if s.bound() {
		v.Ended = Ended{Session: s.Name, Worker: s.Worker, Epoch: s.Epoch}
	}
	if !begun {
		loss = NotLost
	}
	code, text := messages.CodeSessionLost, TextSessionLost
	switch loss {
	case WorkerGone:
		v.Effect = Lost
	case IdledOut:
		v.Effect, code, text = Expired, messages.CodeSessionExpired, TextSessionExpired
	}
	if loss != NotLost && r.Affinity == messages.AffinityStrictFail {
		v.Kind, v.Code, v.Text = Fail, code, text
		v.Epoch, v.Told = 0, false
		return v
	}
	return t.place(r, now, v)
}

// place puts the execution on the best free worker, with what v says of its session; without a free worker the
// session stays as it is.
func (t *Table) place(r *Request, now time.Time, v Verdict) Verdict {
	if n := t.best(r.Avoid); n != nil {
		v.Kind, v.Worker, v.WorkerID = Place, n.Key, n.ID
		return v
	}
	switch {
	case t.present > 0:
		return Verdict{Kind: Wait, Waiting: WorkersBusy}
	case r.WaitForWorker && (r.WorkerDeadline.IsZero() || now.Before(r.WorkerDeadline)):
		return Verdict{Kind: Wait, Waiting: NoWorkerYet}
	case !t.settled:
		return Verdict{Kind: Wait, Waiting: Settling}
	case t.known > 0:
		return Verdict{Kind: Fail, Code: messages.CodeNoWorkers, Text: TextNoFreshWorkers}
	}
	return Verdict{Kind: Fail, Code: messages.CodeNoWorkers, Text: TextNoWorkers}
}

// Commit takes up the verdict that Pick has just given for the request: the worker is one deeper, the session bound
// or in use, a told loss told. A verdict to wait changes nothing.
func (t *Table) Commit(r *Request, v *Verdict, now time.Time) {
	switch v.Kind {
	case Place:
		t.occupy(v.Worker)
		t.follow(r, v, now)
	case Fail:
		if v.Effect == Lost || v.Effect == Expired {
			t.forgive(r.Session, now)
		}
	}
}

// Undo takes back what Commit did with a verdict to place that did not come about. A binding it made stays, for
// the session has to run somewhere.
func (t *Table) Undo(r *Request, v *Verdict, now time.Time) {
	if v.Kind != Place {
		return
	}
	t.Release(v.Worker)
	if v.Effect != Miss && r.Session != "" {
		t.TakenBack(r.Session, v.Epoch, now)
	}
}

func (t *Table) occupy(key messages.WorkerKey) {
	n := t.workers[key]
	if n == nil {
		return
	}
	w := n.Worker
	w.Depth++
	t.use(n)
	t.change(n, w)
}

func (t *Table) follow(r *Request, v *Verdict, now time.Time) {
	if r.Session == "" || v.Effect == Miss {
		return
	}
	if v.Binds() {
		if s := t.sessions[r.Session]; s != nil && s.bound() {
			t.end(s, NotLost, now) // even where the same worker takes it again: its epoch is new
		}
		t.Bind(r.Session, v.Worker, now)
	}
	if s := t.sessions[r.Session]; s != nil {
		s.InFlight++
		t.touch(s, now)
	}
}

// forgive ends what is left of a lost binding and notes that the loss was told.
func (t *Table) forgive(name string, now time.Time) {
	s := t.sessions[name]
	if s == nil {
		return
	}
	if s.bound() {
		t.end(s, NotLost, now)
	}
	s.Loss = NotLost
}
