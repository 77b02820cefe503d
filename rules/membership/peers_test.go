package membership

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// What the last renewal showed of another incarnation says how it counts as a peer.
func TestWhoCountsAsAPeer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		other Other
		want  Weight
	}{
		"it lives":                            {Other{Trace: Trace{Locks: true, Held: true, OwnLock: time.Second}}, Counts},
		"it drains":                           {Other{Trace: Trace{Leaving: true, Locks: true, Held: true, OwnLock: time.Second}}, Counts},
		"of an older release":                 {Other{Trace: Trace{OwnLock: time.Second}}, Counts},
		"its lease has run out":               {Other{Lapsed: true, Trace: Trace{Locks: true, Held: true, OwnLock: time.Second}}, IfAnswers},
		"killed just now":                     {Other{Trace: Trace{Locks: true, OwnLock: time.Second}}, MayRefuse},
		"killed, and its lease has run out":   {Other{Lapsed: true, Trace: Trace{Locks: true, OwnLock: time.Second}}, IfAnswers},
		"killed, and started again":           {Other{Trace: Trace{Locks: true, OwnLock: time.Second, Replaced: true}}, IfAnswers},
		"followed, and its connection stands": {Other{Trace: Trace{Locks: true, Held: true, OwnLock: time.Second, Replaced: true}}, Counts},
		"killed before the first renewal":     {Other{Trace: Trace{Locks: true}}, MayRefuse},
	} {
		require.Equal(t, c.want, c.other.Weight(), name)
	}
	m := New(Config{}, Joined{Leases: true, Others: []Other{{Incarnation: inc(2)}, {Incarnation: inc(1)}, {Incarnation: inc(3), Lapsed: true}}})
	m.Step(0, Resumed{})
	require.Equal(t, Asked{Counts: {inc(1), inc(2)}, IfAnswers: {inc(3)}}, m.Asked())
	m.Step(time.Second, Renewed{Asked: time.Second, Others: []Other{{Incarnation: inc(3)}, {Incarnation: inc(1), Lapsed: true}}})
	require.Equal(t, Asked{Counts: {inc(3)}, IfAnswers: {inc(1)}}, m.Asked(), "by the last renewal")
}

// restart ends a node's process, and brings a new incarnation up at its address a moment later.
func (f *fleetModel) restart(n *modelNode) {
	f.kill(n)
	f.after(f.upTo(10*time.Millisecond, time.Second), func() {
		next := &modelNode{inc: messages.Incarnation{n.inc[0] + 100}, place: n.place}
		next.beatAt, next.leaseUntil, next.steadySince, next.base = f.now, f.now+modelLease, f.now, f.now
		f.nodes = append(f.nodes, next)
		next.m = New(Config{Lease: modelLease, Beat: modelBeat}, Joined{Leases: true})
		f.step(next, Resumed{})
	})
}

// However shortly before an outage nodes were restarted, killed or frozen: nobody who lives, and whom nobody contradicts, gives itself up.
func TestAnOutageAfterARestartFencesNobody(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(f *fleetModel){
		"one, alone":         func(f *fleetModel) { f.nodes = f.nodes[:1]; f.restart(f.nodes[0]) },
		"one of several":     func(f *fleetModel) { f.restart(f.nodes[0]) },
		"all":                func(f *fleetModel) { each(f, f.restart) },
		"all but one killed": func(f *fleetModel) { each(f, f.kill); f.restart(f.nodes[0]) },
		"all, twice":         func(f *fleetModel) { each(f, f.restart); f.after(1500*time.Millisecond, func() { each(f, f.restart) }) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(300) {
				f := newFleetModel(seed, 2+int(seed%4))
				f.closed = false
				f.run(8 * time.Second)
				before(f)
				f.from = f.now + f.upTo(4*time.Second, 3*modelLease) // each has renewed since the last one was started
				f.until = f.from + f.upTo(modelLease, 5*modelLease)
				if !f.hangs {
					f.after(f.from-f.now, func() { f.unlock(true) })
				}
				f.run(f.until + 3*modelLease)
				lives := 0
				for _, n := range f.nodes {
					require.Empty(t, n.fenced, "seed %d: %s, away from %s to %s", seed, n.inc.Short(), f.from, f.until)
					if !n.ended {
						lives++
					}
				}
				require.Positive(t, lives)
				require.Empty(t, f.wrong, "seed %d", seed)
			}
		})
	}
}

// each does something to all that live now.
func each(f *fleetModel, do func(*modelNode)) {
	for _, n := range f.nodes {
		if !n.ended {
			do(n)
		}
	}
}
