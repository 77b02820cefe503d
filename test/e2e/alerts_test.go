package e2e

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/rules/alerts"
)

// scrape is what one scrape of a node shows: values by series.
type scrape map[string]string

var sampleLine = regexp.MustCompile(`(?m)^([a-z_]+(?:\{.*\})?) (\S+)$`)

func (n *node) scrape(t *testing.T) scrape {
	t.Helper()
	_, page := n.raw(t, "GET", "/metrics", nil)
	series := scrape{}
	for _, m := range sampleLine.FindAllStringSubmatch(string(page), -1) {
		series[m[1]] = m[2]
	}
	return series
}

// has reports whether there is a series whose name and labels begin so.
func (s scrape) has(name string) bool {
	for series := range s {
		if strings.HasPrefix(series, name) {
			return true
		}
	}
	return false
}

// set returns the course of all series for half an hour: those that the pattern matches take the values, in promtool's notation,
// and the others stay. A pattern that matches nothing is an error: the program makes no such series.
func (s scrape) set(t *testing.T, changes map[string]string) scrape {
	t.Helper()
	course := scrape{}
	for name, value := range s {
		course[name] = value + "x120"
	}
	for pattern, values := range changes {
		matches, found := regexp.MustCompile("^"+pattern), false
		for name := range s {
			if matches.MatchString(name) {
				course[name], found = values, true
			}
		}
		require.True(t, found, "the node shows no series %s", pattern)
	}
	return course
}

// alertCase is a course of the node's series, and the alerts that fire after 25 minutes of it.
type alertCase struct {
	name    string
	changes map[string]string // by a pattern of series
	fires   []string          // keys of rules
}

const (
	steady0, steady1 = "0x120", "1x120"
	goPool           = `\{.*pool="go".*`
)

// shareOf has so many of ten workers of a pool unhealthy.
func shareOf(unhealthy int) map[string]string {
	return map[string]string{
		`troupe_workers_by_grade\{grade="unhealthy",pool="go"`: fmt.Sprintf("%dx120", unhealthy),
		`troupe_workers_by_grade\{grade="healthy",pool="go"`:   fmt.Sprintf("%dx120", 10-unhealthy),
	}
}

// retriesOf has so many retries made for each ten executions that end.
func retriesOf(retries int) map[string]string {
	return map[string]string{
		`troupe_executions_total\{code="queue_timeout",pool="go",status="failed"`: "0+10x120",
		`troupe_retries_total\{code="queue_timeout",pool="go"`:                    fmt.Sprintf("0+%dx120", retries),
	}
}

