package chaos_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/test/chaos"
)

// counters are the actions that count in a session: with a snapshot after each run, with a snapshot when a worker leaves in
// order, and without snapshots.
var counters = []string{"chaos.keep", "chaos.count", "chaos.go_count"}

// nodeFaults are the ways in which a node ends and comes back. The reduced suite has the first two, and TestRollingRestarts has the
// third.
var nodeFaults = []fault{
	{"node killed", killHolder},
	{"node drained", drainOne},
	{"node stopped and started", restartOne},
}

func TestSessionsAreLinear(t *testing.T) {
	t.Parallel()
	linearSessions(t, storm{sessions: 60, executions: 60 * 10, injections: 2, callers: 24})
}

func TestDirectSessionsAreLinear(t *testing.T) {
	t.Parallel()
	linearSessions(t, storm{sessions: 40, executions: 40 * 10, injections: 2, callers: 24, direct: true})
}

func TestWholeDirectSessionsAreLinear(t *testing.T) {
	wholeOnly(t)
	linearSessions(t, storm{sessions: 1000, executions: 1000 * 20, injections: 10 * len(nodeFaults), callers: 48, direct: true})
}

func TestWholeSessionsAreLinear(t *testing.T) {
	wholeOnly(t)
	linearSessions(t, storm{sessions: 1000, executions: 1000 * 20, injections: 10 * len(nodeFaults), callers: 48})
}

// linearSessions makes callers count in sessions, several at a time in each, while nodes end and come back. Then it searches for
// an order of each session's calls that explains all results.
func linearSessions(t *testing.T, s storm) {
	random := rand.New(rand.NewPCG(seed(t), 7))
	f := newOwnPostgres(t, s.env()...)
	paths, err := built()
	require.NoError(t, err)
	for _, name := range []string{"a", "b", "c"} {
		f.join(name, paths.troupe, "pack")
	}
	f.start()
	c := f.caller()
	var callLog callLog
	c.heard = callLog.note
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute+time.Duration(s.executions)*30*time.Millisecond)
	defer cancel()
	var finished, gate atomic.Int64
	load := startGated(ctx, c, s, s.counting(random), random.Uint64(), &finished, &gate)
	f.injectAll(ctx, s, s.order(nodeFaults, random), random, &finished, &gate)
	f.ended(load)
	f.nodes[0].settled(backTime)
	require.NoError(t, callLog.failed)
	began := time.Now()
	found := chaos.CheckSessions(callLog.calls, searchTime)
	for _, v := range found {
		t.Error(v)
	}
	callLog.report(t, s, time.Since(began))
	f.nodes[0].verdict(f.history(c))
}

// counting is the workload: the calls of all sessions, in an order from the seed. Each session has one kind of counter.
func (s storm) counting(random *rand.Rand) []*work {
	plan := make([]*work, s.executions)
	for i, at := range random.Perm(s.executions) {
		session := i % s.sessions
		w := &work{want: ends(messages.Completed)}
		w.ActionRef, w.Session = counters[session%len(counters)], fmt.Sprintf("linear%d", session)
		w.IdempotencyKey = fmt.Sprintf("linear-%d-%d", session, i/s.sessions)
		w.Parameters = parameters(time.Duration(random.IntN(10)) * time.Millisecond)
		plan[at] = w
	}
	return plan
}

// killHolder kills the node that holds the most sessions whose state is in no snapshot, and restarts it. It waits until one holds some: the
// first fault may come before the first call has ended.
func killHolder(f *full, random *rand.Rand) {
	held := map[messages.Incarnation]int{}
	tryToAwait(func() bool {
		var list api.SessionList
		f.nodes[0].get("/api/v1/sessions?bound=1&limit=1000", &list)
		clear(held)
		for i := range list.Sessions {
			if one := &list.Sessions[i]; one.SnapshotRuns < one.Runs {
				held[one.Worker.Incarnation]++
			}
		}
		return len(held) > 0
	})
	n := slices.MaxFunc(f.nodes, func(a, b *node) int {
		return cmp.Compare(held[f.nodes[0].incarnation(a.name).Incarnation], held[f.nodes[0].incarnation(b.name).Incarnation])
	})
	f.killFor(n, random)
}

// drainOne drains a node by its API, waits for its end and starts it again.
func drainOne(f *full, random *rand.Rand) {
	n := f.any(random)
	n.post("/api/v1/nodes/"+n.incarnation(n.name).Incarnation.String()+"/drain", nil, nil)
	n.exited()
	n.start()
}

// callLog has the results of all calls of sessions. It is safe for concurrent use.
type callLog struct {
	mu     sync.Mutex
	calls  []chaos.SessionCall
	failed error
}

// start is the zero of the suites' clock, which is monotonic.
var start = time.Now()

// note adds the outcome of one call.
func (l *callLog) note(w *work, began time.Time, e *form.ExecutionView) {
	c := chaos.SessionCall{
		Session: w.Session, Key: w.IdempotencyKey, Invoked: began.Sub(start), Returned: time.Since(start), Done: e.Status == messages.Completed,
	}
	var err error
	if c.Done {
		err = read(&c, e.Result)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, c)
	if err != nil && l.failed == nil {
		l.failed = fmt.Errorf("result of %s: %w: %s", w.IdempotencyKey, err, e.Result)
	}
}

// read reads a counter's result.
func read(c *chaos.SessionCall, result json.RawMessage) error {
	var r struct {
		Count, Pid, Behind int
		Epoch              int64
		Lost               bool
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return err
	}
	c.Count, c.Epoch, c.Worker, c.Lost, c.Behind = r.Count, r.Epoch, strconv.Itoa(r.Pid), r.Lost, r.Behind
	return nil
}

// report logs the figures. It fails if no session moved or no calls overlapped, because then nothing was tested.
func (l *callLog) report(t *testing.T, s storm, search time.Duration) {
	t.Helper()
	told, behind, undone, together := 0, 0, 0, 0
	epochs, last := map[string]int64{}, map[string]time.Duration{}
	for _, c := range l.calls {
		epochs[c.Session] = max(epochs[c.Session], c.Epoch)
		if c.Invoked < last[c.Session] {
			together++
		}
		last[c.Session] = max(last[c.Session], c.Returned)
		switch {
		case !c.Done:
			undone++
		case c.Lost && c.Behind > 0:
			behind++
		case c.Lost:
			told++
		}
	}
	moves := int64(0)
	for _, e := range epochs {
		moves += e - 1
	}
	t.Logf("%d calls of %d sessions, %d of them beside another of the session; sessions moved %d times, %d calls did not complete, %d were told of a loss, "+
		"%d of an older state; judged in %s", len(l.calls), len(epochs), together, moves, undone, told, behind, search.Round(time.Millisecond))
	require.Len(t, l.calls, s.executions)
	require.Len(t, epochs, s.sessions)
	require.NotZero(t, moves, "no session moved")
	require.NotZero(t, told, "no session was told of a loss")
	require.NotZero(t, together, "no calls of a session overlapped")
}
