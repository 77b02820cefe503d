package keyframe_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/keyframe"
	"github.com/troupe-run/troupe/rules/lifecycle"
)

var start = time.Date(2026, 3, 1, 3, 12, 0, 0, time.UTC)

func second(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }

// simWorker is the worker of a slot in a simulated fleet.
type simWorker struct {
	used       bool
	generation messages.Generation
	state      lifecycle.State
	since      time.Time
}

// simFleet is one node whose workers change at random, with what it records and what it was after each change.
type simFleet struct {
	inc     messages.Incarnation
	now     time.Time
	workers []simWorker
	records keyframe.Records
	frames  []keyframe.Stored
	was     []simMoment
}

type simMoment struct {
	at      time.Time
	workers []simWorker
}

// step changes one worker, or adds one, or stores a keyframe.
func (s *simFleet) step(t *rapid.T) {
	s.now = s.now.Add(time.Duration(rapid.IntRange(1, 40_000).Draw(t, "milliseconds")) * time.Millisecond)
	if rapid.IntRange(0, 7).Draw(t, "keyframe") == 0 {
		s.frame()
	}
	slot := rapid.IntRange(0, len(s.workers)).Draw(t, "slot")
	if slot == len(s.workers) {
		s.workers = append(s.workers, simWorker{})
	}
	w := &s.workers[slot]
	if !w.used || w.state == lifecycle.Terminated {
		*w = simWorker{used: true, generation: w.generation + 1, since: s.now}
	} else {
		var edges []lifecycle.Edge
		lifecycle.ForEachEdge(func(e lifecycle.Edge) {
			if e.From == w.state {
				edges = append(edges, e)
			}
		})
		e := rapid.SampledFrom(edges).Draw(t, "edge")
		if !e.Reason.Quiet() {
			s.records.Events = append(s.records.Events, keyframe.Transition{
				Incarnation: s.inc, Pool: "p", Slot: messages.Slot(slot), Generation: w.generation, At: s.now, From: e.From, To: e.To, Lasted: s.now.Sub(w.since),
			})
		}
		w.state, w.since = e.To, s.now
	}
	s.was = append(s.was, simMoment{s.now, slices.Clone(s.workers)})
}

func (s *simFleet) frame() {
	p := keyframe.Pool{Name: "p"}
	for _, w := range s.workers {
		p.Slots = append(p.Slots, keyframe.Slot{
			Used: w.used, Generation: w.generation, State: w.state, Grade: health.Healthy, Age: s.now.Sub(w.since).Truncate(time.Second),
		})
	}
	s.frames = append(s.frames, keyframe.Stored{Incarnation: s.inc, At: s.now, Frame: &keyframe.Frame{Node: "n", Pools: []keyframe.Pool{p}}})
}

// at are the workers at a time, and the records that would be read for it.
func (s *simFleet) at(at time.Time) ([]simWorker, *keyframe.Records) {
	var workers []simWorker
	for _, m := range s.was {
		if !m.at.After(at) {
			workers = m.workers
		}
	}
	r := s.records
	r.Nodes = []keyframe.Node{{Incarnation: s.inc, Name: "n", StartedAt: start, BeatAt: s.now}}
	for i := range s.frames {
		if f := s.frames[i]; !f.At.After(at) {
			r.Before = []keyframe.Stored{f}
		} else if len(r.After) == 0 {
			r.After = []keyframe.Stored{f}
		}
	}
	return workers, &r
}

