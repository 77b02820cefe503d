package peers

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// peer is another incarnation as the network sees it.
type peer struct {
	name, address string
	proof         int       // the version of its proof; 0: an older release without proof
	heard         bool      // it has answered at least once
	told, renews  bool      // whether it has reported its lease, and the last report
	suspect       time.Time // since when it does not answer; zero: it answers, or was not asked yet
	why           string
}

// Peer is another incarnation as the network sees it.
type Peer struct {
	Incarnation messages.Incarnation
	Name        string
	Address     string
	Heard       bool      // it has answered at least once
	Told        bool      // it has reported its lease
	Renews      bool      // whether it renews its lease, by its last report
	Suspect     time.Time // since when it does not answer; zero: it answers, or was not asked yet
	Why         string    // why it is suspect
}

// ErrUnknown means that no address of an incarnation is known: it has ended, or it does not listen for peers.
var ErrUnknown = errors.New("no address of the peer is known")

// Know adds another incarnation, and reports whether it can be asked. One without an address, or with another scope
// than this node's, cannot be asked. It is treated as a node that does not listen for peers.
func (n *Network) Know(row store.Node) bool {
	inc, address, scope := row.Incarnation, row.PeerAddress, row.PeerScope
	if inc == n.cfg.Own || !n.elsewhere(address) || !n.shares(address, scope) {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if known := n.peers[inc]; known != nil && known.address == address {
		return true
	}
	n.peers[inc] = &peer{name: row.Name, address: address, proof: row.PeerProof}
	n.tell()
	return true
}

// Forget removes an incarnation that has ended.
func (n *Network) Forget(inc messages.Incarnation) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.peers, inc)
	n.register.forget(inc)
	n.tell()
}

// elsewhere reports whether an address can be dialled and is not this node's own. The library would loop messages to
// its own address.
func (n *Network) elsewhere(address string) bool { return dialable(address) && address != n.address }

// Peers returns the incarnations that can be asked, by name.
func (n *Network) Peers() []Peer {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := make([]Peer, 0, len(n.peers))
	for inc, p := range n.peers {
		list = append(list, Peer{Incarnation: inc, Name: p.name, Address: p.address, Heard: p.heard, Told: p.told, Renews: p.renews, Suspect: p.suspect, Why: p.why})
	}
	slices.SortFunc(list, func(a, b Peer) int {
		return slices.Compare([]string{a.Name, a.Incarnation.String()}, []string{b.Name, b.Incarnation.String()})
	})
	return list
}

// addressOf returns the address of an incarnation.
func (n *Network) addressOf(inc messages.Incarnation) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.peers[inc]; p != nil {
		return p.address, nil
	}
	return "", fmt.Errorf("incarnation %s: %w", inc, ErrUnknown)
}

// Reaches reports whether a peer probably answers now: it has an address, and is not suspect.
func (n *Network) Reaches(inc messages.Incarnation) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.peers[inc]
	return p != nil && p.suspect.IsZero()
}

// stands records a peer's standing. An empty reason means that it answered; any other is why it is suspect.
func (n *Network) stands(inc messages.Incarnation, why string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.peers[inc]
	switch {
	case p == nil:
	case why == "" && !(p.heard && p.suspect.IsZero()):
		p.heard, p.suspect, p.why = true, time.Time{}, ""
		n.tell()
	case why != "" && p.suspect.IsZero():
		p.suspect, p.why = time.Now(), why
		n.tell()
	}
}

// said records whether a peer reports that it renews its lease.
func (n *Network) said(inc messages.Incarnation, renews bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.peers[inc]; p != nil && (!p.told || p.renews != renews) {
		p.told, p.renews = true, renews
		n.tell()
	}
}

// tell signals a change of a peer's standing.
func (n *Network) tell() {
	select {
	case n.changed <- struct{}{}:
	default: // a signal is pending already
	}
}
