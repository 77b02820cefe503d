// Package assets writes files that are embedded in the binary to folders, for code that can only load files: the interpreters of the SDKs and
// the loader of packs. It does not know what the files mean. Packages sdk and packs call it.
package assets

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Write writes every file of files under dir. A file that is there with the same content is left alone; a changed one
// is replaced in one step, so whoever loads it meanwhile gets either the old file or the new.
func Write(files fs.FS, dir string) error {
	return fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return fmt.Errorf("read the embedded %s: %w", name, err)
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := replace(path, content); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		return nil
	})
}

// replace makes the file's content equal to content, through a temporary file beside it.
func replace(path string, content []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, content) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
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
	return err
}
