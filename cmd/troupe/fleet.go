package main

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/membership"
)

// workersMax is the API's largest page of workers.
const workersMax = 10_000

// pagesMax bounds the pages of one list: ten million workers or executions.
const pagesMax = 1000

// errEndless is told of a server whose pages do not end.
var errEndless = fmt.Errorf("the list has not ended after %d pages: narrow it down, and see that a Troupe node answers there", pagesMax)

// allWorkers are the workers that a query of the API has, whose empty values mean any.
func allWorkers(ctx context.Context, c *client.Client, query url.Values) (api.WorkerList, error) {
	query = maps.Clone(query)
	query.Set("limit", fmt.Sprint(workersMax))
	all := api.WorkerList{Workers: []view.Worker{}}
	for range pagesMax {
		var page api.WorkerList
		if err := c.Get(ctx, "/api/v1/workers?"+query.Encode(), &page); err != nil {
			return all, err
		}
		all.Workers, all.Unreached = append(all.Workers, page.Workers...), page.Unreached
		if page.NextCursor == "" {
			return all, nil
		}
		query.Set("cursor", page.NextCursor)
	}
	return all, errEndless
}

// fleet has the verbs that show and steer workers, pools and nodes.
type fleet struct{ *app }

// warnUnreached says which nodes did not answer, beside what is shown of them.
func (f fleet) warnUnreached(list []view.Unreached) {
	if f.output == "json" {
		return // it is in there
	}
	for _, u := range list {
		fmt.Fprintln(f.err, visible("troupe: "+u.Why+"; what is shown of it is from the store"))
	}
}

func (f fleet) workers() *cobra.Command {
	var pool, node, state []string
	limit, troubled, without := 0, false, unwanted{}
	cmd := &cobra.Command{
		Use: "workers [ID]", Short: "Show the workers, or one with its history",
		Long: "Show the workers of all nodes, or one with its history. If a node does not answer, its workers are shown from the store,\n" +
			"marked stale, with their age. GRADE includes the worker's health and its heartbeat: an unhealthy worker gets no work.",
		Args: atMost("ID"),
	}
	cmd.Flags().StringArrayVar(&pool, "pool", nil, "only this pool; repeat it for one of several")
	cmd.Flags().StringArrayVar(&node, "node", nil, "only workers of this node, by name or incarnation; repeat it for one of several")
	cmd.Flags().StringArrayVar(&state, "state", nil, "only workers in this state; repeat it for one of several")
	without.flags(cmd.Flags(), map[string]string{"pool": "pools", "node": "nodes, by their names", "state": "states"})
	cmd.Flags().BoolVar(&troubled, "troubled", false, "those in trouble first")
	cmd.Flags().IntVarP(&limit, "limit", "n", 200, "rows of the table; json has them all")
	cmd.RunE = f.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		if len(args) == 1 {
			return f.showWorker(ctx, c, args[0])
		}
		query := url.Values{"pool": pool, "node": node, "state": state}
		without.ask(query)
		if troubled {
			query.Set("order", "troubled")
		}
		v, err := allWorkers(ctx, c, query)
		if err != nil {
			return err
		}
		all := v.Workers
		if err := f.show(v, workerHeads, workerRows(all[:min(max(limit, 1), len(all))], c.Now(), f.room(failureRoom))); err != nil {
			return err
		}
		if hidden := len(all) - limit; hidden > 0 && f.output != "json" {
			fmt.Fprintf(f.out, "… and %d more; -n %d shows them\n", hidden, len(all))
		}
		f.warnUnreached(v.Unreached)
		return nil
	})
	return cmd
}

// How long a reason may be where no terminal bounds it: a worker's last failure or an execution's error, and a pool's.
const (
	failureRoom = 60
	reasonRoom  = 80
)

var workerHeads = []string{"WORKER", "RUNTIME", "STATE", "HEALTH", "GRADE", "GEN", "PID", "SINCE", "EXECUTION", "LAST FAILURE"}

func workerRows(workers []view.Worker, now time.Time, room int) [][]string {
	rows := make([][]string, len(workers))
	for i, w := range workers {
		state := w.State
		if w.Cordoned {
			state += ", cordoned"
		}
		if w.Stale {
			state += ", stale: " + ago(w.SeenAt, now)
		}
		rows[i] = []string{string(w.ID), string(w.Runtime), state, w.Health, gradeText(&w, now), fmt.Sprint(w.Generation), number(w.Pid),
			ago(w.Since, now), idText(w.Execution), clipTo(w.LastError, room)}
	}
	return rows
}

