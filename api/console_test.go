package api

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

const (
	mePath     = "/api/v1/me"
	loginPath  = "/api/v1/login"
	logoutPath = "/api/v1/logout"
)

// oneKey are the keys of nodes of one store.
func oneKey(text string) LoginKeys {
	return func(context.Context) [][]byte { return [][]byte{[]byte(text)} }
}

func consoleTokens() []Token {
	return []Token{
		{Name: "boss", Secret: adminToken, Scopes: []Scope{ScopeAdmin}},
		{Name: "viewer", Secret: HashToken(readToken), Scopes: []Scope{ScopeRead}},
	}
}

// logIn logs in and returns the cookie.
func logIn(t *testing.T, h http.Handler, token string) *http.Cookie {
	t.Helper()
	w := ask(t, h, "POST", loginPath, `{"token":"`+token+`"}`)
	require.Equal(t, 204, w.Code, w.Body.String())
	require.Empty(t, w.Body.String())
	require.Len(t, w.Result().Cookies(), 1)
	return w.Result().Cookies()[0]
}

func withCookie(c *http.Cookie, more ...string) []string {
	return append([]string{"Cookie", c.Name + "=" + c.Value}, more...)
}

func TestMeSaysWhoTheCallerIs(t *testing.T) {
	t.Parallel()
	about := About{Node: "n1", Store: "sqlite", Build: "b1"}
	local := New(Config{Backend: newBackend(t), About: about, Version: "1.2"})
	require.Equal(t, MeView{Name: "local", Scopes: Scopes(), Via: "local", Mode: "full", Payloads: "click", Version: "1.2", Build: "b1", Node: "n1", Store: "sqlite"},
		read[MeView](t, ask(t, local, "GET", mePath, ""), 200))
	h := New(Config{Backend: newBackend(t), Access: withTokens(t, consoleTokens()), Console: Console{Mode: ConsoleReadOnly, Payloads: PayloadsHide}})
	me := read[MeView](t, ask(t, h, "GET", mePath, "", "Authorization", "Bearer "+readToken), 200)
	require.Equal(t, MeView{Name: "viewer", Scopes: []Scope{ScopeRead}, Via: "token", Mode: "read_only", Payloads: "hide", Version: "dev"}, me)
	refused(t, ask(t, h, "GET", mePath, ""), 401, messages.CodeUnauthorized, "wants a token")
}

// What a script, another site or a plain connection could do with the cookie, it says against.
func TestALoginIsACookieForTheNodesOfItsStore(t *testing.T) {
	t.Parallel()
	now := time.Now()
	access := withTokens(t, consoleTokens())
	access.now = func() time.Time { return now }
	node := func(keys LoginKeys, access *Access) http.Handler {
		return New(Config{Backend: newBackend(t), Access: access, LoginKeys: keys})
	}
	h := node(oneKey("k"), access)
	c := logIn(t, h, adminToken)
	require.True(t, c.HttpOnly)
	require.False(t, c.Secure, "the connection is in clear, and a browser would drop it")
	require.Equal(t, http.SameSiteStrictMode, c.SameSite)
	require.Equal(t, "/", c.Path)
	require.Equal(t, 12*60*60, c.MaxAge)
	require.NotContains(t, c.Value, base64.RawURLEncoding.EncodeToString([]byte(adminToken)))

	me := read[MeView](t, ask(t, h, "GET", mePath, "", withCookie(c)...), 200)
	require.Equal(t, "boss", me.Name)
	require.Equal(t, "cookie", me.Via)
	require.Equal(t, now.Add(12*time.Hour).Unix(), me.ExpiresAt.Unix())
	read[MeView](t, ask(t, node(oneKey("k"), access), "GET", mePath, "", withCookie(c)...), 200) // another node
	rotated := func(context.Context) [][]byte { return [][]byte{[]byte("new"), []byte("k")} }
	read[MeView](t, ask(t, node(rotated, access), "GET", mePath, "", withCookie(c)...), 200)
	other := node(oneKey("other"), access)
	require.Equal(t, 401, ask(t, other, "GET", mePath, "", withCookie(c)...).Code)
	require.NotEqual(t, c.Name, logIn(t, other, adminToken).Name, "browsers send the cookies of all ports")
	without := withTokens(t, consoleTokens()[1:])
	require.Equal(t, 401, ask(t, node(oneKey("k"), without), "GET", mePath, "", withCookie(c)...).Code, "a removed token ends its logins")
	replaced := withTokens(t, []Token{{Name: "boss", Secret: stageToken, Scopes: []Scope{ScopeAdmin}}})
	require.Equal(t, 401, ask(t, node(oneKey("k"), replaced), "GET", mePath, "", withCookie(c)...).Code)

	now = now.Add(12*time.Hour - time.Second)
	read[MeView](t, ask(t, h, "GET", mePath, "", withCookie(c)...), 200)
	now = now.Add(2 * time.Second)
	require.Equal(t, 401, ask(t, h, "GET", mePath, "", withCookie(c)...).Code)
}