// What is said of a time is what there was, and what cannot be said is said to be not known.
func TestThePastIsWhatThereWas(t *testing.T) {
	t.Parallel()
	exact := 0
	rapid.Check(t, func(t *rapid.T) {
		s := &simFleet{inc: messages.NewIncarnation(), now: start, workers: make([]simWorker, 3)}
		s.frame()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			s.step(t)
		}
		at := start.Add(time.Duration(rapid.Int64Range(0, int64(s.now.Sub(start)/time.Millisecond)).Draw(t, "at")) * time.Millisecond)
		was, records := s.at(at)
		f := keyframe.At(at, records)
		require.Empty(t, f.Notes)
		require.Len(t, f.Pools, 1)
		p := &f.Pools[0]
		require.GreaterOrEqual(t, len(p.Slots), 3)
		require.Len(t, p.Generations, len(p.Slots))
		for slot := range max(len(p.Slots), len(was)) {
			letter, generation, w := byte('-'), messages.Generation(0), simWorker{}
			if slot < len(p.Slots) {
				letter, generation = p.Slots[slot], p.Generations[slot]
			}
			if slot < len(was) {
				w = was[slot]
			}
			starts := w.used && w.state == lifecycle.Initializing // that is recorded once it has ended
			switch {
			case letter == '-':
				require.True(t, !w.used || starts && w.generation == 1, "slot %d of %s at %s was %v", slot, p.Slots, at, w)
			case letter == 'x' && starts:
				require.Equal(t, generation+1, w.generation)
			case letter == keyframe.Up:
				require.Contains(t, []lifecycle.State{lifecycle.Ready, lifecycle.Busy, lifecycle.Degraded}, w.state)
				require.Equal(t, generation, w.generation)
			default:
				require.Equal(t, string(keyframe.StateLetters[w.state]), string(letter), "slot %d of %s at %s", slot, p.Slots, at)
				require.Equal(t, generation, w.generation)
				exact++
			}
		}
		if at.Equal(records.Before[0].At) {
			require.NotContains(t, p.Slots, string(keyframe.Up), "a keyframe says all")
		}
	})
	require.Positive(t, exact)
}

func slots(states string) (list []keyframe.Slot) {
	for _, letter := range states {
		if i := strings.IndexRune(keyframe.StateLetters, letter); i >= 0 {
			list = append(list, keyframe.Slot{Used: true, Generation: 1, State: lifecycle.State(i), Grade: health.Healthy})
		} else {
			list = append(list, keyframe.Slot{})
		}
	}
	return list
}

var (
	incA = messages.NewIncarnation()
	incB = messages.NewIncarnation()
)

func frame(inc messages.Incarnation, node string, at int, states string) keyframe.Stored {
	return keyframe.Stored{Incarnation: inc, At: second(at), Frame: &keyframe.Frame{
		Node: node, Pools: []keyframe.Pool{{Name: "p", Mode: "following", Slots: slots(states)}},
	}}
}

func change(at, slot, generation int, from, to lifecycle.State, lasted int) keyframe.Transition {
	return keyframe.Transition{
		Incarnation: incA, Pool: "p", Slot: messages.Slot(slot), Generation: messages.Generation(generation), At: second(at), From: from, To: to,
		Lasted: time.Duration(lasted) * time.Second,
	}
}

