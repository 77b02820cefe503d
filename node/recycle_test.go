package node_test

import (
	"context"
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
	"github.com/troupe-run/troupe/rules/submit"
)

func TestRecyclingHasTheReplacementReadyFirst(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		recycle string
		use     func(k *kit)
	}{
		"age":        {"recycle: {max_age: 900ms}", func(*kit) {}},
		"executions": {"recycle: {max_executions: 3}", func(k *kit) { k.run("py.sleep", object{"seconds": 0}) }},
		"memory":     {"recycle: {max_memory: 120MiB}", func(k *kit) { k.run("py.grow", object{"mib": 150}) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := &transitions{}
			k := lab(t, func(c *node.Config) { c.Transitions = seen.note },
				pythonPack(t, c.recycle, map[string]string{"grow": "", "sleep": ""}))
			before := k.ready("py.lab", 0, 0)
			for range 3 {
				c.use(k)
			}
			k.ready("py.lab", 0, before.Generation)
			k.gone(before.Pid)
			require.Contains(t, k.scrape(), `troupe_worker_replacements_total{pool="py.lab"}`)
			require.Contains(t, k.scrape(), `troupe_worker_restarts_total{pool="py.lab"} 0`)
			names := seen.named()
			second := 0
			for i, n := range names {
				if n == "initializing ready init_complete" {
					second = i
					if i > 0 {
						break
					}
				}
			}
			require.Greater(t, seen.index("ready terminating shutdown"), second, "%v", names)
			require.Positive(t, second)
		})
	}
}

// Five means five, whatever is placed and claimed ahead of a worker while its replacement starts.
func TestAWorkerRunsNoMoreThanItMay(t *testing.T) {
	t.Parallel()
	k := lab(t, nil, pythonPack(t, "workers: 2\n    recycle: {max_executions: 5}", map[string]string{"sleep": "idempotent: true\n"}))
	k.ready("py.lab", 0, 0)
	k.ready("py.lab", 1, 0)
	requests := make([]submit.Request, 60)
	for i := range requests {
		requests[i] = ask("py.sleep", object{"seconds": 0})
	}
	stored, err := k.Submit(t.Context(), requests)
	require.NoError(t, err)
	runs := map[int]int{}
	for i := range stored {
		e := k.await(stored[i].Execution.ID)
		require.Equal(t, messages.Completed, e.Status)
		runs[result[struct{ Pid int }](t, e).Pid]++
	}
	fewer := 0
	for pid, n := range runs {
		require.LessOrEqual(t, n, 5, "runs of process %d", pid)
		if n < 5 {
			fewer++
		}
	}
	require.LessOrEqual(t, fewer, 2, "each but the last two runs as many as it may: %v", runs)
	require.Contains(t, k.scrape(), `troupe_worker_restarts_total{pool="py.lab"} 0`)
}

func TestReloadFinishesRunningWorkOnTheOldVersion(t *testing.T) {
	t.Parallel()
	dir := pythonPack(t, "workers: 2", map[string]string{"wait": "", "sleep": ""})
	k := lab(t, nil, dir)
	old := k.ready("py.lab", 0, 0)
	k.ready("py.lab", 1, 0)
	running := k.submit("py.wait", object{"file": "go"})
	k.pids("waiting", 1)
	source, err := os.ReadFile(filepath.Join(dir, "lab.py"))
	require.NoError(t, err)
	writeFiles(t, dir, files{"lab.py": strings.Replace(string(source), "VERSION = 1", "VERSION = 2  # of another size, for Python compares sizes and whole seconds", 1)})
	report, err := k.Backend.Reload(t.Context(), "ann")
	require.NoError(t, err)
	require.Equal(t, []string{"py.lab"}, report.Replaced)
	type answer struct{ Version, Pid int }
	k.until("a worker has the new version", func() bool {
		return result[answer](t, k.run("py.sleep", object{"seconds": 0})).Version == 2
	})
	require.Equal(t, messages.Running, k.get(running).Status)
	k.write("go")
	require.Equal(t, 1, result[answer](t, k.await(running)).Version)
	k.ready("py.lab", 0, old.Generation)
	k.ready("py.lab", 1, 1)
	for range 4 {
		require.Equal(t, 2, result[answer](t, k.run("py.sleep", object{"seconds": 0})).Version)
	}
}

