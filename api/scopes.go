package api

import (
	"slices"
	"strings"
)

// Scope is a right of a caller. Each route needs one scope.
type Scope string

// The scopes. An open route needs none.
const (
	ScopeOpen    Scope = ""
	ScopeAny     Scope = "any"     // needed by routes that every known caller may use; no token has it
	ScopeRead    Scope = "read"    // reads everything
	ScopeSubmit  Scope = "submit"  // submits, and follows and cancels its own executions
	ScopeOperate Scope = "operate" // cancels and retries any execution, ends sessions, reloads; reads everything
	ScopeAdmin   Scope = "admin"   // may do everything; only this scope drains, kills and cordons
)

// grants lists the scopes that each scope includes, itself too. operate includes read, because it acts on executions of
// others.
var grants = map[Scope][]Scope{
	ScopeRead:    {ScopeRead},
	ScopeSubmit:  {ScopeSubmit},
	ScopeOperate: {ScopeOperate, ScopeRead},
	ScopeAdmin:   {ScopeAdmin, ScopeOperate, ScopeSubmit, ScopeRead},
}

// Scopes returns all scopes, from the least to the most powerful.
func Scopes() []Scope { return []Scope{ScopeRead, ScopeSubmit, ScopeOperate, ScopeAdmin} }

// access says for which executions a caller may use a route.
type access int

const (
	accessNone access = iota
	accessOwn         // for executions that the caller submitted itself
	accessAll
)

// accessOf decides the access of a caller with these scopes to a route.
func accessOf(scopes []Scope, rt *route) access {
	if rt.scope == ScopeOpen {
		return accessAll
	}
	if rt.scope == ScopeAny && len(scopes) > 0 {
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

// needs describes for people which scopes may use the route.
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
