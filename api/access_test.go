package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
)

// fake stores nothing, for what is measured and refused before the store.
type fake struct{ backend }

func (f *fake) Submit(_ context.Context, r []submit.Request) ([]store.Submitted, error) {
	return []store.Submitted{{Execution: messages.Execution{ID: messages.NewExecutionID(), Action: r[0].ActionRef, Status: messages.Requested}}}, nil
}

const (
	readToken   = "read-token-0123456789"
	submitToken = "submit-token-0123456789"
	adminToken  = "admin-token-0123456789"
	stageToken  = "stage-token-0123456789"
)

func withTokens(t testing.TB, tokens []Token) *Access {
	a, err := NewAccess(tokens, TokensFile{}, TLSFiles{ClientCAFile: "clients.pem"}, nil)
	require.NoError(t, err)
	return a
}

func guarded(t *testing.T) (http.Handler, *backend) {
	b := newBackend(t)
	return New(Config{Backend: b, Access: withTokens(t, []Token{
		{Name: "viewer", Secret: readToken, Scopes: []Scope{ScopeRead}},
		{Name: "sender", Secret: submitToken, Scopes: []Scope{ScopeSubmit}},
		{Name: "stage", Secret: stageToken, Scopes: []Scope{ScopeOperate}},
		{Name: "boss", Secret: adminToken, Scopes: []Scope{ScopeAdmin}},
	})}), b
}

// scopeTable is who may do what, apart from what is open: the scope that a route needs, and own where submit has it for what it
// submitted itself.
var scopeTable = map[string]string{
	"GET /api/v1/actions": "read", "GET /api/v1/actions/{ref}": "read", "GET /api/v1/dead-letters": "read", "GET /api/v1/dead-letters/stats": "read", "GET /api/v1/dead-letters/{id}": "read",
	"POST /api/v1/dead-letters/{id}/requeue": "operate", "POST /api/v1/dead-letters/{id}/discard": "operate",
	"POST /api/v1/executions": "submit", "POST /api/v1/executions/batch": "submit", "POST /api/v1/executions/stream": "submit", "GET /api/v1/executions": "read",
	"GET /api/v1/executions/{id}": "read own", "GET /api/v1/executions/{id}/wait": "read own", "GET /api/v1/executions/{id}/output": "read own",
	"GET /api/v1/executions/{id}/chain": "read own", "GET /api/v1/executions/{id}/events": "read own", "GET /api/v1/executions/{id}/timeline": "read own", "GET /api/v1/executions/{id}/line": "read own", "GET /api/v1/journal": "read", "GET /api/v1/executions/{id}/why": "read own",
	"POST /api/v1/executions/{id}/cancel": "operate own", "POST /api/v1/executions/{id}/retry": "operate",
	"GET /api/v1/webhooks": "read", "POST /api/v1/executions/{id}/webhook/retry": "operate own",
	"GET /api/v1/reach": "read", "GET /api/v1/nodes": "read", "GET /api/v1/nodes/{id}": "read", "POST /api/v1/nodes/{id}/cordon": "admin",
	"POST /api/v1/nodes/{id}/uncordon": "admin", "POST /api/v1/nodes/{id}/drain": "admin",
	"GET /api/v1/pools": "read", "POST /api/v1/pools/{pool}/cordon": "admin", "POST /api/v1/pools/{pool}/uncordon": "admin",
	"POST /api/v1/reload": "operate", "GET /api/v1/sessions": "read", "GET /api/v1/sessions/{pool}/{name...}": "read",
	"GET /api/v1/session-states": "read", "GET /api/v1/session-states/{pool}/{name...}": "operate", "DELETE /api/v1/session-states/{pool}/{name...}": "operate",
	"DELETE /api/v1/sessions/{pool}/{name...}": "operate", "GET /api/v1/workers": "read",
	"GET /api/v1/workers/{node}/{pool}/{slot}": "read", "GET /api/v1/workers/{node}/{pool}/{slot}/health": "read",
	"POST /api/v1/workers/{node}/{pool}/{slot}/health": "operate", "POST /api/v1/workers/{node}/{pool}/{slot}/cordon": "admin",
	"POST /api/v1/workers/{node}/{pool}/{slot}/uncordon": "admin", "POST /api/v1/workers/{node}/{pool}/{slot}/kill": "admin",
	"POST /api/v1/bulk/preview": "operate", "POST /api/v1/bulk": "operate", "GET /api/v1/operations": "read", "GET /api/v1/operations/{id}": "read",
	"POST /api/v1/operations/{id}/stop": "operate",
	"GET /api/v1/config":                "admin",
	"GET /api/v1/me":                    "any", "POST /api/v1/marks": "submit", "GET /api/v1/series": "read", "GET /api/v1/ledger": "read", "GET /api/v1/findings": "read", "GET /api/v1/errors": "read", "GET /api/v1/differences": "read", "GET /api/v1/workers/{node}/{pool}/{slot}/runs": "read", "GET /api/v1/pools/{pool}": "read", "GET /api/v1/facets": "read", "GET /api/v1/fleet": "read", "GET /api/v1/overview": "read", "GET /api/v1/stream": "read", "GET /debug/actors": "read", "GET /debug/actors/{id...}": "read", "GET /metrics": "read",
}

