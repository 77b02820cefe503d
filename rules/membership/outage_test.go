package membership

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

// fleetModel is a few nodes with the real machine and a store that is away for all of them for a while. The store's two
// statements and the decision to declare can each be as they were before a gap ended steadiness.
type fleetModel struct {
	rnd               *rand.Rand
	oldRule, oldNodes bool
	from, until       time.Duration // the store is away
	hangs             bool          // it is frozen: what was asked is done when it thaws
	closed            bool          // somebody refuses every connection between nodes in their place
	now               time.Duration
	made              int // moments so far
	queue             moments
	nodes             []*modelNode
	wrong             []string // of those that live, who was declared dead
}

type modelNode struct {
	inc                             messages.Incarnation
	m                               *Machine
	base                            time.Duration // the node's clock begins here
	beatAt, leaseUntil, steadySince time.Duration // its row
	lockedSince                     time.Duration
	locked                          bool          // its connection to the store holds its lock
	dead                            bool          // its row says so
	ended                           bool          // it was killed, or has fenced itself
	foundAt                         time.Duration // when it was declared dead
	granted, sure                   time.Duration // what it tells its peers by
	tick                            time.Duration // the next one that is wanted
	place                           int           // of its address: who is started again has the one before's
	fenced                          string        // why it gave itself up
}

const (
	modelLease = 4 * time.Second
	modelBeat  = time.Second
)

type moment struct {
	at time.Duration
	n  int // breaks ties in the order of their making
	do func()
}

type moments []moment

func (q moments) Len() int { return len(q) }
func (q moments) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].n < q[j].n
}
func (q moments) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *moments) Push(x any)   { *q = append(*q, x.(moment)) }
func (q *moments) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func (f *fleetModel) after(d time.Duration, do func()) {
	f.made++
	heap.Push(&f.queue, moment{f.now + d, f.made, do})
}

func (f *fleetModel) upTo(least, most time.Duration) time.Duration {
	return least + time.Duration(f.rnd.Int64N(int64(most-least)+1))
}

func newFleetModel(seed uint64, count int) *fleetModel {
	f := &fleetModel{rnd: rand.New(rand.NewPCG(seed, seed))}
	f.hangs, f.closed = f.rnd.IntN(2) == 0, f.rnd.IntN(2) == 0
	for i := range count {
		n := &modelNode{inc: inc(byte(i + 1)), place: i}
		f.nodes = append(f.nodes, n)
		f.after(f.upTo(0, modelBeat), func() {
			n.base, n.beatAt, n.leaseUntil, n.steadySince = f.now, f.now, f.now+modelLease, f.now
			n.m = New(Config{Lease: modelLease, Beat: modelBeat}, Joined{Leases: true})
			f.step(n, Resumed{})
		})
	}
	return f
}

func (f *fleetModel) run(until time.Duration) {
	for len(f.queue) > 0 && f.queue[0].at <= until {
		next := heap.Pop(&f.queue).(moment)
		f.now = next.at
		next.do()
	}
	f.now = until
}

// step gives a node's machine an event, and carries out what it wants.
func (f *fleetModel) step(n *modelNode, e Event) {
	if n.ended {
		return
	}
	for _, effect := range n.m.Step(f.now-n.base, e) {
		switch effect := effect.(type) {
		case Beat:
			f.beat(n)
		case Grant:
			n.granted, n.sure = n.base+effect.Asked, n.base+effect.Steady+modelLease/2
		case AskPeers:
			f.askPeers(n)
		case Declare:
			if !f.oldNodes {
				f.declare(n)
			}
		case Knock:
			f.knock(n, effect.Incarnations)
		case DeclareGone:
			f.declareGone(n, effect.Gone)
		case Fence:
			n.fenced = effect.Why
			n.end()
		}
	}
	n.tick = n.base + n.m.Next()
	f.after(max(n.tick-f.now, time.Millisecond)+f.late(), func() {
		if f.now >= n.tick {
			f.step(n, Tick{})
		}
	})
}

