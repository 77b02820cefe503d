package chaos_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/test/netns"
	"github.com/troupe-run/troupe/test/servers"
)

// The addresses of the test's side, each of which a node can be cut off from alone.
const (
	callersSide = "callers"
	storeSide   = "store"
	brokerSide  = "broker"
)

// Ports on the nodes' hosts, and the broker's; each address is somebody's own.
const (
	apiPort    = 7070
	peersPort  = 7071
	brokerPort = 5672
)

// apiToken lets the callers in: a node that listens beyond loopback wants one.
const apiToken = "chaos-suite-admin-token"

// newDivided prepares a fleet of nodes on hosts of their own, with private servers on addresses of their own, so that any
// one can be cut off from any other. Nodes know each other by certificates.
func newDivided(t *testing.T, env ...string) *full {
	t.Helper()
	names := []string{"a", "b", "c"}
	f := &full{t: t, net: netns.Open(t, []string{callersSide, storeSide, brokerSide}, names)}
	store, broker := f.net.Outside(storeSide), fmt.Sprintf("%s:%d", f.net.Outside(brokerSide), brokerPort)
	f.serve(servers.PostgresOptions{Listen: store}, servers.RabbitMQOptions{Listen: broker})
	f.prepare(f.ownPostgres.URL, f.ownRabbit.URL, "chaos", append([]string{
		fmt.Sprintf("TROUPE_STORE_URL=postgres://postgres@%s:%d/postgres?sslmode=disable", store, f.ownPostgres.Port),
		"TROUPE_MESSAGE_QUEUE_RABBITMQ_URL=amqp://guest:guest@" + broker + "/",
		"TROUPE_TOKENS=chaos:read+submit+admin:" + apiToken,
	}, env...))
	paths, err := built()
	require.NoError(t, err)
	authority := newAuthority(t)
	for _, name := range names {
		host := f.net.Host(name)
		n := f.join(name, paths.troupe, "pack", append([]string{
			fmt.Sprintf("TROUPE_LISTEN=%s:%d", host.Addr, apiPort), fmt.Sprintf("TROUPE_NODE_PEERS_LISTEN=%s:%d", host.Addr, peersPort),
		}, authority.settings(name, host.Addr)...)...)
		n.host, n.token = host, apiToken
	}
	return f
}

// others are the fleet's nodes without one.
func (f *full) others(n *node) (rest []*node) {
	for _, other := range f.nodes {
		if other != n {
			rest = append(rest, other)
		}
	}
	return rest
}

// addresses are those of nodes' hosts.
func addresses(nodes ...*node) (all []string) {
	for _, n := range nodes {
		all = append(all, n.host.Addr)
	}
	return all
}

// authority signs the certificates of nodes.
type authority struct {
	t   *testing.T
	dir string
	crt *x509.Certificate
	key *ecdsa.PrivateKey
}

// newAuthority makes an authority whose files go with the test.
func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "chaos"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = newKey(t)
	a.crt = a.sign(template, template, a.key, a.key)
	a.write("ca", a.crt, a.key)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func (a *authority) sign(template, parent *x509.Certificate, of, by *ecdsa.PrivateKey) *x509.Certificate {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &of.PublicKey, by)
	require.NoError(a.t, err)
	crt, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	return crt
}

func (a *authority) path(file string) string { return filepath.Join(a.dir, file) }

func (a *authority) write(name string, crt *x509.Certificate, key *ecdsa.PrivateKey) {
	a.t.Helper()
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(a.t, err)
	for file, block := range map[string]*pem.Block{
		name + ".pem": {Type: "CERTIFICATE", Bytes: crt.Raw}, name + ".key": {Type: "EC PRIVATE KEY", Bytes: der},
	} {
		require.NoError(a.t, os.WriteFile(a.path(file), pem.EncodeToMemory(block), 0o600))
	}
}

// issue makes a certificate for an address, good for both ends of a connection.
func (a *authority) issue(name, addr string) {
	a.t.Helper()
	key := newKey(a.t)
	a.write(name, a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.ParseIP(addr)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.crt, key, a.key), key)
}

// settings are those of a node that has a certificate of the authority's for its address.
func (a *authority) settings(name, addr string) []string {
	a.t.Helper()
	a.issue(name, addr)
	return []string{
		"TROUPE_NODE_PEERS_CA_FILE=" + a.path("ca.pem"), "TROUPE_NODE_PEERS_CERT_FILE=" + a.path(name+".pem"),
		"TROUPE_NODE_PEERS_KEY_FILE=" + a.path(name+".key"),
	}
}
