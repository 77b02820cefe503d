package api

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// patience is how long a test waits for what has to come. It is no measure of anything.
const patience = time.Minute

func TestBoundsOfConnections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		given       Connections
		descriptors uint64
		want        Connections
	}{
		{Connections{}, 0, Connections{8192, 4096}},
		{Connections{}, 1 << 20, Connections{8192, 4096}},
		{Connections{}, 256, Connections{128, 96}},
		{Connections{}, 1, Connections{1, 1}},
		{Connections{Max: 100, PeerMax: 10}, 1024, Connections{100, 10}},
		{Connections{Max: 100, PeerMax: 100}, 1024, Connections{100, 75}},
		{Connections{Max: 1000}, 1024, Connections{512, 384}},
	} {
		require.Equal(t, c.want, c.given.within(c.descriptors), "%+v of %d", c.given, c.descriptors)
	}
}

// fakeConn is a connection from an address.
type fakeConn struct {
	net.Conn
	from   string
	closed bool
}

func (f *fakeConn) Close() error { f.closed = true; return nil }

func (f *fakeConn) RemoteAddr() net.Addr {
	addr, _ := net.ResolveTCPAddr("tcp", f.from)
	return addr
}

// table is a table of connections that a test opens by hand.
type table struct {
	*connTable
	t *testing.T
}

func newTable(t *testing.T, all, peer int) table {
	server := &http.Server{ReadHeaderTimeout: headerTime}
	listener := Bound(server, nil, Connections{}, hclog.NewNullLogger())
	made := listener.(*accepting).table
	made.Connections = Connections{Max: all, PeerMax: peer}
	return table{made, t}
}

func (tb table) open(from string) (*fakeConn, context.Context) {
	conn := &fakeConn{from: from}
	return conn, tb.opened(tb.t.Context(), conn)
}

// consistent checks the counts against the connections.
func (tb table) consistent() {
	open, busy, idle := map[string]int{}, 0, 0
	for _, c := range tb.of {
		open[c.peer.String()]++
		if c.idle == nil {
			busy++
		} else {
			idle++
		}
	}
	require.Equal(tb.t, busy, tb.serving)
	require.Equal(tb.t, idle, tb.idle.Len())
	require.Len(tb.t, tb.peers, len(open))
	for peer, count := range tb.peers {
		require.Equal(tb.t, open[peer.String()], count.open)
	}
	require.LessOrEqual(tb.t, len(tb.of), tb.Max)
}

// One connection too many closes the one that has been idle for the longest, of the address that has too many.
func TestTheOldestIdleConnectionIsClosed(t *testing.T) {
	t.Parallel()
	tb := newTable(t, 6, 3)
	other, _ := tb.open("192.0.2.2:1")
	first, _ := tb.open("192.0.2.1:1")
	second, _ := tb.open("192.0.2.1:2")
	third, _ := tb.open("[::ffff:192.0.2.1]:3") // the same address, as a dual listener sees it
	tb.changed(first, http.StateIdle)           // it has had an answer just now
	fourth, _ := tb.open("192.0.2.1:4")
	require.True(t, second.closed, "the oldest of its address")
	require.False(t, other.closed || first.closed || third.closed || fourth.closed)
	tb.changed(second, http.StateClosed) // the server notices
	tb.consistent()

	tb.open("192.0.2.3:1")
	tb.open("192.0.2.4:1")
	tb.open("192.0.2.5:1")
	require.True(t, other.closed, "the oldest of all")
	tb.consistent()
}

// A connection that a call is worked on for is not closed for another. Where all are, the new one is.
func TestABusyConnectionStays(t *testing.T) {
	t.Parallel()
	tb := newTable(t, 100, 4)
	busy, ctx := tb.open("192.0.2.1:1")
	serving(ctx)
	idle, _ := tb.open("192.0.2.1:2")
	tb.open("192.0.2.1:3")
	tb.open("192.0.2.1:4")
	tb.open("192.0.2.1:5")
	require.True(t, idle.closed)
	require.False(t, busy.closed)
	tb.consistent()
	tb.changed(busy, http.StateActive)
	tb.changed(busy, http.StateIdle)
	tb.changed(busy, http.StateIdle)
	tb.consistent()
	for n := range 4 {
		tb.open(fmt.Sprintf("192.0.2.1:%d", 10+n))
	}
	require.True(t, busy.closed, "its call has ended, and it is the oldest")
	tb.changed(busy, http.StateIdle)
	tb.changed(busy, http.StateClosed)
	serving(ctx)
	tb.consistent()
}

// Calls that last take nearly all connections, and not the last ones: those are for who asks whether the node is well.
func TestLongCallsLeaveSomeConnections(t *testing.T) {
	t.Parallel()
	tb := newTable(t, 1000, 16)
	for n := range 16 {
		_, ctx := tb.open(fmt.Sprintf("192.0.2.1:%d", n+1))
		serving(ctx)
	}
	require.Equal(t, 13, tb.serving)
	for n := range 40 {
		conn, _ := tb.open(fmt.Sprintf("192.0.2.1:%d", n+100))
		require.False(t, conn.closed)
	}
	require.Equal(t, 13, tb.serving)
	tb.consistent()
}

