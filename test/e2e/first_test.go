package e2e

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheDemoPackCanBeDisabled starts a node without the demo pack, as in production.
func TestTheDemoPackCanBeDisabled(t *testing.T) {
	t.Parallel()
	n := start(t, options{packs: []string{"testdata/plain"}, config: sharedConfig, flags: []string{"--demo=false"}})
	require.NotContains(t, n.prints(t, "actions"), "demo.")
	require.Contains(t, n.prints(t, "actions"), "core.echo")
	require.NoError(t, n.stop())
}

// TestABrowserIsRedirected requests the address that a node prints, as a browser and as a program.
func TestABrowserIsRedirected(t *testing.T) {
	t.Parallel()
	n := shared(t)
	for accept, want := range map[string]int{"text/html,application/xhtml+xml,*/*;q=0.8": http.StatusFound, "application/json": http.StatusNotFound} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.url+"/", nil)
		require.NoError(t, err)
		r.Header.Set("Accept", accept)
		answer, err := http.DefaultTransport.RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, want, answer.StatusCode)
		if want == http.StatusFound {
			require.Equal(t, "/console/", answer.Header.Get("Location"))
		}
	}
}

// samplesMax bounds what a scrape of a node with the built-in packs has.
const samplesMax = 520

// TestAnIdleNodeHasFewSamples bounds the size of a scrape of a node with the default settings: after its start, and when it is
// idle again after it has run every action and lost a worker.
func TestAnIdleNodeHasFewSamples(t *testing.T) {
	t.Parallel()
	n := start(t, options{})
	samples := func() (count int) {
		_, page := n.raw(t, "GET", "/metrics", nil)
		for line := range strings.Lines(string(page)) {
			if !strings.HasPrefix(line, "#") {
				count++
			}
		}
		return count
	}
	require.Less(t, samples(), samplesMax)
	require.Greater(t, samples(), 100, "there are some")
	needs := map[string]object{
		"core.sleep": {"seconds": 0.01}, "demo.memory": {"mib": 1}, "demo.spin": {"seconds": 0.05},
		"demo.stream": {"seconds": 0.01}, "demo.progress": {"steps": 2, "seconds": 0.1},
	}
	ran := map[string]bool{}
	for _, action := range n.get(t, "/api/v1/actions").list("actions") {
		ref := action.text("ref")
		for i := range 3 {
			ran[n.runs(t, ref, needs[ref], object{"session": fmt.Sprint("s", i), "max_retries": 1}).text("status")] = true
		}
	}
	n.finish(t, n.cancelled(t, "core.sleep", object{"seconds": 60}))
	n.runs(t, "core.sleep", object{"seconds": 60}, object{"timeout_seconds": 0.1})
	n.prints(t, "worker", "probe", "n1/shell/0")
	require.Subset(t, slices.Collect(maps.Keys(ran)), []string{"completed", "failed", "abandoned"})
	await(t, "the node is idle again", func() bool {
		for _, p := range n.get(t, "/api/v1/pools").list("pools") {
			if p["ready"] != p["workers"] {
				return false
			}
		}
		return true
	})
	require.Less(t, samples(), samplesMax)
}

// cancelled submits an execution, waits until it runs, cancels it and returns its id.
func (n *node) cancelled(t *testing.T, action string, parameters object) string {
	t.Helper()
	id := n.submit(t, action, parameters).text("id")
	await(t, "it runs", func() bool { return n.get(t, "/api/v1/executions/"+id).text("status") == "running" })
	n.prints(t, "cancel", id)
	return id
}

// TestTheSDKPassesItsCheck runs the command in the help of `troupe worker check`, on a machine where the SDK is not installed.
func TestTheSDKPassesItsCheck(t *testing.T) {
	t.Parallel()
	r := execute(t, "", []string{"TMPDIR=" + t.TempDir()}, "worker", "check", "--", "python3", "-m", "troupe_worker")
	require.Equal(t, 0, r.code, r.out+r.err)
	require.Contains(t, r.out, ", 0 failed,")
}

// TestAClusterBehindAPipeLeavesNothing interrupts `make cluster | tee`. The reader of the pipe ends first.
func TestAClusterBehindAPipeLeavesNothing(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "../../tools/cluster", "--troupe", binary)
	cmd.Env = append(os.Environ(), "TMPDIR="+folder, "PATH="+searchPath)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = writer, io.Discard
	require.NoError(t, cmd.Start())
	require.NoError(t, writer.Close())
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) })
	lines, said := bufio.NewScanner(reader), ""
	for lines.Scan() && !strings.Contains(said, "troupe nodes") {
		said += lines.Text() + "\n"
	}
	require.Contains(t, said, "troupe nodes", "three nodes run")
	require.NotEmpty(t, mentioning(t, folder))
	require.NoError(t, reader.Close())
	require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGINT))
	_ = cmd.Wait()
	await(t, "no process of it is left", func() bool { return len(mentioning(t, folder)) == 0 })
	left, err := filepath.Glob(filepath.Join(folder, "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
