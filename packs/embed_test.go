package packs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/troupe-run/troupe/packs/corego"
)

func TestMaterializeWritesTwiceTheSame(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, Materialize(dir))
	path := filepath.Join(Path(dir, "core"), "actions", "echo.yaml")
	before, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, Materialize(dir))
	after, err := os.Stat(path)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after), "an unchanged file must not be written again")
}

func TestMaterializeRepairsAndPrunes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, Materialize(dir))
	actions := filepath.Join(Path(dir, "core"), "actions")
	require.NoError(t, os.WriteFile(filepath.Join(actions, "echo.yaml"), []byte("broken"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(actions, "old.yaml"), []byte("name: old"), 0o644))
	require.NoError(t, Materialize(dir))

	got, err := os.ReadFile(filepath.Join(actions, "echo.yaml"))
	require.NoError(t, err)
	want, err := files.ReadFile("core/actions/echo.yaml")
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
	require.NoFileExists(t, filepath.Join(actions, "old.yaml"))
}

func TestMaterializeNamesWhatItCannotWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "packs"), nil, 0o644))
	require.ErrorContains(t, Materialize(dir), filepath.Join(dir, "packs"))
}

// action has the keys that an action's file may have.
type action struct {
	Name        string         `yaml:"name"`
	Description string         `yaml:"description"`
	Runtime     string         `yaml:"runtime"`
	Entrypoint  string         `yaml:"entrypoint"`
	Command     []string       `yaml:"command"`
	Timeout     int            `yaml:"timeout_seconds"`
	Idempotent  bool           `yaml:"idempotent"`
	Affinity    string         `yaml:"affinity"`
	Parameters  map[string]any `yaml:"parameters"`
}

func TestEveryActionHasItsCode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, Materialize(dir))
	handlers := corego.Handlers()
	for _, pack := range Names() {
		found, err := filepath.Glob(filepath.Join(Path(dir, pack), "actions", "*.yaml"))
		require.NoError(t, err)
		require.NotEmpty(t, found)
		for _, path := range found {
			a := read(t, path)
			require.Equal(t, a.Name+".yaml", filepath.Base(path))
			require.NotEmpty(t, a.Description, path)
			switch a.Runtime {
			case "go":
				require.Contains(t, handlers, a.Entrypoint, path)
			case "python":
				require.Equal(t, "demo", pack, "the core pack must work without python3")
				file, function, _ := strings.Cut(a.Entrypoint, ":")
				code, err := os.ReadFile(filepath.Join(Path(dir, pack), file))
				require.NoError(t, err)
				require.Contains(t, string(code), "def "+function+"(", path)
			default:
				require.Equal(t, "shell", a.Runtime, path)
				require.NotEmpty(t, a.Command, path)
			}
		}
	}
}

func read(t *testing.T, path string) action {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	decoder := yaml.NewDecoder(file)
	decoder.KnownFields(true)
	var a action
	require.NoError(t, decoder.Decode(&a), path)
	return a
}
