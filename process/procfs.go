package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// treeMax bounds how many processes one walk visits.
const treeMax = 100_000

// procID identifies one process of one boot. Another process may get the pid, but with another start time.
type procID struct {
	pid   int
	start uint64 // clock ticks since boot
}

// procStat holds fields of /proc/PID/stat.
type procStat struct {
	id    procID
	state byte
	ppid  int
}

func procPath(pid int, name string) string {
	return "/proc/" + strconv.Itoa(pid) + "/" + name
}

// readStat reads a process's state. The program's name may hold any character, so the fields are counted from the last
// ')'.
func readStat(pid int) (procStat, error) {
	raw, err := os.ReadFile(procPath(pid, "stat"))
	if err != nil {
		return procStat{}, err
	}
	return parseStat(pid, raw)
}

func parseStat(pid int, raw []byte) (procStat, error) {
	end := bytes.LastIndexByte(raw, ')')
	fields := bytes.Fields(raw[max(end+1, 0):])
	if end < 0 || len(fields) < 20 || len(fields[0]) != 1 {
		return procStat{}, fmt.Errorf("process %d: stat line not understood: %s", pid, clip(raw))
	}
	ppid, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return procStat{}, fmt.Errorf("process %d: parent: %w", pid, err)
	}
	start, err := strconv.ParseUint(string(fields[19]), 10, 64)
	if err != nil {
		return procStat{}, fmt.Errorf("process %d: start time: %w", pid, err)
	}
	return procStat{id: procID{pid, start}, state: fields[0][0], ppid: ppid}, nil
}

func (s procStat) dead() bool { return s.state == 'Z' || s.state == 'X' }

// identify returns the process that has the pid now; ok is false when there is none or it is dead.
func identify(pid int) (id procID, ok bool) {
	stat, err := readStat(pid)
	if err != nil || stat.dead() {
		return procID{}, false
	}
	return stat.id, true
}

// alive reports whether exactly this process lives.
func (p procID) alive() bool {
	now, ok := identify(p.pid)
	return ok && now == p
}

// kill sends SIGKILL to exactly this process. It opens the pidfd before it checks the identity, so it never hits
// another process with the same pid.
func (p procID) kill() error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !p.alive() {
		return os.ErrProcessDone
	}
	return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
}

// childrenOf returns the direct children of all threads of a process.
func childrenOf(pid int) []int {
	threads, err := os.ReadDir(procPath(pid, "task"))
	if err != nil {
		return nil
	}
	var pids []int
	for _, t := range threads {
		raw, err := os.ReadFile(procPath(pid, "task/"+t.Name()+"/children"))
		if errors.Is(err, os.ErrNotExist) && !childrenFiles() {
			return childrenByScan(pid)
		}
		for _, field := range bytes.Fields(raw) {
			if child, err := strconv.Atoi(string(field)); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// childrenFiles reports whether this kernel lists children (CONFIG_PROC_CHILDREN).
func childrenFiles() bool {
	_, err := os.Stat("/proc/thread-self/children")
	return err == nil
}

// childrenByScan finds the children of a process on a kernel that does not list them.
func childrenByScan(pid int) []int {
	var pids []int
	for _, p := range allPids() {
		if stat, err := readStat(p); err == nil && stat.ppid == pid {
			pids = append(pids, p)
		}
	}
	return pids
}

// allPids lists every process that this one can see.
func allPids() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// tree returns the living processes under and including the roots.
func tree(roots ...int) []procID {
	var found []procID
	seen := make(map[int]bool)
	for queue := roots; len(queue) > 0 && len(seen) < treeMax; queue = queue[1:] {
		pid := queue[0]
		if seen[pid] {
			continue
		}
		seen[pid] = true
		if id, ok := identify(pid); ok {
			found = append(found, id)
			queue = append(queue, childrenOf(pid)...)
		}
	}
	return found
}

// environHas reports whether the process was started with an environment in which a variable begins with one of the
// marks ("NAME=value"). A process whose environment cannot be read has none.
func environHas(pid int, marks ...string) bool {
	raw, err := os.ReadFile(procPath(pid, "environ"))
	if err != nil || len(raw) == 0 {
		return false
	}
	for variable := range bytes.SplitSeq(raw, []byte{0}) {
		for _, mark := range marks {
			if bytes.HasPrefix(variable, []byte(mark)) {
				return true
			}
		}
	}
	return false
}

// resident returns the resident bytes of one process; shared pages count in full.
func resident(pid int) int64 {
	raw, err := os.ReadFile(procPath(pid, "statm"))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(raw)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// proportional returns the bytes of one process with shared pages divided among the processes that share them; ok is
// false where the kernel does not report it.
func proportional(pid int) (bytesUsed int64, ok bool) {
	raw, err := os.ReadFile(procPath(pid, "smaps_rollup"))
	if err != nil {
		return 0, false
	}
	for line := range bytes.SplitSeq(raw, []byte{'\n'}) {
		if fields := bytes.Fields(line); len(fields) == 3 && string(fields[0]) == "Pss:" {
			kib, err := strconv.ParseInt(string(fields[1]), 10, 64)
			return kib << 10, err == nil
		}
	}
	return 0, false
}

// oomKills returns the kernel's count of processes that it killed for memory since boot.
func oomKills() uint64 {
	raw, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return 0
	}
	_, rest, found := bytes.Cut(raw, []byte("\noom_kill "))
	if !found {
		return 0
	}
	line, _, _ := bytes.Cut(rest, []byte{'\n'})
	n, err := strconv.ParseUint(string(line), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
