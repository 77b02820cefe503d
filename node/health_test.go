package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/store"
)

// transitions keeps what the workers of a node went through.
type transitions struct {
	mu   sync.Mutex
	list []lifecycle.Entry
}

func (r *transitions) note(_ string, e lifecycle.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, e)
}

// named are the transitions so far, as "from to reason".
func (r *transitions) named() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, e := range r.list {
		names = append(names, fmt.Sprintf("%s %s %s", e.From, e.To, e.Reason))
	}
	return names
}

// index is where a transition stands for the first time; −1: nowhere.
func (r *transitions) index(name string) int {
	for i, have := range r.named() {
		if have == name {
			return i
		}
	}
	return -1
}

// oddPack is pack odd: one process pool of testdata/odd.py, one worker, actions do and again (idempotent).
func oddPack(t *testing.T, pool string) string {
	t.Helper()
	source, err := os.ReadFile("testdata/odd.py")
	require.NoError(t, err)
	return packOf(t, "odd", "pools:\n  - name: lab\n    runtime: process\n    command: [./odd.py]\n    workers: 1\n    env: {LAB: \"LAB_FOLDER\"}\n    "+pool+"\n", files{
		"odd.py":             string(source),
		"actions/do.yaml":    "name: do\nruntime: process\npool: lab\n",
		"actions/again.yaml": "name: again\nruntime: process\npool: lab\nidempotent: true\n",
	})
}

// probe asks for a probe now.
func (k *kit) probe(id messages.WorkerID) {
	k.t.Helper()
	_, err := k.ProbeWorker(k.t.Context(), id)
	require.NoError(k.t, err)
}

func TestAFailingHealthHookDegradesThenReplaces(t *testing.T) {
	t.Parallel()
	seen := &transitions{}
	k := lab(t, func(c *node.Config) {
		c.Transitions, c.ProbeAgain = seen.note, 2*time.Second // it is looked at in between
	}, pythonPack(t, "", map[string]string{"count": ""}))
	before := k.ready("py.lab", 0, 0)
	k.write("sick")
	k.probe(before.ID)
	w := k.worker("py.lab", 0)
	require.Equal(t, "degraded", w.State)
	require.Equal(t, "unhealthy", w.Health)
	require.Equal(t, "degraded", w.Grade)
	k.until("it is replaced", func() bool { return k.worker("py.lab", 0).Generation > before.Generation })
	k.remove("sick")
	k.ready("py.lab", 0, before.Generation)
	require.Equal(t, []string{
		"initializing ready init_complete", "ready degraded health_check_failed",
		"degraded terminating health_check_failed", "terminating terminated cleanup_complete",
	}, seen.named()[:4])
	require.Contains(t, k.log.String(), "Worker health check failed")
	require.Contains(t, k.log.String(), "health_check_limit")
	require.Contains(t, k.log.String(), "Replacing worker")
	k.gone(before.Pid)
}

func TestAPassedProbeRestoresADegradedWorker(t *testing.T) {
	t.Parallel()
	seen := &transitions{}
	k := lab(t, func(c *node.Config) { c.Transitions, c.ProbeAgain = seen.note, 300*time.Millisecond },
		pythonPack(t, "", map[string]string{"count": ""}))
	before := k.ready("py.lab", 0, 0)
	k.write("sick")
	k.probe(before.ID)
	k.remove("sick")
	require.Equal(t, before.Pid, k.ready("py.lab", 0, 0).Pid)
	require.Contains(t, seen.named(), "degraded ready health_restored")
}

func TestADegradedWorkerIsTheLastResort(t *testing.T) {
	t.Parallel()
	k := lab(t, func(c *node.Config) { c.ProbeAgain = time.Hour }, pythonPack(t, "", map[string]string{"sleep": ""}))
	before := k.ready("py.lab", 0, 0)
	k.write("sick")
	k.probe(before.ID)
	k.remove("sick")
	require.Equal(t, "degraded", k.worker("py.lab", 0).State)
	c := result[counted](t, k.run("py.sleep", object{"seconds": 0}))
	require.Equal(t, before.Pid, c.Pid)
	require.Equal(t, before.Pid, k.ready("py.lab", 0, 0).Pid, "its check-in probes first")
}

func TestFrozenAndSilentIdleProcessesAreReplaced(t *testing.T) {
	t.Parallel()
	k := lab(t, func(c *node.Config) { c.ProbeTimeout = 200 * time.Millisecond }, oddPack(t, "health: {interval: 300ms}"))
	before := k.ready("odd.lab", 0, 0)
	require.NoError(t, syscall.Kill(before.Pid, syscall.SIGSTOP))
	after := k.ready("odd.lab", 0, before.Generation)
	k.gone(before.Pid)
	require.Contains(t, k.log.String(), "the process is in state T")
	k.write("mute")
	k.until("the silent one is replaced", func() bool { return k.worker("odd.lab", 0).Generation > after.Generation })
	require.Contains(t, k.log.String(), "health_check_timeout")
	k.remove("mute")
	k.ready("odd.lab", 0, after.Generation)
}