func TestTheStatesOfATime(t *testing.T) {
	t.Parallel()
	row := keyframe.Node{Incarnation: incA, Name: "a", StartedAt: second(-100), BeatAt: second(1000)}
	later := frame(incA, "a", 300, "bb")
	later.Pools[0].Slots[0].Age = 250 * time.Second
	for _, c := range []struct {
		name    string
		at      int
		records keyframe.Records
		slots   string
		grades  string
		notes   string
	}{
		{"at the keyframe", 0, keyframe.Records{Before: []keyframe.Stored{frame(incA, "a", 0, "irbdtx-")}}, "irbdtx-", "hhhhhh-", ""},
		{"runs are not recorded", 1, keyframe.Records{Before: []keyframe.Stored{frame(incA, "a", 0, "irbdtx-")}}, "iuuutx-", "hhhhhh-", ""},
		{"a change before", 10, keyframe.Records{
			Before: []keyframe.Stored{frame(incA, "a", 0, "rr")}, Events: []keyframe.Transition{change(5, 1, 1, lifecycle.Busy, lifecycle.Terminating, 3)},
		}, "ut", "hh", ""},
		{"a change behind it says how long it was so", 10, keyframe.Records{
			Before: []keyframe.Stored{frame(incA, "a", 0, "rr")}, Events: []keyframe.Transition{change(15, 1, 1, lifecycle.Busy, lifecycle.Terminating, 7)},
		}, "ub", "hh", ""},
		{"or that it was not so yet", 10, keyframe.Records{
			Before: []keyframe.Stored{frame(incA, "a", 0, "rr")}, Events: []keyframe.Transition{change(15, 1, 1, lifecycle.Busy, lifecycle.Terminating, 3)},
		}, "uu", "hh", ""},
		{"a new generation starts", 10, keyframe.Records{
			Before: []keyframe.Stored{frame(incA, "a", 0, "xx")}, Events: []keyframe.Transition{change(15, 0, 2, lifecycle.Initializing, lifecycle.Ready, 7)},
		}, "ix", "?h", ""},
		{"an older generation says nothing", 10, keyframe.Records{
			Before: []keyframe.Stored{frame(incA, "a", 0, "r")}, Events: []keyframe.Transition{change(5, 0, 0, lifecycle.Terminating, lifecycle.Terminated, 1)},
		}, "u", "h", ""},
		{"the keyframe behind it", 100, keyframe.Records{
			Before: []keyframe.Stored{frame(incA, "a", 0, "rr")}, After: []keyframe.Stored{later},
		}, "bu", "hh", ""},
		{"no keyframe before", 100, keyframe.Records{After: []keyframe.Stored{later}}, "b", "?", "node a stored no keyframe in the hour before"},
		{"events that were not read", 10, keyframe.Records{
			Before: []keyframe.Stored{frame(incA, "a", 0, "rr")}, Events: []keyframe.Transition{change(7, 1, 1, lifecycle.Busy, lifecycle.Terminating, 3)},
			EventsFrom: second(6),
		}, "?t", "hh", "those before 2026-03-01T03:12:06Z are left out"},
	} {
		c.records.Nodes = []keyframe.Node{row}
		f := keyframe.At(second(c.at), &c.records)
		require.Len(t, f.Pools, 1, c.name)
		require.Equal(t, c.slots, f.Pools[0].Slots, c.name)
		require.Equal(t, c.grades, f.Pools[0].Grades, c.name)
		require.Equal(t, c.notes != "", f.Partial, c.name)
		require.Contains(t, fmt.Sprint(f.Notes), c.notes, c.name)
	}
}

func TestTheNodesOfATime(t *testing.T) {
	t.Parallel()
	entry := func(at int, about messages.Incarnation, what string) messages.JournalEntry {
		return messages.JournalEntry{At: second(at), Incarnation: incB, Kind: messages.JournalNode, Subject: about.String(), What: what}
	}
	alive := keyframe.Node{Incarnation: incA, Name: "a", StartedAt: second(-100), BeatAt: second(1000)}
	dead := alive
	dead.Dead, dead.BeatAt = true, second(50)
	for _, c := range []struct {
		name  string
		node  keyframe.Node
		at    int
		said  []messages.JournalEntry
		state string // empty: it is not shown
	}{
		{"it lives", alive, 10, nil, "active"},
		{"it had not begun", alive, -101, nil, ""},
		{"it drained", alive, 10, []messages.JournalEntry{entry(9, incA, "draining")}, "draining"},
		{"it drained later", alive, 8, []messages.JournalEntry{entry(9, incA, "draining")}, "active"},
		{"it was late", alive, 10, []messages.JournalEntry{entry(9, incA, "late")}, "late"},
		{"it was on time again", alive, 10, []messages.JournalEntry{entry(8, incA, "late"), entry(9, incA, "on_time")}, "active"},
		{"another was late", alive, 10, []messages.JournalEntry{entry(9, incB, "late")}, "active"},
		{"it had stopped", alive, 10, []messages.JournalEntry{entry(9, incA, "stopped")}, ""},
		{"it lived then", dead, 49, nil, "active"},
		{"nobody heard of it", dead, 51, []messages.JournalEntry{entry(60, incA, "dead")}, "silent"},
		{"it was declared dead", dead, 60, []messages.JournalEntry{entry(60, incA, "dead")}, ""},
		{"nobody declared it dead", dead, 120, nil, ""},
	} {
		r := keyframe.Records{Nodes: []keyframe.Node{c.node}, Before: []keyframe.Stored{frame(incA, "a", -100, "r")}, Entries: c.said}
		f := keyframe.At(second(c.at), &r)
		if c.state == "" {
			require.Empty(t, f.Nodes, c.name)
			require.Empty(t, f.Pools, c.name)
			continue
		}
		require.Len(t, f.Nodes, 1, c.name)
		require.Equal(t, c.state, f.Nodes[0].State, c.name)
		require.Equal(t, c.state == "silent", f.Pools[0].Slots == "?", c.name)
	}
	r := keyframe.Records{Before: []keyframe.Stored{frame(incA, "gone", 0, "r")}}
	require.Equal(t, "gone", keyframe.At(second(1), &r).Nodes[0].Name, "its row is deleted")
}