var alertCases = []alertCase{
	{"nothing is wrong", nil, nil},
	{"the store is away", map[string]string{"troupe_store_up": steady0}, []string{"store_away critical"}},
	{"the store was away for a moment", map[string]string{"troupe_store_up": "1x99 0 1x20"}, nil},
	{"the broker is away", map[string]string{"troupe_broker_up": steady0}, []string{"broker_away critical"}},
	{"the broker is blocked", map[string]string{"troupe_broker_blocked": steady1}, []string{"broker_blocked critical"}},
	{"outcomes are not stored", map[string]string{"troupe_recorder_uncommitted_seconds": "31x120"}, []string{"recorder_stalled critical"}},
	{"outcomes are stored late", map[string]string{"troupe_recorder_uncommitted_seconds": "30x120"}, nil},
	{"transactions are slow", map[string]string{
		`troupe_store_transaction_seconds_bucket\{le="0\.`:       steady0,
		`troupe_store_transaction_seconds_bucket\{le="(2|10|\+)`: "0+10x120",
	}, []string{"store_slow warning"}},
	{"notices are late", map[string]string{"troupe_notices_oldest_seconds": "61x120"}, []string{"outbox_behind warning"}},
	{"webhooks are late", map[string]string{"troupe_webhooks_oldest_seconds": "901x120"}, []string{"webhooks_behind warning"}},
	{"webhooks have waited for long", map[string]string{"troupe_webhooks_oldest_seconds": "900x120"}, nil},
	{"the clock is ahead", map[string]string{"troupe_clock_ahead_seconds": "1.5x120"}, []string{"clock_skew warning"}},
	{"the clock is behind", map[string]string{"troupe_clock_ahead_seconds": "-1.5x120"}, []string{"clock_skew warning"}},
	{"no worker", map[string]string{`troupe_workers_by_grade` + goPool: steady0}, []string{"no_active_workers critical"}},
	{"only unhealthy workers", shareOf(10), []string{"no_active_workers critical", "unhealthy_workers critical", "unhealthy_workers warning"}},
	{"most workers are unhealthy", shareOf(8), []string{"unhealthy_workers critical", "unhealthy_workers warning"}},
	{"several workers are unhealthy", shareOf(7), []string{"unhealthy_workers warning"}},
	{"few workers are unhealthy", shareOf(3), nil},
	{"a pool is broken", map[string]string{"troupe_pool_broken" + goPool: steady1}, []string{"pool_broken critical"}},
	{"workers die", map[string]string{"troupe_worker_restarts_total" + goPool: "0+2x120"}, []string{"workers_restarting warning"}},
	{"a worker dies now and then", map[string]string{"troupe_worker_restarts_total" + goPool: "0+1x120"}, nil},
	{"a session's state is set aside", map[string]string{"troupe_session_states_aside" + goPool: steady1}, []string{"session_state_broken warning"}},
	{"an echo is late", map[string]string{"troupe_dispatch_echo_late_total" + goPool: "0x96 1x24"}, []string{"dispatch_late warning"}},
	{"many timeouts", map[string]string{`troupe_execution_timeouts_total\{code="timeout",pool="go"`: "0+3x120"}, []string{"high_execution_timeout_rate warning"}},
	{"some timeouts", map[string]string{`troupe_execution_timeouts_total\{code="timeout",pool="go"`: "0+2x120"}, nil},
	{"most is tried again", retriesOf(6), []string{"retry_rate critical", "retry_rate warning"}},
	{"much is tried again", retriesOf(3), []string{"retry_rate warning"}},
	{"little is tried again", retriesOf(2), nil},
	{"an execution does not start", map[string]string{"troupe_executions_stale_seconds" + goPool: "0+15x120"}, []string{"stale_executions warning"}},
	{"dead letters lie", map[string]string{"troupe_dead_letter_queue_messages": "101x120"}, []string{"dlq_buildup critical", "dlq_buildup warning"}},
	{"dead letters came just now", map[string]string{"troupe_dead_letter_queue_messages": "0x95 101x25"}, []string{"dlq_buildup warning"}},
	{"dead letters wait", map[string]string{"troupe_dead_letter_queue_messages": "100x120"}, nil},
	{"many dead letters", map[string]string{`troupe_dead_letters_total`: "0+3x120"}, []string{"dlq_rate warning"}},
	{"a node was lost", map[string]string{"troupe_nodes_lost_recently": steady1}, []string{"node_lost critical"}},
	{"heartbeats are late", map[string]string{"troupe_heartbeat_age_seconds": "31x120"}, []string{"heartbeat_late warning"}},
	{"its workers get no work", map[string]string{"troupe_workers_unattached" + goPool: steady1}, []string{"workers_unattached critical", "workers_unattached warning"}},
	{"an execution is poisoned", map[string]string{`troupe_executions_total\{code="poisoned",pool="go",status="failed"`: "0+1x120"}, []string{"executions_poisoned warning"}},
	{"an actor is stuck", map[string]string{"troupe_stuck_actors": steady1}, []string{"actor_stuck warning"}},
}

