package rabbitmq_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/rabbitmq"
	"github.com/troupe-run/troupe/test/proxy"
	"github.com/troupe-run/troupe/test/servers"
)

// The server answers three times before a connection is open: start, tune, open-ok.
const handshakeSteps = 3

// through is a proxy for the server, and the URL that goes through it.
func through(t *testing.T) (*proxy.Proxy, string) {
	at, _ := servers.RabbitMQ(t)
	server, err := url.Parse(at)
	require.NoError(t, err)
	p := proxy.New(t, server.Host)
	server.Host = p.Addr()
	return p, server.String()
}

// A connection that is cut, or stalls, at any step of the handshake is no refusal, whatever the library calls it. The broker
// connects once the network is well.
func TestACutHandshakeIsNoRefusal(t *testing.T) {
	t.Parallel()
	for step := 1; step <= handshakeSteps; step++ {
		for name, stalls := range map[string]bool{"reset": false, "stalls": true} {
			t.Run(name+" at "+[]string{"start", "tune", "open-ok"}[step-1], func(t *testing.T) {
				t.Parallel()
				p, at := through(t)
				p.Break(step, stalls)
				b := open(t, rabbitmq.Config{URL: at, DialTimeout: time.Second, BackoffMax: 200 * time.Millisecond})
				defer func() { require.NoError(t, b.Close()) }()
				var s broker.Status
				require.Eventually(t, func() bool { s = b.Status(); return s.Reason != "connecting" }, patience, tick)
				require.False(t, s.Up)
				require.False(t, s.Refused, s.Reason)
				require.NotContains(t, s.Reason, "vhost \"")
				want := map[bool]string{true: "it took the connection and said nothing", false: "connection ended during the handshake"}
				require.Contains(t, s.Reason, want[stalls])
				p.Heal()
				p.Reset()
				require.Eventually(t, func() bool { return b.Status().Up }, patience, tick)
			})
		}
	}
}

// What the server refuses is a refusal.
func TestARefusalByTheServer(t *testing.T) {
	t.Parallel()
	at, _ := servers.RabbitMQ(t)
	server, err := url.Parse(at)
	require.NoError(t, err)
	password, vhost := *server, *server
	password.User, vhost.Path = url.UserPassword(server.User.Username(), "wrong"), "/nowhere"
	for name, wrong := range map[string]url.URL{"password": password, "vhost": vhost} {
		b := open(t, rabbitmq.Config{URL: wrong.String()})
		require.Eventually(t, func() bool { return b.Status().Reason != "connecting" }, patience, tick)
		require.True(t, b.Status().Refused, "%s: %+v", name, b.Status())
		require.Contains(t, b.Status().Reason, name)
		require.NoError(t, b.Close())
	}
}
