package node_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// files are a pack's files by their paths.
type files map[string]string

// packOf writes a pack to a folder of its own. extra goes into pack.yaml.
func packOf(t *testing.T, name, extra string, f files) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	all := files{"pack.yaml": "name: " + name + "\nversion: 1.0.0\n" + strings.ReplaceAll(extra, "LAB_FOLDER", dir)}
	for path, text := range f {
		all[path] = text
	}
	writeFiles(t, dir, all)
	return dir
}

func writeFiles(t *testing.T, dir string, f files) {
	t.Helper()
	for path, text := range f {
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
	}
}

// goPack is pack t with go actions; the keys are names, the values more lines of the action's file.
func goPack(t *testing.T, actions map[string]string) string {
	t.Helper()
	f := files{}
	for name, more := range actions {
		f["actions/"+name+".yaml"] = "name: " + name + "\nruntime: go\nentrypoint: t." + name + "\n" + more
	}
	return packOf(t, "t", "", f)
}

// pythonPack is pack py with a pool of its own, so that its functions of lab.py find their folder. pool holds more
// lines of the pool.
func pythonPack(t *testing.T, pool string, actions map[string]string) string {
	t.Helper()
	source, err := os.ReadFile("testdata/lab.py")
	require.NoError(t, err)
	f := files{"lab.py": string(source)}
	for name, more := range actions {
		f["actions/"+name+".yaml"] = "name: " + name + "\nruntime: python\npool: lab\nentrypoint: lab.py:" + name + "\n" + more
	}
	if !strings.Contains(pool, "workers:") {
		pool += "\n    workers: 1"
	}
	return packOf(t, "py", "pools:\n  - name: lab\n    runtime: python\n    env: {LAB: \"LAB_FOLDER\"}\n    "+
		strings.TrimLeft(pool, "\n ")+"\n", f)
}

// shellPack is pack sh with shell actions: their scripts by name.
func shellPack(t *testing.T, scripts map[string]string, more string) string {
	t.Helper()
	f := files{}
	for name, script := range scripts {
		f["run/"+name] = "#!/bin/sh\n" + script + "\n"
		f["actions/"+name+".yaml"] = "name: " + name + "\nruntime: shell\ncommand: [run/" + name + "]\n" + more
	}
	return packOf(t, "sh", "", f)
}
