package postgres

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

const appendJournalSQL = `INSERT INTO journal (incarnation, number, at, kind, subject, what, reason, caller, detail)
 SELECT i.inc, i.number, coalesce(i.at, now()), i.kind, i.subject, i.what, i.reason, i.caller, i.detail
 FROM unnest($1::uuid[], $2::bigint[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::json[])
 AS i (inc, number, at, kind, subject, what, reason, caller, detail) ON CONFLICT (incarnation, number) DO NOTHING`

// AppendJournal stores entries of the journal.
func (s *journalRows) AppendJournal(ctx context.Context, entries []messages.JournalEntry) error {
	if err := store.CheckJournal(entries); err != nil || len(entries) == 0 {
		return err
	}
	n := len(entries)
	incs, numbers, at := make(column[pgtype.UUID], n), make([]int64, n), make(column[pgtype.Timestamptz], n)
	kinds, subjects, whats := make([]string, n), make([]string, n), make([]string, n)
	reasons, callers, details := make(column[pgtype.Text], n), make(column[pgtype.Text], n), make(blobs, n)
	for i := range entries {
		e := &entries[i]
		incs[i], numbers[i], at[i] = uuidOf(e.Incarnation), e.Number, timeOf(e.At)
		kinds[i], subjects[i], whats[i] = encodeText(string(e.Kind)), encodeText(e.Subject), encodeText(e.What)
		reasons[i], callers[i], details[i] = textOf(e.Reason), textOf(e.Caller), jsonOf(e.Detail)
	}
	_, err := s.exec(ctx, "append to the journal", appendJournalSQL, incs, numbers, at, kinds, subjects, whats, reasons, callers, details)
	return err
}

const journalColumns = "at, incarnation, number, kind, subject, what, reason, caller, detail"

// journalRange is the range of a query in its order, as SQL with its arguments. With a subject it compares whole positions in the index
// of subjects: by subject = $5 the server would choose the index of times once it has statistics, and read what is about others.
func journalRange(q *store.JournalQuery) (sql string, args []any) {
	begin, end := boundOf(q.From, pgtype.NegativeInfinity), boundOf(q.To, pgtype.Infinity)
	after, until, order := ">", "<", ""
	if q.Newest {
		begin, end = end, begin
		after, until, order = "<", ">=", " DESC"
	}
	args = []any{begin, pgtype.UUID{Valid: true}, int64(0), end}
	if !q.After.IsZero() {
		args = []any{timeOf(q.After.At), uuidOf(q.After.Incarnation), q.After.Number, end}
	}
	column, subject := "", ""
	if q.Subject() != "" {
		column, subject, args = "subject, ", "$5::text, ", append(args, encodeText(q.Subject()))
	}
	sql = " FROM journal WHERE (" + column + "at, incarnation, number) " + after + " (" + subject + "$1::timestamptz, $2::uuid, $3::bigint) AND (" +
		column + "at) " + until + " (" + subject + "$4::timestamptz) ORDER BY "
	if q.Subject() != "" {
		sql += "subject" + order + ", "
	}
	return sql + "at" + order + ", incarnation" + order + ", number" + order, args
}

// boundOf is a bound of a range of time; zero: none.
func boundOf(t time.Time, none pgtype.InfinityModifier) pgtype.Timestamptz {
	if t.IsZero() {
		return pgtype.Timestamptz{InfinityModifier: none, Valid: true}
	}
	return timeOf(t)
}

// ReadJournal returns a page of the journal. It looks at no more than store.JournalWalk entries.
func (s *journalRows) ReadJournal(ctx context.Context, q store.JournalQuery) (store.JournalPage, error) {
	if len(q.Subjects) > 1 {
		return store.ReadSubjects(ctx, q, s.ReadJournal)
	}
	within, args := journalRange(&q)
	limit := q.Size()
	sql := "SELECT " + journalColumns + within + " LIMIT " + strconv.Itoa(limit)
	if q.Checked() {
		sql, args = journalWalk(&q, within, args, limit)
	}
	var page store.JournalPage
	err := s.query(ctx, "read the journal", func(v *scanner) {
		e := messages.JournalEntry{At: v.time()}
		v.id((*[16]byte)(&e.Incarnation))
		e.Number, e.Kind, e.Subject, e.What = v.integer(), messages.JournalKind(v.text()), v.text(), v.text()
		e.Reason, e.Caller, e.Detail = v.text(), v.text(), json.RawMessage(v.bytes())
		page.Entries = append(page.Entries, e)
	}, sql, args...)
	if err != nil {
		return store.JournalPage{}, err
	}
	within, args = journalRange(&q)
	page.Next, err = s.endOf(ctx, &page, limit, q.Checked(), "SELECT at, incarnation, number"+within, args)
	return page, err
}

// journalWalk reads the entries of a range that match, of those that a page looks at.
func journalWalk(q *store.JournalQuery, within string, args []any, limit int) (string, []any) {
	sql := "SELECT " + journalColumns + " FROM (SELECT " + journalColumns + within + " LIMIT " + strconv.Itoa(store.JournalWalk) + ") w WHERE true"
	if len(q.Kinds) > 0 {
		args = append(args, encodeTexts(q.Kinds))
		sql += " AND w.kind = ANY($" + strconv.Itoa(len(args)) + ")"
	}
	if len(q.Whats) > 0 {
		args = append(args, encodeTexts(q.Whats))
		sql += " AND w.what = ANY($" + strconv.Itoa(len(args)) + ")"
	}
	if len(q.NotSubjects) > 0 {
		args = append(args, encodeTexts(q.NotSubjects))
		sql += " AND w.subject <> ALL($" + strconv.Itoa(len(args)) + ")"
	}
	return sql + " LIMIT " + strconv.Itoa(limit), args
}

// endOf is where a page ended: with its last entry, or, where some were left out, where the walk over the positions of its range did before
// the end of that; zero: at the end.
func (s *journalRows) endOf(ctx context.Context, page *store.JournalPage, limit int, checked bool, positions string, args []any) (c store.JournalCursor, err error) {
	if len(page.Entries) == limit {
		return store.JournalCursorOf(&page.Entries[limit-1]), nil
	}
	if checked {
		err = s.query(ctx, "read the journal", func(v *scanner) {
			c.At = v.time()
			v.id((*[16]byte)(&c.Incarnation))
			c.Number = v.integer()
		}, positions+" OFFSET "+strconv.Itoa(store.JournalWalk-1)+" LIMIT 1", args...)
	}
	return c, err
}
