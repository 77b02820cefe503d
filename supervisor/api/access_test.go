package api

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// fake stores nothing, for what is measured and refused before the store.
type fake struct{ backend }

func (f *fake) Submit(_ context.Context, r []SubmitRequest) ([]store.Submitted, error) {
	return []store.Submitted{{Execution: messages.Execution{ID: messages.NewExecutionID(), Action: r[0].ActionRef, Status: messages.Requested}}}, nil
}

const (
	readToken   = "read-token-0123456789"
	submitToken = "submit-token-0123456789"
	adminToken  = "admin-token-0123456789"
)

func guarded(t *testing.T) (http.Handler, *backend) {
	b := newBackend(t)
	return New(Config{Backend: b, Tokens: []Token{
		{Name: "viewer", Secret: readToken, Scopes: []Scope{ScopeRead}},
		{Name: "sender", Secret: submitToken, Scopes: []Scope{ScopeSubmit}},
		{Name: "boss", Secret: adminToken, Scopes: []Scope{ScopeAdmin}},
	}}), b
}

// Every route is tried with every token; what a token may do is what its route's scope says.
func TestScopesOfEveryRoute(t *testing.T) {
	t.Parallel()
	h, _ := guarded(t)
	allowed := map[Scope][]string{
		ScopeOpen: {"", readToken, submitToken, adminToken}, ScopeRead: {readToken, adminToken},
		ScopeSubmit: {submitToken, adminToken}, ScopeAdmin: {adminToken},
	}
	for _, rt := range routes() {
		path := examplePath(rt)
		for _, token := range []string{"", "wrong-token-0123456789", readToken, submitToken, adminToken} {
			headers := []string{"Authorization", "Bearer " + token}
			if token == "" {
				headers = nil
			}
			w := ask(t, h, rt.method, path, "", headers...)
			switch may := contains(allowed[rt.scope], token); {
			case may || rt.scope == ScopeOpen:
				require.NotContains(t, []int{401, 403}, w.Code, "%s %s with %q: %s", rt.method, path, token, w.Body)
			case token == "" || token[:5] == "wrong":
				refused(t, w, 401, CodeUnauthorized, "token")
				require.Contains(t, w.Header().Get("WWW-Authenticate"), "Bearer")
			default:
				refused(t, w, 403, CodeForbidden, `lacks the scope "`+string(rt.scope)+`"`)
			}
		}
	}
}

func contains(list []string, s string) bool {
	for _, item := range list {
		if item == s {
			return true
		}
	}
	return false
}

// examplePath fills a route's wildcards with what is not there.
func examplePath(rt *route) string {
	path := ""
	for _, part := range splitPath(rt.path) {
		switch part {
		case "{id}", "{id...}":
			part = "77"
		case "{node}", "{pool}":
			part = "x"
		case "{slot}":
			part = "7"
		}
		path += "/" + part
	}
	return path
}

func TestTheCallerIsRecorded(t *testing.T) {
	t.Parallel()
	h, b := guarded(t)
	w := ask(t, h, "POST", executionsPath, `{"action_ref":"a"}`, "Authorization", "bearer "+submitToken, "Host", "troupe.example")
	require.Equal(t, "sender", read[ExecutionView](t, w, 201).CreatedBy)
	require.Equal(t, "sender", b.requests[0].CreatedBy)
	for _, header := range []string{"Basic " + submitToken, submitToken, "Bearer", "Bearer " + submitToken[:10], "Bearer  "} {
		refused(t, ask(t, h, "POST", executionsPath, `{"action_ref":"a"}`, "Authorization", header), 401, CodeUnauthorized, "token")
	}
}

func TestWithoutTokensThisMachineAlone(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	for _, host := range []string{"localhost", "localhost:7070", "127.0.0.1:7070", "127.8.8.8", "[::1]:7070", "[::ffff:127.0.0.1]:1"} {
		require.Equal(t, 200, ask(t, h, "GET", "/api/v1/pools", "", "Host", host).Code, host)
	}
	for _, host := range []string{"evil.example", "127.0.0.1.evil.example", "10.0.0.1:7070", "", "localhost.evil:7070"} {
		refused(t, ask(t, h, "GET", "/api/v1/pools", "", "Host", host), 403, CodeForbidden, "Host header")
	}
	body := `{"action_ref":"a"}`
	for _, headers := range [][]string{
		{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}, {"Origin", "null"},
	} {
		refused(t, ask(t, h, "POST", executionsPath, body, headers...), 403, CodeForbidden, "another origin")
	}
	require.Equal(t, 201, ask(t, h, "POST", executionsPath, body, "Origin", "http://127.0.0.1:7070").Code)
	require.Equal(t, 200, ask(t, h, "GET", "/healthz", "", "Host", "probe.example").Code)
}

func TestAnotherMachineIsRefused(t *testing.T) {
	t.Parallel()
	g := newGuard(nil)
	r, err := http.NewRequest(http.MethodGet, "http://127.0.0.1/api/v1/pools", nil)
	require.NoError(t, err)
	for address, local := range map[string]bool{"127.0.0.1:9": true, "[::1]:9": true, "192.0.2.7:9": false, "": false} {
		r.RemoteAddr = address
		_, p := g.admit(r, ScopeRead)
		require.Equal(t, local, p == nil, address)
	}
	require.False(t, Loopback(":7070"))
	require.False(t, Loopback("0.0.0.0:7070"))
	require.True(t, Loopback("127.0.0.1:7070"))
}
