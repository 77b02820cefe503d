package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/rules/rollup"
)

// overview has the verb for a first view.
type overview struct{ *app }

func (o overview) command() *cobra.Command {
	var since, until string
	cmd := &cobra.Command{
		Use: "overview", Short: "Show at first sight what is wrong and how much is done", Args: exactly(),
		Long: "Show the findings, the rates of the last five whole minutes, and the pools. Of a time, the last hour where none is given, show what failed,\n" +
			"first what did not in the same length before it, and the actions that ran longer than then. Times marked ≈ are within 19 %. `troupe findings`\n" +
			"says of each finding what it means and what to do, and `troupe differences` what else is different.",
		Example: "  troupe overview\n  troupe overview --since 24h\n  troupe overview --since 2030-01-31T03:00:00Z --until 2030-01-31T03:30:00Z",
	}
	cmd.Flags().StringVar(&since, "since", "", "what failed and ran longer from this minute on: a time (2030-01-31T08:00:00Z) or an age (2h); an hour before where left out")
	cmd.Flags().StringVar(&until, "until", "", "up to the end of this minute: a time or an age; now where left out")
	cmd.RunE = o.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
		span, err := newSpan(since, until, func() (time.Time, error) { return c.NodeTime(ctx) })
		if err != nil {
			return err
		}
		path, query := "/api/v1/overview", url.Values{}
		if span.ask(query); len(query) > 0 {
			path += "?" + query.Encode()
		}
		var v api.Overview
		if err := c.Get(ctx, path, &v); err != nil {
			return err
		}
		if o.output == "json" {
			return o.printJSON(v)
		}
		for _, part := range []func(*api.Overview) error{o.wrong, o.done, o.pools, o.failures, o.slower} {
			if err := part(&v); err != nil {
				return err
			}
		}
		return nil
	})
	return cmd
}

// wrong prints what keeps the node from being ready, a line for each finding, and what the answer lacks.
func (o overview) wrong(v *api.Overview) error {
	var b strings.Builder
	for _, w := range v.Readiness.Waits {
		b.WriteString("this node is not ready")
		if !w.Since.IsZero() {
			fmt.Fprintf(&b, " since %s", clock(w.Since))
		}
		fmt.Fprintf(&b, ": it waits for %s\n", visible(w.For))
		if w.WhatToDo != "" {
			fmt.Fprintf(&b, "  what to do: %s\n", visible(w.WhatToDo))
		}
	}
	if v.Readiness.Draining {
		b.WriteString("this node is draining\n")
	}
	for i := range v.Findings.Findings {
		f := &v.Findings.Findings[i]
		fmt.Fprintf(&b, "%s since %s: %s\n", visible(string(f.Severity)), clock(f.Since), visible(f.Message))
	}
	sick := sickPools(v)
	b.WriteString(sick)
	if len(v.Findings.Findings) == 0 && sick == "" && !v.Findings.At.IsZero() {
		b.WriteString("no rule of the alerts finds anything wrong\n")
	}
	if n := len(v.Findings.Partly); n > 0 {
		fmt.Fprintf(&b, "this node judges since %s; %d of the rules look further back, and a node that has run for longer may find more\n", clock(v.Findings.Since), n)
	}
	for _, m := range v.Missing {
		fmt.Fprintf(&b, "without %s: %s\n", visible(m.Part), visible(m.Why))
	}
	for _, u := range v.Unreached {
		fmt.Fprintf(&b, "without node %s: %s\n", visible(u.Node), visible(u.Why))
	}
	_, err := fmt.Fprint(o.out, b.String())
	return err
}

