package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/client"
)

// Bounds of a look: the executions that are read of what runs and of what waits, and those of them that are kept.
const (
	topPage = 1000
	topRows = 25
)

func (a *app) top() *cobra.Command {
	every := time.Second
	cmd := &cobra.Command{
		Use: "top", Short: "Watch pools and running executions", Args: exactly(),
		Long: "Watch the pools, the executions that have run for the longest, and those that have waited for the longest. What does not fit\n" +
			"the screen is counted. Keys: q ends, p pauses. Without a terminal, and with -o json, it prints one view and ends.",
	}
	cmd.Flags().DurationVar(&every, "every", every, "time between two looks, 200ms or more")
	cmd.RunE = a.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
		m := topModel{ctx: ctx, client: c, every: max(every, 200*time.Millisecond)}
		first := m.look()
		if first.err != nil {
			return first.err
		}
		if a.output == "json" {
			return a.printJSON(first)
		}
		if !a.screen {
			_, err := lipgloss.Fprintln(a.out, first.render(0, 0, false))
			return err
		}
		m.view = first
		_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(a.in), tea.WithOutput(a.out)).Run()
		return err
	})
	return cmd
}

// topView is one look at the node. As JSON it is what `top -o json` prints.
type topView struct {
	Server  string              `json:"server"`
	At      time.Time           `json:"at"`
	Ready   api.Readiness       `json:"readiness"`
	Pools   []api.PoolView      `json:"pools"`
	Running []api.ExecutionView `json:"running"` // the longest first; topRows at most
	Waiting []api.ExecutionView `json:"waiting"` // likewise
	// Runs and Waits are how many there are in all; More: Waits is not the whole.
	Runs  int  `json:"runs"`
	Waits int  `json:"waits"`
	More  bool `json:"waits_more,omitempty"`
	// Unreached are the nodes that did not answer; their workers are counted as the store has them.
	Unreached []api.Unreached `json:"unreached,omitempty"`
	err       error
}

type topModel struct {
	ctx    context.Context
	client *client.Client
	every  time.Duration
	view   topView
	paused bool
	width  int // of the terminal; 0: not known
	height int
}

type topTick struct{}

// look asks the node. A node that does not answer is shown as such, and asked again.
func (m topModel) look() topView {
	ctx, cancel := context.WithTimeout(m.ctx, 5*time.Second)
	defer cancel()
	v := topView{Server: m.client.Server()}
	var pools api.PoolList
	v.err = m.client.Get(ctx, "/api/v1/pools", &pools)
	v.At = m.client.Now()
	if v.err != nil {
		return v
	}
	v.Pools, v.Unreached = pools.Pools, pools.Unreached
	if v.err = m.client.Get(ctx, "/readyz", &v.Ready); v.err != nil {
		return v
	}
	for i := range v.Pools {
		v.Runs, v.Waits = v.Runs+v.Pools[i].Running, v.Waits+v.Pools[i].Waiting+v.Pools[i].Placed
		v.More = v.More || v.Pools[i].More
	}
	if v.Running, v.err = m.longest(ctx, "running,cancelling", func(e *api.ExecutionView) time.Time { return e.StartedAt }); v.err != nil {
		return v
	}
	v.Waiting, v.err = m.longest(ctx, "requested,scheduling,scheduled", func(e *api.ExecutionView) time.Time { return e.RequestedAt })
	return v
}

// longest are the topRows executions in these states since the earliest moment, of the topPage newest.
func (m topModel) longest(ctx context.Context, states string, since func(*api.ExecutionView) time.Time) ([]api.ExecutionView, error) {
	list, err := m.client.Executions(ctx, url.Values{"status": {states}, "limit": {fmt.Sprint(topPage)}})
	if err != nil {
		return nil, err
	}
	all := list.Executions
	slices.SortStableFunc(all, func(x, y api.ExecutionView) int { return since(&x).Compare(since(&y)) })
	return all[:min(topRows, len(all))], nil
}

// head is the first line.
func (v topView) head(paused bool) string {
	head := fmt.Sprintf("%s  %s", visible(v.Server), v.At.Local().Format("15:04:05Z07:00"))
	if paused {
		head = "PAUSED (p goes on)  " + head
	}
	switch {
	case v.err != nil:
	case v.Ready.Draining:
		head += "  draining"
	case !v.Ready.Ready:
		head += visible(fmt.Sprintf("  not ready: %v", v.Ready.WaitsFor))
	}
	for _, u := range v.Unreached {
		head += "  node " + visible(u.Node) + " does not answer"
	}
	return head
}

// topFrame is how many lines of the screen hold neither a pool nor an execution: the head, three empty lines and three heads of tables, and three
// lines that count what is hidden.
const topFrame = 10

