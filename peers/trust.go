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

// The places of the proof's messages. The client's Hello and the server's answer are in headers of the stream, which
// the library ignores. The client's proof is in its greeting, in place of an unused name. The tag of a write is one
// more type name.
const (
	helloHeader  = "troupe-hello-bin"
	answerHeader = "troupe-answer-bin"
	proofPrefix  = "proof:"
	tagPrefix    = "tag:"
)

// Errors of peers that are not accepted.
var (
	errNoSecret = errors.New("this node does not know the cluster's secret yet")
	errNoProof  = errors.New("it did not prove that it belongs to the cluster, and the store knows no node of an older release there")
	errUnlisted = errors.New("it belongs to the cluster, but the store does not know it at the address that it gives")
	errSecret   = errors.New("it means a secret that the cluster does not accept (any more)")
	errSilent   = errors.New("it did not prove in time that it belongs to the cluster, or too many others came after it")
	errForged   = errors.New("what it sent was changed, repeated or left out in part on its way")
)

// unbelieved is the answer to them. It says only what an honest peer needs.
var unbelieved = status.Error(codes.Unauthenticated, "this node did not get the proof that the other one belongs to its cluster; its log says more")

// party returns this node's identity in a proof.
func (n *Network) party() proof.Party { return proof.Party{Incarnation: n.cfg.Own, Address: n.address} }

// refuse counts a refused peer, logs it at a limited rate, and returns the error that ends the stream.
func (n *Network) refuse(why Reason, from string, err error) error {
	n.counts.drop(why)
	n.complain(&n.tellsRefused, "connection of a peer refused", "from", from, "reason", err)
	return unbelieved
}

// complain logs a message that any client can cause: the first time, and then once a minute.
func (n *Network) complain(gate *throttle.Gate, message string, pairs ...any) {
	n.mu.Lock()
	pass, withheld := gate.Pass(time.Now())
	n.mu.Unlock()
	if pass {
		n.cfg.Logger.Warn(message, append(pairs, throttle.LeftOut(withheld)...)...)
	}
}

// meet answers a peer that offers a proof. A peer without one may run an older release; greet decides that.
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

// remote returns the peer's network address, for messages.
func (g *gate) remote() string {
	if p, ok := grpcpeer.FromContext(g.Context()); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return "unknown"
}

// believe checks a peer that has greeted with an address, and accepts it.
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
	if g.conn != nil {
		g.conn.trust()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.inbound[g] = struct{}{}
	return nil
}

// proven checks the proof in a greeting.
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

// genuine checks one write and removes its tag. It must be the next write of the peer that proved itself, or come from
// a node of an older release that the store still knows.
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
		return true // garbage, which is counted as such
	case g.server != nil:
		return messages.Incarnation(from) == g.server.Client().Incarnation
	}
	return slices.Contains(g.older, messages.Incarnation(from))
}

// dataOf returns the parts of a write that its tag covers: all that are used.
func dataOf(b *remote.MessageBatch) [][]byte {
	parts := make([][]byte, len(b.GetEnvelopes()))
	for i, part := range b.GetEnvelopes() {
		parts[i] = part.GetMessageData()
	}
	return parts
}

// offer begins a proof for a stream to an address. It adds the Hello to the headers. The client is nil if this node
// knows no secret.
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

// secure proves this node to the peer before any other write, and tags the writes after it. A peer that the store knows
// as one of an older release is greeted without a proof.
func (s *outStream) secure(m *remote.RemoteMessage) error {
	switch part := m.GetMessageType().(type) {
	case *remote.RemoteMessage_ConnectRequest:
		if !s.net.demands(s.address) {
			s.secret = 0 // none is used
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

// prove waits for the peer's proof, and returns this node's.
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

// mistrust logs, at a limited rate, that a peer's or this node's proof was refused, and reads the secrets again. It
// does not log failed connections, which are logged elsewhere.
func (n *Network) mistrust(address string, err error) error {
	if code := status.Code(err); code == codes.Unavailable || code == codes.Canceled || code == codes.DeadlineExceeded {
		return err
	}
	n.distrust(address, "it and this node do not believe each other: "+shorten(err.Error()))
	n.complain(&n.tellsMistrusted, "peer is not believed, or does not believe this node", "address", address, "reason", err)
	if keys := n.keys.Load(); keys != nil {
		n.beside(func() { _ = keys.reread(n.ctx) }) // keepSecrets logs a lasting error
	}
	return err
}

// distrust makes the peer at an address suspect.
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

// expired counts a connection that was ended without a proof, after its time or because there were too many.
func (n *Network) expired(from net.Addr) {
	_ = n.refuse(Unproven, from.String(), errSilent) // the connection is closed already
}
