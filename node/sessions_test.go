package node_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/rules/rollup"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
)

// counted is what the counting actions return.
type counted struct {
	Count     int
	Lost, Hit bool
	Epoch     int64
	Behind    int64
	Pid       int
}

var counting = map[string]string{"count": "", "crash": "", "wait": "", "sleep": ""}

func TestStrictSessionRunsInOrderOneAtATimeOnItsWorker(t *testing.T) {
	t.Parallel()
	k := lab(t, nil, pythonPack(t, "workers: 2", counting))
	var requests []submit.Request
	for i := range 12 {
		with := []request{session("a", "")}
		if i == 11 {
			with = append(with, func(r *submit.Request) { nine := 9; r.Priority = &nine }) // never past its own session
		}
		requests = append(requests, ask("py.count", object{"note": fmt.Sprint(i), "seconds": 0.005}, with...))
	}
	submitted, err := k.Submit(t.Context(), requests)
	require.NoError(t, err)
	var first counted
	for i, s := range submitted {
		c := result[counted](t, k.await(s.Execution.ID))
		require.Equal(t, i+1, c.Count)
		require.False(t, c.Lost)
		require.True(t, c.Hit)
		require.EqualValues(t, 1, c.Epoch)
		if i == 0 {
			first = c
		}
		require.Equal(t, first.Pid, c.Pid)
	}
	require.Equal(t, strings.Fields("0 1 2 3 4 5 6 7 8 9 10 11"), k.lines("order"))
}

func TestARetryThatWaitsDoesNotHoldItsSession(t *testing.T) {
	t.Parallel()
	k := lab(t, handle(map[string]messages.Handler{"again": tryAgain}),
		goPack(t, map[string]string{"again": "max_retries: 1\nretry: {base: 5s, jitter: 0}\n"}))
	first := k.submit("t.again", nil, session("a", messages.AffinityStrict))
	second := k.submit("t.again", object{"succeed": true}, session("a", messages.AffinityStrict))
	require.Equal(t, messages.Failed, k.await(first).Status)
	e := k.await(second)
	require.Equal(t, messages.Completed, e.Status)
	waits := k.get(k.get(first).RetriedAs)
	require.Equal(t, messages.Requested, waits.Status)
	require.True(t, waits.RunAt.After(e.FinishedAt))
}

func TestHintMissRunsElsewhereAndLeavesTheBinding(t *testing.T) {
	t.Parallel()
	k := lab(t, nil, pythonPack(t, "workers: 2", counting))
	for slot := range 2 { // one that starts is waited for
		k.ready("py.lab", slot, 0)
	}
	home := result[counted](t, k.run("py.count", nil, session("h", messages.AffinityHint)))
	busy := k.submit("py.wait", object{"file": "go"}, session("h", messages.AffinityHint))
	require.Equal(t, home.Pid, k.pids("waiting", 1)[0])
	missed := result[counted](t, k.run("py.count", nil, session("h", messages.AffinityHint)))
	require.False(t, missed.Hit)
	require.NotEqual(t, home.Pid, missed.Pid)
	require.Equal(t, 1, missed.Count, "a miss has no state of the session")
	require.False(t, k.get(busy).Status.Terminal(), "it ran beside the busy worker")
	k.write("go")
	require.Equal(t, messages.Completed, k.await(busy).Status)
	again := result[counted](t, k.run("py.count", nil, session("h", messages.AffinityHint)))
	require.True(t, again.Hit)
	require.Equal(t, home.Pid, again.Pid)
	require.Equal(t, 2, again.Count)
	require.EqualValues(t, 1, again.Epoch)
}

