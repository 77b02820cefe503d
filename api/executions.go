package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/rules/timeline"
	"github.com/troupe-run/troupe/store"
)

// Bounds of a long poll.
const (
	WaitDefault = 30 * time.Second
	WaitMax     = 60 * time.Second
)

func executionRoutes() []*route {
	const one = "/api/v1/executions/{id}"
	return []*route{
		{method: "POST", path: "/api/v1/executions", scope: ScopeSubmit, group: "executions", status: http.StatusCreated,
			summary: "Submit one execution. With wait_seconds (up to 60), answer when it has ended or the time is over.",
			body:    form.SubmitBody{}, result: form.ExecutionView{}, handle: (*server).submit},
		{method: "POST", path: "/api/v1/executions/batch", scope: ScopeSubmit, group: "executions", status: http.StatusCreated,
			summary: "Submit up to 10,000 executions, all or none.",
			body:    form.BatchRequest{}, bodyMax: BatchBodyMax, result: form.BatchView{}, handle: (*server).submitBatch},
		{method: "POST", path: "/api/v1/executions/stream", scope: ScopeSubmit, group: "executions", stream: true, waits: true,
			summary: "Submit up to 1,000,000 executions, one a line. Each line is stored or refused by itself, and answered with a line.",
			body:    submit.Request{}, result: form.StreamAnswer{}, handle: (*server).submitStream},
		{method: "GET", path: "/api/v1/executions", scope: ScopeRead, group: "executions", params: listParams(),
			summary: "List executions, newest first or oldest first, without parameters and results, and without the details and the stderr of their errors; of a message up to 4 KiB.",
			result:  ExecutionList{}, handle: (*server).list},
		{method: "GET", path: one, scope: ScopeRead, own: true, group: "executions",
			params:  []param{{name: "without_payloads", kind: "boolean", help: "1: without its parameters and result, and without the details and the stderr of its error."}},
			summary: "One execution, whole. The 404 of one that is not stored has in details.remains what is still known of it, also at the paths below.", result: form.ExecutionView{}, handle: (*server).get},
		{method: "POST", reason: true, path: one + "/cancel", scope: ScopeOperate, own: true, group: "executions",
			summary: "Cancel; one that has ended stays as it is.", result: form.ExecutionView{}, handle: (*server).cancel},
		{method: "POST", path: one + "/retry", scope: ScopeOperate, group: "executions", status: http.StatusCreated,
			summary: "Submit an ended execution again, as a new execution of the same chain. An execution has one retry: if it exists, the answer is 200 with it.",
			body:    form.RetryBody{}, optional: true, result: form.ExecutionView{}, handle: (*server).retry},
		{method: "GET", path: one + "/wait", scope: ScopeRead, own: true, group: "executions", waits: true,
			params:  []param{{name: "timeout_seconds", kind: "number", help: "0 to 60; 30 where left out."}},
			summary: "The execution when it has ended, or its current state when the time is over.", result: form.ExecutionView{}, handle: (*server).wait},
		{method: "GET", path: one + "/output", scope: ScopeRead, own: true, group: "executions", waits: true,
			params:  []param{{name: "follow", kind: "boolean", help: "1: every happening of the run as it comes, until it has ended, as application/x-ndjson, or as text/event-stream where Accept asks for it. Each event there has an id, and Last-Event-ID goes on behind it; 204 where nothing follows."}},
			summary: "What the execution's process wrote.", result: OutputView{}, handle: (*server).output},
		{method: "GET", path: one + "/chain", scope: ScopeRead, own: true, group: "executions",
			summary: "The whole retry chain, oldest first, each execution as in a list.", result: ChainView{}, handle: (*server).chain},
		{method: "GET", path: one + "/events", scope: ScopeRead, own: true, group: "executions",
			params: []param{
				{name: "from", kind: "string", help: "Only at this time or later, as 2030-01-31T08:00:00Z."},
				{name: "to", kind: "string", help: "Only before this time."},
				{name: "newest", kind: "boolean", help: "1: the newest of them, where there are more than an answer has; else the oldest."}},
			summary: "The events of the execution, oldest first: up to 10,000, and up to 2,000 with from, to or newest.", result: EventsView{}, handle: (*server).events},
		{method: "GET", path: one + "/why", scope: ScopeRead, own: true, group: "executions", storeless: true,
			summary: "What the execution waits for.", result: view.Explanation{}, handle: (*server).why},
		{method: "GET", path: one + "/timeline", scope: ScopeRead, own: true, group: "executions",
			params: []param{
				{name: "from", kind: "string", help: "Only the part at this time or later, as 2030-01-31T08:00:00Z."},
				{name: "to", kind: "string", help: "Only the part before this time."},
				{name: "links_from", kind: "integer", help: "The number of the first execution of the retry chain; left out: 50 around this one."}},
			summary: "Where its time went: what it waited for and why, its placements and runs, and what became of its worker, node, session and servers.",
			result:  timeline.Timeline{}, handle: (*server).timeline},
		{method: "GET", path: one + "/line", scope: ScopeRead, own: true, group: "executions",
			params:  []param{{name: "at", kind: "string", help: "The time, as 2030-01-31T08:00:00Z."}},
			summary: "Its place in line at a time of its wait: what it waited for then, and how many others were before it.",
			result:  view.PastLine{}, handle: (*server).line},
	}
}

