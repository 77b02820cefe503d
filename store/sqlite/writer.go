package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/troupe-run/troupe/store"
)

// request is one write call for the writer.
type request struct {
	ctx  context.Context
	what string // for errors
	rows int    // its size in a group: its rows, and one for each rowBytes of its data
	// work makes the call's changes in the writer's open transaction. It may run again after a rollback, so it resets its
	// results first. An error wrapped by ofCall concerns this call alone and left no change. Any other error ends the
	// transaction.
	work func(tx *writer) error
	err  error
	done chan struct{}
}

// rowBytes is how many bytes of data count as a row, so that a group has at most about 16 MiB, or one call.
const rowBytes = 4 << 10

// callError is an error of one call that changed nothing.
type callError struct{ error }

func (e callError) Unwrap() error { return e.error }

func ofCall(err error) error {
	if err == nil {
		return nil
	}
	return callError{err}
}

// writer owns the only connection that writes. While it commits one group, the next collects in the queue, so calls
// share transactions and none waits for a timer.
type writer struct {
	s       *Store
	c       *conn
	cache   *cache
	seq     int64     // the last assigned one
	now     time.Time // of the group
	careful bool      // each change in its own savepoint
	pools   map[string]int64
	written int   // pages since the checkpointer was last woken
	args    []any // of update
	// Of the current change: the facts for its decision, and the decision.
	facts   store.Facts
	decided store.Decision

	lastNotice int64 // the last number that the outbox assigned; 0: not known yet
}

func openWriter(s *Store) (*writer, error) {
	c, err := openConn(s.cfg, "cache_size(-8192)", checkpointMax, "journal_size_limit(67108864)")
	if err != nil {
		return nil, err
	}
	w := &writer{s: s, c: c, cache: newCache(s.cfg.CachedMax), pools: map[string]int64{}}
	w.seq, err = c.number("SELECT max(coalesce((SELECT max(seq) FROM request), 0), coalesce((SELECT value FROM meta WHERE name = 'seq'), 0))")
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return w, nil
}

func (w *writer) close() error { return w.c.close() }

// write passes work to the writer and waits for its commit. If ctx ends first, the call returns its error, and the work
// may or may not be done: the caller must repeat it.
func (s *Store) write(ctx context.Context, what string, rows int, work func(tx *writer) error) error {
	r := &request{ctx: ctx, what: what, rows: max(rows, 1), work: work, done: make(chan struct{})}
	select {
	case <-s.quit:
		return fmt.Errorf("%s: %w", what, store.ErrClosed)
	default:
	}
	select {
	case s.queue <- r:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.quit:
		return fmt.Errorf("%s: %w", what, store.ErrClosed)
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.done:
		select {
		case <-r.done:
		default:
			return fmt.Errorf("%s: %w", what, store.ErrClosed)
		}
	}
	return s.mapError(what, r.err)
}

func (w *writer) run() {
	defer close(w.s.done)
	var group []*request
	for {
		select {
		case <-w.s.quit:
			w.drain()
			return
		case r := <-w.s.queue:
			group = w.collect(append(group[:0], r))
			w.commit(group)
			clear(group)
		}
	}
}

// drain ends the calls that were queued when the store closed.
func (w *writer) drain() {
	for {
		select {
		case r := <-w.s.queue:
			r.err = store.ErrClosed
			close(r.done)
		default:
			return
		}
	}
}

// collect takes the waiting calls, up to the bound.
func (w *writer) collect(group []*request) []*request {
	rows, yielded := group[0].rows, false
	for rows < w.s.cfg.GroupRowsMax {
		select {
		case r := <-w.s.queue:
			group, rows = append(group, r), rows+r.rows
			continue
		default:
		}
		if yielded {
			break
		}
		// Callers that the last commit woke can queue their next call first.
		yielded = true
		runtime.Gosched()
	}
	return group
}

// commit makes the group's changes in one transaction. If that fails, each call gets its own transaction, so that one
// call never makes another fail.
func (w *writer) commit(group []*request) {
	err := w.transact(group)
	if err != nil && len(group) == 1 && !dataError(err) {
		group[0].err = err
	} else if err != nil {
		w.careful = true
		for i := range group {
			if err := w.transact(group[i : i+1]); err != nil {
				group[i].err = err
			}
		}
		w.careful = false
	}
	for _, r := range group {
		close(r.done)
	}
	w.checkpoint()
}

