package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
)

const (
	// sessionTime is how long a call to a session may take, and sessionSlack how much longer its caller waits.
	sessionTime  = 60 * time.Second
	sessionSlack = 5 * time.Second
)

// submission is the verb submit, and what its flags say.
type submission struct {
	executions
	params, session, affinity, at, key, batch, trace string
	webhook, webhookSecret                           string
	priority, maxRetries                             int
	labels, webhookOn                                []string
	timeout, queueDeadline, sessionTimeout           time.Duration
	wait                                             bool
	given                                            func(flag string) bool
}

func (s *submission) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "submit ACTION [key=value | key:=json]…",
		Short: "Submit an execution; with --wait, print its result",
		Long: "Submit an execution and print its id. With --wait, print its result as JSON and exit 0, or its error on standard\n" +
			"error and exit 1. If the execution is retried, wait for the last of its chain.\n\n" +
			"key=value is text. It is a number, true or false if the action's schema wants that there and no text.\n" +
			"key:=json is any JSON value.\n\n" +
			"--batch reads, submits and prints line by line, and needs no memory for the file. A line that the node refuses is\n" +
			"named on standard error, the others are submitted, and the exit code is 1.",
		Example: "  troupe submit core.echo message=hi --wait\n  troupe submit core.sleep seconds:=2 --session alice --priority 9\n" +
			"  troupe submit demo.embed --batch texts.jsonl --wait",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("troupe submit: ACTION is missing; `troupe actions` lists them")
			}
			return nil
		},
	}
	s.flags(cmd.Flags())
	s.given = cmd.Flags().Changed
	cmd.RunE = s.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		r, err := s.request(ctx, c, args[0])
		if err != nil {
			return err
		}
		if s.batch != "" {
			return s.submitBatch(ctx, c, r, args[1:])
		}
		pairs := typed(ctx, c, args[0], args[1:])
		if r.Parameters, err = s.parameters(s.params, pairs); err != nil {
			return err
		}
		return hintJSON(s.submitOne(ctx, c, r), pairs)
	})
	return cmd
}

func (s *submission) flags(f *pflag.FlagSet) {
	f.StringVar(&s.params, "params", "", "file with the parameters as a JSON object, - for standard input")
	f.StringVar(&s.batch, "batch", "", "file with one JSON object of parameters a line, - for standard input: one execution each")
	f.StringVar(&s.session, "session", "", "session: executions of one session run on one worker, in order")
	f.StringVar(&s.affinity, "affinity", "", "hint, strict or strict_fail: what to do if the session's worker is busy or lost")
	f.DurationVar(&s.sessionTimeout, "session-timeout", sessionTime, "with --session and --wait: how long the call may take; 0: for ever")
	f.IntVar(&s.priority, "priority", int(messages.PriorityNormal), "0 (last) to 9 (first)")
	f.StringVar(&s.at, "at", "", "earliest start: a time (2030-01-31T08:00:00Z) or a delay (10m) by the node's clock")
	f.StringVar(&s.key, "key", "", "idempotency key: the same key and request give the same execution")
	f.StringArrayVar(&s.labels, "label", nil, "label name=value; may be repeated")
	f.DurationVar(&s.timeout, "timeout", 0, "run timeout; left out: the action's own")
	f.DurationVar(&s.queueDeadline, "queue-deadline", 0, "how long it may wait for a busy worker")
	f.StringVar(&s.trace, "trace", "", "W3C traceparent of the trace that it belongs to; left out: TRACEPARENT of the environment, with TRACESTATE")
	f.IntVar(&s.maxRetries, "max-retries", 0, "retries when it fails; left out: the action's own number")
	f.StringVar(&s.webhook, "webhook-url", "", "https:// address that is called with the outcome; none: nobody is told, whatever the action says")
	f.StringSliceVar(&s.webhookOn, "webhook-on", nil, "with --webhook-url: the outcomes that are told, as in failed,timed_out; left out: all")
	f.StringVar(&s.webhookSecret, "webhook-secret", "", "with --webhook-url: name of the node's secret that signs the call")
	f.BoolVar(&s.wait, "wait", false, "wait for the end and print the result")
}

