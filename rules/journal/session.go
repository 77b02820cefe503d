package journal

import (
	"encoding/json"

	"github.com/troupe-run/troupe/messages"
)

// What an entry about a session says in What.
const (
	SessionBound    = "bound"
	SessionUnbound  = "unbound"
	SessionRestored = "restored" // a run had its state back from a snapshot, which changes no binding
	SessionLost     = "lost"     // a run was told that its state was lost, or ended for it; that changes no binding by itself
)

// SessionDetail is what an entry about a session says in Detail.
type SessionDetail struct {
	Epoch       int64                `json:"epoch"`
	Incarnation messages.Incarnation `json:"incarnation"` // of the worker's node
	Slot        messages.Slot        `json:"slot"`
	Worker      messages.WorkerID    `json:"worker,omitempty"`
	Lost        bool                 `json:"lost,omitempty"`     // of SessionBound: its worker has no state of the session, unless it gets a snapshot
	Execution   messages.ExecutionID `json:"execution,omitzero"` // of SessionRestored and SessionLost: the run
}

// LossDetail is what SessionLost says in Detail of an execution that ended for it, without a worker.
type LossDetail struct {
	Execution messages.ExecutionID `json:"execution"`
}

// OfSession makes an entry about a pool's session, with a detail that is one of this package's.
func OfSession(pool, session, what, reason string, d any) messages.JournalEntry {
	e := messages.JournalEntry{Kind: messages.JournalSession, Subject: pool + "/" + session, What: what, Reason: reason}
	if detail, err := json.Marshal(d); err == nil { // it always encodes
		e.Detail = detail
	}
	return e
}
