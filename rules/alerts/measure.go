package alerts

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Measure is what a rule compares with its limit. It is written once and read twice: Prometheus gets it as text, and a node computes
// it from the same series by the same arithmetic.
type Measure interface {
	// PromQL is the measure as Prometheus reads it.
	PromQL() string
	// series are those that it is computed from.
	series() []Series
	// of computes it for each subject: a node's name, a pool's name, or "" for the cluster. What cannot be said is left out.
	of(w *Watch) map[string]float64
	// known reports whether each series that must have a value now has one, on some node.
	known(w *Watch) bool
	// back is how far it looks back; 0: what is now is enough.
	back() time.Duration
}

// Series are series of one metric as each node shows them at /metrics.
type Series struct {
	Name   string
	By     string   // the label by which they are told apart; empty: they are summed
	Label  string   // only those with one of these values of this label; empty: all
	Values []string // of Label
}

// node are the series of a metric, as one of the whole node.
func node(name string) Series { return Series{Name: name} }

// pools are the series of a metric, by pool.
func pools(name string) Series { return Series{Name: name, By: string(Pool)} }

// grades counts workers by pool, of these grades or of all.
func grades(values ...string) Series {
	s := pools("troupe_workers_by_grade")
	if len(values) > 0 {
		s.Label, s.Values = "grade", values
	}
	return s
}

// Text is the series as PromQL selects them.
func (s Series) Text() string {
	switch len(s.Values) {
	case 0:
		return s.Name
	case 1:
		return fmt.Sprintf(`%s{%s="%s"}`, s.Name, s.Label, s.Values[0])
	}
	return fmt.Sprintf(`%s{%s=~"%s"}`, s.Name, s.Label, strings.Join(s.Values, "|"))
}

// takes reports whether a series of a node is one of these.
func (s Series) takes(labels map[string]string) bool {
	return s.Label == "" || slices.Contains(s.Values, labels[s.Label])
}

// own is the newest value of each node.
type own struct{ from Series }

func (m own) PromQL() string      { return m.from.Text() }
func (m own) series() []Series    { return []Series{m.from} }
func (m own) known(w *Watch) bool { return len(w.now(&m.from)) > 0 }
func (m own) back() time.Duration { return 0 }
func (m own) of(w *Watch) map[string]float64 {
	values := map[string]float64{}
	for at, v := range w.now(&m.from) {
		values[at.node] = v
	}
	return values
}

// magnitude is a value without its sign.
type magnitude struct{ own }

func (m magnitude) PromQL() string { return "abs(" + m.own.PromQL() + ")" }
func (m magnitude) of(w *Watch) map[string]float64 {
	values := m.own.of(w)
	for key, v := range values {
		values[key] = math.Abs(v)
	}
	return values
}

// operation says how values of several nodes become one.
type operation string

const (
	sum     operation = "sum"
	largest operation = "max"
)

// vector is what all sums: the newest values, or how counters grew.
type vector interface {
	Text() string
	values(w *Watch) map[place]float64
	from() *Series
	span() time.Duration // how far back they look; 0: they are the newest
}

func (s Series) values(w *Watch) map[place]float64 { return w.now(&s) }
func (s Series) from() *Series                     { return &s }
func (s Series) span() time.Duration               { return 0 }

// growth says how the growth of a counter is shown.
type growth string

const (
	rate     growth = "rate"     // a second
	increase growth = "increase" // over the whole time
)

// over is how counters grew in the last minutes.
type over struct {
	kind    growth
	minutes int
	counter Series
}

// Text is the growth in PromQL.
func (o over) Text() string { return fmt.Sprintf("%s(%s[%dm])", o.kind, o.counter.Text(), o.minutes) }

func (o over) from() *Series       { return &o.counter }
func (o over) span() time.Duration { return time.Duration(o.minutes) * time.Minute }
func (o over) values(w *Watch) map[place]float64 {
	grown := w.grown(&o.counter, o.span())
	if o.kind == rate {
		for at := range grown {
			grown[at] /= o.span().Seconds()
		}
	}
	return grown
}

// all is one value of all nodes, or one for each pool.
type all struct {
	how operation
	by  Subject // Pool or Cluster
	in  vector
}

// PromQL implements Measure.
func (m all) PromQL() string {
	text := m.in.Text()
	if m.by == Cluster {
		return fmt.Sprintf("%s(%s)", m.how, text)
	}
	return fmt.Sprintf("%s by (%s) (%s)", m.how, m.by, text)
}

