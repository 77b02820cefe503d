package e2e

import (
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/rules/dashboards"
	"github.com/troupe-run/troupe/test/servers"
)

// shownElsewhere are metrics without a series until something goes wrong that would disturb this test, by the test that shows one.
var shownElsewhere = map[string]string{
	"troupe_stale_writes_total":           "layers_test.go",               // of a node that was frozen
	"troupe_worker_start_shortages_total": "shortage_test.go",             // of a node without file descriptors
	"troupe_trace_spans_total":            "tracing_test.go",              // of a node that traces
	"troupe_leaked_handlers":              "../../node/timeouts_test.go",  // of a Go program with a handler that ignores its context
	"troupe_awaited_outcomes_total":       "../../node/elsewhere_test.go", // of nodes with callers who wait on another node
}

// measured is a pack for a load of every kind, made of actions of the pack theatre.
func measured(t *testing.T) string {
	t.Helper()
	files := []string{"pack.yaml", packYAML + `pools:
  - {name: keeper, runtime: python, workers: 1, snapshot_every: 1}
  - {name: talker, runtime: process, workers: 1, command: [python3, actions/rogue.py]}
`}
	for _, name := range []string{"keeper.py", "remember.yaml", "act.yaml", "rogue.py", "talker.yaml", "twice.yaml"} {
		text, err := os.ReadFile(filepath.Join("testdata/theatre/actions", name))
		require.NoError(t, err)
		files = append(files, "actions/"+name, string(text))
	}
	return pack(t, files...)
}

// performs everything: executions that complete, fail, are retried, time out and are cancelled, a session, a program that breaks the
// protocol and one that dies, and an outcome that is told to hook.
func (n *node) performs(t *testing.T, hook string) {
	t.Helper()
	told := n.runs(t, "core.echo", nil, object{"webhook": object{"url": hook}})
	n.hooked(t, told.text("id"), "told")
	batch := []object{{"action_ref": "core.fail", "parameters": object{"retriable": true}, "max_retries": 1}}
	for range 20 {
		batch = append(batch, object{"action_ref": "core.echo"},
			object{"action_ref": "core.sleep", "parameters": object{"seconds": 60}, "timeout_seconds": 0.1})
	}
	status, answer := n.call(t, "POST", "/api/v1/executions/batch", object{"executions": batch})
	require.Equal(t, http.StatusCreated, status, "%v", answer)
	for range 2 {
		require.Equal(t, "completed", n.runs(t, "stage.remember", object{"line": "a"}, object{"session": "s"}).text("status"))
	}
	require.Equal(t, "completed", n.runs(t, "stage.talker", object{"do": "stray"}).text("status"))
	e := n.runs(t, "stage.twice", object{"mark": filepath.Join(t.TempDir(), "mark")}, object{"max_retries": 1})
	require.Equal(t, "completed", n.finish(t, e.text("retried_as")).text("status"))
	require.Equal(t, "cancelled", n.finish(t, n.cancelled(t, "core.sleep", object{"seconds": 60})).text("status"))
	require.Equal(t, "abandoned", n.runs(t, "demo.crash", nil).text("status"))
}

// takesBack kills a worker that has a placement ahead, as it has after short runs.
func (n *node) takesBack(t *testing.T) {
	t.Helper()
	for range 20 {
		require.Equal(t, "completed", n.runs(t, "stage.act", object{"lines": 0}).text("status"))
	}
	var ids []string
	for range 3 {
		ids = append(ids, n.submit(t, "stage.act", object{"lines": 600, "pause": 0.1}).text("id"))
	}
	await(t, "a placement waits on the worker", func() bool { return n.scrape(t)[`troupe_worker_queue_depth{pool="stage.keeper"}`] != "0" })
	status, answer := n.call(t, "POST", "/api/v1/workers/n1/stage.keeper/0/kill", nil)
	require.Equal(t, http.StatusAccepted, status, "%v", answer)
	await(t, "it is taken back", func() bool { return n.scrape(t).has(`troupe_take_backs_total{pool="stage.keeper"`) })
	for _, id := range ids {
		status, answer := n.call(t, "POST", "/api/v1/executions/"+id+"/cancel", nil)
		require.Less(t, status, 300, "%v", answer)
		n.finish(t, id)
	}
}

// everyone stands for what a reader of a dashboard picks: all nodes and pools, over the last minutes.
var everyone = strings.NewReplacer("$job", "troupe", "$instance", ".*", "$pool", ".*", "$__rate_interval", "5m")

// question is one query of a panel.
type question struct{ panel, expr string }