// late is how late a timer fires: seldom much.
func (f *fleetModel) late() time.Duration {
	if f.rnd.IntN(20) == 0 {
		return f.upTo(0, 400*time.Millisecond)
	}
	return f.upTo(0, 20*time.Millisecond)
}

// atStore carries a statement to the store. Where that is away it fails, or, where the store hangs, is done when it goes on, while
// the caller gives up after half a lease.
func (f *fleetModel) atStore(do func() Event, answer func(Event)) {
	way := f.upTo(time.Millisecond, 30*time.Millisecond)
	f.after(way, func() {
		if f.now < f.from || f.now >= f.until {
			e := do()
			f.after(way, func() { answer(e) })
			return
		}
		if !f.hangs {
			f.after(way, func() { answer(nil) })
			return
		}
		answered := false
		f.after(modelLease/2, func() {
			if !answered {
				answered = true
				answer(nil)
			}
		})
		f.after(f.until-f.now+f.upTo(0, 50*time.Millisecond), func() {
			e := do()
			if !answered {
				answered = true
				answer(e)
			}
		})
	})
}

// beat is the store's statement that renews.
func (f *fleetModel) beat(n *modelNode) {
	asked := f.now - n.base
	f.atStore(func() Event {
		if n.dead {
			return FoundDead{}
		}
		gap := f.now - n.beatAt
		if f.oldRule && n.leaseUntil < f.now || !f.oldRule && gap > modelLease*GapShare/1000 {
			n.steadySince = f.now
		}
		n.beatAt, n.leaseUntil = f.now, f.now+modelLease
		if !n.locked && !n.ended {
			n.locked, n.lockedSince = true, f.now
		}
		e := Renewed{Asked: asked, SteadyFor: f.now - n.steadySince, Steady: f.now-n.steadySince >= modelLease}
		for _, o := range f.nodes {
			if o != n && o.m != nil && !o.dead {
				e.Others = append(e.Others, Other{o.inc, o.leaseUntil <= f.now, moment0.Add(o.beatAt), Trace{
					Locks: o.lockedSince > 0, Held: o.locked, OwnLock: f.now - n.lockedSince, Silence: f.now - o.beatAt, Lease: modelLease,
					Replaced: f.replaced(o),
				}})
			}
		}
		return e
	}, func(e Event) {
		switch e := e.(type) {
		case nil:
			f.step(n, Unanswered{})
		case Renewed:
			f.step(n, e)
			if f.oldNodes && e.Steady {
				f.declare(n)
			}
		default:
			f.step(n, e)
		}
	})
}

// declare is the store's statement that declares dead.
func (f *fleetModel) declare(n *modelNode) {
	f.atStore(func() Event {
		e := Declared{}
		recent := f.oldRule || f.now-n.beatAt <= modelLease*GapShare/1000
		if n.dead || n.leaseUntil <= f.now || f.now-n.steadySince < modelLease || !recent {
			return e
		}
		for _, o := range f.nodes {
			if o == n || o.m == nil || o.dead || o.leaseUntil >= f.now {
				continue
			}
			o.dead, o.foundAt = true, f.now
			e.Dead = append(e.Dead, o.inc)
			if !o.ended {
				f.wrong = append(f.wrong, fmt.Sprintf("%s at %s, renewed at %s", o.inc.Short(), f.now, o.beatAt))
			}
		}
		return e
	}, func(e Event) {
		if e == nil {
			e = Declared{}
		}
		f.step(n, e)
	})
}

// moment0 is when the store's clock shows 0.
var moment0 = time.Unix(0, 0)

// end ends the node's process; the store frees its lock.
func (n *modelNode) end() { n.ended, n.locked = true, false }

