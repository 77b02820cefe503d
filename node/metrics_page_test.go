package node

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
)

var updatePage = flag.Bool("update", false, "write the rendered part of docs/operations.md anew")

const (
	metricsPage = "../docs/operations.md"
	metricsHead = "<!-- metrics: rendered from the code -->\n"
	metricsEnd  = "<!-- metrics: end -->\n"
)

var (
	descName   = regexp.MustCompile(`fqName: "([^"]+)", help: "([^"]+)"`)
	descLabels = regexp.MustCompile(`variableLabels: \{([^}]*)\}`)
)

// describe lists what a struct of metrics holds, as rows of a table. The kind follows from the field's type; a bare
// description is a gauge that is read when somebody asks.
func describe(of reflect.Value, into []string) []string {
	for i := range of.NumField() {
		field := of.Field(i)
		value := reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Interface() //nolint:gosec // reads unexported fields
		switch v := value.(type) {
		case *flowMetrics:
			into = describe(reflect.ValueOf(v).Elem(), into)
		case *bridgeMetrics:
			into = describe(reflect.ValueOf(v).Elem(), into)
		case *liveCollector:
			into = describe(reflect.ValueOf(v).Elem(), into)
		case *prometheus.Desc:
			into = append(into, row("gauge", v))
		case *prometheus.Registry:
		case prometheus.Collector:
			descriptions := make(chan *prometheus.Desc, 1)
			v.Describe(descriptions)
			into = append(into, row(kindOf(v), <-descriptions))
		}
	}
	return into
}

func kindOf(c prometheus.Collector) string {
	switch c.(type) {
	case *prometheus.CounterVec, prometheus.Counter:
		return "counter"
	case *prometheus.GaugeVec:
		return "gauge"
	case *prometheus.SummaryVec:
		return "summary"
	}
	return "histogram"
}

func row(kind string, d *prometheus.Desc) string {
	text := d.String()
	name, labels := descName.FindStringSubmatch(text), descLabels.FindStringSubmatch(text)
	return fmt.Sprintf("| `%s` | %s | %s | %s |\n", name[1], kind, strings.ReplaceAll(labels[1], ",", ", "), name[2])
}

// The page lists every metric. After a change: go test ./node -run Page -update.
func TestOperationsPageHasEveryMetric(t *testing.T) {
	t.Parallel()
	m := newMetrics(&sources{base: &base{system: actors.NewSystem(hclog.NewNullLogger())}, servers: &watcher{}})
	rows := describe(reflect.ValueOf(m).Elem(), nil)
	slices.Sort(rows)
	require.Greater(t, len(rows), 20)
	page, err := os.ReadFile(metricsPage)
	require.NoError(t, err)
	begin, end := strings.Index(string(page), metricsHead), strings.Index(string(page), metricsEnd)
	require.True(t, begin >= 0 && end > begin, "docs/operations.md has no place for the metrics")
	want := string(page[:begin]) + metricsHead + "| metric | kind | labels | |\n|---|---|---|---|\n" + strings.Join(rows, "") + string(page[end:])
	if *updatePage {
		require.NoError(t, os.WriteFile(metricsPage, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(page), "run go test ./node -run Page -update")
}

var quantileAlert = regexp.MustCompile(`histogram_quantile\(.*?(troupe_[a-z_]+)_bucket.*\) > ([0-9.]+)`)

// A quantile is exact at the bounds of buckets alone: what an alert compares one with is such a bound.
func TestAlertsOnQuantilesUseBounds(t *testing.T) {
	t.Parallel()
	m := newMetrics(&sources{base: &base{system: actors.NewSystem(hclog.NewNullLogger())}, servers: &watcher{}})
	m.storeTime.Observe(1)
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.storeTime)
	families, err := registry.Gather()
	require.NoError(t, err)
	bounds := map[string][]float64{}
	for _, f := range families {
		for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
			bounds[f.GetName()] = append(bounds[f.GetName()], b.GetUpperBound())
		}
	}
	page, err := os.ReadFile("../deploy/prometheus/troupe-alerts.yaml")
	require.NoError(t, err)
	alerts := quantileAlert.FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, alerts)
	for _, alert := range alerts {
		limit, err := strconv.ParseFloat(alert[2], 64)
		require.NoError(t, err)
		require.Contains(t, bounds[alert[1]], limit, alert[0])
	}
}
