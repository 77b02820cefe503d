package e2e

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSessionsStayWithTheirWorker runs many sessions at the same time. Each session's state grows without a loss, in one process.
func TestSessionsStayWithTheirWorker(t *testing.T) {
	t.Parallel()
	n := shared(t)
	var sessions sync.WaitGroup
	for _, name := range []string{"ann", "bob", "cleo", "../d", "<e>"} {
		sessions.Go(func() {
			session, pid, want := object{"session": t.Name() + name}, "", ""
			for _, line := range []string{"a", "b", "c", "d"} {
				e := n.runs(t, "theatre.remember", object{"line": name + line}, session)
				want = strings.TrimSpace(want + " " + name + line)
				if pid == "" {
					pid = e.text("result", "pid")
				}
				if e.text("result", "lines") != "["+want+"]" || e.text("result", "pid") != pid || e.text("result", "epoch") != "1" {
					t.Errorf("session %s: %v", name, e)
				}
			}
		})
	}
	sessions.Wait()
}

// TestEmbeddings follows the README of the example pack. The index stays with its worker, and its loss is reported.
func TestEmbeddings(t *testing.T) {
	t.Parallel()
	n := start(t, options{packs: []string{"../../packs/examples/embeddings"}})
	require.Equal(t, `{"lost":false,"size":2}`, n.prints(t, "submit", "embeddings.add", "--session", "alice",
		`texts:=["the cat sat on the mat", "stocks fell on Monday"]`, "--wait"))
	require.Contains(t, n.prints(t, "submit", "embeddings.search", "--session", "alice", "query=a sitting cat", "top:=1", "--wait"), "the cat sat on the mat")
	require.Contains(t, n.prints(t, "submit", "embeddings.search", "--session", "bob", "query=a sitting cat", "--wait"), `"matches":[]`)
	require.Equal(t, `{"similarity":1}`, strings.Replace(n.prints(t, "submit", "embeddings.similarity", "a=cat", "b=cat", "--wait"), "1.0", "1", 1))
	r := n.troupe(t, "submit", "embeddings.search", "query=cat", "--wait")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "submit it with a session")

	// An orderly stop keeps the session: the next node restores its snapshot.
	require.NoError(t, n.stop())
	n = n.again(t)
	found := n.prints(t, "submit", "embeddings.search", "--session", "alice", "query=a sitting cat", "top:=1", "--wait")
	require.Contains(t, found, "the cat sat on the mat")
	require.Contains(t, found, `"lost":false`)

	for _, s := range n.get(t, "/api/v1/sessions").list("sessions") {
		if s.text("session") == "alice" {
			worker := s.text("worker", "slot")
			n.prints(t, "worker", "kill", "n1/embeddings.models/"+worker)
		}
	}
	require.Contains(t, n.prints(t, "submit", "embeddings.search", "--session", "alice", "query=cat", "--wait"), `"lost":true`)
	require.NoError(t, n.stop())
}

// TestEveryRuntime runs one action of each runtime.
func TestEveryRuntime(t *testing.T) {
	t.Parallel()
	n := shared(t)
	require.Equal(t, "5", n.runs(t, "core.echo", object{"n": 5}).text("result", "n"))
	require.Equal(t, "prompted twice", n.runs(t, "theatre.prompt", object{"word": "twice"}).text("result"))
	require.Equal(t, "7", n.runs(t, "theatre.card", object{"n": 7}).text("result", "shown", "n"))
	require.NotEmpty(t, n.runs(t, "theatre.talker", nil).text("result", "pid"))
	require.NotEmpty(t, n.runs(t, "theatre.act", object{"lines": 1}).text("result", "pid"))
	e := n.runs(t, "theatre.stumble", object{"line": "to be"})
	require.Equal(t, "failed", e.text("status"))
	require.Contains(t, e.text("error", "message"), "ValueError: forgot the line: to be")
	e = n.runs(t, "theatre.prompt", object{"status": 3})
	require.Equal(t, "exit_status", e.text("error", "code"))
	require.Equal(t, "whispered", strings.TrimSpace(e.text("error", "stderr")))
}

