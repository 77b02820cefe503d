package node_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/rules/restart"
)

func contains(text, part string) bool { return strings.Contains(text, part) }

// scrape reads the metrics.
func (k *kit) scrape() string {
	k.t.Helper()
	w := httptest.NewRecorder()
	k.Node.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(k.t, 200, w.Code)
	return w.Body.String()
}

// quickly makes a pool that cannot start fail fast.
func quickly(c *node.Config) {
	c.Restart = restart.Policy{BackoffMin: 50 * time.Millisecond, BackoffMax: 200 * time.Millisecond, Jitter: -1}
}

func TestABrokenPoolFailsItsWorkAndRecoversByItself(t *testing.T) {
	t.Parallel()
	interpreter := filepath.Join(t.TempDir(), "python")
	k := lab(t, func(c *node.Config) {
		quickly(c)
		c.Interpreters = map[messages.Runtime]string{"python": interpreter}
	}, pythonPack(t, "workers: 2", map[string]string{"count": "", "sleep": "on_no_worker: wait\n"}))
	patient := k.submit("py.sleep", object{"seconds": 0})
	e := k.run("py.count", nil, retries(1))
	require.Equal(t, messages.Failed, e.Status)
	require.Equal(t, messages.CodeNoWorkers, e.Error.Code)
	require.Contains(t, e.Error.Message, "no workers available: pool py.lab is broken: worker initialization failed")
	require.NotZero(t, e.RetriedAs, "it is retriable")
	k.until("the pool is broken", func() bool { return k.pool("py.lab").Broken })
	require.Contains(t, k.pool("py.lab").Reason, "python")
	ready := k.Ready(t.Context())
	require.Equal(t, []string{"py.lab"}, ready.BrokenPools)
	require.True(t, ready.Ready, "a broken pool does not fail readiness: %v", ready.WaitsFor)
	require.Contains(t, k.scrape(), `troupe_pool_broken{pool="py.lab"} 1`)
	require.Equal(t, messages.Requested, k.get(patient).Status)
	found, err := os.Stat("/usr/bin/python3")
	require.NoError(t, err)
	require.False(t, found.IsDir())
	require.NoError(t, os.Symlink("/usr/bin/python3", interpreter))
	require.Equal(t, messages.Completed, k.await(patient).Status)
	k.until("the pool is well again", func() bool { return !k.pool("py.lab").Broken })
	require.Contains(t, k.scrape(), `troupe_pool_broken{pool="py.lab"} 0`)
}

func TestWaitingForAnyWorkerHasADeadline(t *testing.T) {
	t.Parallel()
	k := lab(t, func(c *node.Config) {
		quickly(c)
		c.NoWorkerDeadline = 700 * time.Millisecond
		c.Interpreters = map[messages.Runtime]string{"python": "/nonexistent/python"}
	}, pythonPack(t, "", map[string]string{"sleep": "on_no_worker: wait\n"}))
	begin := time.Now()
	e := k.run("py.sleep", nil)
	require.Equal(t, messages.CodeNoWorkers, code(e))
	require.GreaterOrEqual(t, time.Since(begin), 600*time.Millisecond)
}

func TestCordonedWorkersTakeNothingUntilUncordoned(t *testing.T) {
	t.Parallel()
	block := newGate()
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"noop": noop, "block": block.run})(c)
		c.Workers["go"] = 1
	}, goPack(t, map[string]string{"noop": "", "block": ""}))
	w := k.ready("go", 0, 0)
	for name, cordon := range map[string]func(bool) error{
		"worker": func(on bool) error { return k.CordonWorker(t.Context(), w.ID, on) },
		"pool":   func(on bool) error { return k.CordonPool(t.Context(), "go", on) },
		"node":   func(on bool) error { return k.CordonNode(t.Context(), "test", on) },
	} {
		running := k.submit("t.block", nil)
		block.next(t)
		require.NoError(t, cordon(true))
		waiting := k.submit("t.noop", nil)
		block.open <- struct{}{}
		require.Equal(t, messages.Completed, k.await(running).Status, "what runs goes on: %s", name)
		k.until("the router has looked at it", func() bool {
			why, err := k.Why(t.Context(), waiting)
			require.NoError(t, err)
			return why.Reason != "not_loaded" && why.Reason != "ready"
		})
		require.Equal(t, messages.Requested, k.get(waiting).Status, name)
		require.NoError(t, cordon(false))
		require.Equal(t, messages.Completed, k.await(waiting).Status, name)
	}
}

// A start that fails in the same way each time is not tried again, however many retries are left, and its error names the program.
func TestAStartThatCannotWorkIsFinal(t *testing.T) {
	t.Parallel()
	k := lab(t, nil, packOf(t, "s", "", files{"actions/ghost.yaml": "name: ghost\nruntime: shell\ncommand: [no-such-program]\n"}))
	e := k.run("s.ghost", nil, retries(3))
	require.Equal(t, messages.Failed, e.Status)
	require.Contains(t, e.Error.Message, "action s.ghost: start no-such-program: executable file not found in PATH")
	require.Zero(t, e.RetriedAs)
	require.Equal(t, []string{"cannot_start", "not_retriable"}, []string{string(e.Error.Code), e.Error.NoRetry})
}

// What a command leaves running is ended with it, and named: nobody else tells of it.
func TestWhatACommandLeavesIsNamed(t *testing.T) {
	t.Parallel()
	k := lab(t, nil, packOf(t, "s", "", files{
		"actions/leave.yaml": "name: leave\nruntime: shell\ncommand: [sh, -c, 'sleep 600 & printf said >&2; exit 3']\n",
		"actions/tidy.yaml":  "name: tidy\nruntime: shell\ncommand: [sh, -c, 'sleep 0 & wait; exit 3']\n",
	}))
	e := k.run("s.leave", nil)
	require.Regexp(t, `^said\ntroupe: ended with the run: \w+ \(\d+\)\n$`, e.Error.Stderr)
	out, err := k.Output(t.Context(), e.ID)
	require.NoError(t, err)
	require.Equal(t, e.Error.Stderr, string(out.Stderr))
	require.Empty(t, k.run("s.tidy", nil).Error.Stderr)
}
