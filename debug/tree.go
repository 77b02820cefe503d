package debug

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/actors"
)

// Tree is the answer of /debug/actors, and one node's tree in a forest.
type Tree struct {
	Node  string    `json:"node"`
	At    time.Time `json:"at"` // by the node's clock
	Count int       `json:"count"`
	// Shown is the number of actors in the tree, if not all are there. Each actor has the number of hidden ones below
	// it.
	Shown       int              `json:"shown,omitempty"`
	WaitsFor    []string         `json:"waits_for,omitempty"`
	Roots       []*Branch        `json:"roots"`
	DeadLetters map[string]int64 `json:"dead_letters,omitempty"` // messages without a receiver, by type
}

// Branch is one actor with its children, by id.
type Branch struct {
	actors.Info
	Children []*Branch `json:"children,omitempty"`
	Hidden   *Hidden   `json:"hidden,omitempty"`
}

// Hidden describes the children of an actor that the answer omits.
type Hidden struct {
	Count int `json:"count"`
	// States counts the workers among them by state. It omits those that another node's answer had no room for, because
	// their states are not known.
	States map[string]int `json:"states,omitempty"`
}

// roster is the flat form of a tree, for keeping and sending. Its actors are in the order of orderOf.
type roster struct {
	head
	Actors []item `json:"actors"`
}

// head describes the node of a roster.
type head struct {
	Node        string           `json:"node"`
	At          time.Time        `json:"at"`
	Count       int              `json:"count"` // number of live actors there; the roster may have fewer
	WaitsFor    []string         `json:"waits_for,omitempty"`
	DeadLetters map[string]int64 `json:"dead_letters,omitempty"`
}

// item is one actor of a roster.
type item struct {
	actors.Info
	Below int `json:"below,omitempty"` // number of its children at its node; the roster may have fewer
}

// Grow makes a tree from a flat list. An actor whose parent is not in the list becomes a root: the parent may have
// ended while the list was made, and its children must still be shown. It keeps the order of the list.
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

// filter selects actors of a tree.
type filter struct {
	kind string // only these, as roots; empty: all
	most int    // children of each actor; 0: all
}

// tree makes the tree of a roster. It does not change the roster.
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

// trim keeps at most so many children of each branch (0: all), records the hidden ones, and returns how many actors are
// shown.
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

// foremost keeps so many branches: first those with problems, then the others in natural order.
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

// troubled reports whether an actor has a problem, so that it is shown first.
func troubled(b *Branch) bool {
	return !b.StuckSince.IsZero() || b.Health == "unhealthy" || b.State == "degraded" || b.State == "broken"
}

// statesBut counts the workers that were not kept, by state. It skips other actors, whose states are free texts.
func statesBut(all, kept []*Branch) map[string]int {
	states := map[string]int{}
	for _, b := range all {
		if b.Kind == "worker" && !slices.Contains(kept, b) {
			states[b.State]++
		}
	}
	return states
}

// orderOf is the order of actors in a roster: upper levels first, so that only the lowest levels are cut, and by id
// within a level.
func orderOf(a, b string) int {
	if c := strings.Count(a, "/") - strings.Count(b, "/"); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}

// CompareIDs orders ids naturally: slot 9 before slot 10.
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

// digits returns the number of leading digits of s.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }

// list makes the roster of the live actors. The source lists them by id.
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
