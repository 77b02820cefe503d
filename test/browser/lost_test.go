package browser

import "testing"

// When the node is gone, the overview greys all that it shows, and one banner says since when, also once the charts have asked in vain.
func TestTheLostOverviewIsGrey(t *testing.T) {
	apart(t)
	n := start(t)
	p := open(t, n, "/console/")
	p.shows(".verdict", "Nothing is wrong")
	p.until("charts", func() bool { return p.count(".charts svg, .charts canvas") > 0 })
	p.cutOff()
	n.kill()
	p.shows(".lost", "The node does not answer")
	p.until("all is grey", func() bool {
		return p.value(`[...document.querySelectorAll('main .verdict, main .facts, main .charts, main .tile, main .card')]
			.filter((e) => !getComputedStyle(e.closest('.stale') ?? e).filter.includes('grayscale')).length`) == "0"
	})
	p.until("the charts have asked in vain", func() bool {
		return p.value(`performance.getEntriesByType('resource').some((e) => e.name.includes('/api/v1/series') && e.responseStatus === 0)`) == "true"
	})
	p.until("one banner", func() bool { return p.count(".trouble") == 1 })
	p.looks("overview-lost")
}
