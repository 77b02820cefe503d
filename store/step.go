package store

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Generation is what this program knows of steps that take something away from the schema. A step that does raises it by one, and the oldest
// generation that the store lets in; a step that only adds leaves both.
const Generation = 1

// Step is one step that only adds to the schema.
type Step struct {
	Name string // 0030_queue_depth: they are made in the order of their names
	SQL  string
}

// StepsIn reads the steps in a folder, in their order.
func StepsIn(files fs.FS, folder string) ([]Step, error) {
	entries, err := fs.ReadDir(files, folder)
	if err != nil {
		return nil, err
	}
	var steps []Step
	for _, e := range entries {
		text, err := fs.ReadFile(files, folder+"/"+e.Name())
		if err != nil {
			return nil, err
		}
		steps = append(steps, Step{strings.TrimSuffix(e.Name(), ".sql"), string(text)})
	}
	slices.SortFunc(steps, func(a, b Step) int { return cmp.Compare(a.Name, b.Name) })
	return steps, nil
}

// MissingSteps are those of a program that a store has not made, in their order. A store may have others, which only add to the schema; and a
// step may be missing in front of one that was made, where two programs of different branches were used.
func MissingSteps(known []Step, made []string) []Step {
	return slices.DeleteFunc(slices.Clone(known), func(s Step) bool { return slices.Contains(made, s.Name) })
}

// Oldest is the oldest program that may use a store.
type Oldest struct {
	Generation int
	Release    string // its first one
}

// Check refuses a store for which this program is too old: its error wraps ErrNewer.
func (o Oldest) Check(where string) error {
	if o.Generation <= Generation {
		return nil
	}
	return fmt.Errorf("open %s: %w: it needs troupe %s or newer (generation %d, this is %d); run that, or restore a backup",
		where, ErrNewer, cmp.Or(o.Release, "of a later release"), o.Generation, Generation)
}
