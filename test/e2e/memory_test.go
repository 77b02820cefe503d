package e2e

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/test/servers"
)

// TestHelpersAreSmall: the guardian and the watcher are the same program as the node, and have no more of it in memory than they need.
func TestHelpersAreSmall(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root may read the memory of a node's helpers")
	}
	n, err := launch(t.TempDir(), options{packs: []string{"testdata/theatre"}})
	require.NoError(t, err)
	t.Cleanup(n.kill)
	n.works(t)
	watcher, guardian := servers.HelpersOf(n.cmd.Process.Pid)
	require.NotZero(t, watcher)
	require.NotZero(t, guardian)
	for name, pid := range map[string]int{"watcher": watcher, "guardian": guardian} {
		m, err := servers.MemoryOf(pid)
		require.NoError(t, err)
		t.Logf("%s: %+v", name, m)
		require.NotZero(t, m.Own)
		require.Less(t, m.Own, int64(4<<20), "memory of the %s's own", name)
		// Beside its own memory these are pages of the program's file, which all its processes share. How many the kernel maps around one that
		// is needed depends on what it has in its cache.
		require.Less(t, m.Resident, int64(32<<20), "what is resident of the %s", name)
	}
}
