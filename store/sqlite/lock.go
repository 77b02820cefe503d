package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/troupe-run/troupe/store"
)

// lockFile takes the store's own lock, which says that this process alone uses the store. The kernel drops it with
// the process, however that ends. The file stays: removing it would let two processes lock two files.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, mapFileError(path, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("open %s: %w (process %s holds its lock): stop that node, or give this one another --data folder",
				strings.TrimSuffix(path, ".lock"), store.ErrLocked, holder(f))
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := f.Truncate(0); err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		if err != nil {
			f.Close()
			return nil, mapFileError(path, err)
		}
	}
	return f, nil
}

// holder reads the pid that the lock's owner left in the file.
func holder(f io.ReaderAt) string {
	b := make([]byte, 20)
	n, _ := f.ReadAt(b, 0)
	if pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n]))); err == nil {
		return strconv.Itoa(pid)
	}
	return "unknown"
}
