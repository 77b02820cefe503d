package browser

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	cdp "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// worked makes a node that has something to show: executions that ended well and badly, and a mark.
func worked(t *testing.T) *node {
	t.Helper()
	n := start(t)
	for i := range 4 {
		submit(t, n, "core.echo", map[string]any{"n": i}, map[string]any{"wait_seconds": 10})
	}
	submit(t, n, "core.fail", map[string]any{"message": "bad", "code": "bad"}, map[string]any{"wait_seconds": 10})
	submit(t, n, "core.sleep", map[string]any{"seconds": 0.2}, map[string]any{"wait_seconds": 10})
	ask[map[string]any](t, n, "POST", "/api/v1/marks", map[string]any{"name": "deploy <b>1.4.2</b>"})
	return n
}

// counted waits until the charts have counts, which nodes write every ten seconds.
func (p *page) counted(what string) {
	p.t.Helper()
	p.until("the charts show "+what, func() bool { return strings.Contains(strings.Join(strings.Fields(p.text(".legend")), " "), what) })
}

// Question 8 and the rates of the others: what came in and went out over time, each figure with the list behind it.
func TestChartsShowTheChosenTime(t *testing.T) {
	n := worked(t)
	p := open(t, n, "/console/")
	p.counted("completed 5")
	p.counted("failed 1")
	p.counted("submitted 6")
	p.counted("p95 up to ≈ ")
	p.shows(".marks", "2 marks on the axis") // the node's start, and the deployment
	require.Equal(t, 4, p.count(".plot canvas"))
	p.do(chromedp.Evaluate(`document.querySelectorAll('.chart details').forEach((d) => { d.open = true })`, nil))
	p.shows(".chart table", "≈ ")
	p.looks("overview-charts")
	p.do(chromedp.ScrollIntoView(".charts"))
	p.picture("overview-charts-below")
	p.do(chromedp.Click(`//section[@aria-label='Outcomes']//td[3]//a`, chromedp.BySearch))
	p.shows("h1", "Errors")
	p.shows("tbody", "bad")
	require.Contains(t, p.value("location.search"), "status=failed&from=")

	// A point of any outcome leads to what ended then.
	p.do(chromedp.NavigateBack())
	const good = `//section[@aria-label='Outcomes']//td[2]//a`
	p.do(chromedp.Evaluate(`document.querySelectorAll('.chart details').forEach((d) => { d.open = true })`, nil), chromedp.WaitVisible(good, chromedp.BySearch))
	ended := p.value(`document.querySelector("[aria-label='Outcomes'] td:nth-child(2) a").innerText`)
	p.do(chromedp.Click(good, chromedp.BySearch))
	p.shows("h1", "Executions")
	require.Contains(t, p.value("location.search"), "status=completed&ended_from=")
	p.until("as many rows as the point says", func() bool { return strconv.Itoa(p.count("tbody tr")) == ended })

	// A drag over a chart chooses a range, which stands in the address.
	p.visit("/console/actions/core.echo?from=-6h")
	p.counted("completed 4")
	require.NotContains(t, p.text(".legend"), "failed")
	p.looks("action-charts")
	p.do(chromedp.ScrollIntoView(".plot"))
	left, top := p.place(".plot .u-over")
	p.do(input.DispatchMouseEvent(input.MousePressed, left+20, top+40).WithButton(input.Left).WithClickCount(1),
		input.DispatchMouseEvent(input.MouseMoved, left+120, top+40).WithButton(input.Left),
		input.DispatchMouseEvent(input.MouseReleased, left+120, top+40).WithButton(input.Left).WithClickCount(1))
	p.until("a range", func() bool { return strings.Contains(p.value("location.search"), "&to=") })
	p.shows("#range", " to ")
	p.counted("Nothing in this time")
	p.looks("action-charts-nothing")

	// A pool has its workers too.
	p.visit("/console/pools/shell?from=-6h")
	p.counted("ready up to ")
	p.counted("waiting up to 0")
	require.Equal(t, 6, p.count(".plot canvas"))
	p.looks("pool-charts")
}

