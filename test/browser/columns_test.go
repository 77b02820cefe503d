package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/test/servers"
)

// chooses turns a column on or off.
func (p *page) chooses(column string) {
	p.t.Helper()
	p.do(chromedp.Click(`//span[@aria-label="Columns"]//label[contains(., "`+column+`")]`, chromedp.BySearch))
}

// The columns of the executions are chosen, kept by the browser, and need no storage while nothing is chosen.
func TestColumnsAreChosen(t *testing.T) {
	n := shared(t)
	submit(t, n, "core.echo", map[string]any{}, map[string]any{"labels": map[string]any{"test": "columns"}, "session": "of-columns", "wait_seconds": 10})
	p := open(t, n, "/console/executions?label=test%3Dcolumns")
	p.until("one row", func() bool { return p.count("tbody tr") == 1 })
	require.Equal(t, "0", p.value("localStorage.length"))
	require.NotContains(t, p.text("thead"), "Session")
	p.click("Columns")
	p.accessible("the choice of columns")
	p.picture("executions-columns")
	p.chooses("Session")
	p.shows("thead", "Session")
	p.shows("tbody", "of-columns")
	p.chooses("Error")
	p.until("no errors", func() bool { return !strings.Contains(p.text("thead"), "Error") })
	for _, column := range []string{"Labels", "Requested by", "Priority", "Attempt", "Retries", "Version", "Ended"} {
		p.chooses(column)
	}
	p.shows("tbody", "test=columns")
	p.do(chromedp.KeyEvent(kb.Escape))
	p.until("closed", func() bool { return p.count(".columns .pop") == 0 })
	require.Equal(t, "Columns", p.value("document.activeElement.innerText"))
	p.looks("executions-all-columns")
	require.Equal(t, "true", p.value("(({scrollWidth, clientWidth}) => scrollWidth > clientWidth)(document.querySelector('.wide'))"), "all columns have more width than the page")
	require.Equal(t, "?label=test%3Dcolumns", p.value("location.search"))

	p.do(chromedp.Reload())
	p.shows("thead", "Session")
	require.NotContains(t, p.text("thead"), "Error")
	p.click("Columns")
	p.click("As without a choice")
	p.shows("thead", "Error")
	require.Equal(t, "0", p.value("localStorage.length"))

	p.visit("/console/workers?pool=python")
	p.shows("tbody", "n1/python/0")
	p.click("Columns")
	p.chooses("Runtime")
	p.chooses("Grade")
	p.shows("thead", "Runtime")
	require.NotContains(t, p.text("thead"), "Grade")
	p.do(chromedp.KeyEvent(kb.Escape))
	p.looks("workers-columns")
	p.click("Columns")
	p.click("As without a choice")
}

