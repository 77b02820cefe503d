package main

import (
	"bufio"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/rules/bulk"
	"github.com/troupe-run/troupe/store"
)

// many has the verbs for operations on many executions or dead letters.
type many struct{ *app }

// bulkFlags are the flags of an operation, beside its filter.
type bulkFlags struct {
	kind        bulk.Kind
	dryRun, yes bool
	rate        int
}

func (m many) command() *cobra.Command {
	cmd := &cobra.Command{Use: "bulk", Short: "Retry or cancel many executions, or requeue or discard many dead letters, after a preview",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("bulk knows no verb %q; it has retry, cancel, requeue and discard", args[0])
			}
			return usagef("bulk needs a verb: retry, cancel, requeue or discard")
		}}
	cmd.AddCommand(
		m.executions(bulk.Retry, "Retry many ended executions", "  troupe bulk retry --status failed --pool python --since 1h\n  troupe bulk retry --status failed --error timeout --yes --reason \"the partner is back\""),
		m.executions(bulk.Cancel, "Cancel many executions", "  troupe bulk cancel --action shop.import --dry-run\n  troupe bulk cancel --status requested --label batch=7 --yes"),
		m.letters(bulk.Requeue, "Submit the executions of many dead letters again", "  troupe bulk requeue --letter-reason expired --since 1h\n  troupe bulk requeue 71 72 75 --yes --reason \"the queue is back\""),
		m.letters(bulk.Discard, "Mark many dead letters as handled", "  troupe bulk discard --resolution stale --dry-run\n  troupe bulk discard --action shop.import --until 24h --yes"))
	return cmd
}

// executions is a verb for many executions.
func (m many) executions(kind bulk.Kind, short, example string) *cobra.Command {
	wants := newWanted()
	cmd := m.verb(kind, string(kind), short, example, func(ctx context.Context, c *client.Client, _ []string) (body api.BulkPreviewBody, err error) {
		query, _, err := wants.query(ctx, c)
		if err == nil && bulk.Empty(query) {
			err = usagef("bulk %s: say which executions, such as --status failed --pool python; without a filter it would be all of them", kind)
		}
		return api.BulkPreviewBody{Filter: query}, err
	})
	cmd.Args = exactly()
	wants.flags(cmd.Flags())
	wants.ends(cmd.Flags())
	return cmd
}

// letters is a verb for many dead letters.
func (m many) letters(kind bulk.Kind, short, example string) *cobra.Command {
	wants := newWantedLetters()
	cmd := m.verb(kind, string(kind)+" [ID...]", short, example, func(ctx context.Context, c *client.Client, args []string) (body api.BulkPreviewBody, err error) {
		query, _, err := wants.query(ctx, c)
		if err != nil {
			return body, err
		}
		for _, arg := range args {
			id, err := strconv.ParseInt(arg, 10, 64)
			if err != nil || id < 1 {
				return body, usagef("bulk %s: %q is not the number of a dead letter; `troupe dead-letters` lists them", kind, arg)
			}
			body.DeadLetters = append(body.DeadLetters, id)
		}
		switch {
		case len(args) > 0 && !bulk.Empty(query):
			err = usagef("bulk %s: give dead letters or a filter, not both", kind)
		case len(args) == 0 && bulk.Empty(query):
			err = usagef("bulk %s: say which dead letters, by their numbers or such as --letter-reason expired; without a filter it would be all of them", kind)
		case len(args) == 0:
			body.Filter = query
		}
		return body, err
	})
	wants.flags(cmd.Flags(), "letter-reason")
	return cmd
}

