package tracing

import (
	"cmp"
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/troupe-run/troupe/messages"
)

// The types of messaging operations, by the semantic conventions of OpenTelemetry.
const (
	send    = "send"
	receive = "receive"
	process = "process"
	settle  = "settle"
)

// about are the attributes of every span of an execution. None of them holds what a caller has put into it, but the action's name.
func about(e *messages.Execution, operation, kind string) []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, 12)
	all = append(all,
		attribute.String("messaging.system", "troupe"), attribute.String("messaging.operation.name", operation),
		attribute.String("messaging.destination.name", e.Pool), attribute.String("messaging.message.id", e.ID.String()),
		attribute.String("troupe.action", e.Action), attribute.Int("troupe.attempt", int(e.Attempt)),
	)
	if kind != "" {
		all = append(all, attribute.String("messaging.operation.type", kind))
	}
	if e.RetryCount > 0 {
		all = append(all, attribute.Int("troupe.retry_count", e.RetryCount), attribute.String("troupe.original_execution", e.Original.String()))
	}
	return all
}

// nameOf is the name of a span. An action's name is one of a closed set, and short where the API has taken it.
func nameOf(operation string, e *messages.Execution) string {
	return operation + " " + beginning(e.Action, valueMax)
}

// Submit begins the span of a submission by a way (http, amqp, sql), and makes its context the execution's trace. Without a trace the
// execution begins one, for the share of them that is to be sampled.
func (t *Tracer) Submit(e *messages.Execution, way string, now time.Time) *Span {
	if t == nil {
		return nil
	}
	attributes := append(about(e, "submit", send), attribute.String("troupe.submitted_by", way))
	var s *Span
	if e.Trace == "" {
		s = t.begin(context.Background(), "", nameOf("submit", e), now, trace.SpanKindProducer, attributes)
	} else {
		s = t.start(e.Trace, nameOf("submit", e), now, trace.SpanKindProducer, attributes)
	}
	e.Trace = s.Trace(e.Trace)
	return s
}

// Stored ends the span of a submission. Existing: its idempotency key had stored that execution before.
func (s *Span) Stored(existing *messages.Execution, now time.Time) {
	if existing == nil {
		s.end(now, "")
		return
	}
	s.end(now, "", attribute.Bool("troupe.existing", true), attribute.String("messaging.message.id", existing.ID.String()))
}

// Refused ends the span of a submission that was not stored, and gives the execution back the trace that it had.
func (s *Span) Refused(e *messages.Execution, code messages.Code, now time.Time) {
	if s != nil {
		e.Trace = s.was
		s.end(now, code)
	}
}

// Way is how an execution came to its worker.
type Way struct {
	Due       time.Time // since when it could be placed
	Placed    time.Time // zero: with its claim
	Published time.Time // zero: no broker carried it
	Arrived   time.Time // at the worker's node, where a broker carried it
	Asked     time.Time // when the worker asked for the claim
}

// Claimed makes the spans of an execution's way to its worker, which has claimed it now.
func (t *Tracer) Claimed(e *messages.Execution, w Way, now time.Time) {
	if t == nil || !sampled(e.Trace) {
		return
	}
	placed := cmp.Or(w.Placed, w.Asked)
	t.past(e, "place", "", trace.SpanKindInternal, w.Due, placed)
	if !w.Published.IsZero() {
		t.past(e, "publish", send, trace.SpanKindProducer, placed, w.Published)
		t.past(e, "deliver", receive, trace.SpanKindConsumer, w.Published, w.Arrived)
	}
	t.past(e, "claim", receive, trace.SpanKindInternal, w.Asked, now)
}

// past makes a span of what is over. The times may be of several clocks.
func (t *Tracer) past(e *messages.Execution, operation, kind string, as trace.SpanKind, from, to time.Time) {
	t.start(e.Trace, nameOf(operation, e), from, as, about(e, operation, kind)).end(to, "")
}

// Run begins the span of a run.
func (t *Tracer) Run(e *messages.Execution, worker messages.WorkerID, gen messages.Generation, now time.Time) *Span {
	if t == nil || !sampled(e.Trace) {
		return nil
	}
	attributes := append(about(e, "run", process), attribute.String("troupe.worker.id", string(worker)), attribute.Int64("troupe.worker.generation", int64(gen)))
	return t.start(e.Trace, nameOf("run", e), now, trace.SpanKindConsumer, attributes)
}

// Ended ends the span of a run with its outcome.
func (s *Span) Ended(o *messages.Outcome, now time.Time) {
	if s != nil {
		s.end(now, codeOf(o), attribute.String("troupe.outcome", o.Status.String()))
	}
}

// Rescued ends the span of a run that came to an end without an outcome of the execution, which is placed again.
func (s *Span) Rescued(o *messages.Outcome, now time.Time) {
	if s != nil {
		s.end(now, codeOf(o), attribute.String("troupe.outcome", "rescued"))
	}
}

// Lost begins the span of the writing of what becomes of an execution whose worker was lost while it ran. It names the worker, for
// there may be no span of the run.
func (t *Tracer) Lost(e *messages.Execution, now time.Time) *Span {
	if t == nil || !sampled(e.Trace) {
		return nil
	}
	attributes := append(about(e, "finish", settle), attribute.String("troupe.worker.id", string(e.WorkerID)), attribute.Int64("troupe.worker.generation", int64(e.Generation)))
	return t.start(e.Trace, nameOf("finish", e), now, trace.SpanKindInternal, attributes)
}

// Finish begins the span of the writing of an outcome.
func (t *Tracer) Finish(e *messages.Execution, now time.Time) *Span {
	if t == nil || !sampled(e.Trace) {
		return nil
	}
	return t.start(e.Trace, nameOf("finish", e), now, trace.SpanKindInternal, about(e, "finish", settle))
}

// Written ends the span of the writing of an outcome, with the status that the execution has now. Code: it was not written.
func (s *Span) Written(status messages.Status, code messages.Code, now time.Time) {
	if s != nil {
		s.end(now, code, attribute.String("troupe.status", status.String()))
	}
}

// codeOf is the code of an outcome that is no success. It is one of a closed set, or the action's own, and so short.
func codeOf(o *messages.Outcome) messages.Code {
	switch {
	case o.Status == messages.Completed:
		return ""
	case o.Error != nil && o.Error.Code != "":
		return o.Error.Code
	}
	return messages.Code(o.Status.String())
}