func TestALoginEndsWithItsToken(t *testing.T) {
	t.Parallel()
	ends := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	h := New(Config{Backend: newBackend(t), Access: withTokens(t, []Token{{Name: "a", Secret: adminToken, Scopes: []Scope{ScopeRead}, Expires: ends}})})
	c := logIn(t, h, adminToken)
	require.LessOrEqual(t, c.MaxAge, 60*60)
	require.Equal(t, ends, read[MeView](t, ask(t, h, "GET", mePath, "", withCookie(c)...), 200).ExpiresAt)
}

func TestACookieThatWasChangedIsNone(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t), Access: withTokens(t, consoleTokens()), LoginKeys: oneKey("k")})
	c := logIn(t, h, readToken)
	parts := strings.Split(c.Value, ".")
	boss := base64.RawURLEncoding.EncodeToString([]byte("boss"))
	for _, value := range []string{
		"", "a.b.c", parts[0] + "." + parts[1], boss + "." + parts[1] + "." + parts[2], parts[0] + ".99999999999." + parts[2],
		parts[0] + "." + parts[1] + ".", strings.Repeat("x", 5000), c.Value + ".x",
	} {
		w := ask(t, h, "GET", mePath, "", "Cookie", c.Name+"="+value)
		require.Equal(t, 401, w.Code, value)
	}
	require.Equal(t, 403, ask(t, h, "POST", "/api/v1/pools/go/cordon", "", withCookie(c)...).Code, "a login has the scopes of its token")
	w := ask(t, h, "GET", mePath, "", "Cookie", c.Name+"=bad; "+cookiePrefix+"ffffffff=other; "+c.Name+"="+c.Value)
	require.Equal(t, 200, w.Code, "it may be beside others")
}

// The attack: a page of another port of this host, to which browsers send the cookie, changes something.
func TestARequestByCookieIsOfTheOwnPage(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t), Access: withTokens(t, consoleTokens())})
	c := logIn(t, h, adminToken)
	cordon := "/api/v1/pools/go/cordon"
	refused(t, ask(t, h, "POST", cordon, "", withCookie(c, "Sec-Fetch-Site", "same-site")...), 403, messages.CodeForbidden, "another origin")
	refused(t, ask(t, h, "POST", cordon, "", withCookie(c, "Origin", "http://127.0.0.1:9")...), 403, messages.CodeForbidden, "another origin")
	refused(t, ask(t, h, "POST", loginPath, `{"token":"`+adminToken+`"}`, "Sec-Fetch-Site", "cross-site"), 403, messages.CodeForbidden, "another origin")
	refused(t, ask(t, h, "POST", logoutPath, "", withCookie(c, "Sec-Fetch-Site", "cross-site")...), 403, messages.CodeForbidden, "another origin")
	for _, read := range []string{executionsPath, "/api/v1/me", "/api/v1/stream?topics=tree", "/api/v1/pools", "/metrics", "/debug/actors"} {
		for _, header := range [][]string{
			{"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "odd"}, {"Origin", "http://127.0.0.1:9"}, {"Origin", "null"},
			{"Sec-Fetch-Site", "cross-site", "Origin", "http://example.com"},
		} {
			refused(t, ask(t, h, "GET", read, "", withCookie(c, header...)...), 403, messages.CodeForbidden, "another origin")
		}
	}
	for _, header := range [][]string{
		nil, {"Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "none"}, {"Origin", "http://127.0.0.1:7070"},
		{"Sec-Fetch-Site", "same-origin", "Origin", "https://in-front-of-a-proxy.example"},
	} {
		require.Equal(t, 200, ask(t, h, "GET", "/api/v1/me", "", withCookie(c, header...)...).Code, header)
	}
	require.Equal(t, 200, ask(t, h, "POST", cordon, "", withCookie(c, "Sec-Fetch-Site", "same-origin")...).Code)
	require.Equal(t, 200, ask(t, h, "POST", cordon, "", "Authorization", "Bearer "+adminToken, "Sec-Fetch-Site", "cross-site").Code,
		"a token is sent by nobody but who has it")
}

// No page of another origin gets an answer as an image or a script, whatever the answer is.
func TestAnswersAreOfTheOwnOriginOnly(t *testing.T) {
	t.Parallel()
	cfg := Config{Backend: newBackend(t), Access: withTokens(t, consoleTokens()), BasePath: "/ops"}
	for name, h := range map[string]http.Handler{"api": New(cfg), "health": NewHealth(cfg)} {
		for _, path := range []string{"/healthz", "/openapi.json", "/api/v1/executions", "/nowhere", "/console/", "//", "/ops", "/ops/api/v1/me"} {
			require.Equal(t, "same-origin", ask(t, h, "GET", path, "").Header().Get("Cross-Origin-Resource-Policy"), name+path)
		}
		require.Equal(t, "same-origin", ask(t, h, "BREW", "/healthz", "").Header().Get("Cross-Origin-Resource-Policy"), name)
	}
}

func TestALogoutRemovesTheCookieOfThisStore(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t), Access: withTokens(t, consoleTokens())})
	c := logIn(t, h, adminToken)
	w := ask(t, h, "POST", logoutPath, "", withCookie(c)...)
	require.Equal(t, 204, w.Code)
	gone := w.Result().Cookies()
	require.Len(t, gone, 1)
	require.Equal(t, c.Name, gone[0].Name)
	require.Negative(t, gone[0].MaxAge)
	w = ask(t, h, "POST", logoutPath, "", "Cookie", cookiePrefix+"ffffffff=other")
	require.Equal(t, 204, w.Code)
	require.Empty(t, w.Result().Cookies())
}

