package browser

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api/hub"
)

// narrow stands between a browser and a node. All but the live stream goes through a plain proxy. Of the stream it reads nothing for a
// while: it keeps the browser's end alive, and the connection to the node holds little, so that the rest waits in the node.
type narrow struct {
	node    *node // as the browser sees it
	client  http.Client
	target  *url.URL
	streams atomic.Int64 // that were opened
	resets  atomic.Int64 // events of that kind

	mu   sync.Mutex
	gate chan struct{} // closed while the stream is read
}

// slowly puts a narrow proxy before a node.
func slowly(t *testing.T, n *node) *narrow {
	t.Helper()
	target, err := url.Parse(n.url)
	require.NoError(t, err)
	s := &narrow{target: target, gate: make(chan struct{})}
	close(s.gate)
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if e := c.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
			if err == nil { // what the sender may hold goes by the size of its segments
				err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 536)
			}
		}); e != nil {
			return e
		}
		return err
	}}
	transport := &http.Transport{DialContext: dialer.DialContext, DisableCompression: true, ReadBufferSize: 4096}
	s.client.Transport = transport
	t.Cleanup(transport.CloseIdleConnections)
	s.node = before(t, n, s.follow)
	t.Cleanup(s.reads) // the first to run, for the server waits for what is read
	return s
}

// before is a server that passes on to the node all but the streams, which follow answers.
func before(t *testing.T, n *node, follow http.HandlerFunc) *node {
	t.Helper()
	target, err := url.Parse(n.url)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/stream" {
			follow(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return &node{url: server.URL}
}

// stops has nothing of the stream read from the next event on, and reads has it read again.
func (s *narrow) stops() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = make(chan struct{})
}

func (s *narrow) reads() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.gate:
	default:
		close(s.gate)
	}
}

func (s *narrow) open() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gate
}

// follow hands on a stream, event by event.
func (s *narrow) follow(w http.ResponseWriter, r *http.Request) {
	s.streams.Add(1)
	ask, err := http.NewRequestWithContext(r.Context(), http.MethodGet, s.target.String()+r.URL.RequestURI(), nil)
	if err != nil {
		return
	}
	ask.Header, ask.Host = r.Header.Clone(), r.Host
	answer, err := s.client.Do(ask)
	if err != nil {
		return
	}
	defer func() { _ = answer.Body.Close() }()
	w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
	w.WriteHeader(answer.StatusCode)
	out := http.NewResponseController(w)
	events := bufio.NewReader(answer.Body)
	var event bytes.Buffer
	for s.pass(r.Context(), w, out) {
		line, err := events.ReadString('\n')
		event.WriteString(line)
		if strings.HasPrefix(line, "event: reset") {
			s.resets.Add(1)
		}
		if err == nil && line != "\n" {
			continue
		}
		if _, failed := w.Write(event.Bytes()); failed != nil || err != nil || out.Flush() != nil {
			return
		}
		event.Reset()
	}
}

// pass waits until the stream is read, with signs of life for the browser; false: the browser has left.
func (s *narrow) pass(ctx context.Context, w http.ResponseWriter, out *http.ResponseController) bool {
	for {
		select {
		case <-s.open():
			return true
		case <-ctx.Done():
			return false
		case <-time.After(time.Second):
			if _, err := w.Write([]byte(": held up\n")); err != nil || out.Flush() != nil {
				return false
			}
		}
	}
}

// Pages that read slower than the node writes have their stream begun anew where it is: its buffer at the node is full, and what waited
// there is dropped. They then show what is true: what became of what they had, what came meanwhile, and what a run wrote, once. They open
// no other stream, ask for nothing beside it, and the browser complains of nothing.
func TestPagesThatFallBehindShowWhatIsTrue(t *testing.T) {
	apart(t)
	n := start(t, "--config", configured(t, "console: {payloads: show}\n"))
	s := slowly(t, n)
	var sleeping []execution
	for range 20 {
		sleeping = append(sleeping, submit(t, n, "core.sleep", map[string]any{"seconds": 300}, map[string]any{"labels": map[string]any{"test": "behind"}}))
	}
	cancel := func(e execution) {
		ask[map[string]any](t, n, http.MethodPost, "/api/v1/executions/"+e.ID+"/cancel", nil)
	}
	var words []string
	for i := range 2000 {
		words = append(words, fmt.Sprintf("w-%d", i))
	}
	writes := submit(t, n, "demo.stream", map[string]any{"text": strings.Join(words, " "), "seconds": 0.1}, nil)
	wide := open(t, s.node, "/console/executions?label=test%3Dwide&limit=100")
	wide.shows("main", "No execution has all of these filters")
	run := open(t, s.node, "/console/executions/"+writes.ID)
	written := func() []string { return strings.Fields(run.text(".output .stdout")) }
	run.until("it writes", func() bool { return len(written()) > 3 })
	list := open(t, s.node, "/console/executions?label=test%3Dbehind")
	list.until("all run", func() bool { return strings.Count(list.text("tbody .status"), "running") == len(sleeping) })
	run.front()
	before := len(written())
	run.until("it goes on, now that all three follow", func() bool { return len(written()) > before })
	list.front()
	for _, p := range []*page{run, list} {
		p.keep()
	}
	opened := s.streams.Load()

	s.stops()
	newer := labelled(t, n, "behind")
	labels := map[string]any{"test": "wide"} // with these a row takes some 3 kB
	for _, name := range strings.Split("abcdefghijkl", "") {
		labels[name] = strings.Repeat(name, 200)
	}
	batch := make([]map[string]any, 100)
	for i := range batch {
		batch[i] = map[string]any{"action_ref": "core.noop", "labels": labels}
	}
	var submitted time.Time
	cancelled := 0
	list.until("the node has dropped what waits", func() bool {
		if time.Since(submitted) > hub.Every { // of each tick there is an event of both lists
			ask[map[string]any](t, n, http.MethodPost, "/api/v1/executions/batch", map[string]any{"executions": batch})
			if submitted = time.Now(); cancelled < len(sleeping)-1 {
				cancel(sleeping[cancelled])
				cancelled++
			}
		}
		return metric(t, n, "troupe_stream_resets") != "0"
	})
	for _, e := range sleeping[cancelled:] {
		cancel(e)
	}
	require.Equal(t, len(sleeping), strings.Count(list.text("tbody .status"), "running"), "nothing has come through")
	require.Zero(t, s.resets.Load())
	before = len(written())
	s.reads()

	list.until("all are cancelled", func() bool { return strings.Count(list.text("tbody .status"), "cancelled") == len(sleeping) })
	list.shows(".newer", "1 newer: show")
	require.Equal(t, len(sleeping), list.count("tbody tr"), "rows do not jump")
	run.front()
	run.until("it goes on", func() bool { return len(written()) > before+3 })
	seen := written()
	require.Equal(t, words[:len(seen)], seen, "what it wrote, once and in its order")
	run.shows(".head", "running")
	for _, p := range []*page{run, list} {
		require.Zero(t, p.count(".trouble, .stale"))
		p.kept()
	}
	require.Positive(t, s.resets.Load())
	require.Equal(t, opened, s.streams.Load(), "it is the same stream")
	require.Equal(t, "1", metric(t, n, "troupe_streams"))
	require.Equal(t, "0", list.value(calls), "it asks for nothing that it follows")
	list.front()
	list.click("newer: show")
	list.until("one more row", func() bool { return list.count("tbody tr") == len(sleeping)+1 })
	require.Equal(t, newer.ID, list.value("document.querySelector('tbody a').title"))
}
