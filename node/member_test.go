package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
	"github.com/troupe-run/troupe/test/servers"
)

// fleet makes of the embedded store one that evaluates leases and that other nodes use too, and takes it away.
type fleet struct {
	store.Store
	away            atomic.Bool // every call fails
	mute            atomic.Bool // only renewals fail
	muted           atomic.Int64
	fenced          atomic.Int64
	hold            atomic.Pointer[chan struct{}] // answers to claims wait for it
	mu              sync.Mutex
	since           time.Time
	others          map[messages.Incarnation]*store.Node
	calls           []string
	seed            func(store.Store)          // fills the store before the node joins it
	joining, joined func(messages.Incarnation) // before and after the first renewal, with which a node joins
	before, after   sync.Once
}

func (f *fleet) wrap(inner store.Store) store.Store {
	f.Store, f.since = inner, time.Now()
	if f.seed != nil {
		f.seed(inner)
	}
	return f
}

var errTaken = fmt.Errorf("a test took it away: %w", store.ErrUnavailable)

// note remembers a call, or refuses it.
func (f *fleet) note(call string) error {
	if f.away.Load() {
		return errTaken
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call)
	return nil
}

// take returns the calls since the last take.
func (f *fleet) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

func (f *fleet) set(n store.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.others == nil {
		f.others = map[messages.Incarnation]*store.Node{}
	}
	f.others[n.Incarnation] = &n
}

func (f *fleet) foreign(dead bool) (nodes []store.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.others {
		if (n.State == store.NodeDead) == dead {
			nodes = append(nodes, *n)
		}
	}
	return nodes
}

func (f *fleet) Beat(ctx context.Context, inc messages.Incarnation, lease time.Duration) (store.Pulse, error) {
	if f.mute.Load() {
		f.muted.Add(1)
		return store.Pulse{}, errTaken
	}
	if err := f.note("beat"); err != nil {
		return store.Pulse{}, err
	}
	if f.joining != nil {
		f.before.Do(func() { f.joining(inc) })
	}
	p, err := f.Store.Beat(ctx, inc, lease)
	for i := range p.Nodes {
		p.Nodes[i].SteadySince = f.since
	}
	p.Nodes = append(p.Nodes, f.foreign(false)...)
	if f.joined != nil && err == nil {
		f.after.Do(func() { f.joined(inc) })
	}
	return p, err
}

