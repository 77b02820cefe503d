package node_test

import (
	"context"
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
)

// pairOfPacks are two packs, each with a pool of its own and one action, both whole.
func pairOfPacks(t *testing.T) (first, second string) {
	t.Helper()
	folder := func(name string) string {
		return packOf(t, name, "pools:\n  - {name: own, runtime: python, workers: 1}\n", files{
			"actions/say.yaml": "name: say\nruntime: python\npool: own\nentrypoint: say.py:say\n",
			"say.py":           "def say(params):\n    return 1\n",
		})
	}
	return folder("first"), folder("second")
}

// brokenCode fails where it is loaded.
const brokenCode = "import os\nimport nothing_of_that_name\n"

// A reload that would break what works changes nothing, says which pack is to blame with its traceback, and is told of until one
// succeeds.
func TestAReloadTriesAWorkerFirst(t *testing.T) {
	t.Parallel()
	first, second := pairOfPacks(t)
	k := lab(t, nil, first, second)
	one, two := k.ready("first.own", 0, 0), k.ready("second.own", 0, 0)

	writeFiles(t, first, files{"say.py": brokenCode})
	writeFiles(t, second, files{"say.py": "def say(params):\n    return 'the second, and it works'\n"})
	_, err := k.Node.Reload(t.Context(), "ann")
	p := refused(t, err)
	require.Equal(t, http.StatusUnprocessableEntity, api.StatusOf(p))
	require.Equal(t, messages.CodeReloadFailed, p.Code)
	require.Contains(t, p.Message, "pack first: a worker of pool first.own does not start: action first.say: load say.py: ModuleNotFoundError")
	failures := p.Details.(api.ReloadFailures).Pools
	require.Len(t, failures, 1)
	require.Equal(t, []string{"first"}, failures[0].Packs)
	require.Contains(t, failures[0].Traceback, "line 2, in <module>")

	require.Equal(t, one.Pid, k.ready("first.own", 0, 0).Pid)
	require.Equal(t, two.Pid, k.ready("second.own", 0, 0).Pid)
	require.Equal(t, "1", string(k.run("second.say", nil).Result), "all or nothing")
	require.Equal(t, "1", string(k.run("first.say", nil).Result))
	for _, pool := range []string{"first.own", "second.own"} {
		require.True(t, k.pool(pool).OldCode, pool)
		require.Contains(t, k.pool(pool).Reason, "nothing_of_that_name", pool)
	}
	ready := k.Ready(t.Context())
	require.True(t, ready.Ready)
	require.Contains(t, ready.Notes[0], "was refused, and the code from before it runs on: pack first: ")

	// Mended: the pool whose pack is as it was stays alone.
	writeFiles(t, first, files{"say.py": "def say(params):\n    return 1\n"})
	report, err := k.Node.Reload(t.Context(), "ann")
	require.NoError(t, err)
	require.Equal(t, []string{"second.own"}, report.Replaced)
	k.ready("second.own", 0, two.Generation)
	require.Equal(t, `"the second, and it works"`, string(k.run("second.say", nil).Result))
	require.Equal(t, one.Pid, k.ready("first.own", 0, 0).Pid, "only pools whose packs changed are replaced")
	require.False(t, k.pool("first.own").OldCode)
	require.Empty(t, k.Ready(t.Context()).Notes)
}

// A broken pool says so to who submits, and a mended pack starts it at once, however far its back-off has gone.
func TestAMendedPackClearsTheBackOff(t *testing.T) {
	t.Parallel()
	first, second := pairOfPacks(t)
	writeFiles(t, first, files{"say.py": brokenCode})
	k := lab(t, func(c *node.Config) {
		c.Restart.BackoffMin, c.Restart.BackoffMax, c.Restart.BrokenAfter = time.Hour, time.Hour, 1
	}, first, second)
	k.until("the pool is broken", func() bool { return k.pool("first.own").Broken })
	e := k.run("first.say", nil)
	require.Equal(t, messages.CodeNoWorkers, code(e))
	require.Contains(t, e.Error.Message, "no workers available: pool first.own is broken: worker initialization failed: action first.say: ")
	require.NotContains(t, e.Error.Message, "fresh heartbeats")
	require.Contains(t, messages.Traceback(e.Error.Details), "import nothing_of_that_name")
	require.Contains(t, k.Ready(t.Context()).Notes[0], "pool first.own is broken: worker initialization failed")

	// Another pack is reloaded meanwhile: there is no code to go on with, so the broken one does not keep it from that.
	two := k.ready("second.own", 0, 0)
	writeFiles(t, second, files{"say.py": "def say(params):\n    return 2\n"})
	report, err := k.Node.Reload(t.Context(), "ann")
	require.NoError(t, err)
	require.Equal(t, []string{"second.own"}, report.Replaced)
	require.Len(t, report.Broken, 1)
	require.Equal(t, "first.own", report.Broken[0].Pool)
	require.NotEmpty(t, report.Broken[0].Traceback)
	k.ready("second.own", 0, two.Generation)
	require.True(t, k.pool("first.own").Broken)

	writeFiles(t, first, files{"say.py": "def say(params):\n    return 3\n"})
	report, err = k.Node.Reload(t.Context(), "ann")
	require.NoError(t, err)
	require.Empty(t, report.Broken)
	k.ready("first.own", 0, 1)
	require.Equal(t, "3", string(k.run("first.say", nil).Result))
	require.False(t, k.pool("first.own").Broken)
}

