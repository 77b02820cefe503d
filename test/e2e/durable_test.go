package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestKillAndRestart kills a node during its work and starts it again. Every accepted execution still exists and has one outcome.
func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	n := start(t, options{packs: []string{"testdata/theatre"}, config: sharedConfig})
	done := n.runs(t, "core.echo", object{"kept": "yes"}, object{"labels": object{"a": "b"}, "session": "<s>"}).text("id")
	output := n.runs(t, "theatre.prompt", object{"word": "kept"}).text("id")
	n.runs(t, "theatre.remember", object{"line": "one"}, object{"session": "s"})
	n.prints(t, "cordon", "pool", "theatre.talker")
	waiting := n.submit(t, "theatre.talker", nil).text("id")
	later := n.submit(t, "core.echo", nil, object{"run_at": time.Now().Add(3 * time.Second).UTC().Format(time.RFC3339Nano)}).text("id")
	abandoned := n.submit(t, "theatre.pause", object{"seconds": 60}).text("id")
	repeated := n.submit(t, "core.sleep", object{"seconds": 5}).text("id") // idempotent
	retried := n.submit(t, "theatre.pause", object{"seconds": 5}, object{"max_retries": 1}).text("id")
	for _, id := range []string{abandoned, repeated, retried} {
		await(t, id+" runs", func() bool { return n.get(t, "/api/v1/executions/"+id).text("status") == "running" })
	}

	n.signal(syscall.SIGKILL)
	require.Error(t, n.ended())
	n = n.again(t)
	n.prints(t, "uncordon", "pool", "theatre.talker")
	await(t, "what the workers were away for is counted", func() bool {
		_, text := n.raw(t, "GET", "/metrics", nil)
		return regexp.MustCompile(`troupe_worker_downtime_seconds_count\{pool="theatre.keeper"\} [1-9]`).Match(text)
	})

	e := n.get(t, "/api/v1/executions/"+done)
	require.Equal(t, []string{"completed", "yes", "b", "<s>"}, []string{e.text("status"), e.text("result", "kept"), e.text("labels", "a"), e.text("session")})
	require.Equal(t, "prompted kept\n", n.get(t, "/api/v1/executions/"+output+"/output").text("stdout"))
	for _, id := range []string{later, waiting, repeated} {
		require.Equal(t, "completed", n.finish(t, id).text("status"), id)
	}
	require.Equal(t, "2", n.get(t, "/api/v1/executions/"+repeated).text("attempt"))
	e = n.finish(t, abandoned)
	require.Equal(t, "abandoned", e.text("status"))
	require.Equal(t, "worker_lost", e.text("error", "code"))
	e = n.finish(t, retried)
	require.Equal(t, "abandoned", e.text("status"))
	require.Equal(t, "completed", n.finish(t, e.text("retried_as")).text("status"))
	e = n.runs(t, "theatre.remember", object{"line": "two"}, object{"session": "s"})
	require.Equal(t, "true", e.text("result", "lost"), "a session whose worker was killed is told of its loss")
	require.Equal(t, "[two]", e.text("result", "lines"))
	require.NoError(t, n.stop())
}

// TestShutdownUnderLoad stops a node in order while it works. Runs complete, waiting executions are there after the restart, and
// the log has the lines that operators search for.
func TestShutdownUnderLoad(t *testing.T) {
	t.Parallel()
	n := start(t, options{packs: []string{"testdata/theatre"}, config: sharedConfig})
	pids := []string{}
	for _, w := range n.get(t, "/api/v1/workers?pool=theatre.keeper").list("workers") {
		pids = append(pids, w.text("pid"))
	}
	var ids []string
	for i := range 12 { // the shell pool has two workers a core
		ids = append(ids, n.submit(t, "theatre.pause", object{"seconds": 1}, object{"labels": object{"i": fmt.Sprint(i)}}).text("id"))
	}
	running := ""
	await(t, "work runs", func() bool {
		running = n.begun(t)
		return running != ""
	})
	pools := n.get(t, "/api/v1/pools").list("pools")
	require.NoError(t, n.stop(), n.log.tail(20))
	for _, text := range []string{
		"Received SIGTERM signal", "Deregistering worker ID: ", "Worker shutting down gracefully", "Worker shutdown complete",
	} {
		require.Contains(t, n.log.String(), text)
	}
	told := strings.Count(n.log.String(), "Deregistering worker ID: ")
	require.LessOrEqual(t, told, len(pools), "a line for each pool that has workers")
	require.Equal(t, 1, strings.Count(n.log.String(), "/theatre.keeper/0"), "however many it has")
	require.NotContains(t, n.log.String(), "Dead letter handler started", "there is no RabbitMQ")
	for _, pid := range pids {
		var number int
		_, err := fmt.Sscan(pid, &number)
		require.NoError(t, err)
		require.False(t, alive(number), "worker process %s outlives its node", pid)
	}
	n = n.again(t)
	e := n.get(t, "/api/v1/executions/"+running)
	require.Equal(t, "completed", e.text("status"), "what ran was finished before the end: %v", e)
	require.Equal(t, "1", e.text("attempt"))
	for _, id := range ids {
		e := n.finish(t, id)
		require.Equal(t, "completed", e.text("status"), "%v", e)
		require.Empty(t, e.text("original_execution"))
	}
	_, text := n.raw(t, "GET", "/metrics", nil)
	require.NotRegexp(t, `troupe_worker_downtime_seconds_count\{[^}]*\} [1-9]`, string(text), "workers that were stopped in order were not lost")
	require.NoError(t, n.stop())
}

