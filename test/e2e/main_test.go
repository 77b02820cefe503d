package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// binary is the troupe under test. scratch is a folder for this test process.
var (
	binary  string
	scratch string
	// searchPath begins with the folder of the real Python: a version manager's wrapper would start a shell for each worker.
	searchPath = os.Getenv("PATH")
)

func TestMain(m *testing.M) {
	flag.Parse()
	// These tests mostly wait, so more of them run at the same time than there are cores.
	if err := flag.Set("test.parallel", "6"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "troupe-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	scratch, binary = dir, os.Getenv("TROUPE_E2E_BINARY")
	if binary == "" {
		binary = filepath.Join(dir, "troupe")
		if out, err := exec.Command("go", "build", "-o", binary, "../../cmd/troupe").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build troupe: %v\n%s", err, out)
			return 1
		}
	}
	if out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output(); err == nil {
		searchPath = filepath.Dir(strings.TrimSpace(string(out))) + ":" + searchPath
	}
	code := m.Run()
	return max(code, endShared())
}

// theatre is the node that tests share. It ends after the last test.
var theatre struct {
	once sync.Once
	node *node
	err  error
}

// sharedConfig makes failures quick: short graces, frequent heartbeats, small back-offs. The heartbeats become stale late,
// because a busy machine may delay them.
const sharedConfig = `
worker: {cancel_grace: 0.2, term_grace: 0.2, heartbeat_interval: 1, heartbeat_staleness_multiplier: 20}
pool: {restart_intensity: 50, backoff_base: 0.05, backoff_max: 0.5}
health: {echo_interval: 1}
`

// shared returns the node that tests share, with the packs theatre and embeddings. A test may use its pools. It may not stop or
// reload the node, or cordon what another test needs.
func shared(t *testing.T) *node {
	t.Helper()
	theatre.once.Do(func() {
		theatre.node, theatre.err = launch(filepath.Join(scratch, "shared"), options{
			config: sharedConfig, packs: []string{"testdata/theatre", "../../packs/examples/embeddings"},
		})
	})
	if theatre.err != nil {
		t.Fatalf("start the shared node: %v", theatre.err)
	}
	return theatre.node
}

// endShared stops the shared node in order. It must not have panicked.
func endShared() int {
	n := theatre.node
	if n == nil {
		return 0
	}
	if err := n.stop(); err != nil {
		fmt.Fprintf(os.Stderr, "the shared node did not end in order: %v\n%s\n", err, n.log.tail(40))
		return 1
	}
	for _, line := range n.log.lines() {
		if line.Level == "error" && strings.Contains(line.text, "panic") {
			fmt.Fprintf(os.Stderr, "the shared node panicked: %s\n", line.text)
			return 1
		}
	}
	return 0
}
