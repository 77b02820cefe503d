package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

var errNoGroups = errors.New("no cgroup v2 hierarchy")

// place is this process's position in the cgroup v2 hierarchy, as folders.
type place struct {
	mount string // where the hierarchy is mounted
	own   string // this process's group
}

// findPlace reads the position of this process. It knows both layouts: one hierarchy for everything, and the hybrid one
// with v2 mounted beside the controllers of v1.
func findPlace() (place, error) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return place{}, err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return place{}, err
	}
	return parsePlace(string(groups), string(mounts))
}

// parsePlace joins the "0::" line of /proc/self/cgroup and the cgroup2 line of /proc/self/mountinfo. The mount may show
// only a part of the hierarchy; a group outside of that part has no folder.
func parsePlace(groups, mounts string) (place, error) {
	group, found := ownGroup(groups)
	if !found {
		return place{}, errNoGroups
	}
	outside := false
	for line := range strings.Lines(mounts) {
		root, point, ok := groupMount(line)
		if !ok {
			continue
		}
		inside, err := filepath.Rel(root, group)
		if err != nil || inside == ".." || strings.HasPrefix(inside, "../") || strings.HasPrefix(group, "/..") {
			outside = true
			continue
		}
		return place{mount: point, own: filepath.Join(point, inside)}, nil
	}
	if outside {
		return place{}, fmt.Errorf("this process's cgroup %s is outside of the mounted part of the hierarchy", group)
	}
	return place{}, errNoGroups
}

// ownGroup finds the v2 line. Its path may hold any character but a newline.
func ownGroup(groups string) (string, bool) {
	for line := range strings.Lines(groups) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return path, true
		}
	}
	return "", false
}

// groupMount reads one line of mountinfo: id, parent, device, root, mount point, options, optional fields, "-", type.
func groupMount(line string) (root, point string, ok bool) {
	fields := strings.Fields(line)
	dash := slices.Index(fields, "-")
	if dash < 6 || len(fields) < dash+2 || fields[dash+1] != "cgroup2" {
		return "", "", false
	}
	return unescape(fields[3]), unescape(fields[4]), true
}

// unescape decodes the octal escapes of mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace

// base is the folder to make groups in. It is the group above where that is delegated to this user, because a group
// with processes in it, such as this process's own, cannot enable controllers for groups below it. Otherwise it is this
// process's own group.
func (p place) base() string {
	above := filepath.Dir(p.own)
	if p.own != p.mount && delegated(above) {
		return above
	}
	return p.own
}

// delegated reports whether a group carries the mark that systemd sets on a unit with Delegate=yes. An administrator
// may set it too. A group without the mark belongs to another program, even if it is writable.
func delegated(dir string) bool {
	var value [1]byte
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		if n, err := unix.Getxattr(dir, name, value[:]); err == nil && n == 1 && value[0] == '1' {
			return true
		}
	}
	return false
}

// within reports whether this process is in the group of a folder or in a group below it.
func (p place) within(dir string) bool {
	return p.own == dir || strings.HasPrefix(p.own, dir+"/")
}
