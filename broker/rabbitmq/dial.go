package rabbitmq

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// AMQP reply codes that need different handling.
const (
	accessRefused      = 403
	notFound           = 404
	preconditionFailed = 406
	notAllowed         = 530
	internalError      = 541
)

// dial opens one connection, within the dial timeout.
func (c Config) dial(ctx context.Context, t target, purpose string) (*amqp.Connection, error) {
	ctx, cancel := context.WithTimeout(ctx, c.DialTimeout)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", t.address)
	if err != nil {
		return nil, c.explain(t, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() }) // ends the handshakes
	connection, err := c.shake(ctx, t, raw, purpose)
	if err == nil && !stop() {
		_ = connection.CloseDeadline(time.Now().Add(time.Second))
		err = ctx.Err()
	}
	if err != nil {
		_ = raw.Close()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && !refused(err) {
			err = errMute // the library's error says only that the socket was closed
		}
		return nil, c.explain(t, err)
	}
	return connection, nil
}

// errMute: the machine accepted the connection, and the server did not answer in time.
var errMute = errors.New("it took the connection and said nothing")

// errCut: the connection ended before the handshake did, and the server sent no reason.
var errCut = errors.New("the connection ended during the handshake")

// shake does the handshakes over a raw connection. The library's own recovery stays off, because with it delivery tags
// of the old session could settle messages of the new one.
func (c Config) shake(ctx context.Context, t target, raw net.Conn, purpose string) (*amqp.Connection, error) {
	if t.tls != nil {
		secure := tls.Client(raw, t.tls.Clone())
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		raw = secure
	}
	auth, err := mechanisms(t.uri)
	if err != nil {
		return nil, err
	}
	properties := amqp.NewConnectionProperties()
	properties["connection_name"] = c.Name + "." + purpose
	for i := range auth {
		auth[i] = login{auth[i], properties}
	}
	w := newWire(raw)
	connection, err := amqp.Open(w, amqp.Config{
		SASL: auth, Vhost: t.uri.Vhost, Heartbeat: c.Heartbeat, Locale: "en_US", Properties: properties,
		ChannelMax: t.uri.ChannelMax, FrameSize: 128 << 10,
	})
	if err != nil {
		err = w.reason(err)
		_ = w.Close()
		return nil, err
	}
	return connection, nil
}

// login asks the server to say why it refuses a login. Without that a server closes the connection after three seconds, and says
// nothing. The library writes its own capabilities into the properties just before it asks for the response, and sends both.
type login struct {
	amqp.Authentication
	properties amqp.Table
}

// Response implements amqp.Authentication.
func (l login) Response() string {
	if capabilities, ok := l.properties["capabilities"].(amqp.Table); ok {
		capabilities["authentication_failure_close"] = true
	}
	return l.Authentication.Response()
}

func mechanisms(uri amqp.URI) ([]amqp.Authentication, error) {
	if len(uri.AuthMechanism) == 0 {
		return []amqp.Authentication{uri.PlainAuth()}, nil
	}
	var auth []amqp.Authentication
	for _, name := range uri.AuthMechanism {
		switch strings.ToUpper(name) {
		case "PLAIN":
			auth = append(auth, uri.PlainAuth())
		case "AMQPLAIN":
			auth = append(auth, uri.AMQPlainAuth())
		case "EXTERNAL":
			auth = append(auth, &amqp.ExternalAuth{})
		default:
			return nil, fmt.Errorf("auth_mechanism %q is unknown: use plain, amqplain or external", name)
		}
	}
	return auth, nil
}

// refused reports whether a failed attempt means that the server answers and refuses the connection, until a person acts.
// Only a code that the server sent says so, or its list of mechanisms or its certificate. A limit of connections has the
// code of a refusal, and ends by itself.
func refused(err error) bool {
	var answer *amqp.Error
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	if errors.As(err, &answer) && answer.Server {
		return answer.Code == accessRefused || answer.Code == notAllowed && !limited(answer)
	}
	return errors.Is(err, amqp.ErrSASL) || errors.As(err, &authority) || errors.As(err, &name)
}

// limited reports whether a server that refused the connection has too many of them for now.
func limited(answer *amqp.Error) bool { return strings.Contains(answer.Reason, "limit") }

// explain says what a failed attempt means and what to do about it.
func (c Config) explain(t target, err error) error {
	return fmt.Errorf("connect to RabbitMQ at %s: %w%s", t, err, c.advice(t, err))
}

func (c Config) advice(t target, err error) string {
	var answer *amqp.Error
	code := 0
	if errors.As(err, &answer) {
		code = answer.Code
	}
	text := err.Error()
	switch {
	case errors.Is(err, amqp.ErrSASL):
		return ": the server offers no mechanism to log in that the URL's auth_mechanism allows"
	case code == accessRefused:
		return fmt.Sprintf(": check user %q and its password in the URL (guest may only connect from the server's own host)",
			t.uri.Username)
	case code == notAllowed && limited(answer):
		return ": close connections that nothing uses, or raise the limit (rabbitmqctl set_user_limits, set_vhost_limits)"
	case code == notAllowed:
		return fmt.Sprintf(": check vhost %q in the URL; rabbitmqctl add_vhost makes it, and rabbitmqctl set_permissions "+
			"lets user %q in", t.uri.Vhost, t.uri.Username)
	case errors.Is(err, syscall.ECONNREFUSED):
		return ": is the server running, and does it listen on this port?"
	case strings.Contains(text, "unknown authority"):
		return ": the server's certificate is not trusted, name the CA that signed it"
	case strings.Contains(text, "certificate required"), strings.Contains(text, "bad certificate"),
		strings.Contains(text, "unknown certificate"):
		return ": the server refused this client's certificate, or wants one: name its certificate and key"
	case strings.Contains(text, "first record does not look like a TLS handshake"):
		return ": the port does not speak TLS, use amqp:// or the server's TLS port"
	case errors.Is(err, errMute):
		return fmt.Sprintf(" within %v: it is overloaded or frozen, or has no file descriptors left for a further connection "+
			"(rabbitmq-diagnostics status; a quorum queue takes three)", c.DialTimeout)
	case errors.Is(err, errCut):
		return ": the server is starting, stopping or overloaded, or something between closes connections; some old servers end " +
			"it so for a wrong password or vhost"
	case errors.Is(err, context.DeadlineExceeded), strings.Contains(text, "i/o timeout"):
		return fmt.Sprintf(": no answer within %v", c.DialTimeout)
	}
	return ""
}
