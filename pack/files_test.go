package pack_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// files maps paths to contents. A path in a folder named bin is made executable.
type files map[string]string

// write creates the files in a new folder and returns the folder.
func write(t testing.TB, contents files) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range contents {
		put(t, filepath.Join(dir, name), content)
	}
	return dir
}

func put(t testing.TB, path, content string) {
	t.Helper()
	mode := os.FileMode(0o644)
	if strings.Contains(path, "/bin/") {
		mode = 0o755
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), mode))
}

func link(t testing.TB, target, path string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.Symlink(target, path))
}