// transact runs the calls in one transaction. Errors of single calls are set in them. A returned error has undone
// everything.
func (w *writer) transact(group []*request) (err error) {
	if _, err = w.c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	seq := w.seq
	w.now = w.s.clock.now()
	defer func() {
		if err != nil {
			w.rollback(seq)
		}
	}()
	for _, r := range group {
		if r.err = r.ctx.Err(); r.err != nil {
			continue
		}
		var mine callError
		if err = w.guard(r); errors.As(err, &mine) {
			r.err, err = mine.error, nil
		}
		if err != nil {
			return err
		}
	}
	_, err = w.c.exec("COMMIT")
	return err
}

// guard runs one call's work. A panic in it is a broken invariant, which must not stop the writer for all other
// callers.
func (w *writer) guard(r *request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: panic: %v", r.what, p)
		}
	}()
	return r.work(w)
}

func (w *writer) rollback(seq int64) {
	// SQLite may have ended the transaction itself, for example on a full disk. Then this fails, which does not matter.
	_, _ = w.c.exec("ROLLBACK")
	w.seq = seq
	w.forget()
}

// forget drops all that the writer has cached from the file.
func (w *writer) forget() {
	w.cache.clear()
	clear(w.pools)
}

// poolsMax bounds the pool numbers that the writer caches.
const poolsMax = 4096

// rank returns the current rank of a waiting row, among those of its pool.
func (w *writer) rank(r *store.Row) (int64, error) {
	n, ok := w.pools[r.Pool]
	if !ok {
		if err := w.exec("INSERT OR IGNORE INTO pool (name) VALUES (?)", r.Pool); err != nil {
			return 0, err
		}
		found, err := w.c.number("SELECT n FROM pool WHERE name = ?", r.Pool)
		if err != nil {
			return 0, err
		}
		if len(w.pools) >= poolsMax {
			clear(w.pools)
		}
		n, w.pools[r.Pool] = found, found
	}
	return rankOf(n, waitIn(r, w.now), r.Priority), nil
}

// isolate runs f so that a failure of f undoes only f. In a careful transaction it uses a savepoint. In a fast one the
// failure ends the transaction, and the careful one follows.
func (w *writer) isolate(f func() error) error {
	if !w.careful {
		return f()
	}
	if _, err := w.c.exec("SAVEPOINT change"); err != nil {
		return err
	}
	err := f()
	if err != nil && dataError(err) {
		w.forget()
		if _, e := w.c.exec("ROLLBACK TO change"); e != nil {
			return e
		}
		err = ofCall(err)
	}
	if _, e := w.c.exec("RELEASE change"); e != nil && (err == nil || errors.As(err, new(callError))) {
		return e
	}
	return err
}

func (w *writer) exec(sql string, args ...any) error {
	_, err := w.c.exec(sql, args...)
	return err
}

// read runs f with a reading connection.
func (s *Store) read(ctx context.Context, what string, f func(c *conn) error) error {
	return s.readBy(ctx, s.readers, what, f)
}

// readBy is read with one of these connections.
func (s *Store) readBy(ctx context.Context, readers chan *conn, what string, f func(c *conn) error) error {
	select {
	case <-s.quit:
		return fmt.Errorf("%s: %w", what, store.ErrClosed)
	default:
	}
	select {
	case c := <-readers:
		err := f(c)
		readers <- c
		return s.mapError(what, err)
	case <-ctx.Done():
		return ctx.Err()
	case <-s.quit:
		return fmt.Errorf("%s: %w", what, store.ErrClosed)
	}
}

// takeReader waits for a reading connection. Each read is bounded, so the wait is too.
func takeReader(readers chan *conn) (*conn, bool) {
	select {
	case c := <-readers:
		return c, true
	case <-time.After(10 * time.Second):
		return nil, false
	}
}

// Now returns the store's clock.
func (s *Store) Now(context.Context) (time.Time, error) { return s.clock.now(), nil }
