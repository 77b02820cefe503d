package workers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor/part"
)

// Which boots a node's boot followed is told by the nodes' rows.
func TestEarlierBoots(t *testing.T) {
	t.Parallel()
	begun := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	self := messages.NewIncarnation()
	row := func(name string, state store.NodeState, started, beat time.Duration) store.Node {
		return store.Node{Incarnation: messages.NewIncarnation(), Name: name, State: state, StartedAt: begun.Add(started), BeatAt: begun.Add(beat)}
	}
	me := store.Node{Incarnation: self, Name: "n", State: store.NodeActive, StartedAt: begun, BeatAt: begun.Add(time.Hour)}
	one := row("n", store.NodeDead, -3*time.Hour, -2*time.Hour)
	two := row("n", store.NodeDead, -time.Hour, -time.Minute)
	many := []store.Node{me}
	for i := range bootsMax + 1 {
		many = append(many, row("n", store.NodeDead, -time.Duration(i+1)*time.Minute, -time.Duration(i+1)*time.Minute))
	}
	for name, c := range map[string]struct {
		nodes   []store.Node
		earlier []store.Node
		unknown bool
	}{
		"the first boot":                    {nodes: []store.Node{me}},
		"its own row is not there":          {nodes: []store.Node{one}, unknown: true},
		"the newest first":                  {nodes: []store.Node{one, me, two}, earlier: []store.Node{two, one}},
		"other names":                       {nodes: []store.Node{me, row("m", store.NodeDead, -time.Hour, -time.Minute)}},
		"one that came after":               {nodes: []store.Node{me, row("n", store.NodeDead, time.Minute, time.Minute)}},
		"not declared dead yet":             {nodes: []store.Node{me, one, row("n", store.NodeActive, -time.Hour, -time.Second)}, unknown: true},
		"one that lived beside it":          {nodes: []store.Node{me, one, row("n", store.NodeDead, -time.Hour, time.Minute)}},
		"before the one that lived beside":  {nodes: []store.Node{me, two, row("n", store.NodeDead, -2*time.Hour, time.Minute)}, earlier: []store.Node{two}},
		"away for more than a day":          {nodes: []store.Node{me, row("n", store.NodeDead, -48*time.Hour, -25*time.Hour)}},
		"more than what is read of at most": {nodes: many, earlier: many[1 : bootsMax+1]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			earlier, known := earlierBoots(c.nodes, self)
			require.Equal(t, !c.unknown, known)
			require.Len(t, earlier, len(c.earlier))
			for i := range earlier {
				require.Equal(t, c.earlier[i].Incarnation, earlier[i].Incarnation, i)
			}
		})
	}
}

func TestAwaySince(t *testing.T) {
	t.Parallel()
	const init, ready, ended = "initializing", "ready", "terminated"
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	died := func(ago time.Duration, states ...string) boot {
		b := boot{beat: now.Add(-ago)}
		for i, state := range states {
			b.workers = append(b.workers,
				store.Worker{Key: messages.WorkerKey{Pool: "p", Slot: messages.Slot(i)}, State: state},
				store.Worker{Key: messages.WorkerKey{Pool: "other", Slot: messages.Slot(i + 9)}, State: ready})
		}
		return b
	}
	type lost = map[messages.Slot]time.Duration
	for name, c := range map[string]struct {
		boots     []boot
		want      lost
		undecided bool
	}{
		"nobody died":                     {},
		"what could work":                 {boots: []boot{died(time.Minute, ready, "busy", "degraded")}, want: lost{0: time.Minute, 1: time.Minute, 2: time.Minute}},
		"what was ended":                  {boots: []boot{died(time.Minute, ended, "terminating", ready)}, want: lost{2: time.Minute}},
		"what was starting":               {boots: []boot{died(time.Minute, init, ready)}, want: lost{1: time.Minute}, undecided: true},
		"what was starting for long":      {boots: []boot{died(time.Minute, init), died(time.Hour, ready)}, want: lost{0: time.Hour}},
		"what had been ended":             {boots: []boot{died(time.Minute, init), died(time.Hour, ended)}},
		"the newest boot that had it":     {boots: []boot{died(time.Minute, ready, init), died(time.Hour, ready, ready)}, want: lost{0: time.Minute, 1: time.Hour}},
		"a slot that the next boot lacks": {boots: []boot{died(time.Minute, init), died(time.Hour, ready, ready)}, want: lost{0: time.Hour}},
		"one that came to a stop between": {boots: []boot{died(time.Minute, init), died(time.Hour, ended), died(2*time.Hour, ready)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			since, undecided := awaySince(c.boots, "p")
			require.Equal(t, c.undecided, undecided)
			require.Len(t, since, len(c.want))
			for slot, ago := range c.want {
				require.Equal(t, now.Add(-ago), since[slot], slot)
			}
		})
	}
}

// A worker that is lost and takes several starts to come back was away once, and for all that time.
func TestDowntimeIsCountedOnce(t *testing.T) {
	t.Parallel()
	p := New(&part.Shared{Config: &part.Config{}}, &Memory{}, nil, nil)
	var counted []time.Duration
	p.Config.Hooks.Away = func(_ string, d time.Duration) { counted = append(counted, d) }
	s, now := &slot{}, time.Now()
	s.backAgain(p, now)
	require.Empty(t, counted, "its first start")
	s.lose(&actors.WorkerEnded{WasReady: true, Cause: lifecycle.CausePortFailure}, now)
	for range 3 { // starts that fail
		s.lose(&actors.WorkerEnded{Cause: lifecycle.CausePortFailure}, now.Add(time.Minute))
	}
	s.backAgain(p, now.Add(2*time.Minute))
	s.backAgain(p, now.Add(3*time.Minute))
	require.Equal(t, []time.Duration{2 * time.Minute}, counted)
}