// begun is an execution that a worker of the node runs; empty: there is none. The status running is not enough: the execution may
// be claimed and not started, and is then given back.
func (n *node) begun(t *testing.T) string {
	t.Helper()
	for _, w := range n.get(t, "/api/v1/workers").list("workers") {
		if id := w.text("execution"); id != "" {
			return id
		}
	}
	return ""
}

// TestShutdownTimeoutEndsRuns stops a node whose run takes longer than the shutdown timeout.
func TestShutdownTimeoutEndsRuns(t *testing.T) {
	t.Parallel()
	n := start(t, options{packs: []string{"testdata/theatre"}, config: sharedConfig, flags: []string{"--shutdown-timeout", "0.5s"}})
	id := n.submit(t, "theatre.pause", object{"seconds": 600}).text("id")
	await(t, "it runs", func() bool { return n.begun(t) == id })
	began := time.Now()
	require.NoError(t, n.stop(), n.log.tail(20))
	require.Less(t, time.Since(began), 15*time.Second)
	n = n.again(t)
	e := n.finish(t, id)
	require.Equal(t, "abandoned", e.text("status"), "%v", e)
	require.NoError(t, n.stop())
}

// TestSecondSignalStopsAtOnce sends a second signal to a node that waits for its runs.
func TestSecondSignalStopsAtOnce(t *testing.T) {
	t.Parallel()
	n := start(t, options{packs: []string{"testdata/theatre"}, config: sharedConfig})
	id := n.submit(t, "theatre.pause", object{"seconds": 600}).text("id")
	await(t, "it runs", func() bool { return n.begun(t) == id })
	n.signal(syscall.SIGTERM)
	n.logged(t, "Worker shutting down gracefully")
	began := time.Now()
	n.signal(syscall.SIGINT)
	_ = n.ended()
	require.Less(t, time.Since(began), 10*time.Second, n.log.tail(20))
	require.Contains(t, n.log.String(), "second signal: stopping at once")
	n = n.again(t)
	require.Equal(t, "abandoned", n.finish(t, id).text("status"))
	require.NoError(t, n.stop())
}

// TestMigrate migrates a store without a node. A second call changes nothing.
func TestMigrate(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "fresh")
	for range 2 {
		r := execute(t, "", nil, "migrate", "--data", data)
		require.Equal(t, 0, r.code, r.err)
		require.Contains(t, r.out, filepath.Join(data, "troupe.db"))
	}
	n := start(t, options{data: data})
	n.works(t)
	require.NoError(t, n.stop())
}