func TestABusyWorkerIsNeverEndedByItsHealth(t *testing.T) {
	t.Parallel()
	k := lab(t, func(c *node.Config) { c.ProbeAgain = time.Hour }, oddPack(t, ""))
	before := k.ready("odd.lab", 0, 0)
	id := k.submit("odd.do", object{"file": "go"})
	k.begins(id)
	k.write("sick")
	for range 5 {
		k.probe(before.ID)
	}
	w := k.worker("odd.lab", 0)
	require.Equal(t, "busy", w.State)
	require.Equal(t, "unhealthy", w.Health)
	k.remove("sick")
	k.probe(before.ID)
	require.Equal(t, "healthy", k.worker("odd.lab", 0).Health)
	k.write("go")
	require.Equal(t, messages.Completed, k.await(id).Status)
	require.Equal(t, before.Pid, k.ready("odd.lab", 0, 0).Pid)
}

// faulty is a go handler whose error is the worker's fault where the parameters say so.
func faulty(_ context.Context, task *messages.Task) (any, error) {
	var p struct{ Fault bool }
	if err := task.Bind(&p); err != nil {
		return nil, err
	}
	return nil, &messages.Error{Code: "broken", Message: "as asked", WorkerFault: p.Fault}
}

func TestThreeWorkerFaultsDegradeAndAProbeRestores(t *testing.T) {
	t.Parallel()
	seen := &transitions{}
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"fault": faulty})(c)
		c.Workers["go"], c.Transitions = 1, seen.note
	}, goPack(t, map[string]string{"fault": ""}))
	for range 12 { // errors of the action's own are none
		k.run("t.fault", nil)
	}
	require.Equal(t, -1, seen.index("busy degraded checkin_error"))
	for range 3 {
		k.run("t.fault", object{"fault": true})
	}
	k.until("it is degraded", func() bool { return seen.index("busy degraded checkin_error") > 0 })
	k.until("it is restored", func() bool { return seen.index("degraded ready health_restored") > 0 })
	require.EqualValues(t, 1, k.worker("go", 0).Generation)
	require.Contains(t, k.log.String(), "Degrading worker")
	var report health.Capabilities
	require.NoError(t, json.Unmarshal(k.worker("go", 0).Report, &report))
	require.EqualValues(t, 15, report.TotalExecutions)
	require.EqualValues(t, 15, report.FailedExecutions)
	require.EqualValues(t, 3, report.ConsecutiveFailures)
}

func TestAnUnhealthyWorkerIsReplacedAndStartsAnew(t *testing.T) {
	t.Parallel()
	seen := &transitions{}
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"fault": faulty})(c)
		c.Workers["go"], c.Transitions = 1, seen.note
		c.Thresholds = health.Thresholds{FailuresDegraded: 3, FailuresUnhealthy: 5}
	}, goPack(t, map[string]string{"fault": ""}))
	for range 5 {
		k.run("t.fault", object{"fault": true})
	}
	w := k.ready("go", 0, 1)
	require.Contains(t, seen.named(), "busy terminating max_retries_exceeded")
	var report health.Capabilities
	require.NoError(t, json.Unmarshal(w.Report, &report))
	require.Zero(t, report.ConsecutiveFailures, "counters start at 0 with the new generation")
	require.Contains(t, k.log.String(), "max_retries_exceeded")
}

func TestActionErrorsCountWhereTheConfigurationSaysSo(t *testing.T) {
	t.Parallel()
	seen := &transitions{}
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"fault": faulty})(c)
		c.Workers["go"], c.Transitions, c.CountActionErrors = 1, seen.note, true
	}, goPack(t, map[string]string{"fault": ""}))
	for range 3 {
		k.run("t.fault", nil)
	}
	k.until("it is degraded", func() bool { return seen.index("busy degraded checkin_error") > 0 })
}

// With health.enabled: false nothing probes a worker, and no grade, degradation or replacement follows from what its runs and
// a probe that somebody asks for show. A worker whose process ends is replaced all the same.
func TestHealthDisabledDecidesNothing(t *testing.T) {
	t.Parallel()
	seen := &transitions{}
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"fault": faulty})(c)
		c.Workers["go"], c.Transitions, c.HealthDisabled = 1, seen.note, true
	}, goPack(t, map[string]string{"fault": ""}))
	for range 15 { // past the border of unhealthy
		k.run("t.fault", object{"fault": true})
	}
	w := k.worker("go", 0)
	require.EqualValues(t, 1, w.Generation)
	require.Equal(t, "healthy", w.Grade)
	require.Equal(t, -1, seen.index("busy degraded checkin_error"))

	odd := lab(t, func(c *node.Config) { c.HealthDisabled = true }, oddPack(t, "health: {interval: 100ms}"))
	before := odd.ready("odd.lab", 0, 0)
	odd.write("sick")
	for range 4 {
		odd.probe(before.ID)
	}
	after := odd.worker("odd.lab", 0)
	require.Equal(t, "ready", after.State)
	require.Equal(t, "healthy", after.Grade)
	require.Equal(t, before.Pid, after.Pid)
	odd.write("go")
	require.Equal(t, messages.Completed, odd.run("odd.do", object{"file": "go"}).Status)
	require.Equal(t, 4, strings.Count(odd.log.String(), "Worker health check failed"), "nobody else probed it")
	require.NoError(t, syscall.Kill(before.Pid, syscall.SIGKILL))
	odd.ready("odd.lab", 0, before.Generation)
}

