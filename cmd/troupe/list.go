package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/retry"
)

// pageMax is the API's largest page.
const pageMax = 1000

func (x executions) list() *cobra.Command {
	limit, oldest, wants := 0, false, newWanted()
	cmd := &cobra.Command{
		Use: "list", Short: "List executions, newest first", Args: exactly(),
		Long: "List executions, newest first, or with --oldest the oldest first. The list is searched page by page until there are enough.",
		Example: "  troupe list --status failed,timed_out\n  troupe list --label team=a -n 1000 -o json\n" +
			"  troupe list --pool python --pool go --not-status completed --not-error timeout\n  troupe list --since 2h --until 1h30m\n  troupe list --status failed --ended-since 10m\n  troupe list --since 2030-01-31T08:00:00+01:00",
	}
	f := cmd.Flags()
	f.BoolVar(&oldest, "oldest", false, "the oldest first")
	f.IntVarP(&limit, "limit", "n", 20, "how many")
	wants.flags(f)
	wants.ends(f)
	cmd.RunE = x.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
		if limit < 1 {
			return usagef("--limit must be 1 or more, got %d", limit)
		}
		query, span, err := wants.query(ctx, c)
		if err != nil {
			return err
		}
		if oldest {
			query.Set("order", "oldest")
		}
		list, more, err := pages(ctx, c, query, span, limit)
		if err != nil {
			return err
		}
		if err := x.showExecutions(list, list.Executions, c.Now()); err != nil {
			return err
		}
		x.sayMore(len(list.Executions), more)
		return nil
	})
	return cmd
}

// sayMore says beside a table that the list goes on behind it.
func (a *app) sayMore(shown int, more bool) {
	if more && a.output != "json" {
		fmt.Fprintf(a.err, "%d shown; more with -n\n", shown)
	}
}

// pages reads as many pages as limit asks for. More says that the list may go on behind them.
func pages(ctx context.Context, c *client.Client, query url.Values, span span, limit int) (all api.ExecutionList, more bool, err error) {
	all.Executions = []form.ExecutionView{}
	for range pagesMax {
		size := min(limit-len(all.Executions), pageMax)
		if !span.until.IsZero() && len(all.Executions) == 0 {
			size = pageMax // what is too new is passed in large steps
		}
		query.Set("limit", strconv.Itoa(size))
		page, err := c.Executions(ctx, query)
		if err != nil {
			return all, false, err
		}
		kept, over := span.keep(page.Executions)
		all.Executions = append(all.Executions, kept...)
		all.NextCursor, more = page.NextCursor, page.NextCursor != "" && !over
		if len(all.Executions) > limit { // the cursor is behind more than is shown, and nothing reads on from it
			all.Executions, all.NextCursor, more = all.Executions[:limit], "", true
		}
		if page.NextCursor == "" || over || len(all.Executions) >= limit {
			return all, more, nil
		}
		query.Set("cursor", page.NextCursor)
	}
	return all, false, errEndless
}

// span is the time in which executions were requested, from since on and before until. Zero: without an end.
type span struct{ since, until time.Time }

// ask has the node look at this time alone.
func (s span) ask(query url.Values) { s.askAs(query, "from", "to") }

// askAs asks by other names of the parameters.
func (s span) askAs(query url.Values, from, to string) {
	for name, at := range map[string]time.Time{from: s.since, to: s.until} {
		if !at.IsZero() {
			query.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
}

// spanSlack is how far the order of executions and that of their times may differ, with nodes whose clocks do.
const spanSlack = time.Minute

// endedFlags are the flags of when executions ended.
var endedFlags = [2]string{"--ended-since", "--ended-until"}

func newSpan(since, until string, now func() (time.Time, error)) (span, error) {
	return spanOf([2]string{"--since", "--until"}, since, until, now)
}

// spanOf reads the values of two flags.
func spanOf(flags [2]string, since, until string, now func() (time.Time, error)) (s span, err error) {
	if s.since, err = parseBack(flags[0], since, now); err != nil {
		return s, err
	}
	if s.until, err = parseBack(flags[1], until, now); err != nil {
		return s, err
	}
	if !s.since.IsZero() && !s.until.IsZero() && !s.since.Before(s.until) {
		return s, usagef("%s %s is not before %s %s", flags[0], since, flags[1], until)
	}
	return s, nil
}

// parseBack reads a moment, or an age counted back from now, which only an age asks for.
func parseBack(flag, text string, now func() (time.Time, error)) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if age, err := time.ParseDuration(text); err == nil && age >= 0 {
		at, err := now()
		return at.Add(-age), err
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, usagef("%s %q must be a time such as 2030-01-31T08:00:00Z, or an age such as 2h", flag, text)
	}
	return at, nil
}

// keep is the executions of a page that lie in the span. over says that those of later pages are older than it.
func (s span) keep(page []form.ExecutionView) (kept []form.ExecutionView, over bool) {
	for _, e := range page {
		if (s.since.IsZero() || !e.RequestedAt.Before(s.since)) && (s.until.IsZero() || e.RequestedAt.Before(s.until)) {
			kept = append(kept, e)
		}
		over = !s.since.IsZero() && e.RequestedAt.Before(s.since.Add(-spanSlack))
	}
	return kept, over
}

func executionPath(id, verb string) string {
	return "/api/v1/executions/" + url.PathEscape(id) + verb
}

func (x executions) wait() *cobra.Command {
	return &cobra.Command{
		Use: "wait ID", Short: "Wait for an execution's end and print its result", Args: exactly("ID"),
		Long: "Wait until an execution and its retries have ended. Print the result as JSON and exit 0, or the error on standard error and exit 1.",
		RunE: x.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			v, err := c.Execution(ctx, args[0])
			if err != nil {
				return err
			}
			if v, err = x.untilEnd(ctx, c, v); err != nil {
				return x.leaves(ctx, args[0], err)
			}
			return x.outcome(v)
		}),
	}
}

