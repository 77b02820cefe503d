package process

import (
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// watcherDied is the signal that a guardian gets when its watcher dies.
const watcherDied = syscall.SIGUSR1

const (
	// watcherName is the argv[0] of the process between a node and its guardian.
	watcherName = "troupe-watcher"
	// watcherTime bounds how long it tries to end what a dead guardian left. It sends SIGKILL, so only a process that
	// hangs in the kernel takes longer than an instant.
	watcherTime = 4 * time.Second
)

// runWatcher is the main of the process between a node and its guardian. It starts the guardian, is the subreaper above
// it, and does nothing else until the guardian has ended. Then it ends every descendant that is left and returns an
// exit status. So no process is left when node and guardian are killed together, even where no cgroup is writable:
// orphaned processes are children of this process. It needs no pipe to the node, because the guardian ends when the
// node does.
//
// If the watcher itself dies, the guardian gets a signal, ends everything and ends.
func runWatcher(socket int) int {
	runtime.LockOSThread() // the guardian's parent-death signal is bound to this thread
	if _, err := unix.Getpeername(socket); err != nil {
		fmt.Fprintf(os.Stderr, "%s is started by a node and cannot run by itself: %v\n", watcherName, err)
		return 2
	}
	if err := unix.CloseRange(uint(socket), math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		unix.CloseOnExec(socket)
	}
	if err := BecomeSubreaper(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: become subreaper: %v\n", watcherName, err)
		return 1
	}
	// A terminal's signals must not end it. SIGPIPE comes from standard error when the node is dead.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	if err := setDefaultLimits(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", watcherName, err)
		return 1
	}
	guardian, err := syscall.ForkExec("/proc/self/exe", []string{guardianName}, &syscall.ProcAttr{
		Dir: "/", Env: []string{"GOMAXPROCS=2", "GOGC=25", "GOTRACEBACK=single"}, Files: []uintptr{0, 1, 2, uintptr(socket)},
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: watcherDied},
	})
	_ = unix.Close(socket) // only the guardian may hold it, so that the socket closes when the guardian ends
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: start the guardian: %v\n", watcherName, err)
		return 1
	}
	trim()
	status := awaitChild(guardian)
	endDescendants(time.Now().Add(watcherTime))
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// openFilesDefault is the soft limit of open files where a pool sets none. systemd and the distributions give every
// process the same limit (systemd.exec(5), LimitNOFILE). select(2) cannot take a descriptor above it. Programs that
// close all descriptors up to the limit before they start others take seconds where it is high. The hard limit stays
// the node's own, so that a program that needs more can raise its soft limit, as Node.js, Go and Java do.
const openFilesDefault = 1024

// setDefaultLimits sets the limits that programs inherit through the guardian, at no cost for a start. There are no
// core dumps, because they would store secrets and parameters on disk. It does not set RLIMIT_NPROC, because the kernel
// counts all processes of a user on the machine against it, not those of one program.
func setDefaultLimits() error {
	for _, limit := range []struct {
		kind int
		name string
		soft uint64
	}{{unix.RLIMIT_NOFILE, "open files", openFilesDefault}, {unix.RLIMIT_CORE, "core dumps", 0}} {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(limit.kind, &now); err != nil {
			return fmt.Errorf("read the limit of %s: %w", limit.name, err)
		}
		now.Cur = min(now.Max, limit.soft)
		if err := syscall.Setrlimit(limit.kind, &now); err != nil {
			return fmt.Errorf("set the limit of %s: %w", limit.name, err)
		}
	}
	return nil
}

// awaitChild reaps every dead child until the wanted one is dead.
func awaitChild(want int) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if pid == want || err != nil && err != syscall.EINTR {
			return status
		}
	}
}

// endDescendants ends every descendant until there is no child, not even a dead one that is not reaped: its children
// may have moved to this process after the list was read.
func endDescendants(deadline time.Time) {
	for {
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 && err != syscall.EINTR {
				break
			}
		}
		children := childrenOf(os.Getpid())
		for _, id := range tree(children...) {
			_ = id.kill()
		}
		if len(children) == 0 || time.Now().After(deadline) {
			return
		}
		time.Sleep(endPause)
	}
}
