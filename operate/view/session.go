package view

import (
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Session is the current state of a session.
type Session struct {
	store.Session
	// Affinity says where the session's next execution is placed: bound (on its worker), session_expired (on any
	// worker, because the binding was idle too long; the state is lost), or no_affinity (on any worker, because there
	// is no binding).
	Affinity string `json:"affinity,omitempty"`
	// Execution is the execution that is placed or runs in the session; zero: the session is idle.
	Execution messages.ExecutionID `json:"execution,omitzero"`
}

// What Session.Affinity says.
const (
	AffinityBound   = "bound"
	AffinityExpired = "session_expired"
	NoAffinity      = "no_affinity"
)
