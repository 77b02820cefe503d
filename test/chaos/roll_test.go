package chaos_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// before is the commit of the release before: what it can start beside is what a roll needs. When a release is made, its commit
// takes this place.
const before = "40c15ae82e2d0b89c353a83e2b146247c8eb8238"

// errShallow says that there is nothing to build the release before from.
var errShallow = errors.New("this checkout does not have the commit of the release before (" + before +
	"), so the roll from it is not tested. In a shallow clone, `git fetch --unshallow` brings it")

// oldTroupe builds the release before, once, when the first test needs it.
var oldTroupe = sync.OnceValues(func() (string, error) {
	root := "../.."
	if exec.Command("git", "-C", root, "cat-file", "-e", before+"^{commit}").Run() != nil {
		return "", errShallow
	}
	source, path := filepath.Join(programs, "before"), filepath.Join(programs, "troupe-before")
	if err := os.MkdirAll(source, 0o755); err != nil {
		return "", err
	}
	for _, line := range [][]string{
		{"git", "-C", root, "archive", "--output=" + source + ".tar", before},
		{"tar", "-xf", source + ".tar", "-C", source},
		{"go", "-C", source, "build", "-buildvcs=false", "-o", path, "./cmd/troupe"},
	} {
		if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("build the release before: %v: %w\n%s", line, err, out)
		}
	}
	return path, nil
})

// theReleaseBefore is its binary. Without it nothing is tested: that is said, and where nothing may be skipped it fails.
func theReleaseBefore(t *testing.T) string {
	t.Helper()
	path, err := oldTroupe()
	if errors.Is(err, errShallow) && os.Getenv("TROUPE_TEST_UNSKIPPED") == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
	return path
}

// TestRollUpAndBack replaces three nodes of the release before one by one, under load, by this one's, and then back. Both run
// beside each other, on one store with the steps of this one. Nothing is lost or doubled, and no session loses its state.
func TestRollUpAndBack(t *testing.T) {
	t.Parallel()
	rollUpAndBack(t, storm{executions: 400, injections: 6, sessions: 16, callers: 24, gentle: true})
}

func TestDirectRollUpAndBack(t *testing.T) {
	t.Parallel()
	rollUpAndBack(t, storm{executions: 400, injections: 6, sessions: 16, callers: 24, gentle: true, direct: true})
}

func TestWholeRollUpAndBack(t *testing.T) {
	wholeOnly(t)
	rollUpAndBack(t, storm{executions: 12_000, injections: 60, sessions: 64, callers: 32, gentle: true})
}

// rollUpAndBack rolls the nodes up and back as often as there are injections.
func rollUpAndBack(t *testing.T, s storm) {
	old := theReleaseBefore(t)
	paths, err := built()
	require.NoError(t, err)
	rolling(t, s, old, func(i int) string {
		if i/3%2 == 0 {
			return paths.troupe
		}
		return old
	})
}

// TestAFileIsOpenedByBothReleases replaces a node with a file of the release before by this one's, under load, and back, in turn.
func TestAFileIsOpenedByBothReleases(t *testing.T) {
	t.Parallel()
	old := theReleaseBefore(t)
	paths, err := built()
	require.NoError(t, err)
	underLoad(t, storm{executions: 600, injections: 3, sessions: 16, callers: 24, gentle: true, first: old, inject: func(n *node, _ *rand.Rand) {
		n.stop()
		n.troupe = map[string]string{old: paths.troupe, paths.troupe: old}[n.troupe]
		n.start()
		n.ready()
	}})
}
