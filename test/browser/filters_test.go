package browser

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// On a phone the filters of a list and what is counted beside it are in a drawer. One button opens it, and says how many are set.
func TestFiltersAreInADrawerOnAPhone(t *testing.T) {
	n := shared(t)
	label := map[string]any{"labels": map[string]any{"test": "drawer"}, "wait_seconds": 10}
	submit(t, n, "core.echo", map[string]any{}, label)
	submit(t, n, "core.fail", map[string]any{"message": "no", "code": "boom"}, label)
	p := open(t, n, "/console/executions?label=test%3Ddrawer&colour=red")
	p.do(chromedp.EmulateViewport(360, 800))
	p.shows("#filters", "Filters: 1 set, 1 wrong")
	require.Zero(t, p.count(".chip")+p.count(".facets-of-list"))
	require.Equal(t, 2, p.count(".bulk button:not(.newer)"), "commands are not in the drawer")

	p.do(chromedp.Focus("#filters"), chromedp.KeyEvent(kb.Enter))
	p.shows("dialog[open] h2", "Filters: 1 set, 1 wrong")
	require.Equal(t, "true", p.value("document.querySelector('.drawer').contains(document.activeElement)"))
	require.Equal(t, "true", p.value("document.querySelector('#filters').ariaExpanded"))
	p.looks("filters-drawer")
	p.do(chromedp.EmulateViewport(360, 800))
	p.shows("dialog[open] h2", "Filters: 1 set")
	p.fits("the drawer")
	p.until("the drawer fits", func() bool {
		return p.value("(({scrollWidth, clientWidth}) => scrollWidth <= clientWidth)(document.querySelector('.drawer'))") == "true"
	})
	p.contrasts("filters-drawer")
	p.do(chromedp.Click(`[aria-label="Remove colour:red"]`))
	p.shows("dialog[open] h2", "Filters: 1 set")
	p.do(chromedp.SendKeys("#filter", "status:failed"+kb.Enter))
	p.shows("dialog[open] h2", "Filters: 2 set")
	p.until("one row", func() bool { return p.count("tbody tr") == 1 })
	p.do(chromedp.Click(".facets-of-list summary"))
	p.shows(".facets-of-list", "The only execution of the list")
	require.Equal(t, "?label=test%3Ddrawer&status=failed&panel=facets", p.value("location.search"))
	p.accessible("the drawer with counts")
	p.do(chromedp.Click(".facets-of-list summary"))
	p.until("the counts are closed, and the drawer is not", func() bool { return p.value("new URLSearchParams(location.search).get('panel')") == "filters" })
	require.Equal(t, 1, p.count(".drawer[open]"))

	p.do(chromedp.KeyEvent(kb.Escape))
	p.closesDrawer()
	require.Equal(t, "?label=test%3Ddrawer&status=failed", p.value("location.search"))
	p.do(chromedp.Evaluate("document.activeElement.blur()", nil), chromedp.KeyEvent("f"))
	p.until("the key leads to the field in the drawer", func() bool { return p.value("document.activeElement.id") == "filter" })
	p.do(chromedp.Reload())
	p.shows("dialog[open] h2", "Filters: 2 set")
	p.click("Show the list")
	p.closesDrawer()
}

// closesDrawer waits until the drawer is closed and its button has the focus.
func (p *page) closesDrawer() {
	p.t.Helper()
	p.until("the drawer is closed, and its button has the focus", func() bool {
		return p.count(".drawer[open]") == 0 && p.value("document.activeElement.id") == "filters"
	})
}

