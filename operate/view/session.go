package view

import (
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Session is one session as it stands.
type Session struct {
	store.Session
	// Affinity says whom the session's next execution is placed on: bound (its worker), session_expired (the binding has idled
	// out: any worker, and the state is lost), or no_affinity (it has no binding: any worker).
	Affinity string `json:"affinity,omitempty"`
	// Execution is what is placed or runs in the session; zero: it is idle.
	Execution messages.ExecutionID `json:"execution,omitzero"`
}

// What Session.Affinity says.
const (
	AffinityBound   = "bound"
	AffinityExpired = "session_expired"
	NoAffinity      = "no_affinity"
)
