package rollup

import (
	"cmp"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// What a digest covers, and its bounds.
const (
	DigestSpan   = time.Hour       // of its series; what is new or slower is so against the same time before
	RatesSpan    = 5 * time.Minute // of its rates
	DigestPoints = 60
	digestList   = 5    // entries of Failures and Slower
	digestKeys   = 2000 // failures and actions that are told apart; further ones are left out
	slowerLeast  = 10   // ends of an action in each hour before its times are compared
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
	N      int64         `json:"n" doc:"in the last hour"`
	Before int64         `json:"before" doc:"in the hour before"`
	First  time.Time     `json:"first" doc:"the minute of the first one within the hour"`
	Last   time.Time     `json:"last" doc:"the minute of the last one"`
}

// Slower is an action that runs longer than before.
type Slower struct {
	Action string  `json:"action_ref"`
	N      int64   `json:"n" doc:"executions that ended in the last hour"`
	P95    float64 `json:"p95_ms" doc:"of their run time, within 19 %"`
	Before float64 `json:"before_ms" doc:"the same of the hour before"`
}

// Digest is what the counts of the last two hours say at first sight.
type Digest struct {
	From     time.Time `json:"from" doc:"when the rates begin: five whole minutes"`
	To       time.Time `json:"to" doc:"when they end"`
	Rates    Rates     `json:"rates"`
	Outcomes *Series   `json:"outcomes" doc:"how many ended in the last hour, by status; the last minute is not over"`
	Failures []Failure `json:"failures" doc:"what failed in the last hour: first what did not in the hour before, the newest first; at most 5"`
	Slower   []Slower  `json:"slower" doc:"actions whose run time has at least doubled since the hour before, at most 5"`
	Partial  bool      `json:"partial,omitempty" doc:"there was more than is read for one answer, and older minutes are missing"`

	pools    map[string]*Tally
	all      Tally
	failures map[failureKey]*Failure
	actions  map[string]*[2]Tally // of the last hour, and of the hour before
}

type failureKey struct {
	action string
	code   messages.Code
}

// NewDigest makes a digest without counts. Until is up to when the counts are known.
func NewDigest(until time.Time) *Digest {
	to := until.Truncate(time.Minute)
	outcomes := NewSeries(Query{From: to.Add(time.Minute - DigestSpan), To: to.Add(time.Minute), By: ByStatus, Metric: MetricEnded, Points: DigestPoints})
	outcomes.Until = until
	return &Digest{
		From: to.Add(-RatesSpan), To: to, Outcomes: outcomes, pools: map[string]*Tally{}, failures: map[failureKey]*Failure{}, actions: map[string]*[2]Tally{},
	}
}

// Spans are the times whose rows are to be added, the most wanted first: those of the rates, of the series, and of the hour before.
func (d *Digest) Spans() [3][2]time.Time {
	now := d.To.Add(time.Minute)
	hour := now.Add(-DigestSpan)
	return [3][2]time.Time{{d.From, now}, {hour, d.From}, {hour.Add(-DigestSpan), hour}}
}

// Add adds a row.
func (d *Digest) Add(r *Row) {
	age := d.To.Sub(r.Minute) // 0: the minute that it is now
	if age < 0 || age >= 2*DigestSpan {
		return
	}
	last := age < DigestSpan
	if age > 0 && age <= RatesSpan {
		d.all.Add(r)
		if of := entry(d.pools, r.Pool); of != nil {
			of.Add(r)
		}
	}
	if r.Status == Submitted {
		return
	}
	if last {
		d.Outcomes.Add(r)
	}
	if of := entry(d.actions, r.Action); of != nil && r.Action != Other {
		of[index(last)].Add(r)
	}
	if Unsuccessful(r.Status) {
		d.fail(r, last)
	}
}

func index(last bool) int {
	if last {
		return 0
	}
	return 1
}

// entry is the entry of a key, which is made where there is room for it; nil where there is none.
func entry[K comparable, V any](of map[K]*V, key K) *V {
	if of[key] == nil && len(of) < digestKeys {
		of[key] = new(V)
	}
	return of[key]
}

func (d *Digest) fail(r *Row, last bool) {
	f := entry(d.failures, failureKey{r.Action, r.Code})
	if f == nil {
		return
	}
	f.Action, f.Code = r.Action, r.Code
	if !last {
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
