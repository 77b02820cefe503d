package browser

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// The supervision tree of all nodes: a large pool is a grid, trouble opens by itself, and an actor has a panel with what can be done.
func TestTheTreeShowsTroubleAndWhatRuns(t *testing.T) {
	n := start(t)
	long := submit(t, n, "core.sleep", map[string]any{"seconds": 60}, nil)
	p := open(t, n, "/console/tree")
	p.shows("h1", "Tree")
	p.shows(".lead", "1 node, ")
	p.shows(".lead", "none in trouble")
	p.shows(".tree", "pools")
	require.NotContains(t, p.text(".tree"), "claims", "monitors are closed: none of them is in trouble")
	p.do(chromedp.Click(`button[aria-label="Open troupe/pools/go"]`))
	p.shows(".cells", "1 busy")
	p.until("what runs", func() bool { return p.count(`.cells a[href="executions/`+long.ID+`"]`) == 1 })
	p.looks("tree")
	p.do(chromedp.Click(`.cells li button`))
	p.shows(".panel", "ready → busy")
	p.shows(".panel", "Runs "+long.ID)
	p.looks("tree-panel")
	require.Contains(t, p.value("decodeURIComponent(location.search)"), "troupe/pools/go/")
	p.visit("/console/tree" + p.value("location.search")) // it is the same after a reload
	p.shows(".panel", "Runs "+long.ID)
	p.do(chromedp.Click(`//aside//button[.='Kill']`, chromedp.BySearch))
	p.shows("dialog", "It runs an execution")
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
	p.shows(".line.trouble", "nothing_of_that_name")
	p.looks("tree-trouble")
}