// verb is a verb of bulk. Which says what it is about.
func (m many) verb(kind bulk.Kind, use, short, example string, which func(context.Context, *client.Client, []string) (api.BulkPreviewBody, error)) *cobra.Command {
	flags := &bulkFlags{kind: kind}
	cmd := &cobra.Command{
		Use: use, Short: short, Example: example,
		Long: short + ". The preview shows how many match the filter, and which are skipped. Once it is confirmed, an operation on the nodes does the\n" +
			"work. It acts on what was there at the preview, and leaves alone what comes later. The verb shows the progress. Ctrl-C ends the\n" +
			"verb, and not the operation: `troupe operation ID --stop` stops that.",
	}
	f := cmd.Flags()
	f.BoolVar(&flags.dryRun, "dry-run", false, "show the preview, and change nothing")
	f.BoolVarP(&flags.yes, "yes", "y", false, "do not ask; without a terminal it is needed")
	f.IntVar(&flags.rate, "rate", bulk.RateDefault, fmt.Sprintf("how many a second, 1 to %d", bulk.RateMax))
	cmd.RunE = m.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		if flags.rate < 1 || flags.rate > bulk.RateMax {
			return usagef("--rate must be 1 to %d, got %d", bulk.RateMax, flags.rate)
		}
		if !flags.dryRun && !flags.yes && !m.keyboard {
			return usagef("bulk %s: standard input is no terminal, so nobody can be asked; give --yes, or --dry-run", kind)
		}
		body, err := which(ctx, c, args)
		if err != nil {
			return err
		}
		body.Kind = string(kind)
		return m.run(ctx, c, flags, body)
	})
	return m.reasoned(cmd)
}

// run previews, asks, starts, and follows to the end.
func (m many) run(ctx context.Context, c *client.Client, flags *bulkFlags, which api.BulkPreviewBody) error {
	var p api.BulkPreviewView
	if err := c.Post(ctx, "/api/v1/bulk/preview", which, &p); err != nil {
		return err
	}
	if flags.dryRun && m.output == "json" {
		return m.printJSON(p)
	}
	if m.output != "json" {
		if err := m.showPreview(&p, flags.kind); err != nil {
			return err
		}
	}
	if flags.dryRun || p.Count == 0 {
		return nil
	}
	if text, want := question(&p, flags.kind, which.Filter); !flags.yes && !m.asks(ctx, text, want) {
		return usagef("bulk %s: not confirmed; nothing was changed", flags.kind)
	}
	var started api.BulkStarted
	body := api.BulkBody{Preview: p.Preview.String(), ConfirmCount: &p.Count, Reason: m.reason, Rate: flags.rate}
	if err := c.Post(ctx, "/api/v1/bulk", body, &started); err != nil {
		if ctx.Err() != nil { // the node may have it all the same
			return m.left(body.Preview)
		}
		return err
	}
	return m.follow(ctx, c, started.Operation.String())
}

