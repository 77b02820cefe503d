package api

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// call is one request in work.
type call struct {
	w      http.ResponseWriter
	r      *http.Request
	query  query
	caller string
	who    caller
	blind  bool  // the caller may not read executions of others
	max    int64 // maximum bytes of the body
	// whole is the caller's own context, without the time limit of a call, for waits after the work.
	whole  context.Context
	place  *gauge // the gauge of its work; nil: it needs no place
	limit  time.Duration
	open   bool // its route needs no scope
	known  bool // the caller is known
	begun  bool // it has begun to read its body
	read   bool // it has read the whole body
	cancel context.CancelFunc
	room   *gauge  // the gauge that counts it now; nil: none
	hold   holding // its part of the bytes of all bodies
	answer *answer // its part of the bytes of all answers
}

// enter takes a place for the call and bounds the time of its work. It is called after the caller is admitted and the
// body has arrived, so that a call without them takes no place.
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

// waitIn moves the call to the places of waiting calls, and frees its place for others.
func (c *call) waitIn(room *gauge) error {
	if !room.enter() {
		return room.full()
	}
	c.leave()
	c.room = room
	return nil
}

// leave frees the call's place.
func (c *call) leave() {
	if c.room != nil {
		c.room.leave()
		c.room = nil
	}
}

// end frees everything that the call holds. It may be called again.
func (c *call) end() {
	c.leave()
	c.hold.release()
	c.answer.release()
	if c.cancel != nil {
		c.cancel()
	}
}

// gauge counts calls in flight, up to max.
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
