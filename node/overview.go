package node

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/rollup"
	"github.com/troupe-run/troupe/store"
)

// How long parts of an overview serve, and the bounds of one.
const (
	overviewAge  = time.Second
	countsAge    = rollupEvery // the nodes write their counts as often
	overviewTime = 4 * time.Second
	lostShown    = time.Hour // how long a dead node is shown
	lostMax      = 20
	rangesMax    = 16 // ranges whose counts are kept
)

// overviews puts the first view together. One serves all callers for a second, so that twenty pages cost one.
type overviews struct {
	*base
	operator  *operate.Operator
	readiness *readiness
	alerting  *alerting
	gate      func() *messages.Problem // says why the store cannot be asked

	turn   chan struct{} // holds one while an overview is put together
	last   api.Overview  // with the counts of the last hour
	read   time.Time
	counts map[[2]time.Time]rangeCounts // by range
}

// rangeCounts is what was counted in a range, and when that was read.
type rangeCounts struct {
	*rollup.Digest
	read time.Time
}

func newOverviews(b *base, operator *operate.Operator, r *readiness, a *alerting, gate func() *messages.Problem) *overviews {
	return &overviews{base: b, operator: operator, readiness: r, alerting: a, gate: gate, turn: make(chan struct{}, 1), counts: map[[2]time.Time]rangeCounts{}}
}

// get returns an overview of the last second, or a new one, with the counts of a range; one without an end is the last hour. A part that
// cannot be read is missing, with the reason.
func (o *overviews) get(ctx context.Context, from, to time.Time) api.Overview {
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-ctx.Done():
		return o.without(context.Cause(ctx))
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), overviewTime) // others wait for it too
	defer cancel()
	if time.Since(o.read) >= overviewAge {
		o.last = o.compose(limited)
		o.read = time.Now()
	}
	if to.IsZero() || o.last.Counts == nil { // or why there are none is said already
		return o.last
	}
	return o.ranged(limited, from, to)
}

// ranged is the last overview with the counts of a range.
func (o *overviews) ranged(ctx context.Context, from, to time.Time) api.Overview {
	v := o.last
	counts, err := o.digest(ctx, from.Truncate(time.Minute), to.Truncate(time.Minute))
	if v.Counts = counts; err != nil {
		v.Missing = append(slices.Clone(v.Missing), missingPart("counts", err))
	}
	return v
}

// without is an overview that says why it has nothing.
func (o *overviews) without(why error) api.Overview {
	v := api.Overview{At: o.clock.Now()}
	for _, part := range []string{"pools", "nodes", "counts"} {
		v.Missing = append(v.Missing, missingPart(part, why))
	}
	return v
}

func missingPart(part string, why error) api.MissingPart {
	text := why.Error()
	var p *messages.Problem
	if errors.As(why, &p) {
		text = p.Message
	}
	return api.MissingPart{Part: part, Why: text}
}

// compose puts an overview together.
func (o *overviews) compose(ctx context.Context) api.Overview {
	if !o.phase.started.Load() {
		v := o.without(errors.New("the node is starting"))
		v.Readiness = o.readiness.read(ctx)
		return v
	}
	v := api.Overview{At: o.clock.Now(), Findings: o.alerting.latest(), Readiness: o.readiness.read(ctx)}
	var err error
	if v.Counts, err = o.digest(ctx, time.Time{}, time.Time{}); err != nil {
		v.Missing = append(v.Missing, missingPart("counts", err))
	}
	pools, err := o.livePools(ctx)
	if err != nil {
		v.Missing = append(v.Missing, missingPart("pools", err))
	}
	v.Unreached = pools.Unreached
	for i := range pools.Pools {
		v.Pools = append(v.Pools, api.PoolOverview{Pool: pools.Pools[i]})
		if v.Counts != nil {
			rates := v.Counts.Pool(pools.Pools[i].Name)
			v.Pools[i].Rates = &rates
		}
	}
	v.Totals = api.NewTotals(v.Pools)
	nodes, err := o.operator.Nodes(ctx)
	if err != nil {
		v.Missing = append(v.Missing, missingPart("nodes", err))
	}
	v.Nodes = shownNodes(nodes, v.At)
	return v
}

// livePools are the pools, with what waits unless the error says why not.
func (o *overviews) livePools(ctx context.Context) (view.Pools, error) {
	pools, why := o.countedPools(ctx)
	if why == nil {
		return pools, nil
	}
	pools, err := o.operator.LivePools(ctx)
	return pools, errors.Join(why, err)
}

func (o *overviews) countedPools(ctx context.Context) (view.Pools, error) {
	if shut := o.gate(); shut != nil {
		return view.Pools{}, shut
	}
	return o.operator.Pools(ctx, "")
}

// digest is what was counted in a range, read anew as often as it is written.
func (o *overviews) digest(ctx context.Context, from, to time.Time) (*rollup.Digest, error) {
	key := [2]time.Time{from, to}
	if kept := o.counts[key]; kept.Digest != nil && time.Since(kept.read) < countsAge {
		return kept.Digest, nil
	}
	read, err := o.operator.Digest(ctx, from, to)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(o.counts, func(_ [2]time.Time, kept rangeCounts) bool { return time.Since(kept.read) >= countsAge })
	if len(o.counts) >= rangesMax {
		clear(o.counts)
	}
	o.counts[key] = rangeCounts{read, time.Now()}
	return read, nil
}

// shownNodes are those that live, and the newest of those that have ended lately.
func shownNodes(nodes []view.Node, now time.Time) []view.Node {
	dead := 0
	return slices.DeleteFunc(nodes, func(n view.Node) bool {
		if n.State != store.NodeDead {
			return false
		}
		dead++
		return dead > lostMax || now.Sub(n.BeatAt) > lostShown
	})
}
