package browser

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// On a phone the bar above a page has two lines: the name, the search and a menu, and the pages, of which the present one is in sight.
func TestTheBarOnAPhoneHasTwoLines(t *testing.T) {
	p := open(t, shared(t), "/console/settings")
	p.do(chromedp.EmulateViewport(360, 800))
	p.until("two lines", func() bool { return p.value("document.querySelector('.frame').offsetHeight <= 96") == "true" })
	p.visit("/console/executions")
	p.shows(".head", "Filters: none set")
	p.until("the commands of the page have a line", func() bool { return p.value("document.querySelector('.head').offsetHeight <= 80") == "true" })
	for _, path := range []string{"settings", "history", "dead-letters", "operations", "workers/n1/go/0", ""} {
		p.visit("/console/" + path)
		p.until("its name is in sight", func() bool {
			return p.value(`(() => {
				const [line, name] = ["nav", "nav [aria-current]"].map((s) => document.querySelector(s).getBoundingClientRect())
				return name.left >= line.left - 1 && name.right <= line.right + 1
			})()`) == "true"
		})
	}
	require.Zero(t, p.count(".looks select"))
	p.click("Menu")
	p.shows(".looks .pop", "local on n1")
	p.shows(".looks .pop", "Times are UTC")
	p.accessible("the menu")
	p.fits("the menu")
	p.picture("menu-360-light")
	p.do(chromedp.SetValue(".looks select", "dark"), chromedp.Click(".looks input"))
	p.until("it is dark", func() bool { return p.value("document.documentElement.dataset.theme") == "dark" })
	p.until("times are in UTC", func() bool { return !strings.Contains(p.text(".looks .pop"), "Times are") })
	p.do(chromedp.KeyEvent(kb.Escape))
	p.until("it is closed", func() bool { return p.count(".looks .pop") == 0 })
	require.Equal(t, "Menu", p.value("document.activeElement.innerText"))
	p.do(chromedp.Evaluate("localStorage.clear()", nil))
}

// The overview is at the base. Its name as a path leads there, with what the address has.
func TestTheOverviewHasOneAddress(t *testing.T) {
	p := open(t, shared(t), "/console/overview?from=-6h")
	p.shows("h1", "Overview")
	require.Equal(t, "/console/?from=-6h", p.value("location.pathname + location.search"))
	p.do(chromedp.Navigate(p.n.url+"/console/overviews"), chromedp.WaitReady("main"))
	p.shows("h1", "There is no such page")
}

// The key of the pause does what the button does, and nothing where there is none.
func TestTheKeyPausesWhatCanBePaused(t *testing.T) {
	p := open(t, shared(t), "/console/")
	p.shows(".fresh", "Pause")
	p.do(chromedp.KeyEvent("."))
	p.shows(".paused", "Paused since")
	p.do(chromedp.KeyEvent("."))
	p.until("it goes on", func() bool { return p.count(".paused") == 0 })
	p.visit("/console/nodes?to=2020-01-01T00:00:00Z")
	p.shows("h1", "Nodes")
	p.do(chromedp.KeyEvent("."), chromedp.KeyEvent("?"))
	p.shows("dialog.keys[open]", "Keys")
	require.Zero(t, p.count(".paused"))
	p.do(chromedp.KeyEvent(kb.Escape))
	p.visit("/console/tree?at=2020-01-01T00:00:00Z&from=2020-01-01T00:00:00Z&to=2020-01-01T01:00:00Z")
	p.shows(".scrubber button[aria-pressed=false]", "Play")
	p.do(chromedp.KeyEvent("."))
	p.shows(".scrubber button[aria-pressed=true]", "Pause")
	require.Zero(t, p.count(".paused"))
	p.do(chromedp.KeyEvent("."))
	p.shows(".scrubber button[aria-pressed=false]", "Play")
}

