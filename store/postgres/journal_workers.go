package postgres

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// troubleAt is the time in worker_event_trouble. Its form is that index's own, so that no other one can serve the range.
const troubleAt = "at AT TIME ZONE 'UTC'"

// troubleRange is the range of a query in its order, as SQL with its arguments: transitions that say what befell a worker.
func troubleRange(q *store.JournalQuery) (sql, order string, args []any) {
	begin, end := boundOf(q.From, pgtype.NegativeInfinity), boundOf(q.To, pgtype.Infinity)
	after, until := ">", "<"
	if q.Newest {
		begin, end = end, begin
		after, until, order = "<", ">=", " DESC"
	}
	args = []any{begin, pgtype.UUID{Valid: true}, int64(0), end}
	if !q.After.IsZero() {
		args = []any{timeOf(q.After.At), uuidOf(q.After.Incarnation), q.After.Number - store.WorkerNumbers, end}
	}
	return " FROM worker_event WHERE " + store.WorkerTroubleSQL + " AND (" + troubleAt + ", incarnation, n) " + after +
		" ($1::timestamptz AT TIME ZONE 'UTC', $2::uuid, $3::bigint) AND " + troubleAt + " " + until + " $4::timestamptz AT TIME ZONE 'UTC' ORDER BY " +
		troubleAt + order + ", incarnation" + order + ", n" + order, order, args
}

// ReadWorkerJournal returns a page of what befell workers. It looks at no more than store.JournalWalk of their transitions.
func (s *journalRows) ReadWorkerJournal(ctx context.Context, q store.JournalQuery) (store.JournalPage, error) {
	within, order, args := troubleRange(&q)
	limit, walk := q.Size(), q.Size()
	if q.WorkersChecked() {
		walk = store.JournalWalk
	}
	args = append(args, encodeTexts(q.Whats), encodeTexts(q.Subjects), encodeTexts(q.NotSubjects))
	sql := "SELECT at, e.incarnation, n, e.pool, e.slot, e.generation, before, after, reason, lasted, metadata, s.id, told FROM (SELECT *, " +
		store.WorkerToldSQL + " AS told" + within + " LIMIT " + strconv.Itoa(walk) + ") e LEFT JOIN worker w USING (incarnation, pool, slot)" +
		" LEFT JOIN node USING (incarnation), LATERAL (SELECT coalesce(w.id, node.name || '/' || e.pool || '/' || e.slot, '') AS id) s WHERE (coalesce(cardinality($5::text[]), 0) = 0 OR told = ANY($5)) AND (coalesce(cardinality($6::text[]), 0) = 0 OR s.id = ANY($6))" +
		" AND (coalesce(cardinality($7::text[]), 0) = 0 OR s.id <> ALL($7)) ORDER BY at" + order + ", e.incarnation" + order + ", n" + order +
		" LIMIT " + strconv.Itoa(limit)
	var page store.JournalPage
	err := s.query(ctx, "read the journal of workers", func(v *scanner) {
		e := store.WorkerEvent{At: v.time()}
		v.id((*[16]byte)(&e.Key.Incarnation))
		n := v.integer()
		e.Key.Pool, e.Key.Slot, e.Generation = v.text(), messages.Slot(v.integer()), messages.Generation(v.integer())
		e.From, e.To, e.Reason, e.Lasted, e.Metadata = v.text(), v.text(), v.text(), v.duration(), v.bytes()
		id := messages.WorkerID(v.text())
		page.Entries = append(page.Entries, store.WorkerEntry(&e, id, n, v.text()))
	}, sql, args...)
	if err != nil {
		return store.JournalPage{}, err
	}
	within, _, args = troubleRange(&q)
	page.Next, err = s.endOf(ctx, &page, limit, q.WorkersChecked(), "SELECT at, incarnation, n + "+strconv.Itoa(store.WorkerNumbers)+within, args)
	return page, err
}
