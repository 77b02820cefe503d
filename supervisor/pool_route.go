package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/rules/placement"
	"github.com/troupe-run/troupe/rules/restart"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

// effects are what the roster wants done, gathered while one message is handled, so that many small wishes become one
// transaction and one publish.
type effects struct {
	items   []actors.Item
	publish []roster.Publish
	acks    []broker.Delivery
}

// sessionsLoaded is what has been read of the pool's sessions.
type sessionsLoaded struct {
	sessions []store.Session
	nodes    map[messages.Incarnation]struct{} // that live
	first    bool
	asked    bool // by the roster
	live     []messages.Execution
}

const echoHeader = actors.EchoHeader

// What may be repeated may be claimed ahead, up to aheadMax at once by one worker, in a pool whose runs take aheadP90 or
// less, nine times of ten, and no more than is dispatched ahead (placement.Window). Claims ahead are given back as rescues
// when a worker dies. With a lower limit groups shrink, and cost more, just when runs wait for the cores.
const (
	aheadMax = 8
	aheadP90 = 20 * time.Millisecond
)

// step gives the roster one event and gathers what it wants; while another node routes, it is told instead.
func (p *Pool) step(e roster.Event) {
	p.reads.note(p.roster, e)
	if p.tells(e) {
		return
	}
	swept := 0
	for _, effect := range p.roster.Step(p.world.Now(), localTimes(p.cfg.Clock, e)) {
		switch effect := effect.(type) {
		case roster.Load:
			p.load(effect)
		case roster.Place:
			p.place(effect)
		case roster.Accept:
			p.accept(effect)
		case roster.Publish:
			p.pending.publish = append(p.pending.publish, effect)
		case roster.TakeBack:
			p.takeBack(effect.Placement, effect.Reason, effect.Delay)
		case roster.Fail:
			p.fail(effect)
		case roster.EndSession:
			p.endSession(effect)
		case roster.Unbind:
			if effect.Reason == roster.Expired {
				swept++
			}
			p.unbind(effect)
		case roster.Reload:
			p.reload(effect.Session, true)
		case roster.Sleep:
			p.sleepUntil(effect.Until)
		}
	}
	if swept > 0 {
		p.cfg.Logger.Info("idle sessions swept", "sessions", swept, "timeout", p.cfg.Roster.SessionTimeout)
	}
}

