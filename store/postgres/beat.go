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
	held   map[messages.Incarnation]bool
	nodes  atomic.Int64 // number in the last beat
}

func newBeater(s *core, config *pgx.ConnConfig) *beater {
	return &beater{s: s, config: config, turn: make(chan struct{}, 1)}
}

// use runs f with exclusive use of the connection. Any error except a statement's own ends the connection.
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
	if b.conn == nil {
		c, err := pgx.ConnectConfig(ctx, b.config)
		if err != nil {
			return b.s.mapError(what, err)
		}
		b.conn, b.held = c, map[messages.Incarnation]bool{}
	}
	err := f(ctx, b.conn)
	if err != nil && sqlState(err) == "" {
		b.drop()
	}
	return b.s.mapError(what, err)
}

// hold takes the incarnation's lock, once for each connection. If an older connection of this process still has it, the
// next beat tries again. Nothing depends on the lock.
func (b *beater) hold(ctx context.Context, c *pgx.Conn, inc messages.Incarnation) error {
	if b.held[inc] {
		return nil
	}
	var got bool
	if err := c.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", lockOf(inc)).Scan(&got); err != nil {
		return err
	}
	if got {
		b.held[inc] = true
	}
	return nil
}

// drop closes the connection. The server releases its locks.
func (b *beater) drop() {
	if b.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = b.conn.Close(ctx) // its error does not matter
	b.conn = nil
}

// seen records the number of live nodes.
func (b *beater) seen(nodes int) { b.nodes.Store(int64(nodes)) }

// others reports whether the last beat found nodes other than the caller's.
func (b *beater) others() bool { return b.nodes.Load() > 1 }

// alone reports whether the last beat found only the caller's node.
func (b *beater) alone() bool { return b.nodes.Load() == 1 }

func (b *beater) close() {
	b.turn <- struct{}{}
	b.drop()
	<-b.turn
}