func TestWhoRoutedAndWhatWasCordoned(t *testing.T) {
	t.Parallel()
	operator := func(what, subject string) messages.JournalEntry {
		return messages.JournalEntry{At: second(1), Incarnation: incB, Kind: messages.JournalOperator, Subject: subject, What: what}
	}
	r := keyframe.Records{
		Nodes:  []keyframe.Node{{Incarnation: incA, Name: "a", StartedAt: second(-1), BeatAt: second(9)}, {Incarnation: incB, Name: "b", StartedAt: second(-1), BeatAt: second(9)}},
		Before: []keyframe.Stored{frame(incA, "a", 0, "rr"), frame(incB, "b", 0, "rr")},
		Entries: []messages.JournalEntry{
			{At: second(1), Incarnation: incA, Kind: messages.JournalRouter, Subject: "p", What: "taken", Detail: []byte(`{"epoch":7}`)},
			operator("cordon", "p"), operator("cordon", "b"), operator("cordon", "a/p/1"), operator("uncordon", "a"), operator("cancel", "b"),
			{At: second(1), Incarnation: incA, Kind: messages.JournalGap, Subject: "session", What: "dropped", Detail: []byte(`{"until":"2026-03-01T03:12:03Z","entries":4}`)},
		},
	}
	f := keyframe.At(second(2), &r)
	require.Equal(t, []string{"leading 7 true 01", "following 0 true "}, []string{
		fmt.Sprint(f.Pools[0].Mode, " ", f.Pools[0].Epoch, " ", f.Pools[0].Cordoned, " ", f.Pools[0].Cordons),
		fmt.Sprint(f.Pools[1].Mode, " ", f.Pools[1].Epoch, " ", f.Pools[1].Cordoned, " ", f.Pools[1].Cordons),
	})
	require.Equal(t, []bool{false, true}, []bool{f.Nodes[0].Cordoned, f.Nodes[1].Cordoned})
	require.True(t, f.Partial)
	require.Equal(t, []string{"4 entries of the kind session are missing in the journal from 2026-03-01T03:12:01Z to 2026-03-01T03:12:03Z"}, f.Notes)
}

// Between keyframes a node routes for its workers as its last entry says.
func TestHowANodeWasRouted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		entries []string
		want    string
	}{
		{nil, "following"},
		{[]string{"alone"}, "alone"},
		{[]string{"alone", "following"}, "following"},
		{[]string{"alone", "following", "alone"}, "alone"},
		{[]string{"following", "taken"}, "leading"},
		{[]string{"taken", "given_up"}, "following"},
	} {
		r := keyframe.Records{
			Nodes:  []keyframe.Node{{Incarnation: incA, Name: "a", StartedAt: second(-1), BeatAt: second(9)}},
			Before: []keyframe.Stored{frame(incA, "a", 0, "rr")},
		}
		for i, what := range c.entries {
			r.Entries = append(r.Entries, messages.JournalEntry{At: second(i + 1), Incarnation: incA, Kind: messages.JournalRouter, Subject: "p", What: what})
		}
		require.Equal(t, c.want, keyframe.At(second(8), &r).Pools[0].Mode, "%v", c.entries)
	}
}