func TestStrictFail(t *testing.T) {
	t.Parallel()
	k := lab(t, nil, pythonPack(t, "workers: 2", counting))
	strictFail := session("f", messages.AffinityStrictFail)
	home := result[counted](t, k.run("py.count", nil, strictFail))
	busy := k.submit("py.wait", object{"file": "go"}, strictFail)
	k.pids("waiting", 1)
	e := k.run("py.count", nil, strictFail)
	require.Equal(t, messages.Failed, e.Status)
	require.Equal(t, messages.CodeSessionBusy, e.Error.Code)
	k.write("go")
	require.Equal(t, messages.Completed, k.await(busy).Status)

	k.run("py.crash", nil, strictFail)
	e = k.run("py.count", nil, strictFail)
	require.Equal(t, messages.Failed, e.Status)
	require.Equal(t, messages.CodeSessionLost, e.Error.Code)
	k.until("the ledger has the lost session", func() bool { return k.ledger().Lost.N == 1 })
	c := result[counted](t, k.run("py.count", nil, strictFail))
	require.Equal(t, 1, c.Count)
	require.Greater(t, c.Epoch, home.Epoch)
}

func TestLossIsToldUntilOneFinishes(t *testing.T) {
	t.Parallel()
	k := lab(t, nil, pythonPack(t, "", counting))
	for _, mode := range []messages.Affinity{messages.AffinityStrict, messages.AffinityHint} {
		s := session("l-"+string(mode), mode)
		first := result[counted](t, k.run("py.count", nil, s))
		require.False(t, first.Lost)
		require.Equal(t, messages.Abandoned, k.run("py.crash", nil, s).Status)
		// A run that ends with its worker was told, and did not finish the session's turn.
		require.Equal(t, messages.Abandoned, k.run("py.crash", nil, s).Status)
		told := result[counted](t, k.run("py.count", nil, s))
		require.True(t, told.Lost, mode)
		require.Equal(t, 1, told.Count)
		require.Greater(t, told.Epoch, first.Epoch)
		after := result[counted](t, k.run("py.count", nil, s))
		require.False(t, after.Lost)
		require.Equal(t, 2, after.Count)
		require.Equal(t, told.Epoch, after.Epoch)
	}
}

func TestExpiryEndsTheSessionAndIsALoss(t *testing.T) {
	t.Parallel()
	const idle, sweep = 300 * time.Millisecond, 100 * time.Millisecond
	k := lab(t, func(c *node.Config) { c.SessionTimeout, c.SessionSweep = idle, sweep }, pythonPack(t, "", counting))
	bound := func() []store.Session {
		list, err := k.Sessions(t.Context(), store.SessionFilter{Pools: []string{"py.lab"}, Bound: true}, "", 10)
		require.NoError(t, err)
		return list
	}
	first := result[counted](t, k.run("py.count", nil, session("e", "")))
	k.until("the binding is swept", func() bool { return len(bound()) == 0 })
	k.until("the sweep says so", func() bool { return k.logged("idle sessions swept") > 0 })
	second := result[counted](t, k.run("py.count", nil, session("e", "")))
	require.True(t, second.Lost)
	require.Equal(t, 1, second.Count, "the process dropped the state")
	require.Equal(t, first.Pid, second.Pid)
	require.Greater(t, second.Epoch, first.Epoch)
	// A binding never expires while its execution runs.
	long := k.submit("py.wait", object{"file": "go"}, session("e", ""))
	k.pids("waiting", 1)
	epoch, later := k.get(long).SessionEpoch, time.Now().Add(2*idle+5*sweep)
	k.until("several sweeps have found it idle for too long", func() bool {
		list := bound()
		require.Len(t, list, 1)
		require.Equal(t, "e", list[0].Session)
		require.Equal(t, epoch, list[0].Epoch)
		return time.Now().After(later)
	})
	k.write("go")
	require.Equal(t, messages.Completed, k.await(long).Status)
}

func TestAProgramIsToldOfTheEndOfItsSessions(t *testing.T) {
	t.Parallel()
	k := lab(t, func(c *node.Config) {
		c.SessionTimeout, c.SessionSweep = 200*time.Millisecond, 50*time.Millisecond
	}, oddPack(t, ""))
	require.Equal(t, messages.Completed, k.run("odd.do", nil, session("a", "")).Status)
	k.until("the end is told", func() bool { return len(k.lines("ended")) == 1 })
	require.Equal(t, []string{"a 1"}, k.lines("ended"))
	require.Equal(t, messages.Completed, k.run("odd.do", nil, session("a", "")).Status)
	k.until("the next end is told", func() bool { return len(k.lines("ended")) == 2 })
	require.Equal(t, "a 2", k.lines("ended")[1])
}

