package browser

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// Where the range ends in the past, the lists of pools, workers and nodes show what was at its end, say so, and offer no commands. What
// was not recorded is unknown.
func TestListsOfThePast(t *testing.T) {
	apart(t)
	n := start(t)
	before := ""
	p := open(t, n, "/console/pools")
	p.shows("tbody", "Cordon")
	p.shows("#range", "Now")
	p.until("all its workers were ready two seconds ago, and the node had noted what waits", func() bool {
		before = ago(2 * time.Second)
		f := ask[fleet](t, n, http.MethodGet, "/api/v1/fleet?at="+before, nil)
		for _, pool := range f.Pools {
			if strings.Trim(pool.Slots, "r") != "" {
				return false
			}
		}
		noted := ask[map[string]any](t, n, http.MethodGet, "/api/v1/series?metric=waiting&by=pool&to="+before, nil)
		return len(f.Pools) == 3 && len(noted["series"].([]any)) == 3
	})
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/pools/shell/cordon", nil)
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/nodes/n1/cordon", nil)
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/workers/n1/go/3/kill", nil)
	p.visit("/console/workers?pool=go&order=id")
	row := `tr:has(a[href="workers/n1/go/3"])`
	p.until("the next generation", func() bool {
		return p.value(`document.querySelector('`+row+` td[data-l="Generation"]')?.innerText`) == "2"
	})

	past := "to=" + before
	p.visit("/console/workers?pool=go&order=id&" + past)
	p.shows(".past", "The past: ")
	p.shows(".past", "Commands are for what is there now")
	p.until("the generation of then", func() bool {
		return p.value(`document.querySelector('`+row+` td[data-l="Generation"]')?.innerText`) == "1"
	})
	require.Contains(t, p.text(row+` td[data-l="State"]`), "ready")
	require.Contains(t, p.text(row+` td[data-l="Heartbeat"]`), "unknown")
	require.NotContains(t, p.text("tbody"), "n1/python")
	p.looks("workers-past")

	p = open(t, n, "/console/pools?"+past)
	p.shows(".past", "The past: ")
	p.shows("tbody", "shell")
	require.NotContains(t, p.text("tbody"), "cordoned", "it was cordoned later")
	p.until("what the node noted as it started", func() bool {
		return p.value(`[...document.querySelectorAll('td[data-l="Waiting"], td[data-l="Running"]')].map((td) => td.innerText).join()`) == "0,0,0,0,0,0"
	})
	require.Contains(t, p.text(`td[data-l="Restarts"]`), "unknown")
	require.Contains(t, p.text(".note"), "as the nodes noted it at")
	require.Zero(t, p.count("td button"))
	p.looks("pools-past")
	p.contrasts("pools-past")

	p = open(t, n, "/console/nodes?"+past)
	p.shows("tbody", "active")
	require.NotContains(t, p.text("tbody"), "cordoned")
	require.Zero(t, p.count("td button"))
	p.looks("nodes-past")

	p = open(t, n, "/console/sessions?"+past)
	p.shows("main", "No list of the sessions of the past is kept")
	p.looks("sessions-past")
	p.do(chromedp.Click(`main a[href^="history?kinds=session"]`))
	p.shows("h1", "History")

	p = open(t, n, "/console/pools?to=2020-01-01T00:00:00Z")
	p.shows("main", "No pool was there, or nothing of it was recorded")
	p.shows("main", "which no node noted in the minutes before")
	p.shows("main", "Not all of this time is known")
	p.click("Now")
	p.shows("tbody", "cordoned")
	p.shows("tbody", "Uncordon")
	require.Empty(t, p.value("location.search"))
}

// The list of actions has the executions and failures of each in the chosen time, and leads to them.
func TestActionsHaveFiguresOfARange(t *testing.T) {
	apart(t)
	n := start(t)
	for range 3 {
		submit(t, n, "core.echo", map[string]any{}, map[string]any{"wait_seconds": 10})
	}
	submit(t, n, "core.fail", map[string]any{}, map[string]any{"wait_seconds": 10})
	p := open(t, n, "/console/actions")
	of := func(action, column string) string {
		return p.value(`document.querySelector('tr:has(a[href^="actions/` + action + `"]) td[data-l="` + column + `"]')?.innerText`)
	}
	p.until("the figures", func() bool {
		return of("core.echo", "Executions") == "3" && of("core.echo", "Failed") == "0" && of("core.fail", "Failed") == "1" && of("core.noop", "Executions") == "0"
	})
	p.looks("actions-figures")
	p.do(chromedp.Click(`tr:has(a[href^="actions/core.fail"]) td[data-l="Failed"] a`))
	p.shows("h1", "Executions")
	p.until("the one that failed", func() bool { return p.count("tbody tr") == 1 })
	p.visit("/console/actions?from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z")
	p.until("none of then", func() bool {
		return of("core.echo", "Executions") != "3" && of("core.echo", "Executions") != "undefined"
	})
	require.NotEqual(t, "3", of("core.echo", "Executions"))
}
