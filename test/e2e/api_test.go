package e2e

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOpenAPI reads the OpenAPI document that the node serves. It must have every path that these tests use.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	n := shared(t)
	document := n.get(t, "/openapi.json")
	require.True(t, strings.HasPrefix(document.text("openapi"), "3.1"), document.text("openapi"))
	paths := document["paths"].(map[string]any)
	for _, path := range []string{
		"/api/v1/executions", "/api/v1/executions/batch", "/api/v1/executions/{id}", "/api/v1/executions/{id}/cancel",
		"/api/v1/executions/{id}/retry", "/api/v1/executions/{id}/wait", "/api/v1/executions/{id}/output",
		"/api/v1/executions/{id}/chain", "/api/v1/workers", "/api/v1/pools", "/api/v1/nodes", "/api/v1/sessions",
		"/api/v1/actions", "/api/v1/actions/{ref}", "/api/v1/dead-letters", "/api/v1/dead-letters/stats", "/api/v1/reload", "/healthz", "/readyz", "/metrics",
	} {
		require.Contains(t, paths, path)
	}
}

// TestWaitIsALongPoll waits for a running execution with a timeout that is too short, and then until its end.
func TestWaitIsALongPoll(t *testing.T) {
	t.Parallel()
	n := shared(t)
	id := n.submit(t, "core.sleep", object{"seconds": 60}).text("id")
	require.Contains(t, []string{"requested", "scheduled", "running"}, n.get(t, "/api/v1/executions/"+id+"/wait?timeout_seconds=0.1").text("status"))
	n.prints(t, "cancel", id)
	id = n.submit(t, "core.sleep", object{"seconds": 1}).text("id")
	require.Equal(t, "completed", n.get(t, "/api/v1/executions/"+id+"/wait?timeout_seconds=30").text("status"))
	e := n.submit(t, "core.echo", object{"a": 1}, object{"wait_seconds": 30})
	require.Equal(t, "completed", e.text("status"))
	require.Equal(t, "1", e.text("result", "a"))
	status, answer := n.call(t, "GET", "/api/v1/executions/"+id+"/wait?timeout_seconds=nope", nil)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, answer.text("error", "message"), "timeout_seconds")
}

// TestASubmissionMayWaitLong: a submission may wait for its outcome longer than the timeout of other requests.
func TestASubmissionMayWaitLong(t *testing.T) {
	t.Parallel()
	e := shared(t).submit(t, "core.sleep", object{"seconds": 6}, object{"wait_seconds": 30})
	require.Equal(t, "completed", e.text("status"), "%v", e)
}

// TestOutputIsFollowed streams the output of a run while it runs.
func TestOutputIsFollowed(t *testing.T) {
	t.Parallel()
	n := shared(t)
	id := n.submit(t, "theatre.act", object{"lines": 5, "pause": 1}).text("id")
	res, err := http.Get(n.url + "/api/v1/executions/" + id + "/output?follow=1")
	require.NoError(t, err)
	defer func() { require.NoError(t, res.Body.Close()) }()
	seen := map[string]int{}
	last := object{}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if len(lines.Bytes()) == 0 {
			continue
		}
		last = object{}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &last), lines.Text())
		seen[last.text("kind")]++
	}
	require.Equal(t, "status", last.text("kind"))
	require.Equal(t, "completed", last.text("status"))
	require.Equal(t, 5, seen["chunk"], "%v", seen)
	require.Equal(t, 5, seen["progress"], "%v", seen)
	require.NotZero(t, seen["stdout"], "%v", seen)
}

// TestListIsFilteredAndPaged reads a filtered list page by page.
func TestListIsFilteredAndPaged(t *testing.T) {
	t.Parallel()
	n := shared(t)
	want := map[string]bool{}
	for range 7 {
		want[n.submit(t, "core.noop", nil, object{"labels": object{"page": "walk"}}).text("id")] = true
	}
	for id := range want {
		n.finish(t, id)
	}
	got, path := map[string]bool{}, "/api/v1/executions?label=page%3Dwalk&status=completed&limit=3"
	for next := path; ; {
		page := n.get(t, next)
		require.LessOrEqual(t, len(page.list("executions")), 3)
		for _, e := range page.list("executions") {
			require.False(t, got[e.text("id")], "an execution stands on two pages")
			got[e.text("id")] = true
		}
		if page.text("next_cursor") == "" {
			break
		}
		next = path + "&cursor=" + page.text("next_cursor")
	}
	require.Equal(t, want, got)
}

// TestDebugEndpoint reads the tree of actors, and one actor with its history, as JSON.
func TestDebugEndpoint(t *testing.T) {
	t.Parallel()
	n := shared(t)
	n.runs(t, "theatre.remember", object{"line": "x"}, object{"session": t.Name()})
	tree := n.get(t, "/debug/actors")
	require.Equal(t, "n1", tree.text("node"))
	require.Len(t, tree.list("roots"), 1)
	require.Equal(t, "troupe", tree.list("roots")[0].text("id"))
	found := false
	for _, w := range n.get(t, "/debug/actors?kind=worker").list("roots") {
		if !strings.HasPrefix(w.text("id"), "troupe/pools/theatre.keeper/") {
			continue
		}
		detail := n.get(t, "/debug/actors/"+w.text("id"))
		require.Equal(t, "worker", detail.text("kind"))
		require.Equal(t, "troupe/pools/theatre.keeper", detail.text("parent"))
		for _, key := range []string{"state", "health", "grade", "since", "mailbox_depth", "handled", "restarts"} {
			require.Contains(t, detail, key)
		}
		history := detail.list("history")
		require.NotEmpty(t, history)
		first := history[len(history)-1]
		require.Equal(t, "initializing", first.text("from"))
		require.Equal(t, "ready", first.text("to"))
		require.Equal(t, "init_complete", first.text("reason"))
		require.Contains(t, first, "lasted_ms")
		require.Contains(t, first, "at")
		for _, entry := range history {
			found = found || entry.text("reason") == "checkout" && entry.text("metadata", "session") == t.Name()
		}
	}
	require.True(t, found, "the checkout of the session stands in its worker's history")
	all := n.get(t, "/debug/actors?cluster=1").list("nodes")
	require.Len(t, all, 1, "a node on the embedded store is alone")
	require.Equal(t, "n1", all[0].text("node"))
	require.Equal(t, all[0].text("incarnation"), n.get(t, "/debug/actors/troupe?node=n1").text("incarnation"))
	require.NotContains(t, all[0], "error")
}

// TestHealthOfAWorker reads a worker's health and probes it.
func TestHealthOfAWorker(t *testing.T) {
	t.Parallel()
	n := shared(t)
	_, probed := n.call(t, "POST", "/api/v1/workers/n1/theatre.talker/0/health", nil)
	require.Equal(t, "healthy", probed.text("health"), "%v", probed)
	health := n.get(t, "/api/v1/workers/n1/theatre.talker/0/health")
	for _, key := range []string{"status", "last_check", "consecutive_failures", "queue_depth", "failure_rate", "total_executions", "failed_executions", "average_execution_time_ms"} {
		require.Contains(t, health["health_report"], key)
	}
}