func (s *server) submit(c *call) error {
	var body form.SubmitBody
	if err := c.decode(false, &body); err != nil {
		return largeSubmit(err)
	}
	if body.WaitSeconds != nil && !(*body.WaitSeconds >= 0 && *body.WaitSeconds <= WaitMax.Seconds()) {
		return invalid("wait_seconds must be 0 to %v, got %v", WaitMax.Seconds(), *body.WaitSeconds)
	}
	if p := body.Check(); p != nil {
		return p
	}
	var wait time.Duration
	if body.WaitSeconds != nil {
		wait = time.Duration(*body.WaitSeconds * float64(time.Second))
	}
	if wait > 0 {
		if err := c.waitIn(&s.waits); err != nil {
			return err
		}
	}
	body.CreatedBy, body.Trace = c.caller, cmp.Or(body.Trace, traceOf(c.r))
	stored, awaited, err := s.store(c.r.Context(), &body.Request, wait > 0)
	if err != nil {
		return err
	}
	defer awaited.Leave()
	if err := c.foreignKey(&stored, body.IdempotencyKey); err != nil {
		return err
	}
	// A waiting call keeps no body in memory: the answer shows no parameters.
	body = form.SubmitBody{}
	stored.Execution.Parameters = nil
	c.hold.release()
	e := stored.Execution
	if wait > 0 && !e.Status.Terminal() {
		form.SayEarly(c.w, c.r, e.ID)
		if e, err = s.submitted(c, e, awaited, wait); err != nil {
			return err
		}
	}
	status := http.StatusCreated
	if stored.Existing {
		status = http.StatusOK
	}
	view := form.ViewExecution(&e)
	view.Existing = stored.Existing
	return writeJSON(c.w, status, &view)
}

// store stores one request, and begins to wait for its end if the caller waits.
func (s *server) store(ctx context.Context, r *submit.Request, waits bool) (store.Submitted, Awaited, error) {
	if waits {
		return s.Backend.SubmitAwaited(ctx, *r)
	}
	stored, err := s.Backend.Submit(ctx, []submit.Request{*r})
	if err != nil {
		return store.Submitted{}, nil, err
	}
	if len(stored) != 1 {
		return store.Submitted{}, nil, errors.New("the backend answered one submission with another number of executions")
	}
	return stored[0], unawaited{}, nil
}

// unawaited is an execution that the caller does not wait for.
type unawaited struct{ Awaited }

func (unawaited) Leave() {}

// submitted waits for the end of a stored execution. The caller gets its id even if the wait fails.
func (s *server) submitted(c *call, e messages.Execution, awaited Awaited, limit time.Duration) (messages.Execution, error) {
	call, bounded := submit.CallTime(&e)
	bounded = bounded && call < limit
	if bounded {
		limit = call
	}
	seen, err := s.waitFor(c.whole, e.ID, awaited.Wait, limit)
	if err == nil {
		err = c.answer.Admit(c.whole, sizeOf(&seen)) // it may have come with the outcome, unread
	}
	if err != nil {
		return e, nil
	}
	if bounded && !seen.Status.Terminal() {
		return e, submit.CallTimedOut(&seen)
	}
	return seen, nil
}

// largeSubmit changes the error of a body that is too large to one about the parameters, because only they can be so
// large.
func largeSubmit(err error) error {
	var p *messages.Problem
	if errors.As(err, &p) && p.Code == messages.CodeBodyTooLarge {
		return &messages.Problem{Code: messages.CodeTooLarge, Details: map[string]any{"limit_bytes": messages.ParametersMax},
			Message: "the submission is larger than 1.5 MiB, and parameters may be 1 MiB. Put large data where the action can fetch it and pass its address"}
	}
	return err
}

// viewAll shows executions without parameters and results, which may also be in the details of an error, and without what they wrote.
func viewAll(executions []messages.Execution) []form.ExecutionView {
	views := make([]form.ExecutionView, len(executions))
	for i := range executions {
		views[i] = form.ViewExecution(&executions[i])
		views[i].Result = nil
		if e := views[i].Error; e != nil {
			views[i].Error = e.Listed(messages.ListedMessageMax)
		}
	}
	return views
}

// whole shows an execution with its parameters, without secrets.
func (s *server) whole(e *messages.Execution) *form.ExecutionView {
	view := form.ViewExecution(e)
	if len(e.Parameters) > 0 {
		view.Parameters = s.Backend.Redact(e.Action, e.Parameters)
	}
	return &view
}

