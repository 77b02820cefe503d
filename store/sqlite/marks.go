package sqlite

import (
	"time"

	"github.com/troupe-run/troupe/messages"
)

// The kinds of the deadline table.
const (
	deadlineQueue = iota + 1
	deadlineWorker
	deadlineStart
)

// marks are the rows of turn, timer and deadline that an execution should have: zero moments and false mean none.
type marks struct {
	turn      bool
	timer     time.Time
	deadlines [3]time.Time // by kind - 1
}

func marksOf(r *record) marks {
	var m marks
	if r == nil {
		return m
	}
	waiting := stage(r.Status) == stageWaiting
	m.turn = waiting && r.lane == laneTurn
	if waiting && r.lane == laneTimer {
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

// mark brings the marks of an execution from those of old to those of r.
func (w *writer) mark(old, r *record) error {
	from, to := marksOf(old), marksOf(r)
	if from == to {
		return nil
	}
	if from.turn != to.turn {
		sql := "DELETE FROM turn WHERE pool = ? AND session = ? AND seq = ?"
		if to.turn {
			sql = "INSERT INTO turn (pool, session, seq) VALUES (?, ?, ?)"
		}
		if err := w.exec(sql, r.Pool, r.Session, r.Seq); err != nil {
			return err
		}
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
