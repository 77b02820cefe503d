package supervisor

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

// echoDue sends an echo when its time has come and looks after the one under way.
func (p *Pool) echoDue(now time.Time) {
	e := &p.echo
	if e.open && !e.late && p.draining == nil && now.Sub(e.sentAt) > echoLate {
		p.echoIs(true, now.Sub(e.sentAt))
	}
	if p.halts() {
		e.open, e.sentAt = false, now // it could not come back, and that is no fault of the pool's
		return
	}
	if p.cfg.EchoEvery <= 0 || p.draining != nil || now.Sub(e.sentAt) < p.cfg.EchoEvery || e.open && !e.late {
		return // one that is under way must be seen to be late before another covers it
	}
	target := p.echoSlot()
	if target == nil {
		return
	}
	e.number++
	e.id, e.sentAt, e.open = strconv.Itoa(e.number), now, true
	id, queue, slot, every := e.id, p.queueOf(target), strconv.Itoa(int(target.number)), p.cfg.EchoEvery
	p.world.Beside(echoLate, func(ctx context.Context) func() {
		_, err := p.cfg.Store.Now(ctx)
		if err == nil {
			_, err = p.cfg.Broker.Publish(ctx, []broker.Message{{
				RoutingKey: queue, ID: slot, Headers: map[string]string{echoHeader: id}, Expiration: every,
			}})
		}
		if err != nil {
			p.cfg.Logger.Warn("dispatch echo not sent", "error", err)
		}
		return nil
	})
}

// echoSlot takes the slots in turn, those with a ready worker only.
func (p *Pool) echoSlot() *slot {
	for range p.slots {
		p.echo.slot = (p.echo.slot + 1) % len(p.slots)
		s := p.slots[p.echo.slot]
		if s.cur != nil && s.cur.ready && p.attached[p.queueOf(s)] {
			return s
		}
	}
	return nil
}

// echoDelivered passes an echo on to its worker.
func (p *Pool) echoDelivered(d broker.Delivery, id string) {
	p.pending.acks = append(p.pending.acks, d)
	n, err := strconv.Atoi(d.ID)
	if err != nil || n < 0 || n >= len(p.slots) || p.slots[n].cur == nil {
		return
	}
	p.send(p.slots[n].cur.pid, &actors.Echo{ID: id})
}

func (p *Pool) echoAnswered(m *actors.EchoAnswered) {
	if !p.echo.open || m.ID != p.echo.id {
		return
	}
	p.echo.open = false
	p.echoIs(false, p.world.Now().Sub(p.echo.sentAt))
}

func (p *Pool) echoIs(late bool, took time.Duration) {
	if late && !p.echo.late {
		p.cfg.Logger.Error("pool does not deliver: its dispatch echo is late", "after", took)
	}
	p.echo.late, p.echo.took = late, took
	if p.cfg.Hooks.Echo != nil {
		p.cfg.Hooks.Echo(p.cfg.Name, took, late)
	}
}
