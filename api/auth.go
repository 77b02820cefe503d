package api

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// guard decides who may use which route. Without tokens only callers on this machine may, and a browser only from the
// node's own page.
type guard struct {
	access *Access
	mode   string // of the console
	keys   LoginKeys
}

func newGuard(cfg *Config) *guard {
	return &guard{access: cfg.Access, mode: cfg.Console.Mode, keys: cfg.LoginKeys}
}

// caller is the sender of a request.
type caller struct {
	name  string // empty: not known
	own   bool   // it may use the route only for executions that it submitted itself
	blind bool   // it may not read executions of others

	via    string
	scopes []Scope
	ends   time.Time // of its login or token; zero: never
}

// admit returns the caller, or why the request is refused. It returns both if a known caller lacks the scope.
func (g *guard) admit(r *http.Request, rt *route) (caller, *messages.Problem) {
	if g.access.restricted() {
		return g.byToken(r, rt)
	}
	local := caller{name: localCaller, via: viaLocal, scopes: []Scope{ScopeAdmin}}
	if rt.scope == ScopeOpen {
		return local, nil
	}
	if p := g.foreign(r); p != nil {
		return caller{}, p
	}
	return local, g.readOnly(r, rt, fromBrowser(r))
}

// fromBrowser reports whether a browser sent the request for a page. Every browser says so where it sends anything but a GET.
func fromBrowser(r *http.Request) bool {
	return r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != ""
}

// readOnly refuses a change by the console where the node lets it only look.
func (g *guard) readOnly(r *http.Request, rt *route, console bool) *messages.Problem {
	if !console || g.mode != ConsoleReadOnly || rt.method == http.MethodGet {
		return nil
	}
	return messages.Problemf(messages.CodeForbidden, "the console of this node changes nothing (console.mode: %s); use the command line or the API with a token", g.mode)
}

// ownPage refuses a request of another origin's page, whatever its method: http.CrossOriginProtection lets each GET pass, and an answer, its
// size or its time may tell a page what its user may see. Browsers send Sec-Fetch-Site over TLS and to this machine, and Origin with each call
// of a script to another origin. What the browser says counts before the Host, which a proxy may have changed. A request without
// both is of no page, or of an old browser, which hands over no answer with Cross-Origin-Resource-Policy.
func ownPage(r *http.Request) *messages.Problem {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none": // none: the address was typed, or is a bookmark
		return nil
	case "":
		origin := r.Header.Get("Origin")
		if at, err := url.Parse(origin); origin == "" || err == nil && at.Host == r.Host {
			return nil
		}
	}
	return messages.Problemf(messages.CodeForbidden, "a page of another origin may not call this node")
}

// foreign returns why a request to a node without tokens does not count as one of this machine, or nil.
func (g *guard) foreign(r *http.Request) *messages.Problem {
	if !loopback(r.RemoteAddr) {
		return messages.Problemf(messages.CodeForbidden,
			"without tokens this node answers its own machine alone; configure tokens to call it from elsewhere")
	}
	if !loopback(r.Host) {
		return messages.Problemf(messages.CodeForbidden,
			"the Host header %q is not this machine's; call the node as localhost or 127.0.0.1", clip(r.Host))
	}
	if name := proxyHeader(r.Header); name != "" {
		return messages.Problemf(messages.CodeForbidden,
			"the request has come through a proxy (%s), and without tokens this node answers its own machine alone; "+
				"configure tokens, or let the proxy's users call another way", clip(name))
	}
	return ownPage(r)
}

// proxyHeader returns the name of a header by which a proxy marks a forwarded request, or nothing. A forwarded request
// comes from this machine, but its real sender is not known.
func proxyHeader(h http.Header) string {
	for name := range h {
		switch {
		case name == "Forwarded", name == "Via", name == "X-Real-Ip", strings.HasPrefix(name, "X-Forwarded-"):
			return name
		}
	}
	return ""
}

