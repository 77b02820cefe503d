package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// The columns of a record without its body, and the part of the body that is read. Nodes of older versions stored whole
// bodies.
const (
	deadLetterColumns = `SELECT id, at, execution, attempt, action, worker, queue, reason, died_at, headers, resolution,
 coalesce(body_size, length(body), 0), coalesce(body_sha256, ''), `
	bodilessLetters = deadLetterColumns + "NULL FROM dead_letter"
	wholeLetters    = deadLetterColumns + "substr(body, 1, 65536) FROM dead_letter"
)

func scanDeadLetter(row row, d *store.DeadLetter) error {
	v := scanner{row: row}
	d.ID, d.At = v.integer(), v.time()
	v.id((*[16]byte)(&d.Execution))
	d.Attempt, d.Action, d.Worker = messages.Attempt(v.integer()), v.text(), messages.WorkerID(v.text())
	d.Queue, d.Reason, d.DiedAt, d.Headers, d.Resolution = v.text(), v.text(), v.time(), v.bytes(), v.text()
	d.BodySize, d.BodySHA256, d.Body = v.integer(), v.text(), v.bytes()
	d.BodyCut = d.BodySize > store.DeadLetterBodyMax
	return v.err
}

// SaveDeadLetter stores the record, with an event of the execution if that is known, and returns its id.
func (s *Store) SaveDeadLetter(ctx context.Context, d store.DeadLetter) (int64, error) {
	d = store.CutBody(d)
	var id int64
	err := s.write(ctx, "save dead letter", 1, func(w *writer) error {
		if d.Key != "" {
			kept, err := w.c.number("SELECT id FROM dead_letter WHERE key = ?", d.Key)
			if id = kept; err != nil || kept != 0 {
				return err
			}
		}
		at := d.At
		if at.IsZero() {
			at = w.now
		}
		err := w.exec(`INSERT INTO dead_letter (at, execution, attempt, action, worker, queue, reason, died_at, headers, body, resolution, key, body_size, body_sha256)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, micros(at), id16(d.Execution), int64(d.Attempt), d.Action, string(d.Worker), d.Queue,
			d.Reason, micros(d.DiedAt), blob(d.Headers), blob(d.Body), d.Resolution, text(d.Key), d.BodySize, text(d.BodySHA256))
		if err != nil {
			return err
		}
		if id, err = w.c.number("SELECT last_insert_rowid()"); err != nil || d.Execution.IsZero() {
			return err
		}
		r, err := w.record(d.Execution)
		if r == nil || err != nil {
			return err
		}
		return w.event(r.Seq, &store.Event{
			At: w.now, Attempt: d.Attempt, Kind: "dead_letter", From: r.Status, To: r.Status, Reason: d.Reason, Worker: string(d.Worker),
		})
	})
	if err != nil {
		return 0, err // the writer may still use id
	}
	return id, nil
}

// ListDeadLetters returns a page, newest first.
func (s *Store) ListDeadLetters(ctx context.Context, before int64, limit int) ([]store.DeadLetter, error) {
	if before <= 0 {
		before = 1<<63 - 1
	}
	return s.deadLetters(ctx, "list dead letters", " WHERE id < ? ORDER BY id DESC LIMIT ?", before, int64(pageSize(limit)))
}

// DeadLettersOf returns those that name an execution.
func (s *Store) DeadLettersOf(ctx context.Context, id messages.ExecutionID, limit int) ([]store.DeadLetter, error) {
	return s.deadLetters(ctx, "list an execution's dead letters", " INDEXED BY dead_letter_execution WHERE execution = ? ORDER BY id DESC LIMIT ?", id[:], int64(pageSize(limit)))
}

// deadLetters reads records without their bodies.
func (s *Store) deadLetters(ctx context.Context, what, which string, args ...any) (out []store.DeadLetter, err error) {
	err = s.read(ctx, what, func(c *conn) error {
		out = nil
		return c.query(bodilessLetters+which, func(row row) error {
			var d store.DeadLetter
			err := scanDeadLetter(row, &d)
			out = append(out, d)
			return err
		}, args...)
	})
	return out, err
}

// GetDeadLetter returns one record.
func (s *Store) GetDeadLetter(ctx context.Context, id int64) (store.DeadLetter, error) {
	var d store.DeadLetter
	err := s.read(ctx, "get dead letter", func(c *conn) error {
		err := c.query(wholeLetters+" WHERE id = ?", func(row row) error { return scanDeadLetter(row, &d) }, id)
		if err == nil && d.ID == 0 {
			err = fmt.Errorf("dead letter %d: %w", id, store.ErrNotFound)
		}
		return err
	})
	return d, err
}

// ResolveDeadLetter records what a person did with it.
func (s *Store) ResolveDeadLetter(ctx context.Context, id int64, resolution string) error {
	return s.write(ctx, "resolve dead letter", 1, func(w *writer) error {
		n, err := w.c.exec("UPDATE dead_letter SET resolution = ? WHERE id = ?", resolution, id)
		if err == nil && n == 0 {
			err = ofCall(fmt.Errorf("dead letter %d: %w", id, store.ErrNotFound))
		}
		return err
	})
}

// DeadLetterStats counts by worker, action, reason and hour, newest hour first, 10,000 rows at most.
func (s *Store) DeadLetterStats(ctx context.Context, since time.Time) ([]store.DeadLetterCount, error) {
	var out []store.DeadLetterCount
	err := s.read(ctx, "count dead letters", func(c *conn) error {
		return c.query(`SELECT worker, action, reason, at - at % 3600000000 AS hour, count(*) FROM dead_letter WHERE at >= ?
 GROUP BY worker, action, reason, hour ORDER BY hour DESC, worker, action, reason LIMIT 10000`, func(row row) error {
			v := scanner{row: row}
			out = append(out, store.DeadLetterCount{Worker: messages.WorkerID(v.text()), Action: v.text(), Reason: v.text(),
				Hour: v.time(), Count: int(v.integer())})
			return v.err
		}, micros(since))
	})
	return out, err
}
