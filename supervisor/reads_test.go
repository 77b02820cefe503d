package supervisor

import (
	"testing"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// A pool reads what stands on its workers while it places. What is placed and ends before the answer comes may be in it, and holds no
// worker's room.
func TestAPlacementThatHasEndedIsNotReadBack(t *testing.T) {
	t.Parallel()
	stage := newTheatre()
	h := build(t, "go", 1, goes(stage.wait), func(c *PoolConfig) { c.ClaimTimeout = time.Hour })
	h.ready(1)
	read, answer := h.store.holdAnswer(2) // the router's, and that of what the actor before has left
	h.crash("top/pool")
	h.remade(2)
	ids := h.submit(1, idempotent)
	soon(t, func() bool { return stage.runs() == 1 }, "it must run")
	read()
	close(stage.release)
	h.all(ids, messages.Completed)
	answer()
	h.all(h.submit(1, idempotent), messages.Completed)
	h.empty()
}
