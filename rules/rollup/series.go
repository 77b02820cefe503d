package rollup

import (
	"cmp"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// Bounds of a series.
const (
	PointsMax = 600
	LinesMax  = 50 // lines of one answer; the others are summed as Other
)

// By is what a series has a line for.
type By string

// The fields.
const (
	ByStatus  By = "status"
	ByAction  By = "action"
	ByPool    By = "pool"
	ByVersion By = "version"
	ByError   By = "error"
	ByAll     By = "all"   // one line of all, with All as its key
	ByState   By = "state" // of workers
)

// All is the key of the line of all.
const All = "all"

// Fields lists those that a metric has lines for; the first is taken where none is named.
func (m Metric) Fields() []By {
	switch m {
	case MetricSlots:
		return []By{ByState, ByPool, ByAll}
	case MetricBusy, MetricWaiting:
		return []By{ByPool, ByAll}
	}
	return []By{ByStatus, ByAction, ByPool, ByVersion, ByError, ByAll}
}

// Fields lists all of them.
func Fields() []By { return append(MetricEnded.Fields(), ByState) }

// Metric is what a series shows.
type Metric string

// The metrics.
const (
	MetricEnded     Metric = "ended"     // executions that ended
	MetricSubmitted Metric = "submitted" // executions that were submitted
	MetricWait      Metric = "wait"      // from when they were due to the start, of those that ended
	MetricRun       Metric = "run"       // from the start to the end

	// What the nodes noted every few minutes, at the end of each point.
	MetricSlots   Metric = "slots"   // workers
	MetricBusy    Metric = "busy"    // workers that are busy
	MetricWaiting Metric = "waiting" // executions that the routers hold, because they cannot be placed yet
)

// Metrics lists them.
func Metrics() []Metric {
	return []Metric{MetricEnded, MetricSubmitted, MetricWait, MetricRun, MetricSlots, MetricBusy, MetricWaiting}
}

// Sampled reports whether the metric is of moments, and not of all that happened in a point.
func (m Metric) Sampled() bool { return m == MetricSlots || m == MetricBusy || m == MetricWaiting }

// Timed reports whether the metric is of times, and needs the histograms of the counts.
func (m Metric) Timed() bool { return m == MetricWait || m == MetricRun }

// Query asks for a series.
type Query struct {
	From, To time.Time
	By       By
	Metric   Metric
	Points   int
	Least    time.Duration // the shortest step, where counts are not kept by the minute for so long

	Pools, Actions []string // only one of these; empty: any
}

// steps are the lengths that a point can have, in minutes.
var steps = []int{1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080}

// Step is the length of a point: the shortest from Least on with which there are no more points than asked for.
func (q *Query) Step() time.Duration {
	for _, step := range steps {
		length := time.Duration(step) * time.Minute
		if length >= q.Least && q.To.Sub(q.From.Truncate(length)) <= time.Duration(q.Points)*length {
			return length
		}
	}
	return time.Duration(steps[len(steps)-1]) * time.Minute
}

// Line is the points of one value of the field.
type Line struct {
	Key string  `json:"key" doc:"the value of the field"`
	N   []int64 `json:"n" doc:"executions, one number a point; of slots and busy: workers, at its end"`
	// Of the metrics wait and run, in milliseconds.
	P50 []float64 `json:"p50,omitempty" doc:"of wait and run: milliseconds, within 19 %; 0 where n is 0"`
	P95 []float64 `json:"p95,omitempty"`
	P99 []float64 `json:"p99,omitempty"`

	total int64
	times []Histogram
}

// Series are the lines of a query.
type Series struct {
	From        time.Time `json:"from" doc:"when the first point begins"`
	StepSeconds int       `json:"step_seconds" doc:"the length of a point"`
	Until       time.Time `json:"until" doc:"up to when the counts are known"`
	// KnownFrom is set by whoever knows how long counts are kept.
	KnownFrom *time.Time `json:"known_from,omitempty" doc:"older counts are deleted; missing: all are kept"`
	// Unknown are points of which nothing was noted; see Series.Unnoted.
	Unknown []int   `json:"unknown,omitempty" doc:"of slots, busy and waiting: the points, from 0 on, of which no node has noted anything, as before there was one; their numbers are 0"`
	Series  []*Line `json:"series" doc:"the largest first; from the 50th on they are summed as (other)"`

	step   time.Duration
	points int
	q      Query
	lines  map[string]*Line
}

// NewSeries makes a series without counts.
func NewSeries(q Query) *Series {
	step := q.Step()
	s := &Series{From: q.From.Truncate(step), StepSeconds: int(step / time.Second), Until: q.To, step: step, q: q, lines: map[string]*Line{}}
	s.points = min(q.Points, int((q.To.Sub(s.From)+step-1)/step))
	return s
}

// Step is the length of a point.
func (s *Series) Step() time.Duration { return s.step }

// Add adds a row.
func (s *Series) Add(r *Row) {
	if (r.Status == Submitted) != (s.q.Metric == MetricSubmitted) {
		return
	}
	if !oneOf(s.q.Pools, r.Pool) || !oneOf(s.q.Actions, r.Action) {
		return
	}
	at := int(r.Minute.Sub(s.From) / s.step)
	if r.Minute.Before(s.From) || at >= s.points {
		return
	}
	l := s.line(s.q.By.of(&r.Key))
	l.N[at] += r.N
	l.total += r.N
	switch s.q.Metric {
	case MetricWait:
		l.times[at].Merge(&r.Wait)
	case MetricRun:
		l.times[at].Merge(&r.Run)
	}
}

// Ends are the ends of the points, of the last one the end of the series.
func (s *Series) Ends() []time.Time {
	ends := make([]time.Time, s.points)
	for i := range ends {
		if ends[i] = s.From.Add(time.Duration(i+1) * s.step); ends[i].After(s.q.To) {
			ends[i] = s.q.To
		}
	}
	return ends
}

// Unnoted says that nothing was noted for a point: its numbers are not known.
func (s *Series) Unnoted(point int) { s.Unknown = append(s.Unknown, point) }

// Sample adds what there was of a pool at the end of a point. State is that of workers.
func (s *Series) Sample(point int, pool, state string, n int64) {
	if !oneOf(s.q.Pools, pool) {
		return
	}
	key := All
	switch s.q.By {
	case ByPool:
		key = pool
	case ByState:
		key = state
	}
	l := s.line(key)
	l.N[point] += n
	l.total += n
}

// oneOf reports whether a value is one of those that are asked for.
func oneOf(asked []string, value string) bool {
	return len(asked) == 0 || slices.Contains(asked, value)
}

func (s *Series) line(key string) *Line {
	l := s.lines[key]
	if l == nil && len(s.lines) >= KeysMax {
		key = Other
		l = s.lines[key]
	}
	if l == nil {
		l = &Line{Key: key, N: make([]int64, s.points)}
		if s.q.Metric.Timed() {
			l.times = make([]Histogram, s.points)
		}
		s.lines[key] = l
	}
	return l
}

// of is the value of the field.
func (b By) of(k *Key) string {
	switch b {
	case ByAction:
		return k.Action
	case ByPool:
		return k.Pool
	case ByVersion:
		return k.Action + "@" + k.Version
	case ByError:
		return string(k.Code)
	case ByAll:
		return All
	}
	if k.Status == Submitted {
		return string(MetricSubmitted)
	}
	return messages.Status.String(k.Status)
}

// Done orders the lines, sums those that are too many, and computes the quantiles.
func (s *Series) Done() *Series {
	s.Series = []*Line{}
	for _, l := range s.lines {
		s.Series = append(s.Series, l)
	}
	slices.SortFunc(s.Series, func(a, b *Line) int { return cmp.Or(cmp.Compare(b.total, a.total), cmp.Compare(a.Key, b.Key)) })
	for len(s.Series) > LinesMax {
		last := s.Series[len(s.Series)-1]
		into := s.Series[LinesMax-1]
		for i, n := range last.N {
			into.N[i] += n
			if s.q.Metric.Timed() {
				into.times[i].Merge(&last.times[i])
			}
		}
		into.Key = Other
		s.Series = s.Series[:len(s.Series)-1]
	}
	if s.q.Metric.Timed() {
		for _, l := range s.Series {
			for i := range l.times {
				h := &l.times[i]
				l.P50, l.P95, l.P99 = append(l.P50, ms(h, 0.5)), append(l.P95, ms(h, 0.95)), append(l.P99, ms(h, 0.99))
			}
		}
	}
	return s
}

func ms(h *Histogram, q float64) float64 {
	return float64(h.Quantile(q).Microseconds()) / 1000
}
