package node

import (
	"context"
	"errors"
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
)

// overviews puts the first view together. One serves all callers for a second, so that twenty pages cost one.
type overviews struct {
	*base
	operator  *operate.Operator
	readiness *readiness
	alerting  *alerting
	gate      func() *messages.Problem // says why the store cannot be asked

	turn    chan struct{} // holds one while an overview is put together
	last    api.Overview
	read    time.Time
	counts  *rollup.Digest // nil: not read yet
	counted time.Time
}

func newOverviews(b *base, operator *operate.Operator, r *readiness, a *alerting, gate func() *messages.Problem) *overviews {
	return &overviews{base: b, operator: operator, readiness: r, alerting: a, gate: gate, turn: make(chan struct{}, 1)}
}

// get returns an overview of the last second, or a new one. A part that cannot be read is missing, with the reason.
func (o *overviews) get(ctx context.Context) api.Overview {
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-ctx.Done():
		return o.without(context.Cause(ctx))
	}
	if time.Since(o.read) < overviewAge {
		return o.last
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), overviewTime) // others wait for it too
	defer cancel()
	o.last = o.compose(limited)
	o.read = time.Now()
	return o.last
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
	if v.Counts, err = o.digest(ctx); err != nil {
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

// digest is what was counted, read anew as often as it is written.
func (o *overviews) digest(ctx context.Context) (*rollup.Digest, error) {
	if o.counts != nil && time.Since(o.counted) < countsAge {
		return o.counts, nil
	}
	counts, err := o.operator.Digest(ctx)
	if err != nil {
		return nil, err
	}
	o.counts, o.counted = counts, time.Now()
	return counts, nil
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