// knock asks at the addresses of others.
func (f *fleetModel) knock(n *modelNode, asked []messages.Incarnation) {
	f.after(f.upTo(time.Millisecond, 20*time.Millisecond), func() {
		e := Knocked{Asked: asked}
		for _, o := range f.nodes {
			if slices.Contains(asked, o.inc) && (o.ended || f.closed) {
				e.Refused = append(e.Refused, o.inc)
			}
		}
		f.step(n, e)
	})
}

// declareGone is the store's statement that declares dead within the lease.
func (f *fleetModel) declareGone(n *modelNode, gone []Gone) {
	f.atStore(func() Event {
		e := Declared{}
		if n.dead || !n.locked || f.now-n.lockedSince < modelLease || f.now-n.steadySince < modelLease || f.now-n.beatAt > modelLease*GapShare/1000 {
			return e
		}
		for _, g := range gone {
			for _, o := range f.nodes {
				silent := n.beatAt-o.beatAt >= modelLease*SilentShare/1000 && f.now-n.beatAt >= modelLease*SettleShare/1000
				if o.inc != g.Incarnation || o.dead || o.locked || !moment0.Add(o.beatAt).Equal(g.Renewed) || !silent {
					continue
				}
				o.dead, o.foundAt = true, f.now
				e.Dead = append(e.Dead, o.inc)
				if !o.ended {
					f.wrong = append(f.wrong, fmt.Sprintf("%s within its lease at %s, renewed at %s", o.inc.Short(), f.now, o.beatAt))
				}
			}
		}
		return e
	}, func(e Event) {
		if e == nil {
			e = Declared{}
		}
		f.step(n, e)
	})
}

// unlock ends the connections of nodes to the store, of all or of one that is drawn.
func (f *fleetModel) unlock(all bool) {
	one := f.rnd.IntN(len(f.nodes))
	for i, n := range f.nodes {
		if all || i == one {
			n.locked = false
		}
	}
}

// kill ends a node's process, which the others hear of by their connections to it.
func (f *fleetModel) kill(n *modelNode) {
	n.end()
	for _, o := range f.nodes {
		f.after(f.upTo(0, 20*time.Millisecond), func() {
			if o.m != nil {
				f.step(o, PeerLost{})
			}
		})
	}
}

// replaced reports whether a later node that holds its lock has the address of this one.
func (f *fleetModel) replaced(n *modelNode) bool {
	return slices.ContainsFunc(f.nodes, func(o *modelNode) bool { return o.place == n.place && o.locked && o.base > n.beatAt })
}

// askPeers asks the other nodes, as peers.Heard counts, whether they renew, as actors.Lease answers. All that live can be reached.
func (f *fleetModel) askPeers(n *modelNode) {
	f.after(f.upTo(time.Millisecond, 20*time.Millisecond), func() {
		h := Heard{}
		for weight, list := range n.m.Asked() {
			for _, inc := range list {
				o := f.nodes[slices.IndexFunc(f.nodes, func(o *modelNode) bool { return o.inc == inc })]
				f.hear(&h, o, Weight(weight))
			}
		}
		f.step(n, h)
	})
}

// hear counts one node. One that has ended refuses, unless a later one has its address.
func (f *fleetModel) hear(h *Heard, o *modelNode, weight Weight) {
	refuses := o.ended && !slices.ContainsFunc(f.nodes, func(l *modelNode) bool { return l.place == o.place && !l.ended })
	switch {
	case o.ended && (weight == IfAnswers || weight == MayRefuse && refuses):
		return
	case o.ended:
	case f.now < o.granted+modelLease*4/10 && f.now >= o.sure:
		h.Seen++
	default:
		h.Lost++
	}
	h.Peers++
}

// outages are the lengths of the store's absence, in thousandths of a lease.
var outages = []int{20, 200, 500, 800, 950, 1000, 1500}

// outageAt has the store go away, once the nodes are steady, at any phase of their beats.
func (f *fleetModel) outageAt(share int) {
	f.from = 8*time.Second + f.upTo(0, 2*modelBeat)
	f.until = f.from + modelLease*time.Duration(share)/1000
	if !f.hangs {
		f.after(f.from, func() { f.unlock(true) })
	}
}

