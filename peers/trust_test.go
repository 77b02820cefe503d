package peers

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/remote"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/peers/proof"
	"github.com/troupe-run/troupe/rules/membership"
	"github.com/troupe-run/troupe/store"
)

func (l *lines) count(text string) int { return strings.Count(l.String(), text) }

// logs has a network write all that it can say.
func (l *lines) logs(c *Config) {
	c.Logger = hclog.New(&hclog.LoggerOptions{Output: l, Level: hclog.Trace})
}

// commands counts what would steer a node.
func commands(carried *atomic.Int64) func(*Config) {
	count := func() (wire.Body, error) {
		carried.Add(1)
		return wire.Ack{}, nil
	}
	return func(c *Config) {
		c.Handlers = []Handler{
			Handle(func(context.Context, Request, wire.Kill) (wire.Body, error) { return count() }),
			Handle(func(context.Context, Request, wire.Cordon) (wire.Body, error) { return count() }),
			HandleLong(patience, func(context.Context, Request, wire.Drain) (wire.Body, error) { return count() }),
		}
	}
}

// steer is what an attacker would have a node do.
func steer(t *testing.T, from messages.Incarnation) *remote.MessageBatch {
	return batchOf(envelopeType, target, encode(t, from, wire.Kill{Pool: "p", Generation: 1}), encode(t, from, wire.Cordon{Pool: "p"}),
		encode(t, from, wire.Drain{}))
}

// listening is an address that counts who connects to it, and says nothing.
func listening(t *testing.T) (address string, dialled *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	dialled = &atomic.Int64{}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			dialled.Add(1)
			_ = conn.Close()
		}
	}()
	return l.Addr().String(), dialled
}

// refused requires that the node ends the rogue's stream because it is not believed.
func (r *rogue) refused() {
	r.t.Helper()
	require.Equal(r.t, codes.Unauthenticated, status.Code(r.ended()))
}

// Who can connect and knows no secret commands nothing, whatever it claims to be, and nobody dials where it says that it is reached. It
// is told once, and counted each time.
func TestAStrangerCommandsNothing(t *testing.T) {
	t.Parallel()
	var carried atomic.Int64
	log := &lines{}
	a, b := open(t, commands(&carried), log.logs), open(t)
	introduce(a, b)
	b.works(a)
	address, dialled := listening(t)
	a.in.join(store.Node{Incarnation: messages.NewIncarnation(), State: store.NodeDead, PeerAddress: "127.0.0.1:9", PeerScope: a.Scope()})
	hello := func(change func(*proof.Hello)) []byte {
		h := proof.Hello{Version: proof.Version, Secret: 1, From: proof.Party{Incarnation: b.own, Address: b.Address()}}
		change(&h)
		return h.Encode()
	}
	for name, c := range map[string]struct {
		hello   []byte
		address string
	}{
		"as a node of an older release, at an address of its own": {nil, address},
		"as a node of an older release, at another node's":        {nil, b.Address()},
		"as a node of an older release that is dead":              {nil, "127.0.0.1:9"},
		"words that are none":                                     {[]byte("hello"), address},
		"words without an end":                                    {bytes.Repeat([]byte{1}, 4000), address},
		"a version from before the first":                         {hello(func(h *proof.Hello) { h.Version = 0 }), b.Address()},
		"a secret that nobody knows":                              {hello(func(h *proof.Hello) { h.Secret = 9 }), b.Address()},
		"another node's name, without its proof":                  {hello(func(*proof.Hello) {}), b.Address()},
		"its own name":                                            {hello(func(h *proof.Hello) { h.From.Address = address }), address},
	} {
		before := a.Counts().Dropped[Unproven]
		r := stranger(t, a, c.hello)
		_ = r.Send(greeting("rogue", c.address)) // both fail once the stream has ended, as it does over the words before
		_ = r.Send(message(steer(t, b.own)))
		r.refused()
		require.Greater(t, a.Counts().Dropped[Unproven], before, name)
	}
	require.Equal(t, 1, log.count("connection of a peer refused"), "told once a minute:\n%s", log)
	require.Zero(t, carried.Load())
	require.Zero(t, dialled.Load())
	b.works(a)
	a.works(b)
	reply, err := b.Ask(t.Context(), a.own, messages.Placement{}, wire.Cordon{Pool: "p"})
	require.NoError(t, err)
	require.Equal(t, wire.Ack{}, reply, "nodes still steer each other")
}

