package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// bystander binds a session to a worker that works well. The returned function checks that the worker and the session still
// exist.
func bystander(t *testing.T, n *node) (unharmed func()) {
	t.Helper()
	session := object{"session": t.Name()}
	before := n.runs(t, "theatre.remember", object{"line": "before"}, session)
	require.Equal(t, "completed", before.text("status"), "%v", before)
	return func() {
		t.Helper()
		after := n.runs(t, "theatre.remember", object{"line": "after"}, session)
		require.Equal(t, "completed", after.text("status"), "%v", after)
		require.Equal(t, before.text("result", "pid"), after.text("result", "pid"), "the bystander's process was replaced")
		require.Equal(t, "[before after]", after.text("result", "lines"))
		require.Equal(t, "false", after.text("result", "lost"))
	}
}

// TestRogueWorkers makes worker programs violate the protocol, or end, in the middle of a run. The run's error names the worker
// and the cause. The worker is replaced, and the new one works. Other workers are not affected.
func TestRogueWorkers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pool, do, status, code string
		with                   object
		want                   []string // parts of the error's message
		exit                   string
	}{
		{pool: "garbage", do: "garbage", status: "abandoned", code: "worker_lost", want: []string{"protocol error: a frame is not a JSON object", "<script>"}},
		{pool: "oversize", do: "oversize", status: "abandoned", code: "worker_lost", want: []string{"protocol error: frame length 16777217 is outside 1 to 16777216"}},
		{pool: "half", do: "half", status: "abandoned", code: "worker_lost", want: []string{"protocol error:", "frame"}},
		{pool: "quitter", do: "leave", status: "abandoned", code: "worker_lost", want: []string{"process ended: exit status 0"}, exit: "exit status 0"},
		{pool: "hog", do: "eat", status: "abandoned", code: "worker_lost", want: []string{"limit: memory"}, exit: "limit: memory"},
		{pool: "deaf", do: "ignore", with: object{"timeout_seconds": 1}, status: "timed_out", code: "timeout", want: []string{"ran longer than its timeout of 1s"}},
	} {
		t.Run(c.pool, func(t *testing.T) {
			t.Parallel()
			n := shared(t)
			unharmed := bystander(t, n)
			pool := "theatre." + c.pool
			first := n.runs(t, pool, nil)
			require.Equal(t, "completed", first.text("status"), "%v", first)

			e := n.runs(t, pool, object{"do": c.do}, c.with)
			require.Equal(t, c.status, e.text("status"), "%v", e)
			require.Equal(t, c.code, e.text("error", "code"), "%v", e)
			for _, want := range c.want {
				require.Contains(t, e.text("error", "message"), want)
			}
			if c.code == "worker_lost" {
				require.Contains(t, e.text("error", "message"), "n1/"+pool+"/0")
			}
			require.Contains(t, e.text("error", "exit"), c.exit, "%v", e)

			await(t, "the worker is replaced", func() bool {
				w := n.get(t, "/api/v1/workers/n1/"+pool+"/0")
				return w.text("state") == "ready" && w.text("generation") == "2"
			})
			next := n.runs(t, pool, nil)
			require.Equal(t, "completed", next.text("status"), "%v", next)
			require.NotEqual(t, first.text("result", "pid"), next.text("result", "pid"))
			pid, err := strconv.Atoi(first.text("result", "pid"))
			require.NoError(t, err)
			require.False(t, alive(pid), "the rogue process %d still lives", pid)
			unharmed()
		})
	}
}

