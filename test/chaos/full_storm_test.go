package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/test/chaos"
	"github.com/troupe-run/troupe/test/servers"
)

func TestFullChaos(t *testing.T) {
	t.Parallel()
	fullChaos(t, storm{executions: 2000, injections: len(faults) - 1, sessions: 16, callers: 32, stretch: 4}, faults)
}

func TestWholeFullChaos(t *testing.T) {
	wholeOnly(t)
	fullChaos(t, wholeStorm(), wholeFaults())
}

func TestFullChaosWithEvents(t *testing.T) {
	t.Parallel()
	fullChaos(t, storm{executions: 600, injections: 3, sessions: 16, callers: 32, stretch: 4, events: true}, faults)
}

func TestWholeFullChaosWithEvents(t *testing.T) {
	wholeOnly(t)
	s := wholeStorm()
	s.events = true
	fullChaos(t, s, wholeFaults())
}

// TestDirectChaos injects the faults that are possible without RabbitMQ, into nodes that hand work to each other.
func TestDirectChaos(t *testing.T) {
	t.Parallel()
	fullChaos(t, storm{executions: 1200, injections: len(directFaults), sessions: 16, callers: 32, stretch: 4, direct: true}, directFaults)
}

func TestWholeDirectChaos(t *testing.T) {
	wholeOnly(t)
	s := wholeStorm()
	s.direct, s.injections = true, 8*len(directFaults)
	fullChaos(t, s, append(slices.Clone(directFaults), freeze, freeze))
}

// TestDispatchChaos ends nodes that share a RabbitMQ, in all ways. Each start gives a node the other dispatch.
func TestDispatchChaos(t *testing.T) {
	t.Parallel()
	fullChaos(t, storm{executions: 800, injections: len(changeFaults), sessions: 16, callers: 32, stretch: 4, change: true}, changeFaults)
}

func TestWholeDispatchChaos(t *testing.T) {
	wholeOnly(t)
	s := wholeStorm()
	s.change, s.injections = true, 8*len(changeFaults)
	fullChaos(t, s, changeFaults)
}

// TestPathFaults blocks parts that every execution uses: rows, statements, exchanges.
func TestPathFaults(t *testing.T) {
	t.Parallel()
	fullChaos(t, storm{executions: 800, injections: len(pathFaults()), sessions: 16, callers: 32, stretch: 4}, pathFaults())
}

func TestWholePathFaults(t *testing.T) {
	wholeOnly(t)
	fullChaos(t, storm{executions: 12_000, injections: 4 * len(pathFaults()), sessions: 64, callers: 48, stretch: 8, idle: 100_000}, pathFaults())
}

// wholeStorm is the storm of the full mode at its full size.
func wholeStorm() storm {
	return storm{executions: 20_000, injections: 4 * len(wholeFaults()), sessions: 64, callers: 48, stretch: 8}
}

// fullChaos injects every fault into two nodes with servers of their own, under load, in the order of the seed.
func fullChaos(t *testing.T, s storm, faults []fault) {
	paths, err := built()
	require.NoError(t, err)
	var f *full
	if s.direct {
		f = newDirect(t, paths.troupe, s.env()...)
	} else {
		f = newStormFleet(t, paths.troupe, s.env()...)
	}
	f.alternate(s)
	f.fillSessions(s.idle)
	c := f.caller()
	ctx, cancel := context.WithTimeout(t.Context(), s.patience())
	defer cancel()
	f.ended(f.through(ctx, s, faults, c))
	f.nodes[0].settled(backTime)
	h := f.history(c)
	f.nodes[0].verdict(h)
	f.report(c, h.Filled())
}

// alternate gives the nodes, which have started with their default, the other dispatch at each further start.
func (f *full) alternate(s storm) {
	if s.change {
		for _, n := range f.nodes {
			n.turns = dispatches()
		}
	}
}

// fillSessions stores idle sessions that are bound to live workers.
func (f *full) fillSessions(count int) {
	f.t.Helper()
	if count == 0 {
		return
	}
	require.NoError(f.t, servers.Execute(f.postgres, fmt.Sprintf(`INSERT INTO session (pool, session, epoch, worker_inc, worker_pool, worker_slot, bound_at, touched_at)
 SELECT 'chaos.py', 'idle-' || i, 1, (SELECT incarnation FROM node WHERE state <> 'dead' LIMIT 1), 'chaos.py', i %% 3, now(), now() FROM generate_series(1, %d) AS i`, count)))
}

