package sqlite

import (
	"context"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

const lettersSQL = `SELECT d.id, d.at, d.execution, d.attempt, d.action, d.worker, d.queue, d.reason, d.resolution, coalesce(e.status, 0), e.retried_as
 FROM dead_letter d LEFT JOIN request r ON r.id = d.execution LEFT JOIN execution e ON e.seq = r.seq`

func scanLetter(row row) (l store.Letter, err error) {
	v := scanner{row: row}
	l.ID, l.At = v.integer(), v.time()
	v.id((*[16]byte)(&l.Execution))
	l.Attempt, l.Action, l.Worker = messages.Attempt(v.integer()), v.text(), messages.WorkerID(v.text())
	l.Queue, l.Reason, l.Resolution, l.Status = v.text(), v.text(), v.text(), messages.Status(v.integer())
	v.id((*[16]byte)(&l.RetriedAs))
	return l, v.err
}

// WalkDeadLetters implements store.Store.
func (s *Store) WalkDeadLetters(ctx context.Context, after, last int64, limit int) (out []store.Letter, err error) {
	err = s.read(ctx, "walk dead letters", func(c *conn) error {
		out = nil
		return c.query(lettersSQL+" WHERE d.id > ? AND d.id <= ? ORDER BY d.id LIMIT ?", func(row row) error {
			l, err := scanLetter(row)
			out = append(out, l)
			return err
		}, after, last, int64(pageSize(limit)))
	})
	return out, err
}

// FindDeadLetters implements store.Store.
func (s *Store) FindDeadLetters(ctx context.Context, ids []int64) (out []store.Letter, err error) {
	err = s.read(ctx, "find dead letters", func(c *conn) error {
		out = nil
		for _, id := range ids {
			err := c.query(lettersSQL+" WHERE d.id = ?", func(row row) error {
				l, err := scanLetter(row)
				out = append(out, l)
				return err
			}, id)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// ResolveDeadLetters implements store.Store.
func (s *Store) ResolveDeadLetters(ctx context.Context, ids []int64, resolution string, unless ...string) ([]int64, error) {
	ids, unless = slices.Clone(ids), slices.Clone(unless) // the writer may still use them after an error
	var changed []int64
	err := s.write(ctx, "resolve dead letters", 1+len(ids)/64, func(w *writer) error {
		changed = nil
		sql := "UPDATE dead_letter SET resolution = ? WHERE id = ?" + strings.Repeat(" AND resolution <> ?", len(unless))
		for _, id := range ids {
			args := []any{resolution, id}
			for _, kept := range unless {
				args = append(args, kept)
			}
			n, err := w.c.exec(sql, args...)
			if err != nil {
				return err
			}
			if n > 0 {
				changed = append(changed, id)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err // the writer may still use changed
	}
	return changed, nil
}
