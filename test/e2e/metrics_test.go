package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMetrics runs a little of everything, and then checks that each metric of a single node is there.
func TestMetrics(t *testing.T) {
	t.Parallel()
	n := start(t, options{packs: []string{"testdata/theatre"}, config: `
health: {echo_interval: 0.2}
worker: {heartbeat_interval: 0.5, heartbeat_staleness_multiplier: 50, cancel_grace: 0.2, term_grace: 0.2}
pool: {restart_intensity: 50, backoff_base: 0.05}
retry: {base_backoff_secs: 0.1}
`})
	session := object{"session": "s"}
	n.runs(t, "theatre.remember", object{"line": "a"}, session)
	n.runs(t, "theatre.remember", object{"line": "b"}, session)
	n.runs(t, "core.fail", nil)
	require.Equal(t, "timed_out", n.runs(t, "theatre.deaf", object{"do": "ignore"}, object{"timeout_seconds": 1}).text("status"))
	first := n.runs(t, "theatre.quitter", object{"do": "leave"})
	require.Equal(t, "abandoned", first.text("status"))
	e := n.runs(t, "theatre.prompt", object{"status": 75}, object{"max_retries": 1})
	require.Equal(t, "failed", n.finish(t, e.text("retried_as")).text("status"))
	// A successful retry: the second run finds the file of the first.
	e = n.runs(t, "theatre.twice", object{"mark": t.TempDir() + "/mark"}, object{"max_retries": 1})
	require.Equal(t, "completed", n.finish(t, e.text("retried_as")).text("status"))
	n.prints(t, "worker", "probe", "n1/theatre.keeper/0")

	var text string
	wants := func() []string {
		_, raw := n.raw(t, "GET", "/metrics", nil)
		text = string(raw)
		missing := []string{}
		for _, want := range []string{
			`troupe_executions_total{code="",pool="theatre.keeper",status="completed"} 2`,
			`troupe_executions_total{code="action_error",pool="go",status="failed"} 1`,
			`troupe_execution_timeouts_total{code="timeout",pool="theatre.deaf"} 1`,
			`troupe_execution_scheduling_seconds_count{pool="theatre.keeper"} 2`,
			`troupe_execution_queue_wait_seconds_count{pool="theatre.keeper"} 2`,
			`troupe_execution_run_seconds_count{pool="theatre.keeper",status="completed"} 2`,
			`troupe_worker_downtime_seconds_count{pool="theatre.quitter"} 1`,
			`troupe_workers{pool="theatre.keeper",state="ready"} 2`,
			`troupe_workers_by_grade{grade="healthy",pool="theatre.keeper"} 2`,
			`troupe_worker_transitions_total{from="initializing",pool="theatre.keeper",reason="init_complete",to="ready"} 2`,
			`troupe_worker_state_seconds_count{pool="theatre.keeper",state="initializing"} 2`,
			`troupe_probes_total{pool="theatre.keeper",result="passed"} 1`,
			`troupe_probe_seconds_count{pool="theatre.keeper"} 1`,
			`troupe_worker_restarts_total{pool="theatre.quitter"} 1`,
			`troupe_worker_restart_delay_seconds_count{pool="theatre.quitter"} 1`,
			`troupe_pool_broken{pool="theatre.ghost"} 1`,
			`troupe_pool_broken{pool="theatre.keeper"} 0`,
			`troupe_dead_letter_queue_messages 0`,
			`troupe_dead_letter_seconds_count 0`,
			`troupe_retries_total{code="exit_status",pool="shell",reason="exit_status"} 2`,
			`troupe_retries_succeeded_total{pool="shell",reason="exit_status"} 1`,
			`troupe_session_affinity_total{pool="theatre.keeper",`,
			`troupe_placements_total{grade="healthy",pool="theatre.keeper"} 2`,
			`troupe_router_batch_placements_count{pool="theatre.keeper"} 2`,
			`troupe_store_batch_changes_count`, `troupe_store_transaction_seconds_count`,
			`troupe_dispatch_echo_seconds_count{pool="theatre.keeper"}`,
			`troupe_actors `, `troupe_mailbox_messages `,
		} {
			if !strings.Contains(text, want) {
				missing = append(missing, want)
			}
		}
		return missing
	}
	await(t, "every metric is there", func() bool {
		missing := wants()
		return len(missing) == 0 || t.Failed()
	})
	require.NotContains(t, text, e.text("id"), "no id is a label")
	require.NoError(t, n.stop())
}
