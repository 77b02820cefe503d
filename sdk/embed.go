// Package sdk has the Python and Node SDKs inside the binary and writes them to files for the interpreters. It owns
// those files and their place under a data directory. It never starts a process. The node calls Materialize at its
// start, and passes the paths to the workers that it starts. The Go SDK is package sdk/go.
//
// Its tests take long: they run the suites in Python and Node.js, and each test starts interpreters.
package sdk

import (
	"embed"
	"fmt"
	"path/filepath"

	"github.com/troupe-run/troupe/assets"
)

//go:embed python/troupe_worker/*.py node/*.mjs
var files embed.FS

// PythonPath returns the PYTHONPATH of python workers for the data directory dir.
func PythonPath(dir string) string { return filepath.Join(dir, "sdk", "python") }

// NodeMain returns the program of node workers for the data directory dir: node NodeMain(dir).
func NodeMain(dir string) string { return filepath.Join(dir, "sdk", "node", "main.mjs") }

// Materialize writes the SDKs under dir. It does not touch a file with the same content. It replaces a changed file in
// one step, so that a worker which starts meanwhile loads either the old file or the new one.
func Materialize(dir string) error {
	if err := assets.Write(files, filepath.Join(dir, "sdk")); err != nil {
		return fmt.Errorf("write the SDKs: %w", err)
	}
	return nil
}
