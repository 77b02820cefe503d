package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api/hub"
	"github.com/troupe-run/troupe/rules/live"
)

// TestALiveStream follows a list on a real node: what runs appears and ends in it, a reader that comes back goes on where it was, and the end
// of the node is said.
func TestALiveStream(t *testing.T) {
	t.Parallel()
	n := start(t, options{})
	topics := "list:label=test%3Dstream,nodes"
	first := openStream(t, n, topics, "")
	var rows []live.Entry
	first.until(t, "list", func(e *hub.Event) bool { rows = applied(t, rows, e); return true })
	id := n.submit(t, "core.sleep", object{"seconds": 1.5}, object{"labels": object{"test": "stream"}})["id"].(string)
	seen := map[string]bool{}
	first.until(t, "list", func(e *hub.Event) bool {
		rows = applied(t, rows, e)
		seen[statusIn(t, rows, id)] = true
		return seen["completed"]
	})
	require.True(t, seen["running"], "%v", seen)
	first.close()
	await(t, "no stream", func() bool { return strings.Contains(metricsOf(t, n), "troupe_streams 0\n") })
	other := n.submit(t, "core.noop", nil, object{"labels": object{"test": "stream"}})["id"].(string)
	again := openStream(t, n, topics, first.id)
	again.until(t, "list", func(e *hub.Event) bool {
		rows = applied(t, rows, e)
		return statusIn(t, rows, other) == "completed" && statusIn(t, rows, id) == "completed"
	})
	require.Zero(t, again.resets, "it went on where it was")
	require.Contains(t, metricsOf(t, n), "troupe_streams 1\n")
	require.NoError(t, n.stop())
	for again.next() {
	}
	require.Equal(t, 1, again.resets)
	require.Contains(t, again.reset, `"why":"the node stops"`)
}

func metricsOf(t *testing.T, n *node) string {
	t.Helper()
	answer, err := n.client.Get(n.url + "/metrics")
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(text)
}

// eventStream reads the events of a stream.
type eventStream struct {
	body           io.Closer
	lines          *bufio.Scanner
	id, kind, data string
	resets         int
	reset          string // the data of the last one
}

func openStream(t *testing.T, n *node, topics, last string) *eventStream {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.url+"/api/v1/stream?topics="+url.QueryEscape(topics), nil)
	require.NoError(t, err)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	response, err := n.client.Do(r)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
	s := &eventStream{body: response.Body, lines: bufio.NewScanner(response.Body)}
	s.lines.Buffer(nil, 4<<20)
	t.Cleanup(s.close)
	return s
}

func (s *eventStream) close() { _ = s.body.Close() }

// next reads the next event.
func (s *eventStream) next() bool {
	s.kind, s.data = "", ""
	for s.lines.Scan() {
		name, value, _ := strings.Cut(s.lines.Text(), ":")
		switch value = strings.TrimPrefix(value, " "); name {
		case "id":
			s.id = value
		case "event":
			s.kind = value
		case "data":
			s.data = value
		case "":
			if s.kind == "reset" {
				s.resets, s.reset = s.resets+1, s.data
			}
			return true
		}
	}
	return false
}

// until reads events of a kind until done.
func (s *eventStream) until(t *testing.T, kind string, done func(*hub.Event) bool) {
	t.Helper()
	for s.next() {
		var e hub.Event
		if s.kind != kind {
			continue
		}
		require.NoError(t, json.Unmarshal([]byte(s.data), &e))
		require.Nil(t, e.Problem)
		if done(&e) {
			return
		}
	}
	require.Fail(t, "the stream ended")
}

func applied(t *testing.T, rows []live.Entry, e *hub.Event) []live.Entry {
	t.Helper()
	if e.After == 0 {
		rows = nil
	}
	next, err := e.Apply(rows)
	require.NoError(t, err)
	return next
}

func statusIn(t *testing.T, rows []live.Entry, id string) string {
	t.Helper()
	for _, row := range rows {
		if row.Key == "executions/"+id {
			var v struct{ Status string }
			require.NoError(t, json.Unmarshal(row.Value, &v))
			return v.Status
		}
	}
	return ""
}
