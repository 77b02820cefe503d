package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/test/rogue"
	"github.com/troupe-run/troupe/test/servers"
)

// The tests of this file use only features that older releases have too. With TROUPE_E2E_BINARY they show what an older release does
// under the same attack; docs/lab/attacks.md has the results.

// twoTokens has two callers with the scope submit, and an operator.
const twoTokens = `
tokens:
  - {name: ci, scopes: [submit], token: submit-secret-123456}
  - {name: other, scopes: [submit], token: other-secret-123456}
  - {name: ops, scopes: [admin], token: admin-secret-123456}
`

// TestNodeServesBesideAThousandConnections opens more connections than the number of calls that the node serves at once. Some read
// no answer, and some send no body.
func TestNodeServesBesideAThousandConnections(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"answers": strings.Repeat("GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n", 512),
		"bodies":  "POST /api/v1/executions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t, options{})
			dialer := net.Dialer{Timeout: patience, Control: func(_, _ string, c syscall.RawConn) error {
				return c.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
			}}
			for range 1030 {
				conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(n.url, "http://"))
				require.NoError(t, err)
				t.Cleanup(func() { _ = conn.Close() })
				_, err = io.WriteString(conn, text)
				require.NoError(t, err)
			}
			for range 1000 { // long enough for the node to have served the last of them
				require.Equal(t, http.StatusOK, n.status(t, "/healthz"))
			}
			n.works(t)
		})
	}
}

// trialPack is a pack with one shell action.
func trialPack(t *testing.T, action string) string {
	t.Helper()
	pack := filepath.Join(t.TempDir(), "trial")
	for name, text := range map[string]string{
		"pack.yaml":         "name: trial\nversion: 1.0.0\npools:\n  - {name: sh, runtime: shell, workers: 1}\n",
		"actions/sent.yaml": "name: sent\nruntime: shell\npool: sh\n" + action,
	} {
		path := filepath.Join(pack, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return pack
}

// TestTheLargestParametersFitInMemory sends parameters of nearly 1 MiB in which each item has three errors.
func TestTheLargestParametersFitInMemory(t *testing.T) {
	t.Parallel()
	n := start(t, options{packs: []string{trialPack(t, `command: ["true"]
parameters: {"type":"object","properties":{"l":{"items":{"anyOf":[{"type":"integer"},{"pattern":"^b"},{"maxLength":3}]}}}}
`)}})
	defer n.showPeak(t)
	list := strings.TrimSuffix(strings.Repeat(`"aaaa",`, 1_000_000/7), ",")
	status, answer := n.call(t, "POST", "/api/v1/executions", `{"action_ref":"trial.sent","parameters":{"l":[`+list+`]}}`)
	require.Equal(t, "invalid_parameters", answer.text("error", "code"), "%d %v", status, answer)
	peak := n.peakMemory(t)
	require.Greater(t, peak, int64(10<<20), "it was measured")
	require.Less(t, peak, int64(400<<20))
}

// TestASchemaWithoutABoundIsRefused starts a node with a schema that refers to itself in two ways. If the node accepts
// it, the test sends parameters of 300 bytes: their check takes twice as long with each level.
func TestASchemaWithoutABoundIsRefused(t *testing.T) {
	t.Parallel()
	n, err := begin(t.TempDir(), options{packs: []string{trialPack(t, `command: ["true"]
parameters: {"type":"object","properties":{"n":{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}}}
`)}})
	require.NoError(t, err)
	t.Cleanup(n.kill)
	if n.untilReady() == nil {
		const levels = 50
		parameters := strings.Repeat(`{"n":`, levels) + "1" + strings.Repeat("}", levels)
		client := http.Client{Timeout: 10 * time.Second}
		_, err := client.Post(n.url+"/api/v1/executions", "application/json", //nolint:noctx // it has a timeout, and the test fails
			strings.NewReader(`{"action_ref":"trial.sent","parameters":`+parameters+`}`))
		require.FailNow(t, "the node took the schema", "its check: %v; memory: %d MiB", err, n.peakMemory(t)>>20)
	}
	require.Contains(t, n.log.String(), "leads back to itself in two ways")
}

// TestAnotherUserDoesNotDrainANode sends a peer's command to a node. The sender knows only the node's port and the name of
// another node.
func TestAnotherUserDoesNotDrainANode(t *testing.T) {
	t.Parallel()
	v := newVenue(t)
	n := v.start(t, "victim", "")
	rows, err := servers.Query(v.database, "SELECT peer_address FROM node WHERE name = 'victim'")
	require.NoError(t, err)
	p, err := rogue.Dial(t.Context(), rows[0][0], nil, nil, 5*time.Second)
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	require.NoError(t, p.Greet("127.0.0.1:9"))
	data, err := rogue.Envelope(messages.NewIncarnation(), wire.Drain{By: "mallory"})
	require.NoError(t, err)
	_ = p.Write(rogue.EnvelopeType, rogue.Target, data) // Ended returns the refusal
	ended := p.Ended()
	require.NotContains(t, n.log.String(), "mallory")
	n.works(t)
	require.ErrorContains(t, ended, "did not get the proof")
}

// TestIdempotencyKeysBelongToTheirToken submits with an idempotency key that another token has used.
func TestIdempotencyKeysBelongToTheirToken(t *testing.T) {
	t.Parallel()
	n := start(t, options{config: twoTokens, token: "submit-secret-123456"})
	key := object{"idempotency_key": "order-7"}
	first := n.submit(t, "core.echo", nil, key).text("id")
	n.token = "other-secret-123456"
	_, second := n.call(t, "POST", "/api/v1/executions", object{"action_ref": "core.echo", "parameters": object{}, "idempotency_key": "order-7"})
	require.NotEmpty(t, second.text("id"))
	require.NotEqual(t, first, second.text("id"), "another token's execution is shown")
}

// TestInboxRowsCannotUseATokensName inserts a submission into the SQL inbox under the name of a token.
func TestInboxRowsCannotUseATokensName(t *testing.T) {
	t.Parallel()
	v := newVenue(t)
	n := v.start(t, "taker", "")
	rows, err := servers.Query(v.database, "INSERT INTO submission (action, parameters, created_by) VALUES ('core.echo', '{}', 'ops') RETURNING id::text")
	require.NoError(t, err)
	await(t, "the row is taken", func() bool { return n.status(t, "/api/v1/executions/"+rows[0][0]) == http.StatusOK })
	require.Equal(t, "sql:ops", n.finish(t, rows[0][0]).text("created_by"))
}

// TestANodeRefusesAFolderThatAllMayWrite starts a node on a data folder that every user may write to, so that every user could add
// programs for workers.
func TestANodeRefusesAFolderThatAllMayWrite(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "open")
	require.NoError(t, os.Mkdir(data, 0o700))
	require.NoError(t, os.Chmod(data, 0o777))
	n, err := begin(t.TempDir(), options{data: data})
	require.NoError(t, err)
	t.Cleanup(n.kill)
	require.Error(t, n.untilReady(), "the node works in a folder of mode 0777")
	require.Contains(t, n.log.String(), "chmod -R go-rwx "+data)
}

// TestAProgramStartsWithLimits reads a program's default limits in the program.
func TestAProgramStartsWithLimits(t *testing.T) {
	t.Parallel()
	n := start(t, options{packs: []string{trialPack(t, "command: [sh, -c, 'ulimit -n; ulimit -c']\n")}})
	require.Equal(t, "1024\n0", strings.TrimSpace(n.runs(t, "trial.sent", nil).text("result")))
}

// TestResultsSendNoControlSequences shows a caller's text on a terminal. The text has sequences for the window's title, for colours and
// for the writing direction.
func TestResultsSendNoControlSequences(t *testing.T) {
	t.Parallel()
	n := shared(t)
	const hostile = "x\x1b]0;pwned\x07\u009b31m\u202eend"
	id := n.runs(t, "theatre.stumble", object{"line": hostile}).text("id")
	for _, args := range [][]string{{"get", id}, {"get", id, "-o", "json"}, {"list"}, {"logs", id}, {"why", id}} {
		s := inTerminal(t, 40, 120, []string{"TROUPE_SERVER=" + n.url}, args...)
		s.ends()
		for _, sequence := range []string{"\x1b]", "\x07", "\u009b", "\u202e"} {
			require.NotContains(t, s.raw(), sequence, "%v", args)
		}
	}
}

// TestPasswordsInAddressesAreHidden passes addresses with a password, as URLs and as keys and values.
func TestPasswordsInAddressesAreHidden(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"postgres://u:hunter2-hunter2@127.0.0.1:1/db", "postgres://127.0.0.1:1/db?password=hunter2-hunter2",
		"host=127.0.0.1 port=1 user=u password=hunter2-hunter2",
	} {
		for _, args := range [][]string{{"config", "--store", address}, {"migrate", "--status", "--store", address}, {"node", address}} {
			r := execute(t, "", nil, args...)
			require.NotContains(t, r.out+r.err, "hunter2", "%q", args)
		}
	}
}

