package roster

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

func TestReasonsHaveWordsAndSentences(t *testing.T) {
	t.Parallel()
	words := map[string]bool{}
	for _, r := range Reasons() {
		require.NotEmpty(t, r.String())
		require.NotEmpty(t, r.Sentence(), r.String())
		require.False(t, words[r.String()], "%s is there twice", r)
		words[r.String()] = true
		text, err := r.MarshalText()
		require.NoError(t, err)
		require.Equal(t, r.String(), string(text))
	}
	require.Equal(t, "reason(200)", Reason(200).String())
	require.Equal(t, "reason(200)", Reason(200).Sentence())
}

// The reason for the pool as a whole names what keeps its workers from taking what is ready.
func TestWhyPool(t *testing.T) {
	t.Parallel()
	cases := []struct {
		workers []string
		want    Reason
	}{
		{[]string{"0s seen w0 refusing"}, WorkersStarting},
		{[]string{"0s seen w0 refusing", "0s seen w1 cordoned"}, WorkersStarting},
		{[]string{"0s seen w0 refusing", "0s holding r#1 w0 running"}, WorkersBusy},
		{[]string{"0s seen w0", "0s holding r#1 w0 running", "0s seen w0 refusing"}, WorkersBusy},
		{[]string{"0s seen w0 refusing", "0s holding r#1 w0 running", "0s ended r#1"}, WorkersStarting},
		{[]string{"0s seen w0 refusing", "0s holding r#1 w0 running", "0s seen w1 starting", "0s gone w0"}, WorkersStarting},
		{[]string{"0s seen w0", "0s holding r#1 w0 running", "0s seen w1 refusing"}, WorkersBusy},
		{[]string{"0s seen w0 starting"}, WorkersStarting},
		{[]string{"0s seen w0 cordoned"}, WorkersCordoned},
		{[]string{"0s seen w0 cordoned", "0s seen w1 starting"}, WorkersStarting},
		{[]string{"0s seen w0 broken"}, PoolBroken},
		{[]string{"0s seen w0 broken", "0s seen w1 unhealthy"}, Settling},
		{nil, Settling},
	}
	for _, c := range cases {
		t.Run(c.want.String(), func(t *testing.T) {
			t.Parallel()
			r := New(Config{})
			for _, text := range c.workers {
				perform(t, r, text)
			}
			perform(t, r, "0s wake")
			perform(t, r, "0s loaded a:wait=60s")
			require.Equal(t, c.want, r.Why(epoch0, idOf("a")))
			require.Equal(t, c.want, r.Condition())
			r.Step(epoch0, Resigned{})
			require.Equal(t, Handed, r.Condition())
		})
	}
	r := New(Config{})
	perform(t, r, "0s seen w0")
	require.Equal(t, Ready, r.Condition())
}

// The snapshot shows each worker with what is on it, oldest first.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	r := New(Config{})
	for _, text := range []string{
		"0s seen w1 cordoned", "0s seen w0", "0s holding a#1 w1 running", "0s holding b#2 w1 by=9s",
		"0s loaded c d:s=x,mode=hint", "0s placed c#1 by=9s",
	} {
		perform(t, r, text)
	}
	s := r.Snapshot()
	require.Equal(t, 1, s.Held)
	require.Equal(t, 1, s.Running)
	require.Equal(t, 2, s.Placing)
	require.False(t, s.Steady)
	require.Len(t, r.Workers(), 2)
	require.Equal(t, "working", r.Workers()[0].Standing)
	require.Equal(t, 1, r.Workers()[0].Depth)
	require.Equal(t, "cordoned", r.Workers()[1].Standing)
	require.Equal(t, 1, r.Workers()[1].Running)
	require.Equal(t, []messages.Placement{placementOf("a#1"), placementOf("b#2")}, r.Workers()[1].Placements)
}

// While a server is away nothing is placed, and every execution that waits says which one; what is placed already goes
// its way, and the end of the halt places the rest at once.
func TestHalted(t *testing.T) {
	t.Parallel()
	for _, why := range []Reason{StoreAway, BrokerAway, BrokerBlocked} {
		t.Run(why.String(), func(t *testing.T) {
			t.Parallel()
			r := New(Config{})
			for _, text := range []string{"0s seen w0", "0s holding b#1 w0 by=9s"} {
				perform(t, r, text)
			}
			r.Step(epoch0, Halted{Why: why})
			perform(t, r, "0s wake")
			require.NotContains(t, kinds(r.Step(epoch0, parseEvent(t, "loaded", []string{"a"}))), "Place")
			require.Equal(t, why, r.Why(epoch0, idOf("a")))
			require.Equal(t, OnQueue, r.Why(epoch0, idOf("b")))
			r.Step(epoch0, Claimed{Placement: placementOf("b#1"), Worker: slotKey(0)})
			require.Equal(t, IsRunning, r.Why(epoch0, idOf("b")))
			require.NotContains(t, kinds(r.Step(epoch0, Ended{Placement: placementOf("b#1"), Worker: slotKey(0), Finished: true})), "Place")
			require.Contains(t, kinds(r.Step(epoch0, Halted{Why: Ready})), "Place")
			require.Equal(t, BeingPlaced, r.Why(epoch0, idOf("a")))
		})
	}
}

