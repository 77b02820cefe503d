package filelock

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOneProcessHoldsTheLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "it.lock")
	first, err := Take(path)
	require.NoError(t, err)
	_, err = Take(path)
	var held *HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, strconv.Itoa(os.Getpid()), held.Holder)
	require.NoError(t, first.Close())
	second, err := Take(path)
	require.NoError(t, err, "the file stays, the lock is free")
	require.NoError(t, second.Close())
}

// A process that is killed while it starts a program leaves its lock to that program for a moment, between fork and
// exec. Here the program holds it longer.
func TestTheLockOfAProcessThatHasEndedIsWaitedFor(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "it.lock")
	l, err := Take(path)
	require.NoError(t, err)
	writeHolder(t, l.file, ended(t))
	inherit(t, l, "0.3")
	require.NoError(t, l.file.Close()) // the kernel does the same when a process ends
	again, err := Take(path)
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

// One node stops and another starts in the same process. A program that is being started must not keep the lock for
// that time.
func TestALockThatIsGivenUpIsFreeThoughAProgramHasItsFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "it.lock")
	l, err := Take(path)
	require.NoError(t, err)
	heir := inherit(t, l, "60")
	require.NoError(t, l.Close())
	again, err := Take(path)
	require.NoError(t, err)
	require.NoError(t, again.Close())
	require.NoError(t, heir.Process.Kill())
}

// inherit starts a program that holds the lock's file for some seconds.
func inherit(t *testing.T, l *Lock, seconds string) *exec.Cmd {
	heir := exec.Command("sleep", seconds)
	heir.ExtraFiles = []*os.File{l.file}
	require.NoError(t, heir.Start())
	t.Cleanup(func() {
		_ = heir.Process.Kill()
		_ = heir.Wait()
	})
	return heir
}

func TestALockThatStaysIsToldAfterABound(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "it.lock")
	l, err := Take(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	gone := ended(t)
	writeHolder(t, l.file, gone)
	_, err = Take(path)
	var held *HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, strconv.Itoa(gone), held.Holder)
	require.NoError(t, l.file.Truncate(0))
	_, err = Take(path)
	require.ErrorAs(t, err, &held)
	require.Equal(t, "unknown", held.Holder)
}

func TestAFolderThatIsMissingIsNamed(t *testing.T) {
	t.Parallel()
	_, err := Take(filepath.Join(t.TempDir(), "none", "it.lock"))
	require.True(t, errors.Is(err, os.ErrNotExist))
	require.ErrorContains(t, err, "none/it.lock")
}

// ended returns the id of a process that has ended.
func ended(t *testing.T) int {
	command := exec.Command("true")
	require.NoError(t, command.Run())
	require.ErrorIs(t, syscall.Kill(command.Process.Pid, 0), syscall.ESRCH)
	return command.Process.Pid
}

func writeHolder(t *testing.T, f *os.File, pid int) {
	require.NoError(t, f.Truncate(0))
	_, err := f.WriteAt([]byte(strconv.Itoa(pid)), 0)
	require.NoError(t, err)
}
