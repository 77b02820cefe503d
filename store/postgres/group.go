package postgres

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/troupe-run/troupe/store"
)

// callTimeout bounds one group's transaction with all its repetitions, for each transactionBytes of it.
const callTimeout = 20 * time.Second

// call is the part that all grouped calls have.
type call interface {
	context() context.Context
	finished() chan struct{}
	fail(err error)
}

// grouper lets calls share transactions. While its lanes are busy, calls collect, and the next free lane takes all of
// them, up to a bound. No call waits for a timer, and a single caller pays one commit.
type grouper[C call] struct {
	s        *core
	queue    chan C
	turn     chan struct{} // held by the lane that works
	patience time.Duration
	rows     func(C) int
	bytes    func(C) int
	commit   func(ctx context.Context, group []C)
}

// newGrouper starts the lanes. Patience is how long a lane waits for another one before it works at the same time. A
// few large groups cost less than many small ones, but no call should wait for a slow group.
func newGrouper[C call](s *core, patience time.Duration, rows, bytes func(C) int, commit func(ctx context.Context, group []C)) *grouper[C] {
	g := &grouper[C]{s: s, queue: make(chan C, s.cfg.WaitingMax), turn: make(chan struct{}, 1), patience: patience, rows: rows, bytes: bytes, commit: commit}
	for range s.cfg.LanesMax {
		s.work.Go(g.run)
	}
	return g
}

// do passes the call to a lane and waits for its end. If ctx ends first, the call may or may not be made: the caller
// must repeat it.
func (g *grouper[C]) do(ctx context.Context, what string, c C) error {
	if g.s.closed() {
		return fmt.Errorf("%s: %w", what, store.ErrClosed)
	}
	select {
	case g.queue <- c:
	case <-ctx.Done():
		return ctx.Err()
	case <-g.s.quit:
		return fmt.Errorf("%s: %w", what, store.ErrClosed)
	}
	select {
	case <-c.finished():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-g.s.ended: // the call was queued after the lanes ended, or they ended before it
		select {
		case <-c.finished():
			return nil
		default:
			return fmt.Errorf("%s: %w", what, store.ErrClosed)
		}
	}
}

// run is one lane.
func (g *grouper[C]) run() {
	for {
		select {
		case <-g.s.quit:
			g.drain()
			return
		case c := <-g.queue:
			mine := g.await()
			g.runGroup(g.collect(c))
			if mine {
				<-g.turn
			}
		}
	}
}

// await waits for the other lanes' work, up to patience; false: this lane works at the same time as another.
func (g *grouper[C]) await() bool {
	select {
	case g.turn <- struct{}{}:
		return true
	default:
	}
	if g.patience == 0 {
		return false
	}
	late := time.NewTimer(g.patience)
	defer late.Stop()
	select {
	case g.turn <- struct{}{}:
		return true
	case <-late.C:
		return false
	}
}

// drain ends the waiting calls when the store closes. A call that is queued later sees the store's end itself.
func (g *grouper[C]) drain() {
	for {
		select {
		case c := <-g.queue:
			c.fail(store.ErrClosed)
			close(c.finished())
		default:
			return
		}
	}
}

// collect takes the waiting calls, up to the bounds. It first lets callers that the last commit woke queue their next
// call.
func (g *grouper[C]) collect(first C) []C {
	group, rows, bytes, yielded := []C{first}, g.rows(first), g.bytes(first), false
	for rows < g.s.cfg.GroupRowsMax && bytes < transactionBytes {
		select {
		case c := <-g.queue:
			group, rows, bytes = append(group, c), rows+g.rows(c), bytes+g.bytes(c)
			continue
		default:
		}
		if yielded {
			break
		}
		yielded = true
		runtime.Gosched()
	}
	return group
}

// runGroup makes the calls whose callers still wait. The transaction has its own deadline: a caller that gives up does not
// end the work of others.
func (g *grouper[C]) runGroup(group []C) {
	live, parts := group[:0:0], 1
	for _, c := range group {
		if err := c.context().Err(); err != nil {
			c.fail(err)
			close(c.finished())
			continue
		}
		live, parts = append(live, c), parts+g.bytes(c)/transactionBytes // one call alone may be larger
	}
	if len(live) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(parts)*callTimeout)
		g.commit(ctx, live)
		cancel()
	}
	for _, c := range live {
		close(c.finished())
	}
}
