package actors

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// A worker keeps its sessions' states at its end, and, where the pool says so, after every so many runs of a session.
// The mark of a state is how many runs are in it: of those that the store has counted in the session's present epoch. An
// epoch lives on one generation of one worker, so that worker's count of the finishes that were written is the store's.

const (
	// keepMax bounds the state that is kept between two runs, in bytes.
	keepMax = messages.ResultMax
	// knownSessionsMax bounds the sessions whose runs a worker counts. Of others it keeps no state between two runs, and what is
	// kept at its end counts as behind.
	knownSessionsMax = 10_000
	saveWithin       = 5 * time.Second // of a state
)

// The results of troupe_session_snapshots_total.
const (
	KeptSaved    = "saved"
	KeptEmpty    = "empty"     // the program holds nothing of the session
	KeptRefused  = "refused"   // the program gave none, or none was asked of it, because it would hide a loss
	KeptLate     = "late"      // it, or the finish before it, took too long
	KeptTooLarge = "too_large" // more than may be kept
	KeptBusy     = "busy"      // the one before is still being written
	KeptFailed   = "failed"    // the store did not take it
)

// knownSession is what a worker knows of a session that runs on it.
type knownSession struct {
	epoch   int64
	entered bool               // its code has been given a run: its state is here
	by      messages.Placement // the run that has entered it
	owes    bool               // that run is told of a loss, and so is every later one until one has finished
	runs    int64              // that left their state here, and are written
	since   int                // of them, since a snapshot was last asked for
}

// keepPause is the time between two runs in which a session's state is kept. No run begins in it.
type keepPause struct {
	id        uint64
	placement messages.Placement // of the run before, whose finish is written first
	ref       store.SessionRef
	timer     Timer
}

// sessionStates is what a worker knows of the sessions that run on it, and the pause between two runs in which a session's
// state is kept.
type sessionStates struct {
	*workerShell
	flow   flow
	known  map[string]*knownSession
	pause  *keepPause
	pauses uint64 // how many there were
	saving bool   // what a pause brought is being written
}

// keeps reports whether the worker can give the state of its sessions away.
func (s *sessionStates) keeps() bool { return s.cfg.Sessions != nil && s.runner.Traits().Snapshots }

// count returns what is known of a session's epoch, made where it is new; nil: there are too many, or a newer epoch is known.
func (s *sessionStates) count(session string, epoch int64) *knownSession {
	t := s.known[session]
	switch {
	case t != nil && t.epoch == epoch:
		return t
	case t != nil && t.epoch > epoch, t == nil && len(s.known) >= knownSessionsMax:
		return nil
	}
	if s.known == nil {
		s.known = map[string]*knownSession{}
	}
	t = &knownSession{epoch: epoch}
	s.known[session] = t
	return t
}

// of is what is known of the session of an execution that runs with its session's state; nil: it does not, or none is kept.
func (s *sessionStates) of(e *messages.Execution) *knownSession {
	if e.Session == "" || e.SessionEpoch == 0 || !e.SessionHit || !s.keeps() {
		return nil
	}
	return s.count(e.Session, e.SessionEpoch)
}

// now is what is known of a session where the epoch is its present one; nil: it is not.
func (s *sessionStates) now(session string, epoch int64) *knownSession {
	if t := s.known[session]; t != nil && t.epoch == epoch {
		return t
	}
	return nil
}

// lacks implements restorer.
func (s *sessionStates) lacks(e *messages.Execution) bool {
	t := s.of(e)
	return s.keeps() && (t == nil || !t.entered)
}

// entered implements restorer.
func (s *sessionStates) entered(e *messages.Execution) {
	if t := s.of(e); t != nil && !t.entered {
		t.entered, t.by, t.owes = true, e.Placement(), e.SessionLost
	}
}

// forget forgets what is known of a session that has ended, and has the worker's code drop it.
func (s *sessionStates) forget(m *EndSession) {
	if t := s.known[m.Session]; t != nil && t.epoch <= m.Epoch {
		delete(s.known, m.Session)
	}
	s.runner.EndSession(m.Session, m.Epoch)
}

// left names the session whose state a run has left with the worker, so that its written finish is counted, and opens the
// pause in which that state is kept where it is due.
func (s *sessionStates) left(r *Run, m *ended, item *Item) {
	e := r.Execution
	finish, ok := item.Change.(*store.Finish)
	t := s.of(e)
	if t != nil && m.restored {
		t.owes = false // nothing was lost
	}
	if t != nil && m.neverRan && t.by == r.Placement() {
		t.entered, t.owes = false, false // the next run is the first one
	}
	if !ok || t == nil || !store.LeavesState(finish.Outcome.Status) || finish.NeverRan || m.crashed != "" {
		return
	}
	item.Session = store.SessionRef{Pool: s.cfg.PoolName, Session: e.Session, Epoch: e.SessionEpoch}
	if every := s.cfg.SnapshotEvery; every > 0 && t.since+1 >= every && s.pause == nil && !m.close {
		s.pauses++
		p := &keepPause{id: s.pauses, placement: r.Placement(), ref: item.Session}
		p.timer = s.world.After(s.cfg.KeepWithin, func() { s.pauseOver(p) })
		s.pause = p
	}
}

