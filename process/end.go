package process

import (
	"os"
	"strings"
	"time"
)

const (
	// lineageVar is in the environment of every program: incarnation, guardian and number. It shows which program a
	// descendant belongs to, even when its parents have ended.
	lineageVar = "TROUPE_LINEAGE"
	// incarnationVar is the variable that docs/protocol.md promises to every program.
	incarnationVar = "TROUPE_INCARNATION"
)

// lineage returns a mark: of one incarnation (rest is empty), of one guardian ("g."), or of one program ("g.n.").
func lineage(incarnation, rest string) string {
	return lineageVar + "=" + incarnation + "." + rest
}

// leafName is the name of a program's group: its mark without the variable and the incarnation, "g.n".
func leafName(mark string) string {
	_, rest, _ := strings.Cut(mark, ".")
	return strings.TrimSuffix(rest, ".")
}

// endAll sends SIGKILL to every process that find returns, and repeats this. It stops when find returns none and
// reports the result as settled, or after endTime. It returns how many processes it ended and how many were left.
func endAll(find func() (found []procID, settled bool)) (ended, left int) {
	hit := make(map[procID]bool)
	deadline := time.Now().Add(endTime)
	for {
		found, settled := find()
		for _, id := range found {
			if id.kill() == nil {
				hit[id] = true
			}
		}
		if len(found) == 0 && settled || time.Now().After(deadline) {
			return len(hit), len(found)
		}
		time.Sleep(endPause)
	}
}

// treesOf returns the processes that still live, and their descendants.
func treesOf(ids []procID) []procID {
	var roots []int
	for _, id := range ids {
		if id.alive() {
			roots = append(roots, id.pid)
		}
	}
	return tree(roots...)
}

// marked finds every living process that carries one of the marks, except this one and its ancestors.
func marked(marks []string) []procID {
	if len(marks) == 0 {
		return nil
	}
	spared := ancestors()
	var found []procID
	for _, pid := range allPids() {
		if spared[pid] || !environHas(pid, marks...) {
			continue
		}
		if id, ok := identify(pid); ok {
			found = append(found, id)
		}
	}
	return found
}

// ancestors returns this process and all processes above it. A node may itself run under a worker of another node.
func ancestors() map[int]bool {
	spared := make(map[int]bool)
	for pid := os.Getpid(); pid > 0 && !spared[pid]; {
		spared[pid] = true
		stat, err := readStat(pid)
		if err != nil {
			break
		}
		pid = stat.ppid
	}
	return spared
}