// TestAProcessThatPrints prints on stdout and stderr during a run. That is the run's output, and no part of the protocol.
func TestAProcessThatPrints(t *testing.T) {
	t.Parallel()
	n := shared(t)
	first := n.runs(t, "theatre.talker", nil)
	e := n.runs(t, "theatre.talker", object{"do": "talk", "lines": 1000})
	require.Equal(t, "completed", e.text("status"), "%v", e)
	out := n.get(t, "/api/v1/executions/"+e.text("id")+"/output")
	require.Equal(t, strings.Repeat("spoken on stdout, which is no frame\n", 1000), out.text("stdout"))
	require.Equal(t, "and on stderr\n", out.text("stderr"))
	// Output above the bound is cut, with a note, and the run completes.
	e = n.runs(t, "theatre.talker", object{"do": "talk", "lines": 60_000})
	require.Equal(t, "completed", e.text("status"), "%v", e)
	out = n.get(t, "/api/v1/executions/"+e.text("id")+"/output")
	require.Equal(t, "true", out.text("stdout_truncated"))
	require.LessOrEqual(t, len(out.text("stdout")), 1<<20+1024)
	again := n.runs(t, "theatre.talker", nil)
	require.Equal(t, first.text("result", "pid"), again.text("result", "pid"))
}

// TestBrokenPools has a pool whose program does not exist, and one whose program does not answer hello. Every view shows both as
// broken, their executions fail, and the node is ready.
func TestBrokenPools(t *testing.T) {
	t.Parallel()
	n := shared(t)
	for pool, want := range map[string]string{
		"theatre.ghost": "no-such-interpreter: executable file not found in PATH",
		"theatre.mute":  "worker initialization failed: no answer to hello within",
	} {
		var view object
		await(t, pool+" is broken", func() bool {
			for _, view = range n.get(t, "/api/v1/pools").list("pools") {
				if view.text("name") == pool {
					return view.text("broken") == "true"
				}
			}
			return false
		})
		require.Contains(t, view.text("reason"), "worker initialization failed: ")
		require.Contains(t, view.text("reason"), want)
		await(t, "readiness names "+pool, func() bool {
			return strings.Contains(fmt.Sprint(n.get(t, "/readyz")["broken_pools"]), pool)
		})
		require.Regexp(t, `(?m)^`+pool+` +process +broken .*worker initialization failed`, n.prints(t, "pools"))
		e := n.runs(t, pool, nil)
		require.Equal(t, "failed", e.text("status"))
		require.Equal(t, "no_workers", e.text("error", "code"))
		require.Contains(t, e.text("error", "message"), "pool "+pool+" is broken: worker initialization failed: ")
		require.NotContains(t, e.text("error", "message"), "fresh heartbeats")
		_, metrics := n.raw(t, "GET", "/metrics", nil)
		require.Contains(t, string(metrics), `troupe_pool_broken{pool="`+pool+`"} 1`)
	}
	status, _ := n.call(t, "GET", "/readyz", nil)
	require.Equal(t, http.StatusOK, status)
	n.works(t)
}

// TestAnInterpreterThatDoesNotExist configures an interpreter that does not exist. The pools that need it are broken and name the
// reason; other pools work.
func TestAnInterpreterThatDoesNotExist(t *testing.T) {
	t.Parallel()
	n := start(t, options{
		packs:  []string{"testdata/theatre"},
		config: "runtime: {python: /nowhere/python3, node: no-such-node}\npool: {backoff_max: 1}\n",
	})
	for pool, want := range map[string]string{"theatre.keeper": "/nowhere/python3", "node": "no-such-node"} {
		await(t, pool+" is broken", func() bool {
			return strings.Contains(fmt.Sprint(n.get(t, "/readyz")["broken_pools"]), pool)
		})
		for _, view := range n.get(t, "/api/v1/pools").list("pools") {
			if view.text("name") == pool {
				require.Contains(t, view.text("reason"), want)
			}
		}
	}
	require.Equal(t, "prompted by", n.runs(t, "theatre.prompt", object{"word": "by"}).text("result"))
	require.Equal(t, "completed", n.runs(t, "theatre.talker", nil).text("status"))
	n.works(t)
	r := execute(t, "", []string{"TROUPE_RUNTIME_PYTHON=/nowhere/python3"}, "doctor", "--listen", "127.0.0.1:0")
	require.Regexp(t, `python +warn +/nowhere/python3 is not on PATH`, r.out)
	require.NoError(t, n.stop())
}

