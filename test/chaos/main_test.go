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

// seedFlag decides the workload and the times of the faults.
var seedFlag = flag.Uint64("seed", 1, "seed of the workload and of the moments of the kills")

// whole: the suites run at their full size.
var whole = os.Getenv("TROUPE_CHAOS") == "whole"

// wholeOnly skips a full-size suite unless full size is requested.
func wholeOnly(t *testing.T) {
	t.Helper()
	if !whole {
		t.Skip("takes minutes at its full size: make chaos, or TROUPE_CHAOS=whole; the reduced suite runs always")
	}
}

// programs is the folder of the programs that the suites build.
var programs string

// built builds those programs once, when the first suite needs them. A fuzz target needs none.
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

// seed returns the seed of the run and logs it, so that the run can be repeated.
func seed(t *testing.T) uint64 {
	t.Helper()
	t.Logf("seed %d", *seedFlag)
	return *seedFlag
}
