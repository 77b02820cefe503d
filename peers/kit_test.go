package peers

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
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
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/peers/proof"
	troupev1 "github.com/troupe-run/troupe/proto/troupe/v1"
	"github.com/troupe-run/troupe/rules/membership"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/test/servers"
)

func TestMain(m *testing.M) {
	// The library counts dead letters in windows, one goroutine each.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/asynkron/protoactor-go/actor.NewDeadLetter.NewThrottle.func4.1"))
}

// patience bounds every wait; no test passes because of it.
const patience = 20 * time.Second

// cluster is the store of a test's nodes: their secrets and their rows.
type cluster struct {
	mu      sync.Mutex
	secrets []store.ClusterSecret
	rows    map[messages.Incarnation]store.Node
	asked   int // for rows
	away    bool
}

func newCluster(t testing.TB) *cluster {
	return &cluster{rows: map[messages.Incarnation]store.Node{}, secrets: []store.ClusterSecret{secretOf(t, 1)}}
}

// secretOf makes a current secret.
func secretOf(t testing.TB, id int64) store.ClusterSecret {
	t.Helper()
	raw := make([]byte, store.SecretSize)
	_, err := rand.Read(raw)
	require.NoError(t, err)
	key, err := store.NewSecretKey(raw)
	require.NoError(t, err)
	return store.ClusterSecret{ID: id, Key: key, Current: true}
}

func (c *cluster) ClusterSecrets(context.Context) ([]store.ClusterSecret, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away {
		return nil, store.ErrUnavailable
	}
	return slices.Clone(c.secrets), nil
}

func (c *cluster) ListNodes(context.Context) ([]store.Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.away {
		return nil, store.ErrUnavailable
	}
	return slices.Collect(maps.Values(c.rows)), nil
}

// rotate makes another secret the current one.
func (c *cluster) rotate(t testing.TB, overlap time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.secrets[0]
	before.Current, before.Left = false, overlap
	c.secrets = []store.ClusterSecret{secretOf(t, before.ID+1)}
	if overlap > 0 {
		c.secrets = append(c.secrets, before)
	}
}

// join writes the row of a node.
func (c *cluster) join(row store.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows[row.Incarnation] = row
}

func (c *cluster) secret() store.ClusterSecret {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.secrets[0]
}

// side is one node's network.
type side struct {
	*Network
	in     *cluster
	t      *testing.T
	own    messages.Incarnation
	renews atomic.Bool
}

// open opens a network on loopback that renews its lease, unless changed.
func open(t *testing.T, change ...func(*Config)) *side {
	t.Helper()
	return openIn(t, common(t), change...)
}

// clusters are those of the tests that run.
var clusters sync.Map

// common is the cluster of a test.
func common(t *testing.T) *cluster {
	t.Helper()
	made, there := clusters.LoadOrStore(t.Name(), newCluster(t))
	if !there {
		t.Cleanup(func() { clusters.Delete(t.Name()) })
	}
	return made.(*cluster)
}

// openIn opens a network of a cluster.
func openIn(t *testing.T, in *cluster, change ...func(*Config)) *side {
	t.Helper()
	s := openAlone(t, change...)
	s.belongs(in)
	return s
}

// belongs makes a network one of a cluster.
func (s *side) belongs(in *cluster) {
	s.t.Helper()
	s.in = in
	in.join(s.row())
	require.NoError(s.t, s.Belong(s.t.Context(), in))
}

// row is the node's row in the store.
func (s *side) row() store.Node {
	address, scope := s.Advertised()
	return store.Node{
		Incarnation: s.own, Name: "n", State: store.NodeActive, PeerAddress: address, PeerScope: scope, PeerProof: proof.Version,
	}
}

// openAlone opens a network that belongs to no cluster yet.
func openAlone(t *testing.T, change ...func(*Config)) *side {
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
			row := other.row()
			row.Name = fmt.Sprintf("n%d", i)
			s.Know(row)
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
	return s.Heard(ctx, membership.Asked{membership.Counts: list})
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
	t       *testing.T
	own     messages.Incarnation
	client  *proof.Client  // nil: it proves nothing
	session *proof.Session // nil: it tags nothing
}