// TestAWorkerThatForksAway starts a grandchild in a session of its own that ignores SIGTERM. It ends with its worker, and with
// the node if the node is killed.
func TestAWorkerThatForksAway(t *testing.T) {
	t.Parallel()
	n := start(t, options{packs: []string{"testdata/theatre"}, config: sharedConfig})
	fork := func() int {
		e := n.runs(t, "theatre.forker", object{"do": "fork"})
		require.Equal(t, "completed", e.text("status"), "%v", e)
		pid, err := strconv.Atoi(e.text("result", "pid"))
		require.NoError(t, err)
		require.True(t, alive(pid))
		return pid
	}
	first := fork()
	n.prints(t, "worker", "kill", "n1/theatre.forker/0")
	await(t, "the grandchild ends with its worker", func() bool { return !alive(first) })
	await(t, "the worker is back", func() bool { return n.get(t, "/api/v1/workers/n1/theatre.forker/0").text("state") == "ready" })
	second := fork()
	n.signal(syscall.SIGKILL)
	require.Error(t, n.ended())
	await(t, "the grandchild ends with its node", func() bool { return !alive(second) })
}

// TestACrashNamesItsCode lets a Python process crash in a run and while it loads a module. The run's error has the stack of the crash, and
// the reason of the broken pool has the file.
func TestACrashNamesItsCode(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"pack.yaml":            "name: crash\nversion: \"1\"\npools:\n  - {name: run, runtime: python, workers: 1}\n  - {name: load, runtime: python, workers: 1}\n",
		"actions/in_run.yaml":  "name: in_run\nruntime: python\npool: run\nentrypoint: actions/in_run.py:run\n",
		"actions/in_run.py":    "import ctypes\n\ndef run(params):\n    ctypes.string_at(0)\n",
		"actions/in_load.yaml": "name: in_load\nruntime: python\npool: load\nentrypoint: actions/in_load.py:run\n",
		"actions/in_load.py":   "import os\nos._exit(3)\n",
	}
	dir := filepath.Join(t.TempDir(), "crash")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "actions"), 0o755))
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	n := start(t, options{packs: []string{dir}, config: "pool: {backoff_max: 1}\n"})
	e := n.runs(t, "crash.in_run", nil)
	require.Equal(t, "worker_lost", e.text("error", "code"))
	require.Equal(t, "signal: SIGSEGV", e.text("error", "exit"))
	require.Regexp(t, `in_run.py", line 4 in run`, e.text("error", "stderr"))
	await(t, "the pool names the file", func() bool {
		for _, view := range n.get(t, "/api/v1/pools").list("pools") {
			if view.text("name") == "crash.load" {
				return strings.Contains(view.text("reason"), "exit status 3; stderr: troupe_worker: loads actions/in_load.py for action crash.in_load")
			}
		}
		return false
	})
	require.NoError(t, n.stop())
}

// TestSmallFrames configures a small limit of frames. What an action returns above it is an error of its own run, and its worker stays.
func TestSmallFrames(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "small")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "actions"), 0o755))
	for name, text := range map[string]string{
		"pack.yaml":          "name: small\nversion: \"1\"\npools:\n  - {name: p, runtime: python, workers: 1}\n",
		"actions/large.yaml": "name: large\nruntime: python\npool: p\nentrypoint: actions/large.py:run\n",
		"actions/large.py":   "import os\n\ndef run(params):\n    return [os.getpid(), \"x\" * params.get(\"size\", 0)]\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	n := start(t, options{packs: []string{dir}, config: "limits: {frame: 64KiB}\n"})
	before := n.runs(t, "small.large", nil)
	require.Equal(t, "completed", before.text("status"), "%v", before)
	e := n.runs(t, "small.large", object{"size": 70_000})
	require.Equal(t, "result_too_large", e.text("error", "code"), "%v", e)
	require.Equal(t, before.text("result"), n.runs(t, "small.large", nil).text("result"), "the worker was replaced")
	require.NoError(t, n.stop())
}