// What an address has and its page does not is said, on every page, and can be removed.
func TestEveryPageSaysWhatItDoesNotKnow(t *testing.T) {
	n := shared(t)
	e := submit(t, n, "core.noop", map[string]any{}, map[string]any{"session": "odd", "wait_seconds": 10})
	p := open(t, n, "/console/", "404")
	for _, path := range []string{
		"", "executions", "executions/" + e.ID, "errors", "pools", "pools/go", "pools?to=2020-01-01T00:00:00Z", "workers", "workers/n1/go/0", "workers?to=2020-01-01T00:00:00Z",
		"nodes", "nodes/n1", "tree", "sessions", "sessions/go/odd", "sessions?to=2020-01-01T00:00:00Z", "dead-letters", "webhooks", "actions", "actions/core.echo", "history",
		"changes", "changes/2020-01-01T00:00:00Z", "operations", "settings",
	} {
		also := "?"
		if strings.Contains(path, "?") {
			also = "&"
		}
		p.visit("/console/" + path + also + "colour=red&panel=odd")
		p.shows(".chip.wrong", "colour:red")
		p.shows(".chip.wrong", "panel:odd")
		p.do(chromedp.Click(`[aria-label="Remove colour:red"]`))
		p.until("one is left", func() bool { return p.count(".chip.wrong") == 1 })
		p.do(chromedp.Click(`[aria-label="Remove panel:odd"]`))
		p.until("none is left", func() bool { return p.count(".chip.wrong") == 0 })
		require.Equal(t, "/console/"+path, p.value("location.pathname + location.search"))
	}
	p.visit("/console/?from=yesterday")
	p.shows(".chip.wrong", "want a time, as 2030-01-31T08:00:00Z, or an age, as -6h")
	p.looks("address-wrong")
	p.visit("/console/errors?by=colour")
	p.shows(".chip.wrong", "want one of message, code, action, worker")
}

// From a thing of a list the keys lead to those beside it.
func TestKeysLeadToWhatIsBesideInAnyList(t *testing.T) {
	p := open(t, shared(t), "/console/workers?pool=python&order=id")
	p.shows("tbody", "n1/python/1")
	p.do(chromedp.KeyEvent("j"), chromedp.KeyEvent(kb.Enter))
	p.shows("h1", "n1/python/0")
	p.do(chromedp.KeyEvent("]"))
	p.shows("h1", "n1/python/1")
	p.do(chromedp.KeyEvent("["))
	p.shows("h1", "n1/python/0")
	p.visit("/console/pools")
	p.shows("tbody", "shell")
	p.do(chromedp.Evaluate(`document.querySelector('tbody a[href="pools/go"]').click()`, nil))
	p.shows("h1", "Pool go")
	p.do(chromedp.KeyEvent("]"))
	p.shows("h1", "Pool python")
}

// Every figure leads to the list behind it, with its filter.
func TestFiguresLeadToTheirLists(t *testing.T) {
	n := shared(t)
	submit(t, n, "core.fail", map[string]any{"message": "no", "code": "figures"}, map[string]any{"wait_seconds": 10})
	p := open(t, n, "/console/")
	p.shows(".facts", "Busy workers")
	p.until("all figures are links", func() bool {
		return p.value(`[...document.querySelectorAll(".facts dd")].filter((e) => /\d/.test(e.innerText) && !e.querySelector("a")).map((e) => e.innerText).join("; ")`) == ""
	})
	follows := func(href, title string, filters ...string) {
		t.Helper()
		p.do(chromedp.WaitReady(`main a[href="`+href+`"]`), chromedp.Evaluate(`document.querySelector('main a[href="`+href+`"]').click()`, nil))
		p.shows("h1", title)
		for _, f := range filters {
			p.shows(".chip:not(.wrong)", f)
		}
		require.Zero(t, p.count(".chip.wrong"))
	}
	follows("workers?state=busy", "Workers", "state:busy")
	p.visit("/console/pools")
	follows("workers?pool=python&state=ready", "Workers", "pool:python", "state:ready")
	p.visit("/console/errors?action=core.fail")
	p.shows(".errors", "figures")
	p.do(chromedp.Click(`//table[contains(@class,"errors")]//tr[contains(.,"figures")]//td[@data-l="Workers"]/a`, chromedp.BySearch))
	p.shows("h1", "Executions")
	p.shows(".chip", "error:figures")
	p.shows(".chip", "worker:n1/go/")
}

