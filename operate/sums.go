package operate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
)

// poolSum adds up the shares that nodes have of their pools.
type poolSum map[string]*poolShares

type poolShares struct {
	view                    view.Pool
	shares, broken, cordons int
	halts                   map[string]int // shares by why nothing is placed
	reasons                 []string
	nodes                   map[string]bool
}

func (s poolSum) of(name string, runtime messages.Runtime) *poolShares {
	p := s[name]
	if p == nil {
		p = &poolShares{view: view.Pool{Name: name, Runtime: runtime}, halts: map[string]int{}, nodes: map[string]bool{}}
		s[name] = p
	}
	return p
}

func (s poolSum) add(node string, own bool, share *view.Pool) {
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
	if share.Halted != "" {
		p.halts[share.Halted]++
	}
	if share.Reason != "" {
		p.reasons = append(p.reasons, node+": "+strings.TrimSpace(share.Reason)) // what a program wrote ends with its line
	}
	if own || v.Routing.Mode == "" { // what the node that is asked is to the pool, where it serves it
		v.Routing = share.Routing
	}
	switch {
	case share.Dispatch == "": // an older release
	case v.Dispatch == "", v.Dispatch == share.Dispatch:
		v.Dispatch = share.Dispatch
	default:
		v.Dispatch = "mixed"
	}
	v.OldCode = v.OldCode || share.OldCode
	v.Workers += share.Workers
	v.Ready += share.Ready
	v.Unattached += share.Unattached
	v.Busy += share.Busy
	v.Degraded += share.Degraded
	v.Starting += share.Starting
	v.Stale += share.Stale
	v.Restarts += share.Restarts
	v.Window = max(v.Window, share.Window)
}

// addStale counts a worker that only its row tells of. What it does now nobody knows.
func (s poolSum) addStale(w *view.Worker) {
	p := s.of(w.Pool, w.Runtime)
	p.nodes[w.Node] = true
	p.view.Workers++
	p.view.Stale++
}

// views are the sums, by name. A pool is broken, or cordoned, where all shares that answered are; what is wrong with some of
// them is its reason.
func (s poolSum) views(depths []store.Depth) []view.Pool {
	views := []view.Pool{}
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
		v.Halted = p.halted(&v.Reason)
		addDepths(&v, depths)
		views = append(views, v)
	}
	slices.SortFunc(views, func(x, y view.Pool) int { return strings.Compare(x.Name, y.Name) })
	return views
}

// halted is why nothing is placed on any node, the most frequent cause; empty: something is, on some node. It puts the cause before the
// other reasons, where it is one of some nodes with their number.
func (p *poolShares) halted(reason *string) (everywhere string) {
	nodes := 0
	for _, r := range roster.Reasons() {
		n := p.halts[r.String()]
		if n == 0 {
			continue
		}
		if nodes += n; n > p.halts[everywhere] {
			everywhere = r.String()
		}
		text := r.Sentence()
		if n < p.shares {
			text = fmt.Sprintf("on %d of %d nodes %s", n, p.shares, text)
		}
		if *reason != "" {
			text += "; " + *reason
		}
		*reason = text
	}
	if nodes < p.shares {
		return ""
	}
	return everywhere
}
