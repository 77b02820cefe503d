package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/store"
)

// sessions has the verbs for them.
type sessions struct{ *app }

func (s sessions) command() *cobra.Command {
	var pools, names []string
	var bound, unbound bool
	limit, without := 0, unwanted{}
	cmd := &cobra.Command{Use: "sessions", Short: "Show the sessions and where they are bound, or end one", Args: exactly()}
	cmd.AddCommand(s.get(), s.end(), s.state())
	cmd.Flags().StringArrayVar(&pools, "pool", nil, "only this pool; repeat it for one of several")
	cmd.Flags().StringArrayVar(&names, "name", nil, "only names that begin so; repeat it for several beginnings")
	cmd.Flags().BoolVar(&bound, "bound", false, "only sessions that are bound to a worker")
	cmd.Flags().BoolVar(&unbound, "unbound", false, "only sessions that are not bound")
	without.flags(cmd.Flags(), map[string]string{"pool": "pools"})
	without["q"] = cmd.Flags().StringArray("not-name", nil, "leave out names that begin so; repeat it for several")
	cmd.Flags().IntVarP(&limit, "limit", "n", 100, "how many, 1 to 1000")
	cmd.RunE = s.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
		query := url.Values{"limit": {fmt.Sprint(limit)}}
		for name, values := range map[string][]string{"pool": pools, "q": names} {
			if len(values) > 0 {
				query[name] = values
			}
		}
		for name, set := range map[string]bool{"bound": bound, "not.bound": unbound} {
			if set {
				query.Set(name, "1")
			}
		}
		without.ask(query)
		var v api.SessionList
		if err := c.Get(ctx, "/api/v1/sessions?"+query.Encode(), &v); err != nil {
			return err
		}
		var nodes api.NodeList
		if err := c.Get(ctx, "/api/v1/nodes", &nodes); err != nil {
			return err
		}
		if s.output == "json" {
			return s.printJSON(namedSessionList{Sessions: namedSessions(v.Sessions, nodes.Nodes), NextCursor: v.NextCursor})
		}
		rows := sessionRows(v.Sessions, nodes.Nodes, c.Now())
		if err := s.show(v, []string{"POOL", "SESSION", "WORKER", "EPOCH", "IDLE"}, rows); err != nil {
			return err
		}
		s.sayMore(len(rows), v.NextCursor != "")
		return nil
	})
	return cmd
}

// sessionPath is a session's path, of POOL/NAME. No pool's name holds a slash.
func sessionPath(arg string) (string, error) {
	pool, name, ok := strings.Cut(arg, "/")
	if !ok || pool == "" || name == "" {
		return "", usagef("%q must be POOL/NAME; `troupe sessions` lists them", arg)
	}
	return "/api/v1/sessions/" + url.PathEscape(pool) + "/" + url.PathEscape(name), nil
}

func (s sessions) get() *cobra.Command {
	return &cobra.Command{
		Use: "get POOL/NAME", Short: "Show one session: what runs and waits in it, and what happened to it", Args: exactly("POOL/NAME"),
		Long: "Show one session, its executions that have not ended, the oldest first (up to 200), and what happened to it, the newest first: its\n" +
			"bindings, why they ended, and its snapshots (up to 100).",
		RunE: s.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			path, err := sessionPath(args[0])
			if err != nil {
				return err
			}
			var v view.SessionDetail
			if err := c.Get(ctx, path, &v); err != nil {
				return err
			}
			var nodes api.NodeList
			if err := c.Get(ctx, "/api/v1/nodes", &nodes); err != nil {
				return err
			}
			if s.output == "json" {
				return s.printJSON(struct {
					namedSession
					Affinity    string                  `json:"affinity,omitempty"`
					Execution   messages.ExecutionID    `json:"execution,omitzero"`
					Queue       []view.SessionWork      `json:"queue"`
					QueueMore   bool                    `json:"queue_more,omitempty"`
					QueueSearch bool                    `json:"queue_unsearched,omitempty"`
					Journal     []messages.JournalEntry `json:"journal"`
					JournalMore bool                    `json:"journal_more,omitempty"`
				}{
					namedSessions([]store.Session{v.Session.Session}, nodes.Nodes)[0], v.Affinity, v.Execution,
					v.Queue, v.QueueMore, v.QueueSearch, v.Journal, v.JournalMore,
				})
			}
			row := sessionRows([]store.Session{v.Session.Session}, nodes.Nodes, c.Now())[0]
			runs := ""
			if !v.Execution.IsZero() {
				runs = v.Execution.String()
			}
			if err := s.show(v, []string{"POOL", "SESSION", "WORKER", "EPOCH", "IDLE", "EXECUTION"}, [][]string{append(row, runs)}); err != nil {
				return err
			}
			return s.showWork(&v, c.Now())
		}),
	}
}