// An operator ends a session while it is idle. What waits in it, and what comes next, is told that the state is lost.
func TestAnOperatorEndsASession(t *testing.T) {
	t.Parallel()
	k := lab(t, nil, pythonPack(t, "", counting))
	strict := session("a", messages.AffinityStrict)
	_, err := k.Session(t.Context(), "py.lab", "a")
	require.Equal(t, http.StatusNotFound, api.StatusOf(refused(t, err)))
	_, err = k.EndSession(t.Context(), "py.lab", "a", "me")
	require.Equal(t, http.StatusNotFound, api.StatusOf(refused(t, err)))

	home := result[counted](t, k.run("py.count", nil, strict))
	busy := k.submit("py.wait", object{"file": "go"}, strict)
	k.pids("waiting", 1)
	v, err := k.Session(t.Context(), "py.lab", "a")
	require.NoError(t, err)
	require.Equal(t, busy, v.Execution)
	_, err = k.EndSession(t.Context(), "py.lab", "a", "me")
	p := refused(t, err)
	require.Equal(t, []any{http.StatusConflict, messages.CodeSessionBusy}, []any{api.StatusOf(p), p.Code})
	require.Contains(t, p.Message, busy.String())
	k.write("go")
	require.Equal(t, messages.Completed, k.await(busy).Status)

	require.NoError(t, k.CordonPool(t.Context(), "py.lab", true))
	waiting := k.submit("py.count", nil, strict)
	k.until("the session is idle", func() bool {
		v, err = k.Session(t.Context(), "py.lab", "a")
		return err == nil && v.Execution.IsZero()
	})
	require.False(t, v.Worker.IsZero())
	for range 2 { // it may be repeated
		v, err = k.EndSession(t.Context(), "py.lab", "a", "me")
		require.NoError(t, err)
		require.True(t, v.Worker.IsZero())
	}
	require.NoError(t, k.CordonPool(t.Context(), "py.lab", false))
	next := result[counted](t, k.await(waiting))
	require.Equal(t, counted{Count: 1, Lost: true, Hit: true, Epoch: 2, Pid: home.Pid, Behind: next.Behind}, next, "the process has dropped the state")

	_, err = k.EndSession(t.Context(), "py.lab", "a", "me")
	require.NoError(t, err)
	require.Equal(t, messages.CodeSessionLost, code(k.run("py.count", nil, session("a", messages.AffinityStrictFail))))
}

func TestAProgramIsToldThatAnOperatorEndedItsSession(t *testing.T) {
	t.Parallel()
	k := lab(t, nil, oddPack(t, ""))
	require.Equal(t, messages.Completed, k.run("odd.do", nil, session("a", "")).Status)
	list, err := k.Sessions(t.Context(), store.SessionFilter{Bound: true}, "", 10)
	require.NoError(t, err)
	require.Len(t, list, 1)
	_, err = k.EndSession(t.Context(), list[0].Pool, "a", "me")
	require.NoError(t, err)
	k.until("the end is told", func() bool { return len(k.lines("ended")) == 1 })
	require.Equal(t, []string{"a 1"}, k.lines("ended"))
}

func TestTheExamplePackKeepsItsIndexOverADrain(t *testing.T) {
	t.Parallel()
	pack, data := t.TempDir(), t.TempDir()
	require.NoError(t, os.CopyFS(pack, os.DirFS("../packs/examples/embeddings")))
	yaml, err := os.ReadFile(filepath.Join(pack, "pack.yaml"))
	require.NoError(t, err)
	writeFiles(t, pack, files{"pack.yaml": strings.Replace(string(yaml), "workers: 2", "workers: 1", 1)})
	k := boot(t, data, nil, pack)
	texts := object{"texts": []string{"the cat sat on the mat", "stocks fell on Monday"}}
	require.Equal(t, messages.Completed, k.run("embeddings.add", texts, session("ann", "")).Status)
	require.NoError(t, k.stop())
	k = boot(t, data, nil, pack)
	found := result[struct {
		Matches []struct{ Text string }
		Size    int
		Lost    bool
	}](t, k.run("embeddings.search", object{"query": "a sitting cat", "top": 1}, session("ann", "")))
	require.False(t, found.Lost)
	require.Equal(t, 2, found.Size)
	require.Equal(t, "the cat sat on the mat", found.Matches[0].Text)
}

