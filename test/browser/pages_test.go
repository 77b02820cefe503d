package browser

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/test/servers"
)

// A row that is on the screen is fresh, whichever page of the list it came from, and whoever changed it. One that is gone goes.
func TestRowsBehindTheFirstPageAreFresh(t *testing.T) {
	apart(t)
	store := servers.RoomyPostgres(t)
	n := on(t, "n1", store)
	require.NoError(t, servers.Execute(store, `INSERT INTO dead_letter (at, execution, attempt, action, worker, queue, reason, resolution)
		SELECT now(), NULL, 1, 'core.fail', '', 'q', 'malformed', 'failed' FROM generate_series(1, 350)`))
	p := open(t, n, "/console/dead-letters")
	for rows := 100; rows < 350; rows += 100 {
		p.shows(".foot", fmt.Sprintf("%d rows so far", rows))
		p.loadsMore()
	}
	p.shows(".foot", "350 rows: all there are")
	for _, id := range []int{2, 130, 245} { // of the last page, and of those between
		p.do(chromedp.Evaluate(fmt.Sprintf("scrollTo(0, document.body.scrollHeight * %d / 350 - 400)", 350-id), nil))
		row := fmt.Sprintf(`tr:has(a[href="dead-letters/%d"])`, id)
		p.shows(row, "failed")
		require.NoError(t, servers.Execute(store, fmt.Sprintf("UPDATE dead_letter SET resolution = 'seen' WHERE id = %d", id)))
		p.shows(row, "seen")
		require.NoError(t, servers.Execute(store, fmt.Sprintf("DELETE FROM dead_letter WHERE id = %d", id)))
		p.until("it goes", func() bool { return p.count(row) == 0 })
	}
	p.shows(".foot", "347 rows: all there are")
	require.NoError(t, servers.Execute(store, `INSERT INTO dead_letter (at, execution, attempt, action, worker, queue, reason, resolution)
		SELECT now(), NULL, 1, 'core.fail', '', 'q', 'malformed', 'failed' FROM generate_series(1, 160)`))
	p.shows(".newer", "160 newer: show")
	require.Contains(t, p.text(".foot"), "347 rows: all there are")
	p.click("newer: show")
	p.shows(".foot", "507 rows: all there are")
	p.do(chromedp.Evaluate("scrollTo(0, document.body.scrollHeight * 150 / 507 - 400)", nil))
	p.shows("tr:has(a[href='dead-letters/360'])", "failed") // it was pushed off the first page, and is of none that somebody loaded
	require.NoError(t, servers.Execute(store, "UPDATE dead_letter SET resolution = 'seen' WHERE id = 360"))
	p.shows("tr:has(a[href='dead-letters/360'])", "seen")
}

// Of a list only the pages whose rows are on the screen are read again.
func TestOnlyPagesOnTheScreenAreReadAgain(t *testing.T) {
	apart(t)
	store := servers.RoomyPostgres(t)
	n := on(t, "n1", store)
	const id = `('00000000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid`
	require.NoError(t, servers.Execute(store, `INSERT INTO webhook (id, url, destination, outcomes, state, tries, since, code, error, ended_at)
		SELECT `+id+`, 'http://x.example/a' || i, 'x.example', 0, 4, 1, now() - interval '1 day' + i * interval '1 s', 500, '', now() FROM generate_series(1, 450) i`))
	require.NoError(t, servers.Execute(store, `INSERT INTO operation (id, kind, filter, seq_max, count, exact, by, reason, rate, state, created_at, expires_at, started_at, ended_at, done, skipped, failed, problem, cursor, epoch)
		SELECT `+id+`, 'retry', '{"status":["failed"]}', 1, 1, true, 'a' || i, '', 1, 'done', now(), now() + interval '1 day', now() - interval '1 day' - i * interval '1 s', now(), 1, 0, 0, '', 0, 0 FROM generate_series(1, 450) i`))
	for list, change := range map[string]string{"webhooks": "UPDATE webhook SET url = 'http://x.example/%s' WHERE id = (SELECT id FROM webhook ORDER BY since DESC LIMIT 1)",
		"operations": "UPDATE operation SET by = '%s' WHERE id = (SELECT id FROM operation ORDER BY created_at, id LIMIT 1)"} {
		p := open(t, n, "/console/"+list)
		for rows := 100; rows < 450; rows += 100 {
			p.shows(".foot", fmt.Sprintf("%d rows so far", rows))
			p.loadsMore()
		}
		p.shows(".foot", "450 rows: all there are")
		p.do(chromedp.Evaluate("scrollTo(0, document.body.scrollHeight)", nil))
		for i, now := range []string{"changed", "changed-again", "changed-at-last"} {
			require.NoError(t, servers.Execute(store, fmt.Sprintf(change, now)))
			p.shows("tbody", now)
			if i == 0 {
				p.do(chromedp.Evaluate("performance.clearResourceTimings()", nil))
			}
		}
		read := p.value(`[...new Set(performance.getEntriesByType('resource').map((e) => /` + list + `.*cursor=(.*)/.exec(e.name)?.[1]).filter(Boolean))].length`)
		require.Contains(t, []string{"1", "2"}, read, "of four pages behind the first one of %s", list)
	}
}

