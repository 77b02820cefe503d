package process

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unsafe"

	"golang.org/x/sys/unix"
)

// signal sends a signal to a program's process group. It does nothing once the program has been reaped.
func (w *warden) signal(seq uint64, sig syscall.Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if child := w.bySeq[seq]; child != nil {
		child.killed = true
		_ = syscall.Kill(-child.id.pid, sig)
	}
}

// kill ends a program and its descendants. It kills the process group and the cgroup first, because no fork can escape
// either call. Then it kills the descendants that left both. Without a cgroup, a descendant that loses its parents
// meanwhile is found by its mark when the program is reaped.
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

// reapAll reaps every dead child.
func (w *warden) reapAll() {
	for w.reapOne() {
	}
}

// reapOne reaps one dead child, if there is one. Before that it ends the rest of the child's process group: while the
// child is a zombie, no other process can have its pid.
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
	child, left := w.byPid[pid], ""
	if child != nil {
		if !child.killed {
			left = w.left(child)
		}
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
		seq: child.seq, status: status, killed: child.killed, left: left,
		cpu: uint64(usage.Utime.Nano() + usage.Stime.Nano()), //nolint:gosec // never negative
	})
	return true
}

// leftMax bounds the processes that are named of those that a program left.
const leftMax = 8

// left names the processes that a dead program has left, of its group or with its mark: they are the guardian's children by now. The
// caller holds w.mu.
func (w *warden) left(child *ward) string {
	var roots []int
	for _, pid := range childrenOf(os.Getpid()) {
		if w.byPid[pid] != nil {
			continue
		}
		if group, err := unix.Getpgid(pid); err == nil && group == child.id.pid || environHas(pid, child.mark) {
			roots = append(roots, pid)
		}
	}
	if len(roots) == 0 {
		return ""
	}
	found := tree(roots...)
	var names []string
	for _, id := range found[:min(len(found), leftMax)] {
		names = append(names, fmt.Sprintf("%s (%d)", nameOf(id.pid), id.pid))
	}
	if more := len(found) - len(names); more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	}
	return strings.Join(names, ", ")
}

// nameOf is the name of a process's program, of at most 15 bytes, as the kernel keeps it.
func nameOf(pid int) string {
	raw, err := os.ReadFile(procPath(pid, "comm"))
	if err != nil {
		return "?"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, strings.TrimSuffix(string(raw), "\n"))
}

// waitedPid reads si_pid, which the unix package leaves unnamed: it follows three integers, aligned to a pointer.
func waitedPid(info *unix.Siginfo) int {
	word := unsafe.Sizeof(uintptr(0))
	offset := (3*unsafe.Sizeof(int32(0)) + word - 1) / word * word
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), offset)))
}

// finish ends what a dead program left running and reports its end to the node.
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

// strays returns the process trees that carry the mark and whose parent is now the guardian, because their own parents
// died. settled is false while one of the guardian's adopted children is dead and not reaped: its children may have
// moved to the guardian after the list was read.
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
// kernel may omit a child from the list when an earlier child goes away.
func (w *warden) children() map[int]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	listed := make(map[int]bool)
	for _, pid := range childrenOf(os.Getpid()) {
		listed[pid] = w.byPid[pid] != nil
	}
	return listed
}

// endEverything ends all descendants, whatever session or group they moved to. It stops when the guardian has no child,
// not even a dead one: while a child is dead and not reaped, its children may have moved to the guardian after the list
// was read.
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

// killGroups ends every program's cgroup and process group; it is one call for a group, which no fork can escape.
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