// newStormFleet starts two nodes of the given binary with private servers.
func newStormFleet(t *testing.T, troupe string, env ...string) *full {
	t.Helper()
	f := newFull(t, append(env, "TROUPE_EXECUTOR_CLAIM_TIMEOUT=3", "TROUPE_MESSAGE_QUEUE_RABBITMQ_WORKER_QUEUE_TTL_MS=4000")...)
	f.collect()
	f.connectThrough()
	f.join("a", troupe, "pack")
	f.join("b", troupe, "pack")
	f.start()
	return f
}

// newDirect starts two nodes of the given binary without RabbitMQ, on a private Postgres. They hand work to each other.
func newDirect(t *testing.T, troupe string, env ...string) *full {
	t.Helper()
	f := &full{t: t}
	f.ownPostgres = servers.PrivatePostgres(t, servers.PostgresOptions{})
	f.share(f.ownPostgres.URL, append(env, "TROUPE_EXECUTOR_CLAIM_TIMEOUT=3"))
	f.join("a", troupe, "pack")
	f.join("b", troupe, "pack")
	f.start()
	return f
}

// through injects every fault of the storm under load, before ctx ends. The returned function waits for the load's end.
func (f *full) through(ctx context.Context, s storm, faults []fault, c *caller) (load func() error) {
	f.t.Helper()
	random := rand.New(rand.NewPCG(seed(f.t), 4))
	f.calls = c
	plan := s.plan(random)
	for _, w := range plan {
		mayExpire(w)
	}
	var finished, gate atomic.Int64
	load = startGated(ctx, c, s, plan, random.Uint64(), &finished, &gate)
	order := s.order(faults, random)
	if !s.direct && !s.change {
		order = append(order, theft) // once more at the end: no end of a node follows, after which lost work would be found anyway
	}
	f.injectAll(ctx, s, order, random, &finished, &gate)
	return load
}

// patience is the longest time for a storm's load. The load waits for each fault.
func (s storm) patience() time.Duration {
	return 5*time.Minute + time.Duration(s.executions)*30*time.Millisecond + time.Duration(s.injections)*30*time.Second
}

// ended waits for the load after the last fault. If an execution does not end, it shows the execution with the node's reason.
func (f *full) ended(load func() error) {
	f.t.Helper()
	over := make(chan error, 1)
	go func() { over <- load() }()
	select {
	case err := <-over:
		require.NoError(f.t, err)
	case <-time.After(backTime):
		f.nodes[0].settled(time.Second)
		require.FailNow(f.t, "all executions have ended, and a caller still waits")
	}
}

// order is the random order of the storm's faults. If there are more kinds than faults, it takes the first kinds.
func (s storm) order(faults []fault, random *rand.Rand) []fault {
	var order []fault
	for len(order) < s.injections {
		round := slices.Clone(faults[:min(len(faults), s.injections)])
		random.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
		order = append(order, round...)
	}
	return order[:s.injections]
}

// injectAll injects all faults in their order. Each fault has a share of the load and comes in the middle of it. If the fault lasts
// longer than its share, the load waits, so that every fault hits running work.
func (f *full) injectAll(ctx context.Context, s storm, order []fault, random *rand.Rand, finished, gate *atomic.Int64) {
	f.t.Helper()
	share := s.executions / (len(order) + 1)
	deadline, _ := ctx.Deadline()
	healed := map[string][]time.Duration{}
	for i, injection := range order {
		gate.Store(int64((i+2)*share + s.callers))
		f.nodes[0].eventually(time.Until(deadline), "the load goes on", func(context.Context) bool {
			return finished.Load() >= int64(i*share)
		})
		moment(random, 300*time.Millisecond)
		began := time.Now()
		injection.inject(f, random)
		f.well()
		healed[injection.name] = append(healed[injection.name], time.Since(began))
	}
	gate.Store(int64(s.executions))
	for _, kind := range order {
		times := healed[kind.name]
		slices.Sort(times)
		if len(times) == 0 {
			continue
		}
		f.t.Logf("%s: %d times, all well again after p50 %s, max %s", kind.name, len(times), quantile(times, 0.5), quantile(times, 1))
		delete(healed, kind.name)
	}
}

// rescued has the times from the fault of a worker's node until an execution was given back, placed again, or abandoned. An
// execution that was given back may wait for a free worker: a freeze keeps each worker busy for 3 s.
type rescued struct{ given, placed, abandoned []time.Duration }

