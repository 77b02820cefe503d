package embedded_test

import (
	"context"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/embedded"
)

// A program with the umask 002, which some systems have as default, makes its data folder with mode 0775. A node starts
// in that folder.
func TestANodeInAProgramStartsInAFolderOfAWideUmask(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, os.Chmod(folder, 0o775))
	n, err := embedded.New(embedded.Config{Data: folder}, troupe.Action{Name: "demo.greet", Handler: greet})
	require.NoError(t, err)
	require.NoError(t, n.Start(t.Context()))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, n.Stop(ctx))
	info, err := os.Stat(folder)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o755), info.Mode().Perm())
}
