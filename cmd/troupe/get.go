package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
)

// executions has the verbs for executions that are submitted.
type executions struct{ *app }

func (x executions) get() *cobra.Command {
	var events, chain bool
	cmd := &cobra.Command{
		Use: "get ID", Short: "Show one execution", Args: exactly("ID"),
		Long: "Show one execution with its status, parameters and result. --events shows its events instead, --chain its retries, and both\n" +
			"its retries and then its own events.",
	}
	cmd.Flags().BoolVar(&events, "events", false, "show its events instead")
	cmd.Flags().BoolVar(&chain, "chain", false, "show its whole retry chain instead")
	cmd.RunE = x.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		if events || chain {
			return x.showHistory(ctx, c, args[0], chain, events)
		}
		v, err := c.Execution(ctx, args[0])
		if err != nil {
			return err
		}
		if x.output != "json" && v.Status.Started() && !v.Status.Terminal() {
			return x.showExecution(v, x.progressOf(ctx, c, args[0]))
		}
		return x.showExecution(v, "")
	})
	return cmd
}

// Bounds of the look for a run's progress: in all, and since the last that was heard.
const (
	progressTime  = time.Second
	progressQuiet = 200 * time.Millisecond
)

// progressOf is the last progress that a run has told; empty: none is known.
func (x executions) progressOf(ctx context.Context, c *client.Client, id string) (last string) {
	limited, cancel := context.WithTimeout(ctx, progressTime)
	defer cancel()
	quiet := time.AfterFunc(progressQuiet, cancel)
	defer quiet.Stop()
	// The stream begins with what is kept of the run. It ends by the times above, which is no error here.
	_ = c.Follow(limited, id, func(l view.Live) error {
		quiet.Reset(progressQuiet)
		if l.Kind == "progress" {
			last = progressText(l)
		}
		return nil
	})
	return last
}

// progressText is a progress in words.
func progressText(l view.Live) string {
	text := l.Message
	if l.Fraction != nil && *l.Fraction >= 0 {
		text = strings.TrimSpace(fmt.Sprintf("%.0f %% %s", *l.Fraction*100, l.Message))
	}
	return text
}

// showHistory shows an execution's retry chain, its events, or both.
func (x executions) showHistory(ctx context.Context, c *client.Client, id string, chain, events bool) error {
	var all struct {
		api.ChainView
		api.EventsView
	}
	if chain {
		if err := c.Get(ctx, executionPath(id, "/chain"), &all.ChainView); err != nil {
			return err
		}
	}
	if events {
		if err := c.Get(ctx, executionPath(id, "/events"), &all.EventsView); err != nil {
			return err
		}
	}
	switch {
	case !events:
		return x.showExecutions(all.ChainView, all.Executions, c.Now())
	case !chain:
		return x.showEvents(all.EventsView)
	case x.output == "json":
		return x.printJSON(all)
	}
	if err := x.showExecutions(nil, all.Executions, c.Now()); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(x.out, "\nEvents of %s:\n", visible(id)); err != nil {
		return err
	}
	return x.showEvents(all.EventsView)
}

func (x executions) showEvents(v api.EventsView) error {
	rows := make([][]string, len(v.Events))
	for i, e := range v.Events {
		rows[i] = []string{clock(e.At), fmt.Sprint(e.Attempt), e.Kind, e.From.String() + " → " + e.To.String(), e.Reason, e.Worker, e.By}
	}
	if len(rows) == 0 && x.output != "json" {
		_, err := fmt.Fprintln(x.out, "none: only what leaves the straight path is kept, unless store.events is all")
		return err
	}
	return x.show(v, []string{"AT", "ATTEMPT", "KIND", "CHANGE", "REASON", "WORKER", "BY"}, rows)
}

// clock writes a moment for people, in the zone of TZ or of the machine, which stands behind it, to the millisecond.
func clock(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.Local().Format("2006-01-02 15:04:05.000Z07:00")
}

func (x executions) showExecution(v form.ExecutionView, progress string) error {
	if x.output == "json" {
		return x.printJSON(v)
	}
	var rows [][]string
	for _, f := range fieldsOf(v) {
		if f[1] != "" {
			rows = append(rows, []string{f[0], clipTo(f[1], 400)})
		}
		if f[0] == "status" && progress != "" {
			rows = append(rows, []string{"progress", clipTo(progress, 400)})
		}
	}
	if err := x.printTable([]string{"FIELD", "VALUE"}, x.wrapped(rows)); err != nil || v.Error == nil {
		return err
	}
	trace := messages.Traceback(v.Error.Details)
	if trace == "" {
		return nil
	}
	trace = strings.TrimRight(visibleLines(trace), "\n")
	if x.width > 0 {
		trace = lipgloss.Wrap(trace, x.width, "")
	}
	_, err := fmt.Fprintf(x.out, "\n%s\n", trace)
	return err
}

