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

// The addresses on the test's side of the network. A node can be cut off from each of them.
const (
	callersSide = "callers"
	storeSide   = "store"
	brokerSide  = "broker"
)

// Ports on the nodes' hosts and on the broker's. Every host has an address of its own, so the ports can be the same.
const (
	apiPort    = 7070
	peersPort  = 7071
	brokerPort = 5672
)

// apiToken is the callers' token: a node that listens on another address than loopback requires tokens.
const apiToken = "chaos-suite-admin-token"

// newSeparateHosts prepares a fleet in which each node has a network host of its own. Each private server has an address of its own. So
// a test can cut the connection between any two of them. Nodes authenticate each other by certificates.
func newSeparateHosts(t *testing.T, env ...string) *full {
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

// others are all nodes of the fleet except n.
func (f *full) others(n *node) (rest []*node) {
	for _, other := range f.nodes {
		if other != n {
			rest = append(rest, other)
		}
	}
	return rest
}

// addresses are the addresses of the nodes' hosts.
func addresses(nodes ...*node) (all []string) {
	for _, n := range nodes {
		all = append(all, n.host.Addr)
	}
	return all
}

// settings are the settings of a node with a certificate of the authority for its address.
func settings(a *servers.Authority, name, addr string) []string {
	cert, key := a.Issue(name, func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.ParseIP(addr)} })
	return []string{
		"TROUPE_NODE_PEERS_CA_FILE=" + a.File, "TROUPE_NODE_PEERS_CERT_FILE=" + cert, "TROUPE_NODE_PEERS_KEY_FILE=" + key,
	}
}