// Between keyframes a pool is broken as its router noted it.
func TestAPoolOfThePastIsBroken(t *testing.T) {
	t.Parallel()
	a, b := messages.NewIncarnation(), messages.NewIncarnation()
	stored := func(inc messages.Incarnation, name string, broken bool, state lifecycle.State) keyframe.Stored {
		pool := keyframe.Pool{Name: "p", Broken: broken, Slots: []keyframe.Slot{{Used: true, Generation: 1, State: state}}}
		return keyframe.Stored{Incarnation: inc, At: second(0), Frame: &keyframe.Frame{Node: name, Pools: []keyframe.Pool{pool}}}
	}
	changed := func(at int, reason, detail string) messages.JournalEntry {
		return messages.JournalEntry{At: second(at), Incarnation: a, Kind: messages.JournalPool, Subject: "p", What: "condition", Reason: reason, Detail: []byte(detail)}
	}
	until := func(at int, then string) string {
		return fmt.Sprintf(`{"until":%q,"then":%q,"shares":{"ready":0.9}}`, second(at).Format(time.RFC3339), then)
	}
	sick, well := stored(a, "a", false, lifecycle.Terminated), stored(b, "b", false, lifecycle.Ready)
	for name, c := range map[string]struct {
		frames  []keyframe.Stored
		entries []messages.JournalEntry
		want    []bool // of a, of b
	}{
		"nothing noted":                        {[]keyframe.Stored{sick}, nil, []bool{false}},
		"broken at the keyframe":               {[]keyframe.Stored{stored(a, "a", true, lifecycle.Terminated)}, nil, []bool{true}},
		"broken since":                         {[]keyframe.Stored{sick}, []messages.JournalEntry{changed(10, "pool_broken", "")}, []bool{true}},
		"broken behind the moment":             {[]keyframe.Stored{sick}, []messages.JournalEntry{changed(90, "pool_broken", "")}, []bool{false}},
		"recovered since":                      {[]keyframe.Stored{stored(a, "a", true, lifecycle.Ready)}, []messages.JournalEntry{changed(10, "ready", "")}, []bool{false}},
		"its only part starts again":           {[]keyframe.Stored{stored(a, "a", true, lifecycle.Terminated)}, []messages.JournalEntry{changed(10, "workers_starting", "")}, []bool{false}},
		"the router only went":                 {[]keyframe.Stored{stored(a, "a", true, lifecycle.Ready)}, []messages.JournalEntry{changed(10, "handed_over", "")}, []bool{true}},
		"it changed often, and then broke":     {[]keyframe.Stored{sick}, []messages.JournalEntry{changed(10, "ready", until(20, "pool_broken"))}, []bool{true}},
		"it changed often, and is still at it": {[]keyframe.Stored{sick}, []messages.JournalEntry{changed(10, "ready", until(80, "pool_broken"))}, []bool{false}},
		"one part of two works":                {[]keyframe.Stored{stored(a, "a", true, lifecycle.Terminated), well}, []messages.JournalEntry{changed(10, "ready", "")}, []bool{true, false}},
		"both parts are broken":                {[]keyframe.Stored{sick, well}, []messages.JournalEntry{changed(10, "pool_broken", "")}, []bool{true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := keyframe.Records{Before: c.frames, Entries: c.entries}
			for _, f := range c.frames {
				r.Nodes = append(r.Nodes, keyframe.Node{Incarnation: f.Incarnation, Name: f.Node, StartedAt: start, BeatAt: second(60)})
			}
			got := []bool{}
			for _, p := range keyframe.At(second(60), &r).Pools {
				got = append(got, p.Broken)
			}
			require.Equal(t, c.want, got)
		})
	}
}
