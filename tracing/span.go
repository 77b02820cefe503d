package tracing

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/troupe-run/troupe/messages"
)

// Span is one span that has begun. Whoever has it ends it; one that is never ended is never exported.
type Span struct {
	span  trace.Span
	was   string // the trace of its parent
	begun time.Time
}

// start begins a span below the trace context of an execution; nil: that is not sampled.
func (t *Tracer) start(parent, name string, at time.Time, kind trace.SpanKind, attributes []attribute.KeyValue) *Span {
	if t == nil || !sampled(parent) {
		return nil
	}
	above, ok := contextOf(parent)
	if !ok {
		return nil
	}
	return t.begin(trace.ContextWithRemoteSpanContext(context.Background(), above), parent, name, at, kind, attributes)
}

func (t *Tracer) begin(ctx context.Context, parent, name string, at time.Time, kind trace.SpanKind, attributes []attribute.KeyValue) *Span {
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(at), trace.WithSpanKind(kind), trace.WithAttributes(attributes...))
	if !span.IsRecording() {
		return nil
	}
	return &Span{span: span, was: parent, begun: at.Round(0)}
}

// beginning returns the first bytes of a text as UTF-8: one span with a text that is not fails the export of all that are sent with it.
func beginning(text string, limit int) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}

// Trace is the span's own context in the form of Execution.Trace; otherwise: there is no span.
func (s *Span) Trace(otherwise string) string {
	if s == nil {
		return otherwise
	}
	return textOf(s.span.SpanContext())
}

// end ends the span, and not before it begins: a collector has the times of the wall clock, which may be set back meanwhile. A code says
// that it failed.
func (s *Span) end(at time.Time, code messages.Code, attributes ...attribute.KeyValue) {
	if s == nil {
		return
	}
	s.span.SetAttributes(attributes...)
	if text := beginning(string(code), messages.CodeMax); text != "" {
		s.span.SetAttributes(attribute.String("error.type", text))
		s.span.SetStatus(codes.Error, text)
	}
	if at = at.Round(0); at.Before(s.begun) {
		at = s.begun
	}
	s.span.End(trace.WithTimestamp(at))
}

// sampled reports whether a trace context says that its spans are wanted. What the store has is one that rules/submit has made.
func sampled(context string) bool {
	const flag = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0")
	return len(context) > flag && context[flag]&1 == 1
}

// contextOf reads a trace context.
func contextOf(text string) (trace.SpanContext, bool) {
	parent := messages.TraceParent(text)
	if len(parent) != 55 {
		return trace.SpanContext{}, false
	}
	id, err := trace.TraceIDFromHex(parent[3:35])
	span, err2 := trace.SpanIDFromHex(parent[36:52])
	if err != nil || err2 != nil {
		return trace.SpanContext{}, false
	}
	flags := trace.FlagsSampled
	if parent[54]&2 != 0 {
		flags |= randomID
	}
	state, err := trace.ParseTraceState(messages.TraceState(text))
	if err != nil {
		state = trace.TraceState{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span, TraceFlags: flags, TraceState: state, Remote: true}), true
}

// randomID is the flag of a trace id that is random.
const randomID = trace.TraceFlags(2)

func textOf(c trace.SpanContext) string {
	text := "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + (c.TraceFlags() & (trace.FlagsSampled | randomID)).String()
	if state := c.TraceState().String(); state != "" {
		return text + " " + state
	}
	return text
}
