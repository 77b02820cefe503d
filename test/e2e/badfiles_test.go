package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// refused starts a node that must not start, and returns its error message.
func refused(t *testing.T, o options) string {
	t.Helper()
	n, err := begin(t.TempDir(), o)
	require.NoError(t, err)
	t.Cleanup(n.kill)
	require.EqualError(t, n.ended(), "exit status 1", n.log.String())
	return n.log.String()
}

// write writes a file below dir.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// pack writes a pack and returns its folder. files are pairs of name and text.
func pack(t *testing.T, files ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "stage")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for i := 0; i < len(files); i += 2 {
		write(t, dir, files[i], files[i+1])
	}
	return dir
}

const packYAML = "name: stage\nversion: 1.0.0\n"

// TestBadPacks starts a node on packs with many errors. The node names each error with its file and line.
func TestBadPacks(t *testing.T) {
	t.Parallel()
	dir := pack(t,
		"pack.yaml", packYAML+"bogus: 1\n",
		"actions/missing.yaml", "name: missing\nruntime: python\nentrypoint: actions/nope.py:run\n",
		"actions/malformed.yaml", "name: malformed\nruntime: shell\ncommand: [sh\n",
		"actions/markup.yaml", "name: \"<script>\"\nruntime: shell\ncommand: [sh]\n",
		"actions/nul.yaml", "name: \"n\\0l\"\nruntime: shell\ncommand: [\"a\\0b\"]\n",
		"actions/up.yaml", "name: up\nruntime: python\nentrypoint: ../../etc/passwd.py:run\n",
		"actions/upname.yaml", "name: ../up\nruntime: shell\ncommand: [sh]\n",
		"actions/unknown.yaml", "name: unknown\nruntime: shell\ncommand: [sh]\nretires: 3\n",
		"actions/schema.yaml", "name: schema\nruntime: shell\ncommand: [sh]\nparameters: {type: object, properties: {a: {type: objekt}}}\n",
		"actions/handler.yaml", "name: handler\nruntime: go\nentrypoint: stage.nobody\n",
		"actions/negative.yaml", "name: negative\nruntime: shell\ncommand: [sh]\ntimeout_seconds: -3\n",
		"actions/pool.yaml", "name: pool\nruntime: python\nentrypoint: actions/a.py\npool: nowhere\n",
		"actions/a.py", "def run(params): return 1\n",
	)
	text := refused(t, options{packs: []string{dir}})
	for _, want := range []string{
		"unknown key bogus: the keys are name, version", "stage/pack.yaml:3)",
		`action missing: entrypoint "actions/nope.py:run": the file does not exist`, "actions/missing.yaml:3)",
		"action malformed: not valid YAML", "actions/malformed.yaml:3)",
		`name must be of lower-case letters, digits and _, got "<script>"`,
		"name holds the control character U+0000", "command[0] holds the control character U+0000",
		"the path must not contain ..", `got "../up"`,
		"unknown key retires", "actions/unknown.yaml:4)",
		"action schema: parameters", "actions/schema.yaml:4)",
		"action handler:", "stage.nobody",
		"action negative: timeout_seconds must be", "actions/negative.yaml:4)",
		"the pack declares no pool nowhere: add it to pools in pack.yaml",
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "\x00")
}

func TestBadPackFolders(t *testing.T) {
	t.Parallel()
	require.Contains(t, refused(t, options{packs: []string{"/nowhere/at/all"}}), "/nowhere/at/all: there is no such folder")
	empty := pack(t)
	require.Contains(t, refused(t, options{packs: []string{empty}}), "pack.yaml")
	out := pack(t, "pack.yaml", packYAML, "actions/out.yaml", "name: out\nruntime: python\nentrypoint: actions/out.py\n")
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(out, "actions", "out.py")))
	require.Contains(t, refused(t, options{packs: []string{out}}), `entrypoint "actions/out.py"`)
}

// TestBadConfiguration starts a node with every kind of wrong configuration.
func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config string
		flags  []string
		want   []string
	}{
		{config: "listen: [\n", want: []string{"troupe.yaml", "line 1"}},
		{config: "bogus: 1\nworker:\n  beats: 3\n", want: []string{"troupe.yaml:1: unknown key bogus", "troupe.yaml:3: unknown key worker.beats"}},
		{config: "worker: {init_timeout: soon}\n", want: []string{`worker.init_timeout: "soon" is not valid: want a number of seconds, or a duration`, "troupe.yaml:1"}},
		{config: "executor: {scheduled_timeout: 300}\n", want: []string{"scheduled_timeout", "at least 10"}},
		{config: "shutdown: {platform_grace: 20}\n", want: []string{"platform_grace", "shutdown_timeout"}},
		{config: "tokens: [{name: a, scopes: [everything], token: x}]\n", want: []string{"everything", "read, submit"}},
		{flags: []string{"--config", "/nowhere.yaml"}, want: []string{"/nowhere.yaml: no such file or directory; give --config a file"}},
		{flags: []string{"--listen", "everywhere"}, want: []string{"must be host:port, as in 127.0.0.1:7070, is everywhere (flag --listen)"}},
		{flags: []string{"--listen", "0.0.0.0:0"}, want: []string{"other machines could call this node; configure tokens"}},
		{flags: []string{"--name", "a/../b"}, want: []string{"name"}},
	} {
		text := refused(t, options{config: c.config, flags: c.flags})
		require.NotContains(t, text, "(default)", "what nobody set is not complained about")
		for _, want := range c.want {
			require.Contains(t, text, want)
		}
	}
}

// TestPortInUse starts a node on a port that is in use. The error names the port and says what to do, and the node has changed
// nothing.
func TestPortInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	data := filepath.Join(t.TempDir(), "data")
	text := refused(t, options{data: data, flags: []string{"--listen", taken.Addr().String()}})
	require.Contains(t, text, fmt.Sprintf("listen on %s:", taken.Addr()))
	require.Contains(t, text, "address already in use; is another node running there? Choose another address with --listen")
	require.NoDirExists(t, data)
}

// TestBadDataFolders starts a node on folders and files that cannot hold its store.
func TestBadDataFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "file", "not a folder")
	require.Contains(t, refused(t, options{data: filepath.Join(dir, "file")}), "not a directory; choose another with --data")

	require.NoError(t, os.MkdirAll(filepath.Join(dir, "folder", "troupe.db"), 0o755))
	require.Contains(t, refused(t, options{data: filepath.Join(dir, "folder")}), "troupe.db: is a directory")

	prose := strings.Repeat("this is prose and no database. ", 100)
	write(t, dir, "prose/troupe.db", prose)
	folder := filepath.Join(dir, "prose")
	require.Contains(t, refused(t, options{data: folder}), "data folder "+folder+": other users may read troupe.db (mode 0644): run `chmod -R go-rwx "+folder+"`")
	require.NoError(t, os.Chmod(filepath.Join(folder, "troupe.db"), 0o640))
	text := refused(t, options{data: folder})
	require.Contains(t, text, "data folder was open to its group: taken from it")
	require.Contains(t, text, "not a troupe store: move the file away or give another --data folder")
	kept, err := os.ReadFile(filepath.Join(folder, "troupe.db"))
	require.NoError(t, err)
	require.Equal(t, prose, string(kept), "a foreign file is left as it was")
}
