package chaos_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/peers/proof"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
	"github.com/troupe-run/troupe/test/rogue"
	"github.com/troupe-run/troupe/test/servers"
)

// attackTime bounds one attack. No assertion depends on it.
const attackTime = time.Minute

// grownMax is the most memory, in bytes, by which a node may grow through the attacks. It is far less than what they send.
const grownMax = 64 << 20

func TestHostilePeers(t *testing.T) {
	t.Parallel()
	hostilePeers(t, 1)
}

func TestWholeHostilePeers(t *testing.T) {
	wholeOnly(t)
	hostilePeers(t, 20)
}

// target is the attacked node and what the attacker knows of it.
type target struct {
	*testing.T
	node     *node
	address  string
	trusted  *tls.Config // accepted by the node
	rejected []*tls.Config
	insider  *rogue.Insider // what a peer must know to pass the node's checks
	open     []*rogue.Peer
}

// attacks are all attacks. reason is the label under which the node counts the dropped messages. It is empty if the attack does
// not get that far.
var attacks = []struct {
	name   string
	reason string
	inject func(*target)
}{
	{"peers without a certificate that is trusted", "", (*target).rejectedPeers},
	{"bytes that are no protocol", "", (*target).noise},
	{"bytes that are no protocol, from a trusted peer", "", (*target).securedNoise},
	{"commands of a trusted peer without a proof", "unproven", (*target).unproven},
	{"envelopes of garbage", "garbage", (*target).garbage},
	{"an unknown kind", "unsupported", (*target).unknownKind},
	{"messages to actors of the library", "misdirected", (*target).misdirected},
	{"a message of 64 MiB", "too_large", (*target).large},
	{"a flood that takes no answer", "busy", (*target).flood},
}

// hostilePeers attacks a node of two while both work. The node must continue, and the other one must still trust it. Its memory
// must stay bounded, and it must have counted the dropped messages.
func hostilePeers(t *testing.T, rounds int) {
	f := newOwnPostgres(t)
	paths, err := built()
	require.NoError(t, err)
	ca := servers.NewAuthority(t, "ours")
	for _, name := range []string{"a", "b"} {
		f.join(name, paths.troupe, "pack", append(settings(ca, name, "127.0.0.1"), "TROUPE_NODE_PEERS_LISTEN=127.0.0.1:0",
			"GOGC=25")...) // so that the process holds little more memory than it uses
	}
	f.start()
	c, a := f.caller(), f.nodes[0]
	insider := f.insider(a.incarnation("a"))
	before := f.incarnations()
	victim := &target{
		T: t, node: a, address: a.incarnation("a").PeerAddress, insider: insider, trusted: peerTLS(ca, ca.Pair("intruder", nil)),
		rejected: []*tls.Config{nil, peerTLS(ca), peerTLS(ca, servers.NewAuthority(t, "theirs").Pair("stranger", nil))},
	}
	f.submitAll(c, "chaos.go_work", "before", 20, time.Millisecond, messages.Completed)
	a.settled(backTime)
	held := a.resident()
	for round := range rounds {
		for _, attack := range attacks {
			dropped := a.dropped(attack.reason)
			attack.inject(victim)
			if attack.reason != "" {
				a.eventually(attackTime, "it counts "+attack.name, func(context.Context) bool { return a.dropped(attack.reason) > dropped })
			}
			victim.close()
		}
		f.submitAll(c, "chaos.go_work", fmt.Sprint(round), 10, time.Millisecond, messages.Completed)
		a.settled(backTime)
	}
	grown := a.resident() - held
	t.Logf("%d attacks, memory grown by %d KiB from %d KiB", rounds*len(attacks), grown>>10, held>>10)
	require.Less(t, grown, int64(grownMax))
	require.Equal(t, before, f.incarnations(), "incarnations after the attacks")
	f.agree()
	a.verdict(f.history(c))
}

// peerTLS is the TLS configuration of a peer with these certificates, for a node of the authority.
func peerTLS(a *servers.Authority, certs ...*tls.Certificate) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: a.Roots(), NextProtos: []string{"h2"}}
	for _, cert := range certs {
		config.Certificates = append(config.Certificates, *cert)
	}
	return config
}

// rejectedPeers are rejected in the handshake.
func (v *target) rejectedPeers() {
	for i, config := range v.rejected {
		p, err := rogue.Dial(v.Context(), v.address, config, v.insider, attackTime)
		if err != nil {
			continue
		}
		_ = p.Greet(v.insider.Own.Address) // Ended returns the error
		require.Error(v, p.Ended(), "peer %d", i)
		require.NoError(v, v.Context().Err())
		require.NoError(v, p.Close())
	}
}

// noise sends random bytes until the node closes the connection.
func (v *target) noise() {
	conn, err := net.DialTimeout("tcp", v.address, attackTime)
	require.NoError(v, err)
	v.pour(conn)
}

// securedNoise sends random bytes on a TLS connection that the node has accepted.
func (v *target) securedNoise() {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: attackTime}, "tcp", v.address, v.trusted)
	require.NoError(v, err)
	v.pour(conn)
}

func (v *target) pour(conn net.Conn) {
	defer conn.Close()
	require.NoError(v, conn.SetDeadline(time.Now().Add(attackTime)))
	_, _ = conn.Write(random(v.T, 1<<20)) // fails when the node has closed the connection
	_, err := io.Copy(io.Discard, conn)
	require.NotErrorIs(v, err, os.ErrDeadlineExceeded, "the node leaves the connection open")
}

