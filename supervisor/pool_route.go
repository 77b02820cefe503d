package supervisor

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor/health"
	"github.com/troupe-run/troupe/supervisor/restart"
	"github.com/troupe-run/troupe/supervisor/roster"
)

// effects are what the roster wants done, gathered while one message is handled, so that many small wishes become one
// transaction and one publish.
type effects struct {
	items   []actors.Item
	publish []roster.Publish
	acks    []broker.Delivery
}

// The answers of what runs beside the pool.
type (
	loaded    roster.Loaded
	published struct {
		orders   []roster.Publish
		confirms []broker.Confirm
	}
	sessionsLoaded struct {
		sessions []store.Session
		first    bool
		live     []messages.Execution
	}
)

// aheadHeader says that the placements of a message may be claimed ahead, up to aheadMax at once: work that may be
// repeated, in a pool whose runs take aheadP90 or less, nine times of ten.
const (
	aheadHeader = "troupe-ahead"
	echoHeader  = actors.EchoHeader
	aheadMax    = 8
	aheadP90    = 5 * time.Millisecond
)

// step gives the roster one event and gathers what it wants.
func (p *Pool) step(e roster.Event) {
	for _, effect := range p.roster.Step(time.Now(), e) {
		switch effect := effect.(type) {
		case roster.Load:
			p.load(effect)
		case roster.Place:
			p.place(effect)
		case roster.Publish:
			p.pending.publish = append(p.pending.publish, effect)
		case roster.TakeBack:
			p.takeBack(effect.Placement, effect.Reason, effect.Delay)
		case roster.Fail:
			p.fail(effect)
		case roster.EndSession:
			p.endSession(effect)
		case roster.Unbind:
			p.unbind(effect)
		case roster.Reload:
			p.reload(effect.Session)
		case roster.Sleep:
			p.sleepUntil(effect.Until)
		}
	}
}

// flush hands on what was gathered: one record, one publish, the acks.
func (p *Pool) flush(ctx actor.Context) {
	if len(p.pending.items) > 0 {
		ctx.Send(p.cfg.Recorder, &actors.Record{Items: p.pending.items, Pool: p.self})
		p.pending.items = nil
	}
	if orders := p.pending.publish; len(orders) > 0 {
		p.pending.publish = nil
		p.publish(orders)
	}
	for _, d := range p.pending.acks {
		// A delivery whose connection is gone comes again, and its claim finds what stands in the row.
		_ = d.Ack()
	}
	p.pending.acks = p.pending.acks[:0]
}

func (p *Pool) load(l roster.Load) {
	query := store.DueQuery{
		Pool: p.cfg.Name, Limit: l.Limit, Heads: l.Heads, AfterPriority: l.AfterPriority, AfterSeq: l.AfterSeq,
	}
	p.beside(storeTimeout, func(ctx context.Context) {
		page, err := p.cfg.Store.Due(ctx, query)
		if err != nil {
			p.cfg.Logger.Warn("due executions not read, looking again", "error", err)
			p.post(&loaded{Failed: true})
			return
		}
		p.post(&loaded{Candidates: page.Candidates, More: page.More, NextAt: page.NextAt})
	})
}

func (p *Pool) place(e roster.Place) {
	for i := range e.Assignments {
		a := &e.Assignments[i]
		change := &store.Place{
			ID: a.ID, Attempt: a.Attempt, Worker: a.Worker, WorkerID: a.WorkerID, PlacedBy: p.cfg.Incarnation,
			ClaimWithin: p.cfg.ClaimTimeout,
		}
		if u := a.Session; u != nil {
			change.Session = &store.SessionUse{
				Pool: p.cfg.Name, Session: u.Session, Epoch: u.Epoch, Bind: u.Bind, Lost: u.Lost, Hit: u.Hit,
			}
			if p.cfg.Hooks.Affinity != nil {
				p.cfg.Hooks.Affinity(p.cfg.Name, u.Effect)
			}
		}
		p.placing[a.ID] = change
		p.pending.items = append(p.pending.items, actors.Item{Change: change, Worker: a.Worker})
	}
	if p.cfg.Hooks.Placed != nil {
		p.cfg.Hooks.Placed(p.cfg.Name, p.grades(e.Assignments))
	}
}

// grades are the health grades of the workers that were chosen.
func (p *Pool) grades(chosen []roster.Assignment) []health.Grade {
	grades := make([]health.Grade, 0, len(chosen))
	for i := range chosen {
		if s := p.slot(chosen[i].Worker.Slot); s != nil && s.cur != nil {
			grades = append(grades, s.cur.grade)
		}
	}
	return grades
}

// takeBack has a placement returned, once: until the store has answered, it is not asked again.
func (p *Pool) takeBack(pl messages.Placement, reason string, delay time.Duration) {
	if _, asked := p.returning[pl]; asked {
		return
	}
	p.returning[pl] = struct{}{}
	p.pending.items = append(p.pending.items, actors.Item{Change: &store.TakeBack{
		ID: pl.Execution, Attempt: pl.Attempt, Reason: reason, Delay: delay,
	}})
	if p.cfg.Hooks.TakenBack != nil {
		p.cfg.Hooks.TakenBack(p.cfg.Name, reason)
	}
}

