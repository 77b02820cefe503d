package sqlite

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

const insertJournal = `INSERT INTO journal (incarnation, number, at, kind, subject, what, reason, caller, detail)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (incarnation, number) DO NOTHING`

// AppendJournal stores entries of the journal.
func (s *Store) AppendJournal(ctx context.Context, entries []messages.JournalEntry) error {
	if err := store.CheckJournal(entries); err != nil || len(entries) == 0 {
		return err
	}
	return s.write(ctx, "append to the journal", len(entries), func(w *writer) error {
		for i := range entries {
			e := &entries[i]
			at := e.At
			if at.IsZero() {
				at = w.now
			}
			if err := w.exec(insertJournal, e.Incarnation[:], e.Number, micros(at), string(e.Kind), e.Subject, e.What, text(e.Reason),
				text(e.Caller), blob(e.Detail)); err != nil {
				return err
			}
		}
		return nil
	})
}

// journalRange is the range of a query in its order, as SQL with its arguments: at most store.JournalWalk entries.
func journalRange(q *store.JournalQuery) (sql string, args []any) {
	within, order, args := rangeOf(q, "number")
	sql = " FROM journal WHERE " + within
	if subject := q.Subject(); subject != "" {
		sql, args = sql+" AND subject = ?5", append(args, subject)
	}
	return sql + " ORDER BY at" + order + ", incarnation" + order + ", number" + order, args
}

// rangeOf is the range of a query by at, incarnation and a number, as a condition with its arguments, and the direction of its order.
func rangeOf(q *store.JournalQuery, number string) (within, order string, args []any) {
	from, to := micros(q.From), before(q.To)
	begin := store.JournalCursor{At: time.UnixMicro(from)}
	if q.Newest {
		begin.At, order = time.UnixMicro(to), " DESC"
	}
	if !q.After.IsZero() {
		begin = q.After
	}
	args = []any{begin.At.UnixMicro(), begin.Incarnation[:], begin.Number, to}
	if q.Newest {
		args[3] = from
		return "(at, incarnation, " + number + ") < (?1, ?2, ?3) AND at >= ?4", order, args
	}
	return "(at, incarnation, " + number + ") > (?1, ?2, ?3) AND at < ?4", order, args
}

// ReadJournal returns a page of the journal. It looks at no more than store.JournalWalk entries.
func (s *Store) ReadJournal(ctx context.Context, q store.JournalQuery) (store.JournalPage, error) {
	if len(q.Subjects) > 1 {
		return store.ReadSubjects(ctx, q, s.ReadJournal)
	}
	within, args := journalRange(&q)
	sql := "SELECT at, incarnation, number, kind, subject, what, reason, caller, detail" + within + " LIMIT " + strconv.Itoa(store.JournalWalk)
	var page store.JournalPage
	err := s.read(ctx, "read the journal", func(c *conn) error {
		page = store.JournalPage{}
		limit, looked := q.Size(), 0
		err := c.query(sql, func(row row) error {
			looked++
			v := scanner{row: row}
			e := messages.JournalEntry{At: v.time()}
			v.id((*[16]byte)(&e.Incarnation))
			e.Number, e.Kind, e.Subject, e.What = v.integer(), messages.JournalKind(v.interned()), v.text(), v.interned()
			e.Reason, e.Caller, e.Detail = v.text(), v.text(), v.bytes()
			if q.Matches(&e) {
				page.Entries = append(page.Entries, e)
			}
			if looked == store.JournalWalk || len(page.Entries) == limit {
				page.Next = store.JournalCursorOf(&e)
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

// errPageFull ends a query whose page is complete.
var errPageFull = errors.New("the page is full")