// Names are proposed while one types: by the keyboard or with a click they become filters.
func TestTheFilterBarCompletesNames(t *testing.T) {
	n := shared(t)
	submit(t, n, "core.fail", map[string]any{"message": "no", "code": "completes_this"}, map[string]any{"wait_seconds": 10})
	p := open(t, n, "/console/executions")
	p.do(chromedp.SendKeys("#filter", "pool:YTH"))
	p.shows("#filter-options", "pool:python")
	require.Equal(t, "true", p.value("document.querySelector('#filter').ariaExpanded"))
	p.accessible("proposals")
	p.picture("filters-completed")
	p.do(chromedp.KeyEvent(kb.ArrowDown))
	p.shows("#filter-options [aria-selected=true]", "pool:python")
	require.Equal(t, "filter-option-0", p.value("document.querySelector('#filter').getAttribute('aria-activedescendant')"))
	p.accessible("a chosen proposal")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until("a filter", func() bool { return p.value("location.search") == "?pool=python" })
	require.Equal(t, "filter", p.value("document.activeElement.id"))
	for _, c := range []struct{ typed, proposed string }{
		{"core.fa", "action:core.fail"},
		{"error:completes", "error:completes_this"},
		{"not.worker:n1/go", "not.worker:n1/go/0"},
		{"abando", "status:abandoned"},
		{"not.po", "not.pool:"},
	} {
		p.visit("/console/executions")
		p.do(chromedp.SendKeys("#filter", c.typed))
		p.shows("#filter-options", c.proposed)
		require.LessOrEqual(t, p.count("#filter-options li"), 12)
		p.do(chromedp.Click(`//ul[@id="filter-options"]/li[.="`+c.proposed+`"]`, chromedp.BySearch))
		if c.proposed == "not.pool:" {
			break
		}
		p.shows(".chip", c.proposed)
	}
	p.shows("#filter-options", "not.pool:python") // a key leads to its values
	p.do(chromedp.KeyEvent(kb.Escape))
	require.Equal(t, "not.pool:", p.value("document.querySelector('#filter').value"))
	require.Equal(t, 1, p.count("#filter-options[hidden]"))

	p.visit("/console/workers")
	p.do(chromedp.SendKeys("#filter", "node:n"))
	p.shows("#filter-options", "node:n1")
	p.do(chromedp.KeyEvent(kb.Enter)) // what was typed counts, unless a proposal is chosen
	p.shows(".chip", "node:n")
}

// Chips stay where they are when one of them changes, and the focus stays with them: whoever uses the keyboard goes on from there.
func TestTheFocusStaysInTheFilterBar(t *testing.T) {
	p := open(t, shared(t), "/console/executions?status=failed&pool=go&pool=python")
	focused := func(label string) {
		t.Helper()
		p.until(label+" has the focus", func() bool { return p.value("document.activeElement.ariaLabel") == label })
	}
	press := func(label string) {
		t.Helper()
		p.do(chromedp.Focus(`[aria-label="`+label+`"]`), chromedp.KeyEvent(kb.Enter))
	}
	p.do(chromedp.WaitVisible(".chip"))
	press("Turn status:failed round")
	focused("Turn not.status:failed round")
	require.Equal(t, "?not.status=failed&pool=go&pool=python", p.value("location.search"))
	press("Remove pool:go")
	focused("Remove pool:python")
	press("Remove pool:python")
	focused("Add a filter, as key:value")
	p.do(chromedp.KeyEvent("status:failed" + kb.Enter))
	p.until("what is joined stands behind", func() bool { return p.value("location.search") == "?not.status=failed&status=failed" })
	p.do(chromedp.KeyEvent("pool:go"+kb.Enter), chromedp.KeyEvent("not.status:running"+kb.Enter))
	p.until("it is joined at its place", func() bool { return p.value("location.search") == "?not.status=failed,running&status=failed&pool=go" })

	// Escape closes what is proposed, and then leaves the field.
	p.do(chromedp.KeyEvent("po"))
	p.shows("#filter-options", "pool:")
	p.do(chromedp.KeyEvent(kb.Escape))
	require.Equal(t, "filter", p.value("document.activeElement.id"))
	p.do(chromedp.KeyEvent(kb.Escape))
	require.Equal(t, "BODY", p.value("document.activeElement.tagName"))
}

// More values than the node takes, and empty ones, are red chips: the list is shown without them.
func TestOneTooManyIsARedChip(t *testing.T) {
	p := open(t, shared(t), "/console/executions?label=test%3Dtoo-many&q=1&q=2&q=3&q=4&q=5&q=6&session=")
	p.shows(".chip.wrong", "at most 5 of q at a time")
	p.shows(".chip.wrong", "want a value")
	p.shows("main", "No execution has all of these filters")
	p.shows(".facets-of-list", "No execution of the list")
}
