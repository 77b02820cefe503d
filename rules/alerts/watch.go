package alerts

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of what a Watch keeps.
const (
	// Spacing is how far apart the values of a counter are kept, as a scrape of Prometheus would.
	Spacing  = 15 * time.Second
	keptFor  = 10*time.Minute + 2*Spacing // the longest time that a rule looks back, and a value before it
	nodesMax = 256                        // nodes whose numbers are kept
	keysMax  = 1000                       // values of one series on a node; further ones are left out
)

// Reading is what a node's series have come to.
type Reading struct {
	Series string             `json:"series"` // Series.Text
	Values map[string]float64 `json:"values"` // by the value of Series.By; "" where they are summed
}

// NodeReading is the reading of one node.
type NodeReading struct {
	Node     string // its name
	Readings []Reading
}

// Sample is one series at /metrics.
type Sample struct {
	Name   string
	Labels map[string]string
	Value  float64
}

// AllSeries are the series that the rules are computed from, each once, in the order of their texts.
func AllSeries(rules []Rule) []Series {
	known := map[string]Series{}
	for i := range rules {
		for _, s := range rules[i].Measure.series() {
			known[s.Text()] = s
		}
	}
	list := slices.Collect(maps.Values(known))
	slices.SortFunc(list, func(a, b Series) int { return cmp.Compare(a.Text(), b.Text()) })
	return list
}

// Read sums the samples of a node to what the rules need of them.
func Read(series []Series, samples []Sample) []Reading {
	byName := map[string][]int{}
	readings := make([]Reading, len(series))
	for i := range series {
		readings[i] = Reading{Series: series[i].Text(), Values: map[string]float64{}}
		byName[series[i].Name] = append(byName[series[i].Name], i)
	}
	for j := range samples {
		for _, i := range byName[samples[j].Name] {
			if series[i].takes(samples[j].Labels) {
				readings[i].add(samples[j].Labels[series[i].By], samples[j].Value)
			}
		}
	}
	return slices.DeleteFunc(readings, func(r Reading) bool { return len(r.Values) == 0 })
}

func (r *Reading) add(key string, v float64) {
	if before, there := r.Values[key]; there || len(r.Values) < keysMax {
		r.Values[key] = before + v
	}
}

// place is where a value is from: a node, and the pool or bucket.
type place struct{ node, key string }

// point is a value at a time.
type point struct {
	at time.Time
	v  float64
}

// line is the course of one series on one node: the newest value, and for a counter those before.
type line struct{ points []point }

// add appends a value. Values that come sooner than Spacing replace each other, so that the course stays short.
func (l *line) add(at time.Time, v float64, counter bool) {
	n := len(l.points)
	switch {
	case n > 0 && !counter:
		l.points[0] = point{at, v}
		return
	case n > 1 && l.points[n-1].at.Sub(l.points[n-2].at) < Spacing:
		l.points[n-1] = point{at, v}
	default:
		l.points = append(l.points, point{at, v})
	}
	first := slices.IndexFunc(l.points, func(p point) bool { return at.Sub(p.at) <= keptFor })
	l.points = slices.Delete(l.points, 0, max(0, first))
}

// grown is by how much a counter grew in the time up to now, drawn out to its ends as Prometheus does. False: it has fewer than two values.
func (l *line) grown(now time.Time, span time.Duration) (float64, bool) {
	start := now.Add(-span)
	from := slices.IndexFunc(l.points, func(p point) bool { return p.at.After(start) })
	if from < 0 || len(l.points)-from < 2 {
		return 0, false
	}
	points := l.points[from:]
	first, last := points[0], points[len(points)-1]
	total := last.v - first.v
	for i := 1; i < len(points); i++ {
		if points[i].v < points[i-1].v { // it began anew at zero
			total += points[i-1].v
		}
	}
	seen := last.at.Sub(first.at).Seconds()
	between := seen / float64(len(points)-1)
	before, after := first.at.Sub(start).Seconds(), now.Sub(last.at).Seconds()
	if before >= 1.1*between {
		before = between / 2
	}
	if total > 0 && first.v >= 0 {
		before = min(before, seen*first.v/total) // no further back than where it was zero
	}
	if after >= 1.1*between {
		after = between / 2
	}
	return total * (seen + before + after) / seen, true
}

// Watch judges the rules by what the nodes' series have come to, time after time, as Prometheus does.
type Watch struct {
	rules  []Rule
	counts map[string]bool            // by Series.Text: whether values before the newest are needed
	since  time.Time                  // of the first look
	at     time.Time                  // of the last one
	lines  map[string]map[place]*line // by Series.Text
	active map[activeKey]*active
}

type activeKey struct{ rule, subject string }

// active is a rule whose value is bad for a subject.
type active struct {
	since time.Time
	value float64
	fires bool
}

// NewWatch makes a Watch that has seen nothing.
func NewWatch(rules []Rule) *Watch {
	return &Watch{rules: rules, counts: counters(rules), lines: map[string]map[place]*line{}, active: map[activeKey]*active{}}
}

// now are the newest values of a series, of the nodes that have told of it just now.
func (w *Watch) now(s *Series) map[place]float64 {
	values := map[place]float64{}
	for at, l := range w.lines[s.Text()] {
		if last := l.points[len(l.points)-1]; last.at.Equal(w.at) {
			values[at] = last.v
		}
	}
	return values
}

// grown is by how much the counters of a series grew.
func (w *Watch) grown(s *Series, span time.Duration) map[place]float64 {
	values := map[place]float64{}
	for at, l := range w.lines[s.Text()] {
		if v, ok := l.grown(w.at, span); ok {
			values[at] = v
		}
	}
	return values
}

