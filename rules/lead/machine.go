package lead

import (
	"time"

	"github.com/troupe-run/troupe/messages"
)

// The times of a follower and its router.
const (
	ReportEvery = time.Second            // at the latest, though nothing has happened
	WholeEvery  = 2 * time.Second        // between two whole reports
	Patience    = 3 * time.Second        // without a report taken
	RetryEvery  = 250 * time.Millisecond // before the first new try after a report that was not taken; it doubles
	RetryMost   = 2 * time.Second        // between two tries, and after a refusal
)

// Machine is what a node is to one pool. The zero value is alone and knows no router. It is not safe for concurrent use.
type Machine struct {
	mode   Mode
	since  time.Time
	why    string               // it is alone although somebody leads
	router messages.Incarnation // zero: nobody leads, as far as is known
	epoch  int64
	heard  time.Time // when the router took the last report
	sent   time.Time // when the last report was sent
	whole  time.Time // when the last whole report was sent
	broken bool      // the next report must be whole
	notYet time.Time // no report before it
	failed int       // reports in a row that were not taken
}

// Report is what is to be sent now.
type Report struct {
	To    messages.Incarnation
	Epoch int64
	Whole bool
}

// Mode is what the node is to the pool.
func (m *Machine) Mode() Mode { return m.mode }

// Since is when the mode began; zero: at the start.
func (m *Machine) Since() time.Time { return m.since }

// Router is who leads the pool in which term, as far as is known; zero: nobody.
func (m *Machine) Router() (messages.Incarnation, int64) { return m.router, m.epoch }

// Why says why the node is alone although another leads; empty: it is not, or was not told.
func (m *Machine) Why() string { return m.why }

// Change is what a piece of news has made of the mode: from one to another, or to the same.
type Change struct{ From, To Mode }

func (m *Machine) stay() Change { return Change{m.mode, m.mode} }

// move takes the news.
func (m *Machine) move(now time.Time, n News) Change {
	before, next := m.mode, Next(m.mode, n)
	if next == before {
		return m.stay()
	}
	m.mode, m.since = next, now
	if next == Following {
		m.heard = now
	}
	if next != Alone {
		m.why = ""
	}
	return Change{before, next}
}

// Led takes the store's word on who leads: the router and its term, zero where nobody does.
func (m *Machine) Led(now time.Time, router messages.Incarnation, own bool, epoch int64) Change {
	if router != m.router || epoch != m.epoch {
		m.router, m.epoch = router, epoch
		m.broken, m.notYet, m.failed = true, time.Time{}, 0
	}
	switch {
	case router.IsZero():
		return m.move(now, LedNowhere)
	case own:
		return m.move(now, LedHere)
	}
	return m.move(now, LedThere)
}

// Resign gives the pool up.
func (m *Machine) Resign(now time.Time) Change {
	if m.mode == Leading {
		m.router = messages.Incarnation{}
	}
	return m.move(now, Resigned)
}

// NodeDown takes the end of another incarnation. Where it led, the store will say who leads next.
func (m *Machine) NodeDown(now time.Time, inc messages.Incarnation) Change {
	if inc != m.router {
		return m.stay()
	}
	m.router = messages.Incarnation{}
	return m.move(now, Down)
}

// Answered takes what became of a report: Taken, Refused or Failed. One that was meant for another router, or for another
// term, says nothing about this one.
func (m *Machine) Answered(now time.Time, r Report, n News, why string) Change {
	if r.To != m.router || r.Epoch != m.epoch {
		return m.stay()
	}
	switch n {
	case Taken:
		m.heard, m.failed = now, 0
		if r.Whole {
			m.broken, n = false, TakenWhole
		}
	case Refused:
		m.why, m.notYet = why, now.Add(RetryMost)
	default:
		m.why, m.notYet = why, now.Add(min(RetryEvery<<min(m.failed, 3), RetryMost))
		m.failed++
	}
	if n == Refused || n == Failed {
		m.broken = true
	}
	return m.move(now, n)
}

// Tick lets time pass.
func (m *Machine) Tick(now time.Time) Change {
	if m.mode != Following || now.Sub(m.heard) < Patience {
		return m.stay()
	}
	if m.why == "" {
		m.why = "the router has taken no report"
	}
	m.broken = true
	return m.move(now, Silent)
}

// Due says whether a report is to be sent now, and which; pending: something has happened. While one is under way the
// caller does not ask.
func (m *Machine) Due(now time.Time, pending bool) (r Report, due bool) {
	if m.router.IsZero() || m.mode == Leading || now.Before(m.notYet) {
		return r, false
	}
	r = Report{To: m.router, Epoch: m.epoch}
	r.Whole = m.mode == Alone || m.broken || now.Sub(m.whole) >= WholeEvery
	return r, r.Whole || pending || now.Sub(m.sent) >= ReportEvery
}

// Wait is how long nothing may be reported from now on.
func (m *Machine) Wait(now time.Time) time.Duration { return max(m.notYet.Sub(now), 0) }

// Sent notes that a report goes out.
func (m *Machine) Sent(now time.Time, r Report) {
	m.sent = now
	if r.Whole {
		m.whole = now
	}
}

// Break makes the next report whole.
func (m *Machine) Break() { m.broken = true }
