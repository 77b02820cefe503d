package actors

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// flushApart starts the parts whose time has come.
func (r *Recorder) flushApart() {
	for {
		f, next := r.backlog.departApart(r.world.Now())
		if f == nil {
			r.wakeAt(next)
			return
		}
		r.try(f)
	}
}

// wakeAt has the recorder look again then; zero: it need not.
func (r *Recorder) wakeAt(next time.Time) {
	if next.IsZero() || !r.wakes.IsZero() && !next.Before(r.wakes) {
		return
	}
	r.wakes = next
	r.world.After(next.Sub(r.world.Now()), func() {
		r.wakes = time.Time{}
		r.flush()
	})
}

// try asks the store for one part, once.
func (r *Recorder) try(f *flight) {
	f.began = r.world.Now()
	r.world.Beside(0, func(ctx context.Context) func() {
		results, err := r.ask(store.InOwnTransaction(ctx), f)
		return func() { r.done(&recorded{flight: f, results: results, err: err}) }
	})
}

// failed goes on after a transaction that the store did not make.
func (r *Recorder) failed(m *recorded) {
	if part := (*store.PartError)(nil); !errors.As(m.err, &part) || part.Unsure {
		m.flight.unsure = true
	}
	switch {
	case errors.Is(m.err, store.ErrClosed):
		r.backlog.landed(m.flight)
		r.turnAway(m)
	case !store.MayPassInParts(m.err):
		r.backlog.later(m.flight, m.err, r.world.Now())
	case r.backlog.divide(m.flight, m.err, r.world.Now()):
		r.warn("transaction not made, trying it in parts", m.flight, m.err)
	default:
		r.alone(m)
	}
	r.flush()
}

// turnAway tells who asked from outside the tree that the store takes nothing any more.
func (r *Recorder) turnAway(m *recorded) {
	for _, p := range m.flight.group {
		switch {
		case p.apart != nil && p.apart.question != nil:
			p.apart.question.question.Reply(nil, m.err)
		case p.answer != nil:
			p.answer.Reply(nil, m.err)
		}
	}
}

// alone goes on after one change that the store did not make by itself.
func (r *Recorder) alone(m *recorded) {
	result := store.Result{Verdict: store.Blocked, Err: m.err}
	if store.NeverStorable(m.err) {
		result.Verdict = store.Refused
	}
	f := &flight{aside: true, group: m.flight.group, changes: 1, unsure: m.flight.unsure}
	told := &recorded{flight: f, results: []store.Result{result}}
	kept := r.divideResults(told)
	r.backlog.settle(f, kept, r.world.Now())
	if len(kept) == 0 {
		r.tell(told)
	}
}

// divideResults takes out of a transaction's results the changes that are to be tried again, each alone. In nearly all
// there is none.
func (r *Recorder) divideResults(m *recorded) (kept []pendingRecord) {
	if !m.odd() {
		return nil
	}
	all := singles(m.flight.group, m.flight.unsure)
	told := &flight{aside: m.flight.aside}
	var results []store.Result
	var why error
	for i, p := range all {
		result := m.results[i]
		if again, ok := r.repeat(p, &result); ok {
			why = result.Err
			kept = append(kept, again)
			continue
		}
		m.results[i] = result
		told.group, results = append(told.group, p), append(results, result)
	}
	if len(kept) == 0 {
		return nil
	}
	r.warn("changes not made, trying them again", &flight{group: kept, changes: len(kept)}, why)
	r.backlog.because(why)
	told.changes = len(told.group)
	m.flight, m.results = told, results
	return kept
}

// odd reports whether one of the results may be no end of its change.
func (m *recorded) odd() bool {
	at := 0
	for _, p := range m.flight.group {
		for i := range p.record.Items {
			switch m.results[at].Verdict {
			case store.Blocked:
				return true
			case store.Refused:
				switch p.record.Items[i].Change.(type) {
				case *store.Finish, *store.End:
					return true
				}
			}
			at++
		}
	}
	return false
}

