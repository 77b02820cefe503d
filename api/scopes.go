package api

import (
	"slices"
	"strings"
)

// Scope is what a caller may do. Each route needs one of them.
type Scope string

// The scopes. An open route needs none.
const (
	ScopeOpen    Scope = ""
	ScopeRead    Scope = "read"    // sees everything
	ScopeSubmit  Scope = "submit"  // submits, and follows and cancels what it submitted itself
	ScopeOperate Scope = "operate" // cancels and retries what anybody submitted, ends sessions, reloads; sees everything
	ScopeAdmin   Scope = "admin"   // does everything; only it drains, kills and cordons
)

// grants is what each scope allows, itself included. Who steers others' work sees it, so operate includes read.
var grants = map[Scope][]Scope{
	ScopeRead:    {ScopeRead},
	ScopeSubmit:  {ScopeSubmit},
	ScopeOperate: {ScopeOperate, ScopeRead},
	ScopeAdmin:   {ScopeAdmin, ScopeOperate, ScopeSubmit, ScopeRead},
}

// Scopes are all that a caller can be given, from the least to the most.
func Scopes() []Scope { return []Scope{ScopeRead, ScopeSubmit, ScopeOperate, ScopeAdmin} }

// access is how far a caller may use a route.
type access int

const (
	accessNone access = iota
	accessOwn         // for executions that the caller submitted itself
	accessAll
)

// accessOf decides how far a caller with these scopes may use a route.
func accessOf(scopes []Scope, rt *route) access {
	if rt.scope == ScopeOpen {
		return accessAll
	}
	found := accessNone
	for _, s := range scopes {
		if slices.Contains(grants[s], rt.scope) {
			return accessAll
		}
		if rt.own && slices.Contains(grants[s], ScopeSubmit) {
			found = accessOwn
		}
	}
	return found
}

// needs says in words who may use the route.
func (rt *route) needs() string {
	switch {
	case rt.scope == ScopeOpen:
		return "open"
	case rt.own:
		return string(rt.scope) + "; " + string(ScopeSubmit) + " for its own"
	}
	return string(rt.scope)
}

// lacking lists a caller's scopes for a refusal.
func lacking(scopes []Scope) string {
	words := make([]string, len(scopes))
	for i, s := range scopes {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}
