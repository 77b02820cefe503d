package chaos

import (
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// By default the store keeps no event for the usual steps: place, claim, and the finish of a run that completed or failed. These
// steps are columns of the row. withImplied adds them to a stored execution, so that the rules check the same history as with
// `store.events: all`. It adds a step only if the next event, or the row, cannot be reached without it. If the usual steps do not
// lead there, it adds nothing, and history_is_whole reports the place.
func withImplied(e Stored) Stored {
	p := path{at: messages.Requested}
	for _, ev := range e.Events {
		if isNote(ev) {
			p.events = append(p.events, ev)
			continue
		}
		before := ev.Attempt
		if begins(ev) {
			before--
		}
		p.reach(ev.From, before)
		p.take(ev)
	}
	p.reach(e.Status, e.Attempt)
	for i := len(p.events) - 1; i >= 0; i-- {
		if ev := &p.events[i]; ev.Kind == "place" && ev.At.IsZero() && ev.Attempt == e.Attempt {
			ev.At, ev.Worker = e.Scheduled, e.Worker // the row has the time of the last placement, unless that was handed over directly
			break
		}
	}
	e.Events = p.events
	return e
}

// path is the state that the steps so far have reached.
type path struct {
	at      messages.Status
	attempt messages.Attempt
	events  []store.Event
}

func (p *path) take(ev store.Event) {
	p.events = append(p.events, ev)
	p.at, p.attempt = ev.To, ev.Attempt
}

// reach adds the usual steps that lead to a status and attempt, or none if no such steps exist.
func (p *path) reach(to messages.Status, attempt messages.Attempt) {
	trial := path{at: p.at, attempt: p.attempt}
	for trial.at != to || trial.attempt != attempt {
		if !trial.step(to) {
			return
		}
	}
	for _, ev := range trial.events {
		p.take(ev)
	}
}

// step makes the next usual step. It returns false if there is none.
func (p *path) step(to messages.Status) bool {
	switch {
	case p.at == messages.Requested:
		p.take(store.Event{Kind: "place", Attempt: p.attempt + 1, From: p.at, To: messages.Scheduled})
	case p.at == messages.Scheduled:
		p.take(store.Event{Kind: "claim", Attempt: p.attempt, From: p.at, To: messages.Running})
	case p.at == messages.Running && (to == messages.Completed || to == messages.Failed):
		p.take(store.Event{Kind: "finish", Attempt: p.attempt, From: p.at, To: to})
	default:
		return false
	}
	return true
}