// gradeText is a worker's grade, and since when its heartbeat is missing where that is why it gets no work.
func gradeText(w *view.Worker, now time.Time) string {
	if !slices.Contains(w.GradeCauses, health.HeartbeatStale.String()) {
		return w.Grade
	}
	if w.Heartbeat.IsZero() {
		return w.Grade + ", no heartbeat"
	}
	return w.Grade + ", no heartbeat for " + ago(w.Heartbeat, now)
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func idText(id messages.ExecutionID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

func (f fleet) showWorker(ctx context.Context, c *client.Client, id string) error {
	path, err := workerPath(id, "")
	if err != nil {
		return err
	}
	var v api.WorkerDetailView
	if err := c.Get(ctx, path, &v); err != nil {
		return err
	}
	if f.output == "json" {
		return f.printJSON(v)
	}
	if err := f.printTable(workerHeads, workerRows([]view.Worker{v.Worker}, c.Now(), f.room(failureRoom))); err != nil {
		return err
	}
	rows := make([][]string, len(v.History))
	for i, h := range v.History {
		rows[i] = []string{clock(h.At), fmt.Sprint(h.Generation), h.From + " → " + h.To, h.Reason, short(time.Duration(h.LastedMS * float64(time.Millisecond)))}
	}
	fmt.Fprintln(f.out)
	return f.printTable([]string{"AT", "GEN", "CHANGE", "REASON", "AFTER"}, rows)
}

// workerPath is the API's path of a worker; its id holds slashes that part its wildcards.
func workerPath(id, verb string) (string, error) {
	node, pool, slot, ok := messages.WorkerID(id).Split()
	if !ok {
		return "", usagef("worker id %q must be node/pool/slot; `troupe workers` lists them", id)
	}
	return fmt.Sprintf("/api/v1/workers/%s/%s/%d%s", url.PathEscape(node), url.PathEscape(pool), slot, verb), nil
}

func (f fleet) pools() *cobra.Command {
	node := ""
	cmd := &cobra.Command{
		Use: "pools", Short: "Show the pools", Args: exactly(),
		Long: "Show the pools, summed over all nodes. WAITING, NOT DUE and PLACED are the cluster's, also with --node. WAITING counts what is\n" +
			"due, and NOT DUE what waits for its time (submit --at, or a retry's delay), each up to 100,000 for each priority; a + behind them\n" +
			"means that there may be more. STATE says that a server is away, or blocked, where no node can place for it. DISPATCH says how executions go to the workers: direct, broker, or mixed while nodes differ.",
		RunE: f.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			query := url.Values{}
			if node != "" {
				query.Set("node", node)
			}
			var v api.PoolList
			if err := c.Get(ctx, "/api/v1/pools?"+query.Encode(), &v); err != nil {
				return err
			}
			if err := f.show(v, poolHeads, poolRows(v.Pools, f.room(reasonRoom))); err != nil {
				return err
			}
			f.warnUnreached(v.Unreached)
			return nil
		}),
	}
	cmd.Flags().StringVar(&node, "node", "", "only the workers of this node, by name or incarnation")
	return cmd
}

var poolHeads = []string{"POOL", "RUNTIME", "STATE", "NODES", "WORKERS", "READY", "BUSY", "DEGRADED", "STARTING", "WAITING", "NOT DUE", "PLACED", "RESTARTS", "DISPATCH", "ROUTER", "REASON"}

func poolRows(pools []view.Pool, room int) [][]string {
	rows := make([][]string, len(pools))
	for i, p := range pools {
		workers := fmt.Sprint(p.Workers)
		if p.Stale > 0 {
			workers += fmt.Sprintf(", %d stale", p.Stale)
		}
		if p.Unattached > 0 {
			workers += fmt.Sprintf(", %d unattached", p.Unattached)
		}
		rows[i] = []string{p.Name, string(p.Runtime), poolState(&p), fmt.Sprint(p.Nodes), workers}
		for _, n := range []int{p.Ready, p.Busy, p.Degraded, p.Starting, p.Due(), p.NotDue, p.Placed, p.Restarts} {
			rows[i] = append(rows[i], fmt.Sprint(n))
		}
		if p.More {
			for _, at := range []int{len(rows[i]) - 4, len(rows[i]) - 3} {
				rows[i][at] += "+"
			}
		}
		rows[i] = append(rows[i], p.Dispatch, routerOf(&p.Routing), clipTo(p.Reason, room))
	}
	return rows
}

// poolState is one word for how a pool is.
func poolState(p *view.Pool) string {
	switch {
	case p.Broken:
		return "broken"
	case p.OldCode:
		return "old code"
	case p.Cordoned:
		return "cordoned"
	case p.Halted != "":
		return strings.ReplaceAll(p.Halted, "_", " ")
	case p.Unattached > 0 && p.Ready+p.Busy+p.Degraded == 0:
		return "unattached"
	}
	return "ok"
}

// routerOf names who places a pool's executions: a node, or each for itself.
func routerOf(r *view.Routing) string {
	switch {
	case r.Mode == "leading":
		return fmt.Sprintf("%s +%d", r.Router, r.Followers)
	case r.Mode == "following":
		return r.Router
	case r.Why != "":
		return "own, not " + r.Router
	}
	return "own"
}