// TestAmbiguousJSONIsRefused sends bodies that two JSON decoders would read differently.
func TestAmbiguousJSONIsRefused(t *testing.T) {
	t.Parallel()
	n := shared(t)
	for name, c := range map[string]struct {
		encoding, body string
		status         int
	}{
		"a key twice":         {"", `{"action_ref":"core.echo","action_ref":"core.noop"}`, http.StatusBadRequest},
		"a key in other case": {"", `{"Action_Ref":"core.echo"}`, http.StatusBadRequest},
		"an encoding":         {"gzip", `{"action_ref":"core.echo"}`, http.StatusUnsupportedMediaType},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.url+"/api/v1/executions", strings.NewReader(c.body))
			require.NoError(t, err)
			r.Header.Set("Content-Type", "application/json")
			if c.encoding != "" {
				r.Header.Set("Content-Encoding", c.encoding)
			}
			response, err := n.client.Do(r)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, c.status, response.StatusCode)
		})
	}
}

// TestAReloadOfBrokenCodeFails reloads a pack whose code cannot be imported. The call fails with the cause, and the old code
// still works.
func TestAReloadOfBrokenCodeFails(t *testing.T) {
	t.Parallel()
	n := start(t, options{packs: []string{"testdata/theatre"}, config: sharedConfig})
	code := filepath.Join(n.packs[0], "actions", "keeper.py")
	text, err := os.ReadFile(code)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(code, append([]byte("import nowhere\n"), text...), 0o600))
	r := n.troupe(t, "reload")
	require.NotZero(t, r.code, "it says that all is well: %s", r.out)
	require.Contains(t, r.out+r.err, "No module named 'nowhere'")
	require.Equal(t, "completed", n.runs(t, "theatre.act", object{"lines": 1}).text("status"))
	require.Contains(t, fmt.Sprint(n.get(t, "/api/v1/pools")), "nowhere")
}
