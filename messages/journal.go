package messages

import (
	"encoding/json"
	"time"
)

// JournalKind says what an entry of the journal is about.
type JournalKind string

// The kinds of entries. The comments say what the subject of each is.
const (
	JournalNode     JournalKind = "node"     // an incarnation: joined, draining, stopped, late, on_time, fenced, dead
	JournalPool     JournalKind = "pool"     // a pool: condition
	JournalRouter   JournalKind = "router"   // a pool: taken, given_up, alone, following
	JournalWorker   JournalKind = "worker"   // a worker's id: degraded, recovered, ended, restarted
	JournalSession  JournalKind = "session"  // pool/session: bound, unbound, restored, lost
	JournalServer   JournalKind = "server"   // store or broker: away, back, blocked
	JournalOperator JournalKind = "operator" // what the command named: the command
	JournalMark     JournalKind = "mark"     // a name that somebody gave to a moment: mark
	JournalGap      JournalKind = "gap"      // a kind of which entries are missing: dropped
)

// JournalKinds lists every kind.
func JournalKinds() []JournalKind {
	return []JournalKind{JournalNode, JournalPool, JournalRouter, JournalWorker, JournalSession, JournalServer, JournalOperator, JournalMark, JournalGap}
}

// JournalEntry is one event that belongs to no single execution. (Incarnation, Number) names it for ever.
type JournalEntry struct {
	At          time.Time       `json:"at"`          // by the store's clock, as the node estimates it
	Incarnation Incarnation     `json:"incarnation"` // the boot of the node that recorded it
	Number      int64           `json:"number"`      // counts the entries of that boot, from 1; of workers, see store.WorkerNumbers
	Kind        JournalKind     `json:"kind"`
	Subject     string          `json:"subject"`
	What        string          `json:"what"`
	Reason      string          `json:"reason,omitempty"`
	Caller      string          `json:"caller,omitempty"` // who asked for it; empty: nobody
	Detail      json.RawMessage `json:"detail,omitempty"` // a JSON object
}
