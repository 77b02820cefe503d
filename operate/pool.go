package operate

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/rollup"
	"github.com/troupe-run/troupe/supervisor"
)

// Bounds of a pool in detail.
const (
	slotFailures   = 5       // of one node
	slotFailureMax = 1 << 10 // bytes of each
)

// unknownState is the state of a worker whose node does not answer.
const unknownState = "unknown"

// Pool returns one pool in detail, summed over all live nodes. What waits is counted by the nodes that place it.
func (o *Operator) Pool(ctx context.Context, name string) (view.PoolDetail, error) {
	if shut := o.cfg.Self.Gate(); shut != nil {
		return view.PoolDetail{}, shut
	}
	depths, err := o.cfg.Store.Depths(ctx)
	if err != nil {
		return view.PoolDetail{}, err
	}
	shares, err := everywhere(ctx, o.fleet, "", func(ctx context.Context) []view.PoolShare { return o.own.ownPool(ctx, name) },
		func(after string) wire.Body { return wire.Pools{After: after, Pool: name} })
	if err != nil {
		return view.PoolDetail{}, err
	}
	v := view.PoolDetail{Slots: []view.SlotCount{}, Queues: []view.PoolQueue{}, Unreached: unreached(o.fleet, shares)}
	sum := poolSum{}
	for i := range shares {
		for j := range shares[i].items {
			part := &shares[i].items[j]
			if part.Name != name { // of a node that shows all of its pools
				continue
			}
			sum.add(shares[i].node.Name, shares[i].node.Incarnation == o.cfg.Incarnation, &part.Pool)
			addShare(&v, part)
		}
	}
	for _, w := range o.staleWorkers(ctx, name, v.Unreached) {
		sum.addStale(&w)
		addSlots(&v, view.SlotCount{State: unknownState, N: 1})
	}
	if sum[name] == nil {
		return v, messages.Problemf(messages.CodeNotFound, "there is no pool %s on any live node", name)
	}
	v.Pool = sum.views(depths)[0]
	slices.SortFunc(v.Slots, func(a, b view.SlotCount) int { return cmp.Compare(statePlace(a.State), statePlace(b.State)) })
	if now, err := o.cfg.Store.Now(ctx); err == nil {
		v.Drain = o.drains(ctx, &v.Pool, now)
	}
	return v, nil
}

// addShare adds what one node knows of the pool.
func addShare(v *view.PoolDetail, part *view.PoolShare) {
	addSlots(v, part.Slots...)
	v.Failures = append(v.Failures, part.Failures...)
	if part.Queue != nil {
		v.Queues = append(v.Queues, *part.Queue)
	}
}

func addSlots(v *view.PoolDetail, counts ...view.SlotCount) {
	for _, c := range counts {
		i := slices.IndexFunc(v.Slots, func(has view.SlotCount) bool { return has.State == c.State })
		if i < 0 {
			v.Slots = append(v.Slots, c)
			continue
		}
		v.Slots[i].N += c.N
	}
}

// statePlace orders states as a life has them.
func statePlace(state string) int {
	if s, err := lifecycle.ParseState(state); err == nil {
		return int(s)
	}
	return len(lifecycle.States())
}

// drains estimates when what waits is done, by the counts of the last five minutes; nil: they cannot be read.
func (o *Operator) drains(ctx context.Context, p *view.Pool, now time.Time) *view.Drain {
	d := rollup.NewDigest(rollup.Compared{}, now.Add(-seriesKnown))
	if err := o.rates(ctx, d); err != nil || d.Partial {
		return nil
	}
	rates := d.Pool(p.Name)
	return view.NewDrain(p.Due(), rates.Submitted, rates.Ended, d.From, d.To)
}

// ownPool is this node's share of one pool, in detail; none: it has no such pool, or that does not answer.
func (l *local) ownPool(ctx context.Context, name string) []view.PoolShare {
	if !l.cfg.Pools.Has(name) {
		return []view.PoolShare{}
	}
	limited, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	d, err := l.cfg.Pools.Describe(limited, name)
	if err != nil {
		l.cfg.Logger.Warn("pool does not describe itself", "pool", name, "error", err)
		return []view.PoolShare{}
	}
	share := poolShare(&d, l.cfg.Name)
	l.mark(&share.Pool)
	return []view.PoolShare{share}
}

// poolShare is a node's share of a pool, in detail.
func poolShare(d *supervisor.Description, node string) view.PoolShare {
	share, states := view.PoolShare{Pool: poolView(d)}, map[lifecycle.State]int{}
	for i := range d.Workers {
		w := &d.Workers[i]
		states[w.State]++
		if w.LastFailure != "" && w.State != lifecycle.Ready && w.State != lifecycle.Busy && len(share.Failures) < slotFailures {
			share.Failures = append(share.Failures, view.SlotFailure{
				Worker: w.ID, State: w.State.String(), Generation: w.Generation, Restarts: w.Restarts, Error: messages.ClipText(w.LastFailure, slotFailureMax),
			})
		}
	}
	for _, s := range lifecycle.States() {
		if states[s] > 0 {
			share.Slots = append(share.Slots, view.SlotCount{State: s.String(), N: states[s]})
		}
	}
	if d.Lead.Mode != lead.Following {
		share.Queue = poolQueue(d, node)
	}
	return share
}

// poolQueue is what a router holds.
func poolQueue(d *supervisor.Description, node string) *view.PoolQueue {
	q := &view.PoolQueue{
		Node: node, Mode: d.Lead.Mode.String(), Since: d.Lead.Since, Held: d.Router.Held, Counted: d.Waits.Counted,
		ByPriority: []view.PriorityCount{}, ByCause: []view.CauseCount{},
	}
	if d.Lead.Mode == lead.Leading {
		q.Epoch = d.Lead.Epoch
	}
	for priority, n := range d.Waits.Priorities {
		q.ByPriority = append(q.ByPriority, view.PriorityCount{Priority: priority, N: n})
	}
	for reason, n := range d.Waits.Reasons {
		q.ByCause = append(q.ByCause, view.CauseCount{Reason: reason.String(), Message: reason.Sentence(), WhatToDo: reason.Advice(), N: n})
	}
	slices.SortFunc(q.ByPriority, func(a, b view.PriorityCount) int { return cmp.Compare(b.Priority, a.Priority) })
	slices.SortFunc(q.ByCause, func(a, b view.CauseCount) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Reason, b.Reason)) })
	return q
}