// questions are the queries of all panels, except those of metrics that another test shows.
func questions(t *testing.T) (all []question) {
	t.Helper()
	asked := map[string]bool{}
	for metric, file := range shownElsewhere {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(text), metric, file)
	}
	for _, d := range dashboards.All() {
		for _, r := range d.Rows {
			for _, p := range r.Panels {
				for _, q := range d.Drawn(&p) {
					elsewhere := false
					for metric := range shownElsewhere {
						if strings.Contains(q.Expr, metric+"{") {
							require.NotEmpty(t, p.Absent, "the panel of %s says why it may be empty", metric)
							elsewhere, asked[metric] = true, true
						}
					}
					if !elsewhere {
						all = append(all, question{d.Title + ", " + p.Title, everyone.Replace(q.Expr)})
					}
				}
			}
		}
	}
	require.Len(t, asked, len(shownElsewhere), "each of them is on a panel")
	return append(all, question{"the marks of alerts", dashboards.Firing()})
}

// answered reports whether an expression has a value that can be drawn.
func answered(t *testing.T, p *servers.PrometheusServer, expr string) bool {
	t.Helper()
	series, err := p.Query(expr)
	require.NoError(t, err)
	return slices.ContainsFunc(series, func(s servers.PrometheusSeries) bool { return !math.IsNaN(s.Value) && !math.IsInf(s.Value, 0) })
}

// scraped waits until the nodes were scraped after now.
func scraped(t *testing.T, p *servers.PrometheusServer, nodes int) {
	t.Helper()
	now := float64(time.Now().UnixMilli()) / 1000
	await(t, "each node is scraped", func() bool {
		series, err := p.Query("timestamp(troupe_store_up)")
		require.NoError(t, err)
		return len(series) == nodes && !slices.ContainsFunc(series, func(s servers.PrometheusSeries) bool { return s.Value <= now })
	})
}

// everySecond is the file of alerts, evaluated each second.
func everySecond(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/prometheus/troupe-alerts.yaml")
	require.NoError(t, err)
	require.Contains(t, string(text), "interval: 15s")
	path := filepath.Join(t.TempDir(), "alerts.yaml")
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), "interval: 15s", "interval: 1s", 1)), 0o644))
	return path
}

// TestEveryPanelShowsValues has a Prometheus scrape a node with the default settings, except for more frequent checks and webhooks to
// this test, under a load of every kind, and a node of a cluster that loses another. Then each query of each dashboard has values, and
// each choice of a reader has those that there are.
func TestEveryPanelShowsValues(t *testing.T) {
	t.Parallel()
	v := newVenue(t)
	hook := receive(t, nil).URL
	n := start(t, options{packs: []string{measured(t)}, config: hookConfig, env: []string{
		"HOOK_SECRET=" + hookSecret, "TROUPE_HEALTH_ECHO_INTERVAL=1", "TROUPE_EXECUTOR_HEALTH_CHECK_INTERVAL=1",
	}})
	lost, other := v.couple(t)
	addresses := []string{strings.TrimPrefix(n.url, "http://"), strings.TrimPrefix(other.url, "http://")}
	p := servers.PrivatePrometheus(t, "troupe", everySecond(t), addresses...)

	scraped(t, p, len(addresses)) // a rate needs what is counted between two scrapes
	lost.kill()
	require.NoError(t, servers.Execute(v.database, "INSERT INTO submission (action, parameters, created_by) VALUES ('core.echo', '{}', 'ops')"))
	n.performs(t, hook)
	n.takesBack(t)
	scraped(t, p, len(addresses)) // a counter without a series until now begins at its first value
	n.performs(t, hook)

	open := questions(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("without values: %v", open)
		}
	})
	await(t, "every panel shows values", func() bool {
		open = slices.DeleteFunc(open, func(q question) bool { return answered(t, p, q.expr) })
		return len(open) == 0
	})
	requireOutcomes(t, p)
	requireChoices(t, p, addresses)
}

// requireOutcomes checks that each outcome of the load is on the first panel of outcomes.
func requireOutcomes(t *testing.T, p *servers.PrometheusServer) {
	t.Helper()
	overview := dashboards.All()[0]
	panel := overview.Rows[1].Panels[0]
	for _, status := range []string{"completed", "failed", "timed_out", "cancelled", "abandoned"} {
		await(t, fmt.Sprintf("%q shows the outcome %s", panel.Title, status), func() bool {
			series, err := p.Query(everyone.Replace(overview.Drawn(&panel)[0].Expr))
			require.NoError(t, err)
			return slices.ContainsFunc(series, func(s servers.PrometheusSeries) bool { return s.Labels["status"] == status && s.Value > 0 })
		})
	}
}

func requireChoices(t *testing.T, p *servers.PrometheusServer, addresses []string) {
	t.Helper()
	want := map[string][]string{"job": {"troupe"}, "instance": addresses, "pool": {"go", "python", "shell", "stage.keeper", "stage.talker"}}
	for _, d := range dashboards.All() {
		for _, c := range d.Choices() {
			values, err := p.LabelValues(c.Name, everyone.Replace(c.Metric))
			require.NoError(t, err)
			require.ElementsMatch(t, want[c.Name], values, "%s: %s", d.Title, c.Name)
		}
	}
}
