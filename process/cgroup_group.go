package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-run/troupe/messages"
)

const (
	groupPrefix = "troupe-"
	// groupsMax bounds how many groups a walk through the hierarchy looks at, and groupDepth how deep it goes.
	groupsMax  = 20_000
	groupDepth = 32
	// emptyTime is the age from which an empty group of an incarnation counts as left behind.
	emptyTime = time.Minute
)

// group is a folder of the cgroup v2 hierarchy. The zero group means no group.
type group struct{ path string }

// openGroup makes the group of an incarnation and returns the features that can be used. A machine without cgroup v2 is
// no error: reason says why, for people.
func openGroup(incarnation messages.Incarnation) (g group, m means, reason string) {
	at, err := findPlace()
	if err != nil {
		return group{}, means{}, err.Error()
	}
	return openGroupIn(at.base(), incarnation)
}

func openGroupIn(base string, incarnation messages.Incarnation) (g group, m means, reason string) {
	if err := unix.Access(filepath.Join(base, "cgroup.procs"), unix.W_OK); err != nil {
		return group{}, means{}, fmt.Sprintf("%s/cgroup.procs may not be written: %v", base, err)
	}
	group{base}.tidy(time.Now())
	g = group{filepath.Join(base, groupPrefix+incarnation.String())}
	if err := os.Mkdir(g.path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return group{}, means{}, err.Error()
	}
	reason = handDown(base, g)
	has := g.controllers("cgroup.subtree_control")
	return g, meansFor(groupFacts{
		writable: true, kill: g.has("cgroup.kill"),
		memory: slices.Contains(has, "memory"), pids: slices.Contains(has, "pids"),
	}), reason
}

// tidy removes empty groups of incarnations. One is left when a node is killed before its first guardian is in the
// ledger. The kernel refuses to remove a group that has processes or other groups in it. A living node whose empty
// group was removed makes it again when it needs it.
func (g group) tidy(now time.Time) {
	for _, one := range g.below() {
		info, err := os.Stat(one.path)
		if err == nil && strings.HasPrefix(filepath.Base(one.path), groupPrefix) && now.Sub(info.ModTime()) > emptyTime {
			_ = unix.Rmdir(one.path)
		}
	}
}

// handDown enables the controllers for the programs' groups. It changes a group in the base only where the group is
// delegated to this user. Elsewhere it uses what is enabled already.
func handDown(base string, g group) (reason string) {
	if delegated(base) {
		group{base}.enable()
	}
	g.enable()
	if slices.Contains(g.controllers("cgroup.subtree_control"), "memory") {
		return ""
	}
	return base + " hands down no memory controller"
}

// enable enables the controllers for the groups below, one by one: one controller may be unavailable while others are
// not.
func (g group) enable() {
	for _, name := range g.controllers("cgroup.controllers") {
		if name == "memory" || name == "pids" {
			_ = g.write("cgroup.subtree_control", "+"+name)
		}
	}
}

func (g group) controllers(file string) []string {
	raw, err := os.ReadFile(filepath.Join(g.path, file))
	if err != nil {
		return nil
	}
	return strings.Fields(string(raw))
}

func (g group) has(file string) bool {
	return unix.Access(filepath.Join(g.path, file), unix.F_OK) == nil
}

// write writes one of the kernel's files. It creates none.
func (g group) write(file, text string) error {
	fd, err := unix.Open(filepath.Join(g.path, file), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s of cgroup %s: %w", file, g.path, err)
	}
	_, err = unix.Write(fd, []byte(text))
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		return fmt.Errorf("write %q to %s of cgroup %s: %w", text, file, g.path, err)
	}
	return nil
}

