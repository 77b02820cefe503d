package sqlite

import (
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// The kinds of the deadline table.
const (
	deadlineQueue = iota + 1
	deadlineWorker
	deadlineStart
)

// marks are the rows of turn, busy, timer and deadline that an execution should have. A zero time or false means none.
type marks struct {
	turn      int64 // one of the turns; 0: none
	busy      bool
	timer     time.Time
	deadlines [3]time.Time // by kind - 1
}

func marksOf(r *record) marks {
	var m marks
	waiting := stage(r.Status) == stageWaiting
	m.turn = turnOf(r, waiting)
	m.busy = r.Session != "" && stage(r.Status) == stageActive
	if waiting && r.lane() == laneTimer {
		m.timer = r.RunAt
	}
	if r.Status <= messages.Scheduled {
		m.deadlines[deadlineQueue-1] = r.QueueDeadline
	}
	if waiting {
		m.deadlines[deadlineWorker-1] = r.WorkerDeadline
		if r.StartedAt.IsZero() {
			m.deadlines[deadlineStart-1] = r.FirstPlacedAt
		}
	}
	return m
}

// The turns. turn.fail stores the number less one.
const (
	turnStrict = iota + 1
	turnFail   // strict_fail
	turnHeld   // it was given back and keeps its place during its back-off
)

func turnOf(r *record, waiting bool) int64 {
	switch {
	case !waiting || !r.Strict():
		return 0
	case r.lane() == laneTimer && (r.Last == store.LastTakeBack || r.Last == store.LastRescue):
		return turnHeld
	case r.lane() != laneTurn:
		return 0
	case r.Affinity == messages.AffinityStrictFail:
		return turnFail
	}
	return turnStrict
}

// mark changes the marks of an execution from the stored ones to those of r.
func (w *writer) mark(from marks, r *record) error {
	to := marksOf(r)
	if from == to {
		return nil
	}
	if err := w.markSession(from, to, r); err != nil {
		return err
	}
	err := w.moveMark(from.timer, to.timer, "DELETE FROM timer WHERE pool = ? AND run_at = ? AND seq = ?",
		"INSERT INTO timer (pool, run_at, seq) VALUES (?, ?, ?)", r.Pool, r.Seq)
	if err != nil {
		return err
	}
	for i := range to.deadlines {
		err := w.moveMark(from.deadlines[i], to.deadlines[i], "DELETE FROM deadline WHERE kind = ? AND at = ? AND seq = ?",
			"INSERT INTO deadline (kind, at, seq) VALUES (?, ?, ?)", int64(i+1), r.Seq)
		if err != nil {
			return err
		}
	}
	return nil
}

// markSession updates turn and busy, and the session's head, which is derived from them.
func (w *writer) markSession(from, to marks, r *record) error {
	if from.turn == to.turn && from.busy == to.busy {
		return nil
	}
	var err error
	switch {
	case to.turn != 0 && to.turn != from.turn:
		err = w.exec("INSERT OR REPLACE INTO turn (pool, session, seq, priority, fail) VALUES (?, ?, ?, ?, ?)", r.Pool, r.Session, r.Seq,
			int64(r.Priority), to.turn-1)
	case from.turn != 0 && to.turn == 0:
		err = w.exec("DELETE FROM turn WHERE pool = ? AND session = ? AND seq = ?", r.Pool, r.Session, r.Seq)
	}
	if err != nil {
		return err
	}
	switch {
	case to.busy && !from.busy:
		err = w.exec("INSERT INTO busy (pool, session, seq) VALUES (?, ?, ?)", r.Pool, r.Session, r.Seq)
	case from.busy && !to.busy:
		err = w.exec("DELETE FROM busy WHERE pool = ? AND session = ? AND seq = ?", r.Pool, r.Session, r.Seq)
	}
	if err != nil {
		return err
	}
	return w.updateHead(r.Pool, r.Session)
}

const (
	headSet = `INSERT INTO head (pool, session, seq, priority) SELECT pool, session, seq, priority FROM (SELECT * FROM turn
 WHERE pool = ? AND session = ? ORDER BY seq LIMIT 1) WHERE fail < 2
 ON CONFLICT (pool, session) DO UPDATE SET seq = excluded.seq, priority = excluded.priority`
	headDelete = "DELETE FROM head WHERE pool = ? AND session = ?"
)

// updateHead derives the session's head from turn and busy, like store.Head: a busy session has none, and none if its first
// execution was given back and waits for its run_at.
func (w *writer) updateHead(pool, session string) error {
	busy, err := w.c.number("SELECT 1 FROM busy WHERE pool = ? AND session = ? LIMIT 1", pool, session)
	if err != nil {
		return err
	}
	if busy != 0 {
		return w.exec(headDelete, pool, session)
	}
	n, err := w.c.exec(headSet, pool, session)
	if err != nil || n > 0 {
		return err
	}
	return w.exec(headDelete, pool, session)
}

func (w *writer) moveMark(from, to time.Time, remove, add string, key any, seq int64) error {
	if from.Equal(to) {
		return nil
	}
	if !from.IsZero() {
		if err := w.exec(remove, key, micros(from), seq); err != nil {
			return err
		}
	}
	if to.IsZero() {
		return nil
	}
	return w.exec(add, key, micros(to), seq)
}
