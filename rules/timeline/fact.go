package timeline

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
)

// order is the order of the causes. Where several are known for the same moment, the first holds. A run and a placement come
// first, but for a server that is away: while it stands on a worker, it does not wait for the pool. What is not due waits for its
// time, whatever its pool does until then: it would not have begun earlier without that. The present reason has the same order.
var order = []string{
	LostRun,
	roster.StoreAway.String(),
	BackedOff,
	NotDue,
	roster.BrokerAway.String(), roster.BrokerBlocked.String(),
	OnQueue,
	roster.WorkersCordoned.String(),
	roster.PoolBroken.String(),
	roster.NoWorkerYet.String(), roster.Settling.String(),
	SessionOrder,
	SessionWorker,
	roster.WorkersStarting.String(),
	roster.WorkersBusy.String(),
	BeingPlaced,
	Unknown,
}

func rankOf(cause string) int {
	if i := slices.Index(order, cause); i >= 0 {
		return i
	}
	return len(order)
}

// fact is something that is known for a time and explains a wait.
type fact struct {
	from, to time.Time
	cause    string
	source   string
	evidence string
	link     messages.ExecutionID
	share    float64 // of the time that a condition held; 0: all of it
}

func (f *fact) covers(at time.Time) bool { return !at.Before(f.from) && at.Before(f.to) }

// split makes the wait between two times of the facts.
func split(begin, end time.Time, facts []fact, unknown func(at time.Time) string) []Wait {
	if !begin.Before(end) {
		return []Wait{}
	}
	cuts := []time.Time{begin, end}
	for i := range facts {
		for _, at := range []time.Time{facts[i].from, facts[i].to} {
			if at.After(begin) && at.Before(end) {
				cuts = append(cuts, at)
			}
		}
	}
	slices.SortFunc(cuts, time.Time.Compare)
	cuts = slices.CompactFunc(cuts, time.Time.Equal)
	ranks := make([]int, len(facts))
	for i := range facts {
		ranks[i] = rankOf(facts[i].cause)
	}
	pieces := merger{waits: []Wait{}}
	for i := range len(cuts) - 1 {
		if f := best(facts, ranks, cuts[i]); f != nil {
			pieces.add(cuts[i], cuts[i+1], f)
		} else {
			pieces.add(cuts[i], cuts[i+1], &fact{cause: Unknown, evidence: unknown(cuts[i])})
		}
	}
	return pieces.finish()
}

// best is the fact that explains a moment; nil: none does.
func best(facts []fact, ranks []int, at time.Time) (found *fact) {
	rank := len(order) + 1
	for i := range facts {
		if ranks[i] < rank && facts[i].covers(at) {
			found, rank = &facts[i], ranks[i]
		}
	}
	return found
}

// merger joins pieces that say the same.
type merger struct {
	waits []Wait
	held  time.Duration // of the last: for how long its condition held
	whole bool          // it held all the time
}

func (m *merger) add(from, to time.Time, f *fact) {
	n := len(m.waits)
	held, whole := to.Sub(from), f.share == 0
	if !whole {
		held = time.Duration(f.share * float64(held))
	}
	if n > 0 {
		last := &m.waits[n-1]
		if last.Cause == f.cause && last.Source == f.source && last.Link == f.link && last.Evidence == f.evidence {
			last.To, m.held, m.whole = to, m.held+held, m.whole && whole
			return
		}
		m.close()
	}
	m.waits = append(m.waits, Wait{From: from, To: to, Cause: f.cause, Source: f.source, Evidence: f.evidence, Link: f.link})
	m.held, m.whole = held, whole
}

// close writes the share into the evidence of the last piece.
func (m *merger) close() {
	last := &m.waits[len(m.waits)-1]
	if percent := math.Round(100 * float64(m.held) / float64(last.To.Sub(last.From))); !m.whole && percent < 100 {
		last.Evidence += fmt.Sprintf(" for %.0f %% of it", percent)
	}
}

func (m *merger) finish() []Wait {
	if len(m.waits) > 0 {
		m.close()
	}
	return m.waits
}

// words writes a reason for people.
func words(reason string) string { return strings.ReplaceAll(reason, "_", " ") }
