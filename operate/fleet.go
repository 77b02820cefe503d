package operate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/membership"
	"github.com/troupe-run/troupe/store"
)

// Bounds of a question to all nodes.
const (
	everywhereTime = 3 * time.Second
	silentTime     = 500 * time.Millisecond // for a node that is known to be silent
	everywhereMax  = 16                     // nodes that are asked at a time
)

// share is what one node said.
type share[T any] struct {
	node  store.Node
	items []T
	err   error
}

// fleet answers about the workers and pools of all nodes.
type fleet struct {
	cfg   *Config
	own   *local
	nodes *Directory
	calls *Calls
	rows  *RemoteWorkers
}

// everywhere asks the live nodes, or the one that is named, at once; the own one without the network.
func everywhere[T any](ctx context.Context, f *fleet, name string, own func(context.Context) []T,
	page func(after string) wire.Body,
) ([]share[T], error) {
	var nodes []store.Node
	if name != "" {
		t, err := f.nodes.find(ctx, name)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, t.node)
	} else {
		nodes = slices.DeleteFunc(f.nodes.rows(ctx), func(n store.Node) bool { return n.State == store.NodeDead })
	}
	limited, cancel := context.WithTimeout(ctx, everywhereTime)
	defer cancel()
	shares, room, known := make([]share[T], len(nodes)), make(chan struct{}, everywhereMax), f.nodes.peers()
	var asks sync.WaitGroup
	for i := range nodes {
		shares[i].node = nodes[i]
		if nodes[i].Incarnation == f.cfg.Incarnation {
			asks.Go(func() { shares[i].items = own(limited) })
			continue
		}
		asks.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			limit := everywhereTime
			if sightOf(known[nodes[i].Incarnation]) == membership.Silent {
				limit = silentTime
			}
			one, cancel := context.WithTimeout(limited, limit)
			defer cancel()
			shares[i].items, shares[i].err = askPages[T](one, f.calls, &nodes[i], page)
		})
	}
	asks.Wait()
	return shares, context.Cause(ctx)
}

// unreached says which nodes did not answer, and why.
func unreached[T any](f *fleet, shares []share[T]) (list []view.Unreached) {
	for i := range shares {
		s := &shares[i]
		if s.err == nil {
			continue
		}
		why := s.err.Error()
		var p *messages.Problem
		if errors.As(s.err, &p) {
			why = p.Message
		}
		list = append(list, view.Unreached{Node: s.node.Name, Incarnation: s.node.Incarnation, BeatAt: s.node.BeatAt, Why: why})
		f.cfg.Logger.Debug("node does not answer a question to all", "node", s.node.Name, "error", s.err)
	}
	return list
}

// Workers returns the workers of all live nodes, or of the one that node names.
func (f *fleet) Workers(ctx context.Context, pool, node string) (view.Workers, error) {
	shares, err := everywhere(ctx, f, node, func(ctx context.Context) []view.Worker { return f.own.ownWorkers(ctx, pool) },
		func(after string) wire.Body { return wire.Workers{Pool: pool, After: after} })
	if err != nil {
		return view.Workers{}, err
	}
	now := time.Now()
	all := view.Workers{Workers: []view.Worker{}, Unreached: unreached(f, shares)}
	for i := range shares {
		for j := range shares[i].items {
			shares[i].items[j].SeenAt = now
		}
		all.Workers = append(all.Workers, shares[i].items...)
	}
	all.Workers = append(all.Workers, f.staleWorkers(ctx, pool, all.Unreached)...)
	slices.SortFunc(all.Workers, func(x, y view.Worker) int {
		return cmp.Or(byPlace(x, y), cmp.Compare(x.ID, y.ID))
	})
	return all, nil
}

// staleWorkers are the workers of nodes that did not answer, as their rows in the store have them.
func (f *fleet) staleWorkers(ctx context.Context, pool string, of []view.Unreached) (views []view.Worker) {
	if len(of) == 0 || f.cfg.Self.Gate() != nil {
		return nil
	}
	names := map[messages.Incarnation]string{}
	for _, u := range of {
		names[u.Incarnation] = u.Node
	}
	limited, cancel := context.WithTimeout(ctx, directoryTime)
	defer cancel()
	rows, err := f.cfg.Store.ListWorkers(limited, pool)
	if err != nil {
		f.cfg.Logger.Warn("rows of unreached nodes' workers not read", "error", err)
		return nil
	}
	for i := range rows {
		if name, wanted := names[rows[i].Key.Incarnation]; wanted {
			views = append(views, f.rows.view(&rows[i], name))
		}
	}
	return views
}

// Pools returns the pools, summed over all live nodes, or those of the one that node names.
func (f *fleet) Pools(ctx context.Context, node string) (view.Pools, error) {
	depths, err := f.cfg.Store.Depths(ctx)
	if err != nil {
		return view.Pools{}, err
	}
	return f.poolsWith(ctx, node, depths)
}

// LivePools returns the pools of all live nodes without what waits and runs, which only the store knows.
func (f *fleet) LivePools(ctx context.Context) (view.Pools, error) { return f.poolsWith(ctx, "", nil) }

func (f *fleet) poolsWith(ctx context.Context, node string, depths []store.Depth) (view.Pools, error) {
	shares, err := everywhere(ctx, f, node, f.own.ownPools, func(after string) wire.Body { return wire.Pools{After: after} })
	if err != nil {
		return view.Pools{}, err
	}
	sum := poolSum{}
	for i := range shares {
		for j := range shares[i].items {
			sum.add(shares[i].node.Name, shares[i].node.Incarnation == f.cfg.Incarnation, &shares[i].items[j])
		}
	}
	all := view.Pools{Unreached: unreached(f, shares)}
	for _, w := range f.staleWorkers(ctx, "", all.Unreached) {
		sum.addStale(&w)
	}
	all.Pools = sum.views(depths)
	return all, nil
}

// Nodes returns every known incarnation, and how this node stands with it.
func (f *fleet) Nodes(ctx context.Context) ([]view.Node, error) {
	rows := f.nodes.rows(ctx)
	known := f.nodes.peers()
	views := make([]view.Node, len(rows))
	for i := range rows {
		n := &rows[i]
		views[i].Node = *n
		if !f.cfg.Members.Leased() { // the row has one, which nobody evaluates or renews in time
			views[i].LeaseUntil = time.Time{}
		}
		switch {
		case n.State == store.NodeDead:
			views[i].Why = n.Ended.Sentence()
		case n.Incarnation == f.cfg.Incarnation:
			views[i].Reach = "self"
			views[i].Why = f.cfg.Members.Unrenewed()
		default:
			p := known[n.Incarnation]
			s := f.nodes.standing(n.Incarnation, p)
			views[i].Reach, views[i].Why = s.Reach.String(), s.Why
			if p != nil && p.Told && p.Suspect.IsZero() {
				views[i].StoreSeen = &p.Renews
			}
		}
	}
	return views, nil
}
