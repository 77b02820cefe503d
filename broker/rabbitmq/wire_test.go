package rabbitmq

import (
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

func TestWireCarriesEverythingInOrder(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	w := newWire(near)
	w.closeWithin = time.Minute
	read := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(far) // ends with the pipe
		read <- all
	}()
	var want bytes.Buffer
	for i := range 10_000 {
		p := bytes.Repeat([]byte{byte(i)}, i%50)
		want.Write(p)
		n, err := w.Write(p)
		require.NoError(t, err)
		require.Equal(t, len(p), n)
	}
	require.NoError(t, w.Close(), "what waits is written first")
	require.Equal(t, want.Bytes(), <-read)
	_, err := w.Write([]byte("late"))
	require.ErrorIs(t, err, net.ErrClosed)
}

// TestWireFreesItsWriters: writers wait for a server that does not read, until a read shows that the server is gone.
func TestWireFreesItsWriters(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	w := newWire(near)
	full := make(chan struct{})
	errs := make(chan error, 4)
	var writers sync.WaitGroup
	for range cap(errs) {
		writers.Go(func() {
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					errs <- err
					return
				}
				w.mu.Lock()
				if len(w.buffer) >= wireMax {
					select {
					case full <- struct{}{}:
					default:
					}
				}
				w.mu.Unlock()
			}
		})
	}
	<-full
	w.mu.Lock()
	require.Less(t, len(w.buffer), wireMax+5*64<<10)
	w.mu.Unlock()
	require.NoError(t, far.Close())
	_, err := w.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	writers.Wait()
	for range cap(errs) {
		err := <-errs
		require.True(t, errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe), err)
	}
	require.NoError(t, w.Close())
}

// cut is a connection that the server ended, with its reason.
type cut struct {
	net.Conn
	reason error
}

func (c cut) Read([]byte) (int, error) { return 0, c.reason }

// A server that requires a certificate reports it after the client has finished the handshake, possibly before the
// first frame.
func TestTheReasonOfTheServerIsTold(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, far) }()
	defer far.Close()
	reason := errors.New("remote error: tls: certificate required")
	_, err := Config{}.shake(t.Context(), target{}, cut{near, reason}, "test")
	require.ErrorContains(t, err, reason.Error())

	for name, c := range map[string]struct{ err, first, then error }{
		"closed":      {amqp.ErrClosed, errCut, reason},
		"vhost":       {amqp.ErrVhost, errCut, reason},
		"credentials": {amqp.ErrCredentials, errCut, reason},
		"frame":       {amqp.ErrFrame, errCut, reason},
		"mechanism":   {amqp.ErrSASL, amqp.ErrSASL, amqp.ErrSASL},
		"other":       {io.ErrNoProgress, io.ErrNoProgress, io.ErrNoProgress},
	} {
		w := newWire(cut{near, reason})
		require.ErrorIs(t, w.reason(c.err), c.first, name)
		_, err = w.Read(nil)
		require.ErrorIs(t, err, reason)
		require.ErrorIs(t, w.reason(c.err), c.then, name)
		require.NoError(t, w.Close())
	}
	answer := &amqp.Error{Code: notAllowed, Reason: "NOT_ALLOWED", Server: true}
	w := newWire(cut{near, reason})
	_, err = w.Read(nil)
	require.ErrorIs(t, err, reason)
	require.Equal(t, error(answer), w.reason(answer), "the server's own word")
	require.NoError(t, w.Close())
}

// Only what the server said is a refusal. The library's constants have the same codes.
func TestWhatIsARefusal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"password":              {&amqp.Error{Code: accessRefused, Server: true}, true},
		"vhost":                 {&amqp.Error{Code: notAllowed, Reason: "NOT_ALLOWED - vhost nowhere not found", Server: true}, true},
		"too many":              {&amqp.Error{Code: notAllowed, Reason: "NOT_ALLOWED - access to vhost 'a' refused for user 'b': connection limit (1) is reached", Server: true}, false},
		"forced":                {&amqp.Error{Code: amqp.ConnectionForced, Server: true}, false},
		"internal":              {&amqp.Error{Code: internalError, Server: true}, false},
		"constant of the vhost": {amqp.ErrVhost, false},
		"constant of the login": {amqp.ErrCredentials, false},
		"no mechanism":          {amqp.ErrSASL, true},
		"unknown authority":     {x509.UnknownAuthorityError{}, true},
		"another name":          {x509.HostnameError{Certificate: &x509.Certificate{}}, true},
		"cut":                   {errCut, false},
		"mute":                  {errMute, false},
		"not reached":           {syscall.ECONNREFUSED, false},
		"expired certificate":   {x509.CertificateInvalidError{Cert: &x509.Certificate{}, Reason: x509.Expired}, false},
	} {
		require.Equal(t, c.want, refused(Config{}.explain(target{}, c.err)), name)
	}
}
