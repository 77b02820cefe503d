package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

const workerColumns = `SELECT w.incarnation, w.pool, w.slot, w.id, w.generation, w.runtime, w.state, w.health, w.active, w.cordoned,
 w.beat_at, w.beat_every, w.capabilities, w.since FROM worker w`

// SaveWorkers inserts or replaces rows by key, all or none. Workers of a node that is not active are stored as inactive.
func (s *Store) SaveWorkers(ctx context.Context, workers []store.Worker) error {
	return s.write(ctx, "save workers", len(workers), func(w *writer) error {
		for i := range workers {
			k := &workers[i]
			err := w.exec(`INSERT OR REPLACE INTO worker (incarnation, pool, slot, id, generation, runtime, state, health, active, cordoned,
 beat_at, beat_every, capabilities, since) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8,
 ?9 AND NOT EXISTS (SELECT 1 FROM node WHERE incarnation = ?1 AND state <> 'active'), ?10, ?11, ?12, ?13, ?14)`,
				k.Key.Incarnation[:], k.Key.Pool, int64(k.Key.Slot), string(k.ID), int64(k.Generation), string(k.Runtime), k.State,
				k.Health, flags(k.Active), flags(k.Cordoned), micros(k.Beat), spanMicros(k.BeatEvery), blob(k.Capabilities), micros(k.Since))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Heartbeat writes the beat of the incarnation's workers, and the given capabilities. A draining node has no active
// workers: those that have not ended still beat.
func (s *Store) Heartbeat(ctx context.Context, inc messages.Incarnation, capabilities map[messages.WorkerKey]json.RawMessage) error {
	return s.write(ctx, "write heartbeats", 1+len(capabilities), func(w *writer) error {
		err := w.exec(`UPDATE worker SET beat_at = ?1 WHERE incarnation = ?2 AND (active = 1 OR state <> 'terminated'
 AND EXISTS (SELECT 1 FROM node WHERE incarnation = ?2 AND state = 'draining'))`, micros(w.now), inc[:])
		if err != nil {
			return err
		}
		for k, c := range capabilities {
			err := w.exec("UPDATE worker SET capabilities = ? WHERE incarnation = ? AND pool = ? AND slot = ?",
				blob(c), k.Incarnation[:], k.Pool, int64(k.Slot))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// RecordTransitions appends worker events and updates the rows. healths[i] belongs to events[i].
func (s *Store) RecordTransitions(ctx context.Context, events []store.WorkerEvent, healths []string) error {
	if len(healths) != len(events) {
		return fmt.Errorf("record transitions: %w: %d events with %d healths", store.ErrInvalid, len(events), len(healths))
	}
	return s.write(ctx, "record transitions", len(events), func(w *writer) error {
		for i := range events {
			e := &events[i]
			at := e.At
			if at.IsZero() {
				at = w.now
			}
			err := w.exec(`INSERT INTO worker_event (incarnation, pool, slot, generation, at, before, after, reason, lasted, metadata)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, e.Key.Incarnation[:], e.Key.Pool, int64(e.Key.Slot), int64(e.Generation), micros(at),
				e.From, e.To, e.Reason, spanMicros(e.Lasted), blob(e.Metadata))
			if err != nil {
				return err
			}
			err = w.exec("UPDATE worker SET state = ?, health = ?, generation = ?, since = ? WHERE incarnation = ? AND pool = ? AND slot = ? AND generation <= ?",
				e.To, healths[i], int64(e.Generation), micros(at), e.Key.Incarnation[:], e.Key.Pool, int64(e.Key.Slot), int64(e.Generation))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// CordonWorker records that an operator cordons the worker, or ends that. ErrNotFound: the worker does not exist.
func (s *Store) CordonWorker(ctx context.Context, key messages.WorkerKey, cordoned bool) error {
	return s.write(ctx, "cordon worker", 1, func(w *writer) error {
		n, err := w.c.exec("UPDATE worker SET cordoned = ? WHERE incarnation = ? AND pool = ? AND slot = ?",
			flags(cordoned), key.Incarnation[:], key.Pool, int64(key.Slot))
		if err == nil && n == 0 {
			err = ofCall(fmt.Errorf("worker slot %d of pool %q on %s: %w", key.Slot, key.Pool, key.Incarnation, store.ErrNotFound))
		}
		return err
	})
}

// ListWorkers returns the rows of incarnations that are not dead, by id.
func (s *Store) ListWorkers(ctx context.Context, pool string) ([]store.Worker, error) {
	var out []store.Worker
	sql, args := workerColumns+" JOIN node n ON n.incarnation = w.incarnation WHERE n.state <> 'dead'", []any(nil)
	if pool != "" {
		sql, args = sql+" AND w.pool = ?", append(args, pool)
	}
	err := s.read(ctx, "list workers", func(c *conn) error {
		return c.query(sql+" ORDER BY w.id, w.slot", func(row row) error {
			v := scanner{row: row}
			var k store.Worker
			v.id((*[16]byte)(&k.Key.Incarnation))
			k.Key.Pool, k.Key.Slot, k.ID = v.text(), messages.Slot(v.integer()), messages.WorkerID(v.text())
			k.Generation, k.Runtime, k.State, k.Health = messages.Generation(v.integer()), messages.Runtime(v.text()), v.text(), v.text()
			k.Active, k.Cordoned, k.Beat, k.BeatEvery = v.boolean(), v.boolean(), v.time(), v.duration()
			k.Capabilities, k.Since = v.bytes(), v.time()
			out = append(out, k)
			return v.err
		}, args...)
	})
	return out, err
}

// EndedWorkers returns the workers of a dead incarnation, by id.
func (s *Store) EndedWorkers(ctx context.Context, inc messages.Incarnation) ([]store.Worker, error) {
	var out []store.Worker
	err := s.read(ctx, "list ended workers", func(c *conn) error {
		return c.query(`SELECT w.pool, w.slot, w.id, w.runtime, w.state FROM worker w JOIN node n ON n.incarnation = w.incarnation
 WHERE w.incarnation = ? AND n.state = 'dead' ORDER BY w.id, w.slot`, func(row row) error {
			v := scanner{row: row}
			k := store.Worker{Key: messages.WorkerKey{Incarnation: inc}}
			k.Key.Pool, k.Key.Slot, k.ID, k.Runtime = v.text(), messages.Slot(v.integer()), messages.WorkerID(v.text()), messages.Runtime(v.text())
			k.State = v.text()
			out = append(out, k)
			return v.err
		}, inc[:])
	})
	return out, err
}

// WorkerEvents returns the newest events of one worker, newest first.
func (s *Store) WorkerEvents(ctx context.Context, key messages.WorkerKey, limit int) ([]store.WorkerEvent, error) {
	var out []store.WorkerEvent
	err := s.read(ctx, "read worker events", func(c *conn) error {
		return c.query(`SELECT generation, at, before, after, reason, lasted, metadata FROM worker_event
 WHERE incarnation = ? AND pool = ? AND slot = ? ORDER BY n DESC LIMIT ?`, func(row row) error {
			v := scanner{row: row}
			e := store.WorkerEvent{Key: key, Generation: messages.Generation(v.integer()), At: v.time(), From: v.text(), To: v.text(),
				Reason: v.text(), Lasted: v.duration(), Metadata: v.bytes()}
			out = append(out, e)
			return v.err
		}, key.Incarnation[:], key.Pool, int64(key.Slot), int64(pageSize(limit)))
	})
	return out, err
}

// SaveActions records the actions that this node serves.
func (s *Store) SaveActions(ctx context.Context, actions []messages.Action) error {
	return s.write(ctx, "save actions", len(actions), func(w *writer) error {
		for i := range actions {
			a := &actions[i]
			def, err := json.Marshal(a)
			if err != nil {
				return ofCall(fmt.Errorf("action %s: %w", a.Ref, err))
			}
			err = w.exec("INSERT OR REPLACE INTO action (ref, version, pool, timeout, max_retries, definition, saved_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
				a.Ref, a.Version, a.Pool, spanMicros(a.Timeout), int64(a.MaxRetries), def, micros(w.now))
			if err != nil {
				return err
			}
		}
		return nil
	})
}
