package process

import (
	"maps"
	"os"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// signal signals a program's process group; a program that has been reaped is left alone.
func (w *warden) signal(seq uint64, sig syscall.Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if child := w.bySeq[seq]; child != nil {
		child.killed = true
		_ = syscall.Kill(-child.id.pid, sig)
	}
}

// kill ends a program and its descendants. Its process group and its cgroup come first, since neither call can be
// outrun by forks; then those that left both. Without a cgroup, what loses its parents meanwhile is found by its mark
// when the program is reaped.
func (w *warden) kill(seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	child := w.bySeq[seq]
	if child == nil {
		return
	}
	child.killed = true
	family := tree(child.id.pid)
	_ = syscall.Kill(-child.id.pid, syscall.SIGKILL)
	if child.leaf != nil {
		child.leaf.kill()
	}
	for _, id := range family {
		_ = id.kill()
	}
}

// reapAll takes every child that has died.
func (w *warden) reapAll() {
	for w.reapOne() {
	}
}

// reapOne takes one dead child, if there is one. While it is still a zombie, and its pid cannot be anybody else's, the
// rest of its process group is ended.
func (w *warden) reapOne() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	var info unix.Siginfo
	err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	if err == unix.EINTR {
		return true
	}
	pid := waitedPid(&info)
	if err != nil || pid <= 0 {
		return false
	}
	child := w.byPid[pid]
	if child != nil {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	var status syscall.WaitStatus
	var usage syscall.Rusage
	if _, err := syscall.Wait4(pid, &status, syscall.WNOHANG, &usage); err != nil || child == nil {
		return err == nil
	}
	delete(w.byPid, pid)
	delete(w.bySeq, child.seq)
	w.ledger.remove(child.id)
	go w.finish(child, exitReport{
		seq: child.seq, status: status, killed: child.killed,
		cpu: uint64(usage.Utime.Nano() + usage.Stime.Nano()), //nolint:gosec // never negative
	})
	return true
}

// waitedPid reads si_pid, which the unix package leaves unnamed: it follows three integers, aligned to a pointer.
func waitedPid(info *unix.Siginfo) int {
	word := unsafe.Sizeof(uintptr(0))
	offset := (3*unsafe.Sizeof(int32(0)) + word - 1) / word * word
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), offset)))
}

// finish ends what a dead program left behind and tells the node of its end.
func (w *warden) finish(child *ward, x exitReport) {
	<-child.ready
	if child.leaf != nil {
		child.leaf.end()
		x.group = child.leaf.verdict()
		defer child.leaf.removeSoon()
	}
	endAll(func() ([]procID, bool) { return w.strays(child.mark) })
	packet, err := x.encode().packet()
	if err == nil {
		_ = w.send(packet)
	}
}

// strays returns the trees of processes that have come to the guardian because their parents died, and carry the mark.
// It is settled only where none of the guardian's adopted children is dead and unreaped: such a one may have been the
// last parent of a process that came to the guardian behind the look at the list.
func (w *warden) strays(mark string) (found []procID, settled bool) {
	var roots []int
	settled = true
	for pid, known := range w.children() {
		if known {
			continue
		}
		if _, lives := identify(pid); !lives {
			settled = false
		} else if environHas(pid, mark) {
			roots = append(roots, pid)
		}
	}
	return tree(roots...), settled
}

// children lists the guardian's children and whether each is a program it started. Nothing is reaped meanwhile: the
// kernel may leave a child out of the list when one before it goes away.
func (w *warden) children() map[int]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	listed := make(map[int]bool)
	for _, pid := range childrenOf(os.Getpid()) {
		listed[pid] = w.byPid[pid] != nil
	}
	return listed
}

// endEverything ends all descendants, whatever session or group they moved to. It is over when the guardian has no
// child left, not even a dead one: while one is dead and unreaped, its children may have come to the guardian behind
// the look at the list.
func (w *warden) endEverything() {
	w.killGroups()
	deadline := time.Now().Add(wardenTime)
	for {
		w.reapAll()
		children := w.children()
		for _, id := range tree(slices.Collect(maps.Keys(children))...) {
			_ = id.kill()
		}
		if len(children) == 0 || time.Now().After(deadline) {
			return
		}
		time.Sleep(endPause)
	}
}

// killGroups ends every program's cgroup and process group; one call a group cannot be outrun by forks.
func (w *warden) killGroups() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for pid, child := range w.byPid {
		child.killed = true
		if child.leaf != nil {
			child.leaf.kill()
		}
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
}