func (f *fleet) DeclareDead(context.Context, messages.Incarnation, time.Duration) (dead []store.Node, err error) {
	if err := f.note("declare"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.others {
		if n.State != store.NodeDead && n.LeaseUntil.Before(time.Now()) {
			n.State = store.NodeDead
			dead = append(dead, *n)
		}
	}
	return dead, nil
}

func (f *fleet) ListNodes(ctx context.Context) ([]store.Node, error) {
	if err := f.note("list nodes"); err != nil {
		return nil, err
	}
	nodes, err := f.Store.ListNodes(ctx)
	return append(append(nodes, f.foreign(false)...), f.foreign(true)...), err
}

func (f *fleet) Heartbeat(ctx context.Context, inc messages.Incarnation, c map[messages.WorkerKey]json.RawMessage) error {
	if err := f.note("heartbeat"); err != nil {
		return err
	}
	return f.Store.Heartbeat(ctx, inc, c)
}

func (f *fleet) Due(ctx context.Context, q store.DueQuery) (store.DuePage, error) {
	if f.away.Load() {
		return store.DuePage{}, errTaken
	}
	return f.Store.Due(ctx, q)
}

func (f *fleet) Now(ctx context.Context) (time.Time, error) {
	if f.away.Load() {
		return time.Time{}, errTaken
	}
	return f.Store.Now(ctx)
}

func (f *fleet) Overdue(ctx context.Context, q store.OverdueQuery) ([]messages.Execution, error) {
	if f.away.Load() {
		return nil, errTaken
	}
	return f.Store.Overdue(ctx, q)
}

// SubmitPlaced leaves out the claims that a submission carries, as a store does where the node's lease has run out: the worker's own
// claims are what is tested.
func (f *fleet) SubmitPlaced(ctx context.Context, e []messages.Execution, places []*store.Place) ([]store.Submitted, error) {
	places = slices.DeleteFunc(slices.Clone(places), func(p *store.Place) bool { return p.Generation > 0 })
	return f.Store.SubmitPlaced(ctx, e, places)
}

func (f *fleet) Apply(ctx context.Context, changes []store.Change) ([]store.Result, error) {
	if f.away.Load() {
		return nil, errTaken
	}
	claims := 0
	for _, c := range changes {
		if isClaim(c) {
			claims++
			if err := f.note("claim"); err != nil {
				return nil, err
			}
		}
	}
	if claims > 0 && f.fenced.Load() > 0 {
		f.fenced.Add(-1)
		return f.applyUnclaimed(ctx, changes)
	}
	results, err := f.Store.Apply(ctx, changes)
	if hold := f.hold.Load(); hold != nil && claims > 0 {
		<-*hold
	}
	return results, err
}

func isClaim(c store.Change) bool {
	_, claim := c.(*store.Claim)
	return claim
}

// applyUnclaimed refuses the claims among the changes, as a store does whose lease ran out, and makes the others: a cancel may come with
// them.
func (f *fleet) applyUnclaimed(ctx context.Context, changes []store.Change) ([]store.Result, error) {
	others := slices.DeleteFunc(slices.Clone(changes), isClaim)
	made, err := f.Store.Apply(ctx, others)
	if err != nil {
		return nil, err
	}
	results := make([]store.Result, len(changes))
	for i, c := range changes {
		if isClaim(c) {
			results[i] = store.Result{Verdict: store.Refused, Status: messages.Scheduled, Err: store.ErrFenced}
			continue
		}
		results[i], made = made[0], made[1:]
	}
	return results, nil
}

// A node's time among others, short enough for a test and long enough for a busy machine.
const (
	testLease = 3 * time.Second
	testBeat  = 500 * time.Millisecond
)

func among(f *fleet, with func(*node.Config)) func(*node.Config) {
	return func(c *node.Config) {
		c.WrapStore, c.Lease, c.BeatEvery = f.wrap, testLease, testBeat
		c.SweepInterval = time.Hour // what happens here happens without the sweeps
		with(c)
	}
}

// membership waits until the membership actor is in the state.
func (k *kit) membership(state string) {
	k.t.Helper()
	k.until("membership is "+state, func() bool {
		info, ok := k.Registry().Get("troupe/membership")
		return ok && info.State == state
	})
}

func TestStoreAwayForLongerThanTheLeaseRepeatsNothing(t *testing.T) {
	t.Parallel()
	f, g := &fleet{}, newGate()
	k := lab(t, among(f, func(c *node.Config) {
		handle(map[string]messages.Handler{"work": g.run})(c)
		c.HeartbeatInterval = time.Hour // but for the one that an outage asks for
	}), goPack(t, map[string]string{"work": ""}))
	var ids []messages.ExecutionID
	for range 4 {
		ids = append(ids, k.submit("t.work", nil))
	}
	first := map[messages.ExecutionID]bool{g.next(t).ID: true, g.next(t).ID: true}
	f.away.Store(true)
	k.membership("outage")
	require.Contains(t, k.Ready(t.Context()).Notes, "membership: the store is away for everyone; running work goes on")
	close(g.open) // both runs end, and their ends cannot be written
	k.until("the recorder repeats", func() bool {
		info, _ := k.Registry().Get("troupe/recorder")
		return info.State == "waiting"
	})
	f.take()
	f.away.Store(false)
	k.until("the node has seen that the store is back", func() bool {
		_, err := k.Get(t.Context(), ids[0])
		return err == nil
	})
	for _, id := range ids {
		e := k.await(id)
		require.Equal(t, messages.Completed, e.Status, "%v", e.Error)
		require.Equal(t, messages.Attempt(1), e.Attempt, "nothing is placed twice")
	}
	require.Len(t, g.entered, 2, "the two that waited ran once each, and the first two not again")
	for range 2 {
		require.NotContains(t, first, g.next(t).ID)
	}
	k.membership("steady")
	require.NotContains(t, k.log.String(), "fenced")
	calls := f.take()
	for i, call := range calls {
		if call == "claim" {
			require.Contains(t, calls[:i], "heartbeat", "heartbeats are written before anything is claimed: %v", calls)
			break
		}
	}
}

func TestNothingIsClaimedWithoutALiveLease(t *testing.T) {
	t.Parallel()
	f, g := &fleet{}, newGate()
	close(g.open)
	k := lab(t, among(f, handle(map[string]messages.Handler{"work": g.run})), goPack(t, map[string]string{"work": ""}))
	k.run("t.work", nil)
	f.mute.Store(true) // the node cannot renew, and the store takes everything else
	k.membership("outage")
	f.take()
	e := messages.Execution{ // of another program: this node takes none without its lease
		ID: messages.NewExecutionID(), Action: "t.work", Pool: "go", Status: messages.Requested, Parameters: json.RawMessage("{}"), Priority: messages.PriorityNormal,
		Timeout: time.Minute, RunAt: time.Now(),
	}
	_, err := f.Submit(t.Context(), []messages.Execution{e})
	require.NoError(t, err)
	muted := f.muted.Load() // a claim that is wrongly sent has the time of three beats to come
	k.until("three beats are refused", func() bool { return f.muted.Load() >= muted+3 })
	require.NotContains(t, f.take(), "claim")
	f.mute.Store(false)
	k.until("the store is back", func() bool { return k.Ready(t.Context()).Ready })
	require.Equal(t, messages.Attempt(1), k.await(e.ID).Attempt)
}

func TestARefusedClaimWaitsForTheRenewal(t *testing.T) {
	t.Parallel()
	f, g := &fleet{}, newGate()
	close(g.open)
	k := lab(t, among(f, handle(map[string]messages.Handler{"work": g.run})), goPack(t, map[string]string{"work": ""}))
	const plenty = 1 << 40
	f.fenced.Store(plenty)
	id := k.submit("t.work", nil)
	k.until("a claim is refused twice", func() bool { return f.fenced.Load() < plenty-1 })
	why, err := k.Why(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "on_queue", why.Reason, "its delivery is kept")
	f.fenced.Store(0)
	e := k.await(id)
	require.Equal(t, messages.Completed, e.Status)
	require.Equal(t, messages.Attempt(1), e.Attempt)
	require.Len(t, g.entered, 1)
}

func TestARunDoesNotStartOnceTheLeaseHasRunOut(t *testing.T) {
	t.Parallel()
	f, g := &fleet{}, newGate()
	close(g.open)
	k := lab(t, among(f, func(c *node.Config) {
		handle(map[string]messages.Handler{"work": g.run})(c)
		c.EventsAll = true
	}), goPack(t, map[string]string{"work": ""}))
	k.run("t.work", nil)
	g.next(t)
	hold := make(chan struct{})
	f.hold.Store(&hold)
	id := k.submit("t.work", nil)
	k.becomes(id, messages.Running) // claimed in the store; the answer is on its way
	f.mute.Store(true)
	k.until("the lease has run out", func() bool { return !k.LeaseHolds() })
	f.hold.Store(nil)
	close(hold)
	rescues := func() (reasons []string) { // the node answers nothing of executions while its lease is gone
		events, err := f.Events(t.Context(), id)
		require.NoError(t, err)
		for i := range events {
			if events[i].Kind == "rescue" {
				reasons = append(reasons, events[i].Reason)
			}
		}
		return reasons
	}
	k.until("it is given back", func() bool { return len(rescues()) == 1 })
	require.Equal(t, []string{"never started: its node's lease has run out"}, rescues())
	require.Empty(t, g.entered)
	f.mute.Store(false)
	k.until("the store is back", func() bool { return k.Ready(t.Context()).Ready })
	e := k.await(id)
	require.Equal(t, messages.Completed, e.Status)
	require.Zero(t, e.CrashCount)
	require.Len(t, g.entered, 1)
}

// keep starts a node that comes back when it is fenced.
func keep(t *testing.T, change func(*node.Config), packs ...string) (*node.Keeper, *record) {
	t.Helper()
	cfg, log := short(t, t.TempDir(), packs...)
	cfg.Listen = servers.OwnAddress() // each incarnation listens there
	change(&cfg)
	keeper, err := node.NewKeeper(cfg)
	require.NoError(t, err)
	require.NoError(t, keeper.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := keeper.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
		if t.Failed() {
			t.Logf("the node's log:\n%s", tail(log.String(), 12_000))
		}
	})
	return keeper, log
}

