package dashboards

import (
	"regexp"
	"strings"

	"github.com/troupe-run/troupe/rules/alerts"
)

// Dashboard is one page of panels.
type Dashboard struct {
	UID   string // by which Grafana tells it apart; also the name of its file
	Title string
	Means string // what it answers
	Pools bool   // a reader may pick pools: each metric has the label pool
	Rows  []Row
}

// Row is a headed group of panels.
type Row struct {
	Title  string
	Panels []Panel
}

// Kind is how a panel shows its values.
type Kind string

// The kinds.
const (
	Lines  Kind = "timeseries" // over time
	Number Kind = "stat"       // the present value alone
)

// Unit is a unit by Grafana's name for it.
type Unit string

// The units.
const (
	Count     Unit = "short"
	PerSecond Unit = "cps"
	PerMinute Unit = "cpm"
	Seconds   Unit = "s"
	Share     Unit = "percentunit" // 0 to 1, shown as 0 % to 100 %
	Bytes     Unit = "bytes"
	YesNo     Unit = "bool_yes_no"
)

// Panel is one figure.
type Panel struct {
	Title   string
	Kind    Kind
	Unit    Unit
	Stacked bool   // the queries' values are parts of a whole
	Normal  string // what the panel shows, and what is normal
	Absent  string // why there may be no series at all; it stands in the place of the values. Empty: there always are some
	Alert   string // the alert whose value this is: its query is drawn, with its limits. Queries is empty then
	Queries []Query
}

// Query is one query of a panel.
type Query struct {
	Expr   string // PromQL, without the reader's choice of nodes and pools
	Legend string // what a series is called; {{label}} is the value of a label
}

// All are the dashboards, in the order of their use.
func All() []Dashboard { return []Dashboard{overview(), pools(), nodes()} }

// rules are the rules of the alert that the panel shows. They have the same measure and different limits.
func (p *Panel) rules() []alerts.Rule {
	var found []alerts.Rule
	for _, r := range alerts.Rules() {
		if p.Alert != "" && r.Name == p.Alert {
			found = append(found, r)
		}
	}
	return found
}

// Drawn are the queries of the panel, with the reader's choice of nodes, and of pools where the dashboard offers it.
func (d *Dashboard) Drawn(p *Panel) []Query {
	queries := p.Queries
	if rules := p.rules(); len(rules) > 0 {
		legend := p.Title
		if subject := rules[0].Subject; subject != alerts.Cluster {
			legend = "{{" + string(subject) + "}}"
		}
		queries = []Query{{rules[0].Measure.PromQL(), legend}}
	}
	drawn := make([]Query, len(queries))
	for i, q := range queries {
		drawn[i] = Query{chosen(q.Expr, d.Pools), q.Legend}
	}
	return drawn
}

// series is the name of a metric with its matchers, if it has some.
var series = regexp.MustCompile(`\b(?:troupe|process|go)_[a-z_]+\b(\{[^}]*\})?`)

// chosen restricts each series of an expression to the nodes, and the pools, that the reader picks.
func chosen(expr string, pools bool) string {
	matchers := `job=~"$job",instance=~"$instance"`
	if pools {
		matchers += `,pool=~"$pool"`
	}
	return series.ReplaceAllStringFunc(expr, func(found string) string {
		name, own, there := strings.Cut(strings.TrimSuffix(found, "}"), "{")
		if there {
			return name + "{" + own + "," + matchers + "}"
		}
		return name + "{" + matchers + "}"
	})
}

// The window of a rate follows from the width of the picture and from how often Prometheus scrapes; Grafana computes it.
const window = "[$__rate_interval]"

// perSecond is how fast counters grow, added up by labels.
func perSecond(by, counter string) string {
	return "sum by (" + by + ") (rate(" + counter + window + "))"
}

// mean is the mean of what a histogram or a summary observed, by labels.
func mean(by, metric string) string {
	return perSecond(by, metric+"_sum") + " / " + perSecond(by, metric+"_count")
}

// quantile is a quantile, 0 to 1 as text, of a histogram by labels.
func quantile(q, by, histogram string) string {
	if by != "" {
		by += ", "
	}
	return "histogram_quantile(" + q + ", " + perSecond(by+"le", histogram+"_bucket") + ")"
}

// quantiles are the three quantiles that tell how long something takes.
func quantiles(histogram string) []Query {
	return []Query{
		{quantile("0.5", "", histogram), "half"}, {quantile("0.9", "", histogram), "90 %"}, {quantile("0.99", "", histogram), "99 %"},
	}
}

// coarse is for panels of quantiles.
const coarse = " The times are estimates: a histogram has seven bounds, and a value between two of them is interpolated."
