package sqlite

import (
	"cmp"
	"context"
	"errors"
	"strconv"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// ReadWorkerJournal returns a page of what befell workers. It looks at no more than store.JournalWalk of their transitions.
func (s *Store) ReadWorkerJournal(ctx context.Context, q store.JournalQuery) (store.JournalPage, error) {
	if !q.After.IsZero() {
		q.After.Number -= store.WorkerNumbers
	}
	limit, walk := q.Size(), q.Size()
	if q.WorkersChecked() {
		walk = store.JournalWalk
	}
	within, order, args := rangeOf(&q, "n")
	sql := "SELECT at, e.incarnation, n, e.pool, e.slot, coalesce(w.id, node.name || '/' || e.pool || '/' || e.slot), " + store.WorkerToldSQL + "," +
		" e.generation, before, after, reason, lasted, metadata FROM (SELECT * FROM worker_event WHERE " + store.WorkerTroubleSQL + " AND " + within + " ORDER BY at" + order + ", incarnation" + order + ", n" + order +
		" LIMIT " + strconv.Itoa(walk) + ") e LEFT JOIN worker w ON w.incarnation = e.incarnation AND w.pool = e.pool AND w.slot = e.slot" +
		" LEFT JOIN node ON node.incarnation = e.incarnation ORDER BY at" + order + ", e.incarnation" + order + ", n" + order
	var page store.JournalPage
	err := s.read(ctx, "read the journal of workers", func(c *conn) error {
		page = store.JournalPage{}
		looked := 0
		err := c.query(sql, func(row row) error {
			looked++
			v := scanner{row: row}
			e := store.WorkerEvent{At: v.time()}
			v.id((*[16]byte)(&e.Key.Incarnation))
			n := v.integer()
			e.Key.Pool, e.Key.Slot = v.interned(), messages.Slot(v.integer())
			id, told := messages.WorkerID(v.interned()), v.interned()
			if q.MatchesWorker(told, store.WorkerSubject(id, e.Key)) {
				e.Generation = messages.Generation(v.integer())
				e.From, e.To, e.Reason, e.Lasted, e.Metadata = v.interned(), v.interned(), v.interned(), v.duration(), v.bytes()
				page.Entries = append(page.Entries, store.WorkerEntry(&e, id, n, told))
			}
			if looked == store.JournalWalk || len(page.Entries) == limit {
				page.Next = store.JournalCursor{At: e.At, Incarnation: e.Key.Incarnation, Number: store.WorkerNumbers + n}
			}
			if len(page.Entries) == limit {
				return cmp.Or(v.err, errPageFull)
			}
			return v.err
		}, args...)
		if errors.Is(err, errPageFull) {
			return nil
		}
		return err
	})
	return page, err
}
