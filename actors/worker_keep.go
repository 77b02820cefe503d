package actors

import (
	"context"
	"encoding/json"
	"time"

	"github.com/asynkron/protoactor-go/actor"

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
	saveWithin       = 5 * time.Second
	// leavingMax bounds the states of a leaving worker that are asked for and not yet written: each is held in memory, and
	// the program answers only so many requests at once.
	leavingMax = 16
)

// The results of troupe_session_snapshots_total.
const (
	KeptSaved    = "saved"
	KeptEmpty    = "empty"     // the program holds nothing of the session
	KeptRefused  = "refused"   // the program gave none
	KeptLate     = "late"      // it, or the finish before it, took too long
	KeptTooLarge = "too_large" // more than may be kept
	KeptBusy     = "busy"      // the one before is still being written
	KeptFailed   = "failed"    // the store did not take it
)

// knownSession is what a worker knows of a session that runs on it.
type knownSession struct {
	epoch   int64
	entered bool  // its code has been given a run: its state is here
	runs    int64 // that left their state here, and are written
	since   int   // of them, since a snapshot was last asked for
}

// keepPause is the time between two runs in which a session's state is kept. No run begins in it.
type keepPause struct {
	id        uint64
	placement messages.Placement // of the run before, whose finish is written first
	ref       store.SessionRef
	asked     bool
	timer     *time.Timer
}

// Messages to the worker itself.
type (
	// pauseOver says that the next run has been held up long enough.
	pauseOver struct{ id uint64 }
	// pauseSaved says that what was taken in a pause has been written, or could not be.
	pauseSaved struct{}
	// snapshotSaved says that one session's state of a leaving worker has been written, or could not be.
	snapshotSaved struct{}
	// snapshotLate says that a leaving worker has waited long enough for its sessions' states.
	snapshotLate struct{}
)

// keeps reports whether the worker can give the state of its sessions away.
func (w *Worker) keeps() bool { return w.cfg.Sessions != nil && w.runner.Traits().Snapshots }

// known returns the count of a session's epoch, made where it is new; nil: there are too many, or a newer epoch is known.
func (w *Worker) known(session string, epoch int64) *knownSession {
	t := w.knownSessions[session]
	switch {
	case t != nil && t.epoch == epoch:
		return t
	case t != nil && t.epoch > epoch, t == nil && len(w.knownSessions) >= knownSessionsMax:
		return nil
	}
	if w.knownSessions == nil {
		w.knownSessions = map[string]*knownSession{}
	}
	t = &knownSession{epoch: epoch}
	w.knownSessions[session] = t
	return t
}

// startRun gives the run to the runner.
func (w *Worker) startRun(r *Run) {
	if t := w.knownOf(r.Execution); t != nil {
		t.entered = true
	}
	w.runner.Run(r)
}

// knownOf is what is known of the session of an execution that runs with its session's state; nil: it does not, or none is kept.
func (w *Worker) knownOf(e *messages.Execution) *knownSession {
	if e.Session == "" || e.SessionEpoch == 0 || !e.SessionHit || !w.keeps() {
		return nil
	}
	return w.known(e.Session, e.SessionEpoch)
}

// forgetSession forgets what is known of a session that has ended.
func (w *Worker) forgetSession(m *EndSession) {
	if t := w.knownSessions[m.Session]; t != nil && t.epoch <= m.Epoch {
		delete(w.knownSessions, m.Session)
	}
	w.runner.EndSession(m.Session, m.Epoch)
}

// leftState names the session whose state a run has left with the worker, so that its written finish is counted, and
// opens the pause in which that state is kept where it is due.
func (w *Worker) leftState(r *Run, m *ended, item *Item) {
	e := r.Execution
	finish, ok := item.Change.(*store.Finish)
	t := w.knownOf(e)
	if !ok || t == nil || !store.Leaves(finish.Outcome.Status) || m.crashed != "" {
		return
	}
	item.Session = store.SessionRef{Pool: w.cfg.PoolName, Session: e.Session, Epoch: e.SessionEpoch}
	if every := w.cfg.SnapshotEvery; every > 0 && t.since+1 >= every && w.pause == nil && !m.close {
		w.pauses++
		w.pause = &keepPause{id: w.pauses, placement: r.Placement(), ref: item.Session, timer: w.later(w.cfg.KeepWithin, &pauseOver{id: w.pauses})}
	}
}

// finishWritten counts a run that left its session's state here, and asks for that state where a pause waits for it.
func (w *Worker) finishWritten(item *Item, r store.Result) {
	finish, ok := item.Change.(*store.Finish)
	if !ok || item.Session.Session == "" {
		return
	}
	written := r.Verdict == store.Applied || r.Verdict == store.Already
	t := w.knownSessions[item.Session.Session]
	if written && t != nil && t.epoch == item.Session.Epoch {
		t.runs++
		t.since++
	}
	if g := w.pause; g != nil && g.placement == (messages.Placement{Execution: finish.ID, Attempt: finish.Attempt}) {
		if !written || t == nil {
			w.endPause()
			return
		}
		w.keepNow(g, t)
	}
}

// keepNow asks the program for the state that the session has after the run that was just written.
func (w *Worker) keepNow(g *keepPause, t *knownSession) {
	if w.saving {
		w.keptAs(KeptBusy)
		w.endPause()
		return
	}
	t.since = 0
	g.asked, g.ref.Runs = true, t.runs
	if !w.runner.Snapshot(g.ref.Session, g.ref.Epoch, g.id) {
		w.keptAs(KeptRefused)
		w.endPause()
	}
}

