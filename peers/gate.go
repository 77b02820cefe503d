package peers

import (
	"context"
	"errors"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/peers/proof"
	troupev1 "github.com/troupe-run/troupe/proto/troupe/v1"
)

// requestsMax bounds the concurrent requests of one peer. At the bound, nothing more is read from its stream, so a
// flood waits at its sender.
const requestsMax = 8

// longMax bounds the concurrent long requests of one peer. They have slots of their own, so they never delay short
// requests.
const longMax = 32

// admit accepts a peer's stream, and recovers a panic of the library.
func (n *Network) admit(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	if n.streams.Add(1) > streamsMax {
		n.streams.Add(-1)
		n.counts.drop(Busy)
		return status.Error(codes.ResourceExhausted, "too many peers are connected")
	}
	defer n.streams.Add(-1)
	defer func() {
		if r := recover(); r != nil {
			n.counts.drop(Panicked)
			n.cfg.Logger.Error("panic in a peer's stream, which ends", "panic", r)
			err = status.Error(codes.Internal, "the stream cannot go on")
		}
	}()
	g := &gate{
		ServerStream: stream, net: n, conn: connOf(stream.Context()),
		slots: make(chan struct{}, requestsMax), long: make(chan struct{}, longMax),
	}
	defer n.left(g)
	if err := g.meet(stream.Context()); err != nil {
		return err
	}
	return next(srv, g)
}

// left removes a stream that has ended.
func (n *Network) left(g *gate) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.inbound, g)
}

// gate reads a peer's stream in place of the library. It passes on the greeting, and handles every envelope itself: the
// library would deliver any message to any actor that the message names.
type gate struct {
	grpc.ServerStream
	net     *Network
	conn    *inConn                // the connection; nil: not known, as in a test
	server  *proof.Server          // the peer's proof; nil: an older release without proof
	session *proof.Session         // set after the proof
	older   []messages.Incarnation // incarnations for which a peer of an older release may speak
	address string                 // the peer's address in the store; set by its greeting
	slots   chan struct{}          // of short requests in work
	long    chan struct{}          // of long requests in work
}

// RecvMsg reads until there is a message for the library: the greeting, or the stream's end.
func (g *gate) RecvMsg(m any) error {
	for {
		if err := g.ServerStream.RecvMsg(m); err != nil {
			g.ended(err)
			return err
		}
		message, _ := m.(*remote.RemoteMessage)
		switch part := message.GetMessageType().(type) {
		case *remote.RemoteMessage_ConnectRequest:
			return g.greet(part.ConnectRequest)
		case *remote.RemoteMessage_MessageBatch:
			if err := g.batch(part.MessageBatch); err != nil {
				return err
			}
		default:
			g.net.counts.drop(Garbage)
		}
	}
}

// ended counts messages that gRPC refused.
func (g *gate) ended(err error) {
	switch status.Code(err) {
	case codes.ResourceExhausted:
		g.net.counts.drop(TooLarge)
	case codes.Internal, codes.InvalidArgument:
		g.net.counts.drop(Garbage)
	}
}

// greet handles the peer's greeting, once for each stream.
func (g *gate) greet(r *remote.ConnectRequest) error {
	address := r.GetServerConnection().GetAddress()
	if g.address != "" || !g.net.elsewhere(address) {
		g.net.counts.drop(Garbage)
		return status.Errorf(codes.InvalidArgument, "greeting of %.100q is not taken: a node greets once, with its own address", address)
	}
	if err := g.believe(r.GetServerConnection()); err != nil {
		return err
	}
	g.address = address
	return nil
}

// batch handles one write. An error ends the stream.
func (g *gate) batch(b *remote.MessageBatch) error {
	if g.address == "" || len(b.GetEnvelopes()) > batchMax {
		g.net.counts.drop(Garbage)
		return status.Errorf(codes.InvalidArgument, "want a greeting first, and then at most %d envelopes a write", batchMax)
	}
	if err := g.genuine(b); err != nil {
		return err
	}
	for _, part := range b.GetEnvelopes() {
		if err := g.take(b, part); err != nil {
			return err
		}
	}
	return nil
}

