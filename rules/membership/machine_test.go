package membership

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
)

const ms = time.Millisecond

func inc(n byte) messages.Incarnation { return messages.Incarnation{n} }

// steady is a machine of a 4 s lease that was renewed at 0 beside the given others.
func steady(t testing.TB, others ...Other) *Machine {
	t.Helper()
	m := New(Config{}, Joined{Leases: true})
	require.Equal(t, []Effect{Beat{}}, m.Step(0, Resumed{}))
	m.Step(0, Renewed{Steady: true, Others: others})
	return m
}

// lose lets every beat fail until the moment is reached, and returns what was wanted beside the beats.
func lose(m *Machine, until time.Duration) (all []Effect) {
	for at := time.Duration(0); at <= until; at += 100 * ms {
		for _, e := range m.Step(at, Tick{}) {
			if _, beat := e.(Beat); !beat {
				all = append(all, e)
				continue
			}
			all = append(all, m.Step(at, Unanswered{})...)
		}
	}
	return all
}

func TestBeats(t *testing.T) {
	t.Parallel()
	m := New(Config{}, Joined{Leases: true})
	require.Equal(t, []Effect{Beat{}}, m.Step(0, Resumed{}))
	require.Empty(t, m.Step(1500*ms, Tick{}), "one at a time")
	require.Equal(t, []Effect{Grant{Asked: 0, Steady: 1600 * ms}, Beat{}}, m.Step(1600*ms, Renewed{}))
	require.Equal(t, 2600*ms, m.Next())
	require.Equal(t, []Effect{Stands{Away: true}}, m.Step(1700*ms, Unanswered{}))
	require.Equal(t, []Effect{Beat{Heartbeats: true}}, m.Step(2600*ms, Tick{}), "the heartbeats come first when the store is back")
	require.Equal(t, []Effect{Grant{Asked: 2600 * ms, Steady: 2700 * ms}, Stands{}}, m.Step(2700*ms, Renewed{Asked: 2600 * ms}))
	require.Equal(t, []Effect{Beat{}}, m.Step(2800*ms, Refused{}), "a refused claim renews at once")
}

// Each way that a lease can run out ends as the page says.
func TestLeaseRunsOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		heard *Heard // nil: the peers do not answer
		state State
		why   string
	}{
		{"no peers", &Heard{}, Outage, ""},
		{"all peers lost it", &Heard{Peers: 2, Lost: 2}, Outage, ""},
		{"some lost it, some cannot be reached", &Heard{Peers: 3, Lost: 1}, Outage, ""},
		{"a peer sees it", &Heard{Peers: 2, Seen: 1, Lost: 1}, Fenced, "its lease was not renewed, and 1 of 2 peers renew theirs"},
		{"no peer can be reached", &Heard{Peers: 2}, Fenced, "its lease was not renewed, and none of 2 peers can be reached"},
		{"no answer", nil, Fenced, "its lease was not renewed, and its peers did not answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := steady(t)
			require.Equal(t, []Effect{Stands{Away: true}, AskPeers{}}, lose(m, 3200*ms))
			require.Equal(t, Doubting, m.State())
			var then []Effect
			if c.heard != nil {
				then = m.Step(3300*ms, *c.heard)
			} else {
				require.Empty(t, m.Step(3900*ms, Tick{}))
				then = m.Step(4100*ms, Tick{})
			}
			require.Equal(t, c.state, m.State())
			if c.state == Fenced {
				require.Equal(t, []Effect{Fence{Why: c.why}}, then)
				require.Empty(t, m.Step(9999*ms, Renewed{}), "nothing comes after a fence")
				return
			}
			require.Contains(t, then, GoOn{})
		})
	}
}