// A page keeps the places of what it has shown while the rest is loaded: what it shows does not move under a finger.
func TestPagesDoNotMoveWhileTheyLoad(t *testing.T) {
	n := shared(t)
	label := map[string]any{"labels": map[string]any{"test": "still"}, "session": "still", "wait_seconds": 10}
	e := submit(t, n, "core.fail", map[string]any{"message": "no", "code": "still"}, label)
	submit(t, n, "demo.stream", map[string]any{"text": "one two", "seconds": 0.01}, label)
	p := open(t, n, "/console/settings")
	for _, width := range []int64{1280, 360} {
		p.do(chromedp.EmulateViewport(width, 800))
		for _, path := range []string{
			"", "executions?label=test%3Dstill", "executions/" + e.ID, "errors", "pools", "pools/go", "workers?pool=python", "workers/n1/python/0", "nodes", "nodes/n1", "tree",
			"sessions", "sessions/go/still", "dead-letters", "webhooks", "actions", "actions/core.fail", "changes", "operations", "settings",
		} {
			p.visit("/console/" + path)
			p.until("it is loaded", func() bool { return p.count(".head h1") == 1 && p.count("main > .loading, main [aria-busy=true]") == 0 })
			var moved float64
			p.do(chromedp.Evaluate(`new Promise((done) => {
				let sum = 0
				new PerformanceObserver((list) => { for (const e of list.getEntries()) sum += e.value }).observe({ type: "layout-shift", buffered: true })
				requestAnimationFrame(() => setTimeout(() => done(sum)))
			})`, &moved, func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
			assert.Less(t, moved, 0.05, "%s at %d px: how much has moved, as browsers count it", path, width)
		}
	}
}

// What changes by itself is not spoken at each change: ages in banners, the time of a tree that plays, and how many actors there are.
func TestLiveRegionsSpeakSeldom(t *testing.T) {
	apart(t)
	n := start(t)
	p := open(t, n, "/console/tree")
	p.shows(".lead", "none in trouble")
	p.do(chromedp.Evaluate(`(() => {
		window.spoken = []
		new MutationObserver((list) => {
			for (const m of list) {
				const e = m.target.nodeType === 1 ? m.target : m.target.parentElement
				if (e.closest('[aria-hidden=true], [aria-live=off]')) continue
				const region = e.closest('[role=status], [role=alert], [aria-live]')
				if (region) spoken.push([performance.now(), region.className, region.innerText])
			}
		}).observe(document.body, { subtree: true, childList: true, characterData: true })
	})()`, nil))
	p.click("Play") // a second of it is many of the past
	times := map[string]bool{}
	p.until("it has played for some time", func() bool {
		times[p.text(".scrubber strong")] = true
		return len(times) > 6
	})
	p.cutOff()
	n.kill()
	p.shows(".trouble", "The node does not answer")
	seconds := func() string { return p.value("document.querySelector('.trouble')?.innerText ?? ''") }
	for range 4 {
		before := seconds()
		p.until("its age grows", func() bool { return seconds() != before })
	}
	require.Equal(t, "", p.value(`(() => { // the same region within five seconds
		const last = {}
		return spoken.filter(([at, of, text]) => { const soon = last[of] && text !== last[of][1] && at - last[of][0] < 4900; last[of] = [at, text]; return soon }).map((s) => s.join(" ")).join("; ")
	})()`))
}

// The page of a mark is found by its name, too: the address of the newest one has its time.
func TestAMarkIsFoundByItsName(t *testing.T) {
	n := shared(t)
	for range 2 {
		ask[map[string]any](t, n, http.MethodPost, "/api/v1/marks", map[string]any{"name": "deploy-1"})
	}
	p := open(t, n, "/console/changes/deploy-1")
	p.shows("h1", "deploy-1")
	p.shows("main", "the whole ledger")
	require.Regexp(t, `^/console/changes/\d{4}-\d\d-\d\dT`, p.value("decodeURIComponent(location.pathname)"))
	p.shows(".nearest", "These are all of the ten minutes")
	p.shows(".nearest .here", "mark")
	p.visit("/console/changes/deploy-2")
	p.shows("main", "no mark of this name is recorded")
}

// Back, reload and another tab show the same: filters, order, range, what is open, and the time of the tree.
func TestTheAddressIsTheWholeState(t *testing.T) {
	n := shared(t)
	e := submit(t, n, "core.fail", map[string]any{"message": "no", "code": "address"}, map[string]any{"labels": map[string]any{"test": "state"}, "wait_seconds": 10})
	wrote := submit(t, n, "demo.stream", map[string]any{"text": "one two", "seconds": 0.01}, map[string]any{"wait_seconds": 10})
	p := open(t, n, "/console/", "404")
	for _, c := range []struct{ address, selector, shows string }{
		{"executions?label=test%3Dstate&not.status=completed&order=oldest&from=-6h&panel=facets", ".facets-of-list[open]", "The only execution of the list"},
		{"executions?error=address&from=-6h", ".range", "Last 6 h"},
		{"executions?label=test%3Dstate&panel=none", ".facets-of-list:not([open])", "What the list has, counted"},
		{"executions?label=test%3Dstate", ".facets-of-list[open]", "The only execution of the list"},
		{"executions/" + wrote.ID + "?output=open,nowrap,times&find=two", ".written[open] .output:not(.wrap)", "stdout two"},
		{"pools/go?table=wait,workers", `[aria-label="Wait as a table"] th`, "From"},
		{"errors?error=address&by=code", "select", "error code"},
		{"workers?pool=python&order=id", "tbody tr:first-child", "n1/python/0"},
		{"history?kinds=node&what=joined&from=-1h", "tbody", "joined"},
		{"tree?from=-6h&at=2020-01-01T00:00:00Z", ".scrubber strong", "2020-01-01"},
		{"pools?from=-6h&to=2020-01-01T00:00:00Z", ".past", "The past: 2020-01-01"},
		{"pools/go?from=-6h", ".range", "Last 6 h"},
		{"nodes/n1?from=-6h", ".range", "Last 6 h"},
		{"workers/n1/go/0?from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z", "main", "Nothing is recorded of this time"},
		{"sessions/go/none?from=-6h", ".range", "Last 6 h"},
		{"?from=-24h", ".range", "Last 24 h"},
		{"executions/" + e.ID, ".card.bad", "address"},
	} {
		p.do(chromedp.Evaluate(`(() => { const a = document.createElement("a"); a.href = "`+c.address+`"; document.body.append(a); a.click(); a.remove() })()`, nil))
		if c.address[0] == '?' {
			p.visit("/console/" + c.address)
		}
		p.shows(c.selector, c.shows)
		at := p.value("location.pathname + location.search")
		require.Equal(t, "/console/"+c.address, at)
		p.do(chromedp.Reload())
		p.shows(c.selector, c.shows)
		p.do(chromedp.Evaluate(`(() => { const a = document.createElement("a"); a.href = "settings"; document.body.append(a); a.click(); a.remove() })()`, nil))
		p.shows("h1", "Settings")
		p.do(chromedp.NavigateBack())
		p.shows(c.selector, c.shows)
		require.Equal(t, at, p.value("location.pathname + location.search"))
		require.Zero(t, p.count(".chip.wrong"))
	}
}

// Links of the console lead to pages that there are, with filters that these have.
func TestLinksLeadToWhatThereIs(t *testing.T) {
	n := start(t)
	label := map[string]any{"labels": map[string]any{"team": "links"}, "session": "links", "wait_seconds": 10}
	e := submit(t, n, "core.fail", map[string]any{"message": "no", "code": "links"}, label)
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/executions/"+e.ID+"/retry", nil)
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/pools/shell/cordon", nil)
	submit(t, n, "core.shell_greet", map[string]any{"name": "ann"}, nil)
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/marks", map[string]any{"name": "links"})
	kind := regexp.MustCompile(`=[^&]*`) // links of one kind differ in their values
	p := open(t, n, "/console/")
	next, seen, wrong := []string{"executions/" + e.ID, "workers/n1/go/0", "sessions/go/links", "nodes/n1?from=-1h", "executions?panel=facets"}, map[string]bool{}, []string{}
	for page := ""; ; page, next = next[0], next[1:] {
		p.visit("/console/" + page)
		p.until("it is loaded", func() bool { return p.count("h1") == 1 && p.count("main > .loading, main [aria-busy=true]") == 0 })
		if p.count(".chip.wrong") > 0 || strings.Contains(p.text("h1"), "no such page") || strings.Contains(p.text(".trouble"), "refused") {
			wrong = append(wrong, page)
		}
		var links []string
		p.do(chromedp.Evaluate(`[...document.querySelectorAll("a[href]")].map((e) => [e.getAttribute("href"), new URL(e.getAttribute("href"), document.baseURI).pathname.split("/").slice(2, 3) + " " + e.getAttribute("href").replace(/[^?]*/, (path) => path.split("/").length)]).map((l) => l.join("\n"))`, &links))
		for _, link := range links {
			href, of, _ := strings.Cut(link, "\n")
			if of = kind.ReplaceAllString(of, ""); !seen[of] && !strings.HasPrefix(href, "#") && len(seen) < 90 {
				seen[of] = true
				next = append(next, strings.TrimPrefix(href, "./"))
			}
		}
		if len(next) == 0 {
			break
		}
	}
	require.Empty(t, wrong)
	require.Greater(t, len(seen), 40)
}