func TestWithoutAnIdleOneTheNewOneIsClosed(t *testing.T) {
	t.Parallel()
	tb := newTable(t, 8, 2)
	var log bytes.Buffer
	tb.logger = hclog.New(&hclog.LoggerOptions{Output: &log})
	for _, from := range []string{"[2001:db8::1]:1", "[2001:db8::2]:1"} { // one network
		conn, ctx := tb.open(from)
		serving(ctx)
		tb.idle.Init() // as if both were protected
		tb.of[conn].idle = nil
	}
	refused, ctx := tb.open("[2001:db8::3]:1")
	require.True(t, refused.closed)
	require.Contains(t, log.String(), "connection refused")
	serving(ctx) // nothing of it is left in the table
	tb.changed(refused, http.StateClosed)
	require.Len(t, tb.of, 2)
	elsewhere, _ := tb.open("[2001:db8:0:1::1]:1")
	require.False(t, elsewhere.closed)
}

// brokenListener fails as the kernel does without descriptors, and then hands out a connection.
type brokenListener struct {
	net.Listener
	errs []error
}

func (b *brokenListener) Accept() (net.Conn, error) {
	if len(b.errs) > 0 {
		err := b.errs[0]
		b.errs = b.errs[1:]
		return nil, err
	}
	return &fakeConn{from: "192.0.2.9:9"}, nil
}

func (b *brokenListener) Close() error { return nil }

func TestAFailedAcceptIsAWarning(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	full := &net.OpError{Op: "accept", Err: syscall.EMFILE}
	listener := Bound(&http.Server{ReadHeaderTimeout: headerTime}, &brokenListener{errs: []error{full, full}}, Connections{}, hclog.New(&hclog.LoggerOptions{Output: &log}))
	a := listener.(*accepting)
	old := &fakeConn{from: "192.0.2.1:1"}
	a.table.opened(t.Context(), old)
	conn, err := listener.Accept()
	require.NoError(t, err)
	require.NotNil(t, conn)
	require.True(t, old.closed, "an idle connection gives up its descriptor")
	require.Equal(t, 1, strings.Count(log.String(), "[WARN]"), log.String())
	require.Contains(t, log.String(), "too many open files")

	a.Listener.(*brokenListener).errs = []error{errors.New("odd")}
	require.NoError(t, listener.Close())
	_, err = listener.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	require.NoError(t, listener.Close())
}

