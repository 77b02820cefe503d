package browser

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// cordoned asks whether a thing is cordoned.
func cordoned(t *testing.T, n *node, path string) bool {
	t.Helper()
	return ask[struct {
		Cordoned bool `json:"cordoned"`
	}](t, n, http.MethodGet, path, nil).Cordoned
}

// answers clicks a button of the open dialog.
func (p *page) answers(text string) {
	p.t.Helper()
	p.do(chromedp.Click(`//dialog[@open]//button[contains(normalize-space(.), "`+text+`")]`, chromedp.BySearch))
	p.until("the dialog is closed", func() bool { return p.count("dialog[open]") == 0 })
}

// A cordon of what is the last that takes work is asked about, and takes a reason. One of several is not. Each can be undone from its notice.
func TestACordonAsksWhereItIsTheLast(t *testing.T) {
	apart(t)
	n := start(t)
	p := open(t, n, "/console/nodes/n1")
	p.shows(".facts", "none: no other node uses its store")
	p.click("Cordon")
	p.shows("dialog[open]", "It is the last that takes work of the pools go, python and shell")
	p.accessible("the question before a cordon")
	p.answers("Leave it")
	require.False(t, cordoned(t, n, "/api/v1/nodes/n1"))
	p.click("Cordon")
	p.shows("dialog[open]", "the last that takes work")
	p.do(chromedp.SendKeys("dialog[open] input", "a disk is changed"))
	p.answers("Cordon it")
	p.shows(".notices", "Node n1 gets no new work")
	require.True(t, cordoned(t, n, "/api/v1/nodes/n1"))
	p.do(chromedp.Click(`//div[contains(@class, "notices")]//button[.="Uncordon"]`, chromedp.BySearch))
	p.shows(".notices", "Node n1 gets work again")
	require.False(t, cordoned(t, n, "/api/v1/nodes/n1"))
	p.visit("/console/history?kinds=operator")
	p.shows("tbody", "a disk is changed")

	p.visit("/console/workers/n1/go/0")
	p.click("Cordon")
	p.shows(".notices", "Worker n1/go/0 gets no new work")
	require.Zero(t, p.count("dialog[open]"), "others take its work")
	p.click("Probe")
	p.shows(".notices", "Worker n1/go/0 is ready and healthy")
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/workers/n1/python/1/cordon", nil)
	p.visit("/console/workers/n1/python/0")
	p.click("Cordon")
	p.shows("dialog[open]", "It is the last that takes work of the pool python.")
	p.answers("Leave it")
}

// A kill says what runs there and what becomes of it, and is sent once however often it is clicked. A drain wants the node's name only where
// no other takes its work.
func TestACommandSaysWhatBecomesOfWork(t *testing.T) {
	apart(t)
	nodes := cluster(t, 2)
	ask[map[string]any](t, nodes[1], http.MethodPost, "/api/v1/nodes/n2/cordon", nil)
	more := map[string]string{"demo.progress": "steps", "demo.memory": "mib"}
	p := open(t, nodes[0], "/console/")
	for action, fate := range map[string]string{"demo.progress": "That is idempotent, so it is run again", "demo.memory": "not marked idempotent, so it ends abandoned"} {
		run := submit(t, nodes[0], action, map[string]any{"seconds": 100, more[action]: 1}, nil)
		p.visit("/console/executions/" + run.ID)
		p.shows(".head", "running")
		on := ask[execution](t, nodes[0], http.MethodGet, "/api/v1/executions/"+run.ID, nil).Worker
		p.visit("/console/workers/" + on)
		p.until("it is busy with it", func() bool { return p.count(`main a[href="executions/`+run.ID+`"]`) > 0 })
		p.click("Kill")
		p.shows("dialog[open]", "It runs "+action+", execution "+run.ID[:8])
		p.shows("dialog[open]", fate)
		if action == "demo.memory" {
			p.answers("Leave it")
			p.do(chromedp.KeyEvent("."))
			p.shows(".paused", "Paused since ")
			ask[map[string]any](t, nodes[0], http.MethodPost, "/api/v1/executions/"+run.ID+"/cancel", nil)
			p.until("the worker is free, which the paused page does not show", func() bool {
				return ask[struct {
					Execution string `json:"execution"`
				}](t, nodes[0], http.MethodGet, "/api/v1/workers/"+on, nil).Execution == ""
			})
			require.Positive(t, p.count(`main a[href="executions/`+run.ID+`"]`))
			p.click("Kill")
			p.shows("dialog[open]", "It runs nothing now.")
			p.answers("Leave it")
			p.click("Resume")
			continue
		}
		p.do(chromedp.Evaluate(`(() => { const b = [...document.querySelectorAll("dialog[open] button")].at(-1); b.click(); b.click() })()`, nil))
		p.shows(".notices", "is ended; another generation follows")
		require.Equal(t, "1", p.value(`performance.getEntriesByType("resource").filter((e) => e.name.endsWith("/kill")).length`), "a double click is one request")
	}
	ask[map[string]any](t, nodes[1], http.MethodPost, "/api/v1/nodes/n2/uncordon", nil)
	p.visit("/console/nodes")
	p.until("each reaches the other, and none is cordoned", func() bool {
		return p.count(".reach tbody tr") == 2 && strings.Count(p.text(".reach tbody"), "reached") == 2 && !strings.Contains(p.text(".list tbody"), "cordoned")
	})
	p.do(chromedp.Click(`//tr[contains(., "n2")]//button[contains(., "Drain")]`, chromedp.BySearch))
	p.shows("dialog[open]", "Others take the work of its pools.")
	require.Equal(t, "false", p.value("[...document.querySelectorAll('dialog[open] button')].at(-1).disabled"))
	p.answers("Leave it")
}

