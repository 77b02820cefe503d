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
// that is up but does not deliver is seen to be so. It is also due on a worker whose queue does not deliver, and is sent when the queue does.
type echo struct {
	number   int
	id       string
	slot     int
	target   *slot
	sentAt   time.Time
	haltedAt time.Time // when nothing could be placed, last
	open     bool
	unsent   bool // open, and its target's queue does not deliver yet
	told     bool // that this one is late
	late     bool
	took     time.Duration
}

// due sends an echo when its time has come and looks after the one under way.
func (e *echo) due(w *Workers, now time.Time) {
	if e.open && !e.told && !w.Draining && now.Sub(e.sentAt) > echoLate {
		e.told = true
		e.is(w, true, now.Sub(e.sentAt))
	}
	if w.Halts() {
		e.open, e.sentAt, e.haltedAt = false, now, now // it could not come back, and that is no fault of the pool's
		return
	}
	switch {
	case !e.open || !e.unsent:
	case e.target.cur == nil || !e.target.cur.ready:
		e.open = false // the worker has gone, and its place is echoed again in its turn
	case w.link.Brings(w.queueOf(e.target)):
		e.send(w)
	}
	if w.Config.EchoEvery <= 0 || w.Draining || now.Sub(e.sentAt) < w.Config.EchoEvery || e.open && !e.told {
		return // one that is under way must be seen to be late before another covers it
	}
	target := e.next(w)
	if target == nil {
		return
	}
	e.number++
	e.id, e.sentAt, e.open, e.told, e.target = strconv.Itoa(e.number), now, true, false, target
	if e.unsent = !w.link.Brings(w.queueOf(target)); !e.unsent {
		e.send(w)
	}
}

// send sends the echo that is due to its target.
func (e *echo) send(w *Workers) {
	e.unsent = false
	id, queue, slot, every := e.id, w.queueOf(e.target), strconv.Itoa(int(e.target.number)), w.Config.EchoEvery
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
		if s.cur != nil && s.cur.ready {
			return s
		}
	}
	return nil
}

// unattached is how long a ready worker has got nothing although the pool's work could be placed, because its queue does not deliver, and
// why; 0: it does, or has not for less than echoLate.
func (w *Workers) unattached(s *slot, now time.Time) (length time.Duration, why string) {
	if s.cur == nil || !s.cur.ready || w.Draining || w.Halts() {
		return 0, ""
	}
	since, why := w.link.Unattached(w.queueOf(s))
	if since.IsZero() {
		return 0, ""
	}
	for _, t := range []time.Time{s.cur.since, w.echo.haltedAt} {
		if t.After(since) {
			since = t
		}
	}
	if length = now.Sub(since); length < echoLate {
		return 0, ""
	}
	return length, why
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
		why := ""
		if e.unsent {
			_, why = w.link.Unattached(w.queueOf(e.target))
		}
		w.Config.Logger.Error("pool does not deliver: its dispatch echo is late", "after", took, "error", why)
	}
	e.late, e.took = late, took
	if w.Config.Hooks.Echo != nil {
		w.Config.Hooks.Echo(w.Config.Name, took, late)
	}
}