func TestScopeTable(t *testing.T) {
	t.Parallel()
	open := 0
	for _, rt := range routes() {
		want := strings.TrimSuffix(scopeTable[rt.method+" "+rt.path], " own")
		require.Equal(t, want, string(rt.scope), "%s %s", rt.method, rt.path)
		require.Equal(t, strings.HasSuffix(scopeTable[rt.method+" "+rt.path], " own"), rt.own, "%s %s", rt.method, rt.path)
		if rt.scope == ScopeOpen {
			require.Contains(t, []string{"/healthz", "/readyz", "/openapi.json", "/api/v1/login", "/api/v1/logout"}, rt.path)
			open++
		}
	}
	require.Len(t, routes(), len(scopeTable)+open)
}

// What each scope may do with a route of each kind.
func TestAccessOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scopes string
		need   Scope
		own    bool
		want   access
	}{
		{"", ScopeOpen, false, accessAll}, {"", ScopeRead, true, accessNone}, {"nonsense", ScopeRead, true, accessNone},
		{"read", ScopeRead, false, accessAll}, {"read", ScopeSubmit, false, accessNone}, {"read", ScopeOperate, true, accessNone},
		{"submit", ScopeSubmit, false, accessAll}, {"submit", ScopeRead, false, accessNone}, {"submit", ScopeRead, true, accessOwn},
		{"submit", ScopeOperate, true, accessOwn}, {"submit", ScopeOperate, false, accessNone}, {"submit", ScopeAdmin, false, accessNone},
		{"submit read", ScopeRead, true, accessAll}, {"submit read", ScopeOperate, true, accessOwn}, {"read submit", ScopeOperate, true, accessOwn},
		{"operate", ScopeRead, true, accessAll}, {"operate", ScopeOperate, false, accessAll}, {"operate", ScopeSubmit, false, accessNone},
		{"operate", ScopeAdmin, false, accessNone}, {"admin", ScopeAdmin, false, accessAll}, {"admin", ScopeOperate, true, accessAll},
		{"admin", ScopeSubmit, false, accessAll}, {"admin", ScopeRead, false, accessAll},
	} {
		var scopes []Scope
		for word := range strings.FieldsSeq(c.scopes) {
			scopes = append(scopes, Scope(word))
		}
		require.Equal(t, c.want, accessOf(scopes, &route{scope: c.need, own: c.own}), "%+v", c)
	}
}

