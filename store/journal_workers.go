package store

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/troupe-run/troupe/messages"
)

// The transitions of workers that ReadWorkerJournal returns, and what it says of them, as conditions of SQL on rows of worker_event. A worker
// that replaces a lost one, or is ready after starts that failed, has metadata with its first transition, and no other has. The index of both stores has the same condition.
const (
	WorkerTroubleSQL = "(after = 'degraded' OR reason IN ('health_restored', 'health_check_failed', 'max_retries_exceeded', 'terminate', 'error', 'timeout')" +
		" OR reason = 'init_complete' AND metadata IS NOT NULL)"
	WorkerToldSQL = "CASE WHEN after = 'degraded' THEN 'degraded' WHEN reason = 'health_restored' THEN 'recovered'" +
		" WHEN reason = 'init_complete' THEN 'restarted' WHEN before = 'initializing' AND reason IN ('error', 'timeout') THEN 'start_failed' ELSE 'ended' END"
)

// WorkerDetail is the detail of a worker's entry.
type WorkerDetail struct {
	From       string              `json:"from"` // states
	To         string              `json:"to"`
	Generation messages.Generation `json:"generation"`
	Seconds    float64             `json:"seconds"`           // in the state that it left
	Starts     int                 `json:"starts,omitempty"`  // of start_failed: that failed since the entry before, with this one
	Crashes    int                 `json:"crashes,omitempty"` // of ended: that soon followed a start since the entry before, with this one
}

// WorkerEntry is a transition as an entry of the journal, of the worker with that id; empty: no row is left that says it. N is the number of the row, and
// told what is said of it. Its reason is that of the transition with the cause in words.
func WorkerEntry(e *WorkerEvent, id messages.WorkerID, n int64, told string) messages.JournalEntry {
	reason, starts, crashes := whyChanged(e)
	entry := messages.JournalEntry{
		At: e.At, Incarnation: e.Key.Incarnation, Number: WorkerNumbers + n, Kind: messages.JournalWorker, What: told,
		Subject: WorkerSubject(id, e.Key), Reason: reason,
	}
	if detail, err := json.Marshal(WorkerDetail{e.From, e.To, e.Generation, e.Lasted.Seconds(), starts, crashes}); err == nil {
		entry.Detail = detail
	}
	return entry
}

// WorkerSubject is what a worker's entry is about: its id, or, where no row is left that says it, its node's incarnation, pool and slot.
func WorkerSubject(id messages.WorkerID, key messages.WorkerKey) string {
	if id != "" {
		return string(id)
	}
	return fmt.Sprintf("%s/%s/%d", key.Incarnation.Short(), key.Pool, key.Slot)
}

// whyChanged is why a worker changed, with the cause in words where there is one, and how many of its starts failed, or ended in a crash, that are told at once.
func whyChanged(e *WorkerEvent) (reason string, starts, crashes int) {
	var known struct {
		Error, Reason, Exit string
		Starts, Crashes     int
	}
	if len(e.Metadata) == 0 || json.Unmarshal(e.Metadata, &known) != nil {
		return e.Reason, 0, 0
	}
	reason = e.Reason
	if cause := cmp.Or(known.Error, known.Reason, known.Exit); cause != "" {
		reason += ": " + cause
	}
	if len(reason) > JournalTextMax {
		reason = strings.ToValidUTF8(reason[:JournalTextMax], "")
	}
	return reason, known.Starts, known.Crashes
}