// render is the view for a terminal of that size; 0: as large as it takes.
func (v topView) render(width, height int, paused bool) string {
	head := v.head(paused)
	if v.err != nil {
		return fitWidth(head+"\n\n"+visible(v.err.Error()), width)
	}
	pools, running, waiting := len(v.Pools), len(v.Running), len(v.Waiting)
	if height > 0 {
		pools, running, waiting = shareLines(max(height-topFrame, 3), pools, running, waiting)
	}
	text := head + "\n\n" + v.poolTable(pools, width) + "\n\n"
	if v.Runs = max(v.Runs, len(v.Running)); len(v.Running) == 0 {
		text += "nothing runs"
	} else {
		text += v.runTable("RUNS", v.Running[:running], width) + hidden(v.Runs-running, "", others("run", len(v.Running)))
	}
	if v.Waits = max(v.Waits, len(v.Waiting)); len(v.Waiting) > 0 {
		more := ""
		if v.More {
			more = "+"
		}
		text += "\n\n" + v.runTable("WAITS", v.Waiting[:waiting], width) + hidden(v.Waits-waiting, more, others("wait", len(v.Waiting)))
	}
	return fitWidth(text, width)
}

// shareLines divides lines among three tables: none gets more than it needs, each a third at least, and what one leaves the next may have.
func shareLines(lines, pools, running, waiting int) (int, int, int) {
	p := min(pools, max(lines/3, lines-running-waiting))
	w := min(waiting, max((lines-p)/2, lines-p-running))
	return p, min(running, max(0, lines-p-w)), w
}

// others says how those that are not shown stand to those that are: only a page of the newest is looked at.
func others(what string, seen int) string {
	if seen >= topPage {
		return fmt.Sprintf("%s; shown are the longest of the newest %d", what, seen)
	}
	return what + ", for less long"
}

// hidden says how many are not shown.
func hidden(n int, more, what string) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("\n… and %d%s more %s", n, more, what)
}

// fitWidth cuts the lines that are longer than the screen is wide.
func fitWidth(text string, width int) string {
	if width <= 0 {
		return text
	}
	return lipgloss.NewStyle().MaxWidth(width).Render(text)
}

// topNarrow is the width below which tables leave out what matters least.
const topNarrow = 120

// topAction is how much of an action's name stands in a narrow table: its worker has room beside it.
const topAction = 14

func (v topView) poolTable(shown, width int) string {
	heads, rows := poolHeads, poolRows(v.Pools[:shown])
	if width > 0 && width < topNarrow {
		heads, rows = columns(heads, rows, "POOL", "STATE", "WORKERS", "READY", "BUSY", "WAITING", "PLACED", "REASON")
	}
	return renderTable(heads, rows) + hidden(len(v.Pools)-shown, "", "pools")
}

// columns keeps the named columns of a table.
func columns(heads []string, rows [][]string, names ...string) ([]string, [][]string) {
	kept := make([][]string, len(rows))
	for _, name := range names {
		at := slices.Index(heads, name)
		for i := range rows {
			kept[i] = append(kept[i], rows[i][at])
		}
	}
	return names, kept
}

// runTable lists executions and how long they have run, or waited.
func (v topView) runTable(what string, list []api.ExecutionView, width int) string {
	rows := make([][]string, len(list))
	for i, e := range list {
		since := e.StartedAt
		if what == "WAITS" {
			since = e.RequestedAt
		}
		rows[i] = []string{e.ID.String(), e.ActionRef, e.Status.String(), string(e.Worker), ago(since, v.At), e.Session}
	}
	heads := []string{"EXECUTION", "ACTION", "STATUS", "WORKER", what, "SESSION"}
	if width > 0 && width < topNarrow {
		heads, rows = columns(heads, rows, "EXECUTION", what, "ACTION", "WORKER")
		for i := range rows {
			rows[i][2] = clipTo(rows[i][2], topAction)
		}
	}
	return renderTable(heads, rows)
}

func (m topModel) tick() tea.Cmd {
	return tea.Tick(m.every, func(time.Time) tea.Msg { return topTick{} })
}

// Init starts the looking.
func (m topModel) Init() tea.Cmd { return m.tick() }

// Update takes keys, ticks and what was seen.
func (m topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.KeyPressMsg:
		switch msg.String() {
		case "q", "ctrl+c", "esc":
			return m, tea.Quit
		case "p":
			m.paused = !m.paused
		}
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case topTick:
		if m.paused {
			return m, m.tick()
		}
		return m, func() tea.Msg { return m.look() }
	case topView:
		m.view = msg
		return m, m.tick()
	}
	return m, nil
}

// View is the whole screen.
func (m topModel) View() tea.View {
	text := m.view.render(m.width, m.height, m.paused)
	v := tea.NewView(text)
	v.AltScreen = true
	return v
}