// request is the submission without its parameters.
func (s *submission) request(ctx context.Context, c *client.Client, action string) (r submit.Request, err error) {
	r = submit.Request{ActionRef: action, Session: s.session, Affinity: s.affinity, IdempotencyKey: s.key, Trace: s.traceOf()}
	if s.given("priority") {
		r.Priority = &s.priority
	}
	if s.given("max-retries") {
		r.MaxRetries = &s.maxRetries
	}
	if s.given("timeout") {
		seconds := s.timeout.Seconds()
		r.TimeoutSeconds = &seconds
	}
	if s.given("queue-deadline") {
		seconds := s.queueDeadline.Seconds()
		r.QueueDeadline = &seconds
	}
	if s.given("webhook-url") || s.given("webhook-on") || s.given("webhook-secret") {
		r.Webhook = &submit.Webhook{URL: s.webhook, On: s.webhookOn, Secret: s.webhookSecret}
	}
	if r.Labels, err = keyValues(s.labels); err != nil {
		return r, err
	}
	if s.at != "" {
		if r.RunAt, err = parseAt(s.at, func() (time.Time, error) { return c.NodeTime(ctx) }); err != nil {
			return r, err
		}
	}
	if p := r.Check(); p != nil {
		return r, usagef("%s", p.Message)
	}
	return r, nil
}

// parseAt reads a moment, or a delay from now, which only a delay asks for.
func parseAt(text string, now func() (time.Time, error)) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		if d < 0 {
			return time.Time{}, usagef("--at %s lies in the past: leave it out to start at once, or give a delay such as 10m", text)
		}
		at, err := now()
		return at.Add(d).UTC(), err
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, usagef("--at %q must be a time such as 2030-01-31T08:00:00Z, or a delay such as 10m", text)
	}
	return at.UTC(), nil
}

func (s *submission) submitOne(ctx context.Context, c *client.Client, r submit.Request) error {
	if !s.wait {
		v, err := c.Submit(ctx, r, 0)
		if err != nil {
			return err
		}
		return s.printID(v)
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	v, err := s.submitAwaited(ctx, c, r)
	if err == nil {
		v, err = s.untilEnd(ctx, c, v)
	}
	if err != nil {
		if !v.ID.IsZero() && ctx.Err() == context.Canceled {
			return s.leaves(ctx, v.ID.String(), err)
		}
		if !v.ID.IsZero() {
			fmt.Fprintf(s.err, "execution %s was submitted; `troupe wait %s` waits for its end\n", v.ID, v.ID)
		}
		return s.timedOut(ctx, err, r)
	}
	return s.outcome(v)
}

// submitAwaited submits and waits in one call, on a terminal only for as long as it may stay still. Where the call fails, the answer
// has the id if the node has told it: should the node go away, it is known. The time that the node gives a call to a session is not
// the caller's, who goes on waiting.
func (s *submission) submitAwaited(ctx context.Context, c *client.Client, r submit.Request) (form.ExecutionView, error) {
	limit := api.WaitMax
	if s.terminal {
		limit = stillTime
	}
	var stored atomic.Pointer[messages.ExecutionID]
	v, err := c.SubmitAwaited(ctx, r, limit, func(id messages.ExecutionID) { stored.Store(&id) })
	id := stored.Load()
	if err == nil || id == nil {
		return v, err
	}
	var problem *client.Error
	if errors.As(err, &problem) && problem.Code == string(messages.CodeTimeout) {
		return c.Execution(ctx, id.String())
	}
	v.ID = *id
	return v, err
}

// bound gives a call to a session its time.
func (s *submission) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.session == "" || s.sessionTimeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.sessionTimeout+sessionSlack)
}

func (s *submission) timedOut(ctx context.Context, err error, r submit.Request) error {
	if ctx.Err() == context.DeadlineExceeded {
		return fmt.Errorf("timeout: Session operation timeout: session %s, action %s, after %s; it goes on at the node", r.Session, r.ActionRef, s.sessionTimeout)
	}
	return err
}

// traceOf is the trace that the submission belongs to: what the flag says, else what the environment does, as other programs that know
// W3C trace context read it. There an invalid one is passed over: nobody gave it to this verb.
func (s *submission) traceOf() string {
	if s.trace != "" {
		return s.trace
	}
	return submit.Trace(s.env("TRACEPARENT", ""), s.env("TRACESTATE", ""))
}
