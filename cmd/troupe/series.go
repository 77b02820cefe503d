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
	"github.com/troupe-run/troupe/rules/rollup"
)

// series has the verb for what was counted by minute.
type series struct{ *app }

func (s series) command() *cobra.Command {
	var since, until, by, metric string
	var pools, actions []string
	points := 0
	cmd := &cobra.Command{
		Use: "series", Short: "Show how many executions were submitted and ended over time, how long they waited and ran, and what the workers were", Args: exactly(),
		Long: "Show how many executions ended over time, or with --metric submitted were submitted, for each status, action, pool, version or error\n" +
			"code, or in all. With --metric wait or run, show also how long those that ended waited, from when they were due, or ran: half of them at most P50, 95 % at most\n" +
			"P95, and 99 % at most P99, within 19 %. With --metric slots, busy or waiting, show how many workers there were in each state, how many were\n" +
			"busy, and how many executions waited, at the end of each point, as the nodes noted it every 5 minutes. A point without executions is left out; -o json has all. docs/operations.md says what is counted.",
		Example: "  troupe series\n  troupe series --metric slots --pool python --since 6h\n  troupe series --by error --since 24h --points 25\n  troupe series --metric run --by action --since 168h -o json\n  troupe series --pool python --pool go --by pool",
	}
	f := cmd.Flags()
	f.StringVar(&since, "since", "1h", "from this time on: a time (2030-01-31T08:00:00Z) or an age (2h)")
	f.StringVar(&until, "until", "", "before this time: a time or an age; now where left out")
	f.StringVar(&by, "by", "", "what has lines of its own: "+oneOf(rollup.MetricEnded.Fields())+"; of slots: "+oneOf(rollup.MetricSlots.Fields())+
		"; of busy and waiting: "+oneOf(rollup.MetricBusy.Fields())+" (default: the first)")
	f.StringVar(&metric, "metric", string(rollup.Metrics()[0]), "what is shown: "+oneOf(rollup.Metrics()))
	f.StringArrayVar(&pools, "pool", nil, "only this pool; repeat it for one of several")
	f.StringArrayVar(&actions, "action", nil, "only this action; repeat it for one of several")
	f.IntVar(&points, "points", 13, "how many points at most, 1 to 600: a point begins at a round time, so an hour in steps of 5 minutes has up to 13")
	cmd.RunE = s.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
		if by == "" {
			by = string(rollup.Metric(metric).Fields()[0])
		}
		span, err := newSpan(since, until, func() (time.Time, error) { return c.NodeTime(ctx) })
		if err != nil {
			return err
		}
		query := url.Values{"by": {by}, "metric": {metric}, "points": {strconv.Itoa(points)}}
		for name, values := range map[string][]string{"pool": pools, "action": actions} {
			if len(values) > 0 {
				query[name] = values
			}
		}
		span.ask(query)
		var v rollup.Series
		if err := c.Get(ctx, "/api/v1/series?"+query.Encode(), &v); err != nil {
			return err
		}
		heads := []string{"FROM", strings.ToUpper(by), strings.ToUpper(metric)}
		if timed(&v) {
			heads = []string{"FROM", strings.ToUpper(by), "ENDED", "P50", "P95", "P99"}
		}
		if err := s.show(v, heads, seriesRows(&v)); err != nil || s.output == "json" {
			return err
		}
		_, err = fmt.Fprintf(s.out, "\nEach line is of %s. Known up to %s.\n", time.Duration(v.StepSeconds)*time.Second, clock(v.Until))
		return err
	})
	return cmd
}

// oneOf joins words for a help text.
func oneOf[T ~string](words []T) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	return strings.Join(texts, ", ")
}

// timed reports whether the series says how long something took.
func timed(v *rollup.Series) bool { return len(v.Series) > 0 && len(v.Series[0].P50) > 0 }

// seriesRows are the points that have executions, in the order of time, and of one time those of the larger lines first.
func seriesRows(v *rollup.Series) [][]string {
	var rows [][]string
	points := 0
	for _, l := range v.Series {
		points = max(points, len(l.N))
	}
	for i := range points {
		at := clock(v.From.Add(time.Duration(i*v.StepSeconds) * time.Second))
		for _, l := range v.Series {
			if i >= len(l.N) || l.N[i] == 0 {
				continue
			}
			row := []string{at, l.Key, fmt.Sprint(l.N[i])}
			for _, quantile := range [][]float64{l.P50, l.P95, l.P99} {
				if i < len(quantile) {
					row = append(row, short(time.Duration(quantile[i]*float64(time.Millisecond))))
				}
			}
			rows = append(rows, row)
		}
	}
	return rows
}
