package browser

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// stands waits for some seconds of the page, and requires that it asked for nothing meanwhile and shows what it did. A part that had no
// answer yet at the pause asks for its first one, so the seconds begin once nothing was asked for half a second. The console's own files,
// which are loaded once, are no questions.
func (p *page) stands(seconds int) {
	p.t.Helper()
	since := p.value("performance.now()")
	p.until("nothing is asked", func() bool {
		return p.value(fmt.Sprintf("performance.now() - Math.max(%s, ...performance.getEntriesByType('resource').map((e) => e.startTime)) > 500", since)) == "true"
	})
	since = p.value("performance.now()")
	before := p.text("main")
	p.until("some seconds", func() bool { return p.value(fmt.Sprintf("performance.now() - %s > %d", since, 1000*seconds)) == "true" })
	require.Equal(p.t, before, p.text("main"))
	require.Equal(p.t, "", p.value(fmt.Sprintf(`performance.getEntriesByType('resource').filter((e) => e.startTime > %s && !e.name.includes('/console/assets/')).map((e) => e.name).join(' ')`, since)))
}

// Pause stops all that a page shows, whatever it is followed by: the output, the charts, the timeline, the reason why it waits. Going on
// loads anew.
func TestAPausedPageStandsStill(t *testing.T) {
	apart(t)
	n := start(t, "--config", configured(t, "console: {payloads: show}\n"))
	var words []string
	for i := range 400 {
		words = append(words, fmt.Sprintf("w-%d", i))
	}
	e := submit(t, n, "demo.stream", map[string]any{"text": strings.Join(words, " "), "seconds": 0.2}, nil)
	other := open(t, n, "/console/settings")
	other.do(emulation.SetFocusEmulationEnabled(true))
	other.visit("/console/executions/" + e.ID)
	p := open(t, n, "/console/executions/"+e.ID)
	p.shows(".output", "w-0")
	p.shows("main", "Timeline")
	p.do(chromedp.KeyEvent("."))
	p.shows(".paused", "Paused since ")
	p.shows(".paused", "Nothing on this page changes by itself")
	p.stands(3) // it writes meanwhile
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/executions/"+e.ID+"/cancel", nil)
	p.stands(7)
	p.shows(".head", "running")
	p.looks("execution-paused")
	other.shows(".head", "cancelled") // each tab has a pause of its own
	require.Zero(t, other.count(".paused"))
	p.click("Resume")
	p.shows(".head", "cancelled")
	require.Zero(t, p.count(".paused"))
	p.until("what was written meanwhile", func() bool {
		seen := strings.Fields(p.text(".output .stdout"))
		return len(seen) > 2 && len(seen) == len(strings.Fields(other.text(".output .stdout")))
	})
	seen := strings.Fields(p.text(".output .stdout"))
	require.Equal(t, words[:len(seen)], seen)
}

// A paused page answers what somebody asks of it, once. Another page is not paused.
func TestAPausedPageAnswersWhatIsAsked(t *testing.T) {
	apart(t)
	n := start(t)
	labelled(t, n, "paused")
	p := open(t, n, "/console/executions")
	p.until("one row", func() bool { return p.count("tbody tr") == 1 })
	p.do(chromedp.KeyEvent("."))
	p.shows(".paused", "Paused since ")
	p.do(chromedp.SendKeys("#filter", "label:test=paused"+kb.Enter))
	p.until("its own answer", func() bool { return p.value("location.search") != "" && p.count("tbody tr") == 1 })
	labelled(t, n, "paused")
	p.stands(4)
	require.Empty(t, strings.TrimSpace(p.text(".newer")))
	p.do(chromedp.Click("nav a[href='./']"))
	p.shows("h1", "Overview")
	require.Zero(t, p.count(".paused"))
	p.until("the overview", func() bool { return p.count(".tile") > 0 && p.count("[aria-busy=true]") == 0 })
	p.do(chromedp.KeyEvent("."))
	p.shows(".paused", "Paused since ")
	labelled(t, n, "paused")
	p.stands(12)
	p.looks("overview-paused")
	p.do(chromedp.Evaluate("history.back()", nil))
	p.until("all rows, for the list is loaded anew", func() bool { return p.count("tbody tr") == 3 && p.count(".paused") == 0 })
}
