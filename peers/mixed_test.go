package peers

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/remote"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/rules/membership"
	"github.com/troupe-run/troupe/store"
)

// oldNode is a node of the release before: it proves nothing, and answers probes where it was asked from.
type oldNode struct {
	remote.UnimplementedRemotingServer
	t   *testing.T
	own messages.Incarnation
	to  *side
}

// Receive answers on a stream of its own, which it opens for each that it is given. The test may end at any time: then what
// goes wrong here is no failure of it.
func (o *oldNode) Receive(stream remote.Remoting_ReceiveServer) error {
	conn, err := grpc.NewClient(o.to.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	back, err := remote.NewRemotingClient(conn).Receive(stream.Context())
	if err != nil {
		return err
	}
	row, _ := o.to.in.row(o.own)
	if err := back.Send(greeting("rogue", row.PeerAddress)); err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil
		}
		if m.GetConnectRequest() != nil {
			err = stream.Send(&remote.RemoteMessage{MessageType: &remote.RemoteMessage_ConnectResponse{ConnectResponse: &remote.ConnectResponse{}}})
		}
		for _, name := range m.GetMessageBatch().GetTypeNames() {
			if name != envelopeType {
				o.t.Errorf("an older release is sent a %q", name)
			}
		}
		for _, part := range m.GetMessageBatch().GetEnvelopes() {
			err = o.answer(back, part.GetMessageData())
		}
		if err != nil {
			return err
		}
	}
}

// answer answers one envelope.
func (o *oldNode) answer(back remote.Remoting_ReceiveClient, data []byte) error {
	asked, err := decode(data)
	if err != nil {
		return err
	}
	encoded, err := wire.ToProto(wire.Envelope{ID: asked.ID, Seq: 1, From: o.own, To: asked.From, Body: wire.ProbeResult{StoreSeen: true}})
	if err != nil {
		return err
	}
	reply, err := proto.Marshal(encoded)
	if err != nil {
		return err
	}
	return back.Send(message(batchOf(envelopeType, target, reply)))
}

// A node of the release before works with one of this, as long as the store says that it lives and is of that release.
func TestAMixedPair(t *testing.T) {
	t.Parallel()
	var carried atomic.Int64
	var unproven atomic.Bool
	a := open(t, func(c *Config) {
		commands(&carried)(c)
		c.Handlers = append(c.Handlers, Handle(func(_ context.Context, r Request, _ wire.EndSession) (wire.Body, error) {
			unproven.Store(!r.Proven)
			return wire.Ack{}, nil
		}))
	})
	old := &oldNode{t: t, own: messages.NewIncarnation(), to: a}
	row := store.Node{Incarnation: old.own, Name: "old", State: store.NodeActive, PeerAddress: serve(t, old), PeerScope: a.Scope()}
	a.in.join(row)
	a.Know(row)
	require.Equal(t, membership.Heard{Peers: 1, Seen: 1}, a.hears(patience, &side{own: old.own}))

	r := stranger(t, a, nil)
	r.greet(row.PeerAddress)
	_, err := r.Recv()
	require.NoError(t, err)
	r.write(steer(t, old.own))
	require.Eventually(t, func() bool { return carried.Load() == 3 }, patience, time.Millisecond)
	r.write(batchOf(envelopeType, target, encode(t, old.own, wire.EndSession{Pool: "p", Session: "s", Epoch: 1})))
	require.Eventually(t, unproven.Load, patience, time.Millisecond, "what handles it knows that it has proven nothing")
	r.write(steer(t, messages.NewIncarnation()))
	a.drops(Forged, 3)

	// Once it is gone, and another node has the release of this one, nobody may be of the release before, on a stream that was let
	// in either.
	a.Forget(old.own)
	row.State = store.NodeDead
	a.in.join(row)
	require.Eventually(t, func() bool {
		if err := r.Send(message(steer(t, old.own))); err != nil {
			return true
		}
		return a.Counts().Dropped[Unproven] > 0
	}, patience, 10*time.Millisecond)
	r.refused()
	late := stranger(t, a, nil)
	late.greet(row.PeerAddress)
	late.refused()
}

// A node of the release before that has joined since is found in the store, which strangers cannot have asked without end.
func TestAnOlderReleaseThatHasJoinedSince(t *testing.T) {
	t.Parallel()
	a := open(t)
	for range 50 {
		r := stranger(t, a, nil)
		r.greet("127.0.0.1:9")
		r.refused()
	}
	a.in.mu.Lock()
	asked := a.in.asked
	a.in.mu.Unlock()
	require.Less(t, asked, 25, "once a second")
	row := store.Node{Incarnation: messages.NewIncarnation(), State: store.NodeActive, PeerAddress: "127.0.0.1:9", PeerScope: a.Scope()}
	a.in.join(row)
	require.Eventually(t, func() bool {
		r := stranger(t, a, nil)
		r.greet(row.PeerAddress)
		_, err := r.Recv()
		return err == nil
	}, patience, 50*time.Millisecond)
}

// What the store said last of a node of the release before holds for some leases while the store is away, on a stream that was let in
// too, and again once the store says so anew.
func TestAnOlderReleaseWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	a := open(t, func(c *Config) { c.Believed = time.Hour })
	old := messages.NewIncarnation()
	row := store.Node{Incarnation: old, State: store.NodeActive, PeerAddress: "127.0.0.1:9", PeerScope: a.Scope()}
	a.in.join(row)
	greet := func() *rogue {
		r := stranger(t, a, nil)
		r.greet(row.PeerAddress)
		return r
	}
	away := func(is bool) {
		a.in.mu.Lock()
		defer a.in.mu.Unlock()
		a.in.away = is
	}
	require.Eventually(t, func() bool { _, err := greet().Recv(); return err == nil }, patience, 50*time.Millisecond)
	away(true)
	before := a.Counts().Received
	in := greet()
	_, err := in.Recv()
	require.NoError(t, err, "the last word of the store still holds")
	in.write(batchOf(envelopeType, target, encode(t, old, wire.Probe{})))
	require.Eventually(t, func() bool { return a.Counts().Received > before }, patience, time.Millisecond)

	a.register.mu.Lock()
	a.register.told = a.register.told.Add(-a.cfg.Believed)
	a.register.mu.Unlock()
	in.write(batchOf(envelopeType, target, encode(t, old, wire.Probe{})))
	in.refused()
	greet().refused()
	require.True(t, a.demands(row.PeerAddress))

	away(false)
	require.Eventually(t, func() bool { _, err := greet().Recv(); return err == nil }, patience, 50*time.Millisecond)
}
