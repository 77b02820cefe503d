package browser

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// retriedExecution is an execution with its retry.
type retriedExecution struct {
	RetriedAs string `json:"retried_as"`
}

// All that match a filter are retried: first the preview, then the page of the operation, which outlives the page of the list.
func TestManyAreRetriedAfterAPreview(t *testing.T) {
	n := shared(t)
	label := map[string]any{"labels": map[string]any{"test": "bulk"}, "wait_seconds": 10}
	var failed []execution
	for range 3 {
		failed = append(failed, submit(t, n, "core.fail", map[string]any{"message": "no", "code": "boom"}, label))
	}
	p := open(t, n, "/console/executions?label=test%3Dbulk")
	p.until("three rows", func() bool { return p.count("tbody tr") == 3 })
	p.click("Retry…")
	p.shows("dialog[open] h2", "Retry 3 executions?")
	p.shows("dialog[open]", "core.fail 3")
	p.looks("bulk-preview")
	p.click("Leave them")
	p.until("the dialog is closed", func() bool { return p.count("dialog[open]") == 0 })
	for _, e := range failed {
		require.Empty(t, ask[retriedExecution](t, n, http.MethodGet, "/api/v1/executions/"+e.ID, nil).RetriedAs, "a preview changes nothing")
	}
	p.click("Retry…")
	p.shows("dialog[open] h2", "Retry 3 executions?")
	p.do(chromedp.SendKeys("dialog[open] input", "the tide is in"))
	p.click("Retry them")
	p.shows(".state", "done")
	p.shows(".facts", "the tide is in")
	p.shows(".facts", "label=test=bulk")
	p.looks("operation")
	require.True(t, strings.HasPrefix(p.value("location.pathname"), "/console/operations/"))
	for _, e := range failed {
		require.NotEmpty(t, ask[retriedExecution](t, n, http.MethodGet, "/api/v1/executions/"+e.ID, nil).RetriedAs)
	}
	p.do(chromedp.Reload())
	p.shows(".state", "done")
	p.do(chromedp.Click("//a[text()='All operations']", chromedp.BySearch))
	p.shows("tbody", "the tide is in")
	p.looks("operations")
	p.visit("/console/operations?to=2020-01-01T00:00:00Z")
	p.shows("main", "No operation is of this time")
	p.visit("/console/operations?from=-1h")
	p.shows("tbody", "the tide is in")
}

// Rows are chosen one by one; above a hundred, the number is typed; and what was not confirmed is left alone.
func TestChosenRowsAndManyAreCancelled(t *testing.T) {
	n := shared(t)
	var batch []map[string]any
	for range 101 {
		batch = append(batch, map[string]any{"action_ref": "core.noop", "labels": map[string]any{"test": "bulk-cancel"}, "run_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)})
	}
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/executions/batch", map[string]any{"executions": batch})
	p := open(t, n, "/console/executions?label=test%3Dbulk-cancel&status=requested")
	p.until("rows", func() bool { return p.count("tbody tr:not(.gap)") > 10 })
	p.click("Cancel…")
	p.shows("dialog[open] h2", "Cancel 101 executions?")
	require.Equal(t, "true", p.value("[...document.querySelectorAll('dialog[open] button')].at(-1).disabled"), "the number is to be typed")
	p.do(chromedp.SendKeys("#bulk-typed", "101"))
	p.until("the number is typed", func() bool {
		return p.value("[...document.querySelectorAll('dialog[open] button')].at(-1).disabled") == "false"
	})
	p.click("Leave them")
	p.until("the dialog is closed", func() bool { return p.count("dialog[open]") == 0 })

	p.do(chromedp.Click("tbody input[type=checkbox]", chromedp.ByQuery))
	p.shows(".bulk", "1 chosen")
	p.looks("bulk-chosen")
	p.click("Cancel…")
	p.shows("dialog[open] h2", "Cancel 1 execution?")
	p.click("Cancel them")
	p.shows(".state", "done")
	p.shows(".facts", "1 chosen execution")
	p.visit("/console/executions?label=test%3Dbulk-cancel&status=cancelled")
	p.until("one row", func() bool { return p.count("tbody tr") == 1 })

	p.visit("/console/executions")
	p.until("rows", func() bool { return p.count("tbody tr") > 0 })
	require.Equal(t, "true", p.value("document.querySelector('.bulk button').ariaDisabled"), "without a filter nothing is retried")
}