func readyz(t *testing.T, addr string) (r api.Readiness) {
	t.Helper()
	resp, err := http.Get("http://" + addr + "/readyz")
	if err != nil {
		return api.Readiness{}
	}
	defer resp.Body.Close()
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&r))
	return r
}

func TestADeadNodeStopsItsWorkAndComesBack(t *testing.T) {
	t.Parallel()
	f, g := &fleet{}, newGate()
	stopped := make(chan messages.ExecutionID, 8)
	work := func(ctx context.Context, task *messages.Task) (any, error) {
		defer func() {
			if ctx.Err() != nil {
				stopped <- task.ID
			}
		}()
		return g.run(ctx, task)
	}
	keeper, log := keep(t, among(f, func(c *node.Config) {
		handle(map[string]messages.Handler{"once": work, "again": work})(c)
		c.EventsAll = true
	}), goPack(t, map[string]string{"once": "", "again": "idempotent: true\n"}))
	k := &kit{Node: keeper.Node(), Backend: keeper.Backend(), t: t, log: log}
	addr, first := keeper.Addr(), keeper.Node().Incarnation()
	once, again := k.submit("t.once", nil), k.submit("t.again", nil)
	g.next(t)
	g.next(t)
	waited := make(chan messages.Execution, 1)
	go func() {
		e, err := keeper.Wait(t.Context(), again)
		assert.NoError(t, err)
		waited <- e
	}()
	require.NoError(t, keeper.Node().Store().SetNode(t.Context(), first, store.NodeDead))
	require.ElementsMatch(t, []messages.ExecutionID{once, again}, []messages.ExecutionID{<-stopped, <-stopped}, "all work is stopped")
	k.until("a new incarnation is ready", func() bool {
		return keeper.Node().Incarnation() != first && readyz(t, addr).Ready
	})
	k.Node, k.Backend = keeper.Node(), keeper.Backend()
	require.Equal(t, addr, keeper.Addr())
	require.Contains(t, readyz(t, addr).Notes, "the incarnation before this one was fenced: this incarnation was declared dead")
	require.Contains(t, log.String(), "fenced: this incarnation was declared dead; all work is stopped")
	require.Equal(t, again, g.next(t).ID, "the idempotent one is repeated")
	close(g.open)
	e := k.await(again)
	require.Equal(t, messages.Completed, e.Status, "%v", e.Error)
	require.Equal(t, messages.Attempt(2), e.Attempt)
	require.Equal(t, messages.Completed, (<-waited).Status, "who waits does so for the new incarnation")
	e = k.await(once)
	require.Equal(t, messages.Abandoned, e.Status)
	require.Equal(t, messages.CodeWorkerLost, code(e))
	for _, id := range []messages.ExecutionID{once, again} {
		require.Len(t, k.events(id)["finish"], 1, "one outcome")
	}
	require.Empty(t, g.entered)
}

