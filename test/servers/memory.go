package servers

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Memory is the memory of a process in bytes, as the kernel counts it (smaps_rollup in proc(5)).
type Memory struct {
	Resident int64 // Rss: with every page of files, such as the program's own, that other processes have too
	Share    int64 // Pss: of such a page, its part
	Own      int64 // Anonymous: no pages of files
}

// MemoryOf reads the memory of a process. Only root may read that of a node and its helpers.
func MemoryOf(pid int) (m Memory, err error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return m, err
	}
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		to := map[string]*int64{"Rss:": &m.Resident, "Pss:": &m.Share, "Anonymous:": &m.Own}[fields[0]]
		if to == nil {
			continue
		}
		kb, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return m, fmt.Errorf("memory of process %d: %w", pid, err)
		}
		*to = kb << 10
	}
	return m, nil
}

// HelpersOf are the processes that a node has started to start others: its watcher, and its guardian. 0: there is none.
func HelpersOf(node int) (watcher, guardian int) {
	watcher = childOf(node, "troupe-watcher")
	if watcher > 0 {
		guardian = childOf(watcher, "troupe-guardian")
	}
	return watcher, guardian
}

// childOf is the child of a process with the name as its first argument; 0: there is none.
func childOf(parent int, name string) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if fields := strings.Fields(rest); err == nil && len(fields) > 1 && fields[1] == strconv.Itoa(parent) && strings.TrimRight(string(line), "\x00") == name {
			return pid
		}
	}
	return 0
}