func TestOutageEnds(t *testing.T) {
	t.Parallel()
	m := steady(t)
	lose(m, 3200*ms)
	m.Step(3200*ms, Heard{})
	require.Contains(t, m.Step(60*time.Second, Tick{}), GoOn{})
	require.Equal(t, []Effect{Grant{Asked: 60 * time.Second, Steady: 60100 * ms}, Stands{}}, m.Step(60100*ms, Renewed{Asked: 60 * time.Second}))
	require.Equal(t, Steady, m.State())

	m = steady(t)
	lose(m, 3200*ms)
	m.Step(3200*ms, Heard{})
	require.Contains(t, m.Step(10*time.Minute-ms, Tick{}), GoOn{})
	require.Equal(t, []Effect{Fence{Why: "the store has been away for 10m0s"}}, m.Step(10*time.Minute, Tick{}))
}

// In an outage the peers are asked with every beat. Where one renews again, or none can be reached for half a lease, the
// node fences itself.
func TestOutageIsDenied(t *testing.T) {
	t.Parallel()
	seen, gone, lost := Heard{Peers: 2, Seen: 1, Lost: 1}, Heard{Peers: 2}, Heard{Peers: 2, Lost: 1}
	const (
		renews  = "its lease was not renewed, and 1 of 2 peers renew theirs"
		nowhere = "its lease was not renewed, and no peer can be reached any more"
	)
	for _, c := range []struct {
		name  string
		hears []Heard // with each beat from 5.2 s on; the last is where it fences itself
		why   string
	}{
		{"a peer has the store back", []Heard{lost, seen}, renews},
		{"no peer can be reached", []Heard{gone, gone, gone}, nowhere},
		{"one comes back for a moment", []Heard{gone, lost, gone, gone, gone}, nowhere},
		{"a peer still has lost it", []Heard{lost, lost, lost, lost, lost}, ""},
		{"nobody is there to ask", []Heard{{}, {}, {}, {}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := steady(t)
			lose(m, 3200*ms)
			m.Step(3200*ms, lost)
			require.Contains(t, m.Step(4200*ms, Tick{}), AskPeers{})
			require.NotContains(t, m.Step(4900*ms, Tick{}), AskPeers{}, "one question at a time")
			for i, heard := range c.hears {
				at := time.Duration(5200+1000*i) * ms
				effects := m.Step(at, heard)
				if c.why != "" && i == len(c.hears)-1 {
					require.Equal(t, []Effect{Fence{Why: c.why}}, effects)
					return
				}
				require.Contains(t, effects, GoOn{}, "at %s", at)
				require.Contains(t, effects, AskPeers{}, "at %s", at)
			}
			require.Equal(t, Outage, m.State())
		})
	}
}

// A renewal may wait for the store longer than that has been back, and one that was given up before it may have renewed the lease
// at the store's return. A node that counted from when it asked would tell its peers at once that it has renewed for a while.
func TestARenewalThatWaitedIsNotAnOldOne(t *testing.T) {
	t.Parallel()
	m := steady(t)
	lose(m, 3200*ms)
	m.Step(3200*ms, Heard{Peers: 1, Lost: 1})
	require.Contains(t, m.Step(11900*ms, Renewed{Asked: 10 * time.Second, SteadyFor: 1900 * ms}), Grant{Asked: 10 * time.Second, Steady: 11900 * ms})
	require.Contains(t, m.Step(12400*ms, Renewed{Asked: 12400 * ms, SteadyFor: 2400 * ms}), Grant{Asked: 12400 * ms, Steady: 11900 * ms})
	lapsed := []Other{{Incarnation: inc(1), Lapsed: true}}
	renewed := func(at time.Duration) []Effect {
		return m.Step(at, Renewed{Asked: at, SteadyFor: at - 10*time.Second, Steady: true, Others: lapsed})
	}
	require.NotContains(t, renewed(14*time.Second), Declare{})
	require.NotContains(t, renewed(15*time.Second), Declare{})
	require.Contains(t, renewed(16*time.Second), Declare{}, "a whole lease after the answer")
}

