package browser

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// When the node is gone, the overview greys all that it shows, and one banner says since when, also once the charts have asked in vain.
func TestTheLostOverviewIsGrey(t *testing.T) {
	apart(t)
	n := start(t)
	p := open(t, n, "/console/")
	p.shows(".verdict", "Nothing is wrong")
	p.until("charts", func() bool { return p.count(".charts svg, .charts canvas") > 0 })
	p.cutOff()
	n.kill()
	p.shows(".lost", "The node does not answer")
	p.until("all is grey", func() bool {
		return p.value(`[...document.querySelectorAll('main .verdict, main .facts, main .charts, main .tile, main .card')]
			.filter((e) => !getComputedStyle(e.closest('.stale') ?? e).filter.includes('grayscale')).length`) == "0"
	})
	p.until("the charts have asked in vain", func() bool {
		return p.value(`performance.getEntriesByType('resource').some((e) => e.name.includes('/api/v1/series') && e.responseStatus === 0)`) == "true"
	})
	p.until("one banner", func() bool { return p.count(".trouble") == 1 })
	p.looks("overview-lost")
}

// Once the node is gone, no page offers a command, whether it follows the stream or asks by itself. Each says why, also by its keys.
func TestALostNodeTakesNoCommands(t *testing.T) {
	apart(t)
	n := start(t)
	pages := map[string]*page{}
	for path, command := range map[string]string{"workers/n1/go/0": "Kill", "dead-letters?resolution=discarded": "Requeue…", "actions/core.echo": "Submit"} {
		pages[command] = open(t, n, "/console/"+path)
		pages[command].until(command+" can be pressed", func() bool { return pages[command].value(denied(command)) == "false" })
		pages[command].cutOff()
	}
	n.kill()
	for command, p := range pages {
		p.front()
		p.until(command+" cannot be pressed", func() bool { return p.value(denied(command)) == "true" })
		p.do(chromedp.Focus(button(command), chromedp.BySearch), chromedp.KeyEvent(kb.Enter))
		p.shows(".notices", "The node does not answer: what you see is from before")
		require.Zero(t, p.count("dialog[open]"))
		p.accessible(command + " without its node")
	}
}

// denied is whether a page says that its command cannot be done, as an expression; undefined: it has no such command.
func denied(command string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("main button")].filter((b) => b.innerText.trim() === %q).map((b) => b.getAttribute("aria-disabled") ?? "false")[0]`, command)
}

// Pages that were not open yet open while the node is away, say since when it is, and go on when it is back, without a reload.
func TestPagesOpenWhileTheNodeIsAway(t *testing.T) {
	apart(t)
	n := start(t)
	p := open(t, n, "/console/")
	p.shows(".verdict", "Nothing is wrong")
	p.until("the rest of the console is loaded", func() bool {
		return p.value(`performance.getEntriesByType('resource').some((e) => e.name.includes('/assets/ActionErrors'))`) == "true"
	})
	p.cutOff()
	n.args = []string{"--listen", strings.TrimPrefix(n.url, "http://")}
	n.kill()
	p.shows(".lost", "It last did at")
	since := p.value(`/It last did at [0-9:]+/.exec(document.querySelector('.lost').innerText)[0]`)
	for _, c := range []struct{ href, name string }{{"settings", "Settings"}, {"errors", "Errors"}, {"webhooks", "Webhooks"}, {"tree", "Tree"}, {"pools/go", "Pool go"}} {
		p.do(chromedp.Evaluate(`(() => { const a = document.createElement("a"); a.href = "`+c.href+`"; document.body.append(a); a.click(); a.remove() })()`, nil))
		p.shows("h1", c.name)
		p.shows(".trouble", "The node does not answer")
		require.NotContains(t, p.text("main"), "could not be loaded")
		require.Equal(t, 1, p.count(".trouble"), c.name)
		p.fits(c.name + " without its node")
		p.accessible(c.name + " without its node")
	}
	p.shows(".lost", since)
	require.NoError(t, n.begin())
	p.shows(".facts", "Restarts of workers")
	p.until("no banner", func() bool { return p.count(".trouble.lost") == 0 })
}

// Where the stream is broken and the node answers all else, commands can be given. A question that has no answer and is not asked again
// denies none either: nothing would tell that the node answers again.
func TestANodeThatAnswersTakesCommands(t *testing.T) {
	apart(t)
	n := start(t)
	e := submit(t, n, "core.fail", map[string]any{"message": "no"}, map[string]any{"wait_seconds": 10})
	broken := before(t, n, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	p := open(t, broken, "/console/executions/"+e.ID, "ERR_EMPTY_RESPONSE")
	p.until("Retry can be pressed, and the timeline is drawn", func() bool { return p.value(denied("Retry")) == "false" && p.count(".lanes svg") == 1 })
	p.do(chromedp.Evaluate(`(() => { const whole = fetch; window.cut = 0; window.fetch = (url, ...more) => /fleet\?at=/.test(url) ? (window.cut++, Promise.reject(new TypeError("no"))) : whole(url, ...more) })()`, nil))
	p.do(chromedp.Evaluate(`document.querySelector(".lanes svg").dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: 700, clientY: document.querySelector(".lanes svg").getBoundingClientRect().top + 40 }))`, nil))
	p.until("the state of the fleet was asked for in vain", func() bool { return p.value("window.cut > 0") == "true" })
	require.Equal(t, "false", p.value(denied("Retry")))
	p.visit("/console/workers/n1/go/0")
	p.shows(".lost", "trying again")
	p.shows(".lost", "Live updates are interrupted")
	p.until("Kill can be pressed", func() bool { return p.value(denied("Kill")) == "false" })
}