// More executions may go on than one stream follows by their ids: those on the screen are followed.
func TestExecutionsFarBelowAreFresh(t *testing.T) {
	apart(t)
	n := start(t)
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/pools/go/cordon", nil)
	first := labelled(t, n, "below")
	for range 340 {
		labelled(t, n, "below")
	}
	p := open(t, n, "/console/executions?label=test%3Dbelow")
	for rows := 100; rows < 341; rows += 100 {
		p.shows(".foot", fmt.Sprintf("%d rows", rows))
		p.do(chromedp.ScrollIntoView(button("Load older"), chromedp.BySearch))
		p.rests(button("Load older"))
		p.click("Load older")
	}
	p.shows(".foot", "341 rows: all there are")
	p.do(chromedp.Evaluate("scrollTo(0, document.body.scrollHeight)", nil))
	row := fmt.Sprintf(`tr:has(a[title="%s"])`, first.ID)
	p.shows(row, "requested")
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/executions/"+first.ID+"/cancel", nil)
	p.shows(row, "cancelled")
	require.Equal(t, "3", p.value(calls), "only what somebody loaded was asked for")
}

// Where no stream is to be had, executions on the screen are asked for again with their page, and one by one where they fit the filter no more.
func TestExecutionsFarBelowAreFreshWithoutAStream(t *testing.T) {
	apart(t)
	n := start(t)
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/pools/go/cordon", nil)
	first := labelled(t, n, "below")
	second := labelled(t, n, "below")
	for range 240 {
		labelled(t, n, "below")
	}
	var streams atomic.Int64
	full := before(t, n, func(w http.ResponseWriter, _ *http.Request) {
		streams.Add(1)
		http.Error(w, `{"error":{"code":"too_many","message":"there are too many streams"}}`, http.StatusTooManyRequests)
	})
	for i, e := range []execution{first, second} {
		p := open(t, full, "/console/executions?label=test%3Dbelow"+[]string{"", "&status=requested"}[i], "429")
		for rows := 100; rows < 242-i; rows += 100 {
			p.shows(".foot", fmt.Sprintf("%d rows", rows))
			p.do(chromedp.ScrollIntoView(button("Load older"), chromedp.BySearch))
			p.rests(button("Load older"))
			p.click("Load older")
		}
		p.shows(".foot", fmt.Sprintf("%d rows: all there are", 242-i))
		p.do(chromedp.Evaluate("scrollTo(0, document.body.scrollHeight)", nil))
		row := fmt.Sprintf(`tr:has(a[title="%s"])`, e.ID)
		p.shows(row, "requested")
		require.Positive(t, streams.Load())
		ask[map[string]any](t, n, http.MethodPost, "/api/v1/executions/"+e.ID+"/cancel", nil)
		p.shows(row, "cancelled")
	}
}

// tops is where the first row of a list is, at the widths of telephones, of what lies between, and of a desk.
func (p *page) tops() map[int64]string {
	p.t.Helper()
	places := map[int64]string{}
	for _, width := range []int64{320, 360, 390, 430, 640, 820, 1280} {
		p.do(chromedp.EmulateViewport(width, 800), chromedp.Evaluate("scrollTo(0, 0)", nil))
		p.rests(`//tbody/tr[not(contains(@class, "gap"))]`)
		places[width] = p.value(`document.querySelector("tbody tr:not(.gap)").getBoundingClientRect().top + scrollY`)
	}
	return places
}

// reachable is whether an element can have the focus.
func (p *page) reachable(selector string) bool {
	p.t.Helper()
	return p.value(fmt.Sprintf("(() => { const e = document.querySelector(%q); e?.focus(); return e && document.activeElement === e })()", selector)) == "true"
}