// A fenced node whose store refuses its return keeps its API open, and says what it waits for.
func TestAReturnThatIsRefusedKeepsItsAPI(t *testing.T) {
	t.Parallel()
	var refused atomic.Bool
	url := database(t)
	keeper, log := keep(t, func(c *node.Config) {
		paired(c, url)
		echoes(c)
		open := c.OpenStore
		c.OpenStore = func(ctx context.Context) (store.Store, error) {
			if refused.Load() {
				return nil, errors.New("permission denied for schema troupe")
			}
			return open(ctx)
		}
	}, goPack(t, map[string]string{"echo": ""}))
	k, addr, first := &kit{Node: keeper.Node(), Backend: keeper.Backend(), t: t, log: log}, keeper.Addr(), keeper.Node().Incarnation()
	refused.Store(true)
	require.NoError(t, keeper.Node().Store().SetNode(t.Context(), first, store.NodeDead))
	k.until("it says what it waits for", func() bool {
		return strings.Contains(strings.Join(readyz(t, addr).WaitsFor, "; "), "permission denied for schema troupe")
	})
	returning := keeper.Node().Incarnation()
	resp, err := http.Get("http://" + addr + "/healthz")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	refused.Store(false)
	k.until("it is back", func() bool { return readyz(t, addr).Ready })
	require.Equal(t, returning, keeper.Node().Incarnation(), "the one that waited")
}