// The attack: a caller who may submit reads, follows and cancels what another has submitted.
func TestSubmitHasItsOwnAlone(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b, Access: withTokens(t, []Token{
		{Name: "sender", Secret: submitToken, Scopes: []Scope{ScopeSubmit}},
		{Name: "other", Secret: stageToken, Scopes: []Scope{ScopeSubmit}},
	})})
	auth := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
	v := read[form.ExecutionView](t, ask(t, h, "POST", executionsPath, `{"action_ref":"a"}`, auth(submitToken)...), 201)
	one := executionsPath + "/" + v.ID.String()
	for _, rt := range routes() {
		if !rt.own {
			continue
		}
		path := strings.Replace(rt.path, "{id}", v.ID.String(), 1)
		if strings.HasSuffix(path, "/wait") {
			path += "?timeout_seconds=0.1"
		}
		others := ask(t, h, rt.method, path, "", auth(stageToken)...)
		refused(t, others, 404, messages.CodeNotFound, "has submitted no execution")
		missing := strings.Replace(path, v.ID.String(), messages.NewExecutionID().String(), 1)
		require.Equal(t, 404, ask(t, h, rt.method, missing, "", auth(stageToken)...).Code)
		stands, err := b.Store.Get(t.Context(), v.ID)
		require.NoError(t, err)
		require.Equal(t, messages.Requested, stands.Status, "%s %s", rt.method, rt.path)
	}
	for _, path := range []string{one, one + "/wait?timeout_seconds=0.1", one + "/output", one + "/events", one + "/chain"} {
		require.Equal(t, 200, ask(t, h, "GET", path, "", auth(submitToken)...).Code, path)
	}
	refused(t, ask(t, h, "POST", one+"/retry", "", auth(submitToken)...), 403, messages.CodeForbidden, `lacks the scope "operate" that this needs; it has submit`)
	refused(t, ask(t, h, "GET", executionsPath, "", auth(submitToken)...), 403, messages.CodeForbidden, `lacks the scope "read"`)
	require.Equal(t, messages.Cancelled, read[form.ExecutionView](t, ask(t, h, "POST", one+"/cancel", "", auth(submitToken)...), 200).Status)
}

