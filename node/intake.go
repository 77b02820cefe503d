package node

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
)

// createdByBroker is who an execution was created by that came by the requests queue.
const createdByBroker = "amqp"

// The headers of a message that carry W3C trace context.
const (
	parentHeader = "traceparent"
	stateHeader  = "tracestate"
)

// intake takes the submissions of other programs, which come by the requests queue and by the store's inbox.
type intake struct {
	*base
	submissions *submissions
	redact      func(ref string, parameters json.RawMessage) json.RawMessage
	count       func(result string)
	held        actors.Held // what is unsettled of the requests queue
	inbox       inboxLogs
}

// spec is the bridge that consumes the requests queue.
func (in *intake) spec() actors.Child {
	return actors.NewIntake(actors.IntakeConfig{
		System: in.system, Broker: in.broker, Settings: in.cfg.Broker, Delivery: in.delivery, DeadLetters: in.store,
		Read: in.readRequest, Submit: in.submitMessages, Logger: in.logger.Named("intake"), Count: in.count, Held: &in.held,
	})
}

// bridgeChecks is the context of checks of what came by a bridge. They end by their steps only: a message that was half
// checked would have to come again.
var bridgeChecks = context.Background()

// readRequest makes a message of the requests queue an execution, by the very checks of the HTTP API.
func (in *intake) readRequest(d broker.Delivery) (messages.Execution, *actors.Refusal) {
	request, err := api.DecodeSubmit(d.Body)
	if err == nil {
		if request.IdempotencyKey == "" {
			request.IdempotencyKey = d.ID
		}
		request.CreatedBy = createdByBroker
		if request.Trace == "" {
			request.Trace = submit.Trace(d.Headers[parentHeader], d.Headers[stateHeader])
		}
		var e messages.Execution
		if p := request.Check(); p != nil {
			err = p
		} else if e, err = in.submissions.complete(bridgeChecks, &request); err == nil {
			return e, nil
		}
	}
	return messages.Execution{}, in.refusal(err, &request)
}

// refusal is why a request is not taken. What is kept of it has no secrets.
func (in *intake) refusal(err error, request *submit.Request) *actors.Refusal {
	r := &actors.Refusal{Code: string(messages.CodeInvalidRequest), Text: err.Error()}
	var p *messages.Problem
	if errors.As(err, &p) {
		r.Code, r.Text = string(p.Code), p.Message
		r.Malformed = api.StatusOf(p) == http.StatusBadRequest
	}
	if request.ActionRef == "" {
		return r
	}
	kept := *request
	kept.Parameters = in.redact(request.ActionRef, request.Parameters)
	if body, err := api.EncodeSubmit(kept); err == nil {
		r.Body = body
	}
	return r
}

var errDraining = errors.New("this node is shutting down and takes no more work")

// submitMessages stores what came by the requests queue.
func (in *intake) submitMessages(ctx context.Context, executions []messages.Execution) ([]store.Submitted, error) {
	return in.submit(ctx, executions, byBroker)
}

// submit stores what came by a bridge and wakes its pools.
func (in *intake) submit(ctx context.Context, executions []messages.Execution, way string) ([]store.Submitted, error) {
	if in.phase.draining.Load() {
		return nil, errDraining
	}
	spans := in.traced(executions, way)
	submitted, err := in.store.Submit(ctx, executions)
	spans.stored(executions, submitted, err)
	if err == nil {
		in.submissions.wake(submitted, false)
		in.submissions.rollups.submitted(submitted)
	}
	return submitted, err
}