// serveBounded serves the API on a real port with bounds on its connections.
func serveBounded(t *testing.T, cfg Config, limits Connections, change func(*http.Server)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	server := NewServer(ctx, New(cfg), hclog.NewNullLogger())
	if change != nil {
		change(server)
	}
	bound := Bound(server, listener, limits, hclog.NewNullLogger())
	done := make(chan error, 1)
	go func() { done <- server.Serve(bound) }()
	t.Cleanup(func() {
		cancel()
		_ = server.Close()
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	return listener.Addr().String()
}

// dial opens a connection that ends with the test, and sends text.
func dial(t *testing.T, address, text string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, patience)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(conn, text)
	require.NoError(t, err)
	return conn
}

// The attack: idle sockets, with nothing sent or half a header, took all descriptors. Now they close one another.
func TestIdleSocketsSilenceNobody(t *testing.T) {
	t.Parallel()
	address := serveBounded(t, Config{Backend: newBackend(t)}, Connections{Max: 16, PeerMax: 12}, nil)
	first := dial(t, address, "")
	for n := range 60 {
		dial(t, address, []string{"", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n", "POST /api/v1/executions HTTP/1.1\r\n"}[n%3])
	}
	for _, path := range []string{"/healthz", "/readyz", "/api/v1/pools"} {
		require.Equal(t, http.StatusOK, get(t, "http://"+address+path).StatusCode, path)
	}
	_, err := first.Read(make([]byte, 1))
	require.Error(t, err, "the oldest was closed")
}

// The attack: requests whose bodies never come took every place for 30 seconds. A body is read before a place is taken.
func TestBodiesThatNeverComeTakeNoPlace(t *testing.T) {
	t.Parallel()
	came := make(chan struct{}, 1000)
	address := serveBounded(t, Config{Backend: newBackend(t), RequestsMax: 1, BatchesMax: 1, Gate: func() *messages.Problem {
		came <- struct{}{}
		return nil
	}}, Connections{}, nil)
	for range 4 {
		for _, path := range []string{executionsPath, executionsPath + "/batch"} {
			dial(t, address, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
		}
	}
	for range 8 {
		select {
		case <-came:
		case <-time.After(patience):
			require.Fail(t, "the requests did not come")
		}
	}
	require.Equal(t, http.StatusOK, get(t, "http://"+address+"/api/v1/pools").StatusCode)
	batch := `{"executions":[{"action_ref":"a"}]}`
	conn := dial(t, address, fmt.Sprintf("POST %s/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		executionsPath, len(batch), batch))
	require.Equal(t, http.StatusCreated, answerOf(t, conn).StatusCode)
}

func answerOf(t *testing.T, conn net.Conn) *http.Response {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// Who is refused without a look at the body gets the answer, although the body never comes; and takes no place before.
func TestARefusalDoesNotWaitForTheBody(t *testing.T) {
	t.Parallel()
	cfg := Config{Backend: newBackend(t), Access: withTokens(t, []Token{{Name: "t", Secret: adminToken, Scopes: []Scope{ScopeAdmin}}})}
	address := serveBounded(t, cfg, Connections{}, nil)
	conns := map[net.Conn]int{}
	for request, status := range map[string]int{
		"POST /api/v1/executions":       http.StatusUnauthorized,
		"POST /api/v1/executions/batch": http.StatusUnauthorized,
		"GET /api/v1/pools":             http.StatusUnauthorized,
		"PUT /api/v1/pools":             http.StatusMethodNotAllowed,
		"POST /nowhere":                 http.StatusNotFound,
		"GET /healthz":                  http.StatusOK,
	} {
		conns[dial(t, address, request+" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n")] = status
	}
	for conn, status := range conns {
		require.Equal(t, status, answerOf(t, conn).StatusCode)
	}
}

// stuck is a caller who does not read: the first write of its answer lasts until the test ends.
type stuck struct {
	*httptest.ResponseRecorder
	began, end chan struct{}
	once       sync.Once
}

func (s *stuck) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.began); <-s.end })
	return s.ResponseRecorder.Write(p)
}

// The attack: a thousand callers without a token asked for the description and did not read it. Who asks for what is open to
// all keeps no place while it does not read.
func TestOpenAnswersThatNobodyReadsTakeNoPlace(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t), RequestsMax: 1})
	end := make(chan struct{})
	var all sync.WaitGroup
	t.Cleanup(func() { close(end); all.Wait() })
	for _, path := range []string{"/openapi.json", "/healthz", "/readyz"} {
		for range 2 * pagesMax {
			w := &stuck{ResponseRecorder: httptest.NewRecorder(), began: make(chan struct{}), end: end}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			r.RemoteAddr, r.Host = "127.0.0.1:4711", "127.0.0.1:7070"
			all.Go(func() { h.ServeHTTP(w, r) })
			<-w.began
			require.Equal(t, http.StatusOK, w.Code, path)
		}
	}
	for _, path := range []string{"/openapi.json", "/healthz", "/readyz", "/api/v1/pools"} {
		require.Equal(t, http.StatusOK, ask(t, h, "GET", path, "").Code, path)
	}
}

// Calls that take every place leave the questions after the node's health theirs.
func TestHealthHasPlacesOfItsOwn(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.waiting, b.waits = make(chan struct{}), make(chan struct{}, 1)
	h := New(Config{Backend: b, RequestsMax: 1, WaitsMax: 1, Gate: nil})
	id := submitted(t, h, `{"action_ref":"a"}`).ID.String()
	w := &stuck{ResponseRecorder: httptest.NewRecorder(), began: make(chan struct{}), end: make(chan struct{})}
	var all sync.WaitGroup
	all.Go(func() {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/pools", nil)
		r.RemoteAddr, r.Host = "127.0.0.1:4711", "127.0.0.1:7070"
		h.ServeHTTP(w, r)
	})
	all.Go(func() { ask(t, h, "GET", executionsPath+"/"+id+"/wait", "") })
	<-w.began
	<-b.waits
	require.Equal(t, http.StatusTooManyRequests, ask(t, h, "GET", "/api/v1/pools", "").Code)
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json"} {
		require.Equal(t, http.StatusOK, ask(t, h, "GET", path, "").Code, path)
	}
	close(b.waiting)
	close(w.end)
	all.Wait()
}

// Every answer has a deadline, that of a handler too which sets none; a long poll may last longer than it.
func TestEveryAnswerHasADeadline(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.waiting, b.waits = make(chan struct{}), make(chan struct{}, 1)
	failed := make(chan error, 1)
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		block := make([]byte, 1<<20)
		for {
			if _, err := w.Write(block); err != nil {
				failed <- err
				return
			}
		}
	})
	const short = 100 * time.Millisecond
	address := serveBounded(t, Config{Backend: b, Page: page}, Connections{}, func(s *http.Server) { s.WriteTimeout = short })
	dial(t, address, "GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n")
	select {
	case err := <-failed:
		require.Error(t, err)
	case <-time.After(patience):
		require.Fail(t, "an answer that nobody reads is written for ever")
	}
	id := submitted(t, New(Config{Backend: b}), `{"action_ref":"a"}`).ID.String()
	conn := dial(t, address, "GET "+executionsPath+"/"+id+"/wait?timeout_seconds=60 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-b.waits
	time.AfterFunc(2*short, func() { close(b.waiting) })
	require.Equal(t, http.StatusOK, answerOf(t, conn).StatusCode)
}
