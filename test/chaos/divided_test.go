package chaos_test

import (
	"crypto/x509"
	"fmt"
	"net"
	"testing"

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
	authority := servers.NewAuthority(t, "chaos")
	for _, name := range names {
		host := f.net.Host(name)
		n := f.join(name, paths.troupe, "pack", append([]string{
			fmt.Sprintf("TROUPE_LISTEN=%s:%d", host.Addr, apiPort), fmt.Sprintf("TROUPE_NODE_PEERS_LISTEN=%s:%d", host.Addr, peersPort),
		}, settings(authority, name, host.Addr)...)...)
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

// settings are those of a node that has a certificate of an authority's for its address.
func settings(a *servers.Authority, name, addr string) []string {
	cert, key := a.Issue(name, func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.ParseIP(addr)} })
	return []string{
		"TROUPE_NODE_PEERS_CA_FILE=" + a.File, "TROUPE_NODE_PEERS_CERT_FILE=" + cert, "TROUPE_NODE_PEERS_KEY_FILE=" + key,
	}
}