func (m many) showPreview(p *api.BulkPreviewView, kind bulk.Kind) error {
	atLeast, what := "", "executions"
	if !p.Exact {
		atLeast = "at least "
	}
	if kind.Letters() {
		what = "dead letters"
	}
	fmt.Fprintf(m.out, "%s %s%d of %s%d %s that match\n", kind, atLeast, p.Count, atLeast, p.Matched, what)
	var rows [][]string
	for what, counts := range map[string][]bulk.Counted{"1status": p.By.Status, "2reason": p.By.Reason, "3action": p.By.Action} {
		for _, n := range counts {
			rows = append(rows, []string{what, n.Value, strconv.FormatInt(n.N, 10)})
		}
	}
	for _, s := range p.Skipped {
		rows = append(rows, []string{"4skipped", s.Why, strconv.FormatInt(s.N, 10)})
	}
	slices.SortStableFunc(rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	for _, row := range rows {
		row[0] = row[0][1:]
	}
	if len(rows) > 0 {
		if err := m.printTable([]string{"BY", "VALUE", "COUNT"}, rows); err != nil {
			return err
		}
	}
	return m.showExamples(p)
}

func (m many) showExamples(p *api.BulkPreviewView) error {
	var examples [][]string
	for i := range p.Letters {
		l := &p.Letters[i]
		examples = append(examples, []string{strconv.FormatInt(l.ID, 10), l.Reason, l.Action, idText(l.Execution), clock(l.At)})
	}
	if len(examples) > 0 {
		return m.printTable([]string{"OLDEST", "REASON", "ACTION", "EXECUTION", "AT"}, examples)
	}
	for i := range p.Examples {
		e := &p.Examples[i]
		examples = append(examples, []string{e.ID.String(), e.Status.String(), e.ActionRef, clock(e.RequestedAt)})
	}
	if len(examples) == 0 {
		return nil
	}
	return m.printTable([]string{"OLDEST", "STATUS", "ACTION", "REQUESTED"}, examples)
}

// typedAbove is the count above which somebody types what is asked for, and does not only agree.
const typedAbove = 100

// question is what to ask before an operation starts, and the answer that confirms it.
func question(p *api.BulkPreviewView, kind bulk.Kind, filter map[string][]string) (text, want string) {
	switch {
	case !p.Exact:
		want, _ = url.QueryUnescape(url.Values(filter).Encode())
		return fmt.Sprintf("There are more than were counted. Type the filter, %s, to %s them: ", visible(want), kind), want
	case p.Count > typedAbove:
		want = strconv.FormatInt(p.Count, 10)
		return fmt.Sprintf("Type the number, %s, to %s them: ", want, kind), want
	}
	return fmt.Sprintf("Type yes to %s them: ", kind), "yes"
}

// asks puts a question to the person at the terminal. The end of ctx is no answer.
func (m many) asks(ctx context.Context, text, want string) bool {
	fmt.Fprint(m.err, text)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(m.in).ReadString('\n')
		answer <- strings.TrimSpace(line)
	}()
	select {
	case line := <-answer:
		return line == want
	case <-ctx.Done():
		fmt.Fprintln(m.err)
		return false
	}
}

// followEvery is how often the progress of an operation is asked for.
const followEvery = time.Second

// follow shows how far an operation is, until it has ended.
func (m many) follow(ctx context.Context, c *client.Client, id string) error {
	fmt.Fprintf(m.err, "operation %s\n", id)
	p := &progress{app: m.app}
	defer p.done()
	for {
		v, err := m.get(ctx, c, id)
		if err == nil && v.State.Ended() {
			p.done()
			return m.ended(v, c.Now())
		}
		if err == nil {
			p.say("%s %s: %d done, %d skipped, %d failed of %s", v.Kind, v.State, v.Done, v.Skipped, v.Failed, counted(int(v.Count), !v.Exact))
			select {
			case <-time.After(followEvery):
				continue
			case <-ctx.Done():
			}
		}
		p.done()
		if ctx.Err() != nil {
			return m.left(id)
		}
		return fmt.Errorf("operation %s goes on: %w", id, err)
	}
}

// left says how to go on with an operation that the verb follows no longer.
func (m many) left(id string) error {
	fmt.Fprintf(m.err, "operation %s goes on; `troupe operation %s` shows it, and `troupe operation %s --stop` stops it\n", id, id, id)
	return errLeft
}

func (m many) get(ctx context.Context, c *client.Client, id string) (v api.OperationView, err error) {
	return v, c.Get(ctx, operationPath(id, ""), &v)
}

func operationPath(id, verb string) string { return "/api/v1/operations/" + url.PathEscape(id) + verb }

// ended shows an operation that has ended. It is a failure unless all was done.
func (m many) ended(v api.OperationView, now time.Time) error {
	if err := m.showOne(v, now); err != nil {
		return err
	}
	if v.State != store.OperationDone || v.Failed > 0 {
		return errSilent
	}
	return nil
}

