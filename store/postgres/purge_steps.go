package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/store"
)

// purger holds the position of each walk. Another node has its own walks: rows that one has locked are skipped by the
// others.
type purger struct {
	mu         sync.Mutex // one purge at a time
	executions executionWalk
	sessions   sessionWalk
	lanes      sessionWalk
	snapshots  sessionWalk
	inbox      inboxWalk
}

// purgeStep deletes rows of one kind that are older than before.
type purgeStep struct {
	before  time.Time
	counted bool // its rows count; they do not belong to other rows
	do      func(ctx context.Context, s *core, before time.Time, limit int) (store.Purged, error)
}

func (w *purger) steps(p store.Purge) []purgeStep {
	return []purgeStep{
		{p.FinishedBefore, true, w.executions.purge},
		{p.DeadLettersBefore, true, byIndex("purge dead letters", purgeLettersSQL)},
		{p.EventsBefore, true, byIndex("purge worker events", purgeEventsSQL)},
		{p.JournalBefore, true, byIndex("purge the journal", purgeJournalSQL)},
		{p.MinutesBefore, true, byIndex("purge rollups", purgeRollupsSQL)},
		{p.HoursBefore, true, byIndex("purge rollups of hours", purgeHoursSQL)},
		{p.HoursBefore, false, byIndex("purge folds", purgeFoldsSQL)},
		{p.HoursBefore, false, byIndex("purge numbers of what was purged", purgeCountsSQL)},
		{p.JournalBefore, true, byIndex("purge keyframes", purgeKeyframesSQL)},
		{p.JournalBefore, true, byIndex("purge operations", purgeOperationsSQL)},
		{p.SessionsBefore, true, w.sessions.purgeSessions},
		{p.SessionsBefore, false, w.snapshots.alone("purge snapshots", purgeSnapshotsSQL)},
		{p.SessionsBefore, false, w.lanes.alone("purge lanes", purgeLanesAloneSQL)},
		{p.FinishedBefore, false, w.inbox.purge},
		{p.FinishedBefore, false, byIndex("purge notices", purgeNoticesSQL)},
		{p.NodesBefore, true, byIndex("purge nodes", purgeNodesSQL)},
		{p.NodesBefore, false, byIndex("purge workers", purgeWorkersSQL)},
	}
}

// byIndex is a step whose old rows are found by an index.
func byIndex(what, sql string) func(context.Context, *core, time.Time, int) (store.Purged, error) {
	return func(ctx context.Context, s *core, before time.Time, limit int) (store.Purged, error) {
		n, err := s.exec(ctx, what, sql, before, limit)
		return store.Purged{Rows: n, More: n >= limit}, err
	}
}

// pace bounds how much a walk looks at in one statement. After each failure it is less, so that no table is too large.
type pace struct{ shift uint }

func (p *pace) of(n int) int { return max(n>>p.shift, min(n, stretchMin)) }

func (p *pace) took(err error) {
	switch {
	case err == nil && p.shift > 0:
		p.shift--
	case err != nil && p.shift < 9:
		p.shift++
	}
}

// executionWalk walks the requests in order of insertion. It skips executions with run_at far ahead and those that
// ended recently. The next lap looks at them again.
type executionWalk struct {
	pace
	after int64
}

// stretchesMax bounds how many stretches without an execution to delete one call passes.
const stretchesMax = 5

func (w *executionWalk) purge(ctx context.Context, s *core, before time.Time, limit int) (store.Purged, error) {
	horizon, err := s.horizon(ctx, before)
	if err != nil {
		return store.Purged{}, err
	}
	for range stretchesMax {
		stretch, rows := w.of(stretchMax), w.of(limit)
		var looked, gone int
		var lookedTo, goneTo int64
		err := s.query(ctx, "purge executions", func(v *scanner) {
			looked, lookedTo, gone, goneTo = int(v.integer()), v.integer(), int(v.integer()), v.integer()
		}, purgeSQL, w.after, horizon, stretch, before, rows, intervalOf(store.CountEdge), intervalOf(store.CountTail))
		w.took(err)
		if err != nil {
			return store.Purged{}, err
		}
		switch {
		case gone >= rows: // there may be more before the end of the stretch
			w.after = goneTo
			return store.Purged{Rows: gone, More: true}, nil
		case looked < stretch:
			w.after = 0 // the lap is complete
			return store.Purged{Rows: gone}, nil
		}
		w.after = lookedTo
		if gone > 0 {
			return store.Purged{Rows: gone, More: true}, nil
		}
	}
	return store.Purged{More: true}, nil
}

// sessionWalk walks a table by (pool, session).
type sessionWalk struct {
	pace
	pool, session string
}

