package api

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// guard decides who may do what. Without tokens only this machine may, and a browser only from the node's own page.
type guard struct {
	access *Access
	origin *http.CrossOriginProtection
}

func newGuard(access *Access) *guard {
	return &guard{access: access, origin: http.NewCrossOriginProtection()}
}

// caller is who makes a request.
type caller struct {
	name  string // empty: nobody knows
	own   bool   // it may do this with what it submitted itself, and nothing else
	blind bool   // it may not read what others submitted
}

// admit returns who the caller is, or why the request is refused; both where a caller who is known may not do this.
func (g *guard) admit(r *http.Request, rt *route) (caller, *messages.Problem) {
	if g.access.restricted() {
		return g.byToken(r, rt)
	}
	if rt.scope == ScopeOpen {
		return caller{name: localCaller}, nil
	}
	if p := g.foreign(r); p != nil {
		return caller{}, p
	}
	return caller{name: localCaller}, nil
}

// foreign says why a request to a node without tokens is not taken for one of this machine.
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
	if err := g.origin.Check(r); err != nil {
		return messages.Problemf(messages.CodeForbidden, "a page of another origin may not call this node")
	}
	return nil
}

// proxyHeader returns the name of a header by which a proxy says that the request is somebody else's; empty: none has. Such a
// request comes from this machine, and whom it is from nobody here can tell.
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
	t, refused := g.identify(r)
	if refused != nil {
		return caller{}, refused
	}
	if t.ended(g.access.now()) {
		return caller{}, messages.Problemf(messages.CodeUnauthorized,
			"token %q has ended at %s; ask whoever runs this node for a new one", t.name, t.expires.UTC().Format(time.RFC3339))
	}
	blind := accessOf(t.scopes, &route{scope: ScopeRead}) != accessAll
	switch accessOf(t.scopes, rt) {
	case accessAll:
		return caller{name: t.name, blind: blind}, nil
	case accessOwn:
		return caller{name: t.name, blind: blind, own: true}, nil
	}
	return caller{name: t.name}, messages.Problemf(messages.CodeForbidden,
		"token %q lacks the scope %q that this needs; it has %s", t.name, rt.scope, lacking(t.scopes))
}

// identify finds who calls: by the token that the request shows, or else by the certificate of its connection.
func (g *guard) identify(r *http.Request) (*hashedToken, *messages.Problem) {
	given := r.Header.Get("Authorization")
	if given == "" && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return g.byCertificate(r)
	}
	kind, secret, _ := strings.Cut(given, " ")
	if !strings.EqualFold(kind, "Bearer") || secret == "" {
		return nil, messages.Problemf(messages.CodeUnauthorized, "this node wants a token: send Authorization: Bearer TOKEN")
	}
	if t := g.access.find(strings.TrimSpace(secret)); t != nil {
		return t, nil
	}
	return nil, messages.Problemf(messages.CodeUnauthorized, "the token is not known here")
}

// byCertificate finds the entry of a client's certificate, which the handshake has checked. A browser sends it for the pages of
// others too, and a connection may outlive it.
func (g *guard) byCertificate(r *http.Request) (*hashedToken, *messages.Problem) {
	cert := r.TLS.PeerCertificates[0]
	if now := g.access.now(); now.After(cert.NotAfter) {
		return nil, messages.Problemf(messages.CodeUnauthorized, "the client's certificate has ended at %s", cert.NotAfter.UTC().Format(time.RFC3339))
	}
	if err := g.origin.Check(r); err != nil {
		return nil, messages.Problemf(messages.CodeForbidden, "a page of another origin may not call this node")
	}
	names := certificateNames(cert)
	if t := g.access.certified(names); t != nil {
		return t, nil
	}
	return nil, messages.Problemf(messages.CodeUnauthorized,
		"the client's certificate is good, and no entry of tokens names it; it has %s", clip(strings.Join(names, ", ")))
}

// loopback reports whether a host, with or without a port, is this machine by its own address or name. A name that
// merely resolves to it is not: that is how a foreign page would reach the node.
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

// Loopback reports whether a listen address is reachable from this machine alone. An address without a host, as in
// ":7070", is not.
func Loopback(listen string) bool { return loopback(listen) }