// Observe takes what the nodes' series have come to, and judges the rules by it. Now is later than at the last call.
func (w *Watch) Observe(now time.Time, nodes []NodeReading) {
	if w.at = now; w.since.IsZero() {
		w.since = now
	}
	for i := range nodes[:min(len(nodes), nodesMax)] {
		w.take(&nodes[i])
	}
	w.forget()
	for i := range w.rules {
		w.judge(&w.rules[i])
	}
}

// counters says of each series of the rules whether it counts. By Prometheus's convention its name says so.
func counters(rules []Rule) map[string]bool {
	counts := map[string]bool{}
	for i := range rules {
		for _, s := range rules[i].Measure.series() {
			counts[s.Text()] = strings.HasSuffix(s.Name, "_total") || strings.HasSuffix(s.Name, "_bucket")
		}
	}
	return counts
}

// take adds a node's reading. Series of no rule, as a newer release may have, are left out.
func (w *Watch) take(n *NodeReading) {
	for _, r := range n.Readings {
		counter, known := w.counts[r.Series]
		if !known {
			continue
		}
		of := w.lines[r.Series]
		if of == nil {
			of = map[place]*line{}
			w.lines[r.Series] = of
		}
		for key, v := range r.Values {
			at := place{n.Node, key}
			if of[at] == nil {
				if len(of) >= nodesMax*keysMax {
					continue
				}
				of[at] = &line{}
			}
			of[at].add(w.at, v, counter)
		}
	}
}

// forget drops what no rule looks back at any more.
func (w *Watch) forget() {
	for _, of := range w.lines {
		maps.DeleteFunc(of, func(_ place, l *line) bool { return w.at.Sub(l.points[len(l.points)-1].at) > keptFor })
	}
}

// judge updates for which subjects a rule is bad, and since when.
func (w *Watch) judge(r *Rule) {
	values := r.Measure.of(w)
	for key := range w.active {
		if key.rule == r.Key() {
			if v, there := values[key.subject]; !there || !r.Breaks(v) {
				delete(w.active, key)
			}
		}
	}
	for subject, v := range values {
		if !r.Breaks(v) {
			continue
		}
		key := activeKey{r.Key(), subject}
		a := w.active[key]
		if a == nil {
			a = &active{since: w.at}
			w.active[key] = a
		}
		a.value, a.fires = v, w.at.Sub(a.since) >= r.For
	}
}

// Finding is a rule that has been bad for a subject as long as the rule wants.
type Finding struct {
	Name     string    `json:"name" doc:"of the alert"`
	Severity Severity  `json:"severity" doc:"critical: somebody has to look now; warning: during the day"`
	Kind     string    `json:"kind" doc:"what it concerns: cluster, pool or node"`
	Subject  string    `json:"subject,omitempty" doc:"the name of the pool or node"`
	Since    time.Time `json:"since" doc:"since when the answering node has seen it"`
	Value    float64   `json:"value" doc:"what was measured last"`
	Message  string    `json:"message" doc:"the finding as a sentence"`
	Means    string    `json:"means"`
	Do       string    `json:"what_to_do"`
	Link     string    `json:"link" doc:"where the documentation tells of it"`
}

// kinds are the words for the subjects.
var kinds = map[Subject]string{Cluster: "cluster", Pool: "pool", Node: "node"}

// Findings are the rules that fire, the most severe first. Of the rules of one name only the most severe is told for a subject.
func (w *Watch) Findings() []Finding {
	list, told := []Finding{}, map[activeKey]bool{}
	for _, severity := range []Severity{Critical, Warning} {
		for i := range w.rules {
			r := &w.rules[i]
			if r.Severity != severity {
				continue
			}
			for _, subject := range w.Firing(r) {
				if key := (activeKey{r.Name, subject}); !told[key] {
					told[key] = true
					list = append(list, r.finding(subject, w.active[activeKey{r.Key(), subject}]))
				}
			}
		}
	}
	return list
}

// Firing are the subjects for which a rule has been bad as long as it wants, in order.
func (w *Watch) Firing(r *Rule) []string {
	var subjects []string
	for key, a := range w.active {
		if key.rule == r.Key() && a.fires {
			subjects = append(subjects, key.subject)
		}
	}
	slices.Sort(subjects)
	return subjects
}

// Values are what a rule's measure is now, by subject.
func (w *Watch) Values(r *Rule) map[string]float64 { return r.Measure.of(w) }

// Unknown are the rules that cannot be judged now, because no node shows their series.
func (w *Watch) Unknown() []string {
	names := []string{}
	for i := range w.rules {
		if r := &w.rules[i]; !r.Measure.known(w) && !slices.Contains(names, r.Name) {
			names = append(names, r.Name)
		}
	}
	return names
}

// Since is when it began to watch; zero: it has not.
func (w *Watch) Since() time.Time { return w.since }

// Partly are the rules that look further back than it has watched: who has watched for longer may find more by them.
func (w *Watch) Partly() []string {
	names := []string{}
	for i := range w.rules {
		if r := &w.rules[i]; r.Back() > w.at.Sub(w.since) && !slices.Contains(names, r.Name) {
			names = append(names, r.Name)
		}
	}
	return names
}

func (r *Rule) finding(subject string, a *active) Finding {
	return Finding{
		Name: r.Name, Severity: r.Severity, Kind: kinds[r.Subject], Subject: subject, Since: a.since, Value: a.value,
		Message: r.Named(subject, short(a.value)), Means: r.Means, Do: r.Do, Link: r.Runbook(),
	}
}

// short is a value as people read it: with three digits, or whole.
func short(v float64) string {
	if math.Abs(v) >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
