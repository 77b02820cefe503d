package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/operate/view"
)

// pool is the verb that shows one pool in detail.
func (f fleet) pool() *cobra.Command {
	return &cobra.Command{
		Use: "pool NAME", Short: "Show one pool: its slots, what waits and why, and when that is done", Args: exactly("NAME"),
		Long: "Show one pool, summed over all nodes: its workers by state, and why slots without a worker failed last. Then what its router\n" +
			"holds, by priority and by cause: it counts up to 1,000 executions. Last, how long what waits takes at the rates of the last\n" +
			"five minutes.",
		Example: "  troupe pool python\n  troupe pool python -o json | jq .drain",
		RunE: f.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			var v view.PoolDetail
			if err := c.Get(ctx, "/api/v1/pools/"+url.PathEscape(args[0]), &v); err != nil {
				return err
			}
			if f.output == "json" {
				return f.printJSON(v)
			}
			return f.showPool(&v)
		}),
	}
}

func (f fleet) showPool(v *view.PoolDetail) error {
	if err := f.printTable(poolHeads, poolRows([]view.Pool{v.Pool}, f.room(reasonRoom))); err != nil {
		return err
	}
	rows := make([][]string, len(v.Slots))
	for i, s := range v.Slots {
		rows[i] = []string{s.State, strconv.Itoa(s.N)}
	}
	if err := f.section([]string{"SLOTS", "COUNT"}, rows); err != nil {
		return err
	}
	for i := range v.Queues {
		if err := f.showQueue(&v.Queues[i]); err != nil {
			return err
		}
	}
	rows = make([][]string, len(v.Failures))
	for i, s := range v.Failures {
		rows[i] = []string{string(s.Worker), s.State, fmt.Sprint(s.Generation), strconv.Itoa(s.Restarts), clipTo(s.Error, f.room(failureRoom))}
	}
	if err := f.section([]string{"WORKER", "STATE", "GEN", "RESTARTS", "LAST FAILURE"}, rows); err != nil {
		return err
	}
	f.warnUnreached(v.Unreached)
	if v.Drain == nil {
		return nil
	}
	_, err := fmt.Fprintf(f.out, "\n%s\n", drainText(v.Drain, v.More))
	return err
}

// showQueue shows what a router holds, by priority and by cause.
func (f fleet) showQueue(q *view.PoolQueue) error {
	if _, err := fmt.Fprintf(f.out, "\nThe router on node %s holds %d due executions", visible(q.Node), q.Held); err != nil {
		return err
	}
	if q.Counted < q.Held {
		fmt.Fprintf(f.out, "; %d of them are counted here", q.Counted)
	}
	fmt.Fprintln(f.out, ".")
	var rows [][]string
	for _, p := range q.ByPriority {
		rows = append(rows, []string{"priority", strconv.Itoa(int(p.Priority)), strconv.Itoa(p.N), ""})
	}
	for _, r := range q.ByCause {
		rows = append(rows, []string{"cause", r.Reason, strconv.Itoa(r.N), clipTo(r.Message, f.room(reasonRoom))})
	}
	if len(rows) == 0 {
		return nil
	}
	return f.printTable([]string{"WAITING BY", "VALUE", "COUNT", "MEANS"}, rows)
}

// section prints a table with a blank line before it, unless it is empty.
func (f fleet) section(heads []string, rows [][]string) error {
	if len(rows) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(f.out); err != nil {
		return err
	}
	return f.printTable(heads, rows)
}

// drainText says how long what waits takes, and by which rates.
func drainText(d *view.Drain, more bool) string {
	about := ""
	if more {
		about = "at least "
	}
	rates := fmt.Sprintf("From %s to %s, %.2f a second were submitted and %.2f a second ended", clock(d.From), clock(d.To), d.In, d.Out)
	if d.Waiting == 0 && !more {
		return fmt.Sprintf("Nothing waits. %s.", rates)
	}
	if d.Seconds == nil {
		return fmt.Sprintf("%s%d wait, and at these rates they do not become fewer. %s.", about, d.Waiting, rates)
	}
	return fmt.Sprintf("%s%d wait, which takes %s at these rates. %s.", about, d.Waiting, short(time.Duration(*d.Seconds*float64(time.Second))), rates)
}
