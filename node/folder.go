package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// folderFiles bounds how many files of a data folder are looked at. A node's own are some dozens.
const folderFiles = 10_000

// WideError is a data folder of which others have more than they should: who may write to it decides what workers run, and who may
// read the store sees every execution's parameters and result.
type WideError struct {
	Folder, Path string // Path is the folder, or what is in it
	Mode         fs.FileMode
	Verb         string // write to, read
	Own          bool   // this process's user owns it
	World        bool   // every user of the machine has it, and not only the entry's group
	Cause        error  // why the node could not; nil: it did not try
}

// Error implements error.
func (e *WideError) Error() string {
	said := fmt.Sprintf("mode %04o", e.Mode.Perm())
	if e.Cause != nil {
		said += "; not changed: " + e.Cause.Error()
	}
	return fmt.Sprintf("data folder %s: other users may %s %s (%s): run `%s`, or choose another with --data",
		e.Folder, e.Verb, e.Path, said, e.Mend())
}

// Unwrap implements errors.Unwrap.
func (e *WideError) Unwrap() error { return e.Cause }

// Mended reports whether a node takes it from others at its start: what its own user gave to a group, as Kubernetes does with a volume
// and as a umask of 002 does. What every user of the machine could write or read is refused, because whoever is to start the node has to
// look at what others may have put there.
func (e *WideError) Mended() bool { return e.Own && !e.World }

// Mend is the command that takes from others what they should not have.
func (e *WideError) Mend() string { return "chmod -R go-rwx " + quotePath(e.Folder) }

// CheckFolder looks at the permissions of a data folder and changes nothing. A folder that does not exist is in order: the node
// makes it for its user alone. Below a folder that others may not enter nothing has to be looked at. Its errors are *WideError, of
// one that a node refuses before one that it mends, or say that the folder cannot be read.
func CheckFolder(folder string) error {
	var first *WideError
	err := walkFolder(folder, func(_ *os.Root, _ string, _ fs.FileInfo, wide *WideError) error {
		if !wide.Mended() {
			return wide
		}
		if first == nil {
			first = wide
		}
		return nil
	})
	if err == nil && first != nil {
		return first
	}
	return err
}

// mendFolder takes from a group what it should not have of what this process's user owns, and returns how many entries it
// changed. Kubernetes gives a volume's group every entry of it at each start of a pod (fsGroup), and a umask of 002 is the usual one
// on some systems. What every user has, what another user owns, or what cannot be changed, is a *WideError; the first such entry ends it.
func mendFolder(folder string) (mended int, err error) {
	err = walkFolder(folder, func(root *os.Root, name string, info fs.FileInfo, wide *WideError) error {
		if !wide.Mended() {
			if !wide.Own {
				wide.Cause = errForeign
			}
			return wide
		}
		if wide.Cause = mendEntry(root, name, info); wide.Cause != nil {
			return wide
		}
		mended++
		return nil
	})
	return mended, err
}

// mendEntry changes one entry by its descriptor: what is put in its place meanwhile, a link above all, is not followed.
func mendEntry(root *os.Root, name string, seen fs.FileInfo) error {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(seen, info) {
		return errReplaced
	}
	if err := f.Chmod(info.Mode() &^ taken(name, info.Mode())); err != nil {
		return err
	}
	if info, err = f.Stat(); err != nil {
		return err
	}
	if wideEntry("", name, info.Mode()) != nil {
		return errModeStays // some mounts take every mode and keep their own
	}
	return nil
}

var (
	errForeign   = errors.New("another user owns it")
	errReplaced  = errors.New("it was replaced meanwhile")
	errModeStays = errors.New("its file system keeps the mode")
)

// taken are the permissions that others lose of an entry: to write, and of the store's files to read.
func taken(name string, mode fs.FileMode) fs.FileMode {
	if mode.IsRegular() && private(name) {
		return 0o066
	}
	return 0o022
}

// walkFolder hands every wide entry of a data folder to a function, a folder before what is in it. The paths stay within the folder,
// whatever others make of it meanwhile.
func walkFolder(folder string, visit func(*os.Root, string, fs.FileInfo, *WideError) error) error {
	info, err := os.Stat(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("data folder %s: %w", folder, err)
	case !info.IsDir(), info.Mode().Perm()&0o033 == 0:
		return nil // what follows says that it is no folder; others may not enter the other
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return unread(folder, info, err)
	}
	defer root.Close()
	seen := 0
	return fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if seen++; seen > folderFiles {
			return fs.SkipAll
		}
		if err != nil {
			return nil //nolint:nilerr // it went away, or is not this user's to read
		}
		info, err := root.Lstat(name)
		if err != nil {
			return nil //nolint:nilerr // it went away
		}
		wide := wideEntry(folder, name, info.Mode())
		if wide == nil {
			return nil
		}
		wide.Own = owned(info, os.Geteuid())
		if err := visit(root, name, info, wide); err != nil {
			return err
		}
		if closed := info.Mode() &^ taken(name, info.Mode()); name == "." && closed.Perm()&0o011 == 0 {
			return fs.SkipAll // others may not enter it
		}
		return nil
	})
}

// unread judges a folder that this process may not look into.
func unread(folder string, info fs.FileInfo, err error) error {
	wide := wideEntry(folder, ".", info.Mode())
	if wide == nil {
		return nil
	}
	wide.Cause = err
	return wide
}

// owned reports whether a user owns an entry.
func owned(info fs.FileInfo, user int) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int64(stat.Uid) == int64(user)
}

// wideEntry judges one entry of a data folder; name is its path within, "." the folder itself.
func wideEntry(folder, name string, mode fs.FileMode) *WideError {
	e := &WideError{Folder: folder, Path: name, Mode: mode}
	if name == "." {
		e.Path = "it"
	}
	switch {
	case mode.Type() != 0 && !mode.IsDir():
		return nil // a link's mode means nothing; its target is looked at where it is in the folder
	case mode.Perm()&0o022 != 0:
		e.Verb = "write to"
	case mode.IsRegular() && private(name) && mode.Perm()&0o044 != 0:
		e.Verb = "read"
	default:
		return nil
	}
	e.World = mode.Perm()&taken(name, mode)&0o006 != 0
	return e
}

// private reports whether a file is the store, its log or its index: they hold parameters and results.
func private(name string) bool { return strings.HasPrefix(name, "troupe.db") }

var plainPath = regexp.MustCompile(`^[A-Za-z0-9_./@+:,-]+$`)

// quotePath writes a path as a shell takes it.
func quotePath(path string) string {
	if plainPath.MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
