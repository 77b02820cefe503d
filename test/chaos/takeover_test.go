package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/test/chaos"
	"github.com/troupe-run/troupe/test/servers"
)

// The promised bounds: how long after the kill of a node its work, and the work that it would have placed, is placed on other
// nodes; and for how long nothing is placed when a router stops in order.
const (
	takenOver = 6 * time.Second
	handedOn  = time.Second
)

// placedPool is the pool whose placements are measured.
const placedPool = "chaos.gw"

// trickleEvery is the time between two submissions during a fault.
const trickleEvery = 50 * time.Millisecond

func TestPlacingGoesOn(t *testing.T) {
	t.Parallel()
	placingGoesOn(t, 6, 1)
}

func TestDirectPlacingGoesOn(t *testing.T) {
	t.Parallel()
	placingGoesOn(t, 3, 1, directly)
}

func TestWholePlacingGoesOn(t *testing.T) {
	wholeOnly(t)
	placingGoesOn(t, 30, 30)
}

func TestWholeDirectPlacingGoesOn(t *testing.T) {
	wholeOnly(t)
	placingGoesOn(t, 30, 30, directly)
}

// placingGoesOn kills the router of three nodes, and stops it in order, while the other nodes accept work.
func placingGoesOn(t *testing.T, kills, stops int, env ...string) {
	random := rand.New(rand.NewPCG(seed(t), 9))
	f := newOwnPostgres(t, append(env, allEvents)...) // the test measures by the events of placements and claims
	paths, err := built()
	require.NoError(t, err)
	for _, name := range []string{"a", "b", "c"} {
		f.join(name, paths.troupe, "pack")
	}
	f.start()
	c := f.caller()
	var injections []placing
	for i := range kills {
		injections = append(injections, f.takeAway(c, random, fmt.Sprintf("kill%d", i), (*node).kill))
	}
	for i := range stops {
		injections = append(injections, f.takeAway(c, random, fmt.Sprintf("stop%d", i), (*node).stop))
	}
	f.nodes[0].settled(backTime)
	h := f.history(c)
	f.nodes[0].verdict(h)
	measured := measure(h, injections)
	measured.report(t, "kill", kills, takenOver)
	measured.report(t, "stop", stops, handedOn)
}

// placing is one fault of the router. Its name is in the keys of the work that was submitted during it.
type placing struct {
	name, victim string
	routed       bool // the store named it as the pool's router
	at           time.Time
}

// router is the node that routes for a pool, according to the store. ok is false if the store names none: then each node places
// what it accepts, and router returns any of them.
func (f *full) router(pool string, random *rand.Rand) (*node, bool) {
	f.t.Helper()
	found, err := servers.Query(f.postgres, "SELECT to_regclass('router') IS NOT NULL")
	require.NoError(f.t, err)
	if found[0][0] != "t" && found[0][0] != "true" {
		return f.any(random), false
	}
	rows, err := servers.Query(f.postgres, "SELECT incarnation::text FROM router WHERE incarnation IS NOT NULL AND pool = '"+pool+"'")
	require.NoError(f.t, err)
	for _, row := range rows {
		for _, n := range f.nodes {
			if f.nodes[0].incarnation(n.name).Incarnation.String() == row[0] {
				return n, true
			}
		}
	}
	return f.any(random), false
}

// takeAway kills or stops the router while the other nodes accept work, and starts a new node in its place at once. It returns
// when the work that the node ran is repeated.
func (f *full) takeAway(c *caller, random *rand.Rand, name string, how func(*node)) placing {
	f.t.Helper()
	victim, routed := f.router(placedPool, random)
	gone, rest := victim.name, f.others(victim)
	if strings.HasPrefix(name, "kill") {
		f.occupy(c, victim, name)
	}
	among := &caller{node: rest[0], others: rest[1:], patience: c.patience}
	ctx, stop := context.WithCancel(f.t.Context())
	var trickle sync.WaitGroup
	var failed error
	trickle.Go(func() { failed = among.trickle(ctx, name) })
	time.Sleep(4*trickleEvery + time.Duration(random.Int64N(int64(trickleEvery)))) // the time of the fault depends on the seed
	at := time.Now()
	how(victim)
	victim.rename(fmt.Sprintf("%s-%d", gone[:1], victim.boots))
	victim.start()
	rest[0].eventually(backTime, "what the node ran is repeated", func(context.Context) bool {
		return len(f.heldBy(rest[0], gone, name)) == 0
	})
	f.well()
	stop()
	trickle.Wait()
	require.NoError(f.t, failed)
	c.adopt(among)
	return placing{name: name, victim: gone, routed: routed, at: at}
}

// rename gives the node's next boot another name, so that its workers can be told from those of the last boot.
func (n *node) rename(name string) {
	n.name = name
	n.env = append(n.env, "TROUPE_NODE_NAME="+name)
}

// holdTime is the duration of a run that the fault interrupts. Its repetition ends at once. It is twice a lease: a node that cannot hear
// the store may still store the outcome of a run that ends before the others have declared that node dead.
const holdTime = 20 * time.Second

// occupyMax bounds the submissions until one of them runs on the chosen node.
const occupyMax = 12

