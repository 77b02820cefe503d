package process

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/troupe-run/troupe/messages"
)

// tasksPerProcess is how many threads the kernel's bound allows for each process of limits.processes. The kernel counts
// threads, the limit counts processes, so that the bound must not be met by a program that is within its limit: it is
// there to stop a program that forks without end before the next sample sees it.
const tasksPerProcess = 256

// tasksDefault is how many threads a program and its descendants may have where no limit is set, so that one that forks without
// end takes neither the machine's nor the node's own. It costs one write at a start, and is held only where the kernel does.
const tasksDefault = 4096

// leaf is the group of one program. A nil leaf is a program without a group.
type leaf struct {
	group
	dir    int  // descriptor of the folder, for the start in it
	memory bool // the kernel holds the memory limit
	tasks  bool // the kernel holds the bound on tasks
	events bool // the kernel tells what it killed here for memory
}

// newLeaf makes the group of one program with its limits (0: none, but tasksDefault). A limit that the kernel does not take is sampled.
func newLeaf(parent group, name string, m means, memory, processes uint64) (*leaf, error) {
	l := &leaf{group: group{filepath.Join(parent.path, name)}, events: m.events}
	if err := l.make(parent); err != nil {
		return nil, fmt.Errorf("make cgroup %s: %w", l.path, err)
	}
	if m.memory && memory > 0 {
		l.memory = l.limitMemory(memory)
	}
	if m.tasks {
		l.tasks = l.limitTasks(processes)
	}
	var err error
	if l.dir, err = unix.Open(l.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		l.remove()
		return nil, fmt.Errorf("open cgroup %s: %w", l.path, err)
	}
	return l, nil
}

// make makes the folder, and again the parent's where it is gone: a guardian that ends removes it when it is empty.
func (l *leaf) make(parent group) error {
	err := unix.Mkdir(l.path, 0o755)
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	if err := unix.Mkdir(parent.path, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	parent.enable()
	return unix.Mkdir(l.path, 0o755)
}

// limitMemory bounds the memory of the whole group, which the kernel ends as one when it is over: half a program is
// none. Swap would only put the end off; a kernel without it has no such file.
func (l *leaf) limitMemory(bytes uint64) bool {
	_ = l.write("memory.swap.max", "0")
	_ = l.write("memory.oom.group", "1")
	return l.write("memory.max", strconv.FormatUint(bytes, 10)) == nil
}

func (l *leaf) limitTasks(processes uint64) bool {
	tasks := min(processes, math.MaxInt32/tasksPerProcess) * tasksPerProcess
	if processes == 0 {
		tasks = tasksDefault
	}
	return l.write("pids.max", strconv.FormatUint(tasks, 10)) == nil
}

// close ends the use of the folder for starts.
func (l *leaf) close() {
	if l != nil {
		_ = unix.Close(l.dir)
	}
}

// discard removes the group of a program that never ran.
func (l *leaf) discard() {
	if l != nil {
		l.close()
		l.remove()
	}
}

// attr is how a program is started: in a process group of its own, dead when the guardian dies, in its group, and as its user.
func (l *leaf) attr(as *messages.User) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: credential(as)}
	if l != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, l.dir
	}
	return attr
}

// groupRefused reports whether a start failed for its group rather than for the program, as far as the error tells.
func groupRefused(err error) bool {
	for _, refusal := range []error{
		unix.EACCES, unix.EPERM, unix.EBUSY, unix.EBADF, unix.EINVAL, unix.ENODEV, unix.ENOSYS, unix.EOPNOTSUPP, unix.EAGAIN,
	} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// started and exited tell the node of a program's group, as bits.
const (
	groupHeld   = 1 << iota // started: the program is in a group
	memoryHeld              // started: the kernel holds the memory limit
	eventsKnown             // exited: the kernel's own events are known; the bits below mean nothing without
	oomKilled               // exited: the kernel killed something of the program for memory
	memoryOver              // exited: and that was for the program's own limit
	tasksOver               // exited: a fork was refused by the bound on tasks
)

// held says what the kernel holds for the program.
func (l *leaf) held() (bits uint64) {
	if l == nil {
		return 0
	}
	bits = groupHeld
	if l.memory {
		bits |= memoryHeld
	}
	return bits
}

// verdict reads what the kernel did to the program. It is read when all of the group has ended.
func (l *leaf) verdict() (bits uint64) {
	if l == nil {
		return 0
	}
	if l.events && l.has("memory.events") {
		bits |= eventsKnown
		if l.event("memory.events", "oom_kill") > 0 {
			bits |= oomKilled
			if l.memory && l.event("memory.events", "oom") > 0 {
				bits |= memoryOver
			}
		}
	}
	if l.tasks && l.event("pids.events", "max") > 0 {
		bits |= tasksOver
	}
	return bits
}

// fork starts a program in the group. Where the kernel refuses the group it starts it without, and says so.
func (l *leaf) fork(path string, argv []string, as *messages.User, attr syscall.ProcAttr) (pid int, in *leaf, err error) {
	attr.Sys = l.attr(as)
	pid, err = syscall.ForkExec(path, argv, &attr)
	if err == nil || l == nil || !groupRefused(err) {
		return pid, l, err
	}
	var none *leaf
	attr.Sys = none.attr(as)
	if pid, again := syscall.ForkExec(path, argv, &attr); again == nil {
		fmt.Fprintf(os.Stderr, "%s: cgroup %s is not used: %v\n", guardianName, l.path, err)
		return pid, nil, nil
	}
	return 0, l, err
}