// A renewal ends an outage, whatever the peers say afterwards.
func TestOutageEndsInTime(t *testing.T) {
	t.Parallel()
	m := steady(t)
	lose(m, 3200*ms)
	m.Step(3200*ms, Heard{Peers: 1, Lost: 1})
	m.Step(10*time.Second, Heard{Peers: 1})
	require.Contains(t, m.Step(11900*ms, Tick{}), GoOn{})
	require.Equal(t, []Effect{Grant{Asked: 11900 * ms, Steady: 11950 * ms}, Stands{}, Beat{}},
		m.Step(11950*ms, Renewed{Asked: 11900 * ms, SteadyFor: ms}))
	require.Equal(t, Steady, m.State())
	require.Empty(t, m.Step(12000*ms, Heard{Peers: 1, Seen: 1}), "an answer that comes after the renewal changes nothing")
}

// A node that was frozen asks first, and lets the store's answer decide.
func TestThawed(t *testing.T) {
	t.Parallel()
	m := steady(t)
	require.Equal(t, []Effect{Stands{Away: true}, AskPeers{}, Beat{Heartbeats: true}}, m.Step(30*time.Second, Tick{}))
	require.Equal(t, []Effect{Fence{Why: "this incarnation was declared dead"}}, m.Step(30010*ms, FoundDead{}))

	m = steady(t)
	m.Step(30*time.Second, Tick{})
	require.Equal(t, []Effect{Grant{Asked: 30 * time.Second, Steady: 30010 * ms}, Stands{}}, m.Step(30010*ms, Renewed{Asked: 30 * time.Second}))
	require.Empty(t, m.Step(30020*ms, Heard{Peers: 1}), "an answer that comes after the renewal changes nothing")
}

func TestOthers(t *testing.T) {
	t.Parallel()
	a, b := inc(1), inc(2)
	m := steady(t, Other{Incarnation: a}, Other{Incarnation: b})
	require.Equal(t, []messages.Incarnation{a, b}, m.Others())
	lapsed := func(at time.Duration, steady bool) []Effect {
		return renew(m, Renewed{Asked: at, Steady: steady, Others: []Other{{Incarnation: a, Lapsed: true}, {Incarnation: b}}})
	}
	require.Empty(t, lapsed(2000*ms, true), "this node has not renewed for a lease yet, whatever the store says")
	require.Empty(t, lapsed(4000*ms, false), "the store says that there was a gap")
	require.Equal(t, []Effect{Declare{}}, lapsed(4000*ms, true))
	require.Empty(t, lapsed(4000*ms, true), "one at a time")
	require.Equal(t, []Effect{Down{a}, Rescue{}}, m.Step(4000*ms, Declared{Dead: []messages.Incarnation{a}}))
	require.Equal(t, []Effect{Up{inc(3)}, Down{b}, Rescue{}},
		renew(m, Renewed{Asked: 4001 * ms, Others: []Other{{Incarnation: inc(3)}}}), "declared dead by another")
}

// renew gives the machine a renewal, and returns what it wants beside the grant and the next beat.
func renew(m *Machine, e Renewed) []Effect {
	return slices.DeleteFunc(m.Step(e.Asked, e), func(e Effect) bool {
		switch e.(type) {
		case Grant, Beat:
			return true
		}
		return false
	})
}

// After more than two and a half beats without a renewal, by the node's own clock, it has to renew for a whole lease again.
func TestAGapEndsSteadiness(t *testing.T) {
	t.Parallel()
	for gap, want := range map[time.Duration]int{1000 * ms: 1, 2500 * ms: 1, 2501 * ms: 0, 3700 * ms: 0, 6000 * ms: 0} {
		m := steady(t)
		others := []Other{{Incarnation: inc(1), Lapsed: true}}
		at := time.Duration(0)
		for range 5 {
			at += 1000 * ms
			renew(m, Renewed{Asked: at, Steady: true})
		}
		require.Len(t, renew(m, Renewed{Asked: at + gap, Steady: true, Others: others}), want+1, "gap %s", gap) // Up comes first
		at += gap
		for range 3 {
			at += 1000 * ms
			require.Empty(t, renew(m, Renewed{Asked: at, Steady: true, Others: others}), "gap %s", gap)
		}
		if want == 0 {
			require.Equal(t, []Effect{Declare{}}, renew(m, Renewed{Asked: at + 1000*ms, Steady: true, Others: others}), "gap %s", gap)
		}
	}
}