func (m all) series() []Series    { return []Series{*m.in.from()} }
func (m all) known(w *Watch) bool { return m.in.span() > 0 || len(m.in.values(w)) > 0 }
func (m all) back() time.Duration { return m.in.span() }
func (m all) of(w *Watch) map[string]float64 {
	values := map[string]float64{}
	for at, v := range m.in.values(w) {
		key := at.key
		if m.by == Cluster {
			key = ""
		}
		before, there := values[key]
		switch {
		case m.how == sum:
			values[key] = before + v
		case !there || v > before:
			values[key] = v
		}
	}
	return values
}

// minutely is a rate by minute.
type minutely struct{ all }

func (m minutely) PromQL() string { return "60 * " + m.all.PromQL() }
func (m minutely) of(w *Watch) map[string]float64 {
	values := m.all.of(w)
	for key := range values {
		values[key] *= 60
	}
	return values
}

// ratio divides one value by another of the same subject.
type ratio struct{ part, whole all }

func (m ratio) PromQL() string      { return m.part.PromQL() + " / " + m.whole.PromQL() }
func (m ratio) series() []Series    { return append(m.part.series(), m.whole.series()...) }
func (m ratio) known(w *Watch) bool { return m.part.known(w) && m.whole.known(w) }
func (m ratio) back() time.Duration { return max(m.part.back(), m.whole.back()) }
func (m ratio) of(w *Watch) map[string]float64 {
	values, wholes := map[string]float64{}, m.whole.of(w)
	for key, part := range m.part.of(w) {
		if whole := wholes[key]; whole != 0 {
			values[key] = part / whole
		}
	}
	return values
}

// among is a share where it is of enough.
type among struct {
	ratio
	count all
	least float64
}

func (m among) PromQL() string {
	return fmt.Sprintf("(%s and %s >= %s)", m.ratio.PromQL(), m.count.PromQL(), strconv.FormatFloat(m.least, 'f', -1, 64))
}
func (m among) series() []Series    { return append(m.ratio.series(), m.count.series()...) }
func (m among) known(w *Watch) bool { return m.ratio.known(w) && m.count.known(w) }
func (m among) back() time.Duration { return max(m.ratio.back(), m.count.back()) }
func (m among) of(w *Watch) map[string]float64 {
	values, counts := m.ratio.of(w), m.count.of(w)
	maps.DeleteFunc(values, func(key string, _ float64) bool { return counts[key] < m.least })
	return values
}

// quantile is what a share of a histogram's observations on each node is no larger than.
type quantile struct {
	share   float64
	buckets over
}

func (m quantile) PromQL() string {
	return fmt.Sprintf("histogram_quantile(%v, sum by (instance, le) (%s))", m.share, m.buckets.Text())
}
func (m quantile) series() []Series    { return []Series{m.buckets.counter} }
func (m quantile) known(*Watch) bool   { return true }
func (m quantile) back() time.Duration { return m.buckets.span() }
func (m quantile) of(w *Watch) map[string]float64 {
	nodes := map[string][]bucket{}
	for at, n := range m.buckets.values(w) {
		if bound, err := strconv.ParseFloat(at.key, 64); err == nil {
			nodes[at.node] = append(nodes[at.node], bucket{bound, n})
		}
	}
	values := map[string]float64{}
	for name, buckets := range nodes {
		if v, ok := quantileOf(m.share, buckets); ok {
			values[name] = v
		}
	}
	return values
}

// bucket counts the observations up to a bound.
type bucket struct{ bound, n float64 }

// quantileOf interpolates within a bucket, as Prometheus does. Above the highest bound it is that bound.
func quantileOf(share float64, buckets []bucket) (float64, bool) {
	slices.SortFunc(buckets, func(a, b bucket) int {
		if a.bound < b.bound {
			return -1
		}
		return 1
	})
	last := len(buckets) - 1
	if last < 1 || !math.IsInf(buckets[last].bound, 1) || buckets[last].n <= 0 {
		return 0, false
	}
	rank := share * buckets[last].n
	i := slices.IndexFunc(buckets, func(b bucket) bool { return b.n >= rank })
	if i == last {
		return buckets[last-1].bound, true
	}
	start, before := 0.0, 0.0
	if i > 0 {
		start, before = buckets[i-1].bound, buckets[i-1].n
	}
	return start + (buckets[i].bound-start)*(rank-before)/(buckets[i].n-before), true
}
