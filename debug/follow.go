package debug

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/live"
)

// followedMost is how many children of each actor a follower is shown, as the console's page asks for.
const followedMost = 1000

// Follow returns what reads the trees for those who follow them: of all nodes, or of one, by its name or incarnation. It is called once at
// a time. Its entries are those of a Forest: nodes/INCARNATION is a node's Part without its actors, and nodes/INCARNATION/ID is an actor
// without its children, which belongs among those of its parent, or among the roots where its parent is not there. How many messages an actor
// has handled is left out, because that changes all the time. The times of a reading stand once for each node.
func (cfg Config) Follow(node string) func(context.Context) ([]live.Entry, error) {
	f := &followed{cfg: cfg, node: node}
	return f.read
}

// followed is what was read last.
type followed struct {
	cfg   Config
	node  string // empty: all
	round int    // number of readings
	byID  map[actorKey]*row
	// rows have the newest actors first, where a difference puts new keys: so it need not list the order of all.
	rows []*row
}

// actorKey names an actor of any node.
type actorKey struct {
	node messages.Incarnation
	id   string
}

// row is an actor with its entry. One that is as it was keeps the text: most are.
type row struct {
	of    actors.Info
	hides bool // it has children that are not shown
	entry live.Entry
	round int // of the reading that had it last
}

// leaf is an actor as an entry has it.
type leaf struct {
	actors.Info
	Handled *uint64 `json:"handled,omitempty"` // always nil: it hides that of Info
	Hidden  *Hidden `json:"hidden,omitempty"`
}

func (f *followed) read(ctx context.Context) ([]live.Entry, error) {
	parts, err := f.parts(ctx)
	if err != nil {
		return nil, err
	}
	f.round++
	if f.byID == nil {
		f.byID = map[actorKey]*row{}
	}
	var fresh []*row
	nodes := make([]live.Entry, len(parts), len(parts)+1)
	for i := range parts {
		p := &parts[i]
		if p.Tree != nil {
			if fresh, err = f.take(fresh, p.Incarnation, p.Tree.Roots); err != nil {
				f.byID, f.rows = nil, nil // the next reading makes all anew
				return nil, err
			}
			p.Tree.Roots = []*Branch{}
		}
		nodes[i].Key = nodeKey(p.Incarnation)
		if nodes[i].Value, err = json.Marshal(p); err != nil {
			return nil, err
		}
	}
	f.keep(fresh)
	entries := make([]live.Entry, 0, len(f.rows)+len(nodes)+1)
	for _, r := range f.rows {
		entries = append(entries, r.entry)
	}
	at, err := json.Marshal(time.Now().UTC())
	return append(append(entries, nodes...), live.Entry{Key: "at", Value: at}), err
}

func nodeKey(inc messages.Incarnation) string { return "nodes/" + inc.String() }

// parts are the nodes as they are known. An answer that is late is taken with the next reading: a topic that takes long to read is read less
// often.
func (f *followed) parts(ctx context.Context) ([]Part, error) {
	c := f.cfg.Cluster
	var members []Member
	if f.node == "" {
		members = c.list(ctx, &f.cfg)
	} else {
		m, refused := c.find(ctx, &f.cfg, f.node)
		if refused != nil {
			return nil, messages.Problemf(messages.Code(refused.code), "%s", refused.message)
		}
		members = []Member{m}
	}
	limited, cancel := context.WithTimeout(ctx, failingTime)
	c.refresh(limited, members, failingTime)
	cancel()
	parts := make([]Part, len(members))
	for i, m := range members {
		parts[i] = c.show(&f.cfg, m, filter{most: followedMost})
	}
	return parts, nil
}

// take makes the entries of a node's actors, and adds those that are new.
func (f *followed) take(fresh []*row, node messages.Incarnation, branches []*Branch) (_ []*row, err error) {
	for _, b := range branches {
		key := actorKey{node, b.ID}
		r := f.byID[key]
		if r == nil {
			r = &row{entry: live.Entry{Key: nodeKey(node) + "/" + b.ID}}
			f.byID[key] = r
			fresh = append(fresh, r)
		}
		info := b.Info
		info.Handled = 0
		if r.round == 0 || r.of != info || b.Hidden != nil || r.hides {
			if r.entry.Value, err = json.Marshal(leaf{Info: info, Hidden: b.Hidden}); err != nil {
				return nil, err
			}
		}
		r.of, r.hides, r.round = info, b.Hidden != nil, f.round
		if fresh, err = f.take(fresh, node, b.Children); err != nil {
			return nil, err
		}
	}
	return fresh, nil
}

// keep puts the new actors before the others, and removes those that are gone.
func (f *followed) keep(fresh []*row) {
	gone := func(r *row) bool { return r.round != f.round }
	f.rows = slices.Concat(fresh, slices.DeleteFunc(f.rows, gone))
	if len(f.byID) > len(f.rows) {
		maps.DeleteFunc(f.byID, func(_ actorKey, r *row) bool { return gone(r) })
	}
}