// next reads the answer of a statement: where the next one continues, and what it deleted.
func (w *sessionWalk) next(stretch, rows int, scan func(read func(v *scanner)) error) (store.Purged, error) {
	var looked, taken, gone int
	var lookedTo, takenTo [2]string
	err := scan(func(v *scanner) {
		looked, lookedTo = int(v.integer()), [2]string{v.text(), v.text()}
		taken, takenTo = int(v.integer()), [2]string{v.text(), v.text()}
		gone = int(v.integer())
	})
	w.took(err)
	switch {
	case err != nil:
		return store.Purged{}, err
	case taken >= rows:
		w.pool, w.session = takenTo[0], takenTo[1]
	case looked < stretch:
		w.pool, w.session = "", ""
		return store.Purged{Rows: gone}, nil
	default:
		w.pool, w.session = lookedTo[0], lookedTo[1]
	}
	return store.Purged{Rows: gone, More: true}, nil
}

func (w *sessionWalk) purgeSessions(ctx context.Context, s *core, before time.Time, limit int) (store.Purged, error) {
	stretch, rows := w.of(stretchMax), w.of(limit)
	return w.next(stretch, rows, func(read func(v *scanner)) error {
		return s.inTransaction(ctx, "purge sessions", func(b *pgx.Batch) {
			args := []any{w.pool, w.session, stretch, before, rows}
			b.Queue(purgeLanesSQL, args...)
			b.Queue(purgeSessionsSQL, args...).Query(func(r pgx.Rows) error { return each(r, read) })
		})
	})
}

// alone is a step over rows without a session. It never reports more: each call looks at one stretch.
func (w *sessionWalk) alone(what, sql string) func(context.Context, *core, time.Time, int) (store.Purged, error) {
	return func(ctx context.Context, s *core, before time.Time, limit int) (store.Purged, error) {
		stretch, rows := w.of(stretchMax), w.of(limit)
		done, err := w.next(stretch, rows, func(read func(v *scanner)) error {
			return s.query(ctx, what, read, sql, w.pool, w.session, stretch, before, rows)
		})
		return store.Purged{Rows: done.Rows}, err
	}
}

// inboxWalk walks the submissions by id.
type inboxWalk struct {
	pace
	after pgtype.UUID
}

func (w *inboxWalk) purge(ctx context.Context, s *core, before time.Time, limit int) (store.Purged, error) {
	stretch, rows := w.of(stretchMax), w.of(limit)
	var looked, gone int
	lookedTo, goneTo := pgtype.UUID{Valid: true}, pgtype.UUID{Valid: true}
	w.after.Valid = true
	err := s.query(ctx, "purge the inbox", func(v *scanner) {
		looked = int(v.integer())
		v.id(&lookedTo.Bytes)
		gone = int(v.integer())
		v.id(&goneTo.Bytes)
	}, purgeInboxSQL, w.after, stretch, before, rows)
	w.took(err)
	switch {
	case err != nil:
		return store.Purged{}, err
	case gone >= rows:
		w.after = goneTo
	case looked < stretch:
		w.after = pgtype.UUID{}
		return store.Purged{Rows: gone}, nil
	default:
		w.after = lookedTo
	}
	return store.Purged{Rows: gone}, nil
}

// horizon returns a seq after which no execution was requested before the given time. Seqs are nearly in order of time, so a few
// seconds are added for transactions that took their seq early.
func (s *core) horizon(ctx context.Context, before time.Time) (int64, error) {
	return s.seqBefore(ctx, before.Add(statementTimeout))
}

// seqBeforeSQL halves the seqs in one statement, because each step of its own would be a round trip.
const seqBeforeSQL = `WITH RECURSIVE b (low, high) AS (SELECT 0::bigint, coalesce((SELECT max(seq) FROM request), 0)
 UNION ALL SELECT CASE WHEN r.at < $1 THEN m.mid ELSE b.low END, CASE WHEN r.at < $1 THEN b.high ELSE m.mid - 1 END
  FROM b CROSS JOIN LATERAL (SELECT b.low + (b.high - b.low + 1) / 2 AS mid) m
  CROSS JOIN LATERAL (SELECT requested_at AS at FROM request WHERE seq >= m.mid ORDER BY seq LIMIT 1) r WHERE b.low < b.high)
SELECT low FROM b WHERE low >= high`

// seqBefore returns the largest seq that was requested before the given time, by bisection.
func (s *core) seqBefore(ctx context.Context, before time.Time) (seq int64, err error) {
	err = s.query(ctx, "look for old executions", func(v *scanner) { seq = v.integer() }, seqBeforeSQL, timeOf(before))
	return seq, err
}
