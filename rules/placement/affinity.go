package placement

import (
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Lookup is the answer to whom a session is bound.
type Lookup uint8

// The answers.
const (
	NoAffinity     Lookup = iota // the session has no binding
	Bound                        // it has
	SessionExpired               // it had one, which had idled out and is gone now
)

// Worker returns the worker that a session is bound to. A binding that has idled out is deleted.
func (t *Table) Worker(name string, now time.Time) (messages.WorkerKey, Lookup) {
	s, ok := t.sessions[name]
	switch {
	case !ok || !s.bound():
		return messages.WorkerKey{}, NoAffinity
	case t.idle(s, now):
		t.end(s, IdledOut, now)
		return messages.WorkerKey{}, SessionExpired
	}
	return s.Worker, Bound
}

// Session returns what is known of a session, bound or remembered.
func (t *Table) Session(name string) (Session, bool) {
	s, ok := t.sessions[name]
	if !ok {
		return Session{}, false
	}
	return s.Session, true
}

// Sessions returns how many sessions are bound, and how many are remembered without a binding.
func (t *Table) Sessions() (bound, ended int) { return t.bound.len, t.ended.len }

// Bind binds a session to a worker with a new epoch, which it returns with the binding that ended for it, if any. A
// session that is bound to that worker already keeps its epoch.
func (t *Table) Bind(name string, worker messages.WorkerKey, now time.Time) (epoch int64, ended Ended) {
	s, ok := t.sessions[name]
	if !ok {
		s = &session{Session: Session{Name: name}}
		t.sessions[name] = s
		t.ended.push(s)
	}
	if s.bound() {
		if s.Worker == worker {
			t.touch(s, now)
			return s.Epoch, Ended{}
		}
		ended = t.end(s, NotLost, now)
	}
	t.ended.remove(s)
	s.Worker, s.Left, s.Touched = worker, messages.WorkerKey{}, now
	s.Epoch++
	s.InFlight, s.Restored, s.Loss = 0, false, NotLost
	s.attach(t.node(worker))
	t.bound.push(s)
	return s.Epoch, ended
}

// Load puts a session as the store has it into the table, in place of what was known of it. Load them in the order of
// Touched: one that is loaded out of order idles out late, by no more than another session timeout.
func (t *Table) Load(in Session) {
	if s, ok := t.sessions[in.Name]; ok {
		t.drop(s)
	}
	s := &session{Session: in}
	if in.Finished > 0 {
		s.began(in.Finished)
	}
	t.sessions[in.Name] = s
	if !s.bound() {
		t.ended.push(s)
		return
	}
	s.attach(t.node(in.Worker))
	t.bound.push(s)
}

// Unbind ends a session's binding because its caller said so; false: it has none.
func (t *Table) Unbind(name string, now time.Time) (Ended, bool) {
	s, ok := t.sessions[name]
	if !ok || !s.bound() {
		return Ended{}, false
	}
	return t.end(s, NotLost, now), true
}

// UnbindWorker ends every binding to a worker, because its process goes away, and returns them.
func (t *Table) UnbindWorker(key messages.WorkerKey, now time.Time) []Ended {
	n, ok := t.workers[key]
	if !ok {
		return nil
	}
	var all []Ended
	for n.sessions != nil {
		all = append(all, t.end(n.sessions, WorkerGone, now))
	}
	return all
}

// Touch says that a session was used.
func (t *Table) Touch(name string, now time.Time) {
	if s, ok := t.sessions[name]; ok && s.bound() {
		t.touch(s, now)
	}
}

// Finished says that an execution of the session ended after it ran on the bound worker in the epoch. One of an older
// epoch changes nothing but the record of what finished.
func (t *Table) Finished(name string, epoch int64, now time.Time) {
	s, ok := t.sessions[name]
	if !ok {
		return
	}
	s.began(epoch)
	s.Finished = max(s.Finished, min(epoch, s.Epoch))
	t.leave(s, epoch, now)
}

// Began says that an execution may have begun with the session's state.
func (t *Table) Began(name string, epoch int64) {
	if s, ok := t.sessions[name]; ok && epoch > 0 {
		s.began(epoch)
	}
}

// TakenBack says that an execution of the session left the bound worker without having finished there.
func (t *Table) TakenBack(name string, epoch int64, now time.Time) {
	if s, ok := t.sessions[name]; ok {
		t.leave(s, epoch, now)
	}
}

// Restored says that a snapshot was restored in the epoch, so that nothing was lost with the one before.
func (t *Table) Restored(name string, epoch int64) {
	if s, ok := t.sessions[name]; ok && s.Epoch == epoch {
		s.Restored = true
	}
}

// Sweep ends the bindings that have idled out, and forgets sessions that ended too long ago or too many ago. It looks
// at no more than limit of each; more says that it stopped there. The ended bindings are returned, to be counted, and
// their workers told.
func (t *Table) Sweep(now time.Time, limit int) (expired []Ended, more bool) {
	seen := 0
	for s := t.bound.head; s != nil && now.Sub(s.Touched) >= t.config.SessionTimeout; s = t.bound.head {
		if seen++; seen > limit {
			more = true
			break
		}
		if s.InFlight > 0 {
			t.touch(s, now) // it is in use, however long
			continue
		}
		expired = append(expired, t.end(s, IdledOut, now))
	}
	for seen = 0; t.ended.head != nil && t.forgettable(t.ended.head, now); {
		if seen++; seen > limit {
			return expired, true
		}
		t.drop(t.ended.head)
	}
	return expired, more
}

func (t *Table) forgettable(s *session, now time.Time) bool {
	return t.ended.len > t.config.SessionMemory || now.Sub(s.Touched) >= t.config.SessionRetain
}

func (t *Table) idle(s *session, now time.Time) bool {
	return s.InFlight == 0 && now.Sub(s.Touched) >= t.config.SessionTimeout
}

func (t *Table) touch(s *session, now time.Time) {
	s.Touched = now
	if t.bound.tail != s {
		t.bound.remove(s)
		t.bound.push(s)
	}
}

func (t *Table) leave(s *session, epoch int64, now time.Time) {
	if s.Epoch != epoch || !s.bound() {
		return
	}
	s.InFlight = max(s.InFlight-1, 0)
	t.touch(s, now)
}

// end takes a session's binding away and remembers its epoch.
func (t *Table) end(s *session, loss Loss, now time.Time) Ended {
	ended := Ended{Session: s.Name, Worker: s.Worker, Epoch: s.Epoch}
	t.unlink(s)
	s.Worker, s.Left, s.InFlight, s.Loss, s.Touched = messages.WorkerKey{}, s.Worker, 0, loss, now
	t.ended.push(s)
	return ended
}

// drop forgets a session altogether.
func (t *Table) drop(s *session) {
	if s.bound() {
		t.unlink(s)
	} else {
		t.ended.remove(s)
	}
	delete(t.sessions, s.Name)
}

// unlink takes a bound session out of its order and off its worker, and forgets a worker that only bindings knew.
func (t *Table) unlink(s *session) {
	n := s.node
	t.bound.remove(s)
	s.detach()
	if !n.known && n.sessions == nil {
		delete(t.workers, n.Key)
	}
}
