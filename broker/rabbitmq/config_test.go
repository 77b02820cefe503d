package rabbitmq

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
)

func TestBadSettingsAreNamedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), Config{
		Heartbeat: 1500 * time.Millisecond, DialTimeout: -1, BackoffMin: time.Minute, PublishChannels: 5, PublishWindow: 5000,
	})
	require.EqualError(t, err, strings.Join([]string{
		"rabbitmq: heartbeat must be whole seconds, at least 1s, got 1.5s",
		"rabbitmq: dial timeout must be positive, got -1ns",
		"rabbitmq: largest back-off 5s is below the smallest, 1m0s",
		"rabbitmq: publish channels must be 1 to 4, got 5",
		"rabbitmq: publish window must be 1 to 4096, got 5000",
	}, "\n"))
}

func TestBadTargetsSayWhatToDo(t *testing.T) {
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "broken.pem")
	require.NoError(t, os.WriteFile(broken, []byte("no certificate"), 0o600))
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{}, "no URL: set it to amqp://user:password@host:5672/vhost"},
		{Config{URL: "http://host"}, "AMQP scheme must be either 'amqp://' or 'amqps://'"},
		{Config{URL: "amqp://user:s3cret%@host"}, "reserved characters percent-encoded"},
		{Config{URL: "amqp://user:s3cret/more@host:5672/"}, `invalid port ":xxxxx" after host`},
		{Config{URL: "amqp://host", TLS: TLS{CA: broken}}, "write amqps://"},
		{Config{URL: "amqps://host", TLS: TLS{CA: broken}}, "holds no PEM certificate"},
		{Config{URL: "amqps://host", TLS: TLS{CA: broken + ".gone"}}, "CA file: open"},
		{Config{URL: "amqps://host", TLS: TLS{Cert: broken}}, "a client certificate needs both files"},
		{Config{URL: "amqps://host", TLS: TLS{Cert: broken, Key: broken}}, "failed to find any PEM data"},
	} {
		_, err := Open(t.Context(), c.config)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "s3cret")
		_, err = Probe(t.Context(), c.config, "troupe")
		require.ErrorContains(t, err, c.want)
	}
}

func TestURLNamesTheTLSFiles(t *testing.T) {
	t.Parallel()
	_, err := newTarget(Config{URL: "amqps://host?cacertfile=/nowhere/ca.pem"})
	require.ErrorContains(t, err, "/nowhere/ca.pem")
	target, err := newTarget(Config{URL: "amqps://host:5000/vhost?server_name_indication=other"})
	require.NoError(t, err)
	require.Equal(t, "other", target.tls.ServerName)
	require.Equal(t, "amqps://host:5000", target.String())
	require.Equal(t, "vhost", target.uri.Vhost)
}

// TestNobodyListens: Open returns at once, calls wait only for the first attempt, and Close works.
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	b, err := Open(t.Context(), Config{URL: "amqp://127.0.0.1:1"})
	require.NoError(t, err)
	confirms, err := b.Publish(t.Context(), []broker.Message{{RoutingKey: "q"}})
	require.ErrorIs(t, err, broker.ErrUnavailable)
	require.ErrorContains(t, err, "is the server running, and does it listen on this port?")
	require.Equal(t, []broker.Confirm{broker.Unknown}, confirms)
	require.False(t, b.Status().Up)
	require.NotEmpty(t, b.Status().Reason)
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	require.ErrorIs(t, b.Delete(t.Context(), "q"), broker.ErrClosed)
	require.Equal(t, broker.ErrClosed.Error(), b.Status().Reason)
}

// If a server has no file descriptors left, the system accepts further connections and nobody answers on them.
func TestNobodyGreets(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	_, err = Open(t.Context(), Config{
		URL: "amqp://guest:guest@" + l.Addr().String() + "/", WaitAtOpen: true, DialTimeout: 2 * time.Second,
	})
	require.ErrorIs(t, err, broker.ErrUnavailable)
	require.ErrorContains(t, err, "it took the connection and said nothing within 2s")
	require.ErrorContains(t, err, "file descriptors")
}

func TestMessagesThatTheProtocolCannotCarryAreRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 256)
	for want, m := range map[string]broker.Message{
		"its exchange has 256 bytes":       {Exchange: long},
		"its routing key has 256 bytes":    {RoutingKey: long},
		"its id has 256 bytes":             {ID: long},
		"its reply-to has 256 bytes":       {ReplyTo: long},
		"its correlation id has 256 bytes": {CorrelationID: long},
		"its header's name has 256 bytes":  {Headers: map[string]string{long: ""}},
		"its body has 16777217 bytes":      {Body: make([]byte, 16<<20+1)},
	} {
		require.ErrorContains(t, checkMessage(&m), want)
		require.ErrorIs(t, checkMessage(&m), broker.ErrMessage)
	}
	fits := broker.Message{RoutingKey: long[1:], ID: long[1:], Body: make([]byte, 16<<20)}
	require.NoError(t, checkMessage(&fits))
}

func TestQueuesThatTheServerCannotMakeAreRefused(t *testing.T) {
	t.Parallel()
	for want, q := range map[string]broker.Queue{
		"the name is empty":                        {},
		"the name has 256 bytes":                   {Name: strings.Repeat("q", 256)},
		"times must not be negative":               {Name: "q", TTL: -1},
		"limits must not be negative":              {Name: "q", MaxLength: -1},
		"only quorum queues have a delivery limit": {Name: "q", DeliveryLimit: 1},
	} {
		require.ErrorContains(t, checkQueue(q), want)
	}
	require.NoError(t, checkQueue(broker.Queue{Name: "q", Quorum: true, DeliveryLimit: 1}))
	require.False(t, errors.Is(checkQueue(broker.Queue{}), broker.ErrUnavailable))
}
