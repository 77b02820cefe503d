package browser

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	cdp "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// calls is how often a page itself has asked the API for something.
const calls = `performance.getEntriesByType('resource').filter((e) => /api\/v1\/(overview|executions|journal|pools|nodes|workers)/.test(e.name)).length`

// metric is a number of the node.
func metric(t *testing.T, n *node, name string) string {
	t.Helper()
	answer, err := http.Get(n.url + "/metrics")
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// labelled submits an execution with a label by which a list finds it.
func labelled(t *testing.T, n *node, label string) execution {
	t.Helper()
	return submit(t, n, "core.noop", map[string]any{}, map[string]any{"labels": map[string]any{"test": label}})
}

// A page that the browser has kept is live again when somebody comes back to it.
func TestAPageFromTheBrowsersCacheIsLive(t *testing.T) {
	n := shared(t)
	p := open(t, n, "/console/executions?label=test%3Dkept")
	p.shows("main", "No execution has all of these filters")
	labelled(t, n, "kept")
	p.until("one row", func() bool { return p.count("tbody tr") == 1 })
	p.do(chromedp.Evaluate(`for (const kind of ["pagehide", "pageshow"]) dispatchEvent(new PageTransitionEvent(kind, {persisted: true}))`, nil))
	labelled(t, n, "kept")
	p.shows(".newer", "1 newer: show")
	p.do(chromedp.Evaluate("window.kept = true", nil))
	p.visit("/console/errors")
	p.do(chromedp.Evaluate("setTimeout(() => history.back())", nil))
	p.shows("h1", "Executions")
	if p.value("window.kept") != "true" {
		t.Skip("this browser has loaded the page anew")
	}
	labelled(t, n, "kept")
	p.shows(".newer", "2 newer: show")
}

// A row comes into an open list, and changes there, without a reload and without asking again.
func TestARowComesByItself(t *testing.T) {
	n := start(t)
	p := open(t, n, "/console/executions?label=test%3Dlive")
	p.shows("main", "No execution has all of these filters")
	slow := submit(t, n, "core.sleep", map[string]any{"seconds": 60}, map[string]any{"labels": map[string]any{"test": "live"}})
	p.shows("tbody", "running")
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/executions/"+slow.ID+"/cancel", nil)
	p.shows("tbody", "cancelled")
	require.Equal(t, slow.ID, p.value("document.querySelector('tbody a').title"))
	next := labelled(t, n, "live")
	p.shows(".newer", "1 newer: show")
	require.Equal(t, 1, p.count("tbody tr"), "rows do not jump")
	p.click("newer: show")
	p.until("two rows", func() bool { return p.count("tbody tr") == 2 })
	require.Equal(t, next.ID, p.value("document.querySelector('tbody a').title"))
	for _, path := range []string{"", "pools", "nodes", "workers", "history"} {
		p.do(chromedp.Evaluate(fmt.Sprintf("document.querySelector('nav a[href=%q]').click()", map[bool]string{true: "./", false: path}[path == ""]), nil))
		p.until("data on "+path, func() bool { return p.count("main table tbody tr, main .tile") > 0 })
	}
	require.Equal(t, "0", p.value(calls), "the page asks for nothing that it follows")
	require.Equal(t, "1", metric(t, n, "troupe_streams"))
}

// A row that no longer fits the filter stays where it is, and says what became of it.
func TestARowThatLeavesTheFilterIsNotLeftBehind(t *testing.T) {
	n := shared(t)
	e := submit(t, n, "core.sleep", map[string]any{"seconds": 60}, map[string]any{"labels": map[string]any{"test": "leaves"}})
	p := open(t, n, "/console/executions?label=test%3Dleaves&status=running")
	p.shows("tbody", "running")
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/executions/"+e.ID+"/cancel", nil)
	p.shows("tbody", "cancelled")
	require.Equal(t, e.ID, p.value("document.querySelector('tbody a').title"))
	require.NotContains(t, p.text("tbody"), "running")
}

// A node that is killed leaves the page as it was, greyed, with a banner that says how old it is. Once it is back, the page goes on
// without a reload.
func TestAPageGoesOnWhenItsNodeIsBack(t *testing.T) {
	n := start(t)
	labelled(t, n, "back")
	p := open(t, n, "/console/executions?label=test%3Dback")
	p.until("one row", func() bool { return p.count("tbody tr") == 1 })
	p.do(chromedp.Evaluate("window.kept = 1", nil))
	p.cutOff()
	n.kill()
	p.shows(".lost", "The node does not answer")
	p.shows(".lost", "ago")
	p.shows(".lost", "trying again")
	require.Equal(t, 1, p.count("table.stale"))
	require.Equal(t, 1, p.count("tbody tr"))
	require.Zero(t, p.count(".trouble:not(.lost)"), "it is said once")
	p.looks("away")
	n.args = []string{"--listen", strings.TrimPrefix(n.url, "http://")}
	require.NoError(t, n.begin())
	p.until("the banner is gone", func() bool { return p.count(".trouble") == 0 })
	labelled(t, n, "back")
	p.shows(".newer", "1 newer: show")
	require.Zero(t, p.count("table.stale"))
	require.Equal(t, "1", p.value("window.kept"), "the page was not loaded again")
}

// A browser has six connections to a node over HTTP/1.1. Ten tabs share one stream, so that each goes on, and asks what it wants beside it.
func TestTenTabsShareOneStream(t *testing.T) {
	n := start(t)
	labelled(t, n, "tabs")
	var tabs []*page
	for i := range 10 {
		p := open(t, n, "/console/executions?label=test%3Dtabs&limit="+fmt.Sprint(20+i%3))
		tabs = append(tabs, p)
	}
	for _, p := range tabs {
		p.until("a row in each tab", func() bool { return p.count("tbody tr") == 1 })
	}
	require.Equal(t, "1", metric(t, n, "troupe_streams"))
	labelled(t, n, "tabs")
	for _, p := range tabs {
		p.shows(".newer", "1 newer: show")
		p.do(chromedp.Click("tbody a.row"))
		p.shows("main", "core.noop")
		p.shows("main", "Timeline")
	}
}

// output is how often a page has asked for an execution's output by a request of its own.
const output = `performance.getEntriesByType('resource').filter((e) => e.name.includes('/output')).length`

// Ten tabs that each follow the output of another execution share one stream too, so that all ten go on over HTTP/1.1, and a request beside
// them is answered. None has a connection of its own. What each shows is what the run wrote, once and in its order.
func TestTenTabsFollowTenExecutions(t *testing.T) {
	n := start(t, "--config", configured(t, "pool: {python: 10}\nconsole: {payloads: show}\n"))
	numbers := func(tab int) string {
		var words []string
		for word := range 400 {
			words = append(words, fmt.Sprintf("w%d-%d", tab, word))
		}
		return strings.Join(words, " ")
	}
	var tabs []*page
	var runs []execution
	for i := range 10 {
		e := submit(t, n, "demo.stream", map[string]any{"text": numbers(i), "seconds": 0.3}, nil)
		p := open(t, n, "/console/settings")
		p.do(emulation.SetFocusEmulationEnabled(true)) // each is visible, as in a window of its own
		p.visit("/console/executions/" + e.ID)
		tabs, runs = append(tabs, p), append(runs, e)
	}
	written := func(p *page) []string { return strings.Fields(p.text(".output .stdout")) }
	var before []int
	for i, p := range tabs {
		p.shows(".output", fmt.Sprintf("w%d-0", i))
		require.Equal(t, "visible", p.value("document.visibilityState"))
		before = append(before, len(written(p)))
	}
	for i, p := range tabs {
		p.until("each goes on", func() bool { return len(written(p)) > before[i]+3 })
		p.shows(".head", "running")
		require.Equal(t, "0", p.value(output), "it has no connection of its own")
		require.Equal(t, "http/1.1", p.value(`performance.getEntriesByType('navigation')[0].nextHopProtocol`))
	}
	require.Equal(t, "1", metric(t, n, "troupe_streams"))
	for i, p := range tabs {
		seen := written(p)
		require.Equal(t, strings.Fields(numbers(i))[:len(seen)], seen, "nothing is lost or repeated, whenever other tabs came")
		require.NotContains(t, p.text("main"), "Only a part of it is kept")
	}
	for i, p := range tabs {
		ask[map[string]any](t, n, http.MethodPost, "/api/v1/executions/"+runs[i].ID+"/cancel", nil)
		p.shows(".head", "cancelled")
		p.until("what is stored", func() bool { return p.value(output) == "1" })
		p.shows(".output", fmt.Sprintf("w%d-%d", i, before[i]))
	}
	p := tabs[0]
	p.visit("/console/executions")
	p.until("all rows", func() bool { return p.count("tbody tr") == 10 })
}

// A second tab of the same execution, and one that comes back to it, have all that it wrote.
func TestTwoTabsFollowOneExecution(t *testing.T) {
	n := start(t, "--config", configured(t, "console: {payloads: show}\n"))
	var words []string
	for i := range 400 {
		words = append(words, fmt.Sprintf("w-%d", i))
	}
	e := submit(t, n, "demo.stream", map[string]any{"text": strings.Join(words, " "), "seconds": 0.2}, nil)
	all := func(p *page) {
		t.Helper()
		p.front()
		before := len(strings.Fields(p.text(".output .stdout")))
		p.until("it goes on", func() bool { return len(strings.Fields(p.text(".output .stdout"))) > before+2 })
		seen := strings.Fields(p.text(".output .stdout"))
		require.Equal(t, words[:len(seen)], seen)
		require.Equal(t, "0", p.value(output))
	}
	one := open(t, n, "/console/executions/"+e.ID)
	all(one)
	two := open(t, n, "/console/executions/"+e.ID)
	all(two)
	all(one)
	two.front() // one behind another draws nothing
	two.do(chromedp.Evaluate("document.querySelector('nav a[href=pools]').click()", nil))
	two.shows("h1", "Pools")
	two.do(chromedp.Evaluate("history.back()", nil))
	two.shows(".output", "w-0")
	all(two)
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/executions/"+e.ID+"/cancel", nil)
	one.front()
	one.shows(".head", "cancelled")
}

// Without shared workers a tab has a stream of its own, and leaves it some time after it is hidden.
func TestATabWithoutSharedWorkersHasItsOwnStream(t *testing.T) {
	n := start(t)
	labelled(t, n, "alone")
	p := open(t, n, "/console/settings")
	p.do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := cdp.AddScriptToEvaluateOnNewDocument(`delete globalThis.SharedWorker
			let hidden = false
			Object.defineProperty(document, 'hidden', { get: () => hidden })
			window.hide = (is) => { hidden = is; document.dispatchEvent(new Event('visibilitychange')) }
			const wait = setTimeout // thirty seconds are half a second here
			window.setTimeout = (f, ms, ...more) => wait(f, ms === 30000 ? 500 : ms, ...more)`).Do(ctx)
		return err
	}))
	p.visit("/console/executions?label=test%3Dalone")
	p.until("one row", func() bool { return p.count("tbody tr") == 1 })
	require.Equal(t, "undefined", p.value("typeof SharedWorker"))
	require.Equal(t, "1", metric(t, n, "troupe_streams"))
	p.do(chromedp.Evaluate("hide(true)", nil))
	p.until("no stream", func() bool { return metric(t, n, "troupe_streams") == "0" })
	labelled(t, n, "alone")
	p.do(chromedp.Evaluate("hide(false)", nil))
	p.shows(".newer", "1 newer: show")
}

