package sqlite

import (
	"errors"
	"fmt"
	"strings"

	"github.com/troupe-run/troupe/filelock"
	"github.com/troupe-run/troupe/store"
)

// lockFile takes the store's lock, by which this process alone uses the store.
func lockFile(path string) (*filelock.Lock, error) {
	l, err := filelock.Take(path)
	var held *filelock.HeldError
	switch {
	case errors.As(err, &held):
		return nil, fmt.Errorf("open %s: %w (process %s holds its lock): stop that node, or give this one another --data folder",
			strings.TrimSuffix(path, ".lock"), store.ErrLocked, held.Holder)
	case err != nil:
		return nil, mapFileError(path, err)
	}
	return l, nil
}