func TestABrokenPackIsRefusedAndChangesNothing(t *testing.T) {
	t.Parallel()
	dir := pythonPack(t, "", map[string]string{"sleep": ""})
	k := lab(t, nil, dir)
	before := k.ready("py.lab", 0, 0)
	writeFiles(t, dir, files{"actions/bad.yaml": "name: bad\nruntime: python\nentrypoint: nowhere.py:f\n", "lab.py": "VERSION = 3\n"})
	_, err := k.Backend.Reload(t.Context(), "ann")
	p := refused(t, err)
	require.Equal(t, http.StatusUnprocessableEntity, api.StatusOf(p))
	require.Contains(t, p.Message, "bad.yaml")
	require.Equal(t, before.Pid, k.ready("py.lab", 0, 0).Pid)
	actions, err := k.Actions(t.Context())
	require.NoError(t, err)
	require.Len(t, actions, 1)
	require.Equal(t, messages.Completed, k.run("py.sleep", object{"seconds": 0}).Status)
}

func TestReloadAddsAndRemovesActionsAndPools(t *testing.T) {
	t.Parallel()
	block := newGate()
	dir := goPack(t, map[string]string{"block": ""})
	k := lab(t, handle(map[string]messages.Handler{"block": block.run}), dir)
	writeFiles(t, dir, files{"actions/say.yaml": "name: say\nruntime: shell\ncommand: [echo, hi]\n"})
	report, err := k.Backend.Reload(t.Context(), "ann")
	require.NoError(t, err)
	require.Equal(t, []string{"t.say"}, report.Added)
	require.Equal(t, `"hi"`, string(k.run("t.say", nil).Result))

	require.NoError(t, k.CordonPool(t.Context(), "shell", true))
	waiting := k.submit("t.say", nil)
	require.NoError(t, os.Remove(filepath.Join(dir, "actions/say.yaml")))
	report, err = k.Backend.Reload(t.Context(), "ann")
	require.NoError(t, err)
	require.Equal(t, []string{"t.say"}, report.Removed)
	_, err = k.Submit(t.Context(), []submit.Request{ask("t.say", nil)})
	require.Equal(t, messages.CodeActionNotFound, refused(t, err).Code)
	require.Equal(t, messages.CodeNoWorkers, code(k.await(waiting)), "nobody is left to wait for")
	k.until("its pool has gone", func() bool { return k.pool("shell").Name == "" })

	// A pool that runs something when it is removed lets it end.
	running := k.submit("t.block", nil)
	block.next(t)
	require.NoError(t, os.Remove(filepath.Join(dir, "actions/block.yaml")))
	writeFiles(t, dir, files{"actions/say.yaml": "name: say\nruntime: shell\ncommand: [echo, hi]\n"})
	_, err = k.Backend.Reload(t.Context(), "ann")
	require.NoError(t, err)
	close(block.open)
	require.Equal(t, messages.Completed, k.await(running).Status)
}

func TestRestartIntensityThenBackOff(t *testing.T) {
	t.Parallel()
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{
			"panic": func(context.Context, *messages.Task) (any, error) { panic("boom") },
		})(c)
		c.Workers["go"] = 1
	}, goPack(t, map[string]string{"panic": ""}))
	var runs []messages.Execution
	for i := range 7 {
		runs = append(runs, k.run("t.panic", nil))
		require.Equal(t, messages.Abandoned, runs[i].Status)
		require.Equal(t, i+1, k.restarts("go", i+1))
	}
	require.GreaterOrEqual(t, runs[6].StartedAt.Sub(runs[5].StartedAt), 200*time.Millisecond, "the seventh waited for the sixth's back-off")
	require.Equal(t, 5, strings.Count(k.log.String(), "delay=0s"))
	require.EqualValues(t, 8, k.ready("go", 0, 7).Generation)
}

// restarts waits until a pool has had so many.
func (k *kit) restarts(pool string, count int) int {
	k.t.Helper()
	k.until("restarts", func() bool { return k.pool(pool).Restarts >= count })
	return k.pool(pool).Restarts
}
