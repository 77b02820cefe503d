package membership

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
)

// State is where a member stands.
type State uint8

// The states.
const (
	Steady   State = iota // the lease is renewed
	Doubting              // it was not for long, and the peers have been asked
	Outage                // the store is away for everyone: running work goes on
	Fenced                // it has given itself up
)

func (s State) String() string {
	names := [...]string{"steady", "doubting", "outage", "fenced"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Machine is one incarnation's view of itself and the others. It is not safe for concurrent use.
type Machine struct {
	cfg Config
	now time.Duration
	out []Effect

	joined    *Joined // until the first Resumed
	leases    bool
	state     State
	renewed   time.Duration // when the last renewal that succeeded was asked for; before that, when the first Resumed came
	unbroken  time.Duration // since when answers to renewals have come without a gap
	next      time.Duration // when the next Beat is due
	beating   bool
	declaring bool
	away      bool          // the store does not answer
	asked     time.Duration // when the peers were asked last
	asking    bool
	alone     bool          // in an outage: no peer can be reached any more
	aloneAt   time.Duration // since when
	others    map[messages.Incarnation]Weight
	suspects  map[messages.Incarnation]*suspicion
	knocking  bool
	knockAt   time.Duration // when the next Knock is due, if there are suspects
	soon      time.Duration // when a Beat is due beside the regular ones; 0: none
	lostAt    time.Duration // when one was last asked for
}

// New returns the machine of an incarnation that has joined. Its time begins with the first Resumed: how long the rest of the node's
// start took is no doubt of its life, which the store judges.
func New(cfg Config, joined Joined) *Machine {
	return &Machine{cfg: cfg.withDefaults(), joined: &joined, leases: joined.Leases, others: map[messages.Incarnation]Weight{}}
}

// State is where the member stands.
func (m *Machine) State() State { return m.state }

// Away reports whether the store does not answer.
func (m *Machine) Away() bool { return m.away }

// Others are the incarnations that lived at the last renewal, beside this one.
func (m *Machine) Others() []messages.Incarnation {
	return slices.SortedFunc(maps.Keys(m.others), compareIncarnations)
}

func compareIncarnations(a, b messages.Incarnation) int { return slices.Compare(a[:], b[:]) }

// Step takes one event and returns what is to be done, in order.
func (m *Machine) Step(now time.Duration, e Event) []Effect {
	m.now, m.out = now, nil
	if m.state == Fenced {
		return nil
	}
	m.take(e)
	m.judge()
	m.knock()
	m.conclude()
	m.beat()
	return m.out
}

func (m *Machine) emit(e Effect) { m.out = append(m.out, e) }

func (m *Machine) take(e Event) {
	switch e := e.(type) {
	case Renewed:
		m.renew(e)
	case Unanswered:
		m.beating = false
		clear(m.suspects)
		m.stands(true)
	case FoundDead:
		m.beating = false
		if m.leases {
			m.fence("this incarnation was declared dead")
		}
	case Refused:
		m.next = min(m.now, m.next)
	case PeerLost:
		m.lost()
	case Knocked:
		m.knocked(e)
	case Declared:
		m.declaring = false
		m.down(e.Dead)
	case Heard:
		m.heard(e)
	case Resumed:
		m.resume()
	case Tick:
	}
}

// resume begins, or goes on with nothing under way.
func (m *Machine) resume() {
	m.beating, m.declaring, m.asking, m.knocking = false, false, false, false
	clear(m.suspects)
	if m.state == Doubting {
		m.state = Steady
	}
	if m.joined != nil {
		m.renewed, m.unbroken, m.next = m.now, m.now, m.now
		m.compare(m.joined.Others)
		m.joined = nil
	}
}

// stands tells of a change of how the store stands.
func (m *Machine) stands(away bool) {
	if m.away != away {
		m.away = away
		m.emit(Stands{Away: away})
	}
}

// renew takes up a renewal that succeeded.
func (m *Machine) renew(e Renewed) {
	m.beating = false
	if e.Asked-m.renewed > m.share(GapShare) {
		m.unbroken = m.now
	}
	m.renewed = max(m.renewed, e.Asked)
	m.state, m.asking, m.alone = Steady, false, false
	m.emit(Grant{Asked: m.renewed, Steady: max(m.unbroken, m.now-e.SteadyFor)})
	m.stands(false)
	lapsed := m.compare(e.Others)
	steady := e.Steady && m.renewed-m.unbroken >= m.cfg.Lease
	m.suspect(e.Others, steady)
	if lapsed && m.leases && steady && !m.declaring {
		m.declaring = true
		m.emit(Declare{})
	}
}

// compare tells who has come and who has gone, and reports whether anybody's lease has run out.
func (m *Machine) compare(others []Other) (lapsed bool) {
	seen := make(map[messages.Incarnation]struct{}, len(others))
	for _, o := range others {
		seen[o.Incarnation] = struct{}{}
		if _, known := m.others[o.Incarnation]; !known {
			m.emit(Up{o.Incarnation})
		}
		m.others[o.Incarnation] = o.Weight()
		lapsed = lapsed || o.Lapsed
	}
	var gone []messages.Incarnation
	for inc := range m.others {
		if _, still := seen[inc]; !still {
			gone = append(gone, inc)
		}
	}
	slices.SortFunc(gone, compareIncarnations)
	m.down(gone)
	return lapsed
}

// down tells of incarnations that have ended and has their work taken up.
func (m *Machine) down(gone []messages.Incarnation) {
	told := false
	for _, inc := range gone {
		if _, known := m.others[inc]; known {
			delete(m.others, inc)
			m.emit(Down{inc})
			told = true
		}
	}
	if told {
		m.emit(Rescue{})
	}
}

// heard judges what the peers said.
func (m *Machine) heard(e Heard) {
	m.asking = false
	doubting, outage := m.state == Doubting, m.state == Outage
	alone := e.Peers > 0 && e.Seen == 0 && e.Lost == 0
	switch {
	case !doubting && !outage: // a renewal came first
	case e.Seen > 0:
		m.fence(fmt.Sprintf("its lease was not renewed, and %d of %d peers renew theirs", e.Seen, e.Peers))
	case doubting && alone:
		m.fence(fmt.Sprintf("its lease was not renewed, and none of %d peers can be reached", e.Peers))
	default:
		m.state = Outage
		if alone && !m.alone {
			m.aloneAt = m.now
		}
		m.alone = alone
	}
}

// judge draws what follows from the age of the lease.
func (m *Machine) judge() {
	if !m.leases || m.state == Fenced {
		return
	}
	age := m.now - m.renewed
	if m.state == Steady && age >= m.share(askShare) {
		m.state = Doubting
		m.stands(true)
		m.ask()
		return
	}
	switch {
	case m.state == Doubting && m.now-m.asked >= m.share(1000-askShare):
		m.fence("its lease was not renewed, and its peers did not answer")
	case m.state == Outage && age >= m.cfg.Grace:
		m.fence(fmt.Sprintf("the store has been away for %s", m.cfg.Grace))
	case m.state == Outage && m.alone && m.now-m.aloneAt >= m.share(aloneShare):
		m.fence("its lease was not renewed, and no peer can be reached any more")
	case m.state == Outage:
		m.emit(GoOn{})
		if !m.asking && m.now-m.asked >= m.cfg.Beat {
			m.ask()
		}
	}
}

func (m *Machine) ask() {
	m.asked, m.asking = m.now, true
	m.emit(AskPeers{})
}

// share is a part of the lease, given in thousandths.
func (m *Machine) share(part int) time.Duration {
	return m.cfg.Lease * time.Duration(part) / 1000
}

func (m *Machine) fence(why string) {
	m.state = Fenced
	m.emit(Fence{Why: why})
}

// lost has the store looked at soon, at most once a beat: where a peer's process has ended, the store knows it in a moment. The
// regular beats stay where they are, because every node hears of that end at once.
func (m *Machine) lost() {
	if m.leases && m.soon == 0 && m.now-m.lostAt >= m.cfg.Beat {
		m.lostAt = m.now
		m.lookAt(m.now + m.cfg.Beat/10)
	}
}

// lookAt has the store looked at by a renewal at a moment, if none is due before.
func (m *Machine) lookAt(at time.Duration) {
	if at < m.next && (m.soon == 0 || at < m.soon) {
		m.soon = at
	}
}

// beat renews when it is time, one renewal at a time.
func (m *Machine) beat() {
	regular, soon := m.now >= m.next, m.soon != 0 && m.now >= m.soon
	if m.state == Fenced || m.beating || !regular && !soon {
		return
	}
	m.beating, m.soon = true, 0
	if regular {
		m.next = m.now + m.cfg.Beat
	}
	m.emit(Beat{Heartbeats: m.away})
}

// Next is when a Tick is wanted at the latest.
func (m *Machine) Next() time.Duration {
	next := m.next
	if m.soon != 0 {
		next = min(next, m.soon)
	}
	if m.beating {
		next = m.now + m.cfg.Beat
	}
	if !m.leases {
		return next
	}
	next = m.wake(next)
	switch m.state {
	case Steady:
		next = min(next, m.renewed+m.share(askShare))
	case Doubting:
		next = min(next, m.asked+m.share(1000-askShare))
	case Outage:
		next = min(next, m.renewed+m.cfg.Grace)
		if m.alone {
			next = min(next, m.aloneAt+m.share(aloneShare))
		}
	case Fenced:
	}
	return next
}
