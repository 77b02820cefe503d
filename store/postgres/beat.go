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

// beater owns the connection of the beats, which holds the advisory lock of each incarnation that beats over it: the
// server gives the lock up as soon as the process has died. A connection that broke is replaced by the next beat.
type beater struct {
	s      *core
	config *pgx.ConnConfig
	turn   chan struct{} // held while the connection is used
	conn   *pgx.Conn
	held   map[messages.Incarnation]bool
	nodes  atomic.Int64 // that the last beat saw
}

func newBeater(s *core, config *pgx.ConnConfig) *beater {
	return &beater{s: s, config: config, turn: make(chan struct{}, 1)}
}

// use runs f with the connection, alone. Any error but one that the server said of a statement ends the connection.
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

// hold takes the incarnation's lock, once a connection. Where an older connection of this very process still has it,
// the next beat tries again; nothing depends on it.
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

// drop closes the connection; the server frees its locks.
func (b *beater) drop() {
	if b.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = b.conn.Close(ctx) // it is given up whatever it says
	b.conn = nil
}

// seen notes how many nodes are alive.
func (b *beater) seen(nodes int) { b.nodes.Store(int64(nodes)) }

// others reports whether the last beat saw other nodes than the caller's.
func (b *beater) others() bool { return b.nodes.Load() > 1 }

// alone reports whether the last beat saw the caller's node and no other.
func (b *beater) alone() bool { return b.nodes.Load() == 1 }

func (b *beater) close() {
	b.turn <- struct{}{}
	b.drop()
	<-b.turn
}