func TestSnapshotSurvivesRecyclingAndKillDoesNot(t *testing.T) {
	t.Parallel()
	k := lab(t, nil, pythonPack(t, "recycle: {max_executions: 2}", counting))
	s := session("s", "")
	one := result[counted](t, k.run("py.count", nil, s))
	before := k.worker("py.lab", 0).Generation
	require.Equal(t, 2, result[counted](t, k.run("py.count", nil, s)).Count)
	k.ready("py.lab", 0, before)
	restored := k.run("py.count", nil, s)
	require.False(t, restored.SessionLost)
	moved := result[counted](t, restored)
	require.Equal(t, 3, moved.Count, "the snapshot was restored")
	require.False(t, moved.Lost)
	require.NotEqual(t, one.Pid, moved.Pid)
	require.Greater(t, moved.Epoch, one.Epoch)
	k.until("the ledger has the restored session", func() bool { return k.ledger().Restored.N == 1 })
	require.Zero(t, k.ledger().Lost.N)
	// What finished after the snapshot must not come back silently as it was before.
	w := k.worker("py.lab", 0)
	require.NoError(t, k.KillWorker(t.Context(), w.ID))
	k.ready("py.lab", 0, w.Generation)
	told := k.run("py.count", nil, s)
	require.True(t, told.SessionLost)
	lost := result[counted](t, told)
	require.True(t, lost.Lost, "the kept snapshot is older than what has finished since")
	require.EqualValues(t, 1, lost.Behind, "and says by how much")
	require.Equal(t, 3, lost.Count, "with what there is")
	k.until("the ledger has the lost session", func() bool { return k.ledger().Lost.N == 1 })
	require.EqualValues(t, 1, k.ledger().Restored.N, "what is behind was not restored")
	last := k.run("py.count", nil, s)
	bound := k.explained(last.ID).Session
	require.Len(t, bound, 1, "what became of its state is no binding")
	require.Equal(t, "bound to "+string(last.WorkerID), bound[0].What)
	after := result[counted](t, last)
	require.False(t, after.Lost)
	require.Zero(t, after.Behind)
	require.Equal(t, 4, after.Count)
}

// ledger is the ledger of the last hour.
func (k *kit) ledger() *rollup.Ledger {
	k.t.Helper()
	l, err := k.Backend.Ledger(k.t.Context(), time.Now().Add(-time.Hour), time.Now())
	require.NoError(k.t, err)
	return l
}

// kept waits until the session's newest snapshot holds so many of its runs.
func (k *kit) kept(name string, runs int64) {
	k.t.Helper()
	k.until("the session's state is kept", func() bool {
		all, err := k.Sessions(k.t.Context(), store.SessionFilter{Pools: []string{"py.lab"}}, "", 10)
		require.NoError(k.t, err)
		for _, s := range all {
			if s.Session == name {
				return s.SnapshotRuns == runs
			}
		}
		return false
	})
}

// kill kills the pool's worker and waits for the next generation.
func (k *kit) kill() {
	k.t.Helper()
	w := k.worker("py.lab", 0)
	require.NoError(k.t, k.KillWorker(k.t.Context(), w.ID))
	k.ready("py.lab", 0, w.Generation)
}

// patientKeeps drops no snapshot for being late.
func patientKeeps(c *node.Config) { c.KeepWithin = patience }