// A new incarnation may be asked whether it is ready before it has begun to start.
func TestANodeThatHasNotBegunIsNotReady(t *testing.T) {
	t.Parallel()
	cfg, _ := short(t, t.TempDir())
	n, err := node.New(cfg)
	require.NoError(t, err)
	require.Equal(t, api.Readiness{WaitsFor: []string{"node"}, Waits: []api.ReadinessWait{{For: "node"}}}, n.Backend().Ready(t.Context()))
}

// Who begins to wait while a new incarnation starts waits for it.
func TestAWaitBegunBetweenTwoIncarnations(t *testing.T) {
	t.Parallel()
	f, g := &fleet{}, newGate()
	var opened atomic.Int32
	starting, start := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(start) })
	f.seed = func(store.Store) {
		if opened.Add(1) == 2 {
			close(starting)
			<-start
		}
	}
	keeper, _ := keep(t, among(f, handle(map[string]messages.Handler{"work": g.run})), goPack(t, map[string]string{"work": "idempotent: true\n"}))
	k := &kit{Node: keeper.Node(), Backend: keeper.Backend(), t: t}
	t.Cleanup(goOn)
	id := k.submit("t.work", nil)
	g.next(t)
	close(g.open)
	require.NoError(t, keeper.Node().Store().SetNode(t.Context(), keeper.Node().Incarnation(), store.NodeDead))
	<-starting
	ended, end := context.WithCancel(t.Context())
	end()
	_, err := keeper.Wait(ended, id)
	require.ErrorContains(t, err, "the node is starting", "at the wait's end")
	waited := make(chan messages.Execution, 1)
	go func() {
		e, err := keeper.Wait(t.Context(), id)
		assert.NoError(t, err)
		waited <- e
	}()
	goOn()
	require.Equal(t, messages.Completed, (<-waited).Status)
}

// A node that is declared dead while it starts, before it has renewed its lease once, comes back like any other.
func TestANodeThatDiesWhileItStartsComesBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		when func(f *fleet, dies func(messages.Incarnation))
		says string
	}{
		"before its lease": {
			func(f *fleet, dies func(messages.Incarnation)) { f.joining = dies }, "the node was declared dead while it started",
		},
		"with a lease": {
			func(f *fleet, dies func(messages.Incarnation)) { f.joined = dies }, "fenced: this incarnation was declared dead",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, g := &fleet{}, newGate()
			close(g.open)
			var first messages.Incarnation
			c.when(f, func(inc messages.Incarnation) {
				first = inc
				assert.NoError(t, f.SetNode(t.Context(), inc, store.NodeDead))
			})
			keeper, log := keep(t, among(f, handle(map[string]messages.Handler{"work": g.run})), goPack(t, map[string]string{"work": ""}))
			k := &kit{Node: keeper.Node(), Backend: keeper.Backend(), t: t, log: log}
			k.until("a new incarnation is ready", func() bool {
				return keeper.Node().Incarnation() != first && readyz(t, keeper.Addr()).Ready
			})
			k.Node, k.Backend = keeper.Node(), keeper.Backend()
			require.Contains(t, log.String(), c.says)
			require.Equal(t, messages.Completed, k.run("t.work", nil).Status)
		})
	}
}

// other is a node that only the store knows.
func other(name string, lease time.Duration) store.Node {
	now := time.Now()
	return store.Node{
		Incarnation: messages.NewIncarnation(), Name: name, State: store.NodeActive, StartedAt: now, LeaseUntil: now.Add(lease),
	}
}

