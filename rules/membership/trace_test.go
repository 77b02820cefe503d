package membership

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// ended is the trace of a process that was killed a moment ago, as a node shows it that is sure of its own connection.
func ended() Trace {
	return Trace{Locks: true, OwnLock: time.Minute, Silence: 1500 * ms, Lease: 4 * time.Second}
}

// sure are signs that suffice.
var sure = Signs{Count: 2, Span: EndTime, Since: 250 * ms}

// Within its lease a node is declared dead only where everything says that its process has ended. Each row takes one thing away.
func TestGone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		change     func(*Trace)
		signs      Signs
		suspicious bool
		gone       bool
	}{
		{"lock free, address refuses", func(*Trace) {}, sure, true, true},
		{"a later node has its address", func(t *Trace) { t.Replaced = true }, sure, true, true},
		{"frozen: its connection holds its lock", func(t *Trace) { t.Held = true }, sure, false, false},
		{"only the way to its address is closed", func(t *Trace) { t.Held = true }, Signs{Count: 99, Span: time.Hour, Since: time.Second}, false, false},
		{"it leaves in order", func(t *Trace) { t.Leaving = true }, sure, false, false},
		{"an older release, or it has not got its lock back", func(t *Trace) { t.Locks = false }, sure, false, false},
		{"the looking node does not hold its own lock", func(t *Trace) { t.OwnLock = 0 }, sure, false, false},
		{"the looking node has its connection back since a moment", func(t *Trace) { t.OwnLock = 4*time.Second - ms }, sure, false, false},
		{"nobody has asked at its address", func(*Trace) {}, Signs{}, true, false},
		{"its address refused once", func(*Trace) {}, Signs{Count: 1, Span: EndTime, Since: time.Second}, true, false},
		{"it refused for a short time", func(*Trace) {}, Signs{Count: 9, Span: EndTime - ms, Since: time.Second}, true, false},
		{"the store may have kept both waiting", func(*Trace) {}, Signs{Count: 9, Span: EndTime, Since: 200 * ms}, true, false},
		{"its next renewal may be on its way", func(t *Trace) { t.Silence = 1499 * ms }, sure, true, false},
		{"it renews seldom, by its lease", func(t *Trace) { t.Lease = 40 * time.Second }, sure, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			trace := ended()
			c.change(&trace)
			require.Equal(t, c.suspicious, trace.Suspicious(4*time.Second))
			require.Equal(t, c.gone, trace.Gone(4*time.Second, c.signs))
		})
	}
	require.False(t, Trace{}.Suspicious(0), "a store that shows no locks raises no suspicion")
}

// round gives a steady machine an answer to a beat, and returns what it wants beside the beats and the grants.
func round(m *Machine, at time.Duration, e Event) (all []Effect) {
	for _, effect := range m.Step(at, e) {
		switch effect.(type) {
		case Beat, Grant:
		default:
			all = append(all, effect)
		}
	}
	return all
}

// seen is the answer to a renewal at a moment.
func seen(at time.Duration, o Other) Renewed {
	return Renewed{Asked: at, Steady: true, Others: []Other{o}}
}

// watching is a machine that has renewed for a lease beside another node.
func watching(t *testing.T) *Machine {
	t.Helper()
	m := steady(t, Other{Incarnation: inc(1)})
	for at := time.Second; at <= 5*time.Second; at += time.Second {
		require.Empty(t, round(m, at, Tick{}))
		require.Empty(t, round(m, at, seen(at, Other{Incarnation: inc(1)})))
	}
	return m
}

