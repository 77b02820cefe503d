package workers

import (
	"context"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker"
)

// echoLate is when a dispatch echo counts as late.
const echoLate = 5 * time.Second

// echo is the pool's dispatch echo: a no-op that travels store → router → broker → worker actor and back, so that a pool
// that is up but does not deliver is seen to be so.
type echo struct {
	number int
	id     string
	slot   int
	sentAt time.Time
	open   bool
	late   bool
	took   time.Duration
}

// due sends an echo when its time has come and looks after the one under way.
func (e *echo) due(w *Workers, now time.Time) {
	if e.open && !e.late && !w.Draining && now.Sub(e.sentAt) > echoLate {
		e.is(w, true, now.Sub(e.sentAt))
	}
	if w.Halts() {
		e.open, e.sentAt = false, now // it could not come back, and that is no fault of the pool's
		return
	}
	if w.Config.EchoEvery <= 0 || w.Draining || now.Sub(e.sentAt) < w.Config.EchoEvery || e.open && !e.late {
		return // one that is under way must be seen to be late before another covers it
	}
	target := e.next(w)
	if target == nil {
		return
	}
	e.number++
	e.id, e.sentAt, e.open = strconv.Itoa(e.number), now, true
	id, queue, slot, every := e.id, w.queueOf(target), strconv.Itoa(int(target.number)), w.Config.EchoEvery
	w.World.Beside(echoLate, func(ctx context.Context) func() {
		_, err := w.Config.Store.Now(ctx)
		if err == nil {
			_, err = w.Config.Broker.Publish(ctx, []broker.Message{{
				RoutingKey: queue, ID: slot, Headers: map[string]string{actors.EchoHeader: id}, Expiration: every,
			}})
		}
		if err != nil {
			w.Config.Logger.Warn("dispatch echo not sent", "error", err)
		}
		return nil
	})
}

// next takes the slots in turn, those with a ready worker only.
func (e *echo) next(w *Workers) *slot {
	for range w.slots {
		e.slot = (e.slot + 1) % len(w.slots)
		s := w.slots[e.slot]
		if s.cur != nil && s.cur.ready && w.link.Brings(w.queueOf(s)) {
			return s
		}
	}
	return nil
}

// EchoDelivered passes an echo on to its worker.
func (w *Workers) EchoDelivered(number, id string) {
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n >= len(w.slots) || w.slots[n].cur == nil {
		return
	}
	w.Send(w.slots[n].cur.pid, &actors.Echo{ID: id})
}

// EchoAnswered hears that a worker has an echo.
func (w *Workers) EchoAnswered(m *actors.EchoAnswered) {
	e := &w.echo
	if !e.open || m.ID != e.id {
		return
	}
	e.open = false
	e.is(w, false, w.World.Now().Sub(e.sentAt))
}

func (e *echo) is(w *Workers, late bool, took time.Duration) {
	if late && !e.late {
		w.Config.Logger.Error("pool does not deliver: its dispatch echo is late", "after", took)
	}
	e.late, e.took = late, took
	if w.Config.Hooks.Echo != nil {
		w.Config.Hooks.Echo(w.Config.Name, took, late)
	}
}
