package operate

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
)

// hintTime bounds a hint to another node.
const hintTime = 2 * time.Second

// hint tells another incarnation something that it would learn from the store as well, a little later. Nobody waits for it.
func (c *Calls) hint(to messages.Incarnation, about messages.Placement, body wire.Body) {
	if c.nodes.network == nil {
		return
	}
	c.Beside(func(ctx context.Context) {
		if _, err := c.nodes.network.AskLong(ctx, hintTime, to, about, body); err != nil {
			c.cfg.Logger.Debug("hint not given", "to", to, "error", err)
		}
	})
}

// Beside tells other nodes something that nobody waits for, in its own time. So many at once that there is no room are left out:
// what is told so must be in the store as well, or must not matter.
func (c *Calls) Beside(tell func(context.Context)) {
	select {
	case c.hinting <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-c.hinting }()
		ctx, cancel := context.WithTimeout(context.Background(), hintTime)
		defer cancel()
		tell(ctx)
	}()
}

// hintsMax bounds the hints under way.
const hintsMax = 32

// hintCancel tells the node that runs an execution that it is to be cancelled. The store says so already.
func (c *Calls) hintCancel(e *messages.Execution, by string) {
	if e.Status == messages.Cancelling && e.Worker.Incarnation != c.cfg.Incarnation && !e.Worker.IsZero() {
		c.hint(e.Worker.Incarnation, e.Placement(), wire.Cancel{By: by, Pool: e.Worker.Pool, Slot: e.Worker.Slot})
	}
}
