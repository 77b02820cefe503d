package rollup

import (
	"cmp"
	"fmt"
	"slices"
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
	Until time.Time `json:"until,omitzero" doc:"not all of the time that was asked for is compared, because more are not counted at once; ask again from here"`

	Accepted int64         `json:"accepted" doc:"executions that were requested in the time: ended, open and purged"`
	Ended    []StatusCount `json:"ended" doc:"of accepted, in the store: by how they ended"`
	Open     []StatusCount `json:"open" doc:"of accepted, in the store: not ended, by where they stand"`
	Purged   int64         `json:"purged" doc:"of accepted: ended, and deleted by retention"`
	// What limits the number of those that were deleted.
	PurgedFrom time.Time `json:"purged_from,omitzero" doc:"of what was requested before this time, more than purged may have been deleted; missing: purged has all"`
	Purging    int64     `json:"purging,omitempty" doc:"so many were deleted while the ledger was made, and may be among ended and among purged"`

	Retries   int64 `json:"retries" doc:"of those in the store: made as the retry of another one"`
	Repeated  int64 `json:"repeated" doc:"of those in the store: a worker ended while it ran them"`
	TakenBack int64 `json:"taken_back" doc:"of those in the store: taken back from a worker that had not claimed them, and not claimed since"`
	StateLost int64 `json:"state_lost" doc:"of those in the store: told that the state of their session was lost"`

	Restored SessionCount `json:"sessions_restored" doc:"how often a run had the state of its session back from a snapshot in the time, by the journal"`
	Lost     SessionCount `json:"sessions_lost" doc:"how often a run was told in the time that the state of its session was lost, or ended for it, by the journal"`

	Counted int64    `json:"counted" doc:"submissions and retries that the nodes counted when they stored them"`
	Missing int64    `json:"missing" doc:"how many more the nodes counted than were accepted; 0: none is missing"`
	AddsUp  bool     `json:"adds_up" doc:"none is missing"`
	Rest    *Rest    `json:"rest,omitempty" doc:"the time that was asked for from to on, which is not compared; missing: all of it is"`
	Notes   []string `json:"notes,omitempty" doc:"what limits the comparison"`
}

// Rest is what the nodes counted in a time whose executions were not counted.
type Rest struct {
	From      time.Time     `json:"from"`
	To        time.Time     `json:"to"`
	Submitted int64         `json:"submitted" doc:"about so many were submitted in the time, or made as a retry"`
	Ended     []StatusCount `json:"ended" doc:"what ended in the time, whenever it was requested"`
}

// SessionCount counts what the journal has of sessions.
type SessionCount struct {
	N       int64 `json:"n"`
	AtLeast bool  `json:"at_least,omitempty" doc:"there may be more: the journal has not all of the time, or more than is counted at once"`
}

// StatusCount is a number of executions.
type StatusCount struct {
	Status messages.Status `json:"status"`
	N      int64           `json:"n"`
}

// Requested counts the executions of one status that were requested in a minute.
type Requested struct {
	Minute    time.Time
	Status    messages.Status
	N         int64
	Edge      int64 // of them, requested within LedgerAfter of the minute's beginning
	Retries   int64 // of them, made as the retry of another one
	Repeated  int64 // of them, interrupted at least once by the end of a worker
	TakenBack int64 // of them, taken back from a worker that did not claim, and not claimed since
	StateLost int64 // of them, told that their session's state was lost
}

// LedgerTo is up to when the counts of executions from a time on can be compared, whole minutes, where all that was requested before until
// is counted; zero: all of it up to the end.
func LedgerTo(from, to, until time.Time) time.Time {
	if until.IsZero() {
		return to
	}
	if cut := until.Add(-LedgerAfter).Truncate(time.Minute); cut.Before(to) {
		to = cut
	}
	if to.Before(from) {
		return from
	}
	return to
}

