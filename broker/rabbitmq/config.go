package rabbitmq

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/troupe-run/troupe/messages/secret"
)

// Config configures the connections to a server. Zero fields mean the defaults.
type Config struct {
	// URL is amqp:// or amqps://user:password@host:port/vhost. Reserved characters in user, password and vhost are
	// percent-encoded. Required.
	URL string
	// TLS names the files of an amqps:// connection.
	TLS TLS
	// Name is the name that the server's tools show for the connections, with ".publish" or ".consume". Default
	// "troupe".
	Name string
	// Heartbeat is the interval of heartbeats. A server that is silent for 1.5 times that counts as lost. Whole
	// seconds, at least 1 s. Default 5 s.
	Heartbeat time.Duration
	// DialTimeout bounds one attempt to connect, with both handshakes. Default 3 s.
	DialTimeout time.Duration
	// ConfirmTimeout bounds the wait for confirms, if the caller's context has no earlier end. Default 30 s.
	ConfirmTimeout time.Duration
	// BackoffMin and BackoffMax bound the jittered wait between attempts to connect. Defaults 100 ms and 5 s.
	BackoffMin, BackoffMax time.Duration
	// PublishChannels is the number of channels for messages to queues, 1 to 4. Messages to named exchanges use one
	// more channel. Default 2.
	PublishChannels int
	// PublishWindow bounds the unconfirmed messages of each publishing channel, 1 to 4,096. Default 512 to queues and
	// 2,048 to exchanges, which get notices in large batches.
	PublishWindow  int
	exchangeWindow int
	// WaitAtOpen makes Open wait for the first connection and fail without it. Otherwise Open returns at once and the
	// broker connects in the background.
	WaitAtOpen bool
	// Logger logs the state of the connections. Default: nothing is logged.
	Logger hclog.Logger
}

// TLS names PEM files. Empty fields take the URL's cacertfile, certfile, keyfile and server_name_indication.
type TLS struct {
	CA         string // signs the server's certificate; empty: the system's authorities
	Cert, Key  string // of this client; both or neither
	ServerName string // name that the server's certificate must have; empty: the URL's host
}

// Bounds of the settings.
const (
	channelsMax = 4
	windowMax   = 4096
)

func (c Config) withDefaults() Config {
	c.Name = orElse(c.Name, "troupe")
	c.Heartbeat = orElse(c.Heartbeat, 5*time.Second)
	c.DialTimeout = orElse(c.DialTimeout, 3*time.Second)
	c.ConfirmTimeout = orElse(c.ConfirmTimeout, 30*time.Second)
	c.BackoffMin = orElse(c.BackoffMin, 100*time.Millisecond)
	c.BackoffMax = orElse(c.BackoffMax, 5*time.Second)
	c.PublishChannels = orElse(c.PublishChannels, 2)
	c.exchangeWindow = orElse(c.PublishWindow, 2048)
	c.PublishWindow = orElse(c.PublishWindow, 512)
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c
}

func orElse[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// validate returns an error that names every invalid setting.
func (c Config) validate() error {
	var problems []error
	bad := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("rabbitmq: "+format, args...))
	}
	if c.Heartbeat < time.Second || c.Heartbeat%time.Second != 0 {
		bad("heartbeat must be whole seconds, at least 1s, got %v", c.Heartbeat)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"dial timeout", c.DialTimeout}, {"confirm timeout", c.ConfirmTimeout}, {"smallest back-off", c.BackoffMin},
	} {
		if d.value < 0 {
			bad("%s must be positive, got %v", d.name, d.value)
		}
	}
	if c.BackoffMax < c.BackoffMin {
		bad("largest back-off %v is below the smallest, %v", c.BackoffMax, c.BackoffMin)
	}
	if c.PublishChannels < 1 || c.PublishChannels > channelsMax {
		bad("publish channels must be 1 to %d, got %d", channelsMax, c.PublishChannels)
	}
	if c.PublishWindow < 1 || c.PublishWindow > windowMax {
		bad("publish window must be 1 to %d, got %d", windowMax, c.PublishWindow)
	}
	return errors.Join(problems...)
}

// target is a server that can be dialled.
type target struct {
	uri     amqp.URI
	address string      // host:port
	tls     *tls.Config // nil: plain
}

// newTarget reads the URL and the files. Its errors never contain the password.
func newTarget(c Config) (target, error) {
	if strings.TrimSpace(c.URL) == "" {
		return target{}, errors.New("rabbitmq: no URL: set it to amqp://user:password@host:5672/vhost")
	}
	uri, err := amqp.ParseURI(c.URL)
	if err != nil {
		return target{}, fmt.Errorf("rabbitmq: the URL cannot be read, it should be amqp://user:password@host:5672/vhost "+
			"with reserved characters percent-encoded: %s", secret.Without(withoutURL(err), c.URL))
	}
	t := target{uri: uri, address: net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port))}
	files := TLS{
		CA: orElse(c.TLS.CA, uri.CACertFile), Cert: orElse(c.TLS.Cert, uri.CertFile), Key: orElse(c.TLS.Key, uri.KeyFile),
		ServerName: orElse(c.TLS.ServerName, uri.ServerName),
	}
	if uri.Scheme != "amqps" {
		if files != (TLS{}) {
			return target{}, errors.New("rabbitmq: TLS files are set but the URL begins with amqp://: write amqps://")
		}
		return t, nil
	}
	t.tls, err = files.config(uri.Host)
	return t, err
}

// withoutURL returns the reason inside a parse error. The whole error would contain the URL with its password.
func withoutURL(err error) string {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return err.Error()
}

func (t target) String() string { return t.uri.Scheme + "://" + t.address }

// config reads the files of the settings.
func (f TLS) config(host string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: orElse(f.ServerName, host)}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("rabbitmq: CA file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("rabbitmq: CA file %s holds no PEM certificate", f.CA)
		}
	}
	if (f.Cert == "") != (f.Key == "") {
		return nil, fmt.Errorf("rabbitmq: a client certificate needs both files, got certificate %q and key %q", f.Cert, f.Key)
	}
	if f.Cert != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("rabbitmq: client certificate %s with key %s: %w", f.Cert, f.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
