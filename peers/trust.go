package peers

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/peers/proof"
	"github.com/troupe-run/troupe/rules/throttle"
)

// Where the words of the proof travel: the client's hello and the server's answer in the headers of the stream, which the library
// does not look at, the client's proof in its greeting, in place of a name that nothing here uses, and the tag of a write as one
// more name of a type.
const (
	helloHeader  = "troupe-hello-bin"
	answerHeader = "troupe-answer-bin"
	proofPrefix  = "proof:"
	tagPrefix    = "tag:"
)

// Errors of those that are not believed.
var (
	errNoSecret = errors.New("this node does not know the cluster's secret yet")
	errNoProof  = errors.New("it did not prove that it belongs to the cluster, and the store knows no node of an older release there")
	errUnlisted = errors.New("it belongs to the cluster, but the store does not know it at the address that it gives")
	errSecret   = errors.New("it means a secret that the cluster does not accept (any more)")
	errSilent   = errors.New("it did not prove in time that it belongs to the cluster, or too many others came after it")
	errForged   = errors.New("what it sent was changed, repeated or left out in part on its way")
)

// unbelieved is the answer to those that are not: no more than they need to know if they are honest.
var unbelieved = status.Error(codes.Unauthenticated, "this node did not get the proof that the other one belongs to its cluster; its log says more")

// party is this node as it names itself in a proof.
func (n *Network) party() proof.Party { return proof.Party{Incarnation: n.cfg.Own, Address: n.address} }

// refuse counts, and tells from time to time, that somebody was not believed, and is what ends the stream.
func (n *Network) refuse(why Reason, from string, err error) error {
	n.counts.drop(why)
	n.complain(&n.tellsRefused, "connection of a peer refused", "from", from, "reason", err)
	return unbelieved
}

// complain logs what anybody can bring about: the first time, and then once a minute.
func (n *Network) complain(gate *throttle.Gate, message string, pairs ...any) {
	n.mu.Lock()
	pass, withheld := gate.Pass(time.Now())
	n.mu.Unlock()
	if pass {
		n.cfg.Logger.Warn(message, append(pairs, throttle.LeftOut(withheld)...)...)
	}
}

// meet answers who has dialled and offers a proof. One that offers none may be of an older release: greet judges that.
func (g *gate) meet(ctx context.Context) error {
	words := metadata.ValueFromIncomingContext(ctx, helloHeader)
	if len(words) == 0 {
		return nil
	}
	hello, err := proof.DecodeHello([]byte(words[0]))
	if err != nil {
		return g.net.refuse(Unproven, g.remote(), err)
	}
	keys := g.net.keys.Load()
	if keys == nil {
		return g.net.refuse(Unproven, g.remote(), errNoSecret)
	}
	secret, ok := keys.find(ctx, hello.Secret)
	if !ok {
		return g.net.refuse(Unproven, g.remote(), errSecret)
	}
	server, answer := proof.NewServer(secret, g.net.party(), hello)
	g.server = server
	return g.SendHeader(metadata.Pairs(answerHeader, string(answer)))
}

// remote is where the stream comes from, for people to see.
func (g *gate) remote() string {
	if p, ok := grpcpeer.FromContext(g.Context()); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return "unknown"
}

