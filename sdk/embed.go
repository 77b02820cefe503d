// Package sdk carries the Python and Node SDKs inside the binary, and writes them to files for the interpreters. It owns those files and
// their place under a data directory. It never starts a process. The node calls Materialize at its start, and gives the
// paths to the workers that it starts. The Go SDK is package sdk/go.
package sdk

import (
	"embed"
	"fmt"
	"path/filepath"

	"github.com/troupe-run/troupe/assets"
)

//go:embed python/troupe_worker/*.py node/*.mjs
var files embed.FS

// PythonPath is the PYTHONPATH of python workers for the data directory dir.
func PythonPath(dir string) string { return filepath.Join(dir, "sdk", "python") }

// NodeMain is the program that node workers run for the data directory dir: node NodeMain(dir).
func NodeMain(dir string) string { return filepath.Join(dir, "sdk", "node", "main.mjs") }

// Materialize writes the SDKs under dir. A file that is there with the same content is left alone; a changed one is
// replaced in one step, so a worker that starts meanwhile loads either the old file or the new.
func Materialize(dir string) error {
	if err := assets.Write(files, filepath.Join(dir, "sdk")); err != nil {
		return fmt.Errorf("write the SDKs: %w", err)
	}
	return nil
}
