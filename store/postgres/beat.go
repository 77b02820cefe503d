package postgres

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// beater owns the connection for beats. The connection holds the advisory lock of each incarnation that beats on it:
// the server releases the lock as soon as the process dies. The next beat replaces a broken connection.
type beater struct {
	s      *core
	config *pgx.ConnConfig
	turn   chan struct{} // held while the connection is used
	conn   *pgx.Conn
	held   map[messages.Incarnation]heldLock
	nodes  atomic.Int64 // that the last beat saw
}

// heldLock is the lock of an incarnation, as the connection of the beats has it.
type heldLock struct {
	pid  int32 // the server's process that has it; 0: none
	told bool  // the incarnation's row says so
}

func newBeater(s *core, config *pgx.ConnConfig) *beater {
	return &beater{s: s, config: config, turn: make(chan struct{}, 1)}
}

// use runs f with the connection, alone. Any error but one of a statement (ofStatement) ends the connection. Where the
// connection had broken since it was used last, f is repeated over a new one at once: others take an incarnation without a
// connection for one whose process may have ended. So f must bear to be repeated.
func (b *beater) use(ctx context.Context, what string, f func(ctx context.Context, c *pgx.Conn) error) error {
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", what, ctx.Err())
	case <-b.s.quit:
		return fmt.Errorf("%s: %w", what, store.ErrClosed)
	}
	defer func() { <-b.turn }()
	ctx, cancel := bounded(ctx)
	defer cancel()
	if b.s.closed() {
		return fmt.Errorf("%s: %w", what, store.ErrClosed)
	}
	if b.conn != nil && b.conn.IsClosed() {
		b.conn = nil
	}
	again := b.conn != nil
	err := b.over(ctx, f)
	if again && b.conn == nil && err != nil && ctx.Err() == nil {
		err = b.over(ctx, f)
	}
	return b.s.mapError(what, err)
}

// over runs f with the connection, or with a new one where there is none, and gives up one that is of no more use.
func (b *beater) over(ctx context.Context, f func(ctx context.Context, c *pgx.Conn) error) error {
	if b.conn == nil {
		c, err := pgx.ConnectConfig(ctx, b.config)
		if err != nil {
			return err
		}
		b.conn, b.held = c, map[messages.Incarnation]heldLock{}
	}
	err := f(ctx, b.conn)
	if err != nil && (!ofStatement(err) || b.conn.IsClosed()) {
		b.drop()
	}
	return err
}

// hold takes the incarnation's lock, once a connection. Where an older connection of this very process still has it,
// the next beat tries again, and the row says that the lock is not held.
func (b *beater) hold(ctx context.Context, c *pgx.Conn, inc messages.Incarnation) error {
	if b.held[inc].pid != 0 {
		return nil
	}
	var got bool
	var pid int32
	if err := c.QueryRow(ctx, "SELECT pg_try_advisory_lock($1), pg_backend_pid()", lockOf(inc)).Scan(&got, &pid); err != nil {
		return err
	}
	if got {
		b.held[inc] = heldLock{pid: pid}
	}
	return nil
}

// told notes that the incarnation's row says whether the lock is held.
func (b *beater) told(inc messages.Incarnation) {
	if l, ok := b.held[inc]; ok {
		l.told = true
		b.held[inc] = l
	}
}

// drop closes the connection; the server frees its locks.
func (b *beater) drop() {
	if b.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = b.conn.Close(ctx) // its error does not matter
	b.conn = nil
}

// seen records the number of live nodes, and reports whether the caller was alone until now.
func (b *beater) seen(nodes int) (met bool) { return b.nodes.Swap(int64(nodes)) == 1 && nodes > 1 }

// others reports whether the last beat found nodes other than the caller's.
func (b *beater) others() bool { return b.nodes.Load() > 1 }

// alone reports whether the last beat found only the caller's node.
func (b *beater) alone() bool { return b.nodes.Load() == 1 }

func (b *beater) close() {
	b.turn <- struct{}{}
	b.drop()
	<-b.turn
}
