package browser

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// Every page has its place, shows what the node answers, fits every width, and is the same after a reload.
func TestEveryPageShowsItsPart(t *testing.T) {
	n := shared(t)
	submit(t, n, "core.echo", map[string]any{}, map[string]any{"session": "u-42", "wait_seconds": 10})
	p := open(t, n, "/console/")
	for _, page := range []struct{ path, name, shows string }{
		{"pools", "Pools", "python"},
		{"workers?pool=python", "Workers", "n1/python/0"},
		{"workers/n1/python/0", "n1/python/0", "init_complete"},
		{"nodes", "Nodes", "active"},
		{"sessions", "Sessions", "u-42"},
		{"sessions?q=u-4", "Sessions", "u-42"},
		{"sessions?q=u-43", "Sessions", "No session has all of these filters"},
		{"dead-letters", "Dead letters", "No dead letters"},
		{"actions", "Actions", "core.echo"},
		{"actions/core.fail", "core.fail", "retriable"},
		{"pools/python", "Pool python", "2 ready"},
		{"pools/go", "Pool go", "direct"},
		{"sessions/go/u-42", "Session u-42", "core.echo"},
		{"nodes/n1", "Node n1", "joined"},
		{"changes/yesterday", "Change", "is no time"},
		{"history?kinds=session", "History", "u-42"},
		{"settings", "Settings", "store sqlite"},
	} {
		p.visit("/console/" + page.path)
		p.shows("h1", page.name)
		p.shows("main", page.shows)
		p.looks(strings.NewReplacer("/", "-", "?", "-", "=", "-").Replace(page.path))
		p.contrasts(page.path)
		require.Equal(t, "/console/"+page.path, p.value("location.pathname + location.search"))
	}
}

// An administrator sees what the node is configured with, and from where.
func TestSettingsShowTheConfiguration(t *testing.T) {
	p := open(t, shared(t), "/console/settings")
	p.shows("details summary", "keys are set")
	p.do(chromedp.Click("details summary"))
	p.shows(".configuration", "flag --listen")
	p.shows(".configuration", "console.payloads")
	p.looks("settings-configuration")
}

// An action is submitted by the form that its schema makes.
func TestAnActionIsSubmittedByItsForm(t *testing.T) {
	n := shared(t)
	p := open(t, n, "/console/actions/core.fail", "422")
	p.shows("form", "retriable")
	p.do(chromedp.SendKeys("#p-code", "NOT A CODE"+kb.Enter))
	p.shows("dialog[open]", "Submit core.fail?") // it is not idempotent
	p.answers("Submit it")
	p.shows(".wrong", "code")
	p.do(chromedp.Evaluate("document.querySelector('#p-code').select()", nil), chromedp.SendKeys("#p-code", "by_form"), chromedp.SendKeys("#p-message", "as asked"+kb.Enter))
	p.shows("dialog[open]", "Submit core.fail?")
	p.answers("Submit it")
	p.until("the execution's page", func() bool { return strings.Contains(p.value("location.pathname"), "/executions/") })
	p.shows(".card.bad", "by_form")
	p.shows(".card.bad", "as asked")
}

// The page of an action asks for that action alone. One that the node does not serve is told as such.
func TestAnActionThatIsNotServed(t *testing.T) {
	p := open(t, shared(t), "/console/actions/core.nope", "404")
	p.shows("main .empty", "This node serves no action core.nope")
	p.visit("/console/actions/core.echo")
	p.shows("main .facts", "core")
}

// An action's page has what its executions failed with, in the range of the page, and leads to them.
func TestAnActionShowsItsErrors(t *testing.T) {
	n := shared(t)
	submit(t, n, "core.fail", map[string]any{"code": "no_ink", "message": "tray 3 is empty"}, map[string]any{"wait_seconds": 10})
	p := open(t, n, "/console/actions/core.fail")
	p.shows(".errors", "no_ink")
	p.shows(".errors", "tray ‹n› is empty")
	p.looks("action-errors")
	p.visit("/console/actions/core.fail?from=2020-01-01T00:00:00Z&to=2020-01-02T00:00:00Z")
	p.shows("main", "None of its executions failed")
	p.visit("/console/actions/core.fail")
	row := `//table[contains(@class,"errors")]//tr[contains(.,"no_ink")]//td[1]/a`
	p.rests(row)
	p.do(chromedp.Click(row, chromedp.BySearch))
	p.shows("h1", "Executions")
	p.shows("tbody", "core.fail")
	require.Equal(t, "no_ink", p.value("new URLSearchParams(location.search).get('error')"))
	p.shows(".chip", "ended_from:20")
}

// A dead letter has a page. One that is gone is told as such.
func TestADeadLetterThatIsGone(t *testing.T) {
	p := open(t, shared(t), "/console/dead-letters/7", "404")
	p.shows(".trouble", "dead letter 7 is not known here")
	p.looks("dead-letter-gone")
}

// Question 8, "Do we keep up?": what waits in a pool, why, and when it is done.
func TestAPoolSaysWhatWaits(t *testing.T) {
	n := start(t)
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/pools/shell/cordon", nil)
	for range 3 {
		submit(t, n, "core.shell_greet", map[string]any{"name": "ann"}, nil)
	}
	p := open(t, n, "/console/pools")
	p.shows("tbody", "cordoned")
	p.do(chromedp.Click(`//a[.='shell']`, chromedp.BySearch))
	p.shows("h1", "Pool shell")
	p.shows(".card.why", "workers_cordoned")
	p.shows(".facts", "not at this rate")
	require.Equal(t, 1, p.count(`.card.why a[href="executions?pool=shell&status=requested"]`))
	require.Equal(t, 1, p.count(`.card.why a[href="executions?pool=shell&status=requested,scheduled"]`))
	p.shows(".cells", "4 ready")
	p.looks("pool-waiting")
	p.click("Uncordon")
	p.shows(".facts", "nothing waits")
	p.do(chromedp.Click(`.cells svg`))
	p.until("a worker's page", func() bool { return strings.HasPrefix(p.value("location.pathname"), "/console/workers/n1/shell/") })
}

// The history names nodes, leads to what each entry is about, and has the outcomes of its time below.
func TestTheHistoryLeadsToWhatItIsAbout(t *testing.T) {
	n := shared(t)
	submit(t, n, "core.echo", map[string]any{}, map[string]any{"session": "u-43", "wait_seconds": 10})
	p := open(t, n, "/console/history?kinds=session&subject=go/u-43")
	p.shows("tbody", "bound")
	p.shows("tbody tr:first-child td:last-child", "n1")
	p.shows(".chart h2", "Outcomes")
	require.Equal(t, 1, p.count(".chart"))
	p.looks("history-session")
	p.do(chromedp.Click(`//td/a[.="go/u-43"]`, chromedp.BySearch))
	p.shows("h1", "Session u-43")
	p.visit("/console/history?kinds=node")
	p.do(chromedp.WaitVisible(`//td/a[.="n1"]`, chromedp.BySearch), chromedp.Click(`//td/a[.="n1"]`, chromedp.BySearch))
	p.shows("h1", "Node n1")
}