// staleStore takes no heartbeats while it is told to.
type staleStore struct {
	store.Store
	deaf atomic.Bool
}

func (s *staleStore) wrap(inner store.Store) store.Store {
	s.Store = inner
	return s
}

func (s *staleStore) Heartbeat(ctx context.Context, inc messages.Incarnation, c map[messages.WorkerKey]json.RawMessage) error {
	if s.deaf.Load() {
		return errors.New("heartbeats are not taken")
	}
	return s.Store.Heartbeat(ctx, inc, c)
}

// skewedStore has a clock that is an hour behind this machine's.
type skewedStore struct {
	store.Store
	beats atomic.Int64
}

func (s *skewedStore) Now(ctx context.Context) (time.Time, error) {
	now, err := s.Store.Now(ctx)
	return now.Add(-time.Hour), err
}

func (s *skewedStore) Heartbeat(ctx context.Context, inc messages.Incarnation, c map[messages.WorkerKey]json.RawMessage) error {
	s.beats.Add(1)
	return s.Store.Heartbeat(ctx, inc, c)
}

func TestHeartbeatsAreFreshWhateverTheStoresClockSays(t *testing.T) {
	t.Parallel()
	s := &skewedStore{}
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"noop": noop})(c)
		c.WrapStore = func(inner store.Store) store.Store { s.Store = inner; return s }
		c.StalenessMultiplier = 8
	}, goPack(t, map[string]string{"noop": "on_no_worker: wait\n"})) // it outlasts a machine that stops for a moment
	k.until("twice as many heartbeats are written as make a worker stale", func() bool { return s.beats.Load() > 16 })
	require.Equal(t, messages.Completed, k.run("t.noop", nil).Status)
	require.NotRegexp(t, "Worker heartbeat is stale:.* age=(59m|1h)", k.log.String())
}

// laterStore knows of a boot that beat in an hour from now.
type laterStore struct{ store.Store }

func (s laterStore) ListNodes(ctx context.Context) ([]store.Node, error) {
	nodes, err := s.Store.ListNodes(ctx)
	return append(nodes, store.Node{Incarnation: messages.NewIncarnation(), Name: "n1", State: store.NodeDead, BeatAt: time.Now().Add(time.Hour)}), err
}

func TestAClockThatWasSetBackBetweenBootsIsNamed(t *testing.T) {
	t.Parallel()
	const warning = "the clock was set back since an earlier boot"
	configure := handle(map[string]messages.Handler{"noop": noop})
	pack := goPack(t, map[string]string{"noop": ""})
	k := lab(t, func(c *node.Config) {
		configure(c)
		c.WrapStore = func(inner store.Store) store.Store { return laterStore{inner} }
	}, pack)
	require.Contains(t, k.log.String(), warning)
	require.Equal(t, messages.Completed, k.run("t.noop", nil).Status)
	require.NotContains(t, lab(t, configure, pack).log.String(), warning)
}

func TestWorkersWithStaleHeartbeatsGetNothing(t *testing.T) {
	t.Parallel()
	s := &staleStore{}
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"noop": noop, "patient": noop})(c)
		c.WrapStore, c.StalenessMultiplier = s.wrap, 4
	}, goPack(t, map[string]string{"noop": "", "patient": "on_no_worker: wait\n"}))
	require.Equal(t, messages.Completed, k.run("t.patient", nil).Status)
	k.until("one heartbeat of both workers is taken", func() bool {
		one, two := k.worker("go", 0), k.worker("go", 1)
		return one.State == "ready" && two.State == "ready" && one.Heartbeat.Equal(two.Heartbeat)
	})
	s.deaf.Store(true)
	k.until("its workers are stale", func() bool {
		e := k.run("t.noop", nil)
		if e.Status == messages.Completed {
			return false
		}
		require.Equal(t, messages.CodeNoWorkers, e.Error.Code)
		require.Equal(t, "No workers with fresh heartbeats available", e.Error.Message)
		return true
	})
	patient := k.submit("t.patient", nil)
	k.until("the log says so, once for the pool's workers", func() bool {
		log := k.log.String()
		line, _, _ := strings.Cut(log[max(0, strings.LastIndex(log, "Worker heartbeat is stale")):], "\n")
		return strings.Contains(line, " workers=2 ") // of earlier ones a machine may be the cause that stopped for a moment
	})
	s.deaf.Store(false)
	require.Equal(t, messages.Completed, k.await(patient).Status)
	require.Equal(t, messages.Completed, k.run("t.patient", nil).Status)
}