// believe judges who has greeted with an address, and lets it in.
func (g *gate) believe(r *remote.ServerConnection) error {
	n, address := g.net, r.GetAddress()
	switch {
	case n.keys.Load() == nil:
		return n.refuse(Unproven, g.remote(), errNoSecret)
	case g.server == nil:
		if len(n.olderAt(g.Context(), address)) == 0 {
			return n.refuse(Unproven, g.remote(), errNoProof)
		}
	default:
		if err := g.proven(r); err != nil {
			return err
		}
	}
	if g.guest != nil {
		g.guest.trust()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.inbound[g] = struct{}{}
	return nil
}

// proven judges the proof in a greeting.
func (g *gate) proven(r *remote.ServerConnection) error {
	n := g.net
	encoded, ok := strings.CutPrefix(r.GetSystemId(), proofPrefix)
	given, err := hex.DecodeString(encoded)
	if !ok || err != nil {
		return n.refuse(Unproven, g.remote(), errNoProof)
	}
	session, err := g.server.Check(given)
	if err != nil {
		return n.refuse(Unproven, g.remote(), err)
	}
	client := g.server.Client()
	if client.Address != r.GetAddress() || n.stranger(g.Context(), client.Incarnation, client.Address) {
		return n.refuse(Unlisted, g.remote(), fmt.Errorf("%w: %s at %.100q", errUnlisted, client.Incarnation, r.GetAddress()))
	}
	g.session = session
	return nil
}

// genuine judges one write: it is the next one of whom the connection was proven to be of, or of a node of an older release that
// the store still knows. It takes its tag off.
func (g *gate) genuine(b *remote.MessageBatch) error {
	if g.server == nil {
		if g.older = g.net.olderAt(g.Context(), g.address); len(g.older) == 0 {
			return g.net.refuse(Unproven, g.remote(), errNoProof)
		}
		return nil
	}
	last := len(b.GetTypeNames()) - 1
	if last < 0 {
		return g.net.refuse(Forged, g.remote(), errForged)
	}
	encoded, ok := strings.CutPrefix(b.TypeNames[last], tagPrefix)
	tag, err := hex.DecodeString(encoded)
	if !ok || err != nil || !g.session.Open(tag, dataOf(b)...) {
		return g.net.refuse(Forged, g.remote(), errForged)
	}
	b.TypeNames = b.TypeNames[:last]
	return nil
}

// speaksFor reports whether envelopes of the stream may be of this incarnation.
func (g *gate) speaksFor(from []byte) bool {
	switch {
	case len(from) != len(messages.Incarnation{}):
		return true // it is garbage, and told so
	case g.server != nil:
		return messages.Incarnation(from) == g.server.Client().Incarnation
	}
	return slices.Contains(g.older, messages.Incarnation(from))
}

// dataOf is what a tag covers of a write: whatever is taken of it.
func dataOf(b *remote.MessageBatch) [][]byte {
	parts := make([][]byte, len(b.GetEnvelopes()))
	for i, part := range b.GetEnvelopes() {
		parts[i] = part.GetMessageData()
	}
	return parts
}

// offer begins a proof for a stream to an address: what travels in its headers, nil where this node knows no secret.
func (n *Network) offer(ctx context.Context, address string) (context.Context, *proof.Client, int64) {
	keys := n.keys.Load()
	if keys == nil {
		return ctx, nil, 0
	}
	secret, ok := keys.current()
	if !ok {
		return ctx, nil, 0
	}
	client, hello := proof.NewClient(secret, n.party(), address)
	return metadata.AppendToOutgoingContext(ctx, helloHeader, string(hello)), client, secret.ID
}

// secure proves this node to the peer, before anything else goes out, and tags what goes out then. A peer of an older release is
// greeted without, as the store says that it is one.
func (s *outStream) secure(m *remote.RemoteMessage) error {
	switch part := m.GetMessageType().(type) {
	case *remote.RemoteMessage_ConnectRequest:
		if !s.net.demands(s.address) {
			s.secret = 0 // none is in use
			return nil
		}
		own, err := s.prove()
		if err != nil {
			return s.net.mistrust(s.address, err)
		}
		part.ConnectRequest.GetServerConnection().SystemId = proofPrefix + hex.EncodeToString(own)
	case *remote.RemoteMessage_MessageBatch:
		if s.session != nil {
			tag := s.session.Seal(dataOf(part.MessageBatch)...)
			part.MessageBatch.TypeNames = append(part.MessageBatch.TypeNames, tagPrefix+hex.EncodeToString(tag))
		}
	}
	return nil
}

// prove waits for the peer's proof, and returns the own one.
func (s *outStream) prove() ([]byte, error) {
	if s.client == nil {
		return nil, errNoSecret
	}
	header, err := s.Header()
	if err != nil {
		return nil, err
	}
	words := header.Get(answerHeader)
	if len(words) == 0 {
		return nil, errors.Join(errNoProof, s.ClientStream.RecvMsg(&remote.RemoteMessage{}))
	}
	server, own, session, err := s.client.Check([]byte(words[0]))
	if err != nil {
		return nil, err
	}
	if s.net.stranger(s.Context(), server, s.address) {
		return nil, fmt.Errorf("%w: %s", errUnlisted, server)
	}
	s.session = session
	return own, nil
}

// mistrust tells from time to time that a peer was not believed, or did not believe this node, and has the secrets read again. A
// connection that was not made at all is told elsewhere.
func (n *Network) mistrust(address string, err error) error {
	if code := status.Code(err); code == codes.Unavailable || code == codes.Canceled || code == codes.DeadlineExceeded {
		return err
	}
	n.distrust(address, "it and this node do not believe each other: "+shorten(err.Error()))
	n.complain(&n.tellsMistrusted, "peer is not believed, or does not believe this node", "address", address, "reason", err)
	if keys := n.keys.Load(); keys != nil {
		n.beside(func() { _ = keys.reread(n.ctx) }) // told by keepSecrets where it lasts
	}
	return err
}

// distrust makes suspect whoever is at an address.
func (n *Network) distrust(address, why string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.peers {
		if p.address != address {
			continue
		}
		if p.suspect.IsZero() {
			p.suspect = time.Now()
		}
		p.why = ErrLost.Error() + ": " + why
	}
	n.tell()
}

// expired counts a connection that was ended because it did not prove itself in time, or because too many came.
func (n *Network) expired(from net.Addr) {
	_ = n.refuse(Unproven, from.String(), errSilent) // nobody is left to be told
}
