package process

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-run/troupe/messages"
)

// patience bounds every wait of a test; no test passes because of it.
const patience = 20 * time.Second

// roleVar makes the test binary run as something other than the tests.
const roleVar = "TROUPE_TEST_ROLE"

func TestMain(m *testing.M) {
	RunHelper()
	switch os.Getenv(roleVar) {
	case "":
		goleak.VerifyTestMain(m)
	case "node":
		playNode()
	case "hungry":
		playHungry()
	case "eater":
		playEater()
	case "starved":
		playStarved()
	}
}

// playNode runs a whole node: a guardian and the programs in its arguments. It runs until it is killed.
func playNode() {
	lease, err := time.ParseDuration(os.Getenv("LEASE"))
	if err != nil {
		panic(err)
	}
	g, err := NewGuardian(Config{Ledger: os.Getenv("LEDGER"), Lease: lease, WithoutGroups: os.Getenv("GROUPS") == "none"})
	if err != nil {
		panic(err)
	}
	go func() { // from the beginning: on a slow machine the programs may take longer to start than a lease
		for range time.Tick(100 * time.Millisecond) {
			g.Renew(time.Now())
		}
	}()
	signal.Ignore(syscall.SIGTERM)
	dir := os.Getenv("PIDS")
	for _, script := range os.Args[1:] {
		_, err := g.Start(context.Background(), Spec{Argv: []string{"sh", "-c", script}, Dir: dir, Env: environment()}, func(Event) {})
		if err != nil {
			panic(err)
		}
	}
	fmt.Println("guardian", g.Pid())
	select {}
}

// playEater allocates and touches memory in steps of 8 MiB, up to a bound that the machine can bear.
func playEater() {
	var held [][]byte
	for range 32 {
		block := make([]byte, 8<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		held = append(held, block)
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(time.Hour)
	fmt.Println(len(held))
}

func environment(extra ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH")}, extra...)
}

// recorder is a sink that a test can wait on.
type recorder chan Event

func newRecorder() recorder { return make(recorder, 4096) }

func (r recorder) sink(e Event) { r <- e }

// next waits for the next event of a kind and drops the others.
func next[E Event](t testing.TB, r recorder) E {
	t.Helper()
	for deadline := time.After(patience); ; {
		select {
		case e := <-r:
			if want, ok := e.(E); ok {
				return want
			}
			if end, over := e.(Exited); over {
				require.Failf(t, "program ended", "%+v", end)
			}
		case <-deadline:
			require.FailNow(t, "no event came")
		}
	}
}

// exit waits for the end and returns it with all events before it.
func (r recorder) exit(t testing.TB) (Exit, []Event) {
	t.Helper()
	var before []Event
	for deadline := time.After(patience); ; {
		select {
		case e := <-r:
			if end, over := e.(Exited); over {
				return end.Exit, before
			}
			before = append(before, e)
		case <-deadline:
			require.FailNow(t, "the program did not end")
		}
	}
}

func newGuardian(t testing.TB, cfg Config) *Guardian {
	t.Helper()
	g, err := NewGuardian(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return g
}

// run starts a program on a guardian.
func run(t testing.TB, g *Guardian, spec Spec) (Process, recorder) {
	t.Helper()
	if spec.Env == nil {
		spec.Env = environment()
	}
	r := newRecorder()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p, err := g.Start(ctx, spec, r.sink)
	require.NoError(t, err)
	return p, r
}

func shell(script string) []string { return []string{"sh", "-c", script} }

// pidIn waits until a script has written a pid into a file, and returns the process.
func pidIn(t testing.TB, path string) procID {
	t.Helper()
	var id procID
	require.Eventually(t, func() bool {
		raw, err := os.ReadFile(path)
		if err != nil || !strings.HasSuffix(string(raw), "\n") {
			return false
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
		if err != nil {
			return false
		}
		var ok bool
		id, ok = identify(pid)
		return ok
	}, patience, time.Millisecond, "no living process in %s", filepath.Base(path))
	return id
}

func gone(t testing.TB, within time.Duration, ids ...procID) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, id := range ids {
			if id.alive() {
				return false
			}
		}
		return true
	}, within, time.Millisecond, "still alive: %v", ids)
}

func incarnation(t testing.TB) messages.Incarnation {
	t.Helper()
	return messages.NewIncarnation()
}
