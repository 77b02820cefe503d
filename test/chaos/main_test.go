package chaos_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// seedFlag picks the history: kill moments and workload follow from it.
var seedFlag = flag.Uint64("seed", 1, "seed of the workload and of the moments of the kills")

// whole says that the suites run at their full size.
var whole = os.Getenv("TROUPE_CHAOS") == "whole"

// built holds the programs that the suites drive, built once.
var built struct{ troupe, gowork string }

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
	for _, program := range []struct {
		path  *string
		name  string
		build string
	}{{&built.troupe, "troupe", "../../cmd/troupe"}, {&built.gowork, "gowork", "./testdata/gowork"}} {
		*program.path = filepath.Join(dir, program.name)
		if out, err := exec.Command("go", "build", "-o", *program.path, program.build).CombinedOutput(); err != nil {
			return fail(fmt.Errorf("build %s: %w\n%s", program.build, err, out))
		}
	}
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
