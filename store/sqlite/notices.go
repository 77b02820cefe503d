package sqlite

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// notice puts the execution's outcome into the outbox.
func (w *writer) notice(r *record) error {
	return w.exec("INSERT INTO notice (seq, at, held) VALUES (?, ?, 0)", r.Seq, micros(w.now))
}

const noticesFree = "SELECT n, seq FROM notice WHERE held <= ? ORDER BY n LIMIT ?"

// TakeNotices implements store.Notices. An empty outbox, as it mostly is, costs a look and no transaction.
func (s *Store) TakeNotices(ctx context.Context, hold time.Duration, limit int) ([]messages.Execution, error) {
	limit = pageSize(limit)
	var waiting bool
	err := s.read(ctx, "look for notices", func(c *conn) error {
		return c.query(noticesFree, func(row) error {
			waiting = true
			return nil
		}, micros(s.clock.now()), int64(1))
	})
	if err != nil || !waiting {
		return nil, err
	}
	var out []messages.Execution
	err = s.write(ctx, "take notices", limit, func(w *writer) (err error) {
		out, err = w.takeNotices(hold, limit)
		return err
	})
	if err != nil {
		return nil, err // out may still be the writer's
	}
	return out, nil
}

func (w *writer) takeNotices(hold time.Duration, limit int) ([]messages.Execution, error) {
	type place struct{ n, seq int64 }
	var places []place
	err := w.c.query(noticesFree, func(row row) error {
		v := scanner{row: row}
		places = append(places, place{v.integer(), v.integer()})
		return v.err
	}, micros(w.now), int64(limit))
	if err != nil {
		return nil, err
	}
	out := make([]messages.Execution, 0, len(places))
	for _, p := range places {
		r, err := readOne(w.c, chained+" WHERE e.seq = ?", p.seq)
		if err != nil {
			return nil, err
		}
		if r != nil {
			out = append(out, r.Execution)
		}
		if err := w.exec("UPDATE notice SET held = ? WHERE n = ?", micros(w.now.Add(hold)), p.n); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// NoticesSent implements store.Notices.
func (s *Store) NoticesSent(ctx context.Context, ids []messages.ExecutionID) error {
	if len(ids) == 0 {
		return nil
	}
	return s.write(ctx, "forget notices", len(ids), func(w *writer) error {
		for _, id := range ids {
			if err := w.exec("DELETE FROM notice WHERE seq = (SELECT seq FROM request WHERE id = ?)", id[:]); err != nil {
				return err
			}
		}
		return nil
	})
}

// PendingNotices implements store.Notices.
func (s *Store) PendingNotices(ctx context.Context) (count int, oldest time.Time, err error) {
	err = s.read(ctx, "count notices", func(c *conn) error {
		return c.query("SELECT count(*), coalesce((SELECT at FROM notice ORDER BY n LIMIT 1), 0) FROM notice", func(row row) error {
			v := scanner{row: row}
			count, oldest = int(v.integer()), v.time()
			return v.err
		})
	})
	return count, oldest, err
}