// stranger connects a rogue that knows nothing of the cluster. It says these words first, where there are any.
func stranger(t *testing.T, to *side, hello []byte) *rogue {
	t.Helper()
	conn, err := grpc.NewClient(to.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	ctx, cancel := context.WithTimeout(t.Context(), patience) // a stream that nobody refuses ends then
	t.Cleanup(cancel)
	if hello != nil {
		ctx = metadata.AppendToOutgoingContext(ctx, helloHeader, string(hello))
	}
	stream, err := remote.NewRemotingClient(conn).Receive(ctx)
	require.NoError(t, err)
	return &rogue{Remoting_ReceiveClient: stream, t: t, own: messages.NewIncarnation()}
}

// dial connects a rogue that has got hold of the cluster's secret, and of a row in the store with the address at which it says that
// it is reached; empty: it does not greet. It speaks as the given incarnation, else as a new one.
func dial(t *testing.T, to *side, address string, as ...messages.Incarnation) *rogue {
	t.Helper()
	own := proof.Party{Incarnation: messages.NewIncarnation(), Address: address}
	if len(as) > 0 {
		own.Incarnation = as[0]
	}
	if address == "" {
		own.Address = "nowhere:1"
	}
	to.in.join(store.Node{Incarnation: own.Incarnation, Name: "rogue", State: store.NodeActive, PeerAddress: address, PeerScope: to.Scope(), PeerProof: 1})
	client, hello := proof.NewClient(to.in.secret(), own, to.Address())
	r := stranger(t, to, hello)
	r.own, r.client = own.Incarnation, client
	if address != "" {
		r.prove(address)
	}
	return r
}

// prove greets with a proof, and waits as every peer does for the answer: little is read of a stranger.
func (r *rogue) prove(address string) {
	r.t.Helper()
	_, own, session, err := r.client.Check(r.answer())
	require.NoError(r.t, err)
	r.session = session
	r.greetAs(proofPrefix+hex.EncodeToString(own), address)
	_, err = r.Recv()
	require.NoError(r.t, err, "the node lets it in")
}

// answer is what the node answers the rogue's words with.
func (r *rogue) answer() []byte {
	r.t.Helper()
	header, err := r.Header()
	require.NoError(r.t, err)
	require.Len(r.t, header.Get(answerHeader), 1)
	return []byte(header.Get(answerHeader)[0])
}

func (r *rogue) greet(address string) { r.greetAs("rogue", address) }

func (r *rogue) greetAs(system, address string) {
	r.t.Helper()
	require.NoError(r.t, r.Send(greeting(system, address)))
}

func greeting(system, address string) *remote.RemoteMessage {
	return &remote.RemoteMessage{MessageType: &remote.RemoteMessage_ConnectRequest{
		ConnectRequest: &remote.ConnectRequest{ConnectionType: &remote.ConnectRequest_ServerConnection{
			ServerConnection: &remote.ServerConnection{SystemId: system, Address: address},
		}},
	}}
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

func (r *rogue) write(b *remote.MessageBatch) {
	r.t.Helper()
	r.tag(b)
	require.NoError(r.t, r.Send(message(b)))
}

// tag seals a write.
func (r *rogue) tag(b *remote.MessageBatch) {
	if r.session != nil {
		b.TypeNames = append(b.TypeNames, tagPrefix+hex.EncodeToString(r.session.Seal(dataOf(b)...)))
	}
}

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

// decode reads an envelope.
func decode(data []byte) (wire.Envelope, error) {
	encoded := &troupev1.Envelope{}
	if err := proto.Unmarshal(data, encoded); err != nil {
		return wire.Envelope{}, err
	}
	return wire.FromProto(encoded)
}

func (c *cluster) row(inc messages.Incarnation) (store.Node, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	row, ok := c.rows[inc]
	return row, ok
}