// endPause lets the next run begin. The caller sees to it.
func (w *Worker) endPause() {
	if w.pause != nil {
		stopTimer(w.pause.timer)
		w.pause = nil
	}
}

// pauseOver gives a snapshot up that holds the next run for too long.
func (w *Worker) pauseOver(m *pauseOver) {
	if w.pause == nil || w.pause.id != m.id {
		return
	}
	if t := w.knownSessions[w.pause.ref.Session]; t != nil && t.epoch == w.pause.ref.Epoch {
		t.since = 0
	}
	w.cfg.Logger.Warn("session snapshot dropped: it held the next run up", "worker", w.id, "session", w.pause.ref.Session,
		"after", w.cfg.KeepWithin)
	w.keptAs(KeptLate)
	w.endPause()
	w.next(nil)
}

func (w *Worker) keptAs(result string) {
	if w.cfg.Snapshots != nil {
		w.cfg.Snapshots(w.cfg.PoolName, result)
	}
}

// snapshot takes the program's answer: for the pause that asked, or for the worker's end.
func (w *Worker) snapshot(_ actor.Context, m *snapshot) {
	var done any = &snapshotSaved{}
	ref := store.SessionRef{Pool: w.cfg.PoolName, Session: m.session, Epoch: m.epoch}
	if m.id != 0 {
		if w.pause == nil || w.pause.id != m.id {
			return // too late, and counted
		}
		done, ref = &pauseSaved{}, w.pause.ref
		w.endPause()
		defer w.next(nil)
	} else if t := w.knownSessions[m.session]; t != nil && t.epoch == m.epoch {
		ref.Runs = t.runs
	}
	result := w.judgeState(m)
	if result != KeptSaved {
		w.keptAs(result)
		w.post(done)
		return
	}
	w.saving = w.saving || m.id != 0
	w.save(ref, m.state, done)
}

// judgeState says whether a state is to be saved, and if not, what to count it as.
func (w *Worker) judgeState(m *snapshot) string {
	switch {
	case m.err != nil:
		w.cfg.Logger.Warn("session snapshot refused", "worker", w.id, "session", m.session, "error", m.err)
		return KeptRefused
	case string(m.state) == "null": // it holds nothing of the session, so an older snapshot stays the newest
		return KeptEmpty
	case m.id != 0 && len(m.state) > keepMax:
		w.cfg.Logger.Warn("session snapshot dropped: it is too large", "worker", w.id, "session", m.session,
			"bytes", len(m.state), "limit", keepMax)
		return KeptTooLarge
	}
	return KeptSaved
}

// save writes a state beside the actor.
func (w *Worker) save(ref store.SessionRef, state json.RawMessage, done any) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), saveWithin)
		defer cancel()
		result := KeptSaved
		if err := w.cfg.Sessions.SaveSnapshot(ctx, ref, state); err != nil {
			result = KeptFailed
			w.cfg.Logger.Warn("session snapshot not stored", "worker", w.id, "session", ref.Session, "error", err)
		}
		w.keptAs(result)
		w.post(done)
	}()
}

// keepSessions asks for the states of the retiring worker's sessions, a few at a time, once the last finish is written.
// True: answers are awaited. All of them together have the time that running work has when a node stops: a program may
// hold many sessions, and each takes as long as its code needs.
func (w *Worker) keepSessions() bool {
	if !w.keeps() {
		return false
	}
	if len(w.retire.Sessions) > 0 && !w.parting {
		w.parting = true
		w.later(w.keepTime(), &snapshotLate{})
	}
	if w.writing == 0 && !w.saving {
		w.askSnapshots()
	}
	return w.snapshots > 0 || len(w.retire.Sessions) > 0
}

// keepTime bounds the time that a leaving worker keeps its sessions' states in. Where its run had to be stopped, the time
// for running work is up already.
func (w *Worker) keepTime() time.Duration {
	if w.retire.halted {
		return w.cfg.ProbeTimeout
	}
	return max(w.cfg.LeaveWithin, w.cfg.ProbeTimeout)
}

// askSnapshots asks for the next states.
func (w *Worker) askSnapshots() {
	for w.snapshots < leavingMax && len(w.retire.Sessions) > 0 {
		ref := w.retire.Sessions[0]
		w.retire.Sessions = w.retire.Sessions[1:]
		if w.runner.Snapshot(ref.Session, ref.Epoch, 0) {
			w.snapshots++
		} else {
			w.keptAs(KeptRefused)
		}
	}
}

func (w *Worker) snapshotSaved(ctx actor.Context) {
	if w.snapshots > 0 {
		w.snapshots--
	}
	w.settle(ctx)
}

func (w *Worker) pauseSaved(ctx actor.Context) {
	w.saving = false
	if w.retire != nil {
		w.settle(ctx)
	}
}

func (w *Worker) snapshotsLate(ctx actor.Context) {
	if w.retire == nil || w.leaving != nil || !w.awaitsSnapshots() {
		return
	}
	w.dropSnapshots("not answered in time")
	w.settle(ctx)
}

// awaitsSnapshots reports whether states of the leaving worker's sessions are not yet kept.
func (w *Worker) awaitsSnapshots() bool {
	return w.parting && (w.snapshots > 0 || len(w.retire.Sessions) > 0)
}

// dropSnapshots gives up the states that are still missing.
func (w *Worker) dropSnapshots(why string) {
	missing := w.snapshots + len(w.retire.Sessions)
	w.cfg.Logger.Warn("session snapshots not kept, their sessions will be told that they are lost", "worker", w.id,
		"missing", missing, "reason", why)
	for range missing {
		w.keptAs(KeptLate)
	}
	w.snapshots, w.retire.Sessions = 0, nil
}
