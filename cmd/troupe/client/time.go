package client

import (
	"context"
	"net/http"
	"time"

	"github.com/troupe-run/troupe/api"
)

// Now is the time of the node's store as far as an answer has told it, or this machine's where none has: ages and delays go by
// the clock that made the times, whatever this machine's shows.
func (c *Client) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// NodeTime is Now, and asks the node where no answer has told the time yet.
func (c *Client) NodeTime(ctx context.Context) (time.Time, error) {
	if !c.told.Load() {
		response, err := c.send(ctx, http.MethodGet, "/healthz", nil, "application/json")
		if err != nil {
			return time.Time{}, err
		}
		response.Body.Close() // whatever it says, it says when
	}
	return c.Now(), nil
}

// hear keeps how far the node's time is ahead of this machine's, from an answer to what was sent and answered at these times.
func (c *Client) hear(h http.Header, sent, answered time.Time) {
	ahead, ok := aheadOf(h, sent, answered)
	if ok {
		c.ahead.Store(int64(ahead))
		c.told.Store(true)
	}
}

// aheadOf reads the time at which the request arrived. A node of an older version says in whole seconds when it answered; while
// this machine's clock may be right by that, it is taken as right.
func aheadOf(h http.Header, sent, answered time.Time) (time.Duration, bool) {
	if at, err := time.Parse(time.RFC3339Nano, h.Get(api.HeaderTime)); err == nil {
		return at.Sub(sent), true
	}
	at, err := http.ParseTime(h.Get("Date"))
	switch {
	case err != nil:
		return 0, false
	case !at.Before(sent.Truncate(time.Second)) && !at.After(answered):
		return 0, true
	}
	return at.Add(time.Second / 2).Sub(answered), true
}