func TestTwoNodesOfOneName(t *testing.T) {
	t.Parallel()
	f, g := &fleet{}, newGate()
	close(g.open)
	twin := other("test", time.Hour)
	twin.Present = true
	f.set(twin)
	k := lab(t, among(f, handle(map[string]messages.Handler{"work": g.run})), goPack(t, map[string]string{"work": ""}))
	e := k.run("t.work", nil)
	want := messages.NewWorkerID("test@"+k.Incarnation().Short(), e.Pool, e.Worker.Slot)
	require.Equal(t, want, e.WorkerID)
	w, err := k.Worker(t.Context(), want)
	require.NoError(t, err)
	require.Equal(t, want, w.ID)
	_, err = k.Worker(t.Context(), messages.NewWorkerID("test", e.Pool, e.Worker.Slot))
	require.ErrorContains(t, err, "2 live nodes are named test", "it may be the other's, whose workers nobody knows")
}

// A node that was killed leaves its lease behind for some seconds. The one that is started again under its name meanwhile
// has the same ids for its workers.
func TestANodeThatIsStartedAgainKeepsItsWorkersIDs(t *testing.T) {
	t.Parallel()
	database := database(t)
	killed, err := postgres.Open(t.Context(), postgres.Config{URL: database})
	require.NoError(t, err)
	before := other("test", time.Hour)
	require.NoError(t, killed.Join(t.Context(), before, time.Hour))
	require.NoError(t, killed.Close()) // its connection is gone, and its lease is not
	look, err := postgres.Open(t.Context(), postgres.Config{URL: database})
	require.NoError(t, err)
	defer look.Close()
	require.Eventually(t, func() bool {
		nodes, err := look.ListNodes(t.Context())
		require.NoError(t, err)
		require.True(t, nodes[0].LeaseUntil.After(time.Now()))
		return !nodes[0].Present
	}, patience, 10*time.Millisecond)
	k, _ := onDatabase(t, database, handle(map[string]messages.Handler{"noop": noop}), goPack(t, map[string]string{"noop": ""}))
	require.Equal(t, messages.WorkerID("test/go/0"), k.worker("go", 0).ID)
	require.Zero(t, k.logged("another live node has this one's name"))
}

func TestASessionBoundToAnotherNodeWaitsForItsEnd(t *testing.T) {
	t.Parallel()
	f, g := &fleet{}, newGate()
	close(g.open)
	far := other("far", time.Hour)
	f.set(far)
	f.seed = func(s store.Store) {
		elsewhere(t, s, far.Incarnation, func(e *messages.Execution, place *store.Place) {
			e.Session, e.Affinity = "s", messages.AffinityStrict
			place.Session = &store.SessionUse{Pool: "go", Session: "s", Epoch: 1, Bind: true}
		}, runs, ends)
	}
	k := lab(t, among(f, handle(map[string]messages.Handler{"work": g.run})), goPack(t, map[string]string{"work": ""}))
	id := k.submit("t.work", nil, session("s", messages.AffinityStrict))
	k.until("it waits for its session's worker", func() bool {
		why, err := k.Why(t.Context(), id)
		require.NoError(t, err)
		return why.Reason == "session_worker"
	})
	busy := k.run("t.work", nil, session("s", messages.AffinityStrictFail))
	require.Equal(t, messages.CodeSessionBusy, code(busy))
	require.Equal(t, messages.Requested, k.get(id).Status)
	far.LeaseUntil = time.Now().Add(-time.Second) // it has died
	f.set(far)
	e := k.await(id)
	require.Equal(t, messages.Completed, e.Status, "%v", e.Error)
	require.Equal(t, int64(2), e.SessionEpoch)
	require.True(t, e.SessionLost, "it is told that the state is lost")
	require.Contains(t, k.log.String(), "node is down")
}

func TestTheWorkOfADeadNodeIsTakenUpInTheSameBeat(t *testing.T) {
	t.Parallel()
	f, g := &fleet{}, newGate()
	close(g.open)
	far := other("far", time.Hour)
	f.set(far)
	k := lab(t, among(f, handle(map[string]messages.Handler{"work": g.run})), goPack(t, map[string]string{"work": "idempotent: true\n"}))
	k.membershipSeen(far.Incarnation)
	running, scheduled := elsewhere(t, f.Store, far.Incarnation, nil, runs), elsewhere(t, f.Store, far.Incarnation, nil)
	far.LeaseUntil = time.Now().Add(-time.Second)
	f.set(far)
	for _, id := range []messages.ExecutionID{running, scheduled} {
		e := k.await(id)
		require.Equal(t, messages.Completed, e.Status, "%v", e.Error)
		require.Equal(t, messages.Attempt(2), e.Attempt)
	}
	require.Zero(t, k.get(running).CrashCount, "the node's end is no crash of the execution's")
	require.Zero(t, k.get(scheduled).CrashCount)
}

