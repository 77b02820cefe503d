package pack

import (
	"cmp"
	"reflect"
	"slices"

	"github.com/troupe-run/troupe/messages"
)

// Changes lists what a reload changed. All lists hold names, sorted.
type Changes struct {
	ActionsAdded   []string
	ActionsRemoved []string
	ActionsChanged []string
	PoolsAdded     []string
	PoolsRemoved   []string
	PoolsReplaced  []string // workers must be replaced one by one: the fingerprint changed
	PoolsResized   []string // only Min or Max changed
}

// Empty reports whether a node has nothing to do.
func (c Changes) Empty() bool { return reflect.DeepEqual(c, Changes{}) }

// Diff compares two sets. A nil set counts as empty. An action is changed when any of its fields or its pack's version
// is. A change of its code shows as a change of its pool.
func Diff(old, new *Set) Changes {
	if old == nil {
		old = &Set{}
	}
	if new == nil {
		new = &Set{}
	}
	var c Changes
	walk(old.Actions, new.Actions, func(a messages.Action) string { return a.Ref }, func(before, after *messages.Action) {
		switch {
		case before == nil:
			c.ActionsAdded = append(c.ActionsAdded, after.Ref)
		case after == nil:
			c.ActionsRemoved = append(c.ActionsRemoved, before.Ref)
		case !reflect.DeepEqual(before, after):
			c.ActionsChanged = append(c.ActionsChanged, after.Ref)
		}
	})
	walk(old.Pools, new.Pools, func(p Pool) string { return p.Name }, func(before, after *Pool) {
		switch {
		case before == nil:
			c.PoolsAdded = append(c.PoolsAdded, after.Name)
		case after == nil:
			c.PoolsRemoved = append(c.PoolsRemoved, before.Name)
		case before.Fingerprint != after.Fingerprint:
			c.PoolsReplaced = append(c.PoolsReplaced, after.Name)
		case before.Min != after.Min || before.Max != after.Max:
			c.PoolsResized = append(c.PoolsResized, after.Name)
		}
	})
	return c
}

// walk visits the union of two lists in the order of their names, each with its value before and after, or nil.
func walk[T any](before, after []T, name func(T) string, visit func(before, after *T)) {
	names := map[string][2]*T{}
	for i := range before {
		names[name(before[i])] = [2]*T{&before[i]}
	}
	for i := range after {
		pair := names[name(after[i])]
		pair[1] = &after[i]
		names[name(after[i])] = pair
	}
	keys := make([]string, 0, len(names))
	for key := range names {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, cmp.Compare[string])
	for _, key := range keys {
		visit(names[key][0], names[key][1])
	}
}

// PacksOf returns the packs of the pool's actions that changed since old, sorted. If none of them changed, it returns
// all of them. old may be nil, and the list is not.
func PacksOf(old, new *Set, pool string) []string {
	p, ok := new.Pool(pool)
	if !ok {
		return []string{}
	}
	all, changed := []string{}, []string{}
	for _, ref := range p.Actions {
		a, _ := new.Action(ref)
		if slices.Contains(all, a.Pack) {
			continue
		}
		all = append(all, a.Pack)
		if !samePack(old, new, a.Pack) {
			changed = append(changed, a.Pack)
		}
	}
	if len(changed) == 0 {
		changed = all
	}
	slices.Sort(changed)
	return changed
}

func samePack(old, new *Set, name string) bool {
	if old == nil {
		return false
	}
	before, had := old.Pack(name)
	after, has := new.Pack(name)
	return had && has && before.Digest == after.Digest && before.Root == after.Root
}
