package api

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// call is one request on its way.
type call struct {
	w      http.ResponseWriter
	r      *http.Request
	query  query
	caller string
	blind  bool  // the caller may not read what others submitted
	max    int64 // bytes of the body
	// whole is the caller's own context, without the bound on the work of one call, for what may wait after it.
	whole  context.Context
	place  *gauge // where it is worked on; nil: it needs no place
	limit  time.Duration
	open   bool // anybody may make it
	known  bool // the caller has shown who it is
	begun  bool // its body was asked for
	read   bool // its body was read to its end
	cancel context.CancelFunc
	room   *gauge  // that it is in; nil: none
	hold   holding // of the bytes of all bodies
}

// enter takes the call's place among those that are worked on, and bounds the time of the work. Before it the caller has
// shown that it may, and has sent its body: who has not takes no place from anybody.
func (c *call) enter() error {
	if c.place != nil && !c.place.enter() {
		return c.place.full()
	}
	c.room = c.place
	if !c.open {
		serving(c.whole)
	}
	if c.limit > 0 {
		var ctx context.Context
		ctx, c.cancel = context.WithTimeout(c.whole, c.limit)
		c.r = c.r.WithContext(ctx)
	}
	return nil
}

// waitIn moves the call to the room of those that wait, so that they leave the others theirs.
func (c *call) waitIn(room *gauge) error {
	if !room.enter() {
		return room.full()
	}
	c.leave()
	c.room = room
	return nil
}

// leave gives up the call's place.
func (c *call) leave() {
	if c.room != nil {
		c.room.leave()
		c.room = nil
	}
}

// end gives back all that the call has. It may be called again.
func (c *call) end() {
	c.leave()
	c.hold.release()
	if c.cancel != nil {
		c.cancel()
	}
}

// gauge counts what is in flight, up to max.
type gauge struct {
	now atomic.Int64
	max int64
}

func (g *gauge) enter() bool {
	if g.now.Add(1) > g.max {
		g.now.Add(-1)
		return false
	}
	return true
}

func (g *gauge) isFull() bool { return g.now.Load() >= g.max }

func (g *gauge) leave() { g.now.Add(-1) }

func (g *gauge) full() *messages.Problem {
	return messages.Problemf(messages.CodeTooManyRequests,
		"%d requests like this one are in flight, which is all that this node takes; try again", g.max)
}