// repeat decides what becomes of one change that was not made: false: its result is told; true: what is returned is tried in
// its place, alone. What a caller outside the tree asked for it asks for again itself, and what a router or a worker does
// without is refused to it: the router places anew, and a claim's placement is taken back once its time is over.
func (r *Recorder) repeat(p pendingRecord, result *store.Result) (pendingRecord, bool) {
	item := p.record.Items[0]
	switch result.Verdict {
	case store.Blocked:
		if dispensable(&p) {
			result.Verdict = store.Refused
			return p, false
		}
		if p.apart.question != nil && !p.apart.unsure {
			return p, false
		}
	case store.Refused:
		instead, ok := without(item.Change, result.Err)
		if !ok || p.apart.question != nil {
			return p, false
		}
		item.Change = instead
		next := *p.apart
		next.wait = 0
		one := &Record{Items: []Item{item}, Pool: p.record.Pool, Reply: p.record.Reply}
		return pendingRecord{record: one, since: p.since, bytes: store.Size(instead), apart: &next}, true
	default:
		return p, false
	}
	next := *p.apart
	next.wait = min(max(2*next.wait, aloneWaitMin), aloneWaitMax)
	if p.record.Reply != nil && !next.late {
		next.late = true
		r.deferTo(&p)
	}
	p.apart = &next
	return p, true
}

// deferTo tells who asked for a change that it is made later.
func (r *Recorder) deferTo(p *pendingRecord) {
	r.contain("deferred", func() {
		r.cfg.System.Send(p.record.Reply, &Deferred{Changes: 1, Claims: claims(p.record.Items)})
	})
}

// tellParked tells who asked for changes that met others of their execution: nobody stands still for a row that is held.
func (r *Recorder) tellParked() {
	refused, deferred := r.backlog.parked()
	for i := range deferred {
		r.deferTo(&deferred[i])
	}
	if len(refused) == 0 {
		return
	}
	results := make([]store.Result, len(refused))
	for i := range refused {
		results[i] = store.Result{Verdict: store.Refused, Err: blockedBehind(&refused[i])}
	}
	r.tell(&recorded{flight: &flight{group: refused, changes: len(refused)}, results: results})
}

// without is the change that ends the execution in place of one whose data the store can never keep: with an error that says
// so, and, where that is refused too, without its retry. False: nothing is left to leave out.
func without(c store.Change, why error) (store.Change, bool) {
	if errors.Is(why, store.ErrSession) || errors.Is(why, store.ErrFenced) || errors.Is(why, store.ErrBlocked) {
		return nil, false
	}
	switch c := c.(type) {
	case *store.Finish:
		outcome, retry, ok := unstorable(c.Outcome, c.Retry, why)
		return &store.Finish{ID: c.ID, Attempt: c.Attempt, Outcome: outcome, Retry: retry, Restored: c.Restored, NeverRan: c.NeverRan, WorkerID: c.WorkerID}, ok
	case *store.End:
		outcome, retry, ok := unstorable(c.Outcome, c.Retry, why)
		return &store.End{ID: c.ID, Attempt: c.Attempt, Outcome: outcome, Retry: retry}, ok
	}
	return nil, false
}

func unstorable(o messages.Outcome, retry *messages.Execution, why error) (messages.Outcome, *messages.Execution, bool) {
	again := o.Error != nil && o.Error.Code == messages.CodeUnstorable
	if again && retry == nil {
		return o, nil, false
	}
	text := fmt.Sprintf("the store cannot keep what the run left behind: %s. A result may have %d bytes; return less, or a reference to it",
		clipText(why.Error()), messages.ResultMax)
	status := o.Status
	if !status.Terminal() || status == messages.Completed {
		status = messages.Failed
	} else if o.Error != nil && !again {
		text = fmt.Sprintf("%s. The run had ended as %s with code %s", text, o.Status, clipText(string(o.Error.Code)))
	}
	if again {
		retry, text = nil, o.Error.Message+". Its retry cannot be kept either"
	}
	return messages.Outcome{Status: status, Error: &messages.Error{Code: messages.CodeUnstorable, Message: text, FailedBy: messages.FailedByRecorder}}, retry, true
}

// clipText bounds a foreign text, and makes it one that every store keeps.
func clipText(s string) string {
	const limit = 500
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD")
}

// blockedBehind is why a change was not made whose execution has another that is not made yet.
func blockedBehind(p *pendingRecord) error {
	return fmt.Errorf("%s execution %s: an earlier change of it is not stored yet: %w", p.record.Items[0].Change.Name(), p.target(), store.ErrBlocked)
}

// warn logs what is tried apart, at most once in repeatTold.
func (r *Recorder) warn(text string, f *flight, err error) {
	if now := r.world.Now(); now.Sub(r.apartTold) >= repeatTold {
		r.apartTold = now
		r.cfg.Logger.Warn(text, "changes", f.changes, "execution", f.group[0].record.Items[0].Change.Target(), "error", err)
	}
}
