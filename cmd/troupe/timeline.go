package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/timeline"
)

func (x executions) timeline() *cobra.Command {
	var since, until, at string
	linksFrom := 0
	cmd := &cobra.Command{
		Use: "timeline ID", Short: "Show where the time of an execution went", Args: exactly("ID"),
		Long: "Show what an execution waited for and why, its placements and runs, and what became of its worker, its node, its session and\n" +
			"the servers meanwhile. AT counts from the request. The lines of wait cover the time up to the start; unknown: nothing that was\n" +
			"recorded explains it. The nodes record within some seconds, so the last ones of a fresh execution are unknown at first.\n\n" +
			"One answer has up to 2,000 events and conditions of the pool, and 50 retries: the newest, or those that the flags select. What it\n" +
			"leaves out stands at the end.\n\n" +
			"With --at, show what it waited for at one time, and how many others of its pool or session were before it.",
		RunE: x.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			if at != "" {
				if since != "" || until != "" || linksFrom > 0 {
					return usagef("--at shows one moment: leave out --since, --until and --links-from")
				}
				return x.line(ctx, c, args[0], at)
			}
			span, err := newSpan(since, until, func() (time.Time, error) { return c.NodeTime(ctx) })
			if err != nil {
				return err
			}
			query := url.Values{}
			for name, value := range map[string]string{"from": instant(span.since), "to": instant(span.until)} {
				if value != "" {
					query.Set(name, value)
				}
			}
			if linksFrom > 0 {
				query.Set("links_from", strconv.Itoa(linksFrom))
			}
			path := executionPath(args[0], "/timeline")
			if len(query) > 0 {
				path += "?" + query.Encode()
			}
			var v timeline.Timeline
			if err := c.Get(ctx, path, &v); err != nil {
				return err
			}
			if x.output == "json" {
				return x.printJSON(v)
			}
			whole := wholeOf(&v)
			end := "until " + clock(whole.To)
			if !v.Status.Terminal() {
				end = "until now, " + clock(whole.To)
			}
			if v.Window != whole {
				end += fmt.Sprintf("\nshown from %s to %s", offset(whole.From, v.Window.From), offset(whole.From, v.Window.To))
			}
			if _, err := fmt.Fprintf(x.out, "%s %s\nfrom %s\n%s\n\n", v.Execution, v.Status, clock(whole.From), end); err != nil {
				return err
			}
			if err := x.printTable([]string{"LANE", "AT", "FOR", "WHAT", "WHY"}, timelineRows(&v)); err != nil {
				return err
			}
			for _, line := range leftOut(&v) {
				if _, err := fmt.Fprintln(x.out, line); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	f := cmd.Flags()
	f.StringVar(&since, "since", "", "only the part at this time or later: a time (2030-01-31T08:00:00Z) or an age (2h)")
	f.StringVar(&until, "until", "", "only the part before this time, or so long ago")
	f.StringVar(&at, "at", "", "its place in line then: a time of its wait (2030-01-31T08:00:00Z) or an age (2h)")
	f.IntVar(&linksFrom, "links-from", 0, "the number of the first retry of the chain (default: 50 around this one)")
	return cmd
}

// line shows where an execution stood in line at a time of the past.
func (x executions) line(ctx context.Context, c *client.Client, id, at string) error {
	moment, err := parseBack("--at", at, func() (time.Time, error) { return c.NodeTime(ctx) })
	if err != nil {
		return err
	}
	var v view.PastLine
	if err := c.Get(ctx, executionPath(id, "/line")+"?"+url.Values{"at": {instant(moment)}}.Encode(), &v); err != nil {
		return err
	}
	if x.output == "json" {
		return x.printJSON(v)
	}
	_, err = fmt.Fprintf(x.out, "%s at %s\n%s\n", v.Execution, clock(v.At), strings.Join(lineWords(&v), "\n"))
	return err
}

// lineWords say what an execution waited for, and how many were before it.
func lineWords(v *view.PastLine) []string {
	if v.Cause == "" {
		return []string{"it did not wait then"}
	}
	words := []string{"it waited: " + visible(v.Cause) + " (" + visible(v.Evidence) + ")"}
	if v.Line == nil {
		return append(words, "it stood in no line")
	}
	of, n := visible(v.Line.Of), v.Line.Ahead
	before := fmt.Sprintf("%d others of its %s were before it", n, of)
	switch {
	case n == 0 && v.Line.AtLeast:
		before = fmt.Sprintf("others of its %s may have been before it", of)
	case n == 0:
		before = fmt.Sprintf("no other of its %s was before it", of)
	case n == 1:
		before = fmt.Sprintf("1 other of its %s was before it", of)
	}
	if n > 0 && v.Line.AtLeast {
		before = "at least " + before
	}
	if !v.Since.IsZero() {
		before += ", of those requested since " + clock(v.Since)
	}
	return append(words, before)
}

// wholeOf is the whole time of an execution. A node of an older release does not tell it: its answers had all.
func wholeOf(v *timeline.Timeline) timeline.Window {
	if v.Whole.From.IsZero() {
		return v.Window
	}
	return v.Whole
}

// leftOut says what an answer leaves out, one line for each.
func leftOut(v *timeline.Timeline) (lines []string) {
	for _, l := range v.LeftOut {
		n := "some"
		switch {
		case l.N > 0 && l.AtLeast:
			n = fmt.Sprintf("at least %d", l.N)
		case l.N > 0:
			n = strconv.Itoa(l.N)
		}
		line := fmt.Sprintf("left out: %s %s", n, joinWords(l.What, l.Of))
		query, err := url.ParseQuery(l.Next)
		if err == nil && query.Has("links_from") {
			line += ": --links-from " + query.Get("links_from")
		} else if err == nil && query.Has("from") {
			line += fmt.Sprintf(": --since %s --until %s", query.Get("from"), query.Get("to"))
		}
		lines = append(lines, line)
	}
	return lines
}

// joinWords writes what something is, and of what.
func joinWords(what, of string) string {
	if of == "" {
		return what
	}
	return what + " of " + of
}

// timelineRows are the lanes, one line for each interval and event.
func timelineRows(v *timeline.Timeline) [][]string {
	start := wholeOf(v).From
	var rows [][]string
	add := func(lane string, from, to time.Time, what string, why ...string) {
		took := ""
		if !to.IsZero() {
			took = short(to.Sub(from))
		}
		rows = append(rows, []string{lane, offset(start, from), took, what, joined(why...)})
	}
	if len(v.Chain) > 1 || v.Retries.N > 1 {
		for _, e := range v.Chain {
			add("chain", e.From, e.To, e.Status.String(), e.ID.String(), e.Reason)
		}
	}
	for _, w := range v.Wait {
		add("wait", w.From, w.To, w.Cause, w.Evidence)
	}
	for _, a := range v.Attempts {
		from, to := a.ScheduledAt, a.EndedAt
		if from.IsZero() {
			from = a.StartedAt
		}
		if from.IsZero() {
			from, to = to, time.Time{} // of an older release, which did not keep when it was placed
		}
		add("placed", from, to, fmt.Sprintf("%d %s", a.Attempt, a.Worker), a.Ended, a.Reason, a.By)
	}
	for _, l := range v.Late {
		add("late", l.At, time.Time{}, fmt.Sprintf("%s of attempt %d, rejected", or(l.Reason, "write"), l.Attempt))
	}
	for _, r := range v.Runs {
		add("run", r.From, r.To, or(r.Outcome, "running"), r.Code)
	}
	for _, lane := range []struct {
		name   string
		states []timeline.State
	}{{"worker", v.Worker}, {"node", v.Node}, {"session", v.Session}, {"server", v.Servers}} {
		for _, s := range lane.states {
			by := ""
			if s.By != "" && s.By != s.Of {
				by = "as " + s.By + " saw it"
			}
			add(lane.name, s.From, s.To, stateWords(&s), s.Reason, by)
		}
	}
	return rows
}

// stateWords write whose state it is, and which.
func stateWords(s *timeline.State) string {
	of, what := s.Of, s.What
	if s.Generation > 0 {
		of += fmt.Sprintf(" g%d", s.Generation)
	}
	if s.Epoch > 0 {
		what = fmt.Sprintf("epoch %d, %s", s.Epoch, what)
	}
	return of + " " + what
}

// offset writes how long after the start something was.
func offset(start, at time.Time) string {
	switch d := at.Sub(start); {
	case d == 0:
		return "0s"
	case d < 0:
		return "-" + short(-d)
	default:
		return "+" + short(d)
	}
}

// joined writes what is there of several texts.
func joined(texts ...string) string {
	var given []string
	for _, text := range texts {
		if text != "" {
			given = append(given, text)
		}
	}
	return strings.Join(given, ", ")
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