// take checks and handles one envelope. Only the end of the stream is an error.
func (g *gate) take(b *remote.MessageBatch, part *remote.MessageEnvelope) error {
	n := g.net
	if why, ok := acceptable(b, part); !ok {
		n.counts.drop(why)
		return nil
	}
	encoded := &troupev1.Envelope{}
	if err := proto.Unmarshal(part.GetMessageData(), encoded); err != nil {
		n.counts.drop(Garbage)
		return nil
	}
	if !g.speaksFor(encoded.GetFrom()) {
		n.counts.drop(Forged)
		return nil
	}
	if n.another(encoded.GetTo()) {
		n.counts.drop(Misdirected)
		return nil
	}
	e, err := wire.FromProto(encoded)
	var unknown *wire.UnsupportedError
	switch {
	case errors.As(err, &unknown):
		g.unsupported(callID(unknown.ID), unknown.From, unknown.Reply())
	case err != nil:
		n.counts.drop(Garbage)
		n.cfg.Logger.Debug("envelope dropped", "peer", g.address, "error", err)
	default:
		n.counts.received.Add(1)
		return g.understood(&e, encoded.GetKind())
	}
	return nil
}

// another reports whether an envelope is for another incarnation: an earlier one with this address, or one on another
// machine whose address leads to this node here. It gets no answer, because the sender would not accept one.
func (n *Network) another(to []byte) bool {
	return len(to) == len(n.cfg.Own) && messages.Incarnation(to) != n.cfg.Own
}

// acceptable reports whether the library's envelope has the expected form, and otherwise why not.
func acceptable(b *remote.MessageBatch, part *remote.MessageEnvelope) (Reason, bool) {
	kind, to := int(part.GetTypeId()), int(part.GetTarget())
	switch {
	case len(part.GetMessageData()) > envelopeMax:
		return TooLarge, false
	case kind < 0 || kind >= len(b.GetTypeNames()) || to < 0 || to >= len(b.GetTargets()):
		return Garbage, false
	case b.GetTypeNames()[kind] != envelopeType || part.GetSerializerId() != 0 || b.GetTargets()[to].GetId() != target:
		return Misdirected, false
	}
	return 0, true
}

// unsupported answers an unknown kind of request, unless the message itself is such an answer.
func (g *gate) unsupported(id callID, to messages.Incarnation, reply wire.Unsupported) {
	g.net.counts.drop(Unsupported)
	if reply.Kind != troupev1.Kind_KIND_UNSUPPORTED {
		g.answer(id, to, reply)
	}
}

func (g *gate) understood(e *wire.Envelope, kind troupev1.Kind) error {
	n := g.net
	switch {
	case n.answered(e):
		return nil
	case isAnswer(e.Body):
		n.counts.drop(Stale)
		return nil
	}
	h := n.handlerFor(e.Body)
	switch {
	case h.call == nil:
		g.unsupported(callID(e.ID), e.From, wire.Unsupported{Kind: kind, Version: wire.Version})
		return nil
	case h.long:
		return g.longRequest(e, h)
	}
	return g.request(e, h)
}

// request runs a handler. It first waits while requestsMax of the peer's run.
func (g *gate) request(e *wire.Envelope, h handle) error {
	select {
	case g.slots <- struct{}{}:
	case <-g.Context().Done():
		return status.FromContextError(g.Context().Err()).Err()
	}
	return g.run(e, h, g.slots)
}

// longRequest runs a handler, or refuses the request if longMax of the peer's run.
func (g *gate) longRequest(e *wire.Envelope, h handle) error {
	select {
	case g.long <- struct{}{}:
		return g.run(e, h, g.long)
	default:
		g.net.counts.drop(Busy)
		g.answer(callID(e.ID), e.From, wire.Ack{Refused: "too many requests of this node are under way there", Code: Crowded})
		return nil
	}
}

// run runs a handler, and frees its slot.
func (g *gate) run(e *wire.Envelope, h handle, slots chan struct{}) error {
	r := Request{From: e.From, About: e.Placement, Proven: g.session != nil}
	begun := g.net.beside(func() {
		defer func() { <-slots }()
		ctx, cancel := context.WithTimeout(g.net.ctx, h.limit)
		defer cancel()
		reply, err := h.call(ctx, r, e.Body)
		if err != nil {
			reply = wire.Ack{Refused: shorten(err.Error())}
		}
		g.answer(callID(e.ID), e.From, reply)
	})
	if !begun {
		return status.Error(codes.Unavailable, ErrClosed.Error())
	}
	return nil
}

// answer sends a reply to the peer's address in the store. A reply that cannot be sent is lost.
func (g *gate) answer(id callID, to messages.Incarnation, body wire.Body) {
	if err := g.net.post(g.net.ctx, g.address, to, id, messages.Placement{}, body); err != nil {
		g.net.cfg.Logger.Debug("answer not sent", "peer", g.address, "error", err)
	}
}