// showWork shows what waits in a session and what happened to it.
func (s sessions) showWork(v *view.SessionDetail, now time.Time) error {
	rows := make([][]string, len(v.Queue))
	for i, e := range v.Queue {
		rows[i] = []string{idText(e.Execution), e.Action, e.Status.String(), fmt.Sprint(e.Priority), ago(e.RequestedAt, now), string(e.Worker)}
	}
	if len(rows) > 0 {
		fmt.Fprintln(s.out)
		if err := s.printTable([]string{"QUEUE", "ACTION", "STATUS", "PRIORITY", "AGE", "WORKER"}, rows); err != nil {
			return err
		}
	}
	switch {
	case v.QueueMore:
		fmt.Fprintln(s.out, "… and more behind them")
	case v.QueueSearch:
		fmt.Fprintln(s.out, "looked at as many executions as may be; older ones may wait, too")
	}
	rows = make([][]string, len(v.Journal))
	for i, e := range v.Journal {
		rows[i] = []string{clock(e.At), e.What, e.Reason, e.Caller}
	}
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(s.out)
	return s.printTable([]string{"AT", "WHAT", "REASON", "CALLER"}, rows)
}

func (s sessions) end() *cobra.Command {
	return s.reasoned(&cobra.Command{
		Use: "end POOL/NAME", Short: "End an idle session: its worker drops its state", Args: exactly("POOL/NAME"),
		Long: "End an idle session. Its binding ends, its worker's program drops its state, what is stored of it is deleted, and the\n" +
			"session's next execution starts with lost: true. A session with a placed or running execution is not ended.",
		RunE: s.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			path, err := sessionPath(args[0])
			if err != nil {
				return err
			}
			var v view.Session
			if err := c.Delete(ctx, path, s.why(), &v); err != nil {
				return err
			}
			if s.output == "json" {
				return s.printJSON(v)
			}
			_, err = fmt.Fprintln(s.out, visible("session "+args[0]+" has ended"))
			return err
		}),
	})
}

// state has the verbs for what is stored of a session's state.
func (s sessions) state() *cobra.Command {
	cmd := &cobra.Command{
		Use: "state", Short: "List the stored states that were set aside, export one, or drop it", Args: exactly(),
		Long: "A session's stored state is set aside when three workers in a row have ended while it was given back to them. The session goes on\n" +
			"without it: its next execution starts with lost: true, or fails with session_state_broken where it is strict_fail.",
		Example: "  troupe sessions state\n  troupe sessions state export models/alice > alice.json\n  troupe sessions state drop models/alice",
		RunE: s.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
			var v api.SessionStateList
			if err := c.Get(ctx, "/api/v1/session-states", &v); err != nil {
				return err
			}
			rows := make([][]string, len(v.States))
			for i, a := range v.States {
				rows[i] = []string{a.Pool, a.Session, fmt.Sprint(a.Epoch), fmt.Sprint(a.Runs), fmt.Sprint(a.Tries), string(a.Worker), clock(a.At)}
			}
			return s.show(v, []string{"POOL", "SESSION", "EPOCH", "RUNS", "ENDED", "LAST WORKER", "AT"}, rows)
		}),
	}
	cmd.AddCommand(&cobra.Command{
		Use: "export POOL/NAME", Short: "Print a session's stored state as JSON, the one that was set aside first", Args: exactly("POOL/NAME"),
		RunE: s.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			path, err := sessionPath(args[0])
			if err != nil {
				return err
			}
			var v view.SessionState
			if err := c.Get(ctx, statePath(path), &v); err != nil {
				return err
			}
			state := v.State
			if v.Aside != nil {
				state = v.Aside.State
			}
			_, err = fmt.Fprintln(s.out, unescaped(state))
			return err
		}),
	}, s.reasoned(&cobra.Command{
		Use: "drop POOL/NAME", Short: "Delete a session's stored state, also where it was set aside", Args: exactly("POOL/NAME"),
		RunE: s.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			path, err := sessionPath(args[0])
			if err != nil {
				return err
			}
			if err := c.Delete(ctx, statePath(path), s.why(), &struct{}{}); err != nil {
				return err
			}
			_, err = fmt.Fprintln(s.out, visible("the stored state of session "+args[0]+" is deleted"))
			return err
		}),
	}))
	return cmd
}

func statePath(session string) string {
	return strings.Replace(session, "/sessions/", "/session-states/", 1)
}

// namedSession is a session whose worker has the id that every other call takes. The key in the store stands beside it.
type namedSession struct {
	store.Session
	Worker    string             `json:"worker,omitempty"`
	WorkerKey messages.WorkerKey `json:"worker_key,omitzero"`
}

type namedSessionList struct {
	Sessions   []namedSession `json:"sessions"`
	NextCursor string         `json:"next_cursor,omitempty"`
}

// namedSessions writes each binding as the id of its worker, which holds the node's name where the row holds its incarnation.
func namedSessions(sessions []store.Session, nodes []view.Node) []namedSession {
	names := make(map[messages.Incarnation]string, len(nodes))
	for _, n := range nodes {
		names[n.Incarnation] = n.Name
	}
	list := make([]namedSession, len(sessions))
	for i, s := range sessions {
		list[i] = namedSession{Session: s, WorkerKey: s.Worker}
		if !s.Worker.IsZero() {
			list[i].Worker = fmt.Sprintf("%s/%s/%d", cmp.Or(names[s.Worker.Incarnation], "?"), s.Worker.Pool, s.Worker.Slot)
		}
	}
	return list
}

func sessionRows(sessions []store.Session, nodes []view.Node, now time.Time) [][]string {
	rows := make([][]string, len(sessions))
	for i, s := range namedSessions(sessions, nodes) {
		rows[i] = []string{s.Pool, s.Session.Session, s.Worker, fmt.Sprint(s.Epoch), ago(s.TouchedAt, now)}
	}
	return rows
}