// written counts a run that left its session's state here, and asks for that state where a pause waits for it.
func (s *sessionStates) written(item *Item, r store.Result) {
	finish, ok := item.Change.(*store.Finish)
	if !ok || item.Session.Session == "" {
		return
	}
	written := r.Verdict == store.Applied || r.Verdict == store.Already
	t := s.known[item.Session.Session]
	if written && t != nil && t.epoch == item.Session.Epoch {
		t.runs++
		t.since++
		t.owes = false
	}
	if p := s.pause; p != nil && p.placement == (messages.Placement{Execution: finish.ID, Attempt: finish.Attempt}) {
		if !written || t == nil {
			s.endPause()
			return
		}
		s.ask(p, t)
	}
}

// ask asks the program for the state that the session has after the run that was just written.
func (s *sessionStates) ask(p *keepPause, t *knownSession) {
	if s.saving {
		s.result(KeptBusy)
		s.endPause()
		return
	}
	t.since = 0
	p.ref.Runs = t.runs
	if !s.runner.Snapshot(p.ref.Session, p.ref.Epoch, p.id) {
		s.result(KeptRefused)
		s.endPause()
	}
}

// endPause lets the next run begin. The caller sees to it.
func (s *sessionStates) endPause() {
	if s.pause != nil {
		stopTimer(s.pause.timer)
		s.pause = nil
	}
}

// pauseOver gives a snapshot up that holds the next run for too long.
func (s *sessionStates) pauseOver(p *keepPause) {
	if s.pause != p {
		return
	}
	if t := s.now(p.ref.Session, p.ref.Epoch); t != nil {
		t.since = 0
	}
	s.cfg.Logger.Warn("session snapshot dropped: it held the next run up", "worker", s.id, "session", p.ref.Session,
		"after", s.cfg.KeepWithin)
	s.result(KeptLate)
	s.endPause()
	s.flow.next(nil)
}

// result counts what became of a snapshot.
func (s *sessionStates) result(result string) {
	if s.cfg.Snapshots != nil {
		s.cfg.Snapshots(s.cfg.PoolName, result)
	}
}

// snapshot takes the program's answer for the pause that asked.
func (s *sessionStates) snapshot(m *snapshot) {
	p := s.pause
	if p == nil || p.id != m.id {
		return // too late, and counted
	}
	s.endPause()
	s.saving = s.save(p.ref, m, func() {
		s.saving = false
		s.flow.settle()
	})
	s.flow.next(nil)
}

// save writes a state beside the actor, where it is to be saved, and then does what follows. False: it is not saved.
func (s *sessionStates) save(ref store.SessionRef, m *snapshot, then func()) bool {
	result := s.verdict(m)
	if result != KeptSaved {
		s.result(result)
		s.world.After(0, then)
		return false
	}
	s.world.Beside(0, func(ctx context.Context) func() {
		// A worker may end before what it has said is written.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveWithin)
		defer cancel()
		result := KeptSaved
		if err := s.cfg.Sessions.SaveSnapshot(ctx, ref, m.state); err != nil {
			result = KeptFailed
			s.cfg.Logger.Warn("session snapshot not stored", "worker", s.id, "session", ref.Session, "error", err)
		}
		s.result(result)
		return then
	})
	return true
}

// verdict says whether a state is to be saved, and if not, what to count it as.
func (s *sessionStates) verdict(m *snapshot) string {
	result := stateVerdict(m)
	switch result {
	case KeptRefused:
		s.cfg.Logger.Warn("session snapshot refused", "worker", s.id, "session", m.session, "error", m.err)
	case KeptTooLarge:
		s.cfg.Logger.Warn("session snapshot dropped: it is too large", "worker", s.id, "session", m.session,
			"bytes", len(m.state), "limit", keepMax)
	}
	return result
}

// stateVerdict judges a program's answer: only what a pause asked for has a bound beside the store's.
func stateVerdict(m *snapshot) string {
	switch {
	case m.err != nil:
		return KeptRefused
	case string(m.state) == "null": // it holds nothing of the session, so an older snapshot stays the newest
		return KeptEmpty
	case m.id != 0 && len(m.state) > keepMax:
		return KeptTooLarge
	}
	return KeptSaved
}
