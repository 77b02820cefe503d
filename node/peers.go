package node

import (
	"context"
	"errors"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker/direct"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/peers/proof"
	"github.com/troupe-run/troupe/rules/membership"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// network is the node's end of the remoting, as the other parts of the node use it.
type network struct {
	*base
	member   *member
	operator *operate.Operator
	direct   *direct.Broker // opened while the node starts; nil: the node shares its store with no other one
}

// believedLeases is for how many leases without a word of the store a node of an older release is believed that has joined since.
const believedLeases = 3

// openPeers takes the port at which the others reach this node, before they can learn of it from the store.
func (n *Node) openPeers(context.Context) (err error) {
	if !n.cfg.Peers.On() {
		return nil
	}
	n.peers, err = peers.Open(peers.Config{
		Settings: n.cfg.Peers, Own: n.incarnation, Renewing: n.network.renewing, Logger: n.logger.Named("peers"), Believed: believedLeases * n.cfg.Lease,
		Handlers: slices.Concat(n.routing.peerHandlers(), n.operator.Handlers(), []peers.Handler{
			peers.HandleLong(inspectTime, n.forest.inspected), n.network.publishHandler(),
		}),
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

// proof is the proof that this node gives its peers.
func (nw *network) proof() int {
	if nw.peers == nil {
		return 0
	}
	return proof.Version
}

// renewing reports whether the node renews its lease. Peers may ask before it has one.
func (nw *network) renewing() bool { return nw.member.granted.Load().Renewing() }

// PeerAddress is where the others reach this node, as host:port, and for which of them the address means this node; empty:
// nowhere.
func (n *Node) PeerAddress() (address, scope string) {
	if n.peers == nil {
		return "", ""
	}
	return n.peers.Advertised()
}

func (nw *network) spec() actors.Child {
	return peers.NewActor(peers.ActorConfig{
		System: nw.system, Network: nw.peers, Stands: nw.operator.Directory.Standing, Logger: nw.logger.Named("peers"),
	})
}

// ask is how membership asks the others whether they see the store; nil: nobody can be asked.
func (nw *network) ask() func(context.Context, []messages.Incarnation) membership.Heard {
	if nw.peers == nil {
		return nil
	}
	return nw.peers.Heard
}

// tell keeps the network's directory: who else lives, and where.
func (nw *network) tell(message any) {
	if nw.peers == nil {
		return
	}
	switch news := message.(type) {
	case *supervisor.NodeUp:
		if !nw.peers.Know(news.Node) {
			nw.logger.Info("the other node and this one cannot ask each other: their node.peers_listen are not of one network",
				"node", news.Node.Name, "incarnation", news.Node.Incarnation, "address", news.Node.PeerAddress)
		}
	case *supervisor.NodeDown:
		nw.peers.Forget(news.Node.Incarnation)
	}
}

// close ends the connections to the others, last of all: until then they hear that this node lives.
func (nw *network) close() error {
	if nw.peers == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return nw.peers.Close(ctx)
}

// notes are what /readyz says of the node's peers.
func (nw *network) notes() (notes []string) {
	if info, ok := nw.system.Registry.Get("troupe/peers"); ok && info.Why != "" {
		notes = append(notes, "peers: "+info.State+"; "+info.Why)
	}
	return notes
}

// network shows how the node stands with its peers.
func (c *liveCollector) network(gauge func(*prometheus.Desc, float64, ...string)) {
	if c.of.peers == nil {
		return
	}
	states := map[string]int{"reached": 0, "suspect": 0, "not_heard": 0}
	for _, p := range c.of.peers.Peers() {
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
	for why, count := range c.of.peers.Counts().Dropped {
		gauge(c.peersDropped, float64(count), why.String())
	}
}
