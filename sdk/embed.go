// Package sdk carries the Python and Node SDKs inside the binary and writes them where the interpreters can load
// them. It owns those files and their place under a data directory, and never starts a process; the node calls
// Materialize at its start and gives the paths to the workers it starts. The Go SDK is the package sdk/go.
package sdk

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
	return fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := files.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read the embedded %s: %w", name, err)
		}
		return replace(filepath.Join(dir, "sdk", filepath.FromSlash(name)), content)
	})
}

// replace makes the file's content equal to content, through a temporary file beside it.
func replace(path string, content []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write the SDK: %w", err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fmt.Errorf("write the SDK: %w", err)
	}
	defer os.Remove(file.Name()) // fails once the file has its own name
	_, err = file.Write(content)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Chmod(file.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write the SDK file %s: %w", path, err)
	}
	return nil
}