// TestARefusedReloadNamesThePack reloads a pack that has become invalid. The views name the pack.
func TestARefusedReloadNamesThePack(t *testing.T) {
	t.Parallel()
	n := start(t, options{packs: []string{"testdata/plain"}, config: sharedConfig})
	dir := n.packs[0]
	require.Equal(t, "1", n.runs(t, "plain.one", nil).text("result"))
	write(t, dir, "actions/one.py", "import nothing_of_that_name\n")
	r := n.troupe(t, "reload")
	require.Equal(t, 1, r.code)
	require.Regexp(t, `^troupe: nothing is reloaded, the code from before runs on:\n  pack plain: a worker of pool plain.own does not start: action plain.one: load `, r.err)
	require.Contains(t, r.err, "\n    Traceback (most recent call last):\n")
	require.Contains(t, r.err, `actions/one.py", line 1, in <module>`)
	require.Regexp(t, `(?m)^plain.own +python +old code .*reload refused at \d\d:\d\d:\d\d: pack plain: action plain.one: `, n.prints(t, "pools"))
	await(t, "readiness tells it", func() bool { // the answer of /readyz is cached for 250 ms
		return strings.Contains(fmt.Sprint(n.get(t, "/readyz")["notes"]), "was refused, and the code from before it runs on")
	})
	require.Regexp(t, `running node +warn .*was refused`, n.troupe(t, "doctor", "--listen", strings.TrimPrefix(n.url, "http://")).out)
	require.Equal(t, "1", n.runs(t, "plain.one", nil).text("result"))
	n.signal(syscall.SIGHUP)
	n.logged(t, "packs not reloaded; the node goes on with those it has")
	write(t, dir, "actions/one.py", "def run(params):\n    return 2\n")
	require.Regexp(t, `(?m)^workers replaced +plain.own`, n.prints(t, "reload"))
	await(t, "the new code runs", func() bool { return n.runs(t, "plain.one", nil).text("result") == "2" })
	require.NotContains(t, n.prints(t, "pools"), "old code")
	require.NoError(t, n.stop())
}

// TestReload changes packs of a working node, and reloads them by signal and by the API.
func TestReload(t *testing.T) {
	t.Parallel()
	n := start(t, options{packs: []string{"testdata/theatre"}, config: sharedConfig})
	dir := n.packs[0]
	long := n.submit(t, "theatre.act", object{"lines": 30, "pause": 0.25}).text("id")
	await(t, "it runs", func() bool { return n.get(t, "/api/v1/executions/"+long).text("status") == "running" })
	write(t, dir, "actions/encore.yaml", "name: encore\nruntime: python\nentrypoint: actions/encore.py:play\npool: keeper\nparameters: {type: object}\n")
	write(t, dir, "actions/encore.py", "def play(params):\n    return 'first'\n")
	await(t, "the pools that cannot start are known", func() bool {
		broken := fmt.Sprint(n.get(t, "/readyz")["broken_pools"])
		return strings.Contains(broken, "theatre.mute") && strings.Contains(broken, "theatre.ghost")
	})
	r := n.troupe(t, "reload")
	require.Regexp(t, `(?m)^added +theatre.encore`, r.out)
	require.Equal(t, 1, r.code, "two of its pools were broken before, and still are")
	require.Contains(t, r.err, "pack theatre: a worker of pool theatre.mute does not start: no answer to hello within the init timeout")
	require.Equal(t, "first", n.runs(t, "theatre.encore", nil).text("result"))
	require.Equal(t, "completed", n.finish(t, long).text("status"), "what ran goes on")

	write(t, dir, "actions/encore.py", "def play(params):\n    return 'second'\n")
	n.signal(syscall.SIGHUP)
	n.logged(t, "packs reloaded")
	await(t, "every worker runs the new code", func() bool {
		for range 8 {
			if n.runs(t, "theatre.encore", nil).text("result") != "second" {
				return false
			}
		}
		return true
	})

	write(t, dir, "actions/encore.yaml", "name: encore\nruntime: pithon\n")
	r = n.troupe(t, "reload")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "encore.yaml:2")
	n.signal(syscall.SIGHUP)
	n.logged(t, "packs not reloaded; the node goes on with those it has")
	require.Equal(t, "second", n.runs(t, "theatre.encore", nil).text("result"), "the node goes on with what it had")
	require.NoError(t, n.stop())
	require.NotContains(t, strings.ToLower(n.log.String()), "panic")
}

// A reload starts a worker of each changed pool as a trial, and waits for it. A stop does not wait for the reload.
func TestAStopDoesNotWaitForAReload(t *testing.T) {
	t.Parallel()
	n := start(t, options{packs: []string{"testdata/theatre"}, config: strings.Replace(sharedConfig, "worker: {", "worker: {init_timeout: 600, ", 1)})
	dir, begun := n.packs[0], filepath.Join(t.TempDir(), "begun")
	write(t, dir, "actions/encore.yaml", "name: encore\nruntime: python\nentrypoint: actions/encore.py:play\npool: keeper\nparameters: {type: object}\n")
	write(t, dir, "actions/encore.py", "import pathlib, time\npathlib.Path('"+begun+"').touch()\ntime.sleep(600)\ndef play(params):\n    return 1\n")
	n.signal(syscall.SIGHUP)
	await(t, "a worker is tried", func() bool { _, err := os.Stat(begun); return err == nil })
	require.NoError(t, n.stop())
}
