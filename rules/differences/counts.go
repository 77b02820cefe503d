package differences

import (
	"github.com/troupe-run/troupe/rules/rollup"
)

// counts are the executions of both ranges: in the range, and in the one before.
type counts struct {
	actions, pools map[string]*[2]rollup.Tally
	errors         map[failure]*[2]float64
	versions       map[version]*[2]float64
}

type (
	failure struct{ action, code string }
	version struct{ action, version string }
)

func newCounts() counts {
	return counts{
		actions: map[string]*[2]rollup.Tally{}, pools: map[string]*[2]rollup.Tally{}, errors: map[failure]*[2]float64{}, versions: map[version]*[2]float64{},
	}
}

// entry is the entry of a key, which is made where there is room for it; nil where there is none.
func entry[K comparable, V any](d *Differences, of map[K]*V, key K) *V {
	v := of[key]
	if v == nil && len(of) >= thingsMax/5 {
		d.more = true
		return nil
	}
	if v == nil {
		v = new(V)
		of[key] = v
	}
	return v
}

// Row adds what was counted of a key, in a minute or an hour.
func (d *Differences) Row(r *rollup.Row) {
	in, within := d.at(r.Minute)
	if !within {
		return
	}
	if t := entry(d, d.counts.pools, r.Pool); t != nil && r.Pool != "" {
		t[in].Add(r)
	}
	if r.Action == rollup.Other || r.Status == rollup.Submitted {
		return
	}
	if t := entry(d, d.counts.actions, r.Action); t != nil {
		t[in].Add(r)
	}
	if v := entry(d, d.counts.versions, version{r.Action, r.Version}); v != nil {
		v[in] += float64(r.N)
	}
	if !rollup.Unsuccessful(r.Status) {
		return
	}
	code := string(r.Code)
	if code == "" {
		code = r.Status.String()
	}
	if e := entry(d, d.counts.errors, failure{r.Action, code}); e != nil {
		e[in] += float64(r.N)
	}
}

// Uncount forgets the executions: not all of them were read.
func (d *Differences) Uncount() { d.counts = newCounts() }

// figures notes what the counts come to.
func (c *counts) figures(d *Differences) {
	for f, n := range c.errors {
		d.both(Error, Failed, f.action, f.code, n[0], n[1])
	}
	for name, t := range c.actions {
		d.both(Action, Ended, name, "", float64(t[0].Ended), float64(t[1].Ended))
		if t[0].Ended >= enough && t[1].Ended >= enough {
			d.both(Action, FailedShare, name, "", share(&t[0]), share(&t[1]))
			d.times(Action, RunP95, name, t[0].RunP95(), t[1].RunP95())
		}
	}
	for name, t := range c.pools {
		d.both(Pool, Submitted, name, "", float64(t[0].Submitted), float64(t[1].Submitted))
		if t[0].Ended >= enough && t[1].Ended >= enough {
			d.times(Pool, WaitP95, name, t[0].WaitP95(), t[1].WaitP95())
		}
	}
	for v, n := range c.versions {
		if t := c.actions[v.action]; v.version != "" && t != nil && t[0].Ended > 0 && t[1].Ended > 0 { // else the action is new, or gone
			d.both(Version, Ended, v.action, v.version, n[0], n[1])
		}
	}
}

func share(t *rollup.Tally) float64 { return float64(t.Failed) / float64(t.Ended) }

func (d *Differences) both(of Of, what, subject, code string, value, before float64) {
	if value != 0 || before != 0 {
		d.note(of, what, subject, code, 0, value)
		d.note(of, what, subject, code, 1, before)
	}
}

// times notes quantiles, where both are known.
func (d *Differences) times(of Of, what, subject string, value, before float64) {
	if value > 0 && before > 0 {
		d.both(of, what, subject, "", value, before)
	}
}
