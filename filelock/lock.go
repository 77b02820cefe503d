// Package filelock takes the lock on a file by which one process says that it alone uses what stands beside it: a store, or a data
// folder. The kernel drops the lock when the process ends, however it ends. The file stays: if it were removed, two processes could lock two
// files. The package decides nothing about what the lock means; store/sqlite and node do.
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
	// endingMax bounds the wait for the lock of a process that has ended. A program that it was just starting has the lock too, from
	// the fork until it becomes another program.
	endingMax   = 2 * time.Second
	endingPause = 10 * time.Millisecond
)

// Lock is a lock that this process holds.
type Lock struct{ file *os.File }

// Close gives the lock up. It does so at once, also where a program that is just being started has the file for a moment longer.
func (l *Lock) Close() error {
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
}

// Take locks the file, which it makes if need be, and writes this process's id to it.
//
// It returns a HeldError at once if a living process holds the lock. If that process has ended, Take waits for up to two
// seconds for whatever still has the lock from it.
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

// holder reads the process id that the lock's owner left in the file.
func holder(f io.ReaderAt) (pid int, known bool) {
	b := make([]byte, 20)
	n, _ := f.ReadAt(b, 0) // an error leaves nothing to parse
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	return pid, err == nil && pid > 0
}

// alive reports whether there is such a process. One that may not be signalled is there.
func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