// Charts have their places from the beginning: what comes late, or early, moves nothing.
func TestChartsStayInTheirPlaces(t *testing.T) {
	n := worked(t)
	p := open(t, n, "/console/nowhere", "404")
	p.do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := cdp.AddScriptToEvaluateOnNewDocument(`{
			const fetched = window.fetch
			let go
			const held = new Promise((done) => { go = done })
			window.letGo = () => go()
			window.fetch = async (url, ...more) => { if (/series.*by=status/.test(url)) await held; return fetched(url, ...more) }
		}`).Do(ctx)
		return err
	}))
	p.visit("/console/")
	titles := func() string { // without the age beside each
		return p.value("[...document.querySelectorAll('.charts h2')].map((e) => e.firstChild.textContent.trim()).join(' ')")
	}
	p.until("what came early", func() bool { return p.count(".plot canvas") == 2 })
	require.Equal(t, "Outcomes In and out Wait Run", titles())
	require.Equal(t, 2, p.count(".charts [aria-busy=true]"))
	const wait = ".charts > section:nth-of-type(3)"
	x, y := p.place(wait)
	p.do(chromedp.Evaluate("letGo()", nil))
	p.until("what came late", func() bool { return p.count(".plot canvas") == 4 })
	require.Equal(t, "Outcomes In and out Wait Run", titles())
	newX, newY := p.place(wait)
	require.InDeltaSlice(t, []float64{x, y}, []float64{newX, newY}, 1, "in pixels")
}

// place is where an element begins.
func (p *page) place(selector string) (x, y float64) {
	p.t.Helper()
	var at []float64
	p.do(chromedp.Evaluate(fmt.Sprintf("(({x, y}) => [x, y])(document.querySelector(%q).getBoundingClientRect())", selector), &at))
	return at[0], at[1]
}

// The range stands in the address. A copied link has times in its place, and what is no time becomes a red chip.
func TestTheRangeIsPartOfTheAddress(t *testing.T) {
	n := worked(t)
	p := open(t, n, "/console/executions")
	p.until("rows", func() bool { return p.count("tbody tr") == 6 })
	require.Equal(t, "All times", p.text("#range"))
	p.do(chromedp.KeyEvent("t"))
	p.shows(".range .pop", "Last 6 h")
	p.looks("range")
	p.click("Last 6 h")
	p.until("the address", func() bool { return p.value("location.search") == "?from=-6h" })
	p.shows("#range", "Last 6 h")
	p.until("rows", func() bool { return p.count("tbody tr") == 6 })
	require.Zero(t, p.count(".chip"), "the range is no chip")
	p.do(chromedp.Evaluate(`navigator.clipboard.writeText = async (text) => { window.copied = text }`, nil))
	p.click("Copy as…")
	p.do(chromedp.Click(`//button[.='Link']`, chromedp.BySearch))
	p.until("a copy", func() bool {
		return strings.Contains(p.value("window.copied"), "executions?from=20") && strings.Contains(p.value("window.copied"), "&to=20")
	})
	p.click("Copy as…")
	p.click("troupe command")
	p.until("a command", func() bool { return strings.HasPrefix(p.value("window.copied"), "troupe list --since 20") })
	p.visit("/console/executions?from=-6h&to=2020-01-31T08:00:00Z")
	p.shows("main", "No execution is of this time")
	p.shows("#range", "2020-01-31")
	// Without a beginning, label, list and link are of all times before the end, and the chart says which hour it has.
	p.visit("/console/executions?to=2035-01-31T08:00:00Z")
	p.until("rows", func() bool { return p.count("tbody tr") == 6 })
	p.shows("#range", "Until 2035-01-31")
	p.shows(".facets-of-list .chart h2", "Outcomes, 2035-01-31 ")
	require.Equal(t, p.value("location.href"), p.copied("Link"))
	for _, list := range []string{"webhooks", "operations", "history"} {
		p.visit("/console/" + list + "?to=2035-01-31T08:00:00Z")
		p.shows("#range", "Until 2035-01-31")
		require.Equal(t, p.value("location.href"), p.copied("Link"))
	}
	p.visit("/console/executions")
	p.shows(".facets-of-list .chart h2", "Outcomes, last 1 h")
	p.visit("/console/errors?from=yesterday")
	p.shows(".chip.wrong", "want a time")
	p.visit("/console/tree?from=yesterday") // what a page asks of the node beside its list has no wrong range either
	p.shows(".chip.wrong", "want a time")
	p.until("the events of the last hour", func() bool { return p.count(".scrubber svg rect") > 0 })
	require.Zero(t, p.count(".trouble"))
	for _, path := range []string{"", "history", "changes", "actions/core.echo"} {
		p.visit("/console/" + path + "?from=-24h")
		p.shows("#range", "Last 24 h")
	}
}

