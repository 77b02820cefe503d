package node

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker/direct"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/peers"
	"github.com/troupe-run/troupe/rules/membership"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// network is the node's end of the remoting, as the other parts of the node use it.
type network struct {
	*base
	operator *operate.Operator
	direct   *direct.Broker // opened while the node starts; nil: the node shares its store with no other one
	renewing func() bool    // whether this node renews its lease
	lost     chan struct{}  // capacity one: a connection to a peer has ended
}

// believedLeases is for how many leases without a word of the store a node of an older release is believed that has joined since.
const believedLeases = 3

// open takes the port at which the others reach this node, before they can learn of it from the store.
func (nw *network) open(handlers []peers.Handler) (err error) {
	if !nw.cfg.Peers.On() {
		return nil
	}
	nw.peers, err = peers.Open(peers.Config{
		Settings: nw.cfg.Peers, Own: nw.incarnation, Renewing: nw.renewing, Logger: nw.logger.Named("peers"),
		Believed: believedLeases * nw.cfg.Lease, Handlers: handlers, Lost: nw.noteLoss,
	})
	if err != nil {
		return err
	}
	nw.operator.Connect(nw.peers)
	nw.logger.Info("node listens for its peers", "node", nw.cfg.Name, "address", nw.peers.Address())
	if address, _ := nw.peers.Advertised(); address == "" {
		nw.logger.Warn("no other node can reach this one: its machine does not say which one it is, and its address is a loopback "+
			"one; give node.peers_listen an address that the others reach", "address", nw.peers.Address())
	}
	return nil
}

// belong makes the node one of those that share its store: it learns the secret by which they know each other. It may be repeated.
func (nw *network) belong(ctx context.Context, adapter store.Store) error {
	if nw.peers == nil {
		return nil
	}
	secrets, ok := adapter.(store.ClusterSecrets)
	if !ok {
		return errors.New("node.peers_listen: this store keeps no secret by which nodes could know each other: set it to off")
	}
	return nw.peers.Belong(ctx, source{secrets, nw.store})
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

func (nw *network) spec() actors.Child {
	return peers.NewActor(peers.ActorConfig{
		System: nw.system, Network: nw.peers, Stands: nw.operator.Directory.Standing, Logger: nw.logger.Named("peers"),
	})
}

// ask is how membership asks the others whether they see the store; nil: nobody can be asked.
func (nw *network) ask() func(context.Context, membership.Asked) membership.Heard {
	if nw.peers == nil {
		return nil
	}
	return nw.peers.Heard
}

// noteLoss has membership look at the store soon.
func (nw *network) noteLoss() {
	select {
	case nw.lost <- struct{}{}:
	default: // it will
	}
}

// refuses is how membership asks whether anything listens at the addresses of others; nil: none is known.
func (nw *network) refuses() func(context.Context, []messages.Incarnation) []messages.Incarnation {
	if nw.peers == nil {
		return nil
	}
	return nw.peers.Refuses
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