// TestCancelInEveryStatus cancels a waiting, a running and an ended execution.
func TestCancelInEveryStatus(t *testing.T) {
	t.Parallel()
	// The test needs a node of its own: a run that does not stop in time is killed, with the sessions of its worker.
	n := start(t, options{packs: []string{"testdata/theatre"}, config: sharedConfig})
	for action, parameters := range map[string]object{
		"core.sleep": {"seconds": 600}, "theatre.pause": {"seconds": 600}, "theatre.act": {"lines": 10_000, "pause": 0.01},
	} {
		id := n.submit(t, action, parameters).text("id")
		await(t, action+" runs", func() bool { return n.get(t, "/api/v1/executions/"+id).text("status") == "running" })
		n.prints(t, "cancel", id)
		require.Equal(t, "cancelled", n.finish(t, id).text("status"), action)
	}
	id := n.submit(t, "core.echo", nil, object{"run_at": "2099-01-01T00:00:00Z"}).text("id")
	require.Contains(t, n.prints(t, "cancel", id), "cancelled")
	done := n.runs(t, "core.noop", nil).text("id")
	require.Contains(t, n.prints(t, "cancel", done), "completed", "a terminal state never changes")
	require.NoError(t, n.stop())
}

// TestSessionModes submits to a busy session in each mode.
func TestSessionModes(t *testing.T) {
	t.Parallel()
	n := start(t, options{packs: []string{"testdata/theatre"}, config: "worker: {cancel_grace: 40}\n"})
	session := func(mode string) object { return object{"session": "s", "affinity": mode} }
	first := n.runs(t, "theatre.act", object{"lines": 1}, session("strict"))
	acting := n.submit(t, "theatre.act", object{"lines": 10_000, "pause": 0.01}, session("strict")).text("id")
	await(t, "it runs", func() bool { return n.get(t, "/api/v1/executions/"+acting).text("status") == "running" })

	e := n.runs(t, "theatre.act", object{"lines": 1}, session("strict_fail"))
	require.Equal(t, "failed", e.text("status"), "%v", e)
	require.Equal(t, "session_busy", e.text("error", "code"), "%v", e)

	e = n.runs(t, "theatre.act", object{"lines": 1}, session("hint"))
	require.Equal(t, "completed", e.text("status"), "%v", e)
	require.NotEqual(t, first.text("result", "pid"), e.text("result", "pid"), "a hint takes another worker when its own is busy")

	r := n.troupe(t, "submit", "theatre.act", "--session", "s", "--session-timeout", "100ms", "--wait")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "Session operation timeout: session s, action theatre.act")

	n.prints(t, "cancel", acting)
	e = n.runs(t, "theatre.act", object{"lines": 1}, session("strict"))
	require.Equal(t, first.text("result", "pid"), e.text("result", "pid"))
	require.NoError(t, n.stop())
}

// TestSecretsStaySecret runs an action with a secret parameter.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	n := start(t, options{packs: []string{"testdata/theatre"}, config: sharedConfig, flags: []string{"--log-level", "trace"}})
	const secret = "open-sesame-8f3a"
	e := n.runs(t, "theatre.whisper", object{"word": secret, "aloud": "hello"})
	require.Equal(t, "completed", e.text("status"), "%v", e)
	require.Equal(t, "heard 16 characters", e.text("result"), "the action itself has it")
	id := e.text("id")
	for _, path := range []string{"/api/v1/executions/" + id, "/api/v1/executions", "/api/v1/executions/" + id + "/chain", "/api/v1/executions/" + id + "/events", "/debug/actors", "/metrics"} {
		_, raw := n.raw(t, "GET", path, nil)
		require.NotContains(t, string(raw), secret, path)
	}
	require.NotContains(t, n.prints(t, "get", id), secret)
	require.Contains(t, n.prints(t, "get", id), "hello")
	status, answer := n.call(t, "POST", "/api/v1/executions", object{"action_ref": "theatre.whisper", "parameters": object{"word": secret, "aloud": 5}})
	require.Equal(t, 422, status)
	require.NotContains(t, answer.text("error", "message"), secret)
	status, answer = n.call(t, "POST", "/api/v1/executions", object{"action_ref": "theatre.whisper", "parameters": object{"word": []string{secret}}})
	require.Equal(t, 422, status)
	require.NotContains(t, answer.text("error", "message"), secret)
	require.NoError(t, n.stop())
	require.NotContains(t, n.log.String(), secret)
}

// TestAResultThatIsTooLarge fails its execution. The worker stays.
func TestAResultThatIsTooLarge(t *testing.T) {
	t.Parallel()
	n := shared(t)
	unharmed := bystander(t, n)
	e := n.runs(t, "theatre.bulk", object{"mib": 9})
	require.Equal(t, "failed", e.text("status"))
	require.Equal(t, "result_too_large", e.text("error", "code"))
	e = n.runs(t, "theatre.bulk", object{"mib": 7})
	require.Equal(t, "completed", e.text("status"))
	unharmed()
}
