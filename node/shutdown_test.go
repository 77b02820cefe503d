package node_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
)

func TestGracefulStopLetsRunningWorkFinishAndHandsTheRestBack(t *testing.T) {
	t.Parallel()
	data, block := t.TempDir(), newGate()
	configure := func(c *node.Config) {
		handle(map[string]messages.Handler{"block": block.run})(c)
		c.Workers["go"] = 1
	}
	pack := goPack(t, map[string]string{"block": ""})
	k := boot(t, data, configure, pack)
	running := k.submit("t.block", nil)
	block.next(t)
	waiting := k.submit("t.block", nil)
	stopped := make(chan error, 1)
	begin := time.Now()
	go func() { stopped <- k.stop() }()
	k.until("the node is draining", func() bool {
		nodes, err := k.Nodes(context.Background())
		require.NoError(t, err)
		return nodes[0].State == store.NodeDraining
	})
	workers, err := k.Node.Store().ListWorkers(context.Background(), "")
	require.NoError(t, err)
	for _, w := range workers {
		require.False(t, w.Active)
	}
	require.Less(t, time.Since(begin), time.Second)
	_, err = k.Submit(context.Background(), []submit.Request{ask("t.block", nil)})
	require.Equal(t, http.StatusServiceUnavailable, api.StatusOf(refused(t, err)))
	require.False(t, k.Ready(context.Background()).Ready)
	require.Equal(t, messages.Running, k.get(running).Status)
	close(block.open)
	require.NoError(t, <-stopped)
	require.NoError(t, k.stop(), "a second stop changes nothing")
	for _, text := range []string{
		"Worker shutting down gracefully", "Deregistering worker ID: " + string(workers[0].ID), "Worker shutdown complete",
	} {
		require.Contains(t, k.log.String(), text)
	}
	k = boot(t, data, configure, pack)
	require.Equal(t, messages.Completed, k.get(running).Status)
	e := k.await(waiting)
	require.Equal(t, messages.Completed, e.Status)
	require.Equal(t, waiting, block.next(t).ID)
	require.Zero(t, e.RetryCount, "being handed back spends no retry")
}

func TestWhatIsLeftAtTheEndOfAStopFollowsItsPolicy(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	pack := pythonPack(t, "workers: 3", map[string]string{"wait": "", "spin": "idempotent: true\n", "sleep": "max_retries: 1\n"})
	k := boot(t, data, func(c *node.Config) { c.ShutdownTimeout = 200 * time.Millisecond }, pack)
	abandoned := k.submit("py.wait", object{"file": "never"})
	again := k.submit("py.spin", nil)
	retried := k.submit("py.sleep", nil)
	var pids []int
	for _, id := range []messages.ExecutionID{abandoned, again, retried} {
		e := k.becomes(id, messages.Running)
		_, _, slot, _ := e.WorkerID.Split()
		k.until("it has begun", func() bool { return k.worker("py.lab", int(slot)).State == "busy" })
		pids = append(pids, k.worker("py.lab", int(slot)).Pid)
	}
	require.NoError(t, k.stop())
	for _, pid := range pids {
		k.gone(pid)
	}
	k = boot(t, data, func(c *node.Config) { c.ShutdownTimeout = 200 * time.Millisecond }, pack)
	e := k.get(abandoned)
	require.Equal(t, messages.Abandoned, e.Status)
	require.Equal(t, messages.CodeNodeShutdown, e.Error.Code)
	require.Zero(t, e.RetriedAs)
	e = k.becomes(again, messages.Running)
	require.EqualValues(t, 2, e.Attempt)
	require.Zero(t, e.CrashCount, "a node that was told to stop is no crash")
	e = k.get(retried)
	require.Equal(t, messages.Abandoned, e.Status)
	require.Equal(t, "node_shutdown", k.get(e.RetriedAs).RetryReason)
	require.Zero(t, k.get(e.RetriedAs).CrashCount)
}

func TestAStopThatIsCutShortEndsEverythingAndTheNextBootRescues(t *testing.T) {
	t.Parallel()
	data, pack := t.TempDir(), pythonPack(t, "", map[string]string{"spin": ""})
	k := boot(t, data, nil, pack)
	id := k.submit("py.spin", nil)
	k.becomes(id, messages.Running)
	k.until("it has begun", func() bool { return k.worker("py.lab", 0).State == "busy" })
	pid := k.worker("py.lab", 0).Pid
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	require.NoError(t, k.Node.Stop(ctx))
	require.Less(t, time.Since(begin), 5*time.Second)
	k.gone(pid)
	k = boot(t, data, nil, pack)
	e := k.await(id)
	require.Equal(t, messages.Abandoned, e.Status)
	require.Equal(t, messages.CodeWorkerLost, e.Error.Code)
}

func TestStopWhileWorkersAreStarting(t *testing.T) {
	t.Parallel()
	pack := oddPack(t, "")
	writeFiles(t, pack, files{"deaf": ""})
	k := lab(t, nil, pack)
	begin := time.Now()
	require.NoError(t, k.stop())
	require.Less(t, time.Since(begin), 8*time.Second)
}

// A stop keeps the state of every session, however many one worker has: they do not share the time of one probe.
func TestAnOrderlyStopKeepsEverySessionsState(t *testing.T) {
	t.Parallel()
	data, pack := t.TempDir(), pythonPack(t, "", counting)
	short := func(c *node.Config) { c.ProbeTimeout = 300 * time.Millisecond }
	k := boot(t, data, short, pack)
	const sessions = 30 // of 60 ms each
	var requests []submit.Request
	for i := range sessions {
		requests = append(requests, ask("py.count", nil, session(fmt.Sprint("s", i), "")))
	}
	count := func(k *kit) (states []counted) {
		submitted, err := k.Submit(t.Context(), requests)
		require.NoError(t, err)
		for _, s := range submitted {
			states = append(states, result[counted](t, k.await(s.Execution.ID)))
		}
		return states
	}
	count(k)
	k.write("slow")
	require.NoError(t, k.stop())
	require.NotContains(t, k.log.String(), "session snapshots not kept")
	k = boot(t, data, short, pack)
	for i, c := range count(k) {
		require.Equal(t, 2, c.Count, "session %d", i)
		require.False(t, c.Lost, "session %d", i)
	}
}
