// Package rogue is a peer that does not hold to the contract between nodes: it speaks the protocol that carries their
// envelopes and sends what tests want sent. The suites aim it at real node processes.
package rogue

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	troupev1 "github.com/troupe-run/troupe/proto/troupe/v1"
)

// What a node takes: envelopes of one type, sent to one name.
const (
	EnvelopeType = "troupe.v1.Envelope"
	Target       = "peers"
)

// Peer is one stream to a node.
type Peer struct {
	conn   *grpc.ClientConn
	stream remote.Remoting_ReceiveClient
	end    context.CancelFunc
}

// Dial opens a stream to a node within the limit; a nil config speaks without TLS. What the node refuses may be told by the first
// thing that is sent, or by Ended, and not here.
func Dial(ctx context.Context, address string, config *tls.Config, limit time.Duration) (*Peer, error) {
	secured := insecure.NewCredentials()
	if config != nil {
		secured = credentials.NewTLS(config)
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(secured))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	stream, err := remote.NewRemotingClient(conn).Receive(ctx)
	if err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("open a stream to %s: %w", address, err), conn.Close())
	}
	return &Peer{conn: conn, stream: stream, end: cancel}, nil
}

// Close ends the stream.
func (p *Peer) Close() error {
	p.end()
	return p.conn.Close()
}

// Greet says at which address the peer claims to be reached.
func (p *Peer) Greet(address string) error {
	return p.stream.Send(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_ConnectRequest{
		ConnectRequest: &remote.ConnectRequest{ConnectionType: &remote.ConnectRequest_ServerConnection{
			ServerConnection: &remote.ServerConnection{SystemId: "rogue", Address: address},
		}},
	}})
}

// Write sends messages of a type to a name, as one write.
func (p *Peer) Write(kind, to string, data ...[]byte) error {
	batch := &remote.MessageBatch{TypeNames: []string{kind}, Targets: []*actor.PID{{Id: to}}}
	for _, d := range data {
		batch.Envelopes = append(batch.Envelopes, &remote.MessageEnvelope{MessageData: d})
	}
	return p.stream.Send(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_MessageBatch{MessageBatch: batch}})
}

// Ended waits for the node to end the stream, and returns how; an answer that comes before it is passed over.
func (p *Peer) Ended() error {
	for {
		if _, err := p.stream.Recv(); err != nil {
			return err
		}
	}
}

// Probe is an envelope that asks a node whether it sees the store, as an incarnation that nobody knows.
func Probe() ([]byte, error) {
	e, err := probe()
	if err != nil {
		return nil, err
	}
	return proto.Marshal(e)
}

// UnknownKind is an envelope of a kind that no node knows.
func UnknownKind() ([]byte, error) {
	e, err := probe()
	if err != nil {
		return nil, err
	}
	e.Kind = 9999
	return proto.Marshal(e)
}

func probe() (*troupev1.Envelope, error) {
	return wire.ToProto(wire.Envelope{ID: messages.NewExecutionID(), Seq: 1, From: messages.NewIncarnation(), Body: wire.Probe{}})
}