// fieldsOf lists an execution's fields in the order in which a person asks for them.
func fieldsOf(v form.ExecutionView) [][2]string {
	fields := [][2]string{
		{"id", v.ID.String()}, {"action", v.ActionRef + " " + v.Version}, {"status", v.Status.String()}, {"pool", v.Pool},
		{"worker", string(v.Worker)}, {"attempt", fmt.Sprint(v.Attempt)}, {"priority", fmt.Sprint(v.Priority)},
		{"session", v.Session}, {"affinity", string(v.Affinity)}, {"labels", labelText(v.Labels)}, {"created_by", v.CreatedBy},
		{"trace_id", v.TraceID},
		{"requested", clock(v.RequestedAt)}, {"run_at", clock(laterThan(v.RunAt, v.RequestedAt))}, {"scheduled", clock(v.ScheduledAt)},
		{"started", clock(v.StartedAt)}, {"finished", clock(v.FinishedAt)},
	}
	if v.DurationMS > 0 {
		fields = append(fields, [2]string{"took", short(time.Duration(v.DurationMS * float64(time.Millisecond)))})
	}
	if v.MaxRetries > 0 || v.RetryCount > 0 {
		fields = append(fields, [2]string{"retries", fmt.Sprintf("%d of %d %s", v.RetryCount, v.MaxRetries, v.RetryReason)})
	}
	if !v.RetriedAs.IsZero() {
		fields = append(fields, [2]string{"retried_as", v.RetriedAs.String()})
	}
	if v.Retry != nil && v.Status != messages.Completed {
		fields = append(fields, [2]string{"retry", v.Retry.Message})
	}
	if v.Webhook != nil {
		fields = append(fields, [2]string{"webhook", webhookText(v.Webhook)})
	}
	if v.SessionLost {
		fields = append(fields, [2]string{"session_lost", lossText(v.Status, v.Error)})
	}
	fields = append(fields, [2]string{"parameters", textOf(v.Parameters)}, [2]string{"result", textOf(v.Result)})
	if v.Error != nil {
		fields = append(fields, [2]string{"error", fmt.Sprintf("%s: %s", v.Error.Code, v.Error.Message)},
			[2]string{"failed_by", v.Error.FailedBy}, [2]string{"exit", v.Error.Exit}, [2]string{"stderr", strings.TrimSpace(v.Error.Stderr)})
	}
	return fields
}

// lossText says what is known of the state of an execution's session that was placed away from it. Another than its worker, which ends a
// run, does not know whether a snapshot was restored.
func lossText(s messages.Status, err *messages.Error) string {
	switch {
	case !s.Terminal():
		return "it was placed away from its state, which is lost unless a snapshot is restored"
	case !err.ByWorker():
		return "it was placed away from its state, and its worker did not say whether a snapshot was restored"
	}
	return "yes: its state was lost"
}

// laterThan is at where that says something that from does not.
func laterThan(at, from time.Time) time.Time {
	if at.After(from) {
		return at
	}
	return time.Time{}
}

func textOf(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	return unescaped(raw)
}

func labelText(labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for name, value := range labels {
		pairs = append(pairs, name+"="+value)
	}
	slices.Sort(pairs)
	return strings.Join(pairs, " ")
}

// showExecutions shows ages as of now, which is the node's time.
func (x executions) showExecutions(v any, list []form.ExecutionView, now time.Time) error {
	rows := make([][]string, len(list))
	for i, e := range list {
		took := ""
		if e.DurationMS > 0 {
			took = short(time.Duration(e.DurationMS * float64(time.Millisecond)))
		}
		why := ""
		if e.Error != nil {
			why = clipTo(string(e.Error.Code)+": "+e.Error.Message, x.room(failureRoom))
		}
		rows[i] = []string{e.ID.String(), e.ActionRef, e.Status.String(), fmt.Sprint(e.Attempt), string(e.Worker), ago(e.RequestedAt, now), took, why}
	}
	return x.show(v, []string{"ID", "ACTION", "STATUS", "ATTEMPT", "WORKER", "AGE", "TOOK", "ERROR"}, rows)
}

func (x executions) why() *cobra.Command {
	return &cobra.Command{
		Use: "why ID", Short: "Say what an execution waits for, and what to do about it", Args: exactly("ID"),
		RunE: x.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			var v view.Explanation
			if err := c.Get(ctx, executionPath(args[0], "/why"), &v); err != nil {
				return err
			}
			if x.output == "json" {
				return x.printJSON(v)
			}
			until := ""
			if !v.Until.IsZero() {
				until = ", until " + clock(v.Until)
			}
			status := v.Status.String()
			if v.Status == messages.StatusInvalid { // it stands in the store, which is away
				status = "not known now"
			}
			retry := ""
			if v.Retry != nil && !v.Status.Terminal() {
				retry = "\n" + visible(v.Retry.Message)
			}
			line := lineText(v.Line)
			advice := ""
			if v.WhatToDo != "" {
				advice = "\nWhat to do: " + visible(v.WhatToDo)
			}
			_, err := fmt.Fprintf(x.out, "%s: %s%s (%s)%s%s%s\n", status, visible(v.Message), until, visible(v.Reason), line, advice, retry)
			return err
		}),
	}
}

// lineNames are the words for the lines in which an execution may wait.
var lineNames = map[string]string{
	"pool": "for the next free worker", "worker": "for the worker of its session", "session": "in its session", "any_worker": "for the first worker of the pool",
}

// lineText is a place in line, on a line of its own.
func lineText(l *view.Line) string {
	if l == nil {
		return ""
	}
	n := strconv.Itoa(l.Ahead)
	switch {
	case l.AtLeast && l.Ahead == 0:
		n = "others may be"
	case l.AtLeast:
		n = "at least " + n
	}
	return fmt.Sprintf("\n%s before it %s", n, or(lineNames[l.Of], visible(l.Of)))
}
