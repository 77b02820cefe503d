package sqlite

import (
	"github.com/troupe-run/troupe/messages"
)

// staleEventsMax bounds the stale writes that are kept for one execution, so that a party that repeats without end
// cannot fill the store.
const staleEventsMax = 64

const insertEvent = `INSERT INTO execution_event (seq, at, attempt, kind, before, after, reason, worker, by) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`

// event stores a change of an execution. By is who asked for it; empty: nobody.
func (w *writer) event(kind string, r, next *record, reason, worker, by string) error {
	return w.exec(insertEvent, r.Seq, micros(w.now), int64(next.Attempt), kind, int64(r.Status), int64(next.Status), text(reason), text(worker), text(by))
}

// straightEvent stores a step of the straight path, where the configuration asks for it; its moments are columns
// anyway.
func (w *writer) straightEvent(kind string, r, next *record) error {
	if !w.s.cfg.EventsAll {
		return nil
	}
	return w.event(kind, r, next, "", string(next.WorkerID), "")
}

// staleEvent stores that a change met an execution that stands elsewhere.
func (w *writer) staleEvent(name string, attempt messages.Attempt, r *record) error {
	return w.exec(`INSERT INTO execution_event (seq, at, attempt, kind, before, after, reason, worker)
 SELECT ?1, ?2, ?3, 'stale_write', ?4, ?4, ?5, ?6
 WHERE (SELECT count(*) FROM (SELECT 1 FROM execution_event WHERE seq = ?1 AND kind = 'stale_write' LIMIT ?7)) < ?7`,
		r.Seq, micros(w.now), int64(attempt), int64(r.Status), text(name), text(r.WorkerID), int64(staleEventsMax))
}