func TestAKilledNodeIsDeclaredDeadWithinItsLease(t *testing.T) {
	t.Parallel()
	m, renewed := watching(t), time.Unix(5, 0)
	trace := ended()
	trace.Silence = 300 * ms
	only := []messages.Incarnation{inc(1)}
	refused := Knocked{Asked: only, Refused: only}
	at := 5300 * ms
	o := Other{Incarnation: inc(1), Renewed: renewed, Trace: trace}
	require.Equal(t, []Effect{Knock{only}}, round(m, at, seen(at, o)))
	beats := 0
	for ; ; at = m.Next() {
		require.Less(t, at, 7*time.Second)
		beat, knocks, declares := false, false, []Gone(nil)
		for _, effect := range m.Step(at, Tick{}) {
			switch e := effect.(type) {
			case Beat:
				beat = true
			case Knock:
				knocks = true
			case DeclareGone:
				declares = e.Gone
			}
		}
		if declares != nil {
			require.Equal(t, []Gone{{inc(1), renewed, AddressRefuses}}, declares)
			break
		}
		if beat {
			beats++
			o.Trace.Silence = at - 5*time.Second
			round(m, at, seen(at, o))
		}
		if knocks || at == 5300*ms {
			require.Empty(t, round(m, at, refused))
		}
	}
	require.Equal(t, 2, beats, "the regular one, and one when it had been silent for long enough")
	require.Equal(t, 6748*ms, at, "a beat and a half after its last renewal, and as long as the store may keep one waiting")
	require.Empty(t, round(m, at+2*ms, seen(at, Other{Incarnation: inc(1), Lapsed: true})), "one statement at a time")
	require.Equal(t, []Effect{Down{inc(1)}, Rescue{}}, round(m, at+3*ms, Declared{Dead: only}))
}

// What ends a suspicion: an answer at the address, a renewal, the lock, and the loss of the store.
func TestASuspicionEnds(t *testing.T) {
	t.Parallel()
	only := []messages.Incarnation{inc(1)}
	refused, renewed := Knocked{Asked: only, Refused: only}, time.Unix(5, 0)
	held := ended()
	held.Held = true
	for name, end := range map[string]Event{
		"it answers":                Knocked{Asked: only},
		"its lock is held":          seen(6*time.Second, Other{Incarnation: inc(1), Renewed: renewed, Trace: held}),
		"it has renewed":            seen(6*time.Second, Other{Incarnation: inc(1), Renewed: renewed.Add(ms), Trace: ended()}),
		"the store is lost":         Unanswered{},
		"the looking node was away": Renewed{Asked: 6 * time.Second, Others: []Other{{Incarnation: inc(1), Renewed: renewed, Trace: ended()}}},
		"it is gone":                Renewed{Asked: 6 * time.Second, Steady: true},
		"the actor starts anew":     Resumed{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, at := watching(t), 6*time.Second
			require.Equal(t, []Effect{Knock{only}}, round(m, at, seen(at, Other{Incarnation: inc(1), Renewed: renewed, Trace: ended()})))
			require.Empty(t, round(m, at, refused))
			round(m, at, Tick{})
			m.knocking = false
			round(m, at, end)
			m.knocking = false
			require.NotContains(t, round(m, at+EndTime, refused), DeclareGone{[]Gone{{inc(1), renewed, AddressRefuses}}})
			require.NotContains(t, round(m, at+EndTime, refused), DeclareGone{[]Gone{{inc(1), renewed.Add(ms), AddressRefuses}}})
		})
	}
}

func TestANodeWhoseAddressALaterOneHasIsDeclaredDead(t *testing.T) {
	t.Parallel()
	m, renewed, at := watching(t), time.Unix(5, 0), 6*time.Second
	o := Other{Incarnation: inc(1), Renewed: renewed, Trace: ended()}
	o.Trace.Replaced = true
	m.Step(at, Tick{})
	require.Empty(t, round(m, at, seen(at, o)), "nobody is asked: the later node would answer")
	m.Step(at+EndTime, Tick{})
	require.Empty(t, round(m, at+EndTime, seen(at+EndTime, o)))
	require.Equal(t, []Effect{DeclareGone{[]Gone{{inc(1), renewed, AddressTaken}}}}, round(m, at+EndTime+248*ms, Tick{}))
}

// The end of a connection to a peer has the store looked at soon, once a beat, and leaves the regular beats where they are.
func TestTheLossOfAPeerIsLookedAtSoon(t *testing.T) {
	t.Parallel()
	m := watching(t)
	require.Equal(t, 6*time.Second, m.Next())
	require.Empty(t, m.Step(5300*ms, PeerLost{}))
	require.Equal(t, 5400*ms, m.Next())
	require.Equal(t, []Effect{Beat{}}, m.Step(5400*ms, Tick{}))
	round(m, 5410*ms, seen(5400*ms, Other{Incarnation: inc(1)}))
	require.Empty(t, m.Step(5500*ms, PeerLost{}), "others were lost at the same time")
	require.Equal(t, 6*time.Second, m.Next())
	require.Equal(t, []Effect{Beat{}}, m.Step(6*time.Second, Tick{}))
	require.Equal(t, 7*time.Second, m.next)
}
