package main

import (
	"context"
	"fmt"
	"net/url"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/supervisor/api"
)

const topRows = 25

func (a *app) top() *cobra.Command {
	every := time.Second
	cmd := &cobra.Command{
		Use: "top", Short: "Watch pools and running executions", Args: exactly(),
		Long: "Watch pools and running executions. Keys: q ends, p pauses. Without a terminal, and with -o json, it prints one view and ends.",
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
			_, err := lipgloss.Fprintln(a.out, first.render())
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
	Running []api.ExecutionView `json:"running"` // topRows at most
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
}

type topTick struct{}

// look asks the node. A node that does not answer is shown as such, and asked again.
func (m topModel) look() topView {
	ctx, cancel := context.WithTimeout(m.ctx, 5*time.Second)
	defer cancel()
	v := topView{Server: m.client.Server(), At: time.Now()}
	var pools api.PoolList
	if v.err = m.client.Get(ctx, "/api/v1/pools", &pools); v.err != nil {
		return v
	}
	v.Pools, v.Unreached = pools.Pools, pools.Unreached
	if v.err = m.client.Get(ctx, "/readyz", &v.Ready); v.err != nil {
		return v
	}
	list, err := m.client.Executions(ctx, url.Values{"status": {"running,cancelling"}, "limit": {fmt.Sprint(topRows)}})
	v.Running, v.err = list.Executions, err
	return v
}

func (v topView) render() string {
	head := fmt.Sprintf("%s  %s", v.Server, v.At.Format(time.TimeOnly))
	if v.err != nil {
		return head + "\n\n" + visible(v.err.Error())
	}
	switch {
	case v.Ready.Draining:
		head += "  draining"
	case !v.Ready.Ready:
		head += fmt.Sprintf("  not ready: %v", v.Ready.WaitsFor)
	}
	for _, u := range v.Unreached {
		head += "  node " + visible(u.Node) + " does not answer"
	}
	rows := make([][]string, len(v.Running))
	for i, e := range v.Running {
		rows[i] = []string{e.ID.String(), e.ActionRef, e.Status.String(), string(e.Worker), ago(e.StartedAt, v.At), e.Session}
	}
	text := head + "\n\n" + renderTable(poolHeads, poolRows(v.Pools)) + "\n\n"
	if len(rows) == 0 {
		return text + "nothing runs"
	}
	return text + renderTable([]string{"EXECUTION", "ACTION", "STATUS", "WORKER", "RUNS", "SESSION"}, rows)
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
	text := m.view.render()
	if m.paused {
		text += "\n\npaused"
	}
	v := tea.NewView(text)
	v.AltScreen = true
	return v
}