// flush hands on what was gathered: one record, one publish, the acks.
func (p *Pool) flush() {
	if len(p.pending.items) > 0 {
		p.send(p.cfg.Recorder, &actors.Record{Items: p.pending.items, Pool: p.self})
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
	p.report()
}

func (p *Pool) wake(m *Wake) {
	if m.Heard && p.mode.Mode() == lead.Following {
		return // so has the router
	}
	if len(m.Arrived) > 0 {
		p.arrive(m.Arrived, m.More)
		return
	}
	p.step(roster.Wake{})
}

func (p *Pool) load(l roster.Load) {
	query := store.DueQuery{
		Pool: p.cfg.Name, Limit: l.Limit, Heads: l.Heads, AfterPriority: l.AfterPriority, AfterSeq: l.AfterSeq,
	}
	p.world.Beside(storeTimeout, func(ctx context.Context) func() {
		answer := roster.Loaded{Failed: true}
		page, err := p.cfg.Store.Due(ctx, query)
		if err != nil {
			p.cfg.Logger.Log(firstWarns(!p.halts()), "due executions not read, looking again", "error", err)
		} else {
			answer = roster.Loaded{Candidates: page.Candidates, More: page.More, NextAt: page.NextAt}
		}
		return func() {
			p.tellArrivals() // the store has found them too
			p.step(answer)
		}
	})
}

func (p *Pool) place(e roster.Place) {
	for i := range e.Assignments {
		a := &e.Assignments[i]
		change := p.placement(a)
		if a.Session != nil && p.cfg.Hooks.Affinity != nil {
			p.cfg.Hooks.Affinity(p.cfg.Name, a.Session.Effect)
		}
		p.placing[a.ID] = change
		p.pending.items = append(p.pending.items, actors.Item{Change: change, Worker: a.Worker})
	}
	p.countPlaced(e.Assignments)
}

// placement is the change that an assignment asks for.
func (p *Pool) placement(a *roster.Assignment) *store.Place {
	change := &store.Place{
		ID: a.ID, Attempt: a.Attempt, Worker: a.Worker, WorkerID: a.WorkerID, PlacedBy: p.cfg.Incarnation,
		ClaimWithin: p.cfg.ClaimTimeout,
	}
	if u := a.Session; u != nil {
		change.Session = &store.SessionUse{
			Pool: p.cfg.Name, Session: u.Session, Epoch: u.Epoch, Bind: u.Bind, Lost: u.Lost, Hit: u.Hit,
		}
	}
	return change
}

func (p *Pool) countPlaced(assigned []roster.Assignment) {
	if p.cfg.Hooks.Placed != nil {
		p.cfg.Hooks.Placed(p.cfg.Name, p.grades(assigned))
	}
}

// grades are the health grades of the workers that were chosen.
func (p *Pool) grades(chosen []roster.Assignment) []health.Grade {
	grades := make([]health.Grade, 0, len(chosen))
	for i := range chosen {
		if grade := p.gradeOf(chosen[i].Worker); grade != 0 {
			grades = append(grades, grade)
		}
	}
	return grades
}

// takeBack has a placement returned, once: until the store has answered, it is not asked again.
func (p *Pool) takeBack(pl messages.Placement, reason string, delay time.Duration) {
	p.giveBack(&store.TakeBack{ID: pl.Execution, Attempt: pl.Attempt, Reason: reason, Delay: delay})
}

// giveBack is takeBack with all that a take-back may say.
func (p *Pool) giveBack(change *store.TakeBack) {
	pl := messages.Placement{Execution: change.ID, Attempt: change.Attempt}
	if _, asked := p.returning[pl]; asked {
		return
	}
	p.returning[pl] = struct{}{}
	p.pending.items = append(p.pending.items, actors.Item{Change: change})
	if p.cfg.Hooks.TakenBack != nil {
		p.cfg.Hooks.TakenBack(p.cfg.Name, change.Reason)
	}
}

// publish sends the placements' messages beside the pool and brings back what the broker said.
func (p *Pool) publish(orders []roster.Publish) {
	parcels := p.pack(orders)
	batch := make([]broker.Message, 0, len(parcels))
	sent := parcels[:0]
	for i := range parcels {
		body, err := broker.EncodeWork(parcels[i].work)
		if err != nil {
			p.cfg.Logger.Error("placements not encoded", "queue", parcels[i].queue, "error", err)
			p.step(roster.Published{Placements: parcels[i].placements()})
			continue
		}
		batch = append(batch, broker.Message{RoutingKey: parcels[i].queue, Body: body, Expiration: parcels[i].expiration})
		sent = append(sent, parcels[i])
	}
	p.world.Beside(storeTimeout, func(ctx context.Context) func() {
		confirms, err := p.cfg.Broker.Publish(ctx, batch)
		if err != nil && !p.halts() { // while a server is away, the node says so
			p.logs.unpublished.Warn(p.cfg.Logger, "placements not published, taking them back", "error", err)
		}
		return func() { p.publishedAll(sent, confirms) }
	})
}

// halt has nothing placed while a server is away.
func (p *Pool) halt() {
	if p.cfg.Halted != nil {
		p.halted(p.cfg.Halted())
	}
}

// halted takes what is known of the servers. A change goes to the router as soon as it may.
func (p *Pool) halted(why roster.Reason) {
	switch stands := why != roster.Ready; {
	case stands && p.haltedAt.IsZero():
		p.haltedAt = p.world.Now()
		p.mode.Break()
	case !stands && !p.haltedAt.IsZero():
		p.haltedAt = time.Time{}
		p.mode.Break()
	}
	p.step(roster.Halted{Why: why})
}

// halts reports whether a server is known to be away.
func (p *Pool) halts() bool { return p.cfg.Halted != nil && p.cfg.Halted() != roster.Ready }

// publishedAll takes the broker's word on messages. Where one was not taken the broker may have gone, and what is taken
// back must not be placed again at once.
func (p *Pool) publishedAll(parcels []parcel, confirms []broker.Confirm) {
	for i := range parcels {
		ok := i < len(confirms) && confirms[i] == broker.Confirmed
		if !ok {
			p.halt()
		}
		p.step(roster.Published{Placements: parcels[i].placements(), OK: ok})
	}
}

// affinityOf is what a strict_fail that fails means for its session, as the metrics count it.
func affinityOf(code messages.Code) placement.Effect {
	switch code {
	case messages.CodeSessionBusy:
		return placement.Miss
	case messages.CodeSessionLost:
		return placement.Lost
	case messages.CodeSessionExpired:
		return placement.Expired
	}
	return placement.NoEffect
}

// fail ends an execution that may not wait, with the retry that its rules give it.
func (p *Pool) fail(f roster.Fail) {
	crew := p.crew
	if e := affinityOf(f.Code); e != placement.NoEffect && p.cfg.Hooks.Affinity != nil {
		p.cfg.Hooks.Affinity(p.cfg.Name, e)
	}
	var details json.RawMessage
	if f.Code == messages.CodeNoWorkers && p.tracker.State() == restart.Broken {
		f.Message, details = p.brokenError()
	}
	p.world.Beside(storeTimeout, func(ctx context.Context) func() {
		e, err := p.cfg.Store.Get(ctx, f.ID)
		if err != nil {
			p.cfg.Logger.Warn("execution not read, looking again", "execution", f.ID, "error", err)
			return nil
		}
		o := messages.Outcome{Status: messages.Failed, Error: &messages.Error{
			Code: f.Code, Message: f.Message, FailedBy: "router", Details: details,
		}}
		end := &store.End{ID: f.ID, Attempt: f.Attempt}
		end.Outcome, end.Retry = crew.RetryOf(&e, o)
		return func() { p.pending.items = append(p.pending.items, actors.Item{Change: end}) }
	})
}

// brokenError tells who submits to a broken pool what is wrong with it.
func (p *Pool) brokenError() (message string, details json.RawMessage) {
	why, trace := p.brokenWhy()
	message = "pool " + p.cfg.Name + " is broken: " + why
	if trace == "" {
		return message, nil
	}
	details, err := json.Marshal(map[string]string{"traceback": trace})
	if err != nil { // a text always has its JSON
		return message, nil
	}
	return message, details
}

func (p *Pool) endSession(e roster.EndSession) {
	if e.Worker.Incarnation != p.cfg.Incarnation {
		p.endSessionAbroad(e)
		return
	}
	p.endSessionOn(e.Worker.Slot, e.Session, e.Epoch)
}

func (p *Pool) endSessionOn(n messages.Slot, session string, epoch int64) {
	if s := p.slot(n); s != nil && s.cur != nil {
		p.cfg.System.Send(s.cur.pid, &actors.EndSession{Session: session, Epoch: epoch})
	}
}

func (p *Pool) unbind(u roster.Unbind) {
	if p.bystander(u.Session) {
		p.reload(u.Session, false)
		return
	}
	limit := storeTimeout
	if p.draining != nil {
		limit = leaveTimeout // the drain waits for it
	}
	p.unbinding++
	p.world.Beside(limit, func(ctx context.Context) func() {
		binding := store.Binding{Pool: p.cfg.Name, Session: u.Session, Epoch: u.Epoch, Worker: u.Worker}
		_, err := p.cfg.Store.Unbind(ctx, []store.Binding{binding})
		if err != nil && !errors.Is(ctx.Err(), context.Canceled) { // else the pool has ended: whoever routes next finds that its worker has
			p.cfg.Logger.Warn("session not unbound", "session", u.Session, "error", err)
		}
		return func() { p.unbinding-- }
	})
}

// reload asks the store for one session; asked: for the roster, which waits for the answer.
func (p *Pool) reload(name string, asked bool) {
	p.world.Beside(storeTimeout, func(ctx context.Context) func() {
		session, err := p.cfg.Store.GetSession(ctx, p.cfg.Name, name)
		if isNotFound(err) {
			err = nil
		}
		nodes, unread := p.liveNodes(ctx)
		if err = errors.Join(err, unread); err != nil {
			p.cfg.Logger.Warn("session not read, asking again", "session", name, "error", err)
			return func() { p.world.After(p.retryAfter(), func() { p.reload(name, asked) }) }
		}
		session.Session = name
		return func() {
			p.sessionsLoaded(&sessionsLoaded{sessions: []store.Session{session}, nodes: nodes, asked: asked})
		}
	})
}

func (p *Pool) retryAfter() time.Duration {
	return time.Second + time.Duration(p.world.Random()*float64(time.Second))
}

func (p *Pool) sleepUntil(t time.Time) {
	if p.sleep != nil && p.sleepAt.Equal(t) {
		return
	}
	stopTimer(p.sleep)
	p.sleepAt = t
	p.sleep = p.world.After(max(t.Sub(p.world.Now()), time.Millisecond), func() { p.step(roster.Tick{}) })
}