func (f fleet) nodes() *cobra.Command {
	reach := false
	cmd := &cobra.Command{
		Use: "nodes [NODE]", Short: "Show the nodes, or one", Args: atMost("NODE"),
		Long: "Show the nodes, or one by its name or incarnation. REACH says whether the node that you ask reaches each other node: reached, partitioned (it renews its lease in\n" +
			"the store and does not answer here), lost (neither), and others. WHY has the reason of a problem. docs/clustering.md lists them.\n" +
			"With --reach each live node says which others it reaches; with NODE, those lines that it is in.",
	}
	cmd.Flags().BoolVar(&reach, "reach", false, "which live node reaches which other, as each says itself")
	cmd.RunE = f.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		if reach {
			return f.showReach(ctx, c, args)
		}
		return f.showNodes(ctx, c, args)
	})
	return cmd
}

func noNode(name string) error {
	return fmt.Errorf("there is no node %q; `troupe nodes` lists them", name)
}

func (f fleet) showNodes(ctx context.Context, c *client.Client, args []string) error {
	var v api.NodeList
	if err := c.Get(ctx, "/api/v1/nodes", &v); err != nil {
		return err
	}
	if len(args) == 1 {
		v.Nodes = slices.DeleteFunc(v.Nodes, func(n view.Node) bool { return n.Name != args[0] && n.Incarnation.String() != args[0] })
		if len(v.Nodes) == 0 {
			return noNode(args[0])
		}
	}
	now := c.Now()
	rows := make([][]string, len(v.Nodes))
	for i, n := range v.Nodes {
		state := string(n.State)
		if n.Cordoned {
			state += ", cordoned"
		}
		rows[i] = []string{
			n.Name, n.Incarnation.String(), state, n.Version, ago(n.StartedAt, now), ago(n.BeatAt, now), n.Address, n.Reach, clipTo(whyNot(n.Reach, n.Why), f.room(100)),
		}
	}
	return f.show(v, []string{"NODE", "INCARNATION", "STATE", "VERSION", "STARTED", "BEAT", "ADDRESS", "REACH", "WHY"}, rows)
}

// whyNot is the reason of a problem with a connection; what is reached has none.
func whyNot(reach, why string) string {
	if reach == membership.Reached.String() {
		return ""
	}
	return why
}

func (f fleet) showReach(ctx context.Context, c *client.Client, args []string) error {
	var v api.ReachList
	if err := c.Get(ctx, "/api/v1/reach", &v); err != nil {
		return err
	}
	is := func(name string, inc messages.Incarnation) bool {
		return len(args) == 0 || name == args[0] || inc.String() == args[0]
	}
	var rows [][]string
	known := false
	for i := range v.Nodes {
		n := &v.Nodes[i]
		from := is(n.Node, n.Incarnation)
		known = known || from
		n.Others = slices.DeleteFunc(n.Others, func(s view.Sight) bool { return !from && !is(s.Node, s.Incarnation) })
		for _, s := range n.Others {
			known = true
			rows = append(rows, []string{n.Node, s.Node, s.Reach, clipTo(whyNot(s.Reach, s.Why), f.room(60))})
		}
	}
	for _, u := range v.Unreached {
		if known = known || is(u.Node, u.Incarnation); f.output != "json" {
			fmt.Fprintln(f.err, visible("troupe: "+u.Why+"; so it does not say whom it reaches"))
		}
	}
	if len(args) == 1 && !known {
		return noNode(args[0])
	}
	return f.show(v, []string{"FROM", "TO", "REACH", "WHY"}, rows)
}

func (f fleet) actions() *cobra.Command {
	return &cobra.Command{
		Use: "actions [REF]", Short: "Show the actions that the node serves, or one", Args: atMost("REF"),
		RunE: f.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			var v api.ActionList
			if err := c.Get(ctx, "/api/v1/actions", &v); err != nil {
				return err
			}
			if len(args) == 1 {
				v.Actions = slices.DeleteFunc(v.Actions, func(a api.ActionView) bool { return a.Ref != args[0] })
				if len(v.Actions) == 0 {
					return fmt.Errorf("there is no action %q; `troupe actions` lists them", args[0])
				}
			}
			rows := make([][]string, len(v.Actions))
			for i, action := range v.Actions {
				runs := action.Entrypoint
				if len(action.Command) > 0 {
					runs = strings.Join(action.Command, " ")
				}
				rows[i] = []string{action.Ref, action.Version, string(action.Runtime), action.Pool, clipTo(runs, 40), clipTo(action.Description, f.room(60))}
			}
			return f.show(v, []string{"ACTION", "VERSION", "RUNTIME", "POOL", "RUNS", "DESCRIPTION"}, rows)
		}),
	}
}