// ownOnly refuses an execution that the caller did not submit. The answer is the same as for an unknown execution, so
// that the caller does not learn that it exists.
func (s *server) ownOnly(c *call) error {
	id, err := executionID(c.r)
	if err != nil {
		return err
	}
	if s.Gate != nil { // some of these routes work without the store, but this check needs it
		if shut := s.Gate(); shut != nil {
			return shut
		}
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), callTime)
	defer cancel()
	e, err := s.Backend.Get(store.Bare(ctx), id)
	if err == nil && e.CreatedBy == c.caller {
		return nil
	}
	if err == nil || StatusOf(toProblem(err)) == http.StatusNotFound {
		return messages.Problemf(messages.CodeNotFound,
			"token %q has submitted no execution %s; what others submitted needs the scope %q", c.caller, id, ScopeRead)
	}
	return err
}

// ofExecution asks the backend about the execution of the path.
func (s *server) ofExecution(c *call, ask func(messages.ExecutionID) (any, error)) error {
	id, err := executionID(c.r)
	if err != nil {
		return err
	}
	answer, err := ask(id)
	if err != nil {
		return s.remains(c, id, err)
	}
	return writeJSON(c.w, http.StatusOK, answer)
}

func (s *server) get(c *call) error {
	return s.ofExecution(c, func(id messages.ExecutionID) (any, error) {
		bare, err := c.query.flag("without_payloads")
		if err != nil {
			return nil, err
		}
		ctx := c.r.Context()
		if bare {
			ctx = store.Bare(ctx)
		}
		e, err := s.Backend.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		if bare {
			removePayloads(&e)
		}
		return s.withRetry(c, &e), nil
	})
}

// remains adds to the answer about an execution that is not stored what is still known of it, for callers who read.
func (s *server) remains(c *call, id messages.ExecutionID, err error) error {
	err = named(err, "execution", id.String())
	if c.r.Method != http.MethodGet || StatusOf(toProblem(err)) != http.StatusNotFound {
		return err
	}
	known, failed := s.Backend.Remains(c.r.Context(), id)
	if failed != nil { // that it is not stored is known
		return err
	}
	return &messages.Problem{Code: messages.CodeNotFound, Message: known.Message(id), Details: map[string]any{"remains": known}}
}

// removePayloads removes what the caller submitted, and what the code returned and wrote. The details of an error may be a result
// that came too late.
func removePayloads(e *messages.Execution) {
	e.Parameters, e.Result = nil, nil
	if e.Error != nil {
		without := *e.Error
		without.Details, without.Stderr = nil, ""
		e.Error = &without
	}
}

// withRetry shows an execution with its parameters and its retry.
func (s *server) withRetry(c *call, e *messages.Execution) *form.ExecutionView {
	view, answer := s.whole(e), s.Backend.RetryAnswer(c.r.Context(), e)
	view.Retry = &answer
	s.withWebhook(c, e, view)
	return view
}

func (s *server) cancel(c *call) error {
	return s.ofExecution(c, func(id messages.ExecutionID) (any, error) {
		e, err := s.Backend.Cancel(c.r.Context(), id, c.caller)
		if err != nil {
			return nil, err
		}
		return s.whole(&e), nil
	})
}

func (s *server) retry(c *call) error {
	id, err := executionID(c.r)
	if err != nil {
		return err
	}
	var body form.RetryBody
	if err := c.decode(true, &body); err != nil {
		return err
	}
	if len(body.IdempotencyKey) > messages.KeyMax {
		return invalid("idempotency_key: at most %d bytes, got %d", messages.KeyMax, len(body.IdempotencyKey))
	}
	if err := checkReason(body.Reason); err != nil {
		return err
	}
	made, err := s.Backend.Retry(view.WithReason(c.r.Context(), body.Reason), id, body.IdempotencyKey, c.caller)
	if err != nil {
		return named(err, "execution", id.String())
	}
	return s.made(c, &made)
}

// made answers with a retry: 201 if this call made it, 200 if it existed.
func (s *server) made(c *call, made *store.Submitted) error {
	view, status := s.whole(&made.Execution), http.StatusCreated
	if view.Existing = made.Existing; made.Existing {
		status = http.StatusOK
	}
	return writeJSON(c.w, status, view)
}

func (s *server) wait(c *call) error {
	return s.ofExecution(c, func(id messages.ExecutionID) (any, error) {
		limit, err := c.query.seconds("timeout_seconds", WaitMax, WaitDefault)
		if err != nil {
			return nil, err
		}
		e, err := s.waitFor(c.r.Context(), id, func(ctx context.Context) (messages.Execution, error) { return s.Backend.Wait(ctx, id) }, limit)
		if err == nil {
			err = c.answer.Admit(c.r.Context(), sizeOf(&e)) // it may have come with the outcome, unread
		}
		if err != nil {
			return nil, err
		}
		return s.withRetry(c, &e), nil
	})
}

// waitFor waits for an execution's end, up to limit. A timeout is no error.
func (s *server) waitFor(ctx context.Context, id messages.ExecutionID, wait func(context.Context) (messages.Execution, error),
	limit time.Duration,
) (messages.Execution, error) {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	e, err := wait(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		look, done := context.WithTimeout(ctx, callTime)
		defer done()
		return s.Backend.Get(look, id)
	}
	return e, err
}

// orEmpty returns an empty list for nil, because JSON's null is no list.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
