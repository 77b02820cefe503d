package actors

import (
	"time"

	"github.com/troupe-run/troupe/store"
)

// leavingMax bounds the states of a leaving worker that are asked for and not yet written: each is held in memory, and
// the program answers only so many requests at once.
const leavingMax = 16

// lastStates keeps the states of a retiring worker's sessions before it ends, a few at a time. All of them together have the
// time that running work has when a node stops: a program may hold many sessions, and each takes as long as its code needs.
type lastStates struct {
	*workerShell
	flow     flow
	sessions *sessionStates
	missing  []store.SessionRef // not asked for
	asked    int                // asked for and not written
	begun    bool               // their time runs
	over     bool               // the worker ends without those that are missing
}

// lastStates is what keeps the worker's states as it leaves.
func (w *Worker) lastStates() *lastStates {
	if w.last == nil {
		w.last = &lastStates{workerShell: &w.workerShell, flow: w, sessions: &w.sessions}
	}
	return w.last
}

// keep asks for the states of the worker's sessions. Written: the last finish is. True: states are awaited.
func (l *lastStates) keep(within time.Duration, written bool) bool {
	if !l.sessions.keeps() {
		return false
	}
	if len(l.missing) > 0 && !l.begun {
		l.begun = true
		l.world.After(within, l.late)
	}
	if written && !l.sessions.saving {
		l.ask()
	}
	return l.open()
}

// open reports whether states are not yet kept.
func (l *lastStates) open() bool { return l.begun && (l.asked > 0 || len(l.missing) > 0) }

// ask asks for the next states.
func (l *lastStates) ask() {
	for l.asked < leavingMax && len(l.missing) > 0 {
		ref := l.missing[0]
		l.missing = l.missing[1:]
		if t := l.sessions.now(ref.Session, ref.Epoch); t != nil && t.owes {
			l.sessions.result(KeptRefused) // kept, it would count as all that had finished before the epoch
			continue
		}
		if l.runner.Snapshot(ref.Session, ref.Epoch, 0) {
			l.asked++
		} else {
			l.sessions.result(KeptRefused)
		}
	}
}

// snapshot takes the program's answer.
func (l *lastStates) snapshot(m *snapshot) {
	ref := store.SessionRef{Pool: l.cfg.PoolName, Session: m.session, Epoch: m.epoch}
	if t := l.sessions.now(m.session, m.epoch); t != nil {
		ref.Runs = t.runs
	}
	l.sessions.save(ref, m, l.saved)
}

func (l *lastStates) saved() {
	l.asked = max(l.asked-1, 0)
	l.flow.settle()
}

func (l *lastStates) late() {
	if !l.over && l.open() {
		l.drop("not answered in time")
		l.flow.settle()
	}
}

// forget lets go of sessions whose state is gone with their program.
func (l *lastStates) forget() { l.missing = nil }

// drop gives up the states that are still missing.
func (l *lastStates) drop(why string) {
	missing := l.asked + len(l.missing)
	l.cfg.Logger.Warn("session snapshots not kept, their sessions will be told that they are lost", "worker", l.id,
		"missing", missing, "reason", why)
	for range missing {
		l.sessions.result(KeptLate)
	}
	l.asked, l.missing = 0, nil
}
