// Package tracing makes the spans of executions for OpenTelemetry, and exports them by OTLP over HTTP. A Tracer decides nothing about
// executions and never delays one: spans wait in a bounded queue, from which one goroutine exports them, and what does not fit is
// counted and dropped. The node's parts call it: submissions, and the workers. A nil *Tracer and a nil *Span are those of a node that
// does not trace; all their methods do nothing.
//
// The spans of one execution, each a child of the first:
//
//	submit    from the call to the stored row. Its parent is the submitter's span; without one it begins the trace
//	place     from the time the execution is due to its placement on a worker
//	publish   from its stored placement until its message is published, with a broker server
//	deliver   from there until the message reaches the worker's node, with a broker server
//	claim     the worker's claim in the store
//	run       the run on the worker. The action's own spans are its children
//	finish    from the end of the run to the stored outcome
//
// An execution whose trace is not sampled has no spans, and none of its parts asks again.
package tracing
