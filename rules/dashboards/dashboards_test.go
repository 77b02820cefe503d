package dashboards_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/rules/alerts"
	"github.com/troupe-run/troupe/rules/dashboards"
)

var update = flag.Bool("update", false, "write the rendered files anew")

const folder = "../../deploy/grafana/dashboards"

// After a change of the table: go test ./rules/dashboards -update.
func TestFilesAreRenderedFromTheTable(t *testing.T) {
	t.Parallel()
	var names []string
	for _, d := range dashboards.All() {
		text, err := dashboards.Grafana(&d)
		require.NoError(t, err)
		name := d.UID + ".json"
		path := filepath.Join(folder, name)
		if *update {
			require.NoError(t, os.WriteFile(path, text, 0o644))
		}
		there, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(text), string(there), "run go test ./rules/dashboards -update")
		names = append(names, name)
	}
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, entries, len(names), "nothing else stands in %s", folder)
}

// panels are all panels with their dashboards.
func panels() (all []panel) {
	for _, d := range dashboards.All() {
		for _, r := range d.Rows {
			for _, p := range r.Panels {
				all = append(all, panel{d, p})
			}
		}
	}
	return all
}

type panel struct {
	dashboards.Dashboard
	dashboards.Panel
}

func (p *panel) drawn() []dashboards.Query { return p.Drawn(&p.Panel) }

func TestPanelsSayWhatIsNormal(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, p := range panels() {
		name := p.UID + ": " + p.Panel.Title
		require.False(t, known[name], "%s stands twice", name)
		known[name] = true
		require.Regexp(t, "^[A-Z0-9`].*\\.$", p.Normal, name)
		require.NotEmpty(t, p.Unit, name)
		require.NotEmpty(t, p.Kind, name)
		require.Equal(t, p.Alert != "", len(p.Queries) == 0, "%s has either an alert or queries of its own", name)
		require.NotEmpty(t, p.drawn(), name)
		for _, q := range p.drawn() {
			require.NotEmpty(t, q.Legend, name)
		}
	}
}

func TestEveryAlertIsDrawnOnce(t *testing.T) {
	t.Parallel()
	drawn := map[string]int{}
	for _, p := range panels() {
		if p.Alert != "" {
			drawn[p.Alert]++
		}
	}
	query := map[string]string{}
	for _, r := range alerts.Rules() {
		require.Equal(t, 1, drawn[r.Name], r.Name)
		require.True(t, query[r.Name] == "" || query[r.Name] == r.Measure.PromQL(), "the rules of %s have one query", r.Name)
		query[r.Name] = r.Measure.PromQL()
	}
	require.Len(t, drawn, len(query), "every panel's alert exists")
}

// metric is a row of the page's table of metrics.
type metric struct{ kind, labels string }

var (
	metricRow  = regexp.MustCompile("(?m)^\\| `(troupe_[a-z_]+)` \\| ([a-z]+) \\| ([a-z, ]*) \\|")
	troupeName = regexp.MustCompile(`\b(troupe_[a-z_]+)\{([^}]*)\}(\[)?`)
	matched    = regexp.MustCompile(`([a-z]+)(?:=~|!=|=)"`)
	grouped    = regexp.MustCompile(`(sum|max|count)(?: by \(([a-z, ]*)\))? ?\(`)
	shown      = regexp.MustCompile(`\{\{([a-z]+)\}\}`)
)

// metricsOfThePage are those of a node, which another test holds against the program.
func metricsOfThePage(t *testing.T) map[string]metric {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	all := map[string]metric{}
	for _, m := range metricRow.FindAllStringSubmatch(string(page), -1) {
		all[m[1]] = metric{m[2], m[3]}
	}
	require.Greater(t, len(all), 40)
	return all
}

// of finds the metric of a series, such as a histogram's buckets.
func of(all map[string]metric, series string) (name string, m metric) {
	if m, ok := all[series]; ok {
		return series, m
	}
	for _, part := range []string{"_bucket", "_sum", "_count"} {
		name := strings.TrimSuffix(series, part)
		if m := all[name]; name != series && (m.kind == "histogram" || m.kind == "summary" && part != "_bucket") {
			return name, m
		}
	}
	return "", metric{}
}

func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// Each series has a metric of the page, with the labels that the query and the legend name. A counter is a rate. What all nodes show
// alike is not added up over them. And the panels show every metric.
func TestQueriesFitTheMetrics(t *testing.T) {
	t.Parallel()
	all := metricsOfThePage(t)
	used := map[string]bool{}
	for _, p := range panels() {
		for _, q := range p.drawn() {
			labels := []string{"job", "instance", "le"}
			for _, s := range troupeName.FindAllStringSubmatch(q.Expr, -1) {
				name, m := of(all, s[1])
				require.NotEmpty(t, name, "no node shows %s, in %s", s[1], q.Expr)
				used[name] = true
				own := append(words(m.labels), "job", "instance")
				for _, label := range matched.FindAllStringSubmatch(s[2], -1) {
					require.Contains(t, own, label[1], "%s in %s", s[1], q.Expr)
				}
				require.Equal(t, m.kind != "gauge", s[3] != "", "the rate of a counter, the value of a gauge: %s", q.Expr)
				if ofTheCluster(name) && m.kind == "gauge" {
					require.Regexp(t, `max(?: by \([a-z, ]*\))? ?\(`+name, q.Expr, "every node shows the same")
				}
				labels = append(labels, own...)
			}
			var by []string
			for _, g := range grouped.FindAllStringSubmatch(q.Expr, -1) {
				by = append(by, words(g[2])...)
				require.Subset(t, append(labels, "job"), words(g[2]), q.Expr)
			}
			for _, label := range shown.FindAllStringSubmatch(q.Legend, -1) {
				require.True(t, slices.Contains(by, label[1]) || p.Alert != "" && label[1] == "instance", "%s shows no %s", q.Expr, label[1])
			}
		}
	}
	for name := range all {
		require.True(t, used[name], "no panel shows %s", name)
	}
}

