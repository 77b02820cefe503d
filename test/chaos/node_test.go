package chaos_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/test/netns"
)

// bootTime bounds the time from a node's start until it is ready.
const bootTime = 30 * time.Second

// stopTime bounds the time of an orderly stop: the shutdown timeout, and what follows it.
const stopTime = 45 * time.Second

// markName is the environment variable by which a test finds every process of its node's workers. The pack sets it for the pools.
// The node does not know it.
const markName = "CHAOS_MARK"

// node is the real binary with a data folder of its own. A test may kill it and start it again.
type node struct {
	t       *testing.T
	name    string        // the node's name in a fleet
	host    *netns.Host   // the network host it runs on; nil: this machine's own network
	token   string        // for its API; empty: the API needs none
	look    time.Duration // the pause between two checks of a condition; 0: 10 ms
	troupe  string        // the binary
	gowork  string        // the Go worker
	dir     string
	effects string // the side-effect log
	mark    string
	env     []string
	log     *os.File

	command *exec.Cmd
	waited  chan struct{}
	client  atomic.Pointer[client.Client]
	boots   int
	// turns, if there are any, are settings of which each boot has the next one.
	turns []string
}

// newNode prepares a node that serves the named pack of testdata.
func newNode(t *testing.T, pack string, env ...string) *node {
	t.Helper()
	paths, err := built()
	require.NoError(t, err)
	return newNodeOf(t, paths.troupe, pack, filepath.Join(t.TempDir(), "effects.log"), env...)
}

// newNodeOf prepares a node of the given binary. Several nodes may share a side-effect log.
func newNodeOf(t *testing.T, troupe, pack, effects string, env ...string) *node {
	t.Helper()
	paths, err := built()
	require.NoError(t, err)
	dir := t.TempDir()
	n := &node{
		t: t, troupe: troupe, gowork: paths.gowork, dir: dir, effects: effects,
		mark: fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano()),
	}
	n.env = append(n.env, "TROUPE_DATA="+filepath.Join(dir, "data"), "TROUPE_PACKS="+filepath.Join(dir, "pack"),
		"TROUPE_LISTEN=127.0.0.1:0", "TROUPE_LOG_FORMAT=json", "TROUPE_NODE_NAME=n", "TROUPE_POOL_PYTHON=1", "TROUPE_POOL_GO=16",
		"TROUPE_WORKER_CANCEL_GRACE=0.3", "TROUPE_WORKER_TERM_GRACE=0.3", "TROUPE_RETRY_BASE_BACKOFF_SECS=0.1",
		"TROUPE_EXECUTOR_HEALTH_CHECK_INTERVAL=1", "TROUPE_HEALTH_PROBE_TIMEOUT=1", "TROUPE_HEALTH_PROBE_RETRY=0.3", "TROUPE_POOL_RESTART_INTENSITY=10000")
	n.env = append(n.env, env...)
	n.copyPack(filepath.Join("testdata", pack), filepath.Join(dir, "pack"))
	made, err := os.OpenFile(n.effects, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	require.NoError(t, err)
	require.NoError(t, made.Close())
	log, err := os.Create(filepath.Join(dir, "node.log"))
	require.NoError(t, err)
	n.log = log
	t.Cleanup(n.end)
	return n
}

// allEvents makes the store keep an event for every step, and not only for the unusual ones. The store then also writes outcomes
// by another statement.
const allEvents = "TROUPE_STORE_EVENTS=all"

func (n *node) keepsAllEvents() bool { return slices.Contains(n.env, allEvents) }

// copyPack copies a pack, fills in this node's paths and mark, and adds the Go worker.
func (n *node) copyPack(from, to string) {
	n.t.Helper()
	replace := strings.NewReplacer("@LOG@", n.effects, "@MARK@", n.mark)
	require.NoError(n.t, os.CopyFS(to, os.DirFS(from)))
	path := filepath.Join(to, "pack.yaml")
	text, err := os.ReadFile(path)
	require.NoError(n.t, err)
	require.NoError(n.t, os.WriteFile(path, []byte(replace.Replace(string(text))), 0o644))
	require.NoError(n.t, os.MkdirAll(filepath.Join(to, "bin"), 0o755))
	require.NoError(n.t, os.Link(n.gowork, filepath.Join(to, "bin", "gowork")))
}

// start starts the binary and returns when it listens. Its workers may not be ready then.
func (n *node) start() {
	n.t.Helper()
	require.NoError(n.t, n.tryStart())
}

func (n *node) tryStart() error {
	offset, err := n.launch()
	if err != nil {
		return err
	}
	address, err := n.address(offset)
	if err != nil {
		return err
	}
	c, err := client.New(address, n.token)
	if err != nil {
		return err
	}
	if old := n.client.Swap(c); old != nil {
		old.Close()
	}
	return nil
}