// Above the executions stands how many have each status, action and so on. Each value leads to its list.
func TestTheListIsCounted(t *testing.T) {
	n := worked(t)
	p := open(t, n, "/console/executions")
	p.until("rows", func() bool { return p.count("tbody tr") == 6 })
	p.shows(".facets-of-list[open]", "All 6 executions of the list")
	require.Equal(t, "", p.value("location.search"))
	p.do(chromedp.Click(".facets-of-list summary"))
	p.until("it is closed", func() bool {
		return p.value("location.search") == "?panel=none" && p.count(".facets-of-list[open]") == 0
	})
	p.do(chromedp.Click(".facets-of-list summary"))
	p.shows(".facets-of-list[open]", "All 6 executions of the list")
	require.Equal(t, "", p.value("location.search"))
	p.counted("completed ")
	p.counted("failed 1")
	require.Zero(t, p.count(".chip"))
	p.looks("executions-facets")
	p.rests(`//details//a[.='failed']`)
	p.do(chromedp.Click(`//details//a[.='failed']`, chromedp.BySearch))
	p.shows(".facets-of-list", "The only execution of the list")
	p.until("its outcomes alone", func() bool {
		return !strings.Contains(p.text(".legend"), "completed") && strings.Contains(p.text(".legend"), "failed")
	})
	require.Equal(t, "?status=failed", p.value("location.search"))
	p.visit("/console/executions?panel=facets&pool=none&pool=go&action=core.echo&action=core.fail")
	p.until("the outcomes of both actions", func() bool {
		return strings.Contains(p.text(".legend"), "completed") && strings.Contains(p.text(".legend"), "failed")
	})
	p.visit("/console/executions?panel=facets&action=core.echo")
	p.shows(".facets-of-list", "All 4 executions of the list")

	// A worker's page has what it ran last.
	p.rests(`//details//li/a[starts-with(., 'n1/go/')]`)
	p.do(chromedp.Click(`//details//li/a[starts-with(., 'n1/go/')]`, chromedp.BySearch))
	p.until("its executions", func() bool { return p.value("new URLSearchParams(location.search).has('worker')") == "true" })
	p.visit("/console/workers/" + p.value("new URLSearchParams(location.search).get('worker')"))
	p.shows("main", "As its node remembers them")
	p.shows(".card", "core.echo")
	p.looks("worker-runs")
}