// Another secret is none, under the number of the right one too; neither is the right one for a node that was not told any.
func TestAnotherSecret(t *testing.T) {
	t.Parallel()
	here, there := newCluster(t), newCluster(t)
	a, b := openIn(t, here), openIn(t, there)
	introduce(a, b)
	require.Equal(t, membership.Heard{Peers: 1}, b.hears(time.Second, a))
	require.Equal(t, membership.Heard{Peers: 1}, a.hears(time.Second, b))
	require.Eventually(t, func() bool { return strings.Contains(b.Peers()[0].Why, "do not believe each other") }, patience, time.Millisecond)
	c := openAlone(t)
	c.in = here
	r := dial(t, a, c.Address()) // the row is there, and the secret
	r.write(batchOf(envelopeType, target, encode(t, r.own, wire.Probe{})))
	require.Eventually(t, func() bool { return a.Counts().Received == 1 }, patience, time.Millisecond)
	early := stranger(t, c, nil)
	early.greet(a.Address())
	early.refused()
}

// What was recorded of a peer's connection proves nothing on another, and no write of it can be changed, repeated or left out.
func TestRecordings(t *testing.T) {
	t.Parallel()
	var carried atomic.Int64
	a, b := open(t, commands(&carried)), open(t)
	introduce(a, b)
	own := proof.Party{Incarnation: b.own, Address: b.Address()}
	client, hello := proof.NewClient(a.in.secret(), own, a.Address())
	first := stranger(t, a, hello)
	_, given, session, err := client.Check(first.answer())
	require.NoError(t, err)
	greeting := proofPrefix + hex.EncodeToString(given)
	first.greetAs(greeting, b.Address())
	_, err = first.Recv()
	require.NoError(t, err)
	first.own, first.session = b.own, session
	first.write(steer(t, b.own))
	require.Eventually(t, func() bool { return carried.Load() == 3 }, patience, time.Millisecond)

	again := stranger(t, a, hello)
	again.greetAs(greeting, b.Address())
	again.refused()

	for name, strike := range map[string]func(r *rogue){
		"repeated": func(r *rogue) {
			batch := batchOf(envelopeType, target, encode(t, r.own, wire.Probe{}))
			r.write(batch)
			require.NoError(t, r.Send(message(batch)))
		},
		"changed": func(r *rogue) {
			batch := batchOf(envelopeType, target, encode(t, r.own, wire.Probe{}))
			r.tag(batch)
			batch.Envelopes[0].MessageData = encode(t, r.own, wire.Drain{})
			require.NoError(t, r.Send(message(batch)))
		},
		"one left out": func(r *rogue) {
			r.tag(batchOf(envelopeType, target, encode(t, r.own, wire.Probe{})))
			r.write(batchOf(envelopeType, target, encode(t, r.own, wire.Drain{})))
		},
		"without a tag": func(r *rogue) {
			require.NoError(t, r.Send(message(batchOf(envelopeType, target, encode(t, r.own, wire.Drain{})))))
		},
		"nothing at all": func(r *rogue) { require.NoError(t, r.Send(message(&remote.MessageBatch{}))) },
	} {
		before := a.Counts().Dropped[Forged]
		r := dial(t, a, deaf(t))
		strike(r)
		r.refused()
		require.Equal(t, before+1, a.Counts().Dropped[Forged], name)
	}
	r := dial(t, a, deaf(t))
	r.write(batchOf(envelopeType, target, encode(t, b.own, wire.Drain{})))
	a.drops(Forged, 6)
	require.Equal(t, int64(3), carried.Load(), "nothing but what b itself had sent")
	a.works(b)
}

// impostor is a server of the library's protocol at an address that the store knows: of a node that has died, say.
type impostor struct {
	remote.UnimplementedRemotingServer
	answers func(hello []byte) []byte // nil: it answers nothing
	hellos  atomic.Int64
	heard   atomic.Int64 // of what is said after the greeting's headers
}

func (i *impostor) Receive(stream remote.Remoting_ReceiveServer) error {
	if words := metadata.ValueFromIncomingContext(stream.Context(), helloHeader); len(words) == 1 {
		i.hellos.Add(1)
		header := metadata.MD{}
		if i.answers != nil {
			header.Set(answerHeader, string(i.answers([]byte(words[0]))))
		}
		if err := stream.SendHeader(header); err != nil {
			return err
		}
	}
	for {
		if _, err := stream.Recv(); err != nil {
			return nil
		}
		i.heard.Add(1)
	}
}