// Where another version answers than the page is from, the page offers to load the new one, and keeps what it shows.
func TestAnotherVersionOffersAReload(t *testing.T) {
	apart(t)
	other := filepath.Join(t.TempDir(), "troupe")
	out, err := exec.Command("go", "build", "-ldflags", "-X main.version=9.9.9", "-o", other, "../../cmd/troupe").CombinedOutput()
	require.NoError(t, err, "%s", out)
	n := start(t)
	labelled(t, n, "version")
	p := open(t, n, "/console/executions?label=test%3Dversion")
	p.until("one row", func() bool { return p.count("tbody tr") == 1 })
	p.cutOff()
	n.kill()
	n.args, n.program = []string{"--listen", strings.TrimPrefix(n.url, "http://")}, other
	require.NoError(t, n.begin())
	p.shows(".build", "another version")
	require.Equal(t, 1, p.count("tbody tr"))
	p.accessible("another version")
	p.do(chromedp.Evaluate("window.kept = 1", nil))
	p.click("Reload")
	p.until("the page is loaded again", func() bool { return p.value("window.kept") == "undefined" })
	p.until("one row", func() bool { return p.count("tbody tr") == 1 })
	require.Zero(t, p.count(".build"))
}

// No other script than the console's own can become a worker.
func TestOnlyTheConsolesWorkerRuns(t *testing.T) {
	n := shared(t)
	p := open(t, n, "/console/", "TrustedScriptURL", "trusted-types", "TrustedTypePolicy")
	p.shows("h1", "Overview")
	for _, script := range []string{
		`new SharedWorker(location.origin + '/openapi.json')`, `new Worker('data:text/javascript,1')`,
		`trustedTypes.createPolicy('mine', { createScriptURL: (u) => u })`, `trustedTypes.createPolicy('troupe-worker', { createScriptURL: (u) => u })`,
	} {
		require.Equal(t, "TypeError", p.value(`(() => { try { `+script+`; return 'ran' } catch (e) { return e.name } })()`), script)
	}
}
