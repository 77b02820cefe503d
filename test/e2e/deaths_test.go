package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// waitingPack has an action that notes each start, and ends when a file is there.
func waitingPack(t *testing.T, action string) (pack, starts, release string) {
	dir := t.TempDir()
	starts, release = filepath.Join(dir, "starts"), filepath.Join(dir, "release")
	command := "command: [sh, -c, 'echo $$ >>" + starts + "; while [ ! -e " + release + " ]; do sleep 0.05; done']\n"
	return trialPack(t, command+action), starts, release
}

// startsIn counts the starts that were noted.
func startsIn(path string) int {
	text, _ := os.ReadFile(path)
	return strings.Count(string(text), "\n")
}

// TestDeathsOfANodeAreNotTheExecutions kills a node five times while it runs an execution. Its workers are not at fault, so nothing counts
// in crash_count. The fifth death poisons it, with the nodes' names, and a finding tells of it.
func TestDeathsOfANodeAreNotTheExecutions(t *testing.T) {
	t.Parallel()
	pack, starts, _ := waitingPack(t, "idempotent: true\nretry: {base: 50ms, max: 100ms}\n")
	n := start(t, options{packs: []string{pack}})
	id := n.submit(t, "trial.sent", nil).text("id")
	for death := range 5 {
		await(t, "it has started", func() bool { return startsIn(starts) == death+1 })
		n.kill()
		n = n.again(t)
	}
	e := n.finish(t, id)
	require.Equal(t, []string{"failed", "poisoned"}, []string{e.text("status"), e.text("error", "code")}, "%v", e)
	require.Contains(t, e.text("error", "message"), "5 nodes ended while they ran the execution or those it retries: n1, n1, n1, n1, n1;")
	require.NotContains(t, e, "crash_count")
	require.Equal(t, 5, startsIn(starts))
	await(t, "a finding tells of it", func() bool {
		return strings.Contains(n.prints(t, "findings"), "executions_poisoned")
	})
}

// TestAFrozenNodeTimesNothingOut stops a node, and not its worker, for longer than a run may take. The run goes on after it.
func TestAFrozenNodeTimesNothingOut(t *testing.T) {
	t.Parallel()
	const timeout = 6 * time.Second
	pack, starts, release := waitingPack(t, "timeout_seconds: 6\n")
	n := start(t, options{packs: []string{pack}})
	id := n.submit(t, "trial.sent", nil).text("id")
	await(t, "it has started", func() bool { return startsIn(starts) == 1 })
	n.signal(syscall.SIGSTOP)
	time.Sleep(timeout + time.Second) // the freeze is the fault
	n.signal(syscall.SIGCONT)
	n.works(t)
	require.Equal(t, "running", n.get(t, "/api/v1/executions/"+id).text("status"), "its time is not over")
	require.NoError(t, os.WriteFile(release, nil, 0o644))
	require.Equal(t, "completed", n.finish(t, id).text("status"))

	require.NoError(t, os.Remove(release))
	e := n.runs(t, "trial.sent", nil)
	require.Equal(t, []string{"timed_out", "timeout"}, []string{e.text("status"), e.text("error", "code")}, "an awake node still does")
}