// occupy makes the node run idempotent work. It cancels submissions that run on other nodes, because they would occupy workers
// that the test measures.
func (f *full) occupy(c *caller, victim *node, name string) {
	f.t.Helper()
	through := &caller{node: victim}
	defer c.adopt(through)
	var elsewhere []messages.ExecutionID
	for i := range occupyMax {
		w := &work{want: []messages.Status{messages.Completed, messages.Cancelled}}
		w.ActionRef, w.IdempotencyKey, w.Parameters = "chaos.go_hold", fmt.Sprintf("chaos.go_hold-%s-%d", name, i), parameters(holdTime)
		id, err := through.submit(f.t.Context(), w)
		require.NoError(f.t, err)
		var e form.ExecutionView
		victim.eventually(backTime, "the work runs", func(context.Context) bool {
			victim.get("/api/v1/executions/"+id.String(), &e)
			return e.Status >= messages.Running
		})
		if nodeOf(string(e.Worker)) == victim.name {
			through.clear(f.t, elsewhere)
			return
		}
		elsewhere = append(elsewhere, id)
	}
	require.FailNow(f.t, "node "+victim.name+" was given no work")
}

// clear cancels executions and waits for their ends.
func (c *caller) clear(t *testing.T, ids []messages.ExecutionID) {
	t.Helper()
	for _, id := range ids {
		require.NoError(t, c.cancel(t.Context(), id))
	}
	for _, id := range ids {
		_, err := c.wait(t.Context(), id)
		require.NoError(t, err)
	}
}

// heldBy lists the executions of the fault that run on the victim, according to another node.
func (f *full) heldBy(asked *node, victim, name string) (ids []messages.ExecutionID) {
	f.t.Helper()
	for _, e := range asked.with("running") {
		if nodeOf(string(e.Worker)) == victim && strings.HasPrefix(e.IdempotencyKey, "chaos.go_hold-"+name+"-") {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// adopt adds another caller's log to this one's.
func (c *caller) adopt(other *caller) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, other.calls...)
	c.again += other.again
}

// trickle submits a short execution every trickleEvery until ctx ends.
func (c *caller) trickle(ctx context.Context, name string) error {
	tick := time.NewTicker(trickleEvery)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		w := &work{want: []messages.Status{messages.Completed}}
		w.ActionRef, w.IdempotencyKey, w.Parameters = "chaos.go_redo", fmt.Sprintf("trickle-%s-%d", name, i), parameters(5*time.Millisecond)
		if _, err := c.submit(context.WithoutCancel(ctx), w); err != nil {
			return err
		}
	}
}

// placings are the measurements, by the kind of fault.
type placings map[string]*figures

// figures are the measurements of one kind of fault: how often the node was a router, and the times after each fault.
type figures struct {
	routed                 int
	first, waited, running []time.Duration
	longest                *chaos.Stored // the execution that waited longest
	longestWait            time.Duration
}

// measure reads three times from the events of each fault: when the first execution that had not started was placed on another
// node, the longest wait of such an execution, and when the work that the node ran was placed again.
func measure(h *chaos.History, injections []placing) placings {
	all := placings{}
	for _, b := range injections {
		kind := strings.TrimRight(b.name, "0123456789")
		m := all[kind]
		if m == nil {
			m = &figures{}
			all[kind] = m
		}
		if b.routed {
			m.routed++
		}
		var first, waited time.Duration
		for i := range h.Executions {
			e := &h.Executions[i]
			switch {
			case strings.HasPrefix(e.Key, "trickle-"+b.name+"-"):
				if placed := b.placedElsewhere(e); placed > 0 {
					wait := placed - max(0, e.Requested.Sub(b.at))
					waited = max(waited, wait)
					if wait > m.longestWait {
						m.longest, m.longestWait = e, wait
					}
					if first == 0 || placed < first {
						first = placed
					}
				}
			case strings.HasPrefix(e.Key, "chaos.go_hold-"+b.name+"-") && b.hit(e):
				m.running = append(m.running, b.placedElsewhere(e))
			}
		}
		m.first, m.waited = append(m.first, first), append(m.waited, waited)
	}
	return all
}

// placedElsewhere is the time from the fault until the execution was placed on another node; 0: it was not.
func (b placing) placedElsewhere(e *chaos.Stored) time.Duration {
	for _, ev := range e.Changes() {
		if chaos.Placed(ev) && ev.At.After(b.at) && nodeOf(ev.Worker) != b.victim {
			return ev.At.Sub(b.at)
		}
	}
	return 0
}

// hit reports whether the execution ran on the node at the fault.
func (b placing) hit(e *chaos.Stored) bool {
	on := false
	for _, ev := range e.Changes() {
		if ev.At.After(b.at) {
			break
		}
		on = ev.Kind == "claim" && nodeOf(ev.Worker) == b.victim
	}
	return on
}

// report logs the measurements, and requires that they are within the promise.
func (p placings) report(t *testing.T, kind string, injections int, promise time.Duration) {
	t.Helper()
	m := p[kind]
	require.NotNil(t, m)
	for _, times := range [][]time.Duration{m.first, m.waited, m.running} {
		slices.Sort(times)
	}
	t.Logf("%d times %s (%d of a router): the first work that had not been started is placed after p50 %s, max %s; such work waits at most p50 %s, max %s; "+
		"what it ran (%d) is placed again after p50 %s, max %s", injections, kind, m.routed, quantile(m.first, 0.5), quantile(m.first, 1),
		quantile(m.waited, 0.5), quantile(m.waited, 1), len(m.running), quantile(m.running, 0.5), quantile(m.running, 1))
	if m.longestWait > promise {
		t.Logf("what waited longest: requested %s\n%s", m.longest.Requested.Format("15:04:05.000"), strings.Join(m.longest.Trace(), "\n"))
	}
	require.Len(t, m.first, injections)
	require.NotZero(t, m.first[0], "nothing was placed after one of the faults")
	require.LessOrEqual(t, m.waited[len(m.waited)-1], promise)
	if kind == "kill" {
		require.GreaterOrEqual(t, len(m.running), injections, "a fault hit nothing that ran")
		require.LessOrEqual(t, m.running[len(m.running)-1], promise)
	}
}
