package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Apply makes the changes in order, in one transaction that it may share with other calls.
func (s *Store) Apply(ctx context.Context, changes []store.Change) ([]store.Result, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	var out []store.Result
	bytes := 0
	for _, c := range changes {
		bytes += store.Size(c)
	}
	err := s.write(ctx, "apply", len(changes)+bytes/rowBytes, func(w *writer) error {
		out = make([]store.Result, len(changes))
		if err := w.load(changes); err != nil {
			return err
		}
		for i, c := range changes {
			if err := w.apply(c, &out[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// apply makes one change. If its data cannot be stored, the change is refused and the others are made.
func (w *writer) apply(c store.Change, out *store.Result) error {
	r, err := w.record(c.Target())
	if err != nil {
		return err
	}
	if r == nil {
		*out = store.Result{Verdict: store.Missing, At: w.now}
		return nil
	}
	found := store.Result{Status: r.Status, Attempt: r.Attempt, At: w.now}
	err = w.isolate(func() error {
		*out = found
		return w.change(c, r, out)
	})
	if mine := (callError{}); errors.As(err, &mine) {
		*out = found
		out.Verdict, out.Err = store.Refused, fmt.Errorf("%s execution %s: %w", c.Name(), c.Target(), mine.error)
		return nil
	}
	return err
}

// update runs one UPDATE of the execution table that ends with the guard on (seq, status, attempt).
func (w *writer) update(sql string, r *record, args ...any) error {
	w.args = append(append(w.args[:0], args...), r.Seq, int64(r.Status), int64(r.Attempt))
	n, err := w.c.exec(sql, w.args...)
	if err != nil {
		return err
	}
	if n != 1 {
		// Another program changed the file, or an invariant is broken.
		w.cache.clear()
		return fmt.Errorf("%w: execution %s is not %s at attempt %d in the file any more", store.ErrUnavailable, r.ID, r.Status, r.Attempt)
	}
	return nil
}

// cachedParameters bounds the length of parameters that stay in the writer's cache.
const cachedParameters = 4096

// remember puts a row into the cache, without long parameters. The cache owns the row from then on.
func (w *writer) remember(r *record) {
	if len(r.Parameters) > cachedParameters {
		kept := *r
		kept.Parameters = nil
		r = &kept
	}
	w.cache.put(r)
}

// record returns the current row, or nil.
func (w *writer) record(id messages.ExecutionID) (*record, error) {
	if r := w.cache.get(id); r != nil {
		return r, nil
	}
	r, err := readOne(w.c, working+" WHERE r.id = ?", id[:])
	if r != nil {
		w.cache.put(r)
	}
	return r, err
}

// loadWidth is how many rows one statement of load reads.
const loadWidth = 64

var loadIDs = " WHERE r.id IN (?" + strings.Repeat(", ?", loadWidth-1) + ")"

var (
	loadFresh   = fresh + loadIDs + store.Statement(" AND e.first_placed_at = 0 AND e.last_change = {submit}")
	loadWorking = working + loadIDs
)

// load reads the changes' rows into the cache, many with one statement. Rows that will be placed for the first time
// have only a few columns to read. Nearly all rows that are read here are such.
func (w *writer) load(changes []store.Change) error {
	var first, other loader
	for _, c := range changes {
		id := c.Target()
		if w.cache.get(id) != nil {
			continue
		}
		l := &other
		if placesFirst(c) {
			l = &first
		}
		l.ids = append(l.ids, id[:])
	}
	if err := first.run(w, loadFresh, scanFresh); err != nil {
		return err
	}
	return other.run(w, loadWorking, scanWorking)
}

// placesFirst reports whether a change may be the first placement of its execution.
func placesFirst(c store.Change) bool {
	switch c := c.(type) {
	case *store.Place:
		return c.Attempt == 0
	case *store.Claim:
		return !c.PlacedBy.IsZero() && c.Attempt == 1
	}
	return false
}

// loader reads rows by id, loadWidth in one statement.
type loader struct{ ids []any }

func (l *loader) run(w *writer, sql string, scan func(row, *record) error) error {
	for len(l.ids) > 1 { // a single one is read by record
		n := min(len(l.ids), loadWidth)
		args := make([]any, loadWidth)
		copy(args, l.ids[:n])
		l.ids = l.ids[n:]
		err := w.c.query(sql, func(row row) error {
			r := &record{}
			if err := scan(row, r); err != nil {
				return err
			}
			w.cache.put(r)
			return nil
		}, args...)
		if err != nil {
			return err
		}
	}
	return nil
}
