package rollup

import (
	"cmp"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// What a digest covers, and its bounds.
const (
	DigestSpan   = time.Hour       // of its range where none is given
	RatesSpan    = 5 * time.Minute // of its rates
	DigestPoints = 60
	digestList   = 5    // entries of Failures and Slower
	digestKeys   = 2000 // failures and actions that are told apart; further ones are left out
	slowerLeast  = 10   // ends of an action in each range before its times are compared
	slowerFactor = 2.8  // between quantiles of histograms, which are up to 19 % off: the true times have at least doubled
)

// Rates are how much was submitted and ended in a time.
type Rates struct {
	Submitted float64 `json:"submitted" doc:"executions a second"`
	Ended     float64 `json:"ended" doc:"executions a second"`
	Failed    float64 `json:"failed" doc:"executions a second that failed, timed out or were abandoned"`
	WaitP95   float64 `json:"wait_p95_ms" doc:"of those that ended, within 19 %; 0: none ended"`
	RunP95    float64 `json:"run_p95_ms"`
}

// Failure counts executions of an action that ended with a code.
type Failure struct {
	Action string        `json:"action_ref"`
	Code   messages.Code `json:"code"`
	N      int64         `json:"n" doc:"in the range"`
	Before int64         `json:"before" doc:"in the range before"`
	First  time.Time     `json:"first" doc:"the minute, or the hour, of the first one within the range"`
	Last   time.Time     `json:"last" doc:"the minute, or the hour, of the last one"`
}

// Slower is an action that runs longer than before.
type Slower struct {
	Action string  `json:"action_ref"`
	N      int64   `json:"n" doc:"executions that ended in the range"`
	P95    float64 `json:"p95_ms" doc:"of their run time, within 19 %"`
	Before float64 `json:"before_ms" doc:"the same of the range before"`
}

// DigestRange is what a digest is of.
type DigestRange struct {
	From   time.Time `json:"from" doc:"when the range begins"`
	To     time.Time `json:"to" doc:"when it ends"`
	Before time.Time `json:"before" doc:"when the range of the same length before it begins"`
}

// Digest is what the counts say at first sight: how much is done now, and what is new in a range against the same length before it.
type Digest struct {
	From     time.Time   `json:"from" doc:"when the rates begin: five whole minutes, the last ones that are known"`
	To       time.Time   `json:"to" doc:"when they end"`
	Rates    Rates       `json:"rates"`
	Range    DigestRange `json:"range" doc:"what outcomes, failures and slower are of"`
	Outcomes *Series     `json:"outcomes" doc:"how many ended in the range, by status; its last minute may not be over"`
	Failures []Failure   `json:"failures" doc:"what failed in the range: first what did not in the range before, the newest first; at most 5"`
	Slower   []Slower    `json:"slower" doc:"actions whose run time has at least doubled since the range before, at most 5"`
	Partial  bool        `json:"partial,omitempty" doc:"there was more than is read for one answer, or a part of it is deleted, and some is missing"`

	of       Compared
	pools    map[string]*Tally
	all      Tally
	failures map[failureKey]*Failure
	actions  map[string]*[2]Tally // of the range, and of the one before
}

type failureKey struct {
	action string
	code   messages.Code
}

// NewDigest makes a digest of ranges without counts. Known is up to when counts are known.
func NewDigest(of Compared, known time.Time) *Digest {
	to := known.Truncate(time.Minute)
	outcomes := NewSeries(Query{From: of.From, To: of.To, By: ByStatus, Metric: MetricEnded, Points: DigestPoints})
	outcomes.Until = of.Until
	return &Digest{
		From: to.Add(-RatesSpan), To: to, Range: DigestRange{From: of.From, To: of.To, Before: of.Before}, Outcomes: outcomes, of: of,
		pools: map[string]*Tally{}, failures: map[failureKey]*Failure{}, actions: map[string]*[2]Tally{},
	}
}

// AddRate adds a minute to the rates.
func (d *Digest) AddRate(r *Row) {
	if r.Minute.Before(d.From) || !r.Minute.Before(d.To) {
		return
	}
	d.all.Add(r)
	if of := entry(d.pools, r.Pool); of != nil {
		of.Add(r)
	}
}

// Add adds a row to the range that has it.
func (d *Digest) Add(r *Row) {
	in, within := d.of.In(r.Minute)
	if !within || r.Status == Submitted {
		return
	}
	if in == 0 {
		d.Outcomes.Add(r)
	}
	if of := entry(d.actions, r.Action); of != nil && r.Action != Other {
		of[in].Add(r)
	}
	if Unsuccessful(r.Status) {
		d.fail(r, in == 0)
	}
}

// entry is the entry of a key, which is made where there is room for it; nil where there is none.
func entry[K comparable, V any](of map[K]*V, key K) *V {
	if of[key] == nil && len(of) < digestKeys {
		of[key] = new(V)
	}
	return of[key]
}

func (d *Digest) fail(r *Row, within bool) {
	f := entry(d.failures, failureKey{r.Action, r.Code})
	if f == nil {
		return
	}
	f.Action, f.Code = r.Action, r.Code
	if !within {
		f.Before += r.N
		return
	}
	f.N += r.N
	if f.First.IsZero() || r.Minute.Before(f.First) {
		f.First = r.Minute
	}
	if r.Minute.After(f.Last) {
		f.Last = r.Minute
	}
}

// Pool are the rates of a pool.
func (d *Digest) Pool(name string) Rates {
	if t := d.pools[name]; t != nil {
		return t.Rates(RatesSpan)
	}
	return Rates{}
}

// Done computes what the rows come to.
func (d *Digest) Done() *Digest {
	d.Rates = d.all.Rates(RatesSpan)
	d.Outcomes.Done()
	d.Failures, d.Slower = []Failure{}, []Slower{}
	for _, f := range d.failures {
		if f.N > 0 {
			d.Failures = append(d.Failures, *f)
		}
	}
	slices.SortFunc(d.Failures, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(min(a.Before, 1), min(b.Before, 1)), b.Last.Compare(a.Last), cmp.Compare(b.N, a.N), cmp.Compare(a.Action, b.Action), cmp.Compare(a.Code, b.Code))
	})
	for action, of := range d.actions {
		s := Slower{Action: action, N: of[0].Ended, P95: of[0].RunP95(), Before: of[1].RunP95()}
		if of[0].Ended >= slowerLeast && of[1].Ended >= slowerLeast && s.P95 >= slowerFactor*s.Before && s.Before > 0 {
			d.Slower = append(d.Slower, s)
		}
	}
	slices.SortFunc(d.Slower, func(a, b Slower) int {
		return cmp.Or(cmp.Compare(b.P95-b.Before, a.P95-a.Before), cmp.Compare(a.Action, b.Action))
	})
	d.Failures, d.Slower = d.Failures[:min(len(d.Failures), digestList)], d.Slower[:min(len(d.Slower), digestList)]
	return d
}