// serve listens as the library does.
func serve(t *testing.T, s remote.RemotingServer) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	remote.RegisterRemotingServer(server, s)
	go func() { _ = server.Serve(l) }() // ends with Stop
	t.Cleanup(server.Stop)
	return l.Addr().String()
}

// Whoever sits at the address of a node gets nothing said, whatever it answers: nothing, as an older release; a guess; the words of
// the one who dials, mirrored to it; another node's, relayed; a recording.
func TestImpostors(t *testing.T) {
	t.Parallel()
	a, b := open(t), open(t)
	introduce(a, b)
	relay := func(to *side) func([]byte) []byte {
		return func(hello []byte) []byte { return stranger(t, to, hello).answer() }
	}
	_, old := proof.NewClient(a.in.secret(), a.party(), b.Address())
	recorded := relay(b)(old)
	for name, answers := range map[string]func([]byte) []byte{
		"an older release": nil,
		"a guess":          func([]byte) []byte { return make([]byte, len(recorded)) },
		"a mirror":         relay(a),
		"a relay":          relay(b),
		"a recording":      func([]byte) []byte { return recorded },
	} {
		i := &impostor{answers: answers}
		row := store.Node{Incarnation: messages.NewIncarnation(), Name: name, PeerAddress: serve(t, i), PeerScope: a.Scope(), PeerProof: 1}
		a.in.join(row)
		a.Know(row)
		require.Equal(t, membership.Heard{Peers: 1}, a.hears(time.Second, &side{own: row.Incarnation}), name)
		require.Equal(t, int64(1), i.hellos.Load(), name)
		require.Zero(t, i.heard.Load(), name)
		a.Forget(row.Incarnation)
	}
	a.works(b)
	b.works(a)
}

// A node of the cluster that gives an address which the store does not know for it is not dialled there.
func TestAnAddressThatTheStoreDoesNotKnow(t *testing.T) {
	t.Parallel()
	a, b := open(t), open(t)
	introduce(a, b)
	b.works(a)
	address, dialled := listening(t)
	for _, own := range []proof.Party{{Incarnation: b.own, Address: address}, {Incarnation: messages.NewIncarnation(), Address: address},
		{Incarnation: messages.NewIncarnation(), Address: b.Address()}, {Incarnation: a.own, Address: b.Address()}} {
		client, hello := proof.NewClient(a.in.secret(), own, a.Address())
		r := stranger(t, a, hello)
		_, given, _, err := client.Check(r.answer())
		require.NoError(t, err)
		r.greetAs(proofPrefix+hex.EncodeToString(given), own.Address)
		r.refused()
	}
	require.Equal(t, int64(4), a.Counts().Dropped[Unlisted])
	require.Zero(t, dialled.Load())
	a.works(b)
	// What is not in the directory yet is looked up once; what the store does not answer is not believed.
	c := openIn(t, a.in)
	c.Know(a.row())
	require.Equal(t, 1, c.hears(patience, a).Seen, "it has joined since a looked last")
	a.in.mu.Lock()
	a.in.away = true
	a.in.mu.Unlock()
	before := a.Counts().Dropped[Unlisted]
	d := openAlone(t)
	d.in = a.in
	client, hello := proof.NewClient(a.in.secret(), d.party(), a.Address())
	r := stranger(t, a, hello)
	_, given, _, err := client.Check(r.answer())
	require.NoError(t, err)
	r.greetAs(proofPrefix+hex.EncodeToString(given), d.Address())
	r.refused()
	require.Equal(t, before+1, a.Counts().Dropped[Unlisted])
}

// Nothing that is logged, at whatever level, shows a secret.
func TestSecretsAreNotLogged(t *testing.T) {
	t.Parallel()
	log := &lines{}
	a, b := open(t, log.logs), open(t, log.logs)
	introduce(a, b)
	b.works(a)
	stranger(t, a, nil).greet(b.Address())
	a.drops(Unproven, 1)
	a.in.rotate(t, time.Hour)
	require.NoError(t, a.keys.Load().read(t.Context()))
	a.renew(a.keys.Load())
	a.works(b)
	text := log.String() + fmt.Sprintf("%+v %#v", a.keys.Load().held, a.in.secrets)
	require.NotEmpty(t, text)
	for _, secret := range a.in.secrets {
		raw := secret.Key.Reveal()
		for _, form := range []string{hex.EncodeToString(raw), base64.StdEncoding.EncodeToString(raw), string(raw), fmt.Sprint(raw)} {
			require.NotContains(t, text, form)
		}
	}
}
