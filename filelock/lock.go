// Package filelock locks a file, so that only one process uses a store or a data folder. The kernel releases the lock
// when the process ends for any reason. The file stays: if it were removed, two processes could lock two files.
// store/sqlite and node decide what the lock protects.
package filelock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// HeldError says that another process holds the lock.
type HeldError struct {
	Holder string // its process id, as it wrote it to the file; "unknown" where that cannot be read
}

// Error implements error.
func (e *HeldError) Error() string { return "process " + e.Holder + " holds the lock" }

const (
	// endingMax bounds the wait for the lock of a process that has ended. A child that it was starting holds the lock
	// too, from the fork until the exec.
	endingMax   = 2 * time.Second
	endingPause = 10 * time.Millisecond
)

// Lock is a lock that this process holds.
type Lock struct{ file *os.File }

// Close releases the lock at once, even while a program that is being started holds the file a moment longer.
func (l *Lock) Close() error {
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
}

// Take locks the file, which it makes if need be, and writes this process's id to it.
//
// It returns a HeldError at once if a living process holds the lock. If that process has ended, Take waits for up to
// two seconds for a child of it that still holds the lock.
func Take(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := f.Truncate(0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Lock{f}, nil
}

func lock(f *os.File) error {
	for end := time.Now().Add(endingMax); ; time.Sleep(endingPause) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		pid, known := holder(f)
		if !known {
			return &HeldError{Holder: "unknown"}
		}
		if alive(pid) || time.Now().After(end) {
			return &HeldError{Holder: strconv.Itoa(pid)}
		}
	}
}

// holder reads the process id that the owner of the lock wrote to the file.
func holder(f io.ReaderAt) (pid int, known bool) {
	b := make([]byte, 20)
	n, _ := f.ReadAt(b, 0) // after an error there is nothing to parse
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	return pid, err == nil && pid > 0
}

// alive reports whether such a process exists. One that this process may not signal exists too.
func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
