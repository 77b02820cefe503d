package browser

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// The supervision tree of all nodes: a large pool is a grid, trouble opens by itself, and an actor has a panel with what can be done.
func TestTheTreeShowsTroubleAndWhatRuns(t *testing.T) {
	n := start(t)
	long := submit(t, n, "core.sleep", map[string]any{"seconds": 60}, nil)
	p := open(t, n, "/console/tree", "404") // the panel may ask for the actor that was killed
	p.shows("h1", "Tree")
	p.shows(".lead", "1 node, ")
	p.shows(".lead", "none in trouble")
	p.shows(".tree", "pools")
	require.NotContains(t, p.text(".tree"), "claims", "monitors are closed: none of them is in trouble")
	p.do(chromedp.Click(`button[aria-label="Open troupe/pools/go"]`))
	p.shows(".cells", "1 busy")
	p.until("what runs", func() bool { return p.count(`.cells a[href="executions/`+long.ID+`"]`) == 1 })
	p.looks("tree")
	p.do(chromedp.EmulateViewport(360, 400), chromedp.Focus(`.cells [role=listbox]`))
	p.until("as many columns as there is room for", func() bool {
		return p.value(`(() => { const room = document.querySelector(".cells .grid").clientWidth - document.querySelector(".cells svg").clientWidth; return innerWidth === 360 && room >= 0 && room < 16 })()`) == "true"
	})
	p.rests(`//div[@role="listbox"]`)
	for key, edge := range map[string]string{kb.End: "top - innerHeight + 6", kb.Home: "bottom - 6"} { // the cell is beyond the screen
		p.do(chromedp.Evaluate(`(() => { const { top, bottom } = document.querySelector(".cells .field").getBoundingClientRect(); scrollBy(0, `+edge+`) })()`, nil), chromedp.KeyEvent(key))
		p.until("the cell of the cursor is on the screen", func() bool {
			return p.value(`(() => { const { top, bottom } = document.querySelector(".cells .at").getBoundingClientRect(); return top >= 0 && bottom <= innerHeight })()`) == "true"
		})
	}
	p.do(chromedp.EmulateViewport(1280, 800))
	p.do(chromedp.KeyEvent(kb.End), chromedp.KeyEvent(kb.ArrowUp), chromedp.KeyEvent(kb.ArrowLeft))
	p.shows(".cells [role=option]", ": ready") // it is spoken with its name
	require.Zero(t, p.count(".cells [role=status]"), "and no second time")
	at, _, _ := strings.Cut(p.text(".cells [role=option]"), ": ")
	require.Regexp(t, `^n1/go/\d+$`, at)
	p.shows(".cells .told", at+": ready")
	p.accessible("a grid with a cursor")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until("the panel of the cell", func() bool { return strings.Contains(p.query("actor"), strings.TrimPrefix(at, "n1")+".") })
	p.shows(".panel", at)
	p.do(chromedp.Click(`.cells li button`))
	p.shows(".panel", "ready → busy")
	p.shows(".panel", "Runs "+long.ID)
	p.looks("tree-panel")
	require.Contains(t, p.value("decodeURIComponent(location.search)"), "troupe/pools/go/")
	p.visit("/console/tree" + p.value("location.search")) // it is the same after a reload
	p.shows(".panel", "Runs "+long.ID)
	link := p.copied("Link") // and for a colleague
	require.Equal(t, p.value("location.href"), link)
	p.visit(strings.TrimPrefix(link, n.url))
	p.shows(".panel", "Runs "+long.ID)
	p.do(chromedp.Click(`//aside//button[.='Kill']`, chromedp.BySearch))
	p.shows("dialog", "It runs core.sleep, execution "+long.ID[:8])
	p.do(chromedp.Click(`//dialog//button[contains(., "Kill it")]`, chromedp.BySearch))
	p.shows(".notices", "another generation follows")
	p.do(chromedp.Click(`aside button[aria-label="Close"]`))
	p.until("no panel", func() bool { return p.count(".panel") == 0 && p.value("location.search") == "" })
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/executions/"+long.ID+"/cancel", nil)
}

