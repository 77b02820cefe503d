package proxy

import (
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// silence is how long a test listens for what must not come; patience bounds the wait for what must.
const (
	silence  = 100 * time.Millisecond
	patience = 10 * time.Second
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is the address of a server that sends back what it gets and greets each client with "hello".
func echo(t *testing.T) string { return telling(t, io.Discard) }

// telling is a server that greets, tells what it reads, and sends it back.
func telling(t *testing.T, read io.Writer) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := c.Write([]byte("hello")); err == nil {
					_, _ = io.Copy(c, io.TeeReader(c, read)) // until the client or the proxy ends it
				}
			}()
		}
	}()
	return l.Addr().String()
}

func dial(t *testing.T, p *Proxy) net.Conn {
	c, err := net.DialTimeout("tcp", p.Addr(), patience)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func send(t *testing.T, c net.Conn, text string) {
	_, err := c.Write([]byte(text))
	require.NoError(t, err)
}

func receive(t *testing.T, c net.Conn, want string) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	got := make([]byte, len(want))
	_, err := io.ReadFull(c, got)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

func quiet(t *testing.T, c net.Conn) {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(silence)))
	n, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "%d bytes", n)
}

func TestForwardsMuchAndEndsInOrder(t *testing.T) {
	t.Parallel()
	p := New(t, echo(t))
	c := dial(t, p).(*net.TCPConn)
	receive(t, c, "hello")
	much := make([]byte, 8<<20)
	for i := range much {
		much[i] = byte(i >> 10)
	}
	go func() {
		_, _ = c.Write(much) // the reader finds what is missing
		_ = c.CloseWrite()
	}()
	got, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Equal(t, much, got)
}

func TestCutResetsAndRefuses(t *testing.T) {
	t.Parallel()
	p := New(t, echo(t))
	c := dial(t, p)
	receive(t, c, "hello")
	p.Cut()
	_, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	_, err = net.Dial("tcp", p.Addr())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	p.Cut()
	p.Heal()
	receive(t, dial(t, p), "hello")
}

func TestBlackholeHoldsEverything(t *testing.T) {
	t.Parallel()
	p := New(t, echo(t))
	c := dial(t, p)
	receive(t, c, "hello")
	p.Blackhole()
	send(t, c, "one")
	quiet(t, c)
	late := dial(t, p)
	quiet(t, late)
	p.Heal()
	receive(t, c, "one")
	receive(t, late, "hello")
}

func TestBreakAtAnAnswer(t *testing.T) {
	t.Parallel()
	for _, stalls := range []bool{false, true} {
		p := New(t, echo(t))
		old := dial(t, p)
		receive(t, old, "hello")
		for range 3 {
			send(t, old, "ab")
			receive(t, old, "ab")
		}
		p.Break(2, stalls)
		c := dial(t, p)
		receive(t, c, "hello")
		send(t, c, "one")
		receive(t, c, "one")
		send(t, c, "two")
		if stalls {
			quiet(t, c)
			p.Heal()
			receive(t, c, "two")
		} else {
			require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
			_, err := c.Read(make([]byte, 1))
			require.ErrorIs(t, err, syscall.ECONNRESET)
		}
		send(t, old, "still")
		receive(t, old, "still")
		p.Reset()
		_, err := old.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		p.Heal()
		receive(t, dial(t, p), "hello")
	}
}

func TestOneWay(t *testing.T) {
	t.Parallel()
	read, told := net.Pipe()
	p := New(t, telling(t, told))
	c := dial(t, p)
	receive(t, c, "hello")
	p.OneWay(ToServer)
	send(t, c, "one")
	receive(t, read, "one") // the server has it
	require.NoError(t, read.SetReadDeadline(time.Time{}))
	go func() { _, _ = io.Copy(io.Discard, read) }()
	t.Cleanup(func() { _ = read.Close() })
	quiet(t, c)
	p.OneWay(ToClient)
	receive(t, c, "one")
	send(t, c, "two")
	quiet(t, c)
	p.Heal()
	receive(t, c, "two")
}

func TestDelay(t *testing.T) {
	t.Parallel()
	p := New(t, echo(t))
	c := dial(t, p)
	receive(t, c, "hello")
	const delay = 100 * time.Millisecond
	p.Delay(delay)
	before := time.Now()
	send(t, c, "one")
	receive(t, c, "one")
	require.GreaterOrEqual(t, time.Since(before), 2*delay, "each direction")
	p.Delay(0)
	send(t, c, "two")
	receive(t, c, "two")
}

// TestHoldsLittle: who writes into a black hole is stopped by it.
func TestHoldsLittle(t *testing.T) {
	t.Parallel()
	p := New(t, echo(t))
	c := dial(t, p)
	receive(t, c, "hello")
	p.Blackhole()
	const far = 64 << 20 // above what the proxy and the kernel's buffers hold
	require.NoError(t, c.SetWriteDeadline(time.Now().Add(time.Second)))
	n, err := c.Write(make([]byte, far))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Less(t, n, far)
}

func TestServerGone(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	p := New(t, l.Addr().String())
	c, err := net.DialTimeout("tcp", p.Addr(), patience)
	if err == nil { // else the reset was faster
		defer c.Close()
		require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
		_, err = c.Read(make([]byte, 1))
	}
	require.ErrorIs(t, err, syscall.ECONNRESET)
}