// readers tells of each look at an execution once it has its answer.
type readers struct {
	*fleet
	looked chan messages.ExecutionID
}

func (r readers) Get(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
	e, err := r.fleet.Get(ctx, id)
	select {
	case r.looked <- id:
	default:
	}
	return e, err
}

func TestWhoWaitsHearsWhatADeadNodeCouldNotTell(t *testing.T) {
	t.Parallel()
	f, g := &fleet{}, newGate()
	close(g.open)
	far, looked := other("far", time.Hour), make(chan messages.ExecutionID, 1)
	f.set(far)
	k := lab(t, func(c *node.Config) {
		among(f, handle(map[string]messages.Handler{"work": g.run}))(c)
		c.WrapStore = func(s store.Store) store.Store { f.wrap(s); return readers{f, looked} }
	}, goPack(t, map[string]string{"work": ""}))
	k.membershipSeen(far.Incarnation)
	id := elsewhere(t, f.Store, far.Incarnation, nil, runs)
	waited := make(chan messages.Execution, 1)
	stopping, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	go func() {
		e, err := k.Wait(stopping, id)
		if err == nil {
			waited <- e
		}
		close(waited)
	}()
	require.Equal(t, id, <-looked)
	_, err := f.Store.Apply(t.Context(), []store.Change{ends(id, messages.WorkerKey{})}) // and it is killed before it tells anybody
	require.NoError(t, err)
	far.LeaseUntil = time.Now().Add(-time.Second)
	f.set(far)
	e := <-waited
	require.NoError(t, stopping.Err(), "it heard by itself, not by its last look")
	require.Equal(t, messages.Completed, e.Status)
}

func (k *kit) membershipSeen(inc messages.Incarnation) {
	k.t.Helper()
	k.until("the other node is seen", func() bool { return strings.Contains(k.log.String(), "node is up: node=far incarnation="+inc.String()) })
}

// step is one more change of an execution on a worker of another node.
type step func(messages.ExecutionID, messages.WorkerKey) store.Change

func runs(id messages.ExecutionID, worker messages.WorkerKey) store.Change {
	return &store.Claim{ID: id, Attempt: 1, Worker: worker, Generation: 1}
}

func ends(id messages.ExecutionID, _ messages.WorkerKey) store.Change {
	return &store.Finish{ID: id, Attempt: 1, Outcome: messages.Outcome{Status: messages.Completed, Result: json.RawMessage("1")}}
}

// elsewhere stores an execution that is placed on a worker of another node, and takes it further.
func elsewhere(t *testing.T, s store.Store, inc messages.Incarnation, with func(*messages.Execution, *store.Place), further ...step) messages.ExecutionID {
	t.Helper()
	id, worker := messages.NewExecutionID(), messages.WorkerKey{Incarnation: inc, Pool: "go"}
	e := messages.Execution{
		ID: id, Action: "t.work", Pool: "go", Status: messages.Requested, Parameters: json.RawMessage("{}"), Priority: messages.PriorityNormal,
		Timeout: time.Minute, Idempotent: true, RunAt: time.Now().Add(time.Hour), // not this node's to place yet
	}
	place := &store.Place{ID: id, Worker: worker, WorkerID: messages.NewWorkerID("far", "go", 0), PlacedBy: inc, ClaimWithin: time.Hour}
	if with != nil {
		with(&e, place)
	}
	_, err := s.Submit(t.Context(), []messages.Execution{e})
	require.NoError(t, err)
	changes := []store.Change{place}
	for _, next := range further {
		changes = append(changes, next(id, worker))
	}
	results, err := s.Apply(t.Context(), changes)
	require.NoError(t, err)
	for _, r := range results {
		require.Equal(t, store.Applied, r.Verdict, "%v", r.Err)
	}
	return id
}
