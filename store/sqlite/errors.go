package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/troupe-run/troupe/store"
)

// resultCode returns SQLite's primary result code, or 0.
func resultCode(err error) int {
	var own *codeError
	if errors.As(err, &own) {
		return int(own.code) & 0xff
	}
	var e *sqlite.Error // from the driver, which migrates
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// dataError reports whether the error comes from the data of one row. Other rows of the group may succeed.
func dataError(err error) bool {
	switch resultCode(err) {
	case lib.SQLITE_CONSTRAINT, lib.SQLITE_TOOBIG, lib.SQLITE_MISMATCH, lib.SQLITE_RANGE:
		return true
	}
	return false
}

// mapError maps SQLite's error to one of the port's, with the file and what to do.
func (s *Store) mapError(what string, err error) error {
	if err == nil {
		return nil
	}
	return mapError(what+" in "+s.cfg.Path, err)
}

func mapError(what string, err error) error {
	if known(err) {
		return err
	}
	switch resultCode(err) {
	case lib.SQLITE_READONLY, lib.SQLITE_PERM:
		return fmt.Errorf("%s: %w: make the file and its folder writable for this user (%w)", what, store.ErrReadOnly, err)
	case lib.SQLITE_FULL:
		return fmt.Errorf("%s: %w: free space on its disk; work goes on by itself then (%w)", what, store.ErrFull, err)
	case lib.SQLITE_NOTADB:
		return fmt.Errorf("%s: not a troupe store: move the file away or give another --data folder (%w)", what, err)
	case lib.SQLITE_CORRUPT:
		return fmt.Errorf("%s: the file is damaged: restore a backup (%w)", what, err)
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_IOERR, lib.SQLITE_CANTOPEN:
		return fmt.Errorf("%s: %w: %w", what, store.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// known reports whether the error is one of the port's.
func known(err error) bool {
	for _, e := range []error{store.ErrNotFound, store.ErrConflict, store.ErrLocked, store.ErrNewer, store.ErrReadOnly,
		store.ErrFull, store.ErrUnavailable, store.ErrClosed, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// mapFileError is mapError for errors of the file system.
func mapFileError(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("open %s: %w: make the file and its folder writable for this user (%w)", path, store.ErrReadOnly, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("open %s: %w: free space on its disk (%w)", path, store.ErrFull, err)
	}
	return fmt.Errorf("open %s: %w", path, err)
}