// Every route is tried with every token; what a token may do is what its route's scope says.
func TestScopesOfEveryRoute(t *testing.T) {
	t.Parallel()
	h, _ := guarded(t)
	allowed := map[Scope][]string{
		ScopeOpen: {"", readToken, submitToken, stageToken, adminToken}, ScopeRead: {readToken, stageToken, adminToken},
		ScopeAny:    {readToken, submitToken, stageToken, adminToken},
		ScopeSubmit: {submitToken, adminToken}, ScopeOperate: {stageToken, adminToken}, ScopeAdmin: {adminToken},
	}
	for _, rt := range routes() {
		path := examplePath(rt)
		for _, token := range []string{"", "wrong-token-0123456789", readToken, submitToken, stageToken, adminToken} {
			headers := []string{"Authorization", "Bearer " + token}
			if token == "" {
				headers = nil
			}
			w := ask(t, h, rt.method, path, "", headers...)
			switch may := contains(allowed[rt.scope], token); {
			case may || rt.scope == ScopeOpen:
				require.NotContains(t, []int{401, 403}, w.Code, "%s %s with %q: %s", rt.method, path, token, w.Body)
			case token == submitToken && rt.own:
				refused(t, w, 404, messages.CodeNotFound, "")
			case token == "" || token[:5] == "wrong":
				refused(t, w, 401, messages.CodeUnauthorized, "token")
				require.Contains(t, w.Header().Get("WWW-Authenticate"), "Bearer")
			default:
				refused(t, w, 403, messages.CodeForbidden, `lacks the scope "`+string(rt.scope)+`"`)
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

// The attack: the same request under another token's idempotency key was answered with that token's execution and its result.
func TestAKeyShowsNoExecutionOfAnother(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b, Access: withTokens(t, []Token{
		{Name: "sender", Secret: submitToken, Scopes: []Scope{ScopeSubmit}},
		{Name: "other", Secret: stageToken, Scopes: []Scope{ScopeSubmit}},
		{Name: "seer", Secret: readToken, Scopes: []Scope{ScopeSubmit, ScopeRead}},
	})})
	submit := func(token string) *httptest.ResponseRecorder {
		return ask(t, h, "POST", executionsPath, `{"action_ref":"a","idempotency_key":"order-7"}`, "Authorization", "Bearer "+token)
	}
	first := read[form.ExecutionView](t, submit(submitToken), 201)
	again := read[form.ExecutionView](t, submit(submitToken), 200)
	require.True(t, again.Existing)
	require.Equal(t, first.ID, again.ID)
	for _, token := range []string{stageToken, readToken} {
		w := submit(token)
		require.NotContains(t, w.Body.String(), first.ID.String())
		own := read[form.ExecutionView](t, w, 201)
		require.False(t, own.Existing, "the key is the token's own")
		require.Equal(t, own.ID, read[form.ExecutionView](t, submit(token), 200).ID)
	}
	require.Equal(t, first.ID, read[form.ExecutionView](t, submit(submitToken), 200).ID)
}

func TestTheCallerIsRecorded(t *testing.T) {
	t.Parallel()
	h, b := guarded(t)
	w := ask(t, h, "POST", executionsPath, `{"action_ref":"a"}`, "Authorization", "bearer "+submitToken, "Host", "troupe.example")
	require.Equal(t, "sender", read[form.ExecutionView](t, w, 201).CreatedBy)
	require.Equal(t, "sender", b.requests[0].CreatedBy)
	for _, header := range []string{"Basic " + submitToken, submitToken, "Bearer", "Bearer " + submitToken[:10], "Bearer  "} {
		refused(t, ask(t, h, "POST", executionsPath, `{"action_ref":"a"}`, "Authorization", header), 401, messages.CodeUnauthorized, "token")
	}
}

func TestWithoutTokensThisMachineAlone(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	for _, host := range []string{"localhost", "localhost:7070", "127.0.0.1:7070", "127.8.8.8", "[::1]:7070", "[::ffff:127.0.0.1]:1"} {
		require.Equal(t, 200, ask(t, h, "GET", "/api/v1/pools", "", "Host", host).Code, host)
	}
	for _, host := range []string{"evil.example", "127.0.0.1.evil.example", "10.0.0.1:7070", "", "localhost.evil:7070"} {
		refused(t, ask(t, h, "GET", "/api/v1/pools", "", "Host", host), 403, messages.CodeForbidden, "Host header")
	}
	body := `{"action_ref":"a"}`
	for _, headers := range [][]string{
		{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}, {"Origin", "null"},
	} {
		refused(t, ask(t, h, "POST", executionsPath, body, headers...), 403, messages.CodeForbidden, "another origin")
	}
	require.Equal(t, 201, ask(t, h, "POST", executionsPath, body, "Origin", "http://127.0.0.1:7070").Code)
	for _, header := range [][2]string{{"Origin", "http://127.0.0.1:9"}, {"Sec-Fetch-Site", "same-site"}} {
		refused(t, ask(t, h, "GET", executionsPath, "", header[0], header[1]), 403, "forbidden", "another origin")
	}
	require.Equal(t, 200, ask(t, h, "GET", executionsPath, "", "Sec-Fetch-Site", "same-origin").Code)
	require.Equal(t, 200, ask(t, h, "GET", "/healthz", "", "Host", "probe.example").Code)
}

// The attack: behind a proxy of the same machine everybody was its administrator.
func TestWithoutTokensAProxyIsRefused(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b})
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "x-forwarded-proto", "X-FORWARDED-PORT", "X-Real-IP", "Via"} {
		for _, value := range []string{"127.0.0.1", ""} {
			w := ask(t, h, "POST", executionsPath, `{"action_ref":"a"}`, name, value)
			refused(t, w, 403, messages.CodeForbidden, http.CanonicalHeaderKey(name))
			refused(t, w, 403, messages.CodeForbidden, "configure tokens")
			require.Equal(t, 200, ask(t, h, "GET", "/healthz", "", name, value).Code)
		}
	}
	require.Empty(t, b.requests)
	guarded, _ := guarded(t)
	require.Equal(t, 200, ask(t, guarded, "GET", "/api/v1/pools", "", "Authorization", "Bearer "+readToken, "X-Forwarded-For", "192.0.2.1").Code)
}

func TestAnotherMachineIsRefused(t *testing.T) {
	t.Parallel()
	g := newGuard(&Config{Access: &Access{reread: reread[[]hashedToken]{now: time.Now}}})
	r, err := http.NewRequest(http.MethodGet, "http://127.0.0.1/api/v1/pools", nil)
	require.NoError(t, err)
	for address, local := range map[string]bool{"127.0.0.1:9": true, "[::1]:9": true, "192.0.2.7:9": false, "": false} {
		r.RemoteAddr = address
		_, p := g.admit(r, &route{scope: ScopeRead})
		require.Equal(t, local, p == nil, address)
	}
	require.False(t, Loopback(":7070"))
	require.False(t, Loopback("0.0.0.0:7070"))
	require.True(t, Loopback("127.0.0.1:7070"))
}
