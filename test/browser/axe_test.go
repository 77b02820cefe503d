package browser

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// axe finds what keeps people from using a page: contrast, names, roles, order. make web copies it from npm.
//
//go:embed testdata/axe.min.js
var axe string

// accessible fails if axe finds something. A page that has axe already is not given it again.
func (p *page) accessible(what string) {
	p.t.Helper()
	if p.value("typeof axe") != "object" {
		p.do(chromedp.Evaluate(axe+";0", nil))
	}
	var found []string
	p.do(chromedp.Evaluate(`axe.run(document, {resultTypes: ['violations']}).then((r) =>
		r.violations.map((v) => v.id + ': ' + v.help + ': ' + v.nodes.slice(0, 3).map((n) => n.html + ' ' + (n.any[0]?.message ?? '')).join(' | ')))`,
		&found, func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
	assert.Empty(p.t, found, what)
}

// Everything can be done by keyboard.
func TestTheConsoleIsUsedByKeyboard(t *testing.T) {
	n := shared(t)
	e := submit(t, n, "core.noop", map[string]any{}, map[string]any{"labels": map[string]any{"test": "keys"}, "wait_seconds": 10})
	p := open(t, n, "/console/")
	p.shows("h1", "Overview")
	p.do(chromedp.KeyEvent("k", chromedp.KeyModifiers(input.ModifierCtrl)))
	p.shows(".palette", "Dead letters")
	p.accessible("the palette")
	p.do(chromedp.KeyEvent("core.no"))
	p.shows(".palette [aria-selected=true]", "core.noop")
	p.looks("palette")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.shows("h1", "core.noop")
	p.do(chromedp.KeyEvent("g"), chromedp.KeyEvent("e"))
	p.shows("h1", "Executions")
	p.do(chromedp.KeyEvent("/"))
	require.Equal(t, "filter", p.value("document.activeElement.id"))
	p.do(chromedp.KeyEvent("label:test=keys" + kb.Enter))
	p.until("one row", func() bool { return p.count("tbody tr") == 1 })
	p.do(chromedp.KeyEvent(e.ID[:13] + kb.Enter))
	p.until("the digits of an id are one", func() bool { return p.query("id_prefix") == e.ID[:13] && p.count("tbody tr") == 1 })
	p.do(chromedp.Evaluate("document.activeElement.blur()", nil), chromedp.KeyEvent("k", chromedp.KeyModifiers(input.ModifierCtrl)), chromedp.KeyEvent("test=keys"))
	p.shows(".palette [aria-selected=true]", "with the label test=keys")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until("the label alone", func() bool {
		return p.query("label") == "test=keys" && p.query("id_prefix") == "" && p.count("tbody tr") == 1
	})
	p.do(chromedp.Evaluate("document.activeElement.blur()", nil), chromedp.KeyEvent("j"), chromedp.KeyEvent("x"))
	p.shows(".bulk", "1 chosen")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.shows("h1", "Execution ")
	p.do(chromedp.KeyEvent("?"))
	p.shows("dialog.keys", "next and previous row")
	p.accessible("the list of keys")
	require.True(t, strings.HasPrefix(p.value("location.pathname"), "/console/executions/"))
}

// A page whose filters search no text has the palette at the key of the search, and every page has it as a button, on a phone too.
func TestTheSearchIsOnEveryPage(t *testing.T) {
	p := open(t, shared(t), "/console/webhooks")
	p.do(chromedp.WaitVisible("#filter"), chromedp.KeyEvent("/"))
	p.shows(".palette[open]", "Dead letters")
	p.visit("/console/pools")
	p.shows("tbody", "python")
	p.do(chromedp.KeyEvent("/"))
	p.shows(".palette[open]", "Dead letters")
	p.do(chromedp.KeyEvent(kb.Escape), chromedp.EmulateViewport(360, 800))
	p.until("it is closed", func() bool { return p.count(".palette[open]") == 0 })
	p.click("Search")
	p.shows(".palette[open]", "Dead letters")
}

// From one execution the keys lead to those beside it in the list.
func TestKeysLeadToTheExecutionsBesideThisOne(t *testing.T) {
	n := shared(t)
	var ids []string
	for range 3 {
		ids = append(ids, submit(t, n, "core.noop", map[string]any{}, map[string]any{"labels": map[string]any{"test": "beside"}, "wait_seconds": 10}).ID)
	}
	p := open(t, n, "/console/executions?label=test%3Dbeside")
	p.until("three rows", func() bool { return p.count("tbody tr") == 3 })
	p.do(chromedp.KeyEvent("j"), chromedp.KeyEvent("j"), chromedp.KeyEvent(kb.Enter)) // the newest is first
	at := func(id string) func() bool {
		return func() bool { return p.value("location.pathname") == "/console/executions/"+id }
	}
	p.until("the second", at(ids[1]))
	p.do(chromedp.KeyEvent("]"))
	p.until("the older one", at(ids[0]))
	p.do(chromedp.KeyEvent("]"), chromedp.KeyEvent("["), chromedp.KeyEvent("["))
	p.until("the newest", at(ids[2]))
}
