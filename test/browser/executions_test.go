package browser

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

func TestTheNodesAddressOpensTheConsole(t *testing.T) {
	n := shared(t)
	p := open(t, n, "/")
	p.shows("h1", "Overview")
	p.shows(".tile", "python")
	require.Equal(t, "/console/", p.value("location.pathname"))
	require.Equal(t, "0", p.value("localStorage.length + sessionStorage.length"))
}

// The address is the whole state of the list: a filter stands in it, a reload shows the same, and going back undoes it.
func TestAListShowsWhatItsAddressSays(t *testing.T) {
	n := shared(t)
	label := map[string]any{"labels": map[string]any{"test": "address"}, "wait_seconds": 10}
	submit(t, n, "core.echo", map[string]any{}, label)
	submit(t, n, "core.fail", map[string]any{"message": "it went wrong: twice", "code": "boom"}, label)
	p := open(t, n, "/console/executions?label=test%3Daddress")
	p.until("two rows", func() bool { return p.count("tbody tr") == 2 })
	require.Equal(t, "rtl n1/go/", p.value("getComputedStyle(document.querySelector('td.c-worker')).direction + ' ' + document.querySelector('td.c-worker bdi').title.slice(0, 6)"))
	p.looks("executions")
	for _, width := range append([]int64{360}, between...) {
		p.do(chromedp.EmulateViewport(width, 800))
		p.until(fmt.Sprintf("at %d px the words of the status, and the whole action", width), func() bool {
			return p.value(`["completed", "core.echo"].every((word) => [...document.querySelectorAll("tbody td")].some((e) => e.innerText.trim() === word && e.scrollWidth <= e.clientWidth))`) == "true"
		})
	}
	p.do(chromedp.EmulateViewport(1280, 800))
	for _, clock := range []string{"11-27 23:57:01", "12-28 20:58:58"} { // the time of another day
		require.Equal(t, "true", p.value(`(() => {
			const cell = document.querySelector("td.c-at"), time = cell.querySelector("time"), was = time.firstChild.data
			time.firstChild.data = "`+clock+`"
			const fits = cell.scrollWidth <= cell.clientWidth
			time.firstChild.data = was
			return fits
		})()`), "%s is whole", clock)
	}
	p.contrasts("executions")
	p.do(chromedp.SendKeys("#filter", "status:failed"+kb.Enter))
	p.until("one row", func() bool { return p.count("tbody tr") == 1 })
	p.shows("tbody", "boom")
	require.Equal(t, "?label=test%3Daddress&status=failed", p.value("location.search"))
	p.do(chromedp.Reload(), chromedp.WaitVisible("tbody"))
	p.until("one row after a reload", func() bool { return p.count("tbody tr") == 1 })
	p.do(chromedp.NavigateBack())
	p.until("two rows again", func() bool { return p.count("tbody tr") == 2 })
	p.do(chromedp.SendKeys("#filter", "it went WRONG: twice"+kb.Enter))
	p.until("the row whose error says it", func() bool { return p.count("tbody tr") == 1 })
	p.shows("tbody", "boom")
	require.Equal(t, "?label=test%3Daddress&q=it+went+WRONG:+twice", p.value("location.search"))
}

// A filter that the node does not have is a chip that says so, and does not reach the node.
func TestAnUnknownFilterSaysSo(t *testing.T) {
	n := shared(t)
	p := open(t, n, "/console/executions?colour=red&status=lost")
	p.shows(".chip.wrong", "there is no such filter here")
	p.shows(".chip.wrong", "want one of requested")
	p.until("rows or none", func() bool { return p.count("tbody tr") > 0 || strings.Contains(p.text("main"), "No execution") })
}

// Rows never jump: what is newer waits until somebody asks for it.
func TestNewerRowsWait(t *testing.T) {
	n := shared(t)
	label := map[string]any{"labels": map[string]any{"test": "newer"}, "wait_seconds": 10}
	first := submit(t, n, "core.noop", map[string]any{}, label)
	p := open(t, n, "/console/executions?label=test%3Dnewer")
	p.until("one row", func() bool { return p.count("tbody tr") == 1 })
	second := submit(t, n, "core.noop", map[string]any{}, label)
	p.shows(".newer", "1 newer: show")
	require.Equal(t, 1, p.count("tbody tr"))
	p.click("newer: show")
	p.until("two rows", func() bool { return p.count("tbody tr") == 2 })
	require.Equal(t, second.ID, p.value("document.querySelectorAll('tbody a')[0].title"))
	require.Equal(t, first.ID, p.value("document.querySelectorAll('tbody a')[1].title"))
}

// A list is a window over its rows: pages are added below, and a bounded number of rows is drawn.
func TestALongListDrawsAWindow(t *testing.T) {
	n := shared(t)
	var batch []map[string]any
	for range 350 {
		batch = append(batch, map[string]any{"action_ref": "core.noop", "labels": map[string]any{"test": "window"}})
	}
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/executions/batch", map[string]any{"executions": batch})
	p := open(t, n, "/console/executions?label=test%3Dwindow")
	for _, rows := range []string{"100 rows", "200 rows", "300 rows"} {
		p.shows(".foot", rows+": looked back to ")
		p.click("Load older")
	}
	p.shows(".foot", "350 rows: all there are")
	p.click("Save as…")
	p.shows(".pop", "NDJSON")
	p.shows(".pop", "CSV")
	for _, place := range []string{"0", "4000", "document.body.scrollHeight"} {
		p.do(chromedp.Evaluate("scrollTo(0, "+place+")", nil))
		p.until("drawn rows on the screen", func() bool {
			return p.value(`document.elementFromPoint(700, 600)?.closest('tr:not(.gap)') !== null`) == "true"
		})
		require.LessOrEqual(t, p.count("tbody tr:not(.gap)"), 60)
	}
}

// What was written is shown in its order, with times.
func TestOutputHasItsOrder(t *testing.T) {
	n := shared(t)
	e := submit(t, n, "demo.stream", map[string]any{"text": "ebb and flow", "seconds": 0.05}, map[string]any{"wait_seconds": 30})
	p := open(t, n, "/console/executions/"+e.ID)
	p.opensOutput()
	p.shows(".output", "flow")
	p.turns("written") // closed again
	p.until("it is closed", func() bool { return p.query("output") == "" })
	// A browser that is busy takes a second click before it tells of the first. Neither undoes the other.
	p.do(chromedp.Evaluate(`document.querySelector("details.written > summary").click(); [...document.querySelectorAll(".tools label")].find((e) => e.textContent.includes("times")).click()`, nil))
	p.until("both are in the address", func() bool { return p.query("output") == "open,times" })
	require.Equal(t, "true", p.value(`document.querySelector("details.written").open`))
	// What came by two pipes at once has no order.
	lines := regexp.MustCompile(`(?s)^\d\d:\d\d:\d\d\.\d{3} (stdout ebb|chunk  "ebb")\s.*\d{3} chunk  "and"\s.*\d{3} stdout flow`)
	p.until("what it said, in its order and with times, from the store", func() bool { return lines.MatchString(p.text(".output")) })
}

func TestWhatIsNotThereSaysSo(t *testing.T) {
	n := shared(t)
	p := open(t, n, "/console/nothing/here", "404")
	p.shows("main", "There is no such page")
	p.visit("/console/executions/nope")
	p.shows("main", "is not known here")
	p.visit("/console/workers/n1/nope/0")
	p.shows(".trouble", "not_found")
	require.Zero(t, p.count(".trouble button"), "it is not there the next time either")
}
