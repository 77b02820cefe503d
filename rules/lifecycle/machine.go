package lifecycle

import "time"

// Machine is one worker generation's lifecycle. It belongs to its worker actor and is not safe for concurrent use.
// Every method that takes now expects a time with its monotonic reading, as time.Now gives it.
type Machine struct {
	entered time.Time
	history history
	state   State
	health  Health
}

// New returns a machine that is initializing, of unknown health, with an empty history.
func New(now time.Time) Machine { return Machine{entered: now} }

// State returns the current state.
func (m *Machine) State() State { return m.state }

// Health returns the current health.
func (m *Machine) Health() Health { return m.health }

// EnteredAt returns when the current state was entered.
func (m *Machine) EnteredAt() time.Time { return m.entered }

// CanAcceptWork reports whether the worker is ready and healthy.
func (m *Machine) CanAcceptWork() bool { return m.state == Ready && m.health == Healthy }

// CanAcceptLastResort reports whether the worker is degraded, which still takes work that no healthy worker can have.
func (m *Machine) CanAcceptLastResort() bool { return m.state == Degraded }

// ShouldBeRemoved reports whether the worker is ending or has ended.
func (m *Machine) ShouldBeRemoved() bool { return m.state >= Terminating }

// Transition takes the edge that Next names for the reason. An edge that the table does not have changes nothing and
// returns an *InvalidTransitionError.
func (m *Machine) Transition(r Reason, now time.Time, meta Metadata) (Entry, error) {
	to, err := Next(m.state, r)
	if err != nil {
		return Entry{}, err
	}
	return m.take(to, r, now, meta), nil
}

// TransitionTo takes the edge to a named state, where a state and a reason have two ends. An edge that the table does
// not have changes nothing and returns an *InvalidTransitionError.
func (m *Machine) TransitionTo(to State, r Reason, now time.Time, meta Metadata) (Entry, error) {
	if err := Check(m.state, to, r); err != nil {
		return Entry{}, err
	}
	return m.take(to, r, now, meta), nil
}

// Terminate begins the worker's end from whatever state it is in, why in words. It is idempotent: a worker that is
// ending or has ended is left alone, and changed is false. A worker that was still initializing is terminated at
// once; any other is terminating until its cleanup is complete.
func (m *Machine) Terminate(why string, now time.Time) (e Entry, changed bool) {
	e, err := m.Transition(Terminate, now, Metadata{Reason: why})
	return e, err == nil
}

// SetHealth changes the health alone and reports whether it differed.
func (m *Machine) SetHealth(h Health) bool {
	changed := m.health != h
	m.health = h
	return changed
}

// ProbePassed marks the worker healthy, in whatever state it is; a degraded worker becomes ready in the same step, and
// restored says so.
func (m *Machine) ProbePassed(now time.Time) (e Entry, restored bool) {
	if m.state != Degraded {
		m.health = Healthy
		return Entry{}, false
	}
	return m.take(Ready, HealthRestored, now, Metadata{}), true
}

// take carries out an edge that the table has.
func (m *Machine) take(to State, r Reason, now time.Time, meta Metadata) Entry {
	e := Entry{
		From: m.state, To: to, Reason: r,
		In:       max(now.Sub(m.entered), 0),
		AtMillis: now.UnixMilli(),
	}
	if !meta.IsZero() {
		kept := meta // so that a transition without metadata allocates nothing
		e.Meta = &kept
	}
	switch r {
	case InitComplete, HealthRestored:
		m.health = Healthy
	case HealthCheckFailed:
		m.health = Unhealthy
	}
	m.state, m.entered = to, now
	m.history.push(e)
	return e
}

// HistoryLen returns how many transitions are remembered, at most HistoryMax.
func (m *Machine) HistoryLen() int { return len(m.history.ring) }

// History returns the remembered transitions, newest first, as a copy.
func (m *Machine) History() []Entry {
	out := make([]Entry, m.HistoryLen())
	for i := range out {
		out[i] = m.history.at(i)
	}
	return out
}