// Lists of rows of different heights are windows too: of many dead letters, and of sessions, some are drawn, and all can be reached.
func TestOtherLongListsDrawAWindow(t *testing.T) {
	store := servers.RoomyPostgres(t)
	pack := t.TempDir()
	write(t, pack, "pack.yaml", "name: many\nversion: 1.0.0\npools:\n  - {name: own, runtime: go, workers: 200}\n")
	write(t, pack, "actions/noop.yaml", "name: noop\nruntime: go\npool: own\nentrypoint: core.noop\n")
	n := on(t, "n1", store, "--packs", pack)
	require.NoError(t, servers.Execute(store, `INSERT INTO dead_letter (at, execution, attempt, action, worker, queue, reason, resolution)
		SELECT now(), NULL, 1, 'core.fail', '', 'q', CASE WHEN i % 7 = 0 THEN repeat('a reason of several lines ', 8) ELSE 'malformed' END, 'quarantined: it is no JSON' FROM generate_series(1, 950) AS i`))
	require.NoError(t, servers.Execute(store, `INSERT INTO session (pool, session, epoch, worker_slot, touched_at) SELECT 'go', 'of-a-window-' || i, 1, 0, now() FROM generate_series(1, 150) AS i`))
	p := open(t, n, "/console/dead-letters")
	for rows := 100; rows < 950; rows += 100 {
		p.shows(".foot", fmt.Sprintf("%d rows", rows))
		p.loadsMore()
	}
	p.shows(".foot", "950 rows: all there are")
	p.drawsAWindow()
	p.do(chromedp.Evaluate("scrollTo(0, document.body.scrollHeight)", nil))
	p.until("the last", func() bool {
		return p.value("[...document.querySelectorAll('tbody tr:not(.gap) a')].at(-1).innerText") == "1"
	})
	p.do(chromedp.EmulateViewport(360, 800), chromedp.Evaluate("scrollTo(0, 0)", nil))
	p.drawsAWindow()
	p.do(chromedp.EmulateViewport(1280, 800))

	p.visit("/console/sessions?q=of-a-window")
	p.shows(".foot", "100 rows")
	p.loadsMore()
	p.shows(".foot", "150 rows: all there are")
	p.drawsAWindow()

	require.NoError(t, servers.Execute(store, `INSERT INTO journal (incarnation, number, at, kind, subject, what) SELECT incarnation, 1000000 + i, now(), 'server', 'a-window', 'of a window ' || i
		FROM generate_series(1, 150) AS i, (SELECT incarnation FROM node LIMIT 1) AS n`))
	p.visit("/console/history?subject=a-window")
	p.shows(".foot", "100 rows")
	p.loadsMore()
	p.shows(".foot", "150 rows: all there are")
	p.drawsAWindow()

	require.NoError(t, servers.Execute(store, `INSERT INTO journal (incarnation, number, at, kind, subject, what) SELECT incarnation, 2000000 + i, now() - i * interval '1 s', 'mark', 'window-' || i, 'mark'
		FROM generate_series(1, 150) AS i, (SELECT incarnation FROM node LIMIT 1) AS n`))
	p.visit("/console/changes")
	p.shows(".foot", "100 rows")
	p.loadsMore()
	p.shows(".foot", "rows: all there are")
	below := []string{"document.body.scrollHeight / 2", "document.body.scrollHeight - 1200"} // the ledger stands above the list
	p.drawsAWindow(below...)
	p.do(chromedp.EmulateViewport(360, 800))
	p.drawsAWindow(below...)
	p.do(chromedp.EmulateViewport(1280, 800), chromedp.Evaluate("scrollTo(0, 0)", nil))
	p.click("Columns")
	p.chooses("Kind")
	p.until("no kinds", func() bool { return !strings.Contains(p.text("thead"), "Kind") })
	p.click("As without a choice")

	require.NoError(t, servers.Execute(store, `INSERT INTO node SELECT (jsonb_populate_record(n, jsonb_build_object('incarnation', '00000000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'), 'name', 'of-before', 'state', 'dead'))).*
		FROM node AS n, generate_series(1, 150) AS i`))
	p.visit("/console/nodes")
	p.until("all its incarnations", func() bool {
		return p.value("document.querySelector('table.list')?.getAttribute('aria-rowcount')") == "151"
	})
	p.drawsAWindow()

	p.visit("/console/workers?pool=many.own")
	p.shows(".foot", "200 rows: all there are")
	p.drawsAWindow()
	p.do(chromedp.Evaluate("scrollTo(0, document.body.scrollHeight)", nil))
	p.until("the last", func() bool {
		return p.value("[...document.querySelectorAll('tbody tr:not(.gap)')].at(-1).querySelector('a').innerText") == "n1/many.own/199"
	})
	p.looks("workers-many")
}

// loadsMore loads the next page once the button rests: rows that are drawn for the first time are measured, which moves it.
func (p *page) loadsMore() {
	p.t.Helper()
	p.do(chromedp.ScrollIntoView(button("Load more"), chromedp.BySearch))
	p.rests(button("Load more"))
	p.click("Load more")
}

// drawsAWindow scrolls through a list: rows are on the screen wherever it is, and few are drawn. Places are where else than usual.
func (p *page) drawsAWindow(places ...string) {
	p.t.Helper()
	if len(places) == 0 {
		places = []string{"0", "2500", "document.body.scrollHeight / 2", "document.body.scrollHeight - 1200"}
	}
	for _, place := range places {
		p.do(chromedp.Evaluate("scrollTo(0, "+place+")", nil))
		p.until("drawn rows on the screen at "+place, func() bool {
			return p.value(`document.elementFromPoint(innerWidth / 2, 500)?.closest('tr:not(.gap)') !== null`) == "true"
		})
		require.LessOrEqual(p.t, p.count("table.list tbody tr:not(.gap)"), 60)
	}
}