// A pool whose workers do not start is open without a click.
func TestTheTreeOpensWhereTroubleIs(t *testing.T) {
	pack := t.TempDir()
	write(t, pack, "pack.yaml", "name: sick\nversion: 1.0.0\npools:\n  - {name: own, runtime: python, workers: 1}\n")
	write(t, pack, "actions/say.yaml", "name: say\nruntime: python\npool: own\nentrypoint: say.py:say\n")
	write(t, pack, "say.py", "import nothing_of_that_name\n")
	n := start(t, "--packs", pack)
	p := open(t, n, "/console/tree")
	p.until("trouble", func() bool {
		return strings.Contains(p.text(".lead"), " in trouble") && !strings.Contains(p.text(".lead"), "none in trouble")
	})
	p.shows(".line.ill", "nothing_of_that_name")
	p.looks("tree-trouble")
}

// fleet is what GET /api/v1/fleet says, as far as these tests read it.
type fleet struct {
	Pools []struct {
		Name        string `json:"name"`
		Slots       string `json:"slots"`
		Generations []int  `json:"generations"`
	} `json:"pools"`
}

// ago is a time of the past as the address of a page has it.
func ago(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339) }

// The tree of the past has what there was, outlines what differs from now, and goes by the events of its time line.
func TestTheTreeOfThePast(t *testing.T) {
	apart(t)
	n := start(t)
	p := open(t, n, "/console/tree")
	p.shows(".scrubber strong", "Now")
	pools := func(query string) fleet { return ask[fleet](t, n, http.MethodGet, "/api/v1/fleet"+query, nil) }
	before := ""
	p.until("all its workers were ready two seconds ago", func() bool {
		before = ago(2 * time.Second)
		f := pools("?at=" + before)
		for _, pool := range f.Pools {
			if strings.Trim(pool.Slots, "r") != "" {
				return false
			}
		}
		return len(f.Pools) == 3
	})
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/workers/n1/go/3/kill", nil)
	p.until("the next generation", func() bool {
		for _, pool := range pools("").Pools {
			if pool.Name == "go" && len(pool.Slots) > 3 {
				return pool.Slots[3] == 'r' && pool.Generations[3] == 2
			}
		}
		return false
	})
	p.visit("/console/tree?at=" + before)
	p.shows(".head", "The past: "+time.Now().UTC().Format("2006-"))
	require.NotContains(t, p.text(".head"), "old")
	require.NotContains(t, p.text(".head"), "Pause", "what was changes no more")
	p.shows(".lead", "Outlined is what differs from now")
	p.until("the worker that was killed", func() bool { return p.count(".cells .differs") == 1 })
	p.looks("tree-past")
	p.do(chromedp.Click(`button[aria-label="Event after"]`))
	p.until("another time", func() bool {
		return !strings.Contains(p.value("decodeURIComponent(location.search)"), before)
	})
	p.visit("/console/tree?from=" + ago(time.Hour) + "&to=" + before) // as a link of then is copied
	p.shows(".head", "The past: ")
	p.until("the worker that was killed", func() bool { return p.count(".cells .differs") == 1 })
	require.NotEqual(t, "Now", p.text(".scrubber strong"))
	p.do(chromedp.Click(`//section[@aria-label="Time line"]//button[.="Now"]`, chromedp.BySearch))
	p.until("no range", func() bool { return p.value("location.search") == "" })
	p.shows(".lead", "actors")
	p.visit("/console/tree?at=" + before)
	p.do(chromedp.Click(`//section[@aria-label="Time line"]//button[.="Play"]`, chromedp.BySearch))
	p.until("now", func() bool { return p.value("location.search") == "" })
	p.shows(".lead", "actors")
}
