package operate

import (
	"cmp"
	"context"
	"slices"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/store"
)

// others are the other live nodes as this one sees them, by incarnation.
func (d *Directory) others(ctx context.Context) []view.Sight {
	sights, known := []view.Sight{}, d.peers()
	for _, n := range d.rows(ctx) {
		if n.State == store.NodeDead || n.Incarnation == d.cfg.Incarnation {
			continue
		}
		s := d.standing(n.Incarnation, known[n.Incarnation])
		sights = append(sights, view.Sight{Node: n.Name, Incarnation: n.Incarnation, Reach: s.Reach.String(), Why: messages.ClipText(s.Why, FailureMax)})
	}
	slices.SortFunc(sights, func(x, y view.Sight) int { return cmp.Compare(x.Incarnation.String(), y.Incarnation.String()) })
	return sights
}

// Reach returns which live node reaches which other, as each says itself, by name.
func (f *fleet) Reach(ctx context.Context) ([]view.Sights, []view.Unreached, error) {
	shares, err := everywhere(ctx, f, "", f.nodes.others, func(after string) wire.Body { return wire.Sights{After: after} })
	if err != nil {
		return nil, nil, err
	}
	all := []view.Sights{}
	for i := range shares {
		if s := &shares[i]; s.err == nil {
			all = append(all, view.Sights{Node: s.node.Name, Incarnation: s.node.Incarnation, Others: s.items})
		}
	}
	slices.SortFunc(all, func(x, y view.Sights) int {
		return cmp.Or(cmp.Compare(x.Node, y.Node), cmp.Compare(x.Incarnation.String(), y.Incarnation.String()))
	})
	return all, unreached(f, shares), nil
}

// sights says how this node sees the others. It asks no worker, so that a node that is not ready answers, too.
func (s steered) sights(ctx context.Context, _ peers.Request, m wire.Sights) (wire.Body, error) {
	return pageOf(s.steering.nodes.others(ctx), m.After, func(v view.Sight) string { return v.Incarnation.String() },
		func(v view.Sight, after string) bool { return v.Incarnation.String() > after })
}
