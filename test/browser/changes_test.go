package browser

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// Question 6, "Did the deploy lose something?": the mark of the deployment leads to a ledger that adds up.
func TestTheLedgerOfADeploymentAddsUp(t *testing.T) {
	n := start(t)
	p := open(t, n, "/console/changes")
	p.shows(".ledger", "nothing was requested")
	p.looks("changes-none")
	for range 3 {
		submit(t, n, "core.echo", map[string]any{}, map[string]any{"wait_seconds": 10})
	}
	submit(t, n, "core.fail", map[string]any{"message": "bad", "code": "bad"}, map[string]any{"wait_seconds": 10})
	long := submit(t, n, "core.sleep", map[string]any{"seconds": 30}, nil)
	ask[map[string]any](t, n, "POST", "/api/v1/marks", map[string]any{"name": "deploy <b>1.4.2</b>"})
	p.visit("/console/history?kind=mark") // until it is recorded
	p.shows("tbody", "deploy <b>1.4.2</b>")
	p.visit("/console/changes")
	p.shows("tbody", "deploy <b>1.4.2</b>")
	p.shows("tbody", "node") // its start
	p.do(chromedp.Click(`//tr[contains(., 'deploy')]//a`, chromedp.BySearch))
	p.shows("h1", "deploy <b>1.4.2</b>")
	p.shows(".verdict", "It adds up: of 5 accepted, 4 have ended, 1 is open, and none is missing.")
	p.shows("main", "core.fail")
	p.shows("main", "What happened around it")
	p.looks("change")
	p.do(chromedp.Click(`//a[.='the whole ledger']`, chromedp.BySearch))
	p.until("the time of the ledger", func() bool { return p.value("new URLSearchParams(location.search).has('from')") == "true" })
	p.shows(".verdict", "It adds up: of 5 accepted")
	p.looks("changes")
	p.do(chromedp.Click(`//dl//div[dt='completed']//a`, chromedp.BySearch))
	p.shows("h1", "Executions")
	p.until("its executions", func() bool { return p.count("tbody tr") == 3 })
	require.Equal(t, "completed", p.value("new URLSearchParams(location.search).get('status')"))
	ask[map[string]any](t, n, "POST", "/api/v1/executions/"+long.ID+"/cancel", nil)
}
