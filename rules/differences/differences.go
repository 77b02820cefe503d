package differences

import (
	"cmp"
	"slices"
	"time"

	"github.com/troupe-run/troupe/rules/rollup"
)

// Bounds of an answer.
const (
	Most      = 50   // differences
	thingsMax = 5000 // figures that are told apart; further things are left out
)

// Difference is one figure of one thing in both ranges.
type Difference struct {
	Of      Of      `json:"of" doc:"error, action, version, pool, worker, session, node, server, command or mark"`
	Subject string  `json:"subject" doc:"the name of the thing; of an error or a version: of its action"`
	Code    string  `json:"code,omitempty" doc:"of an error; of a version: the version"`
	What    string  `json:"what" doc:"the figure: failed, failed_share, ended, submitted, run_p95, wait_p95, troubled, marked, router_taken, or what the journal says: a condition of a pool, why sessions were unbound, what became of a node or server, a command"`
	Unit    Unit    `json:"unit" doc:"n, share (0 to 1), ms (within 19 %) or s"`
	Value   float64 `json:"value" doc:"in the range"`
	Before  float64 `json:"before" doc:"in the range before"`
	Weight  float64 `json:"weight" doc:"how much it matters, to order by"`
	Text    string  `json:"text" doc:"what the figures are of, in words"`
	Link    string  `json:"link" doc:"the page of the console with what the value is of"`
	Earlier string  `json:"link_before" doc:"the same for the range before"`
}

// Differences is what is different in a range from the range before.
type Differences struct {
	From   time.Time `json:"from" doc:"when the range begins"`
	To     time.Time `json:"to" doc:"when it ends"`
	Before time.Time `json:"before" doc:"when the range before begins; it ends at from"`
	Until  time.Time `json:"until" doc:"up to when the counts are known"`
	// Found are in the order of their weights.
	Found []Difference `json:"differences" doc:"the heaviest first, at most 50"`
	Left  int          `json:"left,omitempty" doc:"lighter ones that are left out"`
	Notes []string     `json:"notes,omitempty" doc:"what is not compared, and why"`

	of     rollup.Compared
	things map[thing]*[2]float64
	counts counts
	names  map[string]string // of nodes, by their incarnations
	more   bool              // there are more things than are told apart
	seen   [2]bool           // something is recorded of the range, and of the one before
}

// thing is what a figure is of.
type thing struct {
	figure
	subject, code string
}

// New makes the comparison of ranges of which nothing is recorded yet.
func New(of rollup.Compared) *Differences {
	return &Differences{From: of.From, To: of.To, Before: of.Before, Until: of.Until, of: of, things: map[thing]*[2]float64{}, counts: newCounts(), names: map[string]string{}}
}

// Name says of which node an incarnation is a boot.
func (d *Differences) Name(incarnation, node string) { d.names[incarnation] = node }

// at says in which of the ranges something recorded is: 0 in the range, 1 in the one before; false: in neither.
func (d *Differences) at(t time.Time) (int, bool) {
	in, within := d.of.In(t)
	if within {
		d.seen[in] = true
	}
	return in, within
}

// note adds to a figure in one of the ranges.
func (d *Differences) note(of Of, what, subject, code string, in int, n float64) {
	k := thing{figure: figure{of, what}, subject: subject, code: code}
	figures := d.things[k]
	if figures == nil {
		if len(d.things) >= thingsMax {
			d.more = true
			return
		}
		figures = new([2]float64)
		d.things[k] = figures
	}
	figures[in] += n
}

// Done compares what was noted.
func (d *Differences) Done() *Differences {
	d.counts.figures(d)
	seconds := d.To.Sub(d.From).Seconds()
	d.Found = []Difference{}
	for k, figures := range d.things {
		r, compared := ruleOf(k.figure, seconds)
		if !compared {
			continue
		}
		if weight := r.weigh(figures[1], figures[0]); weight > 0 {
			d.Found = append(d.Found, d.difference(&k, r.unit, figures, weight))
		}
	}
	slices.SortFunc(d.Found, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Of, b.Of), cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Code, b.Code), cmp.Compare(a.What, b.What))
	})
	if d.Left = max(0, len(d.Found)-Most); d.Left > 0 {
		d.Found = d.Found[:Most]
	}
	if d.seen[0] && !d.seen[1] {
		d.Notes = append(d.Notes, "nothing is recorded of the time before, from "+d.Before.UTC().Format(time.RFC3339)+" on: there may have been no node")
	}
	if d.more {
		d.Notes = append(d.Notes, "there are more things than are compared at once: give a shorter range")
	}
	return d
}

func (d *Differences) difference(k *thing, unit Unit, figures *[2]float64, weight float64) Difference {
	f := Difference{Of: k.of, Subject: k.subject, Code: k.code, What: k.what, Unit: unit, Value: round(figures[0]), Before: round(figures[1]), Weight: round(weight)}
	f.Text = f.words()
	f.Link, f.Earlier = f.page(d.From, d.To), f.page(d.Before, d.From)
	return f
}

// round keeps what matters of a figure: a thousandth.
func round(f float64) float64 {
	return float64(int64(f*1000+0.5)) / 1000
}