// promtool is the input of `promtool test rules` for all cases: what fires after 25 minutes, and what a node makes of the same series.
func promtool(t *testing.T, rules string, series scrape) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "rule_files: [%q]\nevaluation_interval: 15s\ntests:\n", rules)
	for _, c := range alertCases {
		fmt.Fprintf(&b, "  - name: %q\n    interval: 15s\n    input_series:\n", c.name)
		course := series.set(t, c.changes)
		for _, name := range slices.Sorted(maps.Keys(course)) {
			fmt.Fprintf(&b, "      - {series: '%s', values: %q}\n", labelled(name), course[name])
		}
		b.WriteString("    promql_expr_test:\n      - eval_time: 25m\n" +
			"        expr: count by (alertname, severity) (ALERTS{alertstate=\"firing\"})\n        exp_samples:\n")
		for _, key := range c.fires {
			name, severity, _ := strings.Cut(key, " ")
			fmt.Fprintf(&b, "          - {labels: '{alertname=%q, severity=%q}', value: 1}\n", name, severity)
		}
		watch := watched(t, course)
		require.ElementsMatch(t, c.fires, firing(watch), "what a node finds: %s", c.name)
		expectValues(&b, watch)
	}
	return b.String()
}

// labelled adds the label by which Prometheus tells nodes apart.
func labelled(series string) string {
	name, labels, found := strings.Cut(strings.TrimSuffix(series, "}"), "{")
	if !found {
		return name + `{instance="a:7878"}`
	}
	return name + "{" + labels + `,instance="a:7878"}`
}

// couple starts two nodes, of which the first has a placement ahead. When it is killed, the other handles the dead letter and declares
// the loss, some seconds later.
func (v venue) couple(t *testing.T) (lost, n *node) {
	t.Helper()
	config := settings(noClaims, "worker_queue_ttl_ms: 3000", "node: {lease: 6}\nretry: {base_backoff_secs: 0.1}\n")
	lost = v.start(t, "lost", config)
	lost.ahead(t, 60, nil, object{"max_retries": 1})
	return lost, v.start(t, "n1", config)
}

// TestAlertsFireOnTheMetricsOfANode gives promtool the very series that a node of a cluster shows, and changes in turn those
// that each alert watches.
func TestAlertsFireOnTheMetricsOfANode(t *testing.T) {
	t.Parallel()
	v := newVenue(t)
	lost, n := v.couple(t)
	lost.kill()
	require.Equal(t, "failed", n.runs(t, "core.fail", object{"code": "transient_error", "retriable": true}, object{"max_retries": 1}).text("status"))
	var series scrape
	await(t, "the node shows the loss of the other, its dead letter, a retry and its own heartbeats", func() bool {
		series = n.scrape(t)
		return series["troupe_nodes_lost_total"] == "1" && series["troupe_nodes_lost_recently"] == "1" && series.has("troupe_dead_letters_total{") && series.has(`troupe_retries_total{code="queue_timeout",pool="go"`) &&
			series.has("troupe_heartbeat_age_seconds")
	})

	for _, judge := range []*node{n, v.start(t, "late", settings(noClaims, "", "node: {lease: 6}\n"))} {
		await(t, "the node finds the loss, though it may have started after it", func() bool {
			_, page := judge.raw(t, "GET", "/api/v1/findings", nil)
			return strings.Contains(string(page), `"name":"node_lost","severity":"critical","kind":"cluster"`)
		})
	}
	series["troupe_nodes_lost_recently"] = "0" // for the other cases

	rules, err := filepath.Abs("../../deploy/prometheus/troupe-alerts.yaml")
	require.NoError(t, err)
	input := filepath.Join(t.TempDir(), "test.yaml")
	require.NoError(t, os.WriteFile(input, []byte(promtool(t, rules, series)), 0o600))
	out, err := exec.CommandContext(t.Context(), "promtool", "test", "rules", input).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// TestEveryAlertHasACase holds the cases against the table.
func TestEveryAlertHasACase(t *testing.T) {
	t.Parallel()
	fires := map[string]bool{}
	for _, c := range alertCases {
		for _, key := range c.fires {
			fires[key] = true
		}
	}
	for _, r := range alerts.Rules() {
		require.True(t, fires[r.Key()], "%s fires in no case", r.Key())
	}
}
