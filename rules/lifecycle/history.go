package lifecycle

import "time"

// HistoryMax bounds a machine's history, in transitions.
const HistoryMax = 64

// Entry is one transition that happened.
type Entry struct {
	From     State
	To       State
	Reason   Reason
	In       time.Duration // time spent in From, by the monotonic clock
	AtMillis int64         // wall-clock time in Unix milliseconds
	// Meta is what was known; nil: nothing. It is shared and never changed.
	Meta *Metadata
}

// history is a ring that grows with use: a worker that never works keeps only the few entries of its start, which
// matters with 10,000 idle workers.
type history struct {
	ring []Entry
	next int32 // where the next entry goes once the ring is full
}

func (h *history) push(e Entry) {
	if len(h.ring) < HistoryMax {
		h.ring = append(h.ring, e)
		return
	}
	h.ring[h.next] = e
	h.next = (h.next + 1) % HistoryMax
}

// at returns the i-th newest entry.
func (h *history) at(i int) Entry {
	n := len(h.ring)
	return h.ring[(int(h.next)+2*n-1-i)%n]
}

// News reports whether a person wants to know: the worker is degraded or well again, is replaced for something that is wrong with it,
// or is lost. That workers start and stop in order is not.
func (e *Entry) News() bool {
	switch e.Reason {
	case InitComplete, Shutdown, CleanupComplete, Checkout, CheckinSuccess, HealthCheckPassed:
		return false
	case CheckinError: // an error of the action's code
		return e.To != Ready
	}
	return true
}
