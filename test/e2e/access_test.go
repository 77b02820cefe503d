package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// guardedConfig has tokens for each scope. The token of ops is in the environment.
const guardedConfig = `
tokens:
  - {name: viewer, scopes: [read], token: read-secret-123456}
  - {name: ci, scopes: [submit], token: submit-secret-123456}
  - {name: other, scopes: [submit], token: other-secret-123456}
  - {name: stage, scopes: [operate], token: stage-secret-123456}
  - {name: ops, scopes: [admin], token_env: OPS_SECRET}
`

// TestTokensAndScopes calls a node that requires tokens: without a token, with a wrong one, and with each scope.
func TestTokensAndScopes(t *testing.T) {
	t.Parallel()
	n := start(t, options{config: guardedConfig, env: []string{"OPS_SECRET=admin-secret-123456"}})
	as := func(token string) *node {
		other := *n
		other.token = token
		return &other
	}
	none, wrong := as(""), as("nobody-knows-this")
	read, submit, admin := as("read-secret-123456"), as("submit-secret-123456"), as("admin-secret-123456")
	operate, other := as("stage-secret-123456"), as("other-secret-123456")
	const echo = `{"action_ref":"core.echo"}`
	for _, c := range []struct {
		who          *node
		method, path string
		body         any
		status       int
		says         string
	}{
		{none, "GET", "/api/v1/pools", nil, 401, "send Authorization: Bearer TOKEN"},
		{none, "GET", "/metrics", nil, 401, "wants a token"},
		{none, "GET", "/debug/actors", nil, 401, "wants a token"},
		{none, "GET", "/debug/actors?cluster=1", nil, 401, "wants a token"},
		{none, "GET", "/debug/actors/troupe?node=n1", nil, 401, "wants a token"},
		{submit, "GET", "/debug/actors?node=n1", nil, 403, `lacks the scope "read"`},
		{wrong, "GET", "/api/v1/pools", nil, 401, "the token is not known here"},
		{wrong, "POST", "/api/v1/executions", echo, 401, "the token is not known here"},
		{read, "POST", "/api/v1/executions", echo, 403, `token "viewer" lacks the scope "submit"`},
		{read, "POST", "/api/v1/workers/n1/go/0/kill", nil, 403, `lacks the scope "admin"`},
		{submit, "GET", "/api/v1/executions", nil, 403, `token "ci" lacks the scope "read"`},
		{submit, "POST", "/api/v1/reload", nil, 403, `lacks the scope "operate"`},
		{operate, "POST", "/api/v1/executions", echo, 403, `token "stage" lacks the scope "submit"`},
		{operate, "POST", "/api/v1/workers/n1/go/0/kill", nil, 403, `lacks the scope "admin"`},
		{operate, "POST", "/api/v1/reload", nil, 200, ""},
		{operate, "GET", "/api/v1/pools", nil, 200, ""},
		{read, "GET", "/api/v1/executions", nil, 200, ""},
		{submit, "POST", "/api/v1/executions", echo, 201, ""},
		{admin, "POST", "/api/v1/executions", echo, 201, ""},
		{admin, "GET", "/api/v1/pools", nil, 200, ""},
		{none, "GET", "/healthz", nil, 200, ""},
		{none, "GET", "/readyz", nil, 200, ""},
	} {
		status, answer := c.who.call(t, c.method, c.path, c.body)
		require.Equal(t, c.status, status, "%s %s: %v", c.method, c.path, answer)
		require.Contains(t, answer.text("error", "message"), c.says)
		require.NotContains(t, answer.text("error", "message"), "secret")
	}
	r := none.troupe(t, "pools")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "set TROUPE_TOKEN")
	r = read.troupe(t, "submit", "core.echo")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, `token "viewer" lacks the scope "submit"`)
	require.Equal(t, "{}", admin.prints(t, "submit", "core.echo", "--wait"))
	require.Contains(t, admin.prints(t, "list"), "completed")
	r = operate.troupe(t, "config", "--running")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, `token "stage" lacks the scope "admin"`)
	running := admin.prints(t, "config", "--running")
	require.Regexp(t, `(?m)^tokens +.*viewer.* +file `, running, "a running node says what it is configured with")
	require.NotContains(t, running, "secret-123456")
	require.Equal(t, "{}", submit.prints(t, "submit", "core.echo", "--wait"), "who submits may wait for it")
	id := submit.prints(t, "submit", "core.echo", "--at", "1h")
	for _, verb := range []string{"get", "wait", "cancel", "logs", "why"} {
		r = other.troupe(t, verb, id)
		require.Equal(t, 1, r.code, verb)
		require.Contains(t, r.err, `token "other" has submitted no execution `+id, verb)
	}
	require.Contains(t, submit.prints(t, "get", id), "requested")
	require.Contains(t, submit.prints(t, "cancel", id), "cancelled")
	e := admin.runs(t, "core.noop", nil)
	require.Equal(t, "ops", e.text("created_by"))
	require.NoError(t, n.stop())
	require.NotContains(t, n.log.String(), "secret-123456")
}

// TestWithoutTokensOnlyLocalCallers: without tokens the node refuses what a browser would send for a page of another origin.
func TestWithoutTokensOnlyLocalCallers(t *testing.T) {
	t.Parallel()
	n := shared(t)
	for _, c := range []struct{ header, value, says string }{
		{"Host", "evil.example", "is not this machine's"}, {"Origin", "https://evil.example", "another origin"},
		{"Sec-Fetch-Site", "cross-site", "another origin"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", n.url+"/api/v1/executions", strings.NewReader(`{"action_ref":"core.echo"}`))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set(c.header, c.value)
		if c.header == "Host" {
			req.Host = c.value
		}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		body := make([]byte, 4096)
		count, _ := res.Body.Read(body)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusForbidden, res.StatusCode)
		require.Contains(t, string(body[:count]), c.says)
	}
	n.works(t)
}

// TestTokensFile makes tokens with the command, and changes the file while the node runs.
func TestTokensFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	bare := &node{}
	made := func(name, scope string) (token, line string) {
		lines := strings.Split(bare.prints(t, "token", "new", "--name", name, "--scope", scope), "\n")
		for _, text := range lines {
			if strings.HasPrefix(text, "troupe_") {
				token = text
			} else if strings.HasPrefix(text, "- {") {
				line = text + "\n"
			}
		}
		return token, line
	}
	first, firstLine := made("first", "admin")
	second, secondLine := made("second", "admin")
	require.NoError(t, os.WriteFile(path, []byte(firstLine), 0o600))
	n := start(t, options{config: "tokens_file: " + path + "\n", token: first})
	next := *n
	next.token = second
	status, _ := next.call(t, "GET", "/api/v1/pools", nil)
	require.Equal(t, http.StatusUnauthorized, status)
	require.NoError(t, os.WriteFile(path, []byte("- {name: "), 0o600))
	r := n.troupe(t, "reload")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "is not YAML")
	require.Contains(t, r.err, "the tokens of before hold")
	require.NoError(t, os.WriteFile(path, []byte(secondLine), 0o600))
	require.Eventually(t, func() bool {
		status, _ := next.call(t, "GET", "/api/v1/pools", nil)
		return status == http.StatusOK
	}, 30*time.Second, 50*time.Millisecond)
	status, _ = n.call(t, "GET", "/api/v1/pools", nil)
	require.Equal(t, http.StatusUnauthorized, status, "a token that was taken out opens nothing")
	require.Equal(t, "second", next.runs(t, "core.noop", nil).text("created_by"))
	require.NoError(t, n.stop())
	for _, token := range []string{first, second} {
		require.NotContains(t, n.log.String(), token)
	}
}