// sickPools has a line for each pool that does not work and of which no finding tells: a rule is judged every few seconds, and looks
// at what lasts.
func sickPools(v *api.Overview) string {
	told := map[string]bool{}
	for i := range v.Findings.Findings {
		f := &v.Findings.Findings[i]
		told[f.Subject] = told[f.Subject] || f.Name == "pool_broken" || f.Name == "no_active_workers"
	}
	var b strings.Builder
	for i := range v.Pools {
		p, what := &v.Pools[i].Pool, ""
		switch {
		case told[p.Name]:
		case p.Broken:
			what = "is broken"
		case p.Workers > 0 && p.Ready+p.Busy+p.Starting == 0:
			what = "has no worker that takes work"
		case p.Reason != "" && p.Halted == "": // what halts all pools is said of the node
			what = "has a problem"
		}
		if what == "" {
			continue
		}
		fmt.Fprintf(&b, "pool %s %s", visible(p.Name), what)
		if p.Reason != "" {
			fmt.Fprintf(&b, ": %s", visible(p.Reason))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// done prints how much there is, and how much is done.
func (o overview) done(v *api.Overview) error {
	t := &v.Totals
	text := fmt.Sprintf("waiting %s, %splaced %d, running %d, workers busy %d of %d\n", counted(max(t.Waiting-t.NotDue, 0), t.More), notDue(t.NotDue), t.Placed, t.Running, t.Busy, t.Workers)
	if v.Counts != nil {
		r := &v.Counts.Rates
		text += fmt.Sprintf("submitted %s/s, ended %s/s, failed %s/s, wait p95 %s, run p95 %s (%s to %s)\n", few(r.Submitted), few(r.Ended), few(r.Failed),
			cmp.Or(about(r.WaitP95), "-"), cmp.Or(about(r.RunP95), "-"), clock(v.Counts.From), clock(v.Counts.To))
	}
	_, err := fmt.Fprintln(o.out, text)
	return err
}

// notDue says how many wait for their time; nothing: none.
func notDue(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("not due %d, ", n)
}

func (o overview) pools(v *api.Overview) error {
	rows := make([][]string, len(v.Pools))
	for i := range v.Pools {
		p := &v.Pools[i]
		rates := rollup.Rates{}
		if p.Rates != nil {
			rates = *p.Rates
		}
		rows[i] = []string{
			p.Name, poolState(&p.Pool), strconv.Itoa(p.Workers), strconv.Itoa(p.Busy), counted(p.Due(), p.More), clock(p.Oldest), strconv.Itoa(p.Running),
			few(rates.Ended), few(rates.Failed), about(rates.RunP95),
		}
	}
	return o.printTable([]string{"POOL", "STATE", "WORKERS", "BUSY", "WAITING", "OLDEST", "RUNNING", "ENDED/S", "FAILED/S", "RUN P95"}, rows)
}

func (o overview) failures(v *api.Overview) error {
	if v.Counts == nil || len(v.Counts.Failures) == 0 {
		return nil
	}
	rows := make([][]string, len(v.Counts.Failures))
	for i, f := range v.Counts.Failures {
		rows[i] = []string{f.Action, string(f.Code), strconv.FormatInt(f.N, 10), strconv.FormatInt(f.Before, 10), clock(f.First), clock(f.Last)}
	}
	if err := o.ofRange(v); err != nil {
		return err
	}
	return o.printTable([]string{"FAILED", "CODE", "N", "BEFORE", "FIRST", "LAST"}, rows)
}

func (o overview) slower(v *api.Overview) error {
	if v.Counts == nil || len(v.Counts.Slower) == 0 {
		return nil
	}
	rows := make([][]string, len(v.Counts.Slower))
	for i, s := range v.Counts.Slower {
		rows[i] = []string{s.Action, strconv.FormatInt(s.N, 10), about(s.P95), about(s.Before)}
	}
	if err := o.ofRange(v); err != nil {
		return err
	}
	return o.printTable([]string{"SLOWER", "ENDED", "RUN P95", "BEFORE"}, rows)
}

// ofRange prints which times the table that follows compares.
func (o overview) ofRange(v *api.Overview) error {
	r := &v.Counts.Range
	_, err := fmt.Fprintf(o.out, "\nFrom %s to %s, before from %s:\n", clock(r.From), clock(r.To), clock(r.Before))
	return err
}

// counted is a number, and whether there are more.
func counted(n int, more bool) string {
	if more {
		return strconv.Itoa(n) + "+"
	}
	return strconv.Itoa(n)
}

// few is a rate with the digits that matter.
func few(n float64) string {
	if n >= 100 {
		return strconv.FormatFloat(n, 'f', 0, 64)
	}
	return strconv.FormatFloat(n, 'g', 2, 64)
}

// about is a time of a histogram, in milliseconds; nothing for none.
func about(ms float64) string {
	if ms == 0 {
		return ""
	}
	return "≈" + short(time.Duration(ms*float64(time.Millisecond)))
}
