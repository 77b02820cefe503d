package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/rules/membership"
	"github.com/troupe-run/troupe/store"
)

// Directory knows which incarnations there are, and how this node stands with each of them: by what the store shows of them, and
// by what the connections to them show.
type Directory struct {
	cfg     *Config
	network Network // nil: this node listens for no peers
	sights  sights
	lost    func(lives func(messages.Incarnation) bool) // told which incarnations are left
}

// Saw takes what membership saw in the store, which it asked at asked, and says how this node stands with everybody now.
func (d *Directory) Saw(asked time.Time, away bool, others []membership.Other, nodes []store.Node) map[messages.Incarnation]membership.Standing {
	if away {
		d.sights.lost()
	} else {
		d.sights.keep(asked, d.cfg.Incarnation, others, nodes)
	}
	known := d.peers()
	standings := map[messages.Incarnation]membership.Standing{}
	for _, other := range d.sights.nodes() {
		standings[other.Incarnation] = d.standing(other.Incarnation, known[other.Incarnation])
	}
	d.lost(func(inc messages.Incarnation) bool { _, lives := standings[inc]; return lives })
	return standings
}

// peers are the other incarnations that can be asked.
func (d *Directory) peers() map[messages.Incarnation]*peers.Peer {
	if d.network == nil {
		return nil
	}
	known := map[messages.Incarnation]*peers.Peer{}
	for _, p := range d.network.Peers() {
		known[p.Incarnation] = &p
	}
	return known
}

// Standing says how this node stands with one other.
func (d *Directory) Standing(inc messages.Incarnation) membership.Standing {
	return d.standing(inc, d.peers()[inc])
}

func (d *Directory) standing(inc messages.Incarnation, p *peers.Peer) membership.Standing {
	if d.sights.joining(inc) {
		return membership.Standing{Reach: membership.NotHeard, Why: "it has joined since this node looked last"}
	}
	sight := membership.Sight{Peer: sightOf(p)}
	var silent time.Time
	if p != nil {
		silent, sight.Renews = p.Suspect, p.Renews
	}
	sight.Beats = d.sights.beats(inc, silent, d.cfg.BeatEvery)
	reach := sight.Reach()
	why := "it " + reach.Sentence()
	switch {
	case reach == membership.Reached && p.Told && !sight.Renews:
		why = "it answers, and said that it does not, or not for long, renew its lease; that lease has not run out"
	case !silent.IsZero():
		why += fmt.Sprintf(" (silent since %s: %s)", silent.UTC().Format(time.RFC3339), p.Why)
	case reach == membership.Lost:
	case p == nil && d.network == nil:
		why += " (this node listens for no peers: node.peers_listen)"
	case p == nil:
		why += " (it tells no address for peers that can be dialled from here: node.peers_listen there)"
	}
	return membership.Standing{Reach: reach, Why: why}
}

// directoryTime bounds the question who there is; what membership knows answers it otherwise.
const directoryTime = 2 * time.Second

// rows are every known incarnation, newest first, this one included: as the store has them, or, while it does not answer, as it
// showed them last.
func (d *Directory) rows(ctx context.Context) []store.Node {
	if d.cfg.Self.Gate() == nil {
		limited, cancel := context.WithTimeout(ctx, directoryTime)
		defer cancel()
		if rows, err := d.cfg.Store.ListNodes(limited); err == nil {
			return rows
		}
		d.cfg.Servers.Suspect()
	}
	return append([]store.Node{d.cfg.Self.Row()}, d.sights.nodes()...)
}

// find finds the live incarnation that a text names.
func (d *Directory) find(ctx context.Context, text string) (target, error) {
	n, err := locate(text, d.rows(ctx), d.sights.lapsed)
	return target{node: n, own: n.Incarnation == d.cfg.Incarnation}, err
}

// row is what is known of an incarnation, or a row that has its name alone.
func (d *Directory) row(inc messages.Incarnation, name string) store.Node {
	for _, known := range d.sights.nodes() {
		if known.Incarnation == inc {
			return known
		}
	}
	return store.Node{Incarnation: inc, Name: name}
}

// NameOf is the name of the node that an incarnation is a boot of, or the incarnation where it is not known.
func (d *Directory) NameOf(inc messages.Incarnation) string {
	if inc == d.cfg.Incarnation {
		return d.cfg.Name
	}
	if name := d.cfg.Members.NameOf(inc); name != "" {
		return name
	}
	return inc.String()
}

// found maps store.ErrNotFound to the problem not_found.
func found(what string, id any, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return messages.Problemf(messages.CodeNotFound, "there is no %s %v", what, id)
	}
	return err
}