func (m many) operations() *cobra.Command {
	var since, until string
	limit := 0
	cmd := &cobra.Command{
		Use: "operations", Short: "List the operations on many executions or dead letters, newest first", Args: exactly(),
		RunE: m.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			query := url.Values{"limit": {strconv.Itoa(limit)}}
			span, err := newSpan(since, until, func() (time.Time, error) { return c.NodeTime(ctx) })
			if err != nil {
				return err
			}
			span.ask(query)
			var v api.OperationList
			if err := c.Get(ctx, "/api/v1/operations?"+query.Encode(), &v); err != nil {
				return err
			}
			rows := make([][]string, len(v.Operations))
			for i := range v.Operations {
				rows[i] = operationRow(&v.Operations[i], c.Now())
			}
			if err := m.show(v, operationHeads, rows); err != nil {
				return err
			}
			m.sayMore(len(rows), v.NextCursor != "")
			return nil
		}),
	}
	cmd.Flags().StringVar(&since, "since", "", "only those that were started at this time or later: a time (2030-01-31T08:00:00Z) or an age (2h)")
	cmd.Flags().StringVar(&until, "until", "", "only those that were started before this time: a time or an age")
	cmd.Flags().IntVarP(&limit, "limit", "n", 20, "how many, 1 to 1000")
	return cmd
}

func (m many) operation() *cobra.Command {
	stop, watch := false, false
	cmd := &cobra.Command{
		Use: "operation ID", Short: "Show how far an operation is, follow it, or stop it", Args: exactly("ID"),
		Long: "Show how far an operation is. With --follow, show the progress until it ends. With --stop, stop it: it ends behind the step under way,\n" +
			"and the rest is untouched.",
		RunE: m.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			var v api.OperationView
			var err error
			if stop {
				err = c.Post(ctx, operationPath(args[0], "/stop"), m.why(), &v)
			} else {
				v, err = m.get(ctx, c, args[0])
			}
			if err != nil {
				return err
			}
			if watch && !v.State.Ended() {
				return m.follow(ctx, c, args[0])
			}
			return m.showOne(v, c.Now())
		}),
	}
	cmd.Flags().BoolVar(&stop, "stop", false, "stop it")
	cmd.Flags().BoolVarP(&watch, "follow", "f", false, "show the progress until it ends")
	return m.reasoned(cmd)
}

var operationHeads = []string{"OPERATION", "KIND", "STATE", "AGE", "COUNT", "DONE", "SKIPPED", "FAILED", "BY", "FILTER", "REASON"}

func operationRow(v *api.OperationView, now time.Time) []string {
	filter, _ := url.QueryUnescape(url.Values(v.Filter).Encode())
	if v.IDs > 0 {
		filter = fmt.Sprintf("%d ids", v.IDs)
	}
	n := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []string{v.ID.String(), v.Kind, string(v.State), ago(v.StartedAt, now), counted(int(v.Count), !v.Exact), n(v.Done), n(v.Skipped), n(v.Failed), v.By, filter, v.Reason}
}

// showOne shows an operation with what it skipped and what failed.
func (m many) showOne(v api.OperationView, now time.Time) error {
	if err := m.show(v, operationHeads, [][]string{operationRow(&v, now)}); err != nil || m.output == "json" {
		return err
	}
	if v.Problem != "" {
		fmt.Fprintf(m.out, "\n%s\n", visible(v.Problem))
	}
	if len(v.Skips) > 0 {
		rows := make([][]string, len(v.Skips))
		for i, s := range v.Skips {
			rows[i] = []string{s.Why, strconv.FormatInt(s.N, 10)}
		}
		if err := m.printTable([]string{"SKIPPED", "COUNT"}, rows); err != nil {
			return err
		}
	}
	if len(v.Failures) > 0 {
		rows := make([][]string, len(v.Failures))
		for i, f := range v.Failures {
			rows[i] = []string{failedID(&f), f.Error}
		}
		return m.printTable([]string{"FAILED", "ERROR"}, rows)
	}
	return nil
}

// failedID is the id of what could not be changed.
func failedID(f *store.OperationFailure) string {
	if f.DeadLetter > 0 {
		return strconv.FormatInt(f.DeadLetter, 10)
	}
	return f.Execution.String()
}
