package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/rules/lifecycle"
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

// everywhere asks the live nodes, or the one that is named, at once; the own one without the network.
func everywhere[T any](ctx context.Context, b backend, name string, own func(context.Context) []T,
	page func(after string) wire.Body,
) ([]share[T], error) {
	var nodes []store.Node
	if name != "" {
		t, err := b.node(ctx, name)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, t.node)
	} else {
		nodes = slices.DeleteFunc(b.directory(ctx), func(n store.Node) bool { return n.State == store.NodeDead })
	}
	limited, cancel := context.WithTimeout(ctx, everywhereTime)
	defer cancel()
	shares, room, known := make([]share[T], len(nodes)), make(chan struct{}, everywhereMax), b.knownPeers()
	var asks sync.WaitGroup
	for i := range nodes {
		shares[i].node = nodes[i]
		if nodes[i].Incarnation == b.incarnation {
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
			shares[i].items, shares[i].err = askPages[T](one, b.Node, &nodes[i], page)
		})
	}
	asks.Wait()
	return shares, context.Cause(ctx)
}

// unreached says which nodes did not answer, and why.
func unreached[T any](b backend, shares []share[T]) (list []api.Unreached) {
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
		list = append(list, api.Unreached{Node: s.node.Name, Incarnation: s.node.Incarnation, BeatAt: s.node.BeatAt, Why: why})
		b.logger.Debug("node does not answer a question to all", "node", s.node.Name, "error", s.err)
	}
	return list
}

// Workers implements api.Backend.
func (b backend) Workers(ctx context.Context, pool, node string) (api.Workers, error) {
	shares, err := everywhere(ctx, b, node, func(ctx context.Context) []api.WorkerView { return b.ownWorkers(ctx, pool) },
		func(after string) wire.Body { return wire.Workers{Pool: pool, After: after} })
	if err != nil {
		return api.Workers{}, err
	}
	now := time.Now()
	all := api.Workers{Workers: []api.WorkerView{}, Unreached: unreached(b, shares)}
	for i := range shares {
		for j := range shares[i].items {
			shares[i].items[j].SeenAt = now
		}
		all.Workers = append(all.Workers, shares[i].items...)
	}
	all.Workers = append(all.Workers, b.staleWorkers(ctx, pool, all.Unreached)...)
	slices.SortFunc(all.Workers, func(x, y api.WorkerView) int {
		return cmp.Or(byPlace(x, y), cmp.Compare(x.ID, y.ID))
	})
	return all, nil
}

// staleWorkers are the workers of nodes that did not answer, as their rows in the store have them.
func (b backend) staleWorkers(ctx context.Context, pool string, of []api.Unreached) (views []api.WorkerView) {
	if len(of) == 0 || b.gate() != nil {
		return nil
	}
	names := map[messages.Incarnation]string{}
	for _, u := range of {
		names[u.Incarnation] = u.Node
	}
	limited, cancel := context.WithTimeout(ctx, directoryTime)
	defer cancel()
	rows, err := b.store.ListWorkers(limited, pool)
	if err != nil {
		b.logger.Warn("rows of unreached nodes' workers not read", "error", err)
		return nil
	}
	for i := range rows {
		if name, wanted := names[rows[i].Key.Incarnation]; wanted {
			views = append(views, b.rowWorker(&rows[i], name))
		}
	}
	return views
}

// rowWorker is a worker as its row has it: as old as its last heartbeat.
func (b backend) rowWorker(w *store.Worker, node string) api.WorkerView {
	v := api.WorkerView{
		ID: w.ID, Pool: w.Key.Pool, Node: node, Runtime: w.Runtime, Generation: w.Generation, State: w.State, Health: w.Health,
		Cordoned: w.Cordoned, Since: w.Since, Heartbeat: w.Beat, Stale: true, SeenAt: w.Beat,
	}
	var capabilities struct {
		Health json.RawMessage `json:"health"`
	}
	if json.Unmarshal(w.Capabilities, &capabilities) == nil {
		v.Report = capabilities.Health
	}
	graded := b.gradeRow(w, b.beatAge(w.Beat))
	v.Grade, v.GradeCauses = graded.Grade.String(), graded.Causes.Names()
	if graded.Stale() {
		v.Health = lifecycle.Unhealthy.String()
	}
	return v
}

// ownPools are this node's pools without what the store knows of them, by name.
func (b backend) ownPools(ctx context.Context) []api.PoolView {
	views := []api.PoolView{}
	for _, d := range b.pools.DescribeAll(ctx) {
		v := poolView(&d)
		b.lastRefused.Load().mark(&v)
		views = append(views, v)
	}
	slices.SortFunc(views, func(x, y api.PoolView) int { return strings.Compare(x.Name, y.Name) })
	return views
}

