package debug

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/actors"
)

// Tree is the answer of /debug/actors, and the part of one node in that of a cluster.
type Tree struct {
	Node  string    `json:"node"`
	At    time.Time `json:"at"` // by the node's own clock
	Count int       `json:"count"`
	// Shown is how many of them the tree holds, where that is not all: each actor says how many are hidden below it.
	Shown       int              `json:"shown,omitempty"`
	WaitsFor    []string         `json:"waits_for,omitempty"`
	Roots       []*Branch        `json:"roots"`
	DeadLetters map[string]int64 `json:"dead_letters,omitempty"` // messages that found no actor, by type
}

// Branch is one actor with what it supervises, by id.
type Branch struct {
	actors.Info
	Children []*Branch `json:"children,omitempty"`
	Hidden   *Hidden   `json:"hidden,omitempty"`
}

// Hidden are the children of an actor that the answer leaves out.
type Hidden struct {
	Count int `json:"count"`
	// States counts the workers among them by state, where that is known: not of what did not fit into the answer of
	// another node.
	States map[string]int `json:"states,omitempty"`
}

// roster is the flat form of a tree, which is kept and travels. Its actors are in the order of orderOf.
type roster struct {
	head
	Actors []item `json:"actors"`
}

// head is what a roster says of its node.
type head struct {
	Node        string           `json:"node"`
	At          time.Time        `json:"at"`
	Count       int              `json:"count"` // of the actors that live there, also where the roster has fewer
	WaitsFor    []string         `json:"waits_for,omitempty"`
	DeadLetters map[string]int64 `json:"dead_letters,omitempty"`
}

// item is one actor of a roster.
type item struct {
	actors.Info
	Below int `json:"below,omitempty"` // its children at its node, also those that the roster lacks
}

// Grow makes the tree of a flat list. An actor whose parent is not in the list is a root: it may have ended while
// the list was taken, and a child must not vanish with it. The order of the list is kept.
func Grow(infos []actors.Info) []*Branch {
	branches := make(map[string]*Branch, len(infos))
	for _, i := range infos {
		branches[i.ID] = &Branch{Info: i}
	}
	roots := []*Branch{}
	for _, i := range infos {
		parent := branches[i.Parent]
		if parent == nil || i.Parent == i.ID {
			roots = append(roots, branches[i.ID])
			continue
		}
		parent.Children = append(parent.Children, branches[i.ID])
	}
	return roots
}

// filter says which actors of a tree are wanted.
type filter struct {
	kind string // only these, as roots; empty: all
	most int    // children of each actor; 0: all
}

// tree makes the tree of a roster, which stays as it is.
func (r *roster) tree(f filter) *Tree {
	infos := make([]actors.Info, 0, len(r.Actors))
	below := map[string]int{}
	for i := range r.Actors {
		a := &r.Actors[i]
		if f.kind != "" && a.Kind != f.kind {
			continue
		}
		info := a.Info
		if f.kind != "" {
			info.Parent = ""
		} else if a.Below > 0 {
			below[a.ID] = a.Below
		}
		infos = append(infos, info)
	}
	t := &Tree{Node: r.Node, At: r.At, Count: r.Count, WaitsFor: r.WaitsFor, DeadLetters: r.DeadLetters, Roots: Grow(infos)}
	if f.kind != "" && len(r.Actors) == r.Count {
		t.Count = len(infos)
	}
	if shown := trim(t.Roots, below, f.most); shown < t.Count {
		t.Shown = shown
	}
	return t
}

// trim leaves each branch at most so many children (0: all), notes what is hidden below each, and returns how many actors
// are left.
func trim(branches []*Branch, below map[string]int, most int) (shown int) {
	for _, b := range branches {
		missing := max(0, below[b.ID]-len(b.Children))
		kept := b.Children
		if most > 0 && len(kept) > most {
			kept = foremost(kept, most)
		}
		if hidden := len(b.Children) - len(kept) + missing; hidden > 0 {
			b.Hidden = &Hidden{Count: hidden}
			if missing == 0 {
				b.Hidden.States = statesBut(b.Children, kept)
			}
		}
		b.Children = kept
		shown += 1 + trim(kept, below, most)
	}
	return shown
}

// foremost keeps so many of the branches: those first that something is wrong with, then in the order of people.
func foremost(branches []*Branch, most int) []*Branch {
	branches = slices.Clone(branches)
	slices.SortFunc(branches, func(a, b *Branch) int { return CompareIDs(a.ID, b.ID) })
	kept := make([]*Branch, 0, most)
	chosen := map[*Branch]bool{}
	for _, want := range []bool{true, false} {
		for _, b := range branches {
			if len(chosen) < most && troubled(b) == want {
				chosen[b] = true
			}
		}
	}
	for _, b := range branches {
		if chosen[b] {
			kept = append(kept, b)
		}
	}
	return kept
}

// troubled reports whether a person who looks at a tree should see the actor before others.
func troubled(b *Branch) bool {
	return !b.StuckSince.IsZero() || b.Health == "unhealthy" || b.State == "degraded" || b.State == "broken"
}

// statesBut counts the workers that were not kept, by state. What other actors call their state is a text of their own.
func statesBut(all, kept []*Branch) map[string]int {
	states := map[string]int{}
	for _, b := range all {
		if b.Kind == "worker" && !slices.Contains(kept, b) {
			states[b.State]++
		}
	}
	return states
}

// orderOf is where an actor stands in a roster: the upper levels first, so that what does not fit is always the lowest,
// and by id within one.
func orderOf(a, b string) int {
	if c := strings.Count(a, "/") - strings.Count(b, "/"); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}

// CompareIDs orders ids as people do: slot 9 before slot 10.
func CompareIDs(a, b string) int {
	for a != "" && b != "" {
		m, n := digits(a), digits(b)
		if m == 0 || n == 0 {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		if c := cmp.Or(cmp.Compare(m, n), strings.Compare(a[:m], b[:n])); c != 0 {
			return c
		}
		a, b = a[m:], b[n:]
	}
	return cmp.Compare(len(a), len(b))
}

// digits is how many digits stand at the head of s.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }

// list makes the roster of what lives now. The source lists the actors by id.
func (cfg Config) list() *roster {
	infos := cfg.Source.Snapshot()
	r := &roster{
		head:   head{Node: cfg.Node, At: time.Now().UTC(), Count: len(infos), DeadLetters: cfg.Source.DeadLetters()},
		Actors: make([]item, 0, len(infos)),
	}
	if cfg.WaitsFor != nil {
		r.WaitsFor = cfg.WaitsFor()
	}
	below, levels := map[string]int{}, [][]int{}
	for i := range infos {
		below[infos[i].Parent]++
		level := strings.Count(infos[i].ID, "/")
		for len(levels) <= level {
			levels = append(levels, nil)
		}
		levels[level] = append(levels[level], i)
	}
	for _, level := range levels {
		for _, i := range level {
			r.Actors = append(r.Actors, item{Info: infos[i], Below: below[infos[i].ID]})
		}
	}
	return r
}
