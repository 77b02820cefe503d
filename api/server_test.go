package api

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
)

// listening serves the backend on a real port, as a node does.
func listening(t *testing.T, b *backend) (string, context.CancelFunc) {
	t.Helper()
	return listeningAs(t, Config{Backend: b})
}

func listeningAs(t *testing.T, cfg Config) (string, context.CancelFunc) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	server := NewServer(ctx, New(cfg), hclog.NewNullLogger())
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, server.Shutdown(context.Background()))
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	return "http://" + listener.Addr().String(), cancel
}

// get asks a real server over a connection of its own.
func get(t *testing.T, url string, headers ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	r.Close = true
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func happenings() []view.Live {
	half := 0.5
	return []view.Live{
		{Kind: "status", Status: messages.Running}, {Kind: "stdout", Data: []byte("<b>\xff")},
		{Kind: "progress", Fraction: &half, Message: "half"}, {Kind: "chunk", Chunk: json.RawMessage(`{"a":1}`)},
	}
}

func TestFollowAsLines(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.live = happenings()
	base, _ := listening(t, b)
	id := submitted(t, New(Config{Backend: b}), `{"action_ref":"a"}`).ID.String()
	response := get(t, base+executionsPath+"/"+id+"/output?follow=1")
	require.Equal(t, "application/x-ndjson", response.Header.Get("Content-Type"))
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	require.Len(t, lines, 4)
	var l view.Live
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &l))
	require.Equal(t, "<b>\xff", string(l.Data))
}

// A stream delivers while it runs, as server-sent events where they are asked for, and says how it broke off.
func TestFollowAsEvents(t *testing.T) {
	t.Parallel()
	b, output := saying(t)
	response := get(t, output, "Accept", "text/event-stream")
	require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	lines := bufio.NewScanner(response.Body)
	var kinds []string
	for lines.Scan() {
		if kind, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			kinds = append(kinds, kind)
			if len(kinds) == 4 {
				close(b.followed) // only now does the store go away
			}
		}
	}
	require.NoError(t, lines.Err())
	require.Equal(t, []string{"status", "stdout", "progress", "chunk", "error"}, kinds)
}

// The node's end ends waits and streams, so that its shutdown need not wait for their readers.
func TestTheEndOfTheServerEndsWaits(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.followed = make(chan struct{})
	base, end := listening(t, b)
	id := submitted(t, New(Config{Backend: b}), `{"action_ref":"a"}`).ID.String()
	response := get(t, base+executionsPath+"/"+id+"/output?follow=1")
	end()
	_, err := io.ReadAll(response.Body)
	require.NoError(t, err)
}

func TestAWaitThatTheNodesEndCutsShortSaysSo(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.waiting = make(chan struct{})
	h := New(Config{Backend: b})
	id := submitted(t, h, `{"action_ref":"a"}`).ID.String()
	ctx, end := context.WithCancel(t.Context())
	end()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, executionsPath+"/"+id+"/wait", nil)
	r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	refused(t, w, http.StatusServiceUnavailable, messages.CodeUnavailable, "the node stops")
}

func TestAReaderWhoLeavesEndsItsStream(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.followed = make(chan struct{})
	base, _ := listening(t, b)
	id := submitted(t, New(Config{Backend: b}), `{"action_ref":"a"}`).ID.String()
	response := get(t, base+executionsPath+"/"+id+"/output?follow=1")
	require.NoError(t, response.Body.Close())
	// Shutdown, in the cleanup, returns only once the stream's goroutines have ended; goleak looks after it.
}

// A body too large is answered over a real connection, whose other side is still writing it.
func TestTooLargeIsAnswered(t *testing.T) {
	t.Parallel()
	base, _ := listening(t, newBackend(t))
	for _, n := range []int{BodyMax + 1, 2 * BodyMax} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+executionsPath, strings.NewReader(sized(n)))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Close = true
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.Equal(t, http.StatusRequestEntityTooLarge, response.StatusCode)
		require.NoError(t, response.Body.Close())
	}
}

func TestAConnectionHasBounds(t *testing.T) {
	t.Parallel()
	s := NewServer(t.Context(), http.NotFoundHandler(), hclog.NewNullLogger())
	require.Equal(t, headerTime, s.ReadHeaderTimeout)
	require.Equal(t, idleTime, s.IdleTimeout)
	require.Equal(t, headerMax, s.MaxHeaderBytes)
	require.Equal(t, writeTime, s.WriteTimeout, "a long poll and a stream set their own where they write")
}

func TestTooManyAtOnce(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.followed = make(chan struct{})
	h := New(Config{Backend: b, WaitsMax: 1, RequestsMax: 1, BatchesMax: 1})
	id := submitted(t, h, `{"action_ref":"a"}`).ID.String()
	path := executionsPath + "/" + id + "/wait?timeout_seconds=30"
	b.waiting = make(chan struct{})
	first := make(chan int, 2)
	for range 2 {
		go func() { first <- ask(t, h, "GET", path, "").Code }()
	}
	require.Equal(t, http.StatusTooManyRequests, <-first, "the second is refused while the first waits")
	w := ask(t, h, "GET", path, "")
	refused(t, w, http.StatusTooManyRequests, messages.CodeTooManyRequests, "try again")
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	require.Equal(t, 200, ask(t, h, "GET", "/api/v1/pools", "").Code, "waits do not hold up requests")
	close(b.waiting)
	require.Equal(t, 200, <-first)
}

func TestAHalfBodyIsRefused(t *testing.T) {
	t.Parallel()
	base, _ := listening(t, newBackend(t))
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(base, "http://"), time.Second)
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST /api/v1/executions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"action")
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusBadRequest, response.StatusCode)
}

// Every answer of a route tells the store's time, errors too.
func TestAnswersTellTheStoresTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 31, 8, 0, 0, 123_000, time.FixedZone("", 3600))
	h := New(Config{Backend: newBackend(t), Now: func() time.Time { return now }})
	for _, path := range []string{"/healthz", "/api/v1/executions", "/api/v1/executions/nope"} {
		w := ask(t, h, http.MethodGet, path, "")
		require.Equal(t, "2030-01-31T07:00:00.000123Z", w.Header().Get(HeaderTime), path)
	}
}
