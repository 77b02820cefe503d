package peers

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	troupev1 "github.com/troupe-run/troupe/proto/troupe/v1"
	"github.com/troupe-run/troupe/supervisor/membership"
	"github.com/troupe-run/troupe/test/servers"
)

func TestMain(m *testing.M) {
	// The library counts dead letters in windows, one goroutine each.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/asynkron/protoactor-go/actor.NewDeadLetter.NewThrottle.func4.1"))
}

// patience bounds every wait; no test passes because of it.
const patience = 20 * time.Second

// side is one node's network.
type side struct {
	*Network
	t      *testing.T
	own    messages.Incarnation
	renews atomic.Bool
}

// open opens a network on loopback that renews its lease, unless changed.
func open(t *testing.T, change ...func(*Config)) *side {
	t.Helper()
	servers.Unraced(t)
	s := &side{t: t, own: messages.NewIncarnation()}
	s.renews.Store(true)
	cfg := Config{Settings: Settings{Listen: "127.0.0.1:0"}, Own: s.own, Renewing: s.renews.Load, AskTime: patience / 2, Logger: hclog.NewNullLogger()}
	for _, c := range change {
		c(&cfg)
	}
	network, err := Open(cfg)
	require.NoError(t, err)
	s.Network = network
	t.Cleanup(s.end)
	return s
}

func (s *side) end() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		s.t.Errorf("close: %v", err)
	}
}

// introduce tells each of the others.
func introduce(sides ...*side) {
	for _, s := range sides {
		for i, other := range sides {
			s.Know(other.own, fmt.Sprintf("n%d", i), other.Address(), other.Scope())
		}
	}
}

// hears asks others within a time.
func (s *side) hears(limit time.Duration, others ...*side) membership.Heard {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	list := make([]messages.Incarnation, len(others))
	for i, o := range others {
		list[i] = o.own
	}
	return s.Heard(ctx, list)
}

// works requires that a node still answers.
func (s *side) works(asker *side) {
	s.t.Helper()
	require.Equal(s.t, membership.Heard{Peers: 1, Seen: 1}, asker.hears(patience, s))
}

// suspects waits until this peer is suspect, and no other.
func (s *side) suspects(other *side) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		for _, p := range s.Peers() {
			if p.Suspect.IsZero() == (p.Incarnation == other.own) {
				return false
			}
		}
		return true
	}, patience, time.Millisecond)
}

// drops waits until so many were dropped for the reason.
func (s *side) drops(why Reason, least int64) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.Counts().Dropped[why] >= least }, patience, time.Millisecond,
		"%d dropped as %s, are %v", least, why, s.Counts())
}

// rogue is a client that speaks the library's protocol and does not hold to ours.
type rogue struct {
	remote.Remoting_ReceiveClient
	t *testing.T
}

// dial connects a rogue, which says that it is reached at an address.
func dial(t *testing.T, to *side, address string) *rogue {
	t.Helper()
	conn, err := grpc.NewClient(to.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	stream, err := remote.NewRemotingClient(conn).Receive(t.Context())
	require.NoError(t, err)
	r := &rogue{stream, t}
	if address != "" {
		r.greet(address)
	}
	return r
}

func (r *rogue) greet(address string) {
	require.NoError(r.t, r.Send(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_ConnectRequest{
		ConnectRequest: &remote.ConnectRequest{ConnectionType: &remote.ConnectRequest_ServerConnection{
			ServerConnection: &remote.ServerConnection{SystemId: "rogue", Address: address},
		}},
	}}))
}

// batchOf is what the library would write for messages of one type to one actor.
func batchOf(kind, to string, data ...[]byte) *remote.MessageBatch {
	b := &remote.MessageBatch{TypeNames: []string{kind}, Targets: []*actor.PID{{Id: to}}}
	for _, d := range data {
		b.Envelopes = append(b.Envelopes, &remote.MessageEnvelope{MessageData: d})
	}
	return b
}

func message(b *remote.MessageBatch) *remote.RemoteMessage {
	return &remote.RemoteMessage{MessageType: &remote.RemoteMessage_MessageBatch{MessageBatch: b}}
}

func (r *rogue) write(b *remote.MessageBatch) { require.NoError(r.t, r.Send(message(b))) }

// ended requires that the stream is ended by the node, and returns how.
func (r *rogue) ended() error {
	r.t.Helper()
	for range 10 { // the greeting's answer may come first
		if _, err := r.Recv(); err != nil {
			return err
		}
	}
	require.FailNow(r.t, "the stream goes on")
	return nil
}

// encode makes an envelope as bytes, changed where the contract would not let it be.
func encode(t *testing.T, from messages.Incarnation, body wire.Body, change ...func(*troupev1.Envelope)) []byte {
	t.Helper()
	p, err := wire.ToProto(wire.Envelope{ID: messages.NewExecutionID(), Seq: 1, From: from, Body: body})
	require.NoError(t, err)
	for _, c := range change {
		c(p)
	}
	b, err := proto.Marshal(p)
	require.NoError(t, err)
	return b
}

// deaf is an address that takes connections and reads nothing.
func deaf(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l.Addr().String()
}
