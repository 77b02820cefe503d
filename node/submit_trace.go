package node

import (
	"errors"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/tracing"
)

// Ways of a submission, as its span names them.
const (
	byAPI    = "api" // HTTP, or the program around the node
	byBroker = "amqp"
	byInbox  = "sql"
)

// submitSpans are the spans of submissions, one for each execution; nil: the node makes none.
type submitSpans []*tracing.Span

// traced begins the spans of executions that are to be stored. Their traces become those of the spans.
func (b *base) traced(executions []messages.Execution, way string) submitSpans {
	if b.tracer == nil {
		return nil
	}
	spans, now := make(submitSpans, len(executions)), time.Now()
	for i := range executions {
		spans[i] = b.tracer.Submit(&executions[i], way, now)
	}
	return spans
}

// stored ends the spans once all is stored, or nothing is.
func (s submitSpans) stored(executions []messages.Execution, stored []store.Submitted, err error) {
	if s == nil {
		return
	}
	now := time.Now()
	for i := range s {
		if err != nil {
			s.end(i, &executions[i], nil, err, now)
		} else {
			s.end(i, &executions[i], &stored[i], nil, now)
		}
	}
}

// end ends one span.
func (s submitSpans) end(i int, e *messages.Execution, stored *store.Submitted, err error, now time.Time) {
	switch {
	case err != nil:
		s[i].Refused(e, submitCode(err), now)
	case stored.Existing:
		s[i].Stored(&stored.Execution, now)
	default:
		s[i].Stored(nil, now)
	}
}

// submitCode is the code of why something was not stored.
func submitCode(err error) messages.Code {
	var p *messages.Problem
	switch {
	case errors.As(err, &p):
		return p.Code
	case errors.Is(err, store.ErrConflict):
		return messages.CodeKeyConflict
	}
	return "store"
}
