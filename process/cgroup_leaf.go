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
// threads and the limit counts processes. So the bound must be high enough for every program within its limit. It only
// stops a program that forks without end before the next sample.
const tasksPerProcess = 256

// tasksDefault is how many threads a program and its descendants may have where no limit is set. It keeps a program
// that forks without end from taking all of the machine's or the node's threads. It costs one write at a start, and
// works only where the kernel enforces it.
const tasksDefault = 4096

// leaf is the group of one program. A nil leaf means no group.
type leaf struct {
	group
	dir    int  // descriptor of the folder, for the start in it
	memory bool // the kernel holds the memory limit
	tasks  bool // the kernel holds the bound on tasks
	events bool // the kernel tells what it killed here for memory
}

// newLeaf makes the group of one program with its limits. A limit of 0 means none; the bound on tasks is then
// tasksDefault. A limit that the kernel rejects is enforced by samples.
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

// make makes the folder. It makes the parent's folder too where that is gone: a guardian that ends removes it when it
// is empty.
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

// limitMemory bounds the memory of the whole group. The kernel kills the whole group when it is over the limit, because
// half a program cannot work. Swap is off, because it would only delay the kill; a kernel without swap accounting has
// no such file.
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

// close closes the folder's descriptor, which starts use.
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

// attr returns the attributes of a start: its own process group, SIGKILL at the guardian's death, the program's cgroup,
// and its user.
func (l *leaf) attr(as *messages.User) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: credential(as)}
	if l != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, l.dir
	}
	return attr
}

// groupRefused reports whether a start failed because of its group and not because of the program, as far as the error
// shows.
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

// The packets for started and exited carry these bits about a program's group.
const (
	groupHeld   = 1 << iota // started: the program is in a group
	memoryHeld              // started: the kernel holds the memory limit
	eventsKnown             // exited: the kernel's own events are known; without this bit the bits below mean nothing
	oomKilled               // exited: the kernel killed something of the program for memory
	memoryOver              // exited: the kill was for the program's own limit
	tasksOver               // exited: a fork was refused by the bound on tasks
)

// held returns as bits what the kernel enforces for the program.
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

// verdict reads what the kernel did to the program. It is called when all processes of the group have ended.
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

// fork starts a program in the group. Where the kernel refuses the group, it starts the program without one and returns
// a nil group.
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