// A command that cannot be given now says why, also by keyboard.
func TestADisabledCommandSaysWhy(t *testing.T) {
	apart(t)
	n := &node{dir: t.TempDir(), args: []string{"--listen", "127.0.0.1:0"}, env: []string{"TROUPE_CONSOLE_MODE=read_only"}}
	require.NoError(t, n.begin())
	t.Cleanup(n.kill)
	p := open(t, n, "/console/nodes/n1")
	p.until("the command is disabled", func() bool { return p.count(`.head button[aria-disabled="true"]`) == 2 })
	p.accessible("disabled commands")
	p.do(chromedp.Focus(`.head button[aria-disabled="true"]`), chromedp.KeyEvent(kb.Enter))
	p.shows(".notices", "read-only (console.mode)")
	require.False(t, cordoned(t, n, "/api/v1/nodes/n1"))
	p.visit("/console/settings")
	p.shows("main", "The console only reads")
}

// The tree cordons a worker and a pool, says so, and takes it back.
func TestTheTreeCordons(t *testing.T) {
	apart(t)
	n := start(t)
	place := "tree?actor=" + incarnation(t, n) + "%20troupe/pools/shell"
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/workers/n1/go/1/cordon", nil)
	tree := open(t, n, "/console/tree")
	tree.do(chromedp.Click(`[aria-label="Open troupe/pools/go"]`))
	tree.until("the cordoned worker is seen in its pool, a grid or lines", func() bool {
		return strings.Contains(tree.text(".cells li, .line"), "cordoned")
	})
	p := open(t, n, "/console/"+place)
	p.shows(".panel", "The pool shell")
	p.rests(`//aside//button[.="Cordon"]`)
	p.do(chromedp.Click(`//aside//button[.="Cordon"]`, chromedp.BySearch))
	p.shows("dialog[open]", "Cordon the pool shell?")
	p.answers("Cordon it")
	p.shows(".panel", "It is cordoned")
	p.shows(".line.chosen", "cordoned")
	p.looks("tree-cordoned")
	p.visit("/console/pools")
	p.shows("tbody", "but the pool is cordoned")
	p.visit("/console/pools/shell")
	p.shows(".cells", "the pool is cordoned")
	require.NotContains(t, p.text(".cells"), "All are at rest")
	p.visit("/console/" + place)
	p.shows(".panel", "It is cordoned")
	p.rests(`//aside//button[.="Uncordon"]`)
	p.do(chromedp.Click(`//aside//button[.="Uncordon"]`, chromedp.BySearch))
	p.shows(".notices", "Pool shell gets work again")
	p.until("no sign of a cordon", func() bool { return !strings.Contains(p.text(".line.chosen"), "cordoned") })
	require.False(t, cordoned(t, n, "/api/v1/pools/shell"))
}

// incarnation is the incarnation of a node.
func incarnation(t *testing.T, n *node) string {
	t.Helper()
	return ask[struct {
		Incarnation string `json:"incarnation"`
	}](t, n, http.MethodGet, "/api/v1/nodes/n1", nil).Incarnation
}