// NewLedger makes the ledger of a time, both of whose ends are whole minutes. Of in are the executions of the time, and those that were
// requested within LedgerBefore before it and LedgerAfter behind it. Those that follow are left out.
func NewLedger(from, to time.Time, in []Requested) (l *Ledger, around int64) {
	l = &Ledger{From: from, To: to, Ended: []StatusCount{}, Open: []StatusCount{}}
	sums := map[messages.Status]int64{}
	for i := range in {
		switch s := &in[i]; {
		case s.Minute.Before(from):
			around += s.N
		case s.Minute.Equal(to):
			around += s.Edge
		case s.Minute.Before(to):
			l.Accepted += s.N
			l.Retries, l.Repeated = l.Retries+s.Retries, l.Repeated+s.Repeated
			l.TakenBack, l.StateLost = l.TakenBack+s.TakenBack, l.StateLost+s.StateLost
			sums[s.Status] += s.N
		}
	}
	for _, s := range statusCounts(sums) {
		if s.Status.Terminal() {
			l.Ended = append(l.Ended, s)
		} else {
			l.Open = append(l.Open, s)
		}
	}
	return l, around
}

// statusCounts are the numbers by status, in the order of the statuses.
func statusCounts(sums map[messages.Status]int64) []StatusCount {
	list := []StatusCount{}
	for status, n := range sums {
		if n > 0 {
			list = append(list, StatusCount{status, n})
		}
	}
	slices.SortFunc(list, func(a, b StatusCount) int { return cmp.Compare(a.Status, b.Status) })
	return list
}

// Deleted counts the executions that retention has deleted.
type Deleted struct {
	N      int64     // requested in the time
	Around int64     // requested shortly before and behind it
	During int64     // deleted while the others were counted
	From   time.Time // from when on all are counted, by when they were requested; zero: all
}

// Compare compares the executions, and those that were deleted, with the nodes' number of submissions. Around are those that were requested
// shortly before and behind the time, of which some may have been counted in it. Kept is from when on no execution was deleted that has ended;
// zero: none is ever.
func (l *Ledger) Compare(counted, around int64, gone Deleted, kept time.Time) {
	l.Accepted, l.Purged, l.Purging = l.Accepted+gone.N, gone.N, gone.During
	l.Counted, l.Missing = counted, max(0, counted-l.Accepted-around-gone.Around)
	l.AddsUp = l.Missing == 0
	if l.From.Before(gone.From) && (l.Missing > 0 || l.From.Before(kept)) {
		l.PurgedFrom = gone.From
		l.Notes = append(l.Notes, fmt.Sprintf("of executions that were requested before %s, it is not known how many were deleted, so they may be missing here", gone.From.UTC().Format(time.RFC3339)))
	}
	if gone.During > 0 {
		l.Notes = append(l.Notes, fmt.Sprintf("%d were deleted while the ledger was made, so as many may be counted twice; ask again", gone.During))
	}
	if l.Accepted > counted {
		l.Notes = append(l.Notes, fmt.Sprintf("%d more were accepted than the nodes counted: a program stored them in a transaction of its own, their "+
			"counts are not written yet (10 s), they were stored just before or after the time, or a node ended before it wrote its last counts", l.Accepted-counted))
	}
}

// PurgedText is the number of those that were deleted, with what limits it.
func (l *Ledger) PurgedText() string {
	switch {
	case l.PurgedFrom.IsZero() && l.Purging > 0:
		return fmt.Sprintf("≈ %d", l.Purged)
	case l.PurgedFrom.IsZero():
		return fmt.Sprint(l.Purged)
	case l.Purged == 0:
		return "unknown"
	default:
		return fmt.Sprintf("≥ %d", l.Purged)
	}
}

// Sums adds up counts by status.
type Sums map[messages.Status]int64

// Add adds a row.
func (s Sums) Add(r *Row) { s[r.Status] += r.N }

// Leave says that the time from the ledger's end on is not compared, and what the nodes counted in it.
func (l *Ledger) Leave(to time.Time, sums Sums) {
	l.Rest = &Rest{From: l.To, To: to, Submitted: sums[Submitted]}
	delete(sums, Submitted)
	l.Rest.Ended = statusCounts(sums)
	if l.Until = l.To; l.To.Equal(l.From) {
		l.Until = l.To.Add(time.Minute)
		l.Notes = append(l.Notes, "nothing is compared: in the first minute alone more were requested than are counted at once")
	}
}