// The counter of newer rows has its place before it is shown: it moves no row at any width, in no list.
func TestTheCounterOfNewerRowsMovesNone(t *testing.T) {
	apart(t)
	store := servers.RoomyPostgres(t)
	n := on(t, "n1", store)
	operation := func() {
		require.NoError(t, servers.Execute(store, `INSERT INTO operation (id, kind, filter, seq_max, count, exact, by, reason, rate, state, created_at, expires_at, started_at, ended_at, done, skipped, failed, problem, cursor, epoch)
			SELECT gen_random_uuid(), 'retry', '{"status":["failed"]}', 1, 1, true, 'a', '', 1, 'done', now(), now() + interval '1 day', now(), now(), 1, 0, 0, '', 0, 0`))
	}
	for path, add := range map[string]func(){"executions?label=test%3Dtops": func() { labelled(t, n, "tops") }, "operations": operation} {
		add()
		p := open(t, n, "/console/"+path)
		p.until("one row", func() bool { return p.count("tbody tr:not(.gap)") == 1 })
		tops := p.tops()
		require.False(t, p.reachable(".newer"))
		add()
		p.shows(".newer", "1 newer: show")
		require.Equal(t, tops, p.tops(), path)
		require.True(t, p.reachable(".newer"))
		p.looks("newer-" + path[:10])
		p.rests(button("newer: show"))
		p.click("newer: show")
		p.until("two rows", func() bool { return p.count("tbody tr:not(.gap)") == 2 })
		require.Equal(t, tops, p.tops(), path)
	}
}

// New rows wait in front of a list until somebody asks for them. They push old ones off its first page; rows neither vanish nor repeat, also
// when more than a page of new ones come at once. What somebody does with a row that is not on the first page is seen.
func TestRowsThatArePushedOffTheFirstPageStay(t *testing.T) {
	apart(t)
	store := servers.RoomyPostgres(t)
	n := on(t, "n1", store)
	more := func(letters int) {
		require.NoError(t, servers.Execute(store, fmt.Sprintf(`INSERT INTO dead_letter (at, execution, attempt, action, worker, queue, reason, resolution)
			SELECT now(), NULL, 1, 'core.fail', '', 'q', 'malformed', 'failed' FROM generate_series(1, %d)`, letters)))
	}
	more(130)
	p := open(t, n, "/console/dead-letters")
	p.shows(".foot", "100 rows so far")
	p.loadsMore()
	p.shows(".foot", "130 rows: all there are")
	p.do(chromedp.Evaluate("scrollTo(0, 0)", nil))
	p.shows("tbody tr:first-child", "130")
	tops := p.tops()
	more(20)
	p.shows(".newer", "20 newer: show")
	p.shows("tbody tr:first-child", "130") // no row moves under a finger, nor does the counter move them
	require.Equal(t, tops, p.tops())
	require.Contains(t, p.text(".foot"), "130 rows: all there are")
	p.looks("letters-newer")
	p.click("newer: show")
	p.shows(".foot", "150 rows: all there are")
	require.Empty(t, strings.TrimSpace(p.text(".newer")))
	require.False(t, p.reachable(".newer"), "nothing is there to press")
	p.click("Pause")
	more(120)
	p.click("Resume")
	p.shows(".newer", "120 newer: show")
	p.click("newer: show")
	p.shows(".foot", "270 rows: all there are")
	require.Equal(t, "270", p.value("document.querySelector('table').getAttribute('aria-rowcount')"), "none is there twice")

	p.do(chromedp.Evaluate("scrollTo(0, document.body.scrollHeight)", nil))
	p.shows("tbody tr:last-child", "failed")
	require.NoError(t, servers.Execute(store, "UPDATE dead_letter SET resolution = 'seen' WHERE id = 2"))
	p.do(chromedp.ScrollIntoView(`//tr[.//a[@href="dead-letters/1"]]//button[contains(., "Discard")]`, chromedp.BySearch))
	p.rests(`//tr[.//a[@href="dead-letters/1"]]//button[contains(., "Discard")]`)
	p.do(chromedp.Click(`//tr[.//a[@href="dead-letters/1"]]//button[contains(., "Discard")]`, chromedp.BySearch))
	p.shows("dialog[open] h2", "Discard dead letter 1 of core.fail?")
	p.do(chromedp.Click(`//dialog[@open]//button[contains(., "Discard")]`, chromedp.BySearch))
	p.shows(`tr:has(a[href="dead-letters/1"])`, "discarded")
	p.shows(`tr:has(a[href="dead-letters/2"])`, "seen")
	p.shows(".foot", "270 rows: all there are")
	p.do(chromedp.Evaluate("scrollTo(0, 0)", nil))
	p.shows("tbody", "270")

	more(700) // more than wait: the list stays, whatever comes, until it begins anew
	p.shows(".newer", "more than 500 newer: show")
	require.Equal(t, tops, p.tops())
	more(300)
	require.NoError(t, servers.Execute(store, "UPDATE dead_letter SET resolution = 'seen' WHERE id = 269"))
	p.shows(`tr:has(a[href="dead-letters/269"])`, "seen")
	require.Contains(t, p.text("tbody tr:first-child"), "270")
	p.shows(".newer", "more than 500 newer: show")
	require.Contains(t, p.text(".foot"), "270 rows: all there are")
	p.click("newer: show")
	p.shows("tbody tr:first-child", "1270")
	p.shows(".foot", "100 rows so far")
	p.loadsMore()
	p.shows(".foot", "200 rows so far")
}