func TestSnapshotAfterEveryRunSurvivesAKill(t *testing.T) {
	t.Parallel()
	k := lab(t, patientKeeps, pythonPack(t, "snapshot_every: 1", counting))
	s := session("s", "")
	for i := range 3 {
		c := result[counted](t, k.run("py.count", nil, s))
		require.Equal(t, i+1, c.Count)
		require.False(t, c.Lost)
		k.kept("s", int64(i+1))
		k.kill()
	}
	// A run that dies with its worker left nothing, and its own outcome says so.
	require.Equal(t, messages.Abandoned, k.run("py.crash", nil, s).Status)
	failed := k.run("py.count", object{"fail": true}, s)
	require.Equal(t, messages.Failed, failed.Status)
	k.kept("s", 4)
	k.kill()
	c := result[counted](t, k.run("py.count", nil, s))
	require.Equal(t, 5, c.Count, "what the failed run did to the state was kept too")
	require.False(t, c.Lost)
}

func TestAnOldSnapshotComesWithTheLossTold(t *testing.T) {
	t.Parallel()
	k := lab(t, patientKeeps, pythonPack(t, "snapshot_every: 2", counting))
	s := session("s", "")
	for range 3 {
		require.Equal(t, messages.Completed, k.run("py.count", nil, s).Status)
	}
	k.kept("s", 2)
	k.kill()
	c := result[counted](t, k.run("py.count", nil, s))
	require.True(t, c.Lost)
	require.EqualValues(t, 1, c.Behind)
	require.Equal(t, 3, c.Count)
	c = result[counted](t, k.run("py.count", nil, s))
	require.Equal(t, 4, c.Count)
	require.False(t, c.Lost)
	k.kept("s", 5)
	k.kill()
	require.Equal(t, 5, result[counted](t, k.run("py.count", nil, s)).Count)
}

func TestStrictFailFailsBehindOneThatOnlyWaits(t *testing.T) {
	t.Parallel()
	k := lab(t, nil, pythonPack(t, "", counting))
	hold := k.submit("py.wait", object{"file": "go"})
	k.pids("waiting", 1)
	waits := k.submit("py.count", nil, session("s", messages.AffinityStrict))
	e := k.run("py.count", nil, session("s", messages.AffinityStrictFail), priority(9))
	require.Equal(t, messages.Failed, e.Status)
	require.Equal(t, messages.CodeSessionBusy, e.Error.Code)
	require.Equal(t, messages.Requested, k.get(waits).Status, "it fails while the other only waits")
	k.write("go")
	require.Equal(t, messages.Completed, k.await(hold).Status)
	require.Equal(t, messages.Completed, k.await(waits).Status)
	require.Equal(t, messages.Completed, k.run("py.count", nil, session("s", messages.AffinityStrictFail)).Status)
}

func TestSnapshotSurvivesADrainedNode(t *testing.T) {
	t.Parallel()
	pack, data := pythonPack(t, "", counting), t.TempDir()
	k := boot(t, data, nil, pack)
	require.Equal(t, 1, result[counted](t, k.run("py.count", nil, session("d", ""))).Count)
	require.NoError(t, k.stop())
	k = boot(t, data, nil, pack)
	c := result[counted](t, k.run("py.count", nil, session("d", "")))
	require.Equal(t, 2, c.Count)
	require.False(t, c.Lost)
}

func TestSessionsTakeTurnsByTheirHeadsPriority(t *testing.T) {
	t.Parallel()
	k := lab(t, nil, pythonPack(t, "", counting))
	hold := k.submit("py.wait", object{"file": "go"})
	k.pids("waiting", 1)
	low := k.submit("py.count", object{"note": "low"}, session("x", ""), priority(1))
	high := k.submit("py.count", object{"note": "high"}, session("y", ""), priority(8))
	for _, id := range []messages.ExecutionID{low, high} {
		k.until("the router knows of both", func() bool {
			why, err := k.Why(t.Context(), id)
			require.NoError(t, err)
			return why.Reason == "workers_busy"
		})
	}
	k.write("go")
	for _, id := range []messages.ExecutionID{hold, low, high} {
		require.Equal(t, messages.Completed, k.await(id).Status)
	}
	require.Equal(t, []string{"high", "low"}, k.lines("order"))
}