// ofTheCluster reports whether every node shows the same value, as the page says.
func ofTheCluster(name string) bool {
	return strings.HasPrefix(name, "troupe_executions") || name == "troupe_notices_pending" || name == "troupe_notices_oldest_seconds" ||
		name == "troupe_webhooks_pending" || name == "troupe_webhooks_oldest_seconds" || name == "troupe_webhooks_given_up" ||
		name == "troupe_dead_letter_queue_messages"
}

// A reader's choice restricts every series, beside the matchers that it has.
func TestTheReadersChoice(t *testing.T) {
	t.Parallel()
	p := dashboards.Panel{Queries: []dashboards.Query{{Expr: `sum by (pool) (rate(troupe_a_total{x="y"}[5m])) / max by (pool) (troupe_b) and process_c >= 20`, Legend: "l"}}}
	for picksPools, want := range map[bool]string{
		false: `sum by (pool) (rate(troupe_a_total{x="y",job=~"$job",instance=~"$instance"}[5m])) / max by (pool) (troupe_b{job=~"$job",instance=~"$instance"})` +
			` and process_c{job=~"$job",instance=~"$instance"} >= 20`,
		true: `sum by (pool) (rate(troupe_a_total{x="y",job=~"$job",instance=~"$instance",pool=~"$pool"}[5m])) / ` +
			`max by (pool) (troupe_b{job=~"$job",instance=~"$instance",pool=~"$pool"}) and process_c{job=~"$job",instance=~"$instance",pool=~"$pool"} >= 20`,
	} {
		d := dashboards.Dashboard{Pools: picksPools}
		require.Equal(t, []dashboards.Query{{Expr: want, Legend: "l"}}, d.Drawn(&p))
	}
}

// drawing is what a test reads of a rendered panel.
type drawing struct {
	ID          int `json:"id"`
	Type, Title string
	Description string
	GridPos     struct{ H, W, X, Y int }
	Links       []struct{ URL string }
	FieldConfig struct {
		Defaults struct {
			Thresholds struct{ Steps []map[string]any }
		}
	}
}

func drawings(t *testing.T, d *dashboards.Dashboard) []drawing {
	t.Helper()
	text, err := dashboards.Grafana(d)
	require.NoError(t, err)
	var page struct{ Panels []drawing }
	require.NoError(t, json.Unmarshal(text, &page))
	return page.Panels
}

// No panel covers another, and none leaves the page.
func TestPanelsStandSideBySide(t *testing.T) {
	t.Parallel()
	for _, d := range dashboards.All() {
		taken := map[[2]int]string{}
		for i, p := range drawings(t, &d) {
			require.Equal(t, i+1, p.ID)
			require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
			for x := range p.GridPos.W {
				for y := range p.GridPos.H {
					at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
					require.Empty(t, taken[at], "%s covers it", p.Title)
					taken[at] = p.Title
				}
			}
		}
	}
}

// The limits of an alert are drawn, told and lead to the runbook.
func TestLimitsAreThoseOfTheAlert(t *testing.T) {
	t.Parallel()
	first := func(color string) map[string]any { return map[string]any{"color": color, "value": nil} }
	from := func(color string, value float64) map[string]any {
		return map[string]any{"color": color, "value": value}
	}
	wanted := map[string][]map[string]any{
		"clock_skew":        {first("green"), from("orange", 1)},
		"store_away":        {first("red"), from("green", 1)},
		"pool_broken":       {first("green"), from("red", 1)},
		"unhealthy_workers": {first("green"), from("orange", 0.3), from("red", 0.7)},
		"dlq_buildup":       {first("green"), from("red", 100)},
		"":                  {first("green")},
	}
	found := map[string]bool{}
	for _, d := range dashboards.All() {
		for _, p := range drawings(t, &d) {
			if p.Type == "row" {
				continue
			}
			alert := ""
			if len(p.Links) > 0 {
				_, alert, _ = strings.Cut(p.Links[0].URL, "/alerts.md#")
				require.Contains(t, p.Description, "Alert `"+alert+"`: ")
			}
			if steps, ok := wanted[alert]; ok {
				require.Equal(t, steps, p.FieldConfig.Defaults.Thresholds.Steps, p.Title)
				found[alert] = true
			}
		}
	}
	require.Len(t, found, len(wanted))
}
