package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/test/servers"
)

// New rows push old ones off the first page of a list. Where the pages behind it are shown too, rows neither vanish nor repeat, also when
// more than a page of new ones come at once. What somebody does with a row that is not on the first page is seen.
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
	more(20)
	p.shows(".foot", "150 rows: all there are")
	p.click("Pause")
	more(120)
	p.click("Resume")
	p.shows(".foot", "270 rows: all there are")
	require.Equal(t, "270", p.value("document.querySelector('table').getAttribute('aria-rowcount')"), "none is there twice")

	p.do(chromedp.Evaluate("scrollTo(0, document.body.scrollHeight)", nil))
	p.shows("tbody tr:last-child", "failed")
	require.NoError(t, servers.Execute(store, "UPDATE dead_letter SET resolution = 'seen' WHERE id = 2"))
	p.do(chromedp.ScrollIntoView(`//tr[.//a[@href="dead-letters/1"]]//button[contains(., "Discard")]`, chromedp.BySearch))
	p.rests(`//tr[.//a[@href="dead-letters/1"]]//button[contains(., "Discard")]`)
	p.do(chromedp.Click(`//tr[.//a[@href="dead-letters/1"]]//button[contains(., "Discard")]`, chromedp.BySearch))
	p.do(chromedp.Click(`//dialog[@open]//button[contains(., "Discard")]`, chromedp.BySearch))
	p.shows(`tr:has(a[href="dead-letters/1"])`, "discarded")
	p.shows(`tr:has(a[href="dead-letters/2"])`, "seen")
	p.shows(".foot", "270 rows: all there are")
	p.do(chromedp.Evaluate("scrollTo(0, 0)", nil))
	p.shows("tbody", "270")
}
