package supervisor

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// settler notes what becomes of a delivery.
type settler struct {
	acks, nacks atomic.Int64
	acked       func()
}

func (s *settler) Ack() error {
	if s.acked != nil {
		s.acked()
	}
	s.acks.Add(1)
	return nil
}

func (s *settler) Nack(bool) error {
	s.nacks.Add(1)
	return nil
}

// A delivery that no worker can take is handed back: its row first, then the ack. Acked before, it would be lost with the
// node, and its row would say for a whole claim timeout that a worker has it.
func TestAHandBackIsAckedOnceItsRowIsWritten(t *testing.T) {
	t.Parallel()
	h := build(t, "go", 1, goes(quick), nil)
	h.ready(1)
	e := h.execution()
	gone := messages.WorkerKey{Incarnation: h.config.Incarnation, Pool: "pool", Slot: 7} // a slot that the pool has not
	_, err := h.store.SubmitPlaced(t.Context(), []messages.Execution{e}, []*store.Place{{
		ID: e.ID, Worker: gone, WorkerID: "node/pool/7", PlacedBy: h.config.Incarnation, ClaimWithin: h.config.ClaimTimeout,
	}})
	require.NoError(t, err)

	atAck := &atomic.Pointer[messages.Execution]{}
	s := &settler{acked: func() {
		e, err := h.store.Get(t.Context(), e.ID)
		if err == nil {
			atAck.Store(&e)
		}
	}}
	body, err := broker.Work{Worker: gone, Placements: []messages.Placement{{Execution: e.ID, Attempt: 1}}}.Encode()
	require.NoError(t, err)
	h.store.close()
	h.system.Send(h.pid, &actors.Delivered{Deliveries: []broker.Delivery{{Message: broker.Message{Body: body}, Settler: s}}})
	h.describe() // the pool has handled it and flushed what it gathered
	require.Zero(t, s.acks.Load(), "its row is not written")
	h.store.open()
	soon(t, func() bool { return s.acks.Load() == 1 }, "it must be acked once its row is written")
	seen := atAck.Load()
	require.NotNil(t, seen)
	require.False(t, seen.Status == messages.Scheduled && seen.Attempt == 1, "at the ack it was still placed where nobody has it")
	require.Zero(t, s.nacks.Load())
	h.all([]messages.ExecutionID{e.ID}, messages.Completed)
	h.empty()
}
