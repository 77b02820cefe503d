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
	proof         int       // the version of the proof that it gives; 0: it is of an older release
	heard         bool      // it has answered once
	told, renews  bool      // it has said whether it renews its lease, and what it said last
	suspect       time.Time // since when it does not answer; zero: it does, or was not asked yet
	why           string
}

// Peer is another incarnation as the network sees it.
type Peer struct {
	Incarnation messages.Incarnation
	Name        string
	Address     string
	Heard       bool      // it has answered once
	Told        bool      // it has said whether it renews its lease
	Renews      bool      // its lease, as it said when it was asked last
	Suspect     time.Time // since when it does not answer; zero: it does, or was not asked yet
	Why         string    // it is suspect
}

// ErrUnknown says that no address is known of an incarnation: it has ended, or has no end of the remoting.
var ErrUnknown = errors.New("no address of the peer is known")

// Know takes up another incarnation, and reports whether it can be asked. One without an address, or of another scope than
// this node's, cannot: it is left alone, as if it had no end of the remoting.
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

// Forget drops an incarnation that has ended.
func (n *Network) Forget(inc messages.Incarnation) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.peers, inc)
	n.register.forget(inc)
	n.tell()
}

// elsewhere reports whether an address is one that can be dialled and not this node's own, which the library would loop to.
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

// addressOf is where an incarnation is reached.
func (n *Network) addressOf(inc messages.Incarnation) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.peers[inc]; p != nil {
		return p.address, nil
	}
	return "", fmt.Errorf("incarnation %s: %w", inc, ErrUnknown)
}

// Reaches reports whether a peer can be asked now, as far as is known: it has an address, and has not failed to answer since it last did.
func (n *Network) Reaches(inc messages.Incarnation) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.peers[inc]
	return p != nil && p.suspect.IsZero()
}

// stands notes how a peer stands: an empty reason, it answered; else why it is suspect.
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

// said notes whether a peer renews its lease, as it says.
func (n *Network) said(inc messages.Incarnation, renews bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.peers[inc]; p != nil && (!p.told || p.renews != renews) {
		p.told, p.renews = true, renews
		n.tell()
	}
}

// tell signals a change of how a peer stands.
func (n *Network) tell() {
	select {
	case n.changed <- struct{}{}:
	default: // it has been told and nobody has looked yet
	}
}