// Pools implements api.Backend.
func (b backend) Pools(ctx context.Context, node string) (api.Pools, error) {
	depths, err := b.store.Depths(ctx)
	if err != nil {
		return api.Pools{}, err
	}
	shares, err := everywhere(ctx, b, node, b.ownPools, func(after string) wire.Body { return wire.Pools{After: after} })
	if err != nil {
		return api.Pools{}, err
	}
	sum := poolSum{}
	for i := range shares {
		for j := range shares[i].items {
			sum.add(shares[i].node.Name, shares[i].node.Incarnation == b.incarnation, &shares[i].items[j])
		}
	}
	all := api.Pools{Unreached: unreached(b, shares)}
	for _, w := range b.staleWorkers(ctx, "", all.Unreached) {
		sum.addStale(&w)
	}
	all.Pools = sum.views(depths)
	return all, nil
}

// poolSum adds up the shares that nodes have of their pools.
type poolSum map[string]*poolShares

type poolShares struct {
	view                    api.PoolView
	shares, broken, cordons int
	reasons                 []string
	nodes                   map[string]bool
}

func (s poolSum) of(name string, runtime messages.Runtime) *poolShares {
	p := s[name]
	if p == nil {
		p = &poolShares{view: api.PoolView{Name: name, Runtime: runtime}, nodes: map[string]bool{}}
		s[name] = p
	}
	return p
}

func (s poolSum) add(node string, own bool, share *api.PoolView) {
	p := s.of(share.Name, share.Runtime)
	v := &p.view
	p.nodes[node] = true
	p.shares++
	if share.Broken {
		p.broken++
	}
	if share.Cordoned {
		p.cordons++
	}
	if share.Reason != "" {
		p.reasons = append(p.reasons, node+": "+share.Reason)
	}
	if own || v.Routing.Mode == "" { // what the node that is asked is to the pool, where it serves it
		v.Routing = share.Routing
	}
	v.OldCode = v.OldCode || share.OldCode
	v.Workers += share.Workers
	v.Ready += share.Ready
	v.Busy += share.Busy
	v.Degraded += share.Degraded
	v.Starting += share.Starting
	v.Stale += share.Stale
	v.Restarts += share.Restarts
	v.Window = max(v.Window, share.Window)
}

// addStale counts a worker that only its row tells of. What it does now nobody knows.
func (s poolSum) addStale(w *api.WorkerView) {
	p := s.of(w.Pool, w.Runtime)
	p.nodes[w.Node] = true
	p.view.Workers++
	p.view.Stale++
}

// views are the sums, by name. A pool is broken, or cordoned, where all shares that answered are; what is wrong with some of
// them is its reason.
func (s poolSum) views(depths []store.Depth) []api.PoolView {
	views := []api.PoolView{}
	for _, p := range s {
		v := p.view
		v.Nodes = len(p.nodes)
		v.Broken = p.shares > 0 && p.broken == p.shares
		v.Cordoned = p.shares > 0 && p.cordons == p.shares
		slices.Sort(p.reasons)
		v.Reason = strings.Join(p.reasons, "; ")
		if p.shares == 1 && len(p.nodes) == 1 && len(p.reasons) == 1 {
			_, v.Reason, _ = strings.Cut(p.reasons[0], ": ")
		}
		if p.broken > 0 && !v.Broken {
			v.Reason = fmt.Sprintf("broken on %d of %d nodes: %s", p.broken, p.shares, v.Reason)
		}
		addDepths(&v, depths)
		views = append(views, v)
	}
	slices.SortFunc(views, func(x, y api.PoolView) int { return strings.Compare(x.Name, y.Name) })
	return views
}

// Nodes implements api.Backend.
func (b backend) Nodes(ctx context.Context) ([]api.NodeView, error) {
	rows := b.directory(ctx)
	known := b.knownPeers()
	views := make([]api.NodeView, len(rows))
	for i := range rows {
		n := &rows[i]
		views[i].Node = *n
		switch {
		case n.State == store.NodeDead:
		case n.Incarnation == b.incarnation:
			views[i].Reach = "self"
			if lease := b.member.granted.Load(); lease != nil && !lease.Fresh() && b.member.leases {
				views[i].Why = "this node does not renew its lease: the store is not seen from here"
			}
		default:
			p := known[n.Incarnation]
			s := b.standing(n.Incarnation, p)
			views[i].Reach, views[i].Why = s.Reach.String(), s.Why
			if p != nil && p.Told && p.Suspect.IsZero() {
				views[i].StoreSeen = &p.Renews
			}
		}
	}
	return views, nil
}
