package actors

import (
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/tracing"
)

// arrival is when the message was published that brought a placement, and when it came; zero: no message did, or nobody said.
type arrival struct{ published, at time.Time }

// traced is what makes the spans of a claimed execution's way to its worker; nil: there are none.
func (q *workQueue) traced(p *queued) func(*store.Result) {
	if q.cfg.Tracer == nil {
		return nil
	}
	came, stored, asked := p.came, p.by.IsZero(), q.world.Now()
	return func(r *store.Result) {
		e := r.Execution
		if r.Verdict != store.Applied || e == nil {
			return
		}
		way := tracing.Way{Due: q.cfg.Clock.Local(e.Due()), Published: came.published, Arrived: came.at, Asked: asked}
		if stored { // by a placement of its own
			way.Placed = q.cfg.Clock.Local(e.ScheduledAt)
		}
		q.cfg.Tracer.Claimed(e, way, q.world.Now())
	}
}

// codeShort is the error of the span of a run that its node could not start.
const codeShort = messages.Code("node_short")

// traceEnd ends the span of a run, and has that of its finish end with the answer to the item. The worker may have ended by then.
func (w *Worker) traceEnd(r *Run, item *Item, o *messages.Outcome) {
	e := r.Execution
	if w.cfg.Logger.IsDebug() {
		w.cfg.Logger.Debug("run ended", append(e.LogFields(), "attempt", e.Attempt, "action", e.Action, "worker", w.id, "status", o.Status)...)
	}
	if r.span == nil {
		return
	}
	now := w.world.Now()
	switch c := item.Change.(type) {
	case *store.Rescue:
		r.span.Rescued(o, now)
	case *store.Finish:
		r.span.Ended(&c.Outcome, now)
	default:
		r.span.Ended(o, now)
	}
	finish := w.cfg.Tracer.Finish(e, now)
	item.Written = func(result *store.Result) {
		code := messages.Code("")
		if result.Verdict != store.Applied && result.Verdict != store.Already {
			code = "stale_write"
		}
		finish.Written(result.Status, code, w.world.Now())
	}
}

// TraceLost makes the span of the finish of a run whose worker is lost: it ends with the answer to the item, and has the code of the
// run's error. Another party may have been faster with the change, and has the span then.
func TraceLost(t *tracing.Tracer, e *messages.Execution, item *Item, now func() time.Time) {
	if t == nil || !e.Status.Started() {
		return
	}
	code := messages.CodeWorkerLost
	switch c := item.Change.(type) {
	case *store.Rescue:
	case *store.Finish:
		if c.Outcome.Error != nil {
			code = c.Outcome.Error.Code
		}
	default:
		return
	}
	finish := t.Lost(e, now())
	if finish == nil {
		return
	}
	item.Written = func(result *store.Result) {
		if result.Verdict == store.Applied {
			finish.Written(result.Status, code, now())
		}
	}
}
