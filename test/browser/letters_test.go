package browser

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/test/servers"
)

// Dead letters that a filter has are requeued, and a chosen one is discarded, each after a preview that says what is skipped.
func TestManyDeadLettersAreHandled(t *testing.T) {
	store := servers.RoomyPostgres(t)
	n := on(t, "n1", store)
	more := map[string]any{"wait_seconds": 10}
	var ids []string
	values := "(now(), NULL, 1, 'core.fail', '', 'q', 'expired', 'failed')"
	for range 2 {
		ids = append(ids, submit(t, n, "core.fail", map[string]any{"message": "no"}, more).ID)
		values += fmt.Sprintf(", (now(), '%s', 1, 'core.fail', '', 'q', 'expired', 'failed')", ids[len(ids)-1])
	}
	require.NoError(t, servers.Execute(store, "INSERT INTO dead_letter (at, execution, attempt, action, worker, queue, reason, resolution) VALUES "+values+
		", (now(), NULL, 1, '', '', 'q', 'malformed', 'quarantined: it is no JSON')"))

	p := open(t, n, "/console/dead-letters?reason=expired")
	p.until("three rows", func() bool { return p.count("tbody tr") == 3 })
	p.click("Requeue…")
	p.shows("dialog[open] h2", "Requeue 2 dead letters?")
	p.shows("dialog[open]", "expired 2")
	p.shows("dialog[open]", "1 names no execution")
	p.looks("letters-preview")
	p.do(chromedp.SendKeys("dialog[open] input", "the queue is back"))
	p.click("Requeue them")
	p.shows(".state", "done")
	p.shows(".facts", "reason=expired")
	p.shows("main", "Skipped: 1 names no execution.")
	for _, id := range ids {
		require.NotEmpty(t, ask[retriedExecution](t, n, http.MethodGet, "/api/v1/executions/"+id, nil).RetriedAs)
	}

	p.visit("/console/dead-letters")
	p.until("four rows", func() bool { return p.count("tbody tr") == 4 })
	require.Equal(t, 2, p.count("tbody input:disabled"), "what is handled is not chosen")
	require.Equal(t, "true", p.value("document.querySelector('.bulk button').ariaDisabled"), "without a filter nothing is requeued")
	p.click("Requeue…")
	p.shows(".notices", "Set a filter or choose rows first")
	p.do(chromedp.Click("tbody input", chromedp.ByQuery))
	p.shows(".bulk", "1 chosen")
	p.looks("letters-chosen")
	p.click("Discard…")
	p.shows("dialog[open] h2", "Discard 1 dead letter?")
	p.shows("dialog[open]", "malformed 1")
	p.click("Discard them")
	p.shows(".state", "done")
	p.shows(".facts", "1 chosen dead letter")
	p.visit("/console/dead-letters?resolution=discarded")
	p.until("one row", func() bool { return p.count("tbody tr") == 1 })
	p.visit("/console/dead-letters?reason=malformed&reason=expired&not.resolution=discarded")
	p.until("three rows", func() bool { return p.count("tbody tr") == 3 })
	p.do(chromedp.Click(`[aria-label="Turn reason:expired round"]`))
	p.until("none but the discarded one, which is left out", func() bool { return strings.Contains(p.text("main"), "No dead letter has all of these filters") })
	require.Equal(t, "?reason=malformed&not.reason=expired&not.resolution=discarded", p.value("location.search"))
}

// What somebody has opened stays open while the page asks again.
func TestTheBodyOfADeadLetterStaysOpen(t *testing.T) {
	store := servers.RoomyPostgres(t)
	n := on(t, "n1", store)
	require.NoError(t, servers.Execute(store, "INSERT INTO dead_letter (at, execution, attempt, action, worker, queue, reason, body, resolution) VALUES (now(), NULL, 1, '', '', 'q', 'malformed', 'the whole body', 'failed')"))
	p := open(t, n, "/console/dead-letters/1")
	p.shows("summary", "Show it")
	p.shows(".why", "What to do: Check")
	p.looks("letter")
	p.click("Pause") // asked for once, so that what comes next is another answer
	p.do(chromedp.Click("main details > summary"))
	p.shows("main details[open]", "the whole body")
	p.click("Resume")
	require.NoError(t, servers.Execute(store, "UPDATE dead_letter SET resolution = 'seen'"))
	p.shows(".facts", "seen")
	p.shows("main details[open]", "the whole body")
	p.do(chromedp.Click("main details > summary"))
	require.NoError(t, servers.Execute(store, "UPDATE dead_letter SET resolution = 'seen again'"))
	p.shows(".facts", "seen again")
	require.Zero(t, p.count("main details[open]"))
}