// kinds are the names of effects.
func kinds(effects []Effect) (names []string) {
	for _, e := range effects {
		names = append(names, reflect.TypeOf(e).Name())
	}
	return names
}

// What is behind a back-off of its session is told so, and until when. A scheduled start before it holds nothing.
func TestBehind(t *testing.T) {
	t.Parallel()
	now, later := epoch0, epoch0.Add(time.Minute)
	due := messages.Execution{Status: messages.Requested, RunAt: now, Affinity: messages.AffinityStrict}
	runs := messages.Execution{Status: messages.Running, RunAt: now, Affinity: messages.AffinityStrict}
	scheduled := messages.Execution{Status: messages.Requested, RunAt: later, Affinity: messages.AffinityStrict}
	hint := messages.Execution{Status: messages.Running, RunAt: now, Affinity: messages.AffinityHint}
	backed := scheduled
	backed.TakeBacks = 5
	again := backed
	again.RunAt = now
	cases := map[string]struct {
		earlier []messages.Execution
		want    Reason
	}{
		"nothing":                   {nil, NotLoaded},
		"one that is due":           {[]messages.Execution{due}, SessionOrder},
		"one that runs":             {[]messages.Execution{scheduled, runs}, SessionOrder},
		"a scheduled start":         {[]messages.Execution{scheduled}, NotLoaded},
		"a hint":                    {[]messages.Execution{hint}, NotLoaded},
		"a back-off":                {[]messages.Execution{scheduled, backed}, SessionBackedOff},
		"a back-off before another": {[]messages.Execution{due, backed}, SessionBackedOff},
		"a back-off that is over":   {[]messages.Execution{again}, SessionOrder},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			why, until := Behind(c.earlier, now)
			require.Equal(t, c.want, why)
			require.Equal(t, c.want == SessionBackedOff, until.Equal(later))
		})
	}
}

// While the head of a session is backed off, what the router had loaded of the session is forgotten: the store alone knows
// the order.
func TestABackOffForgetsItsSession(t *testing.T) {
	t.Parallel()
	r := New(Config{})
	for _, text := range []string{"0s seen w0", "0s loaded a:s=x,taken=4,seq=1 b:s=x,seq=2"} {
		perform(t, r, text)
	}
	require.Equal(t, SessionOrder, r.Why(epoch0, idOf("b")))
	for _, text := range []string{"0s placed a#1 by=1s", "0s published a#1", "2s tick"} {
		perform(t, r, text)
	}
	require.Equal(t, TakenBack, r.Why(epoch0, idOf("a")))
	perform(t, r, "2s released a#1")
	require.Equal(t, BackedOff, r.Why(epoch0.Add(2*time.Second), idOf("a")))
	require.Equal(t, NotLoaded, r.Why(epoch0, idOf("b")), "it is not placed before the store says that it is first")
	require.Zero(t, r.Snapshot().Held)
}

// What is held is counted by priority and reason, up to a bound.
func TestWaitsAreCounted(t *testing.T) {
	t.Parallel()
	r := New(Config{})
	perform(t, r, "0s seen w0 refusing")
	perform(t, r, "0s wake")
	for i, c := range []messages.Candidate{
		{Priority: 5}, {Priority: 9}, {Priority: 5, Session: "s", Affinity: messages.AffinityStrict}, {Priority: 5, Session: "s", Affinity: messages.AffinityStrict},
	} {
		c.ID, c.Seq = messages.NewExecutionID(), int64(i+1)
		require.True(t, r.hold(&c) && r.held[c.ID] != nil)
	}
	waits := r.Waits()
	require.Equal(t, map[messages.Priority]int{5: 3, 9: 1}, waits.Priorities)
	require.Equal(t, 4, waits.Counted)
	all := map[Reason]int{}
	for id := range r.held {
		all[r.Why(epoch0, id)]++
	}
	require.Equal(t, all, waits.Reasons)
	require.Greater(t, len(all), 1, "%v", all)
	for i := range WaitsMax {
		c := messages.Candidate{ID: messages.NewExecutionID(), Seq: int64(10_000 + i), Priority: 1}
		require.True(t, r.hold(&c))
	}
	waits = r.Waits()
	require.Equal(t, WaitsMax, waits.Counted)
	require.Equal(t, WaitsMax, waits.Priorities[1]+waits.Priorities[5]+waits.Priorities[9])
}
