// Package packs carries the built-in packs inside the binary and writes them as folders, since actions are loaded
// from folders alone. core (Go handlers and shell commands) works on every machine; demo needs python3. It knows
// nothing of what a pack's files mean; the node calls Materialize at its start and loads the paths it returns.
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

// Names lists the built-in packs; core first.
func Names() []string { return []string{"core", "demo"} }

// Needs is the runtime whose interpreter a built-in pack cannot do without; empty: it works on every machine.
func Needs(name string) messages.Runtime {
	if name == "demo" {
		return "python"
	}
	return ""
}

// Path is the folder of the built-in pack of that name under the data directory dir.
func Path(dir, name string) string { return filepath.Join(dir, "packs", name) }

// Materialize writes the built-in packs under dir. A file that is there with the same content is left alone, so a
// running worker's files do not change under it; a changed one is replaced in one step. Files of older versions
// that are no more are removed, because a pack is everything in its folder.
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

// prune removes the actions of the pack that this version does not have. Compiled Python files are left alone.
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