func TestACookieIsSecureUnderTLS(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t), Access: withTokens(t, consoleTokens())})
	for name, change := range map[string]func(*http.Request){
		"tls":   func(r *http.Request) { r.TLS = &tls.ConnectionState{} },
		"proxy": func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", "https") },
	} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", loginPath, strings.NewReader(`{"token":"`+adminToken+`"}`))
		r.Header.Set("Content-Type", "application/json")
		change(r)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, 204, w.Code, name)
		require.True(t, w.Result().Cookies()[0].Secure, name)
	}
}

func TestWrongTokensAreBoundedByAddress(t *testing.T) {
	t.Parallel()
	now := time.Now()
	access := withTokens(t, consoleTokens())
	access.now = func() time.Time { return now }
	h := New(Config{Backend: newBackend(t), Access: access})
	try := func(token, from string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), "POST", loginPath, strings.NewReader(`{"token":"`+token+`"}`))
		r.Header.Set("Content-Type", "application/json")
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for range 20 {
		require.Equal(t, 204, try(adminToken, "10.0.0.1:1").Code, "right ones are not counted")
	}
	for i := range 5 {
		refused(t, try("wrong", fmt.Sprint("10.0.0.1:", i+1)), 401, messages.CodeUnauthorized, "not known")
	}
	w := try(adminToken, "10.0.0.1:9")
	refused(t, w, 429, messages.CodeTooManyRequests, "5 wrong tokens")
	require.Equal(t, "61", w.Header().Get("Retry-After"))
	require.Equal(t, 204, try(adminToken, "10.0.0.2:1").Code)
	now = now.Add(time.Minute)
	require.Equal(t, 204, try(adminToken, "10.0.0.1:9").Code)
}

func TestGuessesAreOfBoundedSize(t *testing.T) {
	t.Parallel()
	var g guesses
	now := time.Now()
	for i := range 2 * guessersMax {
		require.Zero(t, g.spend(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), now.Add(time.Duration(i))))
	}
	require.Len(t, g.by, guessersMax)
	last := netip.AddrFrom4([4]byte{10, 0, 31, 255})
	require.Contains(t, g.by, last, "the one that tried least recently goes first")
	require.Zero(t, g.spend(netip.MustParseAddr("::1"), now.Add(time.Hour)))
	require.Len(t, g.by, 1)
	for remote, want := range map[string]string{
		"10.1.2.3:99": "10.1.2.3", "[::ffff:10.1.2.3]:99": "10.1.2.3", "[2001:db8:1:2:3:4:5:6]:99": "2001:db8:1:2::", "[fe80::1%eth0]:9": "fe80::", "odd": "invalid IP",
	} {
		require.Equal(t, want, guesser(remote).String(), remote)
	}
}