// unproven has a valid certificate but not the cluster's secret. The node refuses its commands.
func (v *target) unproven() {
	for _, as := range []*rogue.Insider{nil, {Own: v.insider.Own, Secret: v.insider.Secret}} {
		if as != nil {
			key, err := store.NewSecretKey(random(v.T, store.SecretSize))
			require.NoError(v, err)
			as.Secret.Key = key
		}
		p, err := rogue.Dial(v.Context(), v.address, v.trusted, as, attackTime)
		require.NoError(v, err)
		require.NoError(v, p.Greet(v.insider.Own.Address))
		data, err := rogue.Envelope(v.insider.Own.Incarnation, wire.Drain{})
		require.NoError(v, err)
		_ = p.Write(rogue.EnvelopeType, rogue.Target, data) // Ended returns the error
		require.Error(v, p.Ended())
		require.NoError(v, v.Context().Err())
		require.NoError(v, p.Close())
	}
}

func (v *target) garbage() {
	v.speak(func(p *rogue.Peer) {
		for range 100 {
			require.NoError(v, p.Write(rogue.EnvelopeType, rogue.Target, random(v.T, 1000), []byte{0xff}))
		}
	})
}

func (v *target) unknownKind() {
	v.speak(func(p *rogue.Peer) {
		data, err := rogue.UnknownKind(v.insider.Own.Incarnation)
		require.NoError(v, err)
		require.NoError(v, p.Write(rogue.EnvelopeType, rogue.Target, data))
	})
}

func (v *target) misdirected() {
	v.speak(func(p *rogue.Peer) {
		require.NoError(v, p.Write("actor.Stop", "EndpointSupervisor", nil))
		require.NoError(v, p.Write("actor.PoisonPill", "activator", nil))
		require.NoError(v, p.Write("remote.ActorPidRequest", "activator", nil))
	})
}

func (v *target) large() {
	v.speak(func(p *rogue.Peer) {
		_ = p.Write(rogue.EnvelopeType, rogue.Target, make([]byte, 64<<20)) // the node refuses it before it is complete
		require.Error(v, p.Ended())
	})
}

// flood sends many requests, and its address reads no answer.
func (v *target) flood() {
	const writes, each = 1000, 16
	v.speak(func(p *rogue.Peer) {
		for range writes {
			data := make([][]byte, each)
			for i := range data {
				var err error
				data[i], err = rogue.Envelope(v.insider.Own.Incarnation, wire.Probe{})
				require.NoError(v, err)
			}
			require.NoError(v, p.Write(rogue.EnvelopeType, rogue.Target, data...))
		}
	})
}

// speak opens a stream that the node accepts. The stream stays open, because closing it would drop messages that are not
// delivered yet.
func (v *target) speak(talk func(*rogue.Peer)) {
	p, err := rogue.Dial(v.Context(), v.address, v.trusted, v.insider, attackTime)
	require.NoError(v, err)
	v.open = append(v.open, p)
	require.NoError(v, p.Prove(v.insider.Own))
	talk(p)
}

// close closes the streams that an attack opened.
func (v *target) close() {
	for _, p := range v.open {
		require.NoError(v, p.Close())
	}
	v.open = nil
}

// insider has the cluster's secret and the row of a dead node. Its address accepts connections and reads nothing.
func (f *full) insider(victim store.Node) *rogue.Insider {
	f.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(f.t, err)
	f.t.Cleanup(func() { require.NoError(f.t, l.Close()) })
	s, err := postgres.Open(f.t.Context(), postgres.Config{URL: f.postgres, Name: "insider"})
	require.NoError(f.t, err)
	defer func() { require.NoError(f.t, s.Close()) }()
	secrets, err := s.ClusterSecrets(f.t.Context())
	require.NoError(f.t, err)
	own := proof.Party{Incarnation: messages.NewIncarnation(), Address: l.Addr().String()}
	require.NoError(f.t, s.Join(f.t.Context(), store.Node{
		Incarnation: own.Incarnation, Name: "insider", PeerAddress: own.Address, PeerScope: victim.PeerScope, PeerProof: proof.Version,
	}, time.Minute))
	require.NoError(f.t, s.SetNode(f.t.Context(), own.Incarnation, store.NodeDead))
	return &rogue.Insider{Secret: secrets[0], Own: own}
}

func random(t *testing.T, size int) []byte {
	t.Helper()
	b := make([]byte, size)
	_, err := rand.Read(b)
	require.NoError(t, err)
	return b
}

// resident is the memory that the node's process holds, in bytes.
func (n *node) resident() int64 {
	n.t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(n.command.Process.Pid) + "/status")
	require.NoError(n.t, err)
	for line := range strings.Lines(string(text)) {
		var kib int64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	require.FailNow(n.t, "no VmRSS")
	return 0
}

// metrics is the text of the node's metrics.
func (n *node) metrics() string {
	n.t.Helper()
	request, err := http.NewRequestWithContext(n.t.Context(), http.MethodGet, n.client.Load().Server()+"/metrics", nil)
	require.NoError(n.t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(n.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(n.t, err)
	http.DefaultClient.CloseIdleConnections() // another node may have this address at the next call
	return string(text)
}

// dropped is how many messages of peers the node has dropped for a reason. It is 0 for an empty reason.
func (n *node) dropped(reason string) int64 {
	n.t.Helper()
	if reason == "" {
		return 0
	}
	for line := range strings.Lines(n.metrics()) {
		rest, found := strings.CutPrefix(line, "troupe_peer_messages_dropped{reason=\""+reason+"\"} ")
		if !found {
			continue
		}
		count, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
		require.NoError(n.t, err)
		return int64(count)
	}
	require.FailNow(n.t, "no metric of what was dropped as "+reason)
	return 0
}
