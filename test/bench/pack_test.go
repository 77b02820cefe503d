package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
)

// withPack adds a pack with a Python echo to the node.
func withPack(b *testing.B, workers int) func(*node.Config) {
	b.Helper()
	root := writePack(b, "bench", map[string]string{
		"pack.yaml":         fmt.Sprintf("name: bench\nversion: 1.0.0\npools:\n  - name: echo\n    runtime: python\n    workers: %d\n", workers),
		"actions/echo.yaml": "name: echo\nruntime: python\npool: echo\nentrypoint: actions/echo.py:echo\nidempotent: true\n",
		"actions/echo.py":   "def echo(params, ctx):\n    return params\n",
	})
	return func(c *node.Config) {
		c.Packs = []string{root}
		c.Workers = map[messages.Runtime]int{}
	}
}

// writePack writes the files of a pack into a folder with the pack's name, and returns the folder.
func writePack(b *testing.B, name string, files map[string]string) string {
	b.Helper()
	root := filepath.Join(b.TempDir(), name)
	for file, text := range files {
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return root
}
