package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/rules/timeline"
)

func (x executions) timeline() *cobra.Command {
	return &cobra.Command{
		Use: "timeline ID", Short: "Show where the time of an execution went", Args: exactly("ID"),
		Long: "Show what an execution waited for and why, its placements and runs, and what became of its worker, its node, its session and\n" +
			"the servers meanwhile. AT counts from the request. The lines of wait cover the time up to the start; unknown: nothing that was\n" +
			"recorded explains it. The nodes record within some seconds, so the last ones of a fresh execution are unknown at first.",
		RunE: x.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			var v timeline.Timeline
			if err := c.Get(ctx, executionPath(args[0], "/timeline"), &v); err != nil {
				return err
			}
			if x.output == "json" {
				return x.printJSON(v)
			}
			end := "until " + clock(v.Window.To)
			if !v.Status.Terminal() {
				end = "until now, " + clock(v.Window.To)
			}
			if _, err := fmt.Fprintf(x.out, "%s %s\nfrom %s\n%s\n\n", v.Execution, v.Status, clock(v.Window.From), end); err != nil {
				return err
			}
			return x.printTable([]string{"LANE", "AT", "FOR", "WHAT", "WHY"}, timelineRows(&v))
		}),
	}
}

// timelineRows are the lanes, one line for each interval and event.
func timelineRows(v *timeline.Timeline) [][]string {
	start := v.Window.From
	var rows [][]string
	add := func(lane string, from, to time.Time, what string, why ...string) {
		took := ""
		if !to.IsZero() {
			took = short(to.Sub(from))
		}
		rows = append(rows, []string{lane, offset(start, from), took, what, joined(why...)})
	}
	if len(v.Chain) > 1 {
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
			add(lane.name, s.From, s.To, s.Of+" "+s.What, s.Reason, by)
		}
	}
	return rows
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