// A pack that is as it was may be mended all the same, by what it needs and its folder does not hold.
func TestAReloadStartsABrokenPoolThatHasNotChanged(t *testing.T) {
	t.Parallel()
	needed := t.TempDir()
	first, _ := pairOfPacks(t)
	writeFiles(t, first, files{"say.py": "import sys\nsys.path.append(" + `"` + needed + `"` + ")\nimport needed\ndef say(params):\n    return needed.VALUE\n"})
	k := lab(t, func(c *node.Config) {
		c.Restart.BackoffMin, c.Restart.BackoffMax, c.Restart.BrokenAfter = time.Hour, time.Hour, 1
	}, first)
	k.until("the pool is broken", func() bool { return k.pool("first.own").Broken })
	writeFiles(t, needed, files{"needed.py": "VALUE = 4\n"})
	report, err := k.Node.Reload(t.Context(), "ann")
	require.NoError(t, err)
	require.Empty(t, report.Replaced)
	k.ready("first.own", 0, 1)
	require.Equal(t, "4", string(k.run("first.say", nil).Result))
}

// A program that never answers keeps a reload no longer than its init timeout, and is gone when that is over.
func TestATrialThatHangsEnds(t *testing.T) {
	t.Parallel()
	first, _ := pairOfPacks(t)
	k := lab(t, func(c *node.Config) { c.InitTimeout = 6 * time.Second }, first)
	before := k.ready("first.own", 0, 0)
	pid := k.data + "/hung.pid"
	writeFiles(t, first, files{"say.py": "import os, time\nopen(" + `"` + pid + `"` + ", 'w').write(str(os.getpid()))\ntime.sleep(600)\n"})
	_, err := k.Node.Reload(t.Context(), "ann")
	require.Contains(t, refused(t, err).Message, "no answer to hello within the init timeout")
	k.folder = k.data
	k.gone(k.pids("hung.pid", 1)[0])
	require.Equal(t, before.Pid, k.ready("first.own", 0, 0).Pid)
}

// A reload ends with its caller: the workers that it tries are gone then, and it has started no more of them.
func TestAReloadEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	const pools, atATime = 6, 4
	first, _ := pairOfPacks(t)
	k := lab(t, func(c *node.Config) { c.InitTimeout = time.Hour }, first)
	before := k.ready("first.own", 0, 0)
	k.folder = k.data
	more, actions := "", files{}
	for i := range pools {
		more += fmt.Sprintf("  - {name: p%d, runtime: python, workers: 1}\n", i)
		name := fmt.Sprintf("more%d", i)
		actions["actions/"+name+".yaml"] = fmt.Sprintf("name: %s\nruntime: python\npool: p%d\nentrypoint: hang.py:say\n", name, i)
	}
	actions["pack.yaml"] = "name: first\nversion: 1.0.0\npools:\n  - {name: own, runtime: python, workers: 1}\n" + more
	actions["hang.py"] = fmt.Sprintf("import os, time\nwith open('%s/hung.pids', 'a') as f:\n    f.write('%%d\\n' %% os.getpid())\ntime.sleep(600)\n", k.data)
	writeFiles(t, first, actions)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := k.Node.Reload(ctx, "")
		done <- err
	}()
	k.pids("hung.pids", atATime)
	gone, leave := context.WithCancel(t.Context())
	leave()
	second := make(chan error, 1)
	go func() {
		_, err := k.Node.Reload(gone, "")
		second <- err
	}()
	select {
	case err := <-second:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(patience):
		require.FailNow(t, "a caller who has left waits for the reload of another")
	}
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	for _, pid := range k.pids("hung.pids", atATime) {
		require.Error(t, syscall.Kill(pid, 0), "process %d is gone", pid)
	}
	require.Len(t, k.lines("hung.pids"), atATime)
	require.Equal(t, before.Pid, k.ready("first.own", 0, 0).Pid)
}

// A node that drains reloads nothing, and a reload under way ends with the start of the drain.
func TestADrainingNodeReloadsNothing(t *testing.T) {
	t.Parallel()
	block := newGate()
	first, _ := pairOfPacks(t)
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"block": block.run})(c)
		c.InitTimeout = time.Hour
	}, goPack(t, map[string]string{"block": ""}), first)
	before := k.ready("first.own", 0, 0)
	running := k.submit("t.block", nil)
	block.next(t)
	k.folder = k.data
	writeFiles(t, first, files{"say.py": fmt.Sprintf(
		"import os, time\nwith open('%s/hung.pids', 'a') as f:\n    f.write('%%d\\n' %% os.getpid())\ntime.sleep(600)\n", k.data)})
	reloaded := make(chan error, 1)
	go func() {
		_, err := k.Node.Reload(context.Background(), "")
		reloaded <- err
	}()
	hung := k.pids("hung.pids", 1)[0]
	stopped := make(chan error, 1)
	go func() { stopped <- k.stop() }()
	p := refused(t, <-reloaded)
	require.Equal(t, http.StatusServiceUnavailable, api.StatusOf(p))
	require.Equal(t, messages.CodeDraining, p.Code)
	require.Error(t, syscall.Kill(hung, 0), "the trial has ended")

	writeFiles(t, first, files{"say.py": "def say(params):\n    return 'another version'\n"})
	_, err := k.Node.Reload(context.Background(), "")
	p = refused(t, err)
	require.Equal(t, http.StatusServiceUnavailable, api.StatusOf(p))
	require.Contains(t, p.Message, "nothing is reloaded: this node is shutting down")
	require.Equal(t, messages.Running, k.get(running).Status, "the drain goes on as it would")
	close(block.open)
	require.NoError(t, <-stopped)
	require.NotContains(t, k.log.String(), "packs loaded again")
	require.Error(t, syscall.Kill(before.Pid, 0))
}
