package postgres

import (
	"context"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

const lettersSQL = `SELECT d.id, d.at, d.execution, d.attempt, d.action, d.worker, d.queue, d.reason, d.resolution, coalesce(e.status, 0), e.retried_as
 FROM dead_letter d LEFT JOIN execution e ON e.id = d.execution`

func (s *deadLetterRows) letters(ctx context.Context, what, where string, args ...any) (out []store.Letter, err error) {
	err = s.query(ctx, what, func(v *scanner) {
		var l store.Letter
		l.ID, l.At = v.integer(), v.time()
		v.id((*[16]byte)(&l.Execution))
		l.Attempt, l.Action, l.Worker = messages.Attempt(v.integer()), v.text(), messages.WorkerID(v.text())
		l.Queue, l.Reason, l.Resolution, l.Status = v.text(), v.text(), v.text(), messages.Status(v.integer())
		v.id((*[16]byte)(&l.RetriedAs))
		out = append(out, l)
	}, lettersSQL+where, args...)
	return out, err
}

// WalkDeadLetters implements store.Store.
func (s *deadLetterRows) WalkDeadLetters(ctx context.Context, after, last int64, limit int) ([]store.Letter, error) {
	return s.letters(ctx, "walk dead letters", " WHERE d.id > $1 AND d.id <= $2 ORDER BY d.id LIMIT $3", after, last, pageSize(limit))
}

// FindDeadLetters implements store.Store.
func (s *deadLetterRows) FindDeadLetters(ctx context.Context, ids []int64) ([]store.Letter, error) {
	return s.letters(ctx, "find dead letters", " WHERE d.id = ANY($1)", ids)
}

// ResolveDeadLetters implements store.Store.
func (s *deadLetterRows) ResolveDeadLetters(ctx context.Context, ids []int64, resolution string, unless ...string) (changed []int64, err error) {
	kept := make([]string, len(unless))
	for i := range unless {
		kept[i] = encodeText(unless[i])
	}
	err = s.query(ctx, "resolve dead letters", func(v *scanner) { changed = append(changed, v.integer()) },
		"UPDATE dead_letter SET resolution = $2 WHERE id = ANY($1) AND resolution <> ALL($3) RETURNING id", ids, encodeText(resolution), kept)
	return changed, err
}
