// Package packs has the built-in packs inside the binary and writes them to folders, because actions are loaded only
// from folders. core (Go handlers and shell commands) works on every machine; demo needs python3. It does not read the
// packs' files. The node calls Materialize at its start and loads the folders.
package packs

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/troupe-run/troupe/assets"
	"github.com/troupe-run/troupe/messages"
)

//go:embed core demo
var files embed.FS

// Names returns the built-in packs; core first.
func Names() []string { return []string{"core", "demo"} }

// Needs returns the runtime whose interpreter a built-in pack requires; empty: it works on every machine.
func Needs(name string) messages.Runtime {
	if name == "demo" {
		return "python"
	}
	return ""
}

// Path returns the folder of the built-in pack name under the data directory dir.
func Path(dir, name string) string { return filepath.Join(dir, "packs", name) }

// Materialize writes the built-in packs under dir. It does not touch a file with the same content, so a running
// worker's files do not change. It replaces a changed file in one step. It removes files that only older versions had,
// because a pack is everything in its folder.
func Materialize(dir string) error {
	if err := assets.Write(files, filepath.Join(dir, "packs")); err != nil {
		return fmt.Errorf("write the built-in packs: %w", err)
	}
	for _, name := range Names() {
		if err := prune(dir, name); err != nil {
			return err
		}
	}
	return nil
}

// prune removes actions of the pack that this version does not have. It keeps compiled Python files.
func prune(dir, pack string) error {
	found, err := filepath.Glob(filepath.Join(Path(dir, pack), "actions", "*.yaml"))
	if err != nil {
		return fmt.Errorf("list the actions of pack %s: %w", pack, err)
	}
	for _, path := range found {
		if _, err := fs.Stat(files, pack+"/actions/"+filepath.Base(path)); err == nil {
			continue
		}
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove an action that pack %s has no more: %w", pack, err)
		}
	}
	return nil
}
