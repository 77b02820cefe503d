package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/operate/view"
)

// Bounds of a look: the executions that are read of what runs and of what waits, and those of them that are kept. Among what waits,
// pages that hold what is not due yet are passed.
const (
	topPage  = 1000
	topPages = 50
	topRows  = 25
	topTime  = 2 * time.Second // of the reading of those pages
	topLimit = 5 * time.Second // of one look
	topShare = 4               // they are read again after this many times as long as the reading took
)

// top is the verb that watches pools and executions.
type top struct{ *app }

func (t top) command() *cobra.Command {
	every := time.Second
	cmd := &cobra.Command{
		Use: "top", Short: "Watch pools and running executions", Args: exactly(),
		Long: "Watch the pools, the executions that have run for the longest, and those that have waited for the longest. Rows that do not\n" +
			"fit the screen are counted. WAITING counts the executions that are due and that no worker has yet, NOT DUE those with a later time\n" +
			"(submit --at, or a retry's delay). Such an execution is listed once it is due, and its wait begins then. Keys: q ends, p pauses. Without a terminal, and with\n" +
			"-o json, it prints one view and ends.",
	}
	cmd.Flags().DurationVar(&every, "every", every, "time between two refreshes, 200ms or more")
	cmd.RunE = t.withClient(func(ctx context.Context, c *client.Client, _ []string) error {
		m := topModel{ctx: ctx, client: c, every: max(every, 200*time.Millisecond), limit: topLimit, clock: time.Now}
		first := m.look()
		if first.err != nil {
			return first.err
		}
		if t.output == "json" {
			return t.printJSON(first)
		}
		if !t.screen {
			_, err := lipgloss.Fprintln(t.out, first.render(0, 0, false))
			return err
		}
		m.view = first
		_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(t.in), tea.WithOutput(t.out)).Run()
		return err
	})
	return cmd
}

// topView is one look at the node. As JSON it is what `top -o json` prints.
type topView struct {
	Server  string               `json:"server"`
	At      time.Time            `json:"at"`
	Ready   api.Readiness        `json:"readiness"`
	Pools   []view.Pool          `json:"pools"`
	Running []form.ExecutionView `json:"running"` // the longest first; topRows at most
	Waiting []form.ExecutionView `json:"waiting"` // likewise
	// Runs and Waits are how many there are in all; More: Waits is not the whole; Later: some of them are not due yet, which Waiting leaves out.
	Runs  int  `json:"runs"`
	Waits int  `json:"waits"`
	More  bool `json:"waits_more,omitempty"`
	Later bool `json:"waits_later,omitempty"`
	// Unreached are the nodes that did not answer; their workers are counted as the store has them.
	Unreached []view.Unreached `json:"unreached,omitempty"`
	err       error
	// ran and waited are the newest executions that Running and Waiting were chosen from; 0: all. What waits serves the looks before until.
	ran, waited int
	until       time.Time
}

type topModel struct {
	ctx    context.Context
	client *client.Client
	every  time.Duration
	limit  time.Duration // of one look
	view   topView
	paused bool
	width  int // of the terminal; 0: not known
	height int
	clock  func() time.Time // by which the reading of waiting executions is bounded
}

type topTick struct{}

// look asks the node. A node that does not answer is shown as such, and asked again.
func (m topModel) look() topView {
	ctx, cancel := context.WithTimeout(m.ctx, m.limit)
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
	if v.err = m.longestRuns(ctx, &v); v.err == nil {
		v.err = m.longestWaits(ctx, &v)
	}
	return v
}

// longestRuns finds the topRows executions that have run for the longest, of the topPage newest.
func (m topModel) longestRuns(ctx context.Context, v *topView) error {
	list, err := m.client.Executions(ctx, url.Values{"status": {"running,cancelling"}, "limit": {fmt.Sprint(topPage)}})
	if list.NextCursor != "" {
		v.ran = len(list.Executions)
	}
	v.Running = longest(list.Executions, func(e *form.ExecutionView) time.Time { return e.StartedAt })
	return err
}

// longestWaits finds the topRows executions that have waited for the longest, of the topPage newest that are due.
func (m topModel) longestWaits(ctx context.Context, v *topView) error {
	began := m.clock()
	if last := &m.view; began.Before(last.until) {
		v.Waiting, v.Later, v.waited, v.until = last.Waiting, last.Later, last.waited, last.until
		return nil
	}
	query := url.Values{"status": {"requested,scheduling,scheduled"}, "limit": {fmt.Sprint(topPage)}}
	var due []form.ExecutionView
	passed := 0
	for range topPages {
		list, err := m.client.Executions(ctx, query)
		if err != nil {
			return err
		}
		passed += len(list.Executions)
		due = append(due, slices.DeleteFunc(list.Executions, func(e form.ExecutionView) bool { return dueSince(&e).After(v.At) })...)
		v.waited = 0
		if list.NextCursor == "" {
			break
		}
		query.Set("cursor", list.NextCursor)
		v.waited = passed
		if len(due) >= topPage || m.clock().Sub(began) > topTime {
			break
		}
	}
	v.Later, v.Waiting = passed > len(due), longest(due, dueSince)
	if passed > topPage {
		ended := m.clock()
		v.until = ended.Add(topShare * ended.Sub(began))
	}
	return nil
}

// dueSince is from when on an execution waits for a worker.
func dueSince(v *form.ExecutionView) time.Time {
	e := v.Execution()
	return e.Due()
}

// longest are the topRows executions since the earliest moment.
func longest(all []form.ExecutionView, since func(*form.ExecutionView) time.Time) []form.ExecutionView {
	slices.SortStableFunc(all, func(x, y form.ExecutionView) int { return since(&x).Compare(since(&y)) })
	return all[:min(topRows, len(all))]
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
		head += visible("  not ready: " + strings.Join(v.Ready.WaitsFor, ", "))
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
		text += v.runTable("RUNS", v.Running[:running], width) + hidden(v.Runs-running, "", others("run", v.ran, len(v.Running) > 0, false))
	}
	more := ""
	if v.More {
		more = "+"
	}
	switch v.Waits = max(v.Waits, len(v.Waiting)); {
	case len(v.Waiting) > 0:
		text += "\n\n" + v.runTable("WAITS", v.Waiting[:waiting], width) + hidden(v.Waits-waiting, more, others("wait", v.waited, len(v.Waiting) > 0, v.Later))
	case v.Later:
		text += "\n" + hidden(v.Waits, more, others("wait", v.waited, len(v.Waiting) > 0, v.Later))
	}
	return fitWidth(text, width)
}

// shareLines divides lines among three tables: none gets more than it needs, each a third at least, and what one leaves the next may have.
func shareLines(lines, pools, running, waiting int) (int, int, int) {
	p := min(pools, max(lines/3, lines-running-waiting))
	w := min(waiting, max((lines-p)/2, lines-p-running))
	return p, min(running, max(0, lines-p-w)), w
}

// others says how those that are not shown stand to those that are: newest, if any, is how many were looked at of more, and later that
// some are not due.
func others(what string, newest int, shown, later bool) string {
	switch {
	case newest > 0:
		return fmt.Sprintf("%s; shown are the longest of the newest %d", what, newest)
	case later && !shown:
		return what + ", for their time alone"
	case later:
		return what + ", for less long or for their time"
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
	heads, rows := poolHeads, poolRows(v.Pools[:shown], reasonRoom)
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
func (v topView) runTable(what string, list []form.ExecutionView, width int) string {
	rows := make([][]string, len(list))
	for i, e := range list {
		since := e.StartedAt
		if what == "WAITS" {
			since = dueSince(&e)
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
