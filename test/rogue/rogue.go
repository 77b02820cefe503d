// Package rogue is a peer that breaks the protocol between nodes. It speaks the protocol of their envelopes and sends
// any bytes that a test chooses. The suites use it against real node processes.
package rogue

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/peers/proof"
	troupev1 "github.com/troupe-run/troupe/proto/troupe/v1"
	"github.com/troupe-run/troupe/store"
)

// The type and the target name of the envelopes that a node accepts.
const (
	EnvelopeType = "troupe.v1.Envelope"
	Target       = "peers"
)

// Peer is one stream to a node.
type Peer struct {
	conn    *grpc.ClientConn
	stream  remote.Remoting_ReceiveClient
	end     context.CancelFunc
	client  *proof.Client  // nil: it knows no secret
	session *proof.Session // nil: it has proven nothing
}

// Insider has the knowledge of a peer inside the cluster: the secret, and its own row in the store.
type Insider struct {
	Secret store.ClusterSecret
	Own    proof.Party
}

// Dial opens a stream to a node within the limit. With a nil config it uses no TLS. If the node refuses the peer, the
// first write or Ended may report that instead of Dial. An insider offers a proof; nil: none is offered, as by a node
// of an older release.
func Dial(ctx context.Context, address string, config *tls.Config, as *Insider, limit time.Duration) (*Peer, error) {
	secured := insecure.NewCredentials()
	if config != nil {
		secured = credentials.NewTLS(config)
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(secured))
	if err != nil {
		return nil, err
	}
	var client *proof.Client
	if as != nil {
		var hello []byte
		client, hello = proof.NewClient(as.Secret, as.Own, address)
		ctx = metadata.AppendToOutgoingContext(ctx, "troupe-hello-bin", string(hello))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	stream, err := remote.NewRemotingClient(conn).Receive(ctx)
	if err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("open a stream to %s: %w", address, err), conn.Close())
	}
	return &Peer{conn: conn, stream: stream, end: cancel, client: client}, nil
}

// Close ends the stream.
func (p *Peer) Close() error {
	p.end()
	return p.conn.Close()
}

// Prove authenticates as an insider and waits until the node has accepted it.
func (p *Peer) Prove(own proof.Party) error {
	header, err := p.stream.Header()
	if err != nil {
		return fmt.Errorf("wait for the node's proof: %w", err)
	}
	words := header.Get("troupe-answer-bin")
	if len(words) != 1 {
		return errors.New("the node proves nothing")
	}
	_, given, session, err := p.client.Check([]byte(words[0]))
	if err != nil {
		return err
	}
	if err := p.greet("proof:"+hex.EncodeToString(given), own.Address); err != nil {
		return err
	}
	p.session = session
	_, err = p.stream.Recv()
	return err
}

// Greet announces the peer's address.
func (p *Peer) Greet(address string) error { return p.greet("rogue", address) }

func (p *Peer) greet(system, address string) error {
	return p.stream.Send(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_ConnectRequest{
		ConnectRequest: &remote.ConnectRequest{ConnectionType: &remote.ConnectRequest_ServerConnection{
			ServerConnection: &remote.ServerConnection{SystemId: system, Address: address},
		}},
	}})
}

// Write sends messages of a type to a name in one write.
func (p *Peer) Write(kind, to string, data ...[]byte) error {
	batch := &remote.MessageBatch{TypeNames: []string{kind}, Targets: []*actor.PID{{Id: to}}}
	for _, d := range data {
		batch.Envelopes = append(batch.Envelopes, &remote.MessageEnvelope{MessageData: d})
	}
	if p.session != nil {
		batch.TypeNames = append(batch.TypeNames, "tag:"+hex.EncodeToString(p.session.Seal(data...)))
	}
	return p.stream.Send(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_MessageBatch{MessageBatch: batch}})
}

// Ended waits for the node to end the stream, and returns how. It ignores an answer that comes before.
func (p *Peer) Ended() error {
	for {
		if _, err := p.stream.Recv(); err != nil {
			return err
		}
	}
}

// Envelope returns an encoded message from an incarnation.
func Envelope(from messages.Incarnation, body wire.Body) ([]byte, error) {
	e, err := envelope(from, body)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(e)
}

// UnknownKind returns an envelope of a kind that no node knows.
func UnknownKind(from messages.Incarnation) ([]byte, error) {
	e, err := envelope(from, wire.Probe{})
	if err != nil {
		return nil, err
	}
	e.Kind = 9999
	return proto.Marshal(e)
}

func envelope(from messages.Incarnation, body wire.Body) (*troupev1.Envelope, error) {
	return wire.ToProto(wire.Envelope{ID: messages.NewExecutionID(), Seq: 1, From: from, Body: body})
}
