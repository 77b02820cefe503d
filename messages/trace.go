package messages

import "strings"

// Execution.Trace is a W3C trace context as one text: the traceparent, and after a blank the tracestate where there is one.
// rules/submit makes such a text of what a caller sends. The functions below take it apart.

// TraceParent is the traceparent of a trace context; empty: there is none.
func TraceParent(trace string) string {
	parent, _, _ := strings.Cut(trace, " ")
	return parent
}

// TraceState is the tracestate of a trace context; empty: there is none.
func TraceState(trace string) string {
	_, state, _ := strings.Cut(trace, " ")
	return state
}

// TraceID is the id of the trace, 32 hexadecimal digits; empty: there is none.
func TraceID(trace string) string {
	const from, to = len("00-"), len("00-") + 32
	if len(trace) < to {
		return ""
	}
	return trace[from:to]
}

// LogFields are the pairs that name the execution in a log: its id, and the id of its trace where it has one.
func (e *Execution) LogFields() []any {
	if id := TraceID(e.Trace); id != "" {
		return []any{"execution", e.ID, "trace_id", id}
	}
	return []any{"execution", e.ID}
}