func TestAReadOnlyConsoleChangesNothing(t *testing.T) {
	t.Parallel()
	cordon := "/api/v1/pools/go/cordon"
	config := Config{Backend: newBackend(t), Access: withTokens(t, consoleTokens()), Console: Console{Mode: ConsoleReadOnly}}
	h := New(config)
	c := logIn(t, h, adminToken)
	refused(t, ask(t, h, "POST", cordon, "", withCookie(c)...), 403, messages.CodeForbidden, "console.mode: read_only")
	require.Equal(t, 200, ask(t, h, "GET", "/api/v1/pools", "", withCookie(c)...).Code)
	require.Equal(t, 204, ask(t, h, "POST", logoutPath, "", withCookie(c)...).Code)
	require.Equal(t, 200, ask(t, h, "POST", cordon, "", "Authorization", "Bearer "+adminToken).Code)

	config.Access = nil
	h = New(config)
	refused(t, ask(t, h, "POST", cordon, "", "Origin", "http://127.0.0.1:7070"), 403, messages.CodeForbidden, "read_only")
	refused(t, ask(t, h, "POST", cordon, "", "Sec-Fetch-Site", "same-origin"), 403, messages.CodeForbidden, "read_only")
	require.Equal(t, 200, ask(t, h, "POST", cordon, "").Code)
	refused(t, ask(t, h, "POST", loginPath, `{"token":"x"}`), 400, messages.CodeInvalidRequest, "no tokens")
}

func TestAConsoleThatIsOffTakesNoLogin(t *testing.T) {
	t.Parallel()
	config := Config{Backend: newBackend(t), Access: withTokens(t, consoleTokens()), LoginKeys: oneKey("k"),
		ConsolePage: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })}
	full := New(config)
	c := logIn(t, full, adminToken)
	config.Console.Mode = ConsoleOff
	h := New(config)
	refused(t, ask(t, h, "POST", loginPath, `{"token":"`+adminToken+`"}`), 403, messages.CodeForbidden, "off")
	require.Equal(t, 401, ask(t, h, "GET", mePath, "", withCookie(c)...).Code)
	require.Equal(t, 404, ask(t, h, "GET", "/console/", "").Code)

	require.Equal(t, http.StatusTeapot, ask(t, full, "GET", "/console/executions/x", "").Code)
	for path, leads := range map[string]string{"/": "/console/", "/console": "/console/", "/debug/tree": "/console/tree"} {
		w := ask(t, full, "GET", path, "", "Accept", "text/html,*/*")
		require.Equal(t, http.StatusFound, w.Code, path)
		require.Equal(t, leads, w.Header().Get("Location"))
		require.Equal(t, 404, ask(t, h, "GET", path, "", "Accept", "text/html,*/*").Code, "it is off")
	}
	require.Equal(t, 404, ask(t, full, "GET", "/", "", "Accept", "application/json").Code)
	require.Equal(t, 404, ask(t, New(Config{Backend: newBackend(t)}), "GET", "/", "", "Accept", "text/html").Code, "there is no page")
}

func TestLargeAnswersAreCompressedWhereAskedFor(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b})
	for range 40 {
		ask(t, h, "POST", executionsPath, `{"action_ref":"a"}`)
	}
	plain := ask(t, h, "GET", executionsPath, "")
	require.Empty(t, plain.Header().Get("Content-Encoding"))
	w := ask(t, h, "GET", executionsPath, "", "Accept-Encoding", "br, gzip;q=0.8")
	require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))
	require.Equal(t, "Accept-Encoding", w.Header().Get("Vary"))
	require.Less(t, w.Body.Len(), plain.Body.Len()/3)
	z, err := gzip.NewReader(w.Body)
	require.NoError(t, err)
	var list, want ExecutionList
	require.NoError(t, json.NewDecoder(z).Decode(&list))
	require.NoError(t, json.NewDecoder(plain.Body).Decode(&want))
	require.Equal(t, want, list)
	require.Empty(t, ask(t, h, "GET", mePath, "", "Accept-Encoding", "gzip").Header().Get("Content-Encoding"), "it is small")
	for _, no := range []string{"gzip;q=0", "br", "x-gzip-2", "", "gzip;q=x"} {
		require.Empty(t, ask(t, h, "GET", executionsPath, "", "Accept-Encoding", no).Header().Get("Content-Encoding"), no)
	}
}