// rescues reads these times from the events of executions that were on a node when a fault hit it.
func (f *full) rescues(h *chaos.History) (all rescued) {
	for i := range h.Executions {
		e := &h.Executions[i]
		var since time.Time // when the fault hit the node that had the execution
		for _, ev := range e.Changes() {
			switch {
			case chaos.Placed(ev) && ev.At.IsZero(): // the event has no time: the row has only the time of the last placement
				since = time.Time{}
			case chaos.Placed(ev) && !since.IsZero():
				all.placed = append(all.placed, ev.At.Sub(since))
				if late := ev.At.Sub(since); late > takenOver {
					f.t.Logf("%s %s was placed again %s after its node was taken away: %v", e.ID, e.Action, late, e.Events)
				}
				since = time.Time{}
			case ev.To == messages.Requested && f.orphaned(ev.Reason):
				if since = f.takenBefore(ev.Worker, ev.At); !since.IsZero() {
					if ev.ScheduledAt.After(since) { // it was placed there after the fault
						since = ev.ScheduledAt
					}
					all.given = append(all.given, ev.At.Sub(since))
				}
			case ev.To == messages.Abandoned:
				if at := f.takenBefore(ev.Worker, ev.At); !at.IsZero() {
					all.abandoned = append(all.abandoned, ev.At.Sub(at))
				}
			}
		}
	}
	for _, times := range [][]time.Duration{all.given, all.placed, all.abandoned} {
		slices.Sort(times)
	}
	return all
}

// orphaned reports whether a change gives back an execution because its node has ended.
func (f *full) orphaned(reason string) bool {
	return strings.Contains(reason, "its node ended") || reason == "router_gone"
}

// takenBefore is the time of the last fault of the worker's node before at.
func (f *full) takenBefore(worker string, at time.Time) time.Time {
	name := nodeOf(worker)
	for _, t := range slices.Backward(f.taken) {
		if t.node == name && t.at.Before(at) {
			return t.at
		}
	}
	return time.Time{}
}

// nodeOf is the name of a worker's node. The worker's id begins with it. A part of the incarnation follows if an older
// incarnation of the name still had its lease.
func nodeOf(worker string) string {
	label, _, _ := strings.Cut(worker, "/")
	name, _, _ := strings.Cut(label, "@")
	return name
}

// wholeSize is less than the executions of a whole storm, and more than those of a reduced one.
const wholeSize = 10_000

// report logs the figures that docs/chaos.md records. It fails if the faults hit nothing, because then the storm tested nothing.
func (f *full) report(c *caller, h *chaos.History) {
	f.t.Helper()
	again, expired, boots, kinds := 0, 0, 0, map[string]int{}
	for _, n := range f.nodes {
		boots += n.boots
	}
	for i := range h.Executions {
		e := &h.Executions[i]
		again += max(0, int(e.Attempt)-1)
		if e.Code == messages.CodeQueueTimeout {
			expired++
		}
		for _, ev := range e.Events {
			switch ev.Kind {
			case "rescue", "take_back", "stale_write":
				kinds[ev.Kind]++
			}
		}
	}
	told, broken := losses(h.Effects)
	all := f.rescues(h)
	f.t.Logf("boots %d, calls repeated %d, placements beyond the first %d, changes %v, letters %d, failed by one %d, losses told to sessions %d, counters restarted %d",
		boots, c.again, again, kinds, len(f.letters.all()), expired, told, broken)
	f.t.Logf("rescues from a node that was taken away: %d given back after p50 %s, longest %s; %d of them, whose time is kept, placed again after p50 %s, "+
		"longest %s; %d abandoned after p50 %s, longest %s",
		len(all.given), quantile(all.given, 0.5), quantile(all.given, 1), len(all.placed), quantile(all.placed, 0.5), quantile(all.placed, 1), len(all.abandoned), quantile(all.abandoned, 0.5), quantile(all.abandoned, 1))
	require.NotZero(f.t, again, "nothing was placed twice")
	if len(h.Executions) >= wholeSize { // in a reduced storm the only fault of a node may come while the node runs nothing
		require.NotEmpty(f.t, append(all.placed, all.abandoned...), "no rescue was needed")
	}
}

// startGated is startLoad with a gate: work whose number is not below the gate does not start yet.
func startGated(ctx context.Context, c *caller, s storm, plan []*work, seed uint64, finished, gate *atomic.Int64) func() error {
	s.admit = func(at int) error {
		for int64(at) >= gate.Load() {
			select {
			case <-ctx.Done():
				return fmt.Errorf("work %d was not admitted: %w", at, ctx.Err())
			case <-time.After(5 * time.Millisecond):
			}
		}
		return nil
	}
	return startLoad(ctx, c, s, plan, seed, finished)
}
