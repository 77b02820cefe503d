package assets

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestWriteReplacesOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := fstest.MapFS{"a/one": {Data: []byte("1")}, "two": {Data: []byte("2")}}
	require.NoError(t, Write(files, dir))
	one, two := filepath.Join(dir, "a", "one"), filepath.Join(dir, "two")
	kept, err := os.Stat(one)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), kept.Mode().Perm())

	files["two"] = &fstest.MapFile{Data: []byte("two")}
	require.NoError(t, Write(files, dir))
	after, err := os.Stat(one)
	require.NoError(t, err)
	require.True(t, os.SameFile(kept, after), "an unchanged file must not be written again")
	content, err := os.ReadFile(two)
	require.NoError(t, err)
	require.Equal(t, "two", string(content))
	left, err := filepath.Glob(filepath.Join(dir, ".new-*"))
	require.NoError(t, err)
	require.Empty(t, left, "no temporary file may stay")
}

func TestWriteNamesWhatItCannotWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), nil, 0o644))
	err := Write(fstest.MapFS{"a/one": {Data: []byte("1")}}, dir)
	require.ErrorContains(t, err, "write "+filepath.Join(dir, "a", "one"))
}