func (g *guard) byToken(r *http.Request, rt *route) (caller, *messages.Problem) {
	if rt.scope == ScopeOpen {
		return caller{}, nil
	}
	t, who, refused := g.identify(r)
	if refused != nil {
		return caller{}, refused
	}
	if t.ended(g.access.now()) {
		return caller{}, messages.Problemf(messages.CodeUnauthorized,
			"token %q has ended at %s; ask whoever runs this node for a new one", t.name, t.expires.UTC().Format(time.RFC3339))
	}
	if who.ends.IsZero() || !t.expires.IsZero() && t.expires.Before(who.ends) {
		who.ends = t.expires
	}
	who.name, who.scopes = t.name, t.scopes
	if p := g.readOnly(r, rt, who.via == viaCookie); p != nil {
		return who, p
	}
	who.blind = accessOf(t.scopes, &route{scope: ScopeRead}) != accessAll
	switch accessOf(t.scopes, rt) {
	case accessAll:
		return who, nil
	case accessOwn:
		who.own = true
		return who, nil
	}
	return who, messages.Problemf(messages.CodeForbidden,
		"token %q lacks the scope %q that this needs; it has %s", t.name, rt.scope, lacking(t.scopes))
}

// identify finds the caller by the request's token, or else by the login of its cookies, or else by the certificate of its connection.
func (g *guard) identify(r *http.Request) (*hashedToken, caller, *messages.Problem) {
	given := r.Header.Get("Authorization")
	if given == "" {
		if t, ends := g.byCookie(r); t != nil {
			if p := ownPage(r); p != nil {
				return nil, caller{}, p
			}
			return t, caller{via: viaCookie, ends: ends}, nil
		}
	}
	if given == "" && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		t, refused := g.byCertificate(r)
		return t, caller{via: viaCertificate}, refused
	}
	kind, secret, _ := strings.Cut(given, " ")
	if !strings.EqualFold(kind, "Bearer") || secret == "" {
		return nil, caller{}, messages.Problemf(messages.CodeUnauthorized, "this node wants a token: send Authorization: Bearer TOKEN")
	}
	if t := g.access.find(strings.TrimSpace(secret)); t != nil {
		return t, caller{via: viaToken}, nil
	}
	return nil, caller{}, messages.Problemf(messages.CodeUnauthorized, "the token is not known here")
}

// byCookie finds the token of a login, and when the login ends; nil: the request has none that holds.
func (g *guard) byCookie(r *http.Request) (*hashedToken, time.Time) {
	cookies := loginCookies(r)
	if len(cookies) == 0 || g.mode == ConsoleOff {
		return nil, time.Time{}
	}
	keys, tokens, now := g.keys(r.Context()), g.access.tokens(), g.access.now()
	for _, c := range cookies {
		if t, ends := openLogin(keys, tokens, c.Value, now); t != nil {
			return t, ends
		}
	}
	return nil, time.Time{}
}

// byCertificate finds the entry of a client's certificate. The handshake has verified the certificate. Other checks are
// needed here, because a browser also sends it for requests of other sites' pages, and a connection may outlive it.
func (g *guard) byCertificate(r *http.Request) (*hashedToken, *messages.Problem) {
	cert := r.TLS.PeerCertificates[0]
	if now := g.access.now(); now.After(cert.NotAfter) {
		return nil, messages.Problemf(messages.CodeUnauthorized, "the client's certificate has ended at %s", cert.NotAfter.UTC().Format(time.RFC3339))
	}
	if p := ownPage(r); p != nil {
		return nil, p
	}
	names := certificateNames(cert)
	if t := g.access.certified(names); t != nil {
		return t, nil
	}
	return nil, messages.Problemf(messages.CodeUnauthorized,
		"the client's certificate is good, and no entry of tokens names it; it has %s", clip(strings.Join(names, ", ")))
}

// loopback reports whether a host, with or without a port, is this machine by its own address or name. A name that only
// resolves to it does not count, because a page of another site could reach the node that way.
func loopback(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") || strings.EqualFold(host, "localhost.") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// Loopback reports whether a listen address is reachable only from this machine. An address without a host, as in
// ":7070", is not.
func Loopback(listen string) bool { return loopback(listen) }
