package sqlite

import (
	"context"

	"github.com/troupe-run/troupe/store"
)

const insertEvent = `INSERT INTO execution_event (seq, at, attempt, kind, before, after, reason, worker, by,
 incarnation, generation, run_at, scheduled_at, started_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// event stores an event of the execution with this seq.
func (w *writer) event(seq int64, v *store.Event) error {
	return w.exec(insertEvent, seq, micros(v.At), int64(v.Attempt), v.Kind, int64(v.From), int64(v.To), text(v.Reason), text(v.Worker), text(v.By),
		id16(v.Incarnation), orNull(int64(v.Generation)), orNull(micros(v.RunAt)), orNull(micros(v.ScheduledAt)),
		orNull(micros(v.StartedAt)))
}

// staleEvent stores the event of a stale change, up to the bound on such events.
func (w *writer) staleEvent(seq int64, v *store.Event) error {
	return w.boundedEvent(seq, v, store.StaleWritesMax)
}

// SaveLateFailure implements store.Executions.
func (s *Store) SaveLateFailure(ctx context.Context, f store.LateFailure) error {
	return s.write(ctx, "save late failure", 1, func(w *writer) error {
		r, err := w.record(f.Execution)
		if r == nil || err != nil {
			return err
		}
		return w.boundedEvent(r.Seq, &store.Event{
			At: w.now, Attempt: f.Attempt, Kind: store.LateFailureKind, From: r.Status, Reason: f.Reason, Worker: string(f.Worker),
		}, store.LateFailuresMax)
	})
}

// boundedEvent stores an event that leaves the status as it is, up to so many of its kind.
func (w *writer) boundedEvent(seq int64, v *store.Event, most int) error {
	return w.exec(`INSERT INTO execution_event (seq, at, attempt, kind, before, after, reason, worker)
 SELECT ?1, ?2, ?3, ?8, ?4, ?4, ?5, ?6
 WHERE (SELECT count(*) FROM (SELECT 1 FROM execution_event WHERE seq = ?1 AND kind = ?8 LIMIT ?7)) < ?7`,
		seq, micros(v.At), int64(v.Attempt), int64(v.From), text(v.Reason), text(v.Worker), int64(most), v.Kind)
}