// A store that evaluates no lease never fences its node.
func TestWithoutLeases(t *testing.T) {
	t.Parallel()
	m := New(Config{}, Joined{})
	m.Step(0, Resumed{})
	m.Step(0, Renewed{})
	require.Equal(t, []Effect{Stands{Away: true}}, lose(m, time.Minute))
	require.NotContains(t, m.Step(time.Hour, FoundDead{}), Fence{Why: "this incarnation was declared dead"})
	require.Equal(t, Steady, m.State())
}

// A node may lose its store, or be declared dead, before it has renewed its lease once: it is fenced like any other. What
// the start took before the actor began is no reason to doubt.
func TestBeforeTheFirstRenewal(t *testing.T) {
	t.Parallel()
	start := func(others ...Other) *Machine {
		m := New(Config{}, Joined{Leases: true, Others: others})
		want := []Effect{Beat{}}
		for _, o := range others {
			want = slices.Insert(want, len(want)-1, Effect(Up{o.Incarnation}))
		}
		require.Equal(t, want, m.Step(time.Minute, Resumed{}))
		return m
	}
	require.Equal(t, []Effect{Fence{Why: "this incarnation was declared dead"}}, start().Step(61*time.Second, FoundDead{}))

	m := start(Other{Incarnation: inc(1)})
	require.Equal(t, []Effect{Stands{Away: true}}, m.Step(61*time.Second, Unanswered{})[:1])
	require.Equal(t, Steady, m.State())
	require.Equal(t, []Effect{AskPeers{}}, m.Step(time.Minute+3200*ms, Tick{}))
	require.Equal(t, []messages.Incarnation{inc(1)}, m.Others())
	require.Equal(t, []Effect{Fence{Why: "its lease was not renewed, and 1 of 1 peers renew theirs"}}, m.Step(time.Minute+3300*ms, Heard{Peers: 1, Seen: 1}))

	m = start(Other{Incarnation: inc(1)})
	require.Equal(t, []Effect{Grant{Asked: time.Minute, Steady: 60100 * ms}}, m.Step(60100*ms, Renewed{Asked: time.Minute, Others: []Other{{Incarnation: inc(1)}}}), "nobody is up twice")
}

// Whatever happens in whatever order: a lease is granted from a moment at which a renewal was asked for and answered; work
// goes on past a lease only where no peer has contradicted it, and never past the grace; nobody is told of twice; and a
// fenced member does nothing more.
func TestAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		joined := Joined{Leases: rapid.Bool().Draw(t, "leases"), Others: drawOthers(t)}
		c := &checker{
			t: t, m: New(Config{Grace: 20 * time.Second}, joined), leases: joined.Leases, others: joined.Others, up: map[messages.Incarnation]bool{},
		}
		c.now = time.Duration(rapid.IntRange(0, 10_000).Draw(t, "start")) * ms
		c.renewed = c.now
		c.step(Resumed{})
		t.Repeat(map[string]func(*rapid.T){"event": func(t *rapid.T) { c.step(c.draw(t)) }})
	})
}

type checker struct {
	t         *rapid.T
	m         *Machine
	now       time.Duration
	renewed   time.Duration
	leases    bool
	beating   bool
	declaring bool
	lost      bool // no peer contradicts that the store is away
	asking    bool
	denied    bool // in an outage, by a peer that renews
	alone     bool // in an outage, since aloneAt
	aloneAt   time.Duration
	fenced    bool
	up        map[messages.Incarnation]bool
	others    []Other
}

