package process

import (
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// watcherDied is the signal that a guardian gets at its watcher's death.
const watcherDied = syscall.SIGUSR1

const (
	// watcherName is what the process between a node and its guardian runs under, as its argv[0].
	watcherName = "troupe-watcher"
	// watcherTime bounds how long it tries to end what a dead guardian left. It sends SIGKILL, so only a process that
	// hangs in the kernel takes more than an instant.
	watcherTime = 4 * time.Second
)

// runWatcher is the main of the process between a node and its guardian. It starts the guardian, is the subreaper above
// it, and does nothing else until the guardian has ended. Then it ends every descendant that is left and returns an
// exit status. So a node and a guardian that are killed together leave nothing, even where no cgroup is writable: what
// lost its parents has come to this process. It holds no pipe to the node, because the guardian ends when the node does.
//
// When it dies itself the guardian hears of it, ends everything in its stead and ends.
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
	// A terminal's signals do not end it, and SIGPIPE comes from standard error when the node is dead.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	if err := setDefaultLimits(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", watcherName, err)
		return 1
	}
	guardian, err := syscall.ForkExec("/proc/self/exe", []string{guardianName}, &syscall.ProcAttr{
		Dir: "/", Env: []string{"GOMAXPROCS=2", "GOTRACEBACK=single"}, Files: []uintptr{0, 1, 2, uintptr(socket)},
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: watcherDied},
	})
	_ = unix.Close(socket) // the guardian's alone: its end is the socket's
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: start the guardian: %v\n", watcherName, err)
		return 1
	}
	debug.FreeOSMemory() // what the program's packages used at their start is not needed again
	status := awaitChild(guardian)
	endDescendants(time.Now().Add(watcherTime))
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// openFilesDefault is the soft limit of open files that programs start with where their pool sets none. It is what systemd and
// the distributions give to every process (systemd.exec(5), LimitNOFILE): select(2) cannot take a descriptor above it, and
// programs that close all descriptors up to the limit before they start others take seconds where it is high. The hard limit
// stays the node's own, so that a program that needs more raises its soft limit itself, as Node.js, Go and Java do.
const openFilesDefault = 1024

// setDefaultLimits sets what programs inherit by way of the guardian, which costs their start nothing. There are no core dumps:
// they would hold secrets and parameters, where nobody looks for them. RLIMIT_NPROC is left alone: the kernel counts all
// processes of a user on the machine against it, not those of one program.
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

// awaitChild reaps whatever dies until that one has.
func awaitChild(want int) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if pid == want || err != nil && err != syscall.EINTR {
			return status
		}
	}
}

// endDescendants ends every descendant until none is left, not even a dead one that is not reaped: its children may have
// come here behind the look at the list.
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