// event reads one value of a file of "name value" lines, such as cgroup.events. It returns 0 where there is none.
func (g group) event(file, name string) uint64 {
	raw, err := os.ReadFile(filepath.Join(g.path, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == name {
			n, _ := strconv.ParseUint(fields[1], 10, 64) // the kernel writes numbers here
			return n
		}
	}
	return 0
}

// populated reports whether a process lives in the group or below it.
func (g group) populated() bool { return g.event("cgroup.events", "populated") != 0 }

// below lists the groups directly below.
func (g group) below() []group {
	entries, err := os.ReadDir(g.path)
	if err != nil {
		return nil
	}
	var found []group
	for _, e := range entries {
		if e.IsDir() {
			found = append(found, group{filepath.Join(g.path, e.Name())})
		}
	}
	return found
}

// under lists the group and all below it, parents first.
func (g group) under() []group {
	all := []group{g}
	for depth, level := 0, all; len(level) > 0 && depth < groupDepth && len(all) < groupsMax; depth++ {
		var next []group
		for _, one := range level {
			next = append(next, one.below()...)
		}
		all, level = append(all, next...), next
	}
	return all
}

// members lists the living processes of the group and of the groups below it.
func (g group) members() (found []procID) {
	for _, one := range g.under() {
		for _, field := range one.controllers("cgroup.procs") {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				if id, lives := identify(pid); lives {
					found = append(found, id)
				}
			}
		}
	}
	return found
}

// kill ends every process in the group and below it in one step, where the kernel can.
func (g group) kill() { _ = g.write("cgroup.kill", "1") }

// end ends everything in the group and waits until it is empty. It returns the processes that it found, and how many
// were left after endTime.
func (g group) end() (ended []procID, left int) {
	if !g.populated() {
		return nil, 0
	}
	ended = g.members()
	g.kill()
	_, left = endAll(func() ([]procID, bool) {
		if !g.populated() {
			return nil, true
		}
		return g.members(), false
	})
	return ended, left
}

// remove removes the group and what is below it. A group that is still in use stays.
func (g group) remove() {
	if err := unix.Rmdir(g.path); err == nil || errors.Is(err, unix.ENOENT) {
		return
	}
	for _, one := range slices.Backward(g.under()) {
		_ = unix.Rmdir(one.path)
	}
}

// removeSoon removes the group of a program that has just ended. It tries again, because the kernel may keep the group
// for an instant.
func (g group) removeSoon() {
	for deadline := time.Now().Add(endTime); ; time.Sleep(endPause) {
		g.remove()
		if !g.has("cgroup.procs") || time.Now().After(deadline) {
			return
		}
	}
}

// leavesOf lists the programs' groups of one guardian, whose names begin with its number.
func (g group) leavesOf(guardian string) []group {
	return slices.DeleteFunc(g.below(), func(one group) bool {
		return !strings.HasPrefix(filepath.Base(one.path), guardian)
	})
}

// endLeaves ends all programs of one guardian and removes their groups. It returns the ended processes.
func (g group) endLeaves(guardian string) (ended []procID) {
	if g.path == "" {
		return nil
	}
	leaves := g.leavesOf(guardian)
	for _, leaf := range leaves {
		ended = append(ended, leaf.members()...)
		leaf.kill()
	}
	for _, leaf := range leaves {
		late, _ := leaf.end()
		leaf.removeSoon()
		ended = append(ended, late...)
	}
	return ended
}

// leftGroups finds the groups of dead incarnations anywhere in the mounted hierarchy, because this node may have been
// started in another place of it. It skips a group that contains this process.
func leftGroups(incarnations []messages.Incarnation) []group {
	at, err := findPlace()
	if err != nil || len(incarnations) == 0 {
		return nil
	}
	names := make(map[string]bool, len(incarnations))
	for _, one := range incarnations {
		names[groupPrefix+one.String()] = true
	}
	return slices.DeleteFunc(group{at.mount}.under(), func(g group) bool {
		return !names[filepath.Base(g.path)] || at.within(g.path)
	})
}

// endGroups ends the processes in the groups of dead incarnations and removes the groups.
func endGroups(incarnations []messages.Incarnation) (ended, left int) {
	for _, g := range leftGroups(incarnations) {
		e, l := g.end()
		g.removeSoon()
		ended, left = ended+len(e), left+l
	}
	return ended, left
}

// Survey describes how programs are kept together and within their limits on this machine. It makes a group to find
// out, and removes it again.
func Survey() Containment {
	g, m, reason := openGroup(messages.NewIncarnation())
	c := m.describe()
	c.Reason = reason
	if g.path != "" {
		c.Folder = filepath.Dir(g.path)
		g.remove()
	}
	return c
}
