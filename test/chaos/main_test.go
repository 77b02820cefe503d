package chaos_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// seedFlag picks the history: kill moments and workload follow from it.
var seedFlag = flag.Uint64("seed", 1, "seed of the workload and of the moments of the kills")

// whole says that the suites run at their full size.
var whole = os.Getenv("TROUPE_CHAOS") == "whole"

// wholeOnly skips a suite at its full size where the reduced ones run.
func wholeOnly(t *testing.T) {
	t.Helper()
	if !whole {
		t.Skip("takes minutes at its full size: make chaos, or TROUPE_CHAOS=whole; the reduced suite runs always")
	}
}

// programs is where the programs are built that the suites drive.
var programs string

// built are those programs. They are built once, when the first suite needs them: a fuzz target needs none.
var built = sync.OnceValues(func() (paths struct{ troupe, gowork, gonode string }, err error) {
	paths.troupe, paths.gowork, paths.gonode = filepath.Join(programs, "troupe"), filepath.Join(programs, "gowork"), filepath.Join(programs, "gonode")
	for path, source := range map[string]string{
		paths.troupe: "../../cmd/troupe", paths.gowork: "./testdata/gowork", paths.gonode: "./testdata/gonode",
	} {
		if out, err := exec.Command("go", "build", "-o", path, source).CombinedOutput(); err != nil {
			return paths, fmt.Errorf("build %s: %w\n%s", source, err, out)
		}
	}
	return paths, nil
})

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "troupe-chaos-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	programs = dir
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		return fail(err)
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "chaos:", err)
	return 1
}

// seed returns the run's seed, and prints it: with it the same history can be asked for again.
func seed(t *testing.T) uint64 {
	t.Helper()
	t.Logf("seed %d", *seedFlag)
	return *seedFlag
}
