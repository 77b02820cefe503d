package node

import (
	"context"
	"errors"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/peers/proof"
	"github.com/troupe-run/troupe/rules/membership"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// believedLeases is for how many leases without a word of the store a node of an older release is believed that has joined since.
const believedLeases = 3

// openPeers takes the port at which the others reach this node, before they can learn of it from the store.
func (n *Node) openPeers(context.Context) (err error) {
	if !n.cfg.Peers.On() {
		return nil
	}
	n.peers, err = peers.Open(peers.Config{
		Settings: n.cfg.Peers, Own: n.incarnation, Renewing: n.renewing, Logger: n.logger.Named("peers"), Believed: believedLeases * n.cfg.Lease,
		Handlers: slices.Concat(n.peerHandlers(), n.operator.Handlers(), []peers.Handler{peers.HandleLong(inspectTime, n.inspected)}),
	})
	if err != nil {
		return err
	}
	n.operator.Connect(n.peers)
	n.logger.Info("node listens for its peers", "node", n.cfg.Name, "address", n.peers.Address())
	if address, _ := n.peers.Advertised(); address == "" {
		n.logger.Warn("no other node can reach this one: its machine does not say which one it is, and its address is a loopback "+
			"one; give node.peers_listen an address that the others reach", "address", n.peers.Address())
	}
	return nil
}

// belong makes the node one of those that share its store: it learns the secret by which they know each other. It may be repeated.
func (n *Node) belong(ctx context.Context) error {
	if n.peers == nil {
		return nil
	}
	secrets, ok := n.adapter.(store.ClusterSecrets)
	if !ok {
		return errors.New("node.peers_listen: this store keeps no secret by which nodes could know each other: set it to off")
	}
	return n.peers.Belong(ctx, source{secrets, n.store})
}

// source is what the network to the peers asks the store for.
type source struct {
	secrets store.ClusterSecrets
	store   store.Store
}

// ClusterSecrets implements peers.Source.
func (s source) ClusterSecrets(ctx context.Context) ([]store.ClusterSecret, error) {
	return s.secrets.ClusterSecrets(ctx)
}

// ListNodes implements peers.Source.
func (s source) ListNodes(ctx context.Context) ([]store.Node, error) { return s.store.ListNodes(ctx) }

// peerProof is the proof that this node gives its peers.
func (n *Node) peerProof() int {
	if n.peers == nil {
		return 0
	}
	return proof.Version
}

// renewing reports whether the node renews its lease. Peers may ask before it has one.
func (n *Node) renewing() bool { return n.member.granted.Load().Renewing() }

// PeerAddress is where the others reach this node, as host:port, and for which of them the address means this node; empty:
// nowhere.
func (n *Node) PeerAddress() (address, scope string) {
	if n.peers == nil {
		return "", ""
	}
	return n.peers.Advertised()
}

func (n *Node) peersSpec() actors.Child {
	return peers.NewActor(peers.ActorConfig{
		System: n.system, Network: n.peers, Stands: n.operator.Directory.Standing, Logger: n.logger.Named("peers"),
	})
}

// askPeers is how membership asks the others whether they see the store; nil: nobody can be asked.
func (n *Node) askPeers() func(context.Context, []messages.Incarnation) membership.Heard {
	if n.peers == nil {
		return nil
	}
	return n.peers.Heard
}

// tellPeers keeps the network's directory: who else lives, and where.
func (n *Node) tellPeers(message any) {
	if n.peers == nil {
		return
	}
	switch news := message.(type) {
	case *supervisor.NodeUp:
		if !n.peers.Know(news.Node) {
			n.logger.Info("the other node and this one cannot ask each other: their node.peers_listen are not of one network",
				"node", news.Node.Name, "incarnation", news.Node.Incarnation, "address", news.Node.PeerAddress)
		}
	case *supervisor.NodeDown:
		n.peers.Forget(news.Node.Incarnation)
	}
}

// closePeers ends the connections to the others, last of all: until then they hear that this node lives.
func (n *Node) closePeers() error {
	if n.peers == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return n.peers.Close(ctx)
}

// peersNotes are what /readyz says of the node's peers.
func (n *Node) peersNotes() (notes []string) {
	if info, ok := n.system.Registry.Get("troupe/peers"); ok && info.Why != "" {
		notes = append(notes, "peers: "+info.State+"; "+info.Why)
	}
	return notes
}

// network shows how the node stands with its peers.
func (c *liveCollector) network(gauge func(*prometheus.Desc, float64, ...string)) {
	if c.node.peers == nil {
		return
	}
	states := map[string]int{"reached": 0, "suspect": 0, "not_heard": 0}
	for _, p := range c.node.peers.Peers() {
		switch {
		case !p.Suspect.IsZero():
			states["suspect"]++
		case p.Heard:
			states["reached"]++
		default:
			states["not_heard"]++
		}
	}
	for state, count := range states {
		gauge(c.peers, float64(count), state)
	}
	for why, count := range c.node.peers.Counts().Dropped {
		gauge(c.peersDropped, float64(count), why.String())
	}
}
