package supervisor

import (
	"context"
	"testing"

	"github.com/troupe-run/troupe/messages"
)

// A pool with bounds gets more workers while work waits and nobody is free, up to its upper bound. How it shrinks is
// package scale's to say, and how a worker leaves is that of any other resize.
func TestPoolGrowsWithItsWork(t *testing.T) {
	t.Parallel()
	open := make(chan struct{})
	wait := func(ctx context.Context, _ *messages.Task) (any, error) {
		select {
		case <-open:
		case <-ctx.Done():
		}
		return 1, nil
	}
	h := build(t, "go", 1, goes(wait), func(c *PoolConfig) { c.WorkersMax = 4 })
	h.ready(1)
	ids := h.submit(8, nil)
	soon(t, func() bool { return h.describe().Router.Running == 4 }, "four at once")
	close(open)
	h.all(ids, messages.Completed)
	h.ready(4)
}