// The history says what is different in the chosen time from the same time before it, each figure with the list behind it.
func TestTheHistorySaysWhatIsDifferent(t *testing.T) {
	n := worked(t)
	p := open(t, n, "/console/history?from=-1h")
	p.until("what failed", func() bool { return strings.Contains(p.text(".different tbody"), "core.fail failed with bad") })
	p.shows(".different", "Last 1 h against the same time before")
	p.shows(".different", "nothing is recorded of the time before")
	require.Contains(t, p.text(".different tbody tr:first-child"), "core.fail failed with bad", "the weightiest first")
	p.until("the node's start and the mark", func() bool {
		return strings.Contains(p.text(".different tbody"), "node n1: joined") && strings.Contains(p.text(".different tbody"), "mark deploy <b>1.4.2</b>")
	})
	p.looks("history-different")
	p.do(chromedp.Evaluate(`navigator.clipboard.writeText = async (text) => { window.copied = text }`, nil),
		chromedp.Click(`//section[contains(@class, 'different')]//button[.='Copy as…']`, chromedp.BySearch),
		chromedp.Click(`//section[contains(@class, 'different')]//button[.='troupe command']`, chromedp.BySearch))
	p.until("a command", func() bool { return strings.HasPrefix(p.value("window.copied"), "troupe differences --since 20") })
	p.do(chromedp.Click(`//section[contains(@class, 'different')]//tr[contains(., 'core.fail failed')]//a`, chromedp.BySearch))
	p.shows("h1", "Errors")
	p.shows("tbody", "bad")
	require.Contains(t, p.value("location.search"), "error=bad")

	p.visit("/console/history?from=2020-01-31T08:00:00Z&to=2020-01-31T09:00:00Z")
	p.shows(".different", "Nothing that matters")
	p.looks("history-nothing-different")
}

// What was lost, and what failed and did not before, is of the range in the address.
func TestTheOverviewFollowsTheRange(t *testing.T) {
	n := worked(t)
	p := open(t, n, "/console/")
	p.shows(".failures", "core.fail")
	p.shows(".failures", "Last 1 h")
	p.shows(".lost", "1 failed")
	p.visit("/console/?from=-6h")
	p.shows(".failures", "Last 6 h")
	p.shows(".failures", "core.fail")
	p.shows(".lost", "1 failed")
	p.looks("overview-6h")
	p.do(chromedp.Click(`//section[contains(@class, 'failures')]//td/a[.='core.fail']`, chromedp.BySearch))
	p.shows("h1", "Errors")
	require.Equal(t, "-6h", p.value("new URLSearchParams(location.search).get('from')"))
	p.visit("/console/?from=2020-01-31T08:00:00Z&to=2020-01-31T09:00:00Z")
	p.shows(".lost", "nothing")
	p.until("the failures of another time are gone", func() bool { return p.count(".failures") == 0 })
	p.shows(".facts", "Submitted") // what is of now stays
}

// The history has what befell workers, with the cause, and finds it by what happened. A reload is a mark of the charts.
func TestTheHistoryHasWorkersAndReloads(t *testing.T) {
	n := worked(t)
	ask[map[string]any](t, n, "POST", "/api/v1/workers/n1/go/0/kill", map[string]any{"reason": "a test"})
	ask[map[string]any](t, n, "POST", "/api/v1/reload", map[string]any{"reason": "new packs"})
	p := open(t, n, "/console/history?kinds=worker")
	p.until("the worker's end", func() bool {
		return strings.Contains(p.text("tbody"), "n1/go/0") && strings.Contains(p.text("tbody"), "ended: terminate")
	})
	p.looks("history-workers")
	p.visit("/console/history?what=reload,kill")
	p.shows("main .list tbody", "kill: a test")
	p.shows("main .list tbody", "reload: new packs")
	require.Equal(t, 2, p.count("main .list tbody tr"))
	p.visit("/console/history?what=Reload")
	p.shows(".chip.wrong", "want a word of the journal")
	p.visit("/console/?from=-1h")
	p.until("the reload's mark", func() bool { return strings.Contains(p.text(".marks"), "3 marks") })
	p.do(chromedp.Click(".marks summary"), chromedp.Click(`//details[contains(@class, 'marks')]//a[contains(., 'node n1 reloaded')]`, chromedp.BySearch))
	p.shows("h1", "Node n1 reloaded")
	p.visit("/console/changes")
	p.shows("main", "reload: new packs")
}