func (c *checker) draw(t *rapid.T) Event {
	c.now += time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * ms
	kinds := []string{"tick", "resumed", "heard", "refused"}
	if c.beating {
		kinds = append(kinds, "renewed", "renewed", "unanswered", "dead")
	}
	if c.declaring {
		kinds = append(kinds, "declared")
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "renewed":
		e := Renewed{Asked: c.now - time.Duration(rapid.IntRange(0, 500).Draw(t, "took"))*ms, Steady: rapid.Bool().Draw(t, "steady")}
		e.Others = drawOthers(t)
		return e
	case "unanswered":
		return Unanswered{}
	case "dead":
		return FoundDead{}
	case "declared":
		return Declared{Dead: []messages.Incarnation{inc(byte(rapid.IntRange(1, 4).Draw(t, "who")))}}
	case "heard":
		peers := rapid.IntRange(0, 3).Draw(t, "peers")
		seen := rapid.IntRange(0, peers).Draw(t, "seen")
		return Heard{Peers: peers, Seen: seen, Lost: rapid.IntRange(0, peers-seen).Draw(t, "lost")}
	case "resumed":
		return Resumed{}
	case "refused":
		return Refused{}
	}
	return Tick{}
}

func drawOthers(t *rapid.T) (others []Other) {
	for i := range byte(4) {
		if rapid.Bool().Draw(t, "lives") {
			others = append(others, Other{Incarnation: inc(i + 1), Lapsed: rapid.Bool().Draw(t, "lapsed")})
		}
	}
	return others
}

func (c *checker) step(e Event) {
	switch e := e.(type) {
	case Renewed:
		c.beating, c.lost, c.asking, c.alone = false, false, false, false
		c.renewed, c.others = max(c.renewed, e.Asked), e.Others
	case Unanswered, FoundDead:
		c.beating = false
	case Declared:
		c.declaring = false
	case Resumed:
		c.beating, c.declaring, c.asking = false, false, false
	case Heard:
		c.asking = false
		if alone := e.Peers > 0 && e.Seen+e.Lost == 0; c.m.State() == Outage {
			if alone && !c.alone {
				c.aloneAt = c.now
			}
			c.alone, c.denied = alone, e.Seen > 0
		}
		c.lost = c.lost || c.m.State() == Doubting && e.Seen == 0 && (e.Peers == 0 || e.Lost > 0)
	}
	for _, effect := range c.m.Step(c.now, e) {
		require.False(c.t, c.fenced, "%T after a fence", effect)
		c.check(e, effect)
	}
	if !c.fenced {
		require.Greater(c.t, c.m.Next(), c.now-1, "a tick is wanted ahead")
		require.Less(c.t, c.m.Next(), c.now+4*time.Second, "and soon")
	}
}

func (c *checker) check(e Event, effect Effect) {
	switch effect := effect.(type) {
	case Beat:
		require.False(c.t, c.beating, "one renewal at a time")
		c.beating = true
	case Grant:
		require.IsType(c.t, Renewed{}, e)
		require.Equal(c.t, c.renewed, effect.Asked)
	case GoOn:
		require.True(c.t, c.lost, "work goes on past a lease only where the store is away for everyone")
		require.Less(c.t, c.now-c.renewed, 20*time.Second)
		require.False(c.t, c.denied, "nor where a peer renews")
		require.False(c.t, c.alone && c.now-c.aloneAt >= 2*time.Second, "nor past half a lease in which no peer can be reached")
	case AskPeers:
		require.False(c.t, c.asking, "one question at a time")
		c.asking = true
	case Declare:
		require.False(c.t, c.declaring)
		require.True(c.t, e.(Renewed).Steady)
		c.declaring = true
	case Up:
		require.False(c.t, c.up[effect.Incarnation], "up twice")
		c.up[effect.Incarnation] = true
	case Down:
		require.True(c.t, c.up[effect.Incarnation], "down without having been up")
		c.up[effect.Incarnation] = false
	case Fence:
		require.True(c.t, c.leases)
		c.fenced = true
	}
}

func TestStateNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, "[steady doubting outage fenced state(9)]", fmt.Sprint([]State{Steady, Doubting, Outage, Fenced, 9}))
}