// launch starts the binary and does not wait. It returns the offset in the log at which this boot's lines begin.
func (n *node) launch() (int64, error) {
	offset, err := n.log.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	command := exec.Command(n.troupe, "node")
	command.Env = append(os.Environ(), n.env...)
	if len(n.turns) > 0 {
		command.Env = append(command.Env, n.turns[n.boots%len(n.turns)])
	}
	command.Stderr, command.Stdout = n.log, n.log
	begin := command.Start
	if n.host != nil {
		begin = func() error { return n.host.Start(command) }
	}
	if err := begin(); err != nil {
		return 0, err
	}
	waited := make(chan struct{})
	go func() { defer close(waited); _ = command.Wait() }() // the exit status does not matter: the test may have killed it
	n.command, n.waited = command, waited
	n.boots++
	return offset, nil
}

// address reads the node's address from its log.
func (n *node) address(offset int64) (string, error) {
	end := time.Now().Add(bootTime)
	for time.Now().Before(end) {
		text, err := os.ReadFile(n.log.Name())
		if err != nil {
			return "", err
		}
		for line := range bytes.Lines(text[offset:]) {
			var entry struct {
				Message string `json:"@message"`
				Listen  string `json:"listen"`
			}
			if json.Unmarshal(line, &entry) == nil && entry.Message == "node started" {
				return entry.Listen, nil
			}
		}
		select {
		case <-n.waited:
			return "", fmt.Errorf("the node ended at its start:\n%s", tail(text, 20))
		case <-time.After(5 * time.Millisecond):
		}
	}
	return "", fmt.Errorf("the node did not start within %s:\n%s", bootTime, n.tail())
}

func tail(text []byte, lines int) string {
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func (n *node) tail() string {
	text, err := os.ReadFile(n.log.Name())
	if err != nil {
		return err.Error()
	}
	return tail(text, 60)
}

// warnings are the last lines of the node's log above the level info, and the first lines that are not log lines, for example of
// a panic. They are few, because the cause is usually in the test's own output.
func (n *node) warnings() string {
	text, err := os.ReadFile(n.log.Name())
	if err != nil {
		return err.Error()
	}
	var logged, other []string
	for line := range strings.Lines(string(text)) {
		switch {
		case !strings.HasPrefix(line, "{"):
			other = append(other, line)
		case !strings.Contains(line, `"@level":"info"`):
			logged = append(logged, line)
		}
	}
	return strings.Join(slices.Concat(logged[max(0, len(logged)-12):], other[:min(20, len(other))]), "")
}

// ready waits until the node says that it is ready.
func (n *node) ready() {
	n.t.Helper()
	n.eventually(bootTime, "the node is ready", func(ctx context.Context) bool {
		var r api.Readiness
		return n.client.Load().Get(ctx, "/readyz", &r) == nil && r.Ready
	})
}

// kill ends the node by SIGKILL, as a power failure would.
func (n *node) kill() {
	if n.command == nil {
		return
	}
	_ = n.command.Process.Kill() // fails if it has ended
	<-n.waited
	n.command = nil
}

// stop stops the node by SIGTERM and waits for its end.
func (n *node) stop() {
	n.t.Helper()
	n.signal(syscall.SIGTERM)
	n.exited()
}

// exited waits for the node's orderly end.
func (n *node) exited() {
	n.t.Helper()
	select {
	case <-n.waited:
		require.Zero(n.t, n.command.ProcessState.ExitCode(), "the node's exit code")
		n.command = nil
	case <-time.After(stopTime):
		require.FailNow(n.t, "the node did not stop within "+stopTime.String())
	}
}

// end kills the node after its test. If the test failed, it shows the node's warnings.
func (n *node) end() {
	n.kill()
	if c := n.client.Load(); c != nil {
		c.Close()
	}
	_ = n.log.Close()
	if n.t.Failed() {
		n.t.Logf("what the node %s warned of last\n%s", n.name, n.warnings())
	}
}

// eventually waits for a condition, for at most limit.
func (n *node) eventually(limit time.Duration, what string, holds func(context.Context) bool) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), limit)
	defer cancel()
	for !holds(ctx) {
		select {
		case <-ctx.Done():
			require.FailNowf(n.t, "condition not met", "not within %s: %s", limit, what)
		case <-time.After(max(n.look, 10*time.Millisecond)):
		}
	}
}

func (n *node) get(path string, v any) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(n.t, n.client.Load().Get(ctx, path, v))
}

func (n *node) post(path string, body, v any) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), 90*time.Second)
	defer cancel()
	require.NoError(n.t, n.client.Load().Post(ctx, path, body, v))
}
