package rollup

import (
	"fmt"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// A submission is counted up to a second after it is stored, by the node's reading of the store's clock. So the counts of a time are compared
// with what was stored from LedgerBefore before it to LedgerAfter behind it.
const (
	LedgerBefore = 3 * time.Second
	LedgerAfter  = time.Second
)

// Ledger says what became of the executions that were requested in a time, and whether any is missing.
type Ledger struct {
	From  time.Time `json:"from"`
	To    time.Time `json:"to" doc:"what was requested before it is counted"`
	Until time.Time `json:"until,omitzero" doc:"to is earlier than was asked for, because more are not counted at once; ask again from here"`

	Accepted int64         `json:"accepted" doc:"executions in the store that were requested in the time"`
	Retries  int64         `json:"retries" doc:"of accepted: made as the retry of another one"`
	Ended    []StatusCount `json:"ended" doc:"of accepted: by how they ended"`
	Open     []StatusCount `json:"open" doc:"of accepted: not ended, by where they stand"`

	Repeated  int64 `json:"repeated" doc:"of accepted: a worker ended while it ran them"`
	TakenBack int64 `json:"taken_back" doc:"of accepted: taken back from a worker that had not claimed them"`
	StateLost int64 `json:"state_lost" doc:"of accepted: told that the state of their session was lost"`

	Counted int64    `json:"counted" doc:"submissions and retries that the nodes counted when they stored them"`
	Missing int64    `json:"missing" doc:"how many more the nodes counted than the store has; 0: none is missing"`
	AddsUp  bool     `json:"adds_up" doc:"none is missing"`
	Notes   []string `json:"notes,omitempty" doc:"what limits the comparison"`
}

// StatusCount is a number of executions.
type StatusCount struct {
	Status messages.Status `json:"status"`
	N      int64           `json:"n"`
}

// NewLedger puts a ledger together. In are the executions of the time, around the number of those that were requested shortly before and
// behind it, and counted the nodes' number of submissions. Kept is from when on no execution was deleted that has ended; zero: none is ever.
func NewLedger(from, to time.Time, in []Requested, around, counted int64, kept time.Time) *Ledger {
	l := &Ledger{From: from, To: to, Ended: []StatusCount{}, Open: []StatusCount{}, Counted: counted}
	for _, s := range in {
		l.Accepted += s.N
		l.Retries, l.Repeated = l.Retries+s.Retries, l.Repeated+s.Repeated
		l.TakenBack, l.StateLost = l.TakenBack+s.TakenBack, l.StateLost+s.StateLost
		if s.Status.Terminal() {
			l.Ended = append(l.Ended, StatusCount{s.Status, s.N})
		} else {
			l.Open = append(l.Open, StatusCount{s.Status, s.N})
		}
	}
	l.Missing = max(0, counted-l.Accepted-around)
	l.AddsUp = l.Missing == 0
	if from.Before(kept) {
		l.Notes = append(l.Notes, fmt.Sprintf("executions that ended before %s are deleted, so they may be missing here", kept.UTC().Format(time.RFC3339)))
	}
	if l.Accepted > counted {
		l.Notes = append(l.Notes, fmt.Sprintf("%d more are stored than the nodes counted: a program stored them in a transaction of its own, their "+
			"counts are not written yet (10 s), they were stored just before or after the time, or a node ended before it wrote its last counts", l.Accepted-counted))
	}
	return l
}

// Requested counts the executions of one status that were requested in a time.
type Requested struct {
	Status    messages.Status
	N         int64
	Retries   int64 // of them, made as the retry of another one
	Repeated  int64 // of them, interrupted at least once by the end of a worker
	TakenBack int64 // of them, taken back at least once from a worker that did not claim
	StateLost int64 // of them, told that their session's state was lost
}
