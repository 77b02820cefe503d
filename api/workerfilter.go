package api

import (
	"context"
	"slices"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
)

// workerFilter says which workers a list has: one of the values of each kind that is given, and none of those that are left out.
type workerFilter struct {
	pools, nodes, states          []string
	notPools, notNodes, notStates []string
}

func workerParams() []param {
	return []param{
		{name: "pool", kind: "string", many: true, help: "Only this pool; repeat it for one of several."},
		{name: "node", kind: "string", many: true, help: "Only this node: its name or its incarnation; repeat it for one of several."},
		{name: "state", kind: "string", many: true, help: "Only workers in this state; repeat it for one of several."},
		{name: "not.pool", kind: "string", many: true, help: "None of this pool; repeat it for several."},
		{name: "not.node", kind: "string", many: true, help: "None of the node of this name; repeat it for several."},
		{name: "not.state", kind: "string", many: true, help: "None in this state; repeat it for several."},
	}
}

func workerFilterOf(q query) (*workerFilter, error) {
	f := &workerFilter{}
	for name, values := range map[string]*[]string{
		"pool": &f.pools, "node": &f.nodes, "state": &f.states, "not.pool": &f.notPools, "not.node": &f.notNodes, "not.state": &f.notStates,
	} {
		list, err := q.several(name)
		if err != nil {
			return nil, err
		}
		*values = list
	}
	return f, nil
}

// has reports whether a worker is in the list. Its node was asked for by name or incarnation, so nodes are not compared again.
func (f *workerFilter) has(w *view.Worker) bool {
	for _, c := range []struct {
		only, not []string
		value     string
	}{{f.pools, f.notPools, w.Pool}, {nil, f.notNodes, w.Node}, {f.states, f.notStates, w.State}} {
		if len(c.only) > 0 && !slices.Contains(c.only, c.value) || slices.Contains(c.not, c.value) {
			return false
		}
	}
	return true
}

// workersOf asks for the workers of a filter's nodes and pool. Of several pools it asks for all.
func (s *server) workersOf(ctx context.Context, f *workerFilter) (all view.Workers, err error) {
	pool := ""
	if len(f.pools) == 1 {
		pool = f.pools[0]
	}
	if len(f.nodes) == 0 {
		all, err = s.Backend.Workers(ctx, pool, "")
		return all, named(err, "pool", pool)
	}
	seen := map[messages.WorkerID]bool{} // of a node that is named twice, by its name and its incarnation
	for _, node := range f.nodes {
		part, err := s.Backend.Workers(ctx, pool, node)
		if err != nil {
			return all, named(err, "pool", pool)
		}
		for i := range part.Workers {
			if id := part.Workers[i].ID; !seen[id] {
				seen[id] = true
				all.Workers = append(all.Workers, part.Workers[i])
			}
		}
		for _, u := range part.Unreached {
			if !slices.ContainsFunc(all.Unreached, func(known view.Unreached) bool { return known.Incarnation == u.Incarnation }) {
				all.Unreached = append(all.Unreached, u)
			}
		}
	}
	return all, nil
}

// several reads the values of a parameter that may be repeated.
func (q query) several(name string) ([]string, error) {
	return bounded(name, slices.DeleteFunc(slices.Clone(q.all(name)), func(v string) bool { return v == "" }))
}

// bounded refuses too many values of a parameter.
func bounded(name string, list []string) ([]string, error) {
	if len(list) > listedMax {
		return nil, invalid("%s may be given %d times, and is %d", name, listedMax, len(list))
	}
	return list, nil
}
