package router

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/placement"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor/part"
)

func (r *Router) load(l roster.Load) {
	query := store.DueQuery{
		Pool: r.Config.Name, Limit: l.Limit, Heads: l.Heads, AfterPriority: l.AfterPriority, AfterSeq: l.AfterSeq,
	}
	served := r.served()
	r.ask(part.StoreTimeout, func(ctx context.Context) func() {
		answer := roster.Loaded{Failed: true}
		page, err := due(ctx, r.Config.Store, query, served)
		if err != nil {
			r.Config.Logger.Log(part.FirstWarns(!r.Halts()), "due executions not read, looking again", "error", err)
		} else {
			answer = roster.Loaded{Candidates: page.Candidates, More: page.More, NextAt: page.NextAt}
		}
		return func() {
			r.link.TellArrivals() // the store has found them too
			r.step(answer)
		}
	})
}

func (r *Router) place(e roster.Place) {
	for i := range e.Assignments {
		a := &e.Assignments[i]
		if a.Session != nil && r.Config.Hooks.Affinity != nil {
			r.Config.Hooks.Affinity(r.Config.Name, a.Session.Effect)
		}
		if a.Direct {
			continue
		}
		change := r.placement(a)
		r.placing[a.ID] = change
		r.Record(actors.Item{Change: change, Worker: a.Worker})
	}
	r.countPlaced(e.Assignments)
}

// placement is the change that an assignment asks for.
func (r *Router) placement(a *roster.Assignment) *store.Place {
	change := &store.Place{
		ID: a.ID, Attempt: a.Attempt, Worker: a.Worker, WorkerID: a.WorkerID, PlacedBy: r.Config.Incarnation,
		ClaimWithin: r.Config.ClaimTimeout, Generation: a.Generation,
	}
	if u := a.Session; u != nil {
		change.Session = &store.SessionUse{
			Pool: r.Config.Name, Session: u.Session, Epoch: u.Epoch, Bind: u.Bind, Lost: u.Lost, Hit: u.Hit,
		}
	}
	return change
}

func (r *Router) countPlaced(assigned []roster.Assignment) {
	if r.Config.Hooks.Placed != nil {
		grades := make([]health.Grade, len(assigned))
		for i := range assigned {
			grades[i] = assigned[i].Grade
		}
		r.Config.Hooks.Placed(r.Config.Name, grades)
	}
}

// Placed takes the store's word on a placement. One that was written for a router that failed nobody will publish.
func (r *Router) Placed(c *store.Place, result *store.Result) {
	done := result.Verdict == store.Applied || result.Verdict == store.Already
	if r.placing[c.ID] != c {
		if done {
			r.takeBack(messages.Placement{Execution: c.ID, Attempt: result.Attempt}, "its router failed", 0)
		}
		return
	}
	delete(r.placing, c.ID)
	if done {
		r.bound(c)
	}
	r.step(roster.Placed{
		ID: c.ID, Attempt: result.Attempt, OK: done, SessionConflict: errors.Is(result.Err, store.ErrSession),
		ClaimBy: r.Config.Clock.Local(result.At.Add(c.ClaimWithin)),
	})
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
func (r *Router) fail(f roster.Fail) {
	workerConfig := r.WorkerConfig
	if e := affinityOf(f.Code); e != placement.NoEffect && r.Config.Hooks.Affinity != nil {
		r.Config.Hooks.Affinity(r.Config.Name, e)
	}
	var details json.RawMessage
	if broken, why, trace := r.link.Broken(); f.Code == messages.CodeNoWorkers && broken {
		f.Message, details = brokenError(r.Config.Name, why, trace)
	}
	r.World.Beside(part.StoreTimeout, func(ctx context.Context) func() {
		e, err := r.Config.Store.Get(ctx, f.ID)
		if err != nil {
			r.Config.Logger.Warn("execution not read, looking again", "execution", f.ID, "error", err)
			return nil
		}
		o := messages.Outcome{Status: messages.Failed, Error: &messages.Error{
			Code: f.Code, Message: f.Message, FailedBy: "router", Details: details,
		}}
		end := &store.End{ID: f.ID, Attempt: f.Attempt}
		end.Outcome, end.Retry = workerConfig.RetryOf(&e, o)
		return func() { r.Record(actors.Item{Change: end}) }
	})
}

// brokenError tells who submits to a broken pool what is wrong with it.
func brokenError(pool, why, trace string) (message string, details json.RawMessage) {
	message = placement.TextNoWorkers + ": pool " + pool + " is broken: " + why
	if trace == "" {
		return message, nil
	}
	details, err := json.Marshal(map[string]string{"traceback": trace})
	if err != nil { // a text always has its JSON
		return message, nil
	}
	return message, details
}

// unbind has the store end a binding, and asks again until it has.
func (r *Router) unbind(u roster.Unbind) {
	if r.boundWhereNoneReports(u.Session) {
		r.reload(u.Session, false)
		return
	}
	r.reloads.ends(u.Session)
	r.endInStore([]roster.Unbind{u})
}

// endInStore has the store end bindings, one after the other. Those that it does not end are asked for again after a while, all at once.
func (r *Router) endInStore(bindings []roster.Unbind) {
	limit := part.StoreTimeout
	if r.Draining {
		limit = part.LeaveTimeout // the drain waits for it
	}
	r.unbinding++
	term := r.term
	r.World.Beside(limit, func(ctx context.Context) func() {
		ended, err := r.endEach(ctx, bindings)
		if err != nil && !errors.Is(ctx.Err(), context.Canceled) { // else the pool has ended: whoever routes next finds that its worker has
			r.Config.Logger.Warn("sessions not unbound, asking again", "sessions", len(bindings)-len(ended), "first", bindings[len(ended)].Session, "error", err)
		}
		return func() {
			r.unbinding--
			r.recordEnded(bindings, ended)
			if r.term != term {
				return // what was read since knows nothing of them
			}
			for i := range ended {
				r.reloads.ended(bindings[i].Session)
			}
			r.endLater(bindings[len(ended):])
			r.readReloads()
		}
	})
}

// endEach ends bindings in the store up to the first that fails. Of each it says whether there was one to end.
func (r *Router) endEach(ctx context.Context, bindings []roster.Unbind) (ended []bool, err error) {
	for i := range bindings {
		u := &bindings[i]
		n, err := r.Config.Store.Unbind(ctx, []store.Binding{{Pool: r.Config.Name, Session: u.Session, Epoch: u.Epoch, Worker: u.Worker}})
		if err != nil {
			return ended, err
		}
		ended = append(ended, n > 0)
	}
	return ended, nil
}

// recordEnded records the bindings that the store has ended, and reports whether there were any.
func (r *Router) recordEnded(bindings []roster.Unbind, ended []bool) (some bool) {
	for i, was := range ended {
		if was {
			r.unbound(&bindings[i])
		}
		some = some || was
	}
	return some
}

// endLater asks the store again to end bindings.
func (r *Router) endLater(bindings []roster.Unbind) {
	if len(bindings) == 0 {
		return
	}
	if r.unended = append(r.unended, bindings...); len(r.unended) == len(bindings) {
		r.later(r.RetryAfter(), func() {
			all := r.unended
			r.unended = nil
			r.endInStore(all)
		})
	}
}
