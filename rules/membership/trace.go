package membership

import (
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// SilentShare is the share of its own lease, in thousandths, for which a node had not renewed when the looking one did, if it is declared
// dead within its lease: one and a half beats by default, and more than a beat in any case, because a lease has three. A node that only
// lost its connection has renewed over a new one by then. SettleShare is the share of the lease that must have passed since that renewal
// of the looking node: where the store had kept it waiting, it had kept the other one waiting too, and has taken that renewal by then.
const (
	SilentShare = 375
	SettleShare = 62
)

// EndTime is how long the signs of a process's end must have lasted before others take its work up: its guardian ends what it ran
// within that (wardenTime of package process).
const EndTime = time.Second

// Bounds of the questions at the addresses of others.
const (
	knockEvery = 125 * time.Millisecond // between two
	knockMax   = 32                     // addresses at a time
	signsLeast = 2                      // signs of an end, however long they lasted
)

// Trace is what one renewal's answer shows of another incarnation's process.
type Trace struct {
	Leaving bool // it drains, or stops in order
	Locks   bool // by its last renewal, its connection to the store holds its lock; a node of an older release does not say so
	Held    bool // somebody holds that lock
	// OwnLock is for how long the looking node has held its own lock, over one connection; 0: it does not.
	OwnLock time.Duration
	// Silence is the time from its last renewal to that of the looking node, and Lease the length of its lease.
	Silence, Lease time.Duration
	// Replaced: a node that started after its last renewal, and holds its own lock, has the same address for peers.
	Replaced bool
}

// Suspicious reports whether the lock shows that the process may have ended: the store has ended its connection, and not those of
// all nodes. The lease is the looking node's.
func (t Trace) Suspicious(lease time.Duration) bool {
	return !t.Leaving && t.Locks && !t.Held && t.OwnLock >= lease
}

// Signs are what shows, beside a suspicious trace, that nothing runs at the address: it refused each connection, or belongs to a
// later node. One answer, or one connection that is neither accepted nor refused, ends them.
type Signs struct {
	Count int
	Span  time.Duration // from the first to the last
	Since time.Duration // since the renewal that showed the trace
}

// Gone decides whether a process has ended for sure. Its node may then be declared dead although its lease has not run out.
func (t Trace) Gone(lease time.Duration, s Signs) bool {
	return t.Suspicious(lease) && s.Count >= signsLeast && s.Span >= EndTime && t.Silence >= t.silent() && s.Since >= lease*SettleShare/1000
}

// silent is how long it must not have renewed.
func (t Trace) silent() time.Duration { return t.Lease * SilentShare / 1000 }

// End is why an incarnation is declared dead within its lease.
type End uint8

// The ends.
const (
	AddressRefuses End = iota // nothing listens at its address any more
	AddressTaken              // a later node has its address
)

func (e End) String() string {
	if e == AddressTaken {
		return "replaced"
	}
	return "refused"
}

// Gone is an incarnation that is to be declared dead within its lease.
type Gone struct {
	Incarnation messages.Incarnation
	Renewed     time.Time // its last renewal, by the store's clock; a later one shows that it lives
	End         End
}

// suspicion is what a member keeps of an incarnation with a suspicious trace.
type suspicion struct {
	trace       Trace
	at          time.Duration // when the trace was seen
	renewed     time.Time
	end         End
	count       int
	first, last time.Duration // signs
	tried       time.Duration // when it was to be declared dead last
}

func (s *suspicion) sign(now time.Duration, end End) {
	if s.count == 0 {
		s.first = now
	}
	s.count++
	s.last, s.end = now, end
}

// sureAt is when it is sure, if nothing else shows until then; 0: more signs are needed.
func (s *suspicion) sureAt(lease time.Duration) time.Duration {
	settle := lease * SettleShare / 1000
	if !s.trace.Gone(lease, Signs{Count: s.count, Span: s.last - s.first, Since: settle}) {
		return 0
	}
	return max(s.at, s.tried) + settle
}

// suspect takes up what a renewal's answer shows of the others' processes. A renewal of theirs ends what was known.
func (m *Machine) suspect(others []Other, steady bool) {
	now := map[messages.Incarnation]*suspicion{}
	for _, o := range others {
		if !steady || !m.leases || o.Lapsed || !o.Trace.Suspicious(m.cfg.Lease) {
			continue
		}
		s := m.suspects[o.Incarnation]
		if s == nil || !s.renewed.Equal(o.Renewed) {
			s = &suspicion{renewed: o.Renewed}
		}
		s.trace, s.at = o.Trace, m.now
		if o.Trace.Replaced {
			s.sign(m.now, AddressTaken)
		}
		now[o.Incarnation] = s
		if wait := o.Trace.silent() - o.Trace.Silence; wait > 0 {
			m.lookAt(m.now + wait)
		}
	}
	m.suspects = now
}

// knocked takes up which of the addresses that were asked refuse.
func (m *Machine) knocked(e Knocked) {
	m.knocking = false
	for _, inc := range e.Asked {
		switch s := m.suspects[inc]; {
		case s == nil || s.trace.Replaced:
		case slices.Contains(e.Refused, inc):
			s.sign(m.now, AddressRefuses)
		default:
			delete(m.suspects, inc)
		}
	}
}

// knock asks at the suspects' addresses.
func (m *Machine) knock() {
	if m.state == Fenced || m.knocking || m.now < m.knockAt {
		return
	}
	if ask := m.suspectsToAsk(); len(ask) > 0 {
		m.knocking, m.knockAt = true, m.now+knockEvery
		m.emit(Knock{ask})
	}
}

// conclude has those declared dead that have ended for sure.
func (m *Machine) conclude() {
	if m.state == Fenced || m.declaring || m.beating {
		return
	}
	var all []Gone
	for inc, s := range m.suspects {
		if at := s.sureAt(m.cfg.Lease); at != 0 && m.now >= at {
			all = append(all, Gone{inc, s.renewed, s.end})
			s.tried = m.now
		}
	}
	if len(all) > 0 {
		slices.SortFunc(all, func(a, b Gone) int { return compareIncarnations(a.Incarnation, b.Incarnation) })
		m.declaring = true
		m.emit(DeclareGone{all})
	}
}

// suspectsToAsk are the suspects whose addresses are asked, no more than knockMax.
func (m *Machine) suspectsToAsk() []messages.Incarnation {
	var ask []messages.Incarnation
	for inc, s := range m.suspects {
		if !s.trace.Replaced {
			ask = append(ask, inc)
		}
	}
	slices.SortFunc(ask, compareIncarnations)
	return ask[:min(len(ask), knockMax)]
}

// wake is when the suspects want a Tick at the latest, if that is before next.
func (m *Machine) wake(next time.Duration) time.Duration {
	if !m.knocking && len(m.suspectsToAsk()) > 0 {
		next = min(next, m.knockAt)
	}
	if m.declaring || m.beating {
		return next
	}
	for _, s := range m.suspects {
		if at := s.sureAt(m.cfg.Lease); at != 0 {
			next = min(next, at)
		}
	}
	return next
}