// leaves says of a verb that somebody has stopped that the execution goes on without it.
func (x executions) leaves(ctx context.Context, id string, err error) error {
	if ctx.Err() == nil || !errors.Is(err, context.Canceled) {
		return err
	}
	fmt.Fprintf(x.err, "execution %s goes on: `troupe wait %s` waits for its end, `troupe cancel %s` stops it\n", id, id, id)
	return errLeft
}

func (x executions) cancel() *cobra.Command {
	return x.reasoned(&cobra.Command{
		Use: "cancel ID…", Short: "Cancel executions", Args: someIDs,
		RunE: x.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			return x.eachID(args, func(id string) (form.ExecutionView, error) { return c.Cancel(ctx, id, x.reason) })
		}),
	})
}

func (x executions) retry() *cobra.Command {
	key := ""
	cmd := &cobra.Command{
		Use: "retry ID…", Short: "Submit ended executions again, as new ones of their chains", Args: someIDs,
		Long: "Submit ended executions again, as new ones of their chains. An execution has one retry. If it has been retried, that retry is shown.",
		RunE: x.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			if key != "" && len(args) > 1 {
				return usagef("troupe retry: --key is for one ID, got %d", len(args))
			}
			return x.eachID(args, func(id string) (form.ExecutionView, error) { return c.Retry(ctx, id, key, x.reason) })
		}),
	}
	cmd.Flags().StringVar(&key, "key", "", "idempotency key of the new execution")
	return x.reasoned(cmd)
}

func someIDs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef("%s: ID is missing", cmd.CommandPath())
	}
	return nil
}

// eachID does one thing to every execution. One that fails does not hinder the others.
func (x executions) eachID(ids []string, do func(id string) (form.ExecutionView, error)) error {
	failed := false
	for _, id := range ids {
		v, err := do(id)
		if err != nil {
			x.sayError(err)
			failed = true
			continue
		}
		if x.output == "json" {
			if err := x.printJSON(v); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(x.out, "%s %s\n", v.ID, v.Status)
	}
	if failed {
		return errSilent
	}
	return nil
}

// stillTime is how long a terminal that shows how an execution stands may stay still.
const stillTime = time.Second

// untilEnd waits for the end of the execution and of what retries it, and says meanwhile how it stands.
func (x executions) untilEnd(ctx context.Context, c *client.Client, v form.ExecutionView) (form.ExecutionView, error) {
	p := &progress{app: x.app}
	defer p.done()
	began := time.Now()
	for {
		for !v.Status.Terminal() {
			limit := api.WaitMax
			if x.terminal {
				limit = stillTime
				p.say("%s %s %s %s", v.ID, v.Status, v.Worker, short(time.Since(began)))
			}
			var err error
			if v, err = c.WaitFor(ctx, v.ID.String(), limit); err != nil {
				return v, err
			}
		}
		if v.Status == messages.Completed || v.RetriedAs.IsZero() {
			return v, nil
		}
		p.done()
		fmt.Fprintf(x.err, "execution %s %s; it is retried as %s\n", v.ID, failure(v), v.RetriedAs)
		next, err := c.Execution(ctx, v.RetriedAs.String())
		if err != nil {
			return v, err
		}
		v = next
	}
}

// outcome prints what an execution ended with: its result, or its error.
func (x executions) outcome(v form.ExecutionView) error {
	if x.output == "json" {
		if err := x.printJSON(v); err != nil || v.Status == messages.Completed {
			return err
		}
		return errSilent
	}
	if v.Status == messages.Completed {
		result := v.Result
		if len(result) == 0 {
			result = json.RawMessage("null")
		}
		_, err := fmt.Fprintln(x.out, unescaped(result))
		return err
	}
	fmt.Fprintf(x.err, "execution %s %s\n", v.ID, failure(v))
	if v.Error != nil && v.Error.Stderr != "" {
		text := strings.TrimRight(v.Error.Stderr, "\n")
		if x.terminal {
			text = visibleLines(text)
		}
		fmt.Fprintln(x.err, text)
	}
	if v.Error != nil && v.Error.NoRetry != "" {
		e := v.Execution()
		fmt.Fprintln(x.err, "no retry follows: "+visible(retry.Denial(v.Error.NoRetry).Explain(&e)))
	}
	return errSilent
}

// unescaped writes JSON as a person wrote it: the API escapes markup.
func unescaped(raw json.RawMessage) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return visible(string(raw))
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return visible(string(raw))
	}
	return string(harmlessJSON(bytes.TrimRight(b.Bytes(), "\n")))
}

// failure says in a few words how an execution ended that did not complete.
func failure(v form.ExecutionView) string {
	if v.Error == nil {
		return v.Status.String()
	}
	return paragraph(fmt.Sprintf("%s: %s: %s", v.Status, v.Error.Code, v.Error.Message))
}
