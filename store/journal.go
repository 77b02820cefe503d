package store

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Journal is the part of the store that holds what changed outside of executions: nodes, pools, routers, sessions,
// servers, and what operators did.
type Journal interface {
	// AppendJournal stores the entries, all or none, at most JournalBatch of them. Entries that are stored already, by
	// incarnation and number, do not change, so the call may be repeated. An entry without a time gets the store's.
	AppendJournal(ctx context.Context, entries []messages.JournalEntry) error
	// ReadJournal returns a page of entries in order of time; entries of the same time come by incarnation and number. An
	// entry that a node kept while the store was away has the time of its event, so it may appear behind a reader's cursor.
	ReadJournal(ctx context.Context, q JournalQuery) (JournalPage, error)
	// ReadWorkerJournal is ReadJournal of what befell workers: those of their stored transitions of which lifecycle.Told says something, as
	// entries of the kind worker, whatever kinds the query names. Their numbers are WorkerNumbers and more, so MergeJournal puts them among
	// the others.
	ReadWorkerJournal(ctx context.Context, q JournalQuery) (JournalPage, error)
}

// Bounds of the journal.
const (
	JournalBatch     = 1000    // entries of one call
	JournalTextMax   = 512     // bytes of each text of an entry
	JournalDetailMax = 4 << 10 // bytes of its detail
	// JournalWalk bounds the entries that one page looks at, whether they match or not.
	JournalWalk = 20_000
	// WorkerNumbers is the least number of a worker's entry. No node has as many of its own, and programs that read numbers of JSON as
	// floating-point ones read all of them exactly.
	WorkerNumbers = 1 << 52
)

// JournalQuery selects entries. Zero fields select everything.
type JournalQuery struct {
	Kinds       []messages.JournalKind
	Whats       []string  // what happened is one of these
	Subjects    []string  // about one of these
	NotSubjects []string  // about none of these
	From, To    time.Time // From <= at < To
	Newest      bool      // newest first
	After       JournalCursor
	Limit       int // 1 to 1000; 0: 100
}

// Subject is the one subject of the query; empty: there is none.
func (q *JournalQuery) Subject() string {
	if len(q.Subjects) == 1 {
		return q.Subjects[0]
	}
	return ""
}

// Checked reports whether some entries of the query's range may not match, so that a page walks.
func (q *JournalQuery) Checked() bool { return len(q.Kinds)+len(q.Whats)+len(q.NotSubjects) > 0 }

// Matches reports whether an entry of the query's range matches.
func (q *JournalQuery) Matches(e *messages.JournalEntry) bool {
	return wanted(q.Kinds, nil, e.Kind) && wanted(q.Whats, nil, e.What) && wanted(nil, q.NotSubjects, e.Subject)
}

// WorkersChecked is Checked of a query of what befell workers, whose range has all subjects.
func (q *JournalQuery) WorkersChecked() bool {
	return len(q.Whats)+len(q.Subjects)+len(q.NotSubjects) > 0
}

// MatchesWorker reports whether an entry about a worker matches.
func (q *JournalQuery) MatchesWorker(what, subject string) bool {
	return wanted(q.Whats, nil, what) && wanted(q.Subjects, q.NotSubjects, subject)
}

// Size is how many entries a page has.
func (q *JournalQuery) Size() int {
	if q.Limit <= 0 {
		return 100
	}
	return min(q.Limit, 1000)
}

// JournalCursor is a position in the journal: that of an entry. The page continues behind it.
type JournalCursor struct {
	At          time.Time
	Incarnation messages.Incarnation
	Number      int64
}

// IsZero reports whether the cursor is none.
func (c JournalCursor) IsZero() bool { return c.Number == 0 }

// JournalCursorOf returns the position of an entry.
func JournalCursorOf(e *messages.JournalEntry) JournalCursor {
	return JournalCursor{At: e.At, Incarnation: e.Incarnation, Number: e.Number}
}

// Compare orders positions as the journal does.
func (c JournalCursor) Compare(o JournalCursor) int {
	return cmp.Or(c.At.Compare(o.At), bytes.Compare(c.Incarnation[:], o.Incarnation[:]), cmp.Compare(c.Number, o.Number))
}

// JournalPage is one page of the journal. A query that would look at more than JournalWalk entries ends early: the page is
// short or even empty, and has a Next. Without a Next it is the last one.
type JournalPage struct {
	Entries []messages.JournalEntry
	Next    JournalCursor
}

// ReadSubjects reads a page about several subjects with a reader of pages about one: the range of each in an index.
func ReadSubjects(ctx context.Context, q JournalQuery, read func(context.Context, JournalQuery) (JournalPage, error)) (JournalPage, error) {
	var pages []JournalPage
	for _, subject := range slices.Compact(slices.Sorted(slices.Values(q.Subjects))) {
		one := q
		one.Subjects = []string{subject}
		page, err := read(ctx, one)
		if err != nil {
			return JournalPage{}, err
		}
		pages = append(pages, page)
	}
	return MergeJournal(&q, pages...), nil
}

// MergeJournal is the page of a query of which parts were read.
func MergeJournal(q *JournalQuery, pages ...JournalPage) (all JournalPage) {
	order := func(a, b JournalCursor) int {
		if q.Newest {
			return b.Compare(a)
		}
		return a.Compare(b)
	}
	for i := range pages {
		all.Entries = append(all.Entries, pages[i].Entries...)
		if next := pages[i].Next; !next.IsZero() && (all.Next.IsZero() || order(next, all.Next) < 0) {
			all.Next = next // behind it, entries of this part may be missing
		}
	}
	slices.SortFunc(all.Entries, func(a, b messages.JournalEntry) int { return order(JournalCursorOf(&a), JournalCursorOf(&b)) })
	if !all.Next.IsZero() {
		all.Entries = slices.DeleteFunc(all.Entries, func(e messages.JournalEntry) bool { return order(JournalCursorOf(&e), all.Next) > 0 })
	}
	if size := q.Size(); len(all.Entries) > size {
		all.Entries, all.Next = all.Entries[:size], JournalCursorOf(&all.Entries[size-1])
	}
	return all
}

// CheckJournal returns why the entries cannot be stored, or nil. The error is an ErrInvalid.
func CheckJournal(entries []messages.JournalEntry) error {
	if len(entries) > JournalBatch {
		return fmt.Errorf("append to the journal: %w: %d entries, at most %d", ErrInvalid, len(entries), JournalBatch)
	}
	for i := range entries {
		e := &entries[i]
		fail := func(field, why string) error {
			return fmt.Errorf("append to the journal: entry %d of %s: %s: %w: %s", e.Number, e.Incarnation, field, ErrInvalid, why)
		}
		switch {
		case e.Incarnation.IsZero():
			return fail("incarnation", "it is zero")
		case e.Number < 1:
			return fail("number", "it is below 1")
		case e.Kind == "" || e.What == "":
			return fail("kind", "an entry has a kind and says what happened")
		case len(e.Detail) > JournalDetailMax:
			return fail("detail", fmt.Sprintf("%d bytes, at most %d", len(e.Detail), JournalDetailMax))
		}
		for field, text := range map[string]string{
			"kind": string(e.Kind), "subject": e.Subject, "what": e.What, "reason": e.Reason, "caller": e.Caller,
		} {
			if len(text) > JournalTextMax {
				return fail(field, fmt.Sprintf("%d bytes, at most %d", len(text), JournalTextMax))
			}
		}
	}
	return nil
}
