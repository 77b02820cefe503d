package health

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the table of docs/health.md anew")

const page = "../../docs/health.md"

// thresholdsTable is what lowers a grade, by the defaults.
func thresholdsTable() string {
	d := Defaults()
	rows := []struct {
		cause                         Causes
		what, window, degraded, worst string
	}{
		{HeartbeatStale, "age of the heartbeat", "now", "", fmt.Sprintf("older than %s: three intervals of the worker's own node", d.Heartbeat)},
		{FailuresInRow, "worker faults and failed probes in a row", "until one succeeds", fmt.Sprint(d.FailuresDegraded), fmt.Sprint(d.FailuresUnhealthy)},
		{QueueDepth, "placements that wait on the worker", "now", fmt.Sprint(d.QueueDepthDegraded), fmt.Sprint(d.QueueDepthUnhealthy)},
		{FailureRate, "share of worker faults", fmt.Sprintf("its last %d executions, once %d have ended", RateWindow, RateMin),
			fmt.Sprint(d.FailureRateDegraded), fmt.Sprint(d.FailureRateUnhealthy)},
		{StateDegraded, "the state degraded of its lifecycle", "until a probe succeeds", "always", ""},
		{Reported, "for a worker of another node: the grade that its own node reports", "its last report", "as reported", "as reported"},
		{HeartbeatFuture, "a heartbeat ahead of the store's clock", "now", "", ""},
	}
	text := "| cause | value | over | degraded from | unhealthy from |\n|---|---|---|---|---|\n"
	for _, r := range rows {
		text += fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", r.cause, r.what, r.window, r.degraded, r.worst)
	}
	return text
}

// TestThePageHasTheThresholds: docs/health.md has every cause, with the defaults of the code.
func TestThePageHasTheThresholds(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(page)
	require.NoError(t, err)
	block := regexp.MustCompile(`(?s)(<!-- thresholds: rendered from rules/health -->\n).*?(<!-- thresholds: end -->)`)
	require.True(t, block.Match(raw))
	want := block.ReplaceAllString(string(raw), "${1}"+thresholdsTable()+"${2}")
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(raw), "run go test ./rules/health -update")
	for _, name := range causeNames {
		require.Contains(t, string(raw), "`"+name+"`")
	}
}