// publish sends the placements' messages beside the pool and brings back what the broker said.
func (p *Pool) publish(orders []roster.Publish) {
	batch := make([]broker.Message, 0, len(orders))
	sent := orders[:0:0]
	ahead := p.claimsAhead()
	for _, o := range orders {
		body, err := broker.Work{Worker: o.Worker, Placements: o.Placements}.Encode()
		if err != nil {
			p.cfg.Logger.Error("placement not encoded", "worker", o.Worker, "error", err)
			p.step(roster.Published{Placements: o.Placements})
			continue
		}
		m := broker.Message{
			RoutingKey: p.routingKey(o.Worker.Slot), Body: body, Expiration: p.cfg.Settings.Expiration(o.Timeout),
		}
		if ahead > 1 {
			m.Headers = map[string]string{aheadHeader: strconv.Itoa(ahead)}
		}
		batch, sent = append(batch, m), append(sent, o)
	}
	p.beside(storeTimeout, func(ctx context.Context) {
		confirms, err := p.cfg.Broker.Publish(ctx, batch)
		if err != nil {
			p.cfg.Logger.Warn("placements not published, taking them back", "error", err)
		}
		p.post(&published{orders: sent, confirms: confirms})
	})
}

// claimsAhead is how many placements a worker of the pool may hold claimed at once. Claims ahead are given back as
// rescues when a worker dies, so only pools whose every action may be repeated have them.
func (p *Pool) claimsAhead() int {
	if p.cfg.Crew.MayClaimAhead != nil && p.cfg.Crew.MayClaimAhead() && p.roster.P90() > 0 && p.roster.P90() <= aheadP90 {
		return aheadMax
	}
	return 1
}

func (p *Pool) routingKey(n messages.Slot) string {
	if s := p.slot(n); s != nil {
		return p.queueOf(s)
	}
	return p.cfg.Settings.PoolQueueName(p.cfg.Node, p.cfg.Name, p.cfg.Incarnation)
}

func (p *Pool) publishedAll(m *published) {
	for i, o := range m.orders {
		ok := i < len(m.confirms) && m.confirms[i] == broker.Confirmed
		p.step(roster.Published{Placements: o.Placements, OK: ok})
	}
}

// fail ends an execution that may not wait, with the retry that its rules give it.
func (p *Pool) fail(f roster.Fail) {
	crew := p.crew
	if f.Code == messages.CodeNoWorkers && p.tracker.State() == restart.Broken {
		f.Message += ": pool " + p.cfg.Name + " is broken: " + p.brokenWhy()
	}
	p.beside(storeTimeout, func(ctx context.Context) {
		e, err := p.cfg.Store.Get(ctx, f.ID)
		if err != nil {
			p.cfg.Logger.Warn("execution not read, looking again", "execution", f.ID, "error", err)
			return
		}
		o := messages.Outcome{Status: messages.Failed, Error: &messages.Error{
			Code: f.Code, Message: f.Message, FailedBy: "router",
		}}
		end := &store.End{ID: f.ID, Attempt: f.Attempt, Outcome: o, Retry: crew.RetryOf(&e, o)}
		p.cfg.System.Send(p.cfg.Recorder, &actors.Record{Items: []actors.Item{{Change: end}}, Pool: p.self})
	})
}

func (p *Pool) endSession(e roster.EndSession) {
	if s := p.slot(e.Worker.Slot); s != nil && s.cur != nil && e.Worker.Incarnation == p.cfg.Incarnation {
		p.cfg.System.Send(s.cur.pid, &actors.EndSession{Session: e.Session, Epoch: e.Epoch})
	}
}

func (p *Pool) unbind(u roster.Unbind) {
	p.beside(storeTimeout, func(ctx context.Context) {
		ref := store.SessionRef{Pool: p.cfg.Name, Session: u.Session, Epoch: u.Epoch}
		if _, err := p.cfg.Store.Unbind(ctx, []store.SessionRef{ref}); err != nil {
			p.cfg.Logger.Warn("session not unbound", "session", u.Session, "error", err)
		}
	})
}

// reload asks the store for one session.
func (p *Pool) reload(name string) {
	p.beside(storeTimeout, func(ctx context.Context) {
		session, err := p.cfg.Store.GetSession(ctx, p.cfg.Name, name)
		if err != nil && !isNotFound(err) {
			p.cfg.Logger.Warn("session not read, asking again", "session", name, "error", err)
			time.AfterFunc(retryAfter(), func() { p.post(&reloadAgain{name}) })
			return
		}
		session.Session = name
		p.post(&sessionsLoaded{sessions: []store.Session{session}})
	})
}

// reloadAgain repeats a question about a session that the store did not answer.
type reloadAgain struct{ session string }

func retryAfter() time.Duration {
	return time.Second + time.Duration(rand.Int64N(int64(time.Second)))
}

func (p *Pool) sleepUntil(t time.Time) {
	if p.sleep != nil && p.sleepAt.Equal(t) {
		return
	}
	stopTimer(p.sleep)
	p.sleepAt = t
	p.sleep = p.later(max(time.Until(t), time.Millisecond), &slept{})
}
