package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Scope is what a token allows. Admin includes the others; submit does not include read.
type Scope string

// The scopes. An open route needs none.
const (
	ScopeOpen   Scope = ""
	ScopeRead   Scope = "read"
	ScopeSubmit Scope = "submit"
	ScopeAdmin  Scope = "admin"
)

// Token is one bearer token. Name is shown as created_by and in logs; Secret never is.
type Token struct {
	Name   string
	Secret string
	Scopes []Scope
}

// localCaller is who a request without tokens is from.
const localCaller = "local"

// guard decides who may do what. Without tokens only this machine may, and a browser only from the node's own page.
type guard struct {
	tokens []hashedToken
	origin *http.CrossOriginProtection
}

type hashedToken struct {
	name   string
	digest [sha256.Size]byte
	scopes []Scope
}

func newGuard(tokens []Token) *guard {
	g := &guard{origin: http.NewCrossOriginProtection()}
	for _, t := range tokens {
		g.tokens = append(g.tokens, hashedToken{name: t.Name, digest: sha256.Sum256([]byte(t.Secret)), scopes: t.Scopes})
	}
	return g
}

// admit returns who the caller is, or why the request is refused.
func (g *guard) admit(r *http.Request, need Scope) (string, *Problem) {
	if len(g.tokens) > 0 {
		return g.byToken(r, need)
	}
	if need == ScopeOpen {
		return localCaller, nil
	}
	if !loopback(r.RemoteAddr) {
		return "", problemf(http.StatusForbidden, CodeForbidden,
			"without tokens this node answers its own machine alone; configure tokens to call it from elsewhere")
	}
	if !loopback(r.Host) {
		return "", problemf(http.StatusForbidden, CodeForbidden,
			"the Host header %q is not this machine's; call the node as localhost or 127.0.0.1", clip(r.Host))
	}
	if err := g.origin.Check(r); err != nil {
		return "", problemf(http.StatusForbidden, CodeForbidden, "a page of another origin may not call this node")
	}
	return localCaller, nil
}

func (g *guard) byToken(r *http.Request, need Scope) (string, *Problem) {
	if need == ScopeOpen {
		return "", nil
	}
	kind, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") || secret == "" {
		return "", problemf(http.StatusUnauthorized, CodeUnauthorized, "this node wants a token: send Authorization: Bearer TOKEN")
	}
	t := g.find(strings.TrimSpace(secret))
	if t == nil {
		return "", problemf(http.StatusUnauthorized, CodeUnauthorized, "the token is not known here")
	}
	if !t.may(need) {
		return "", problemf(http.StatusForbidden, CodeForbidden, "token %q lacks the scope %q that this needs", t.name, need)
	}
	return t.name, nil
}

// find compares with every token, in a time that does not depend on which one fits.
func (g *guard) find(secret string) *hashedToken {
	digest := sha256.Sum256([]byte(secret))
	found := -1
	for i := range g.tokens {
		same := subtle.ConstantTimeCompare(digest[:], g.tokens[i].digest[:])
		found = subtle.ConstantTimeSelect(same, i, found)
	}
	if found < 0 {
		return nil
	}
	return &g.tokens[found]
}

func (t *hashedToken) may(need Scope) bool {
	for _, s := range t.scopes {
		if s == need || s == ScopeAdmin {
			return true
		}
	}
	return false
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