// However long the store is away for everyone, nobody who lives is declared dead: the decision alone and the statements alone
// see to it. Both as they were before declared the living dead.
func TestNobodyWhoLivesIsDeclaredDeadAfterAnOutage(t *testing.T) {
	t.Parallel()
	const histories = 300
	for _, c := range []struct {
		name              string
		oldRule, oldNodes bool
		sound             bool
	}{
		{"decision and statements", false, false, true},
		{"the decision alone", true, false, true},
		{"the statements alone", false, true, true},
		{"neither, as it was", true, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			wrong := 0
			for _, share := range outages {
				for seed := range uint64(histories) {
					f := newFleetModel(seed, 2+int(seed%4))
					f.oldRule, f.oldNodes = c.oldRule, c.oldNodes
					f.outageAt(share)
					for at := time.Second; at < f.until+12*time.Second; at += f.upTo(0, 3*time.Second) {
						f.after(at, func() { f.unlock(false) })
					}
					f.run(f.until + 12*time.Second)
					wrong += len(f.wrong)
					if c.sound {
						require.Empty(t, f.wrong, "seed %d, away from %s to %s", seed, f.from, f.until)
					}
				}
			}
			t.Logf("%d living nodes declared dead in %d histories", wrong, histories*len(outages))
			require.Equal(t, c.sound, wrong == 0, "the model finds what was wrong")
		})
	}
}

// A node that dies is found within the lease, a beat and a second. One that dies around an outage is found within as long after its
// end, and the lease for which the others have to be steady again.
func TestTheDeadAreFoundInTime(t *testing.T) {
	t.Parallel()
	const inTime = modelLease + modelBeat + time.Second
	for _, share := range append([]int{0}, outages...) {
		for seed := range uint64(150) {
			f := newFleetModel(seed, 2+int(seed%4))
			f.outageAt(share)
			last := f.nodes[len(f.nodes)-1]
			killed := f.from + f.upTo(-2*modelBeat, max(f.until-f.from, 2*modelBeat))
			limit := killed + inTime
			if share > 0 {
				limit = max(killed, f.until) + modelLease + inTime
			}
			f.after(killed, func() { f.kill(last) })
			f.run(limit)
			if !slices.ContainsFunc(f.nodes, func(n *modelNode) bool { return !n.ended }) {
				continue // it died in the outage, and the only other could not know that, and gave itself up
			}
			require.True(t, last.dead, "share %d, seed %d: killed at %s, away from %s to %s", share, seed, killed, f.from, f.until)
			require.Empty(t, f.wrong, "share %d, seed %d", share, seed)
		}
	}
}

// A node whose process ends while all else is well is declared dead long before its lease has run out, unless it cannot be told from
// one that lives.
func TestTheKilledAreFoundWithinTheirLease(t *testing.T) {
	t.Parallel()
	var took []time.Duration
	for seed := range uint64(300) {
		f := newFleetModel(seed, 2+int(seed%4))
		f.from, f.until = time.Hour, time.Hour
		f.closed = false
		last := f.nodes[len(f.nodes)-1]
		killed := 10*time.Second + f.upTo(0, 2*modelBeat)
		f.after(killed, func() { f.kill(last) })
		f.run(killed + modelLease)
		require.True(t, last.dead, "seed %d", seed)
		require.Empty(t, f.wrong)
		require.GreaterOrEqual(t, last.foundAt-killed, EndTime, "its guardian has ended what it ran")
		took = append(took, last.foundAt-killed)
	}
	slices.Sort(took)
	t.Logf("declared dead after: p50 %s, max %s", took[len(took)/2], took[len(took)-1])
	require.Less(t, took[len(took)/2], 1500*time.Millisecond)
	require.Less(t, took[len(took)-1], modelLease-modelBeat)
}
