package process

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Bounds are what the cgroups of this process leave it. A limit of a group holds for all groups below, so each is the smallest on
// the path to the root of what is mounted. 0 is none.
type Bounds struct {
	Version  string  // of the groups that were read: v1, v2, or "v1 and v2" where both are mounted; empty: no cgroups
	Memory   uint64  // bytes
	MemoryAt string  // the folder of the group that sets it
	Cores    float64 // processor time per time
	CoresAt  string
}

// FindBounds reads the bounds of this process.
func FindBounds() Bounds {
	groups, errGroups := os.ReadFile("/proc/self/cgroup")
	mounts, errMounts := os.ReadFile("/proc/self/mountinfo")
	if errGroups != nil || errMounts != nil {
		return Bounds{}
	}
	return boundsOf(string(groups), string(mounts), func(path string) string {
		text, _ := os.ReadFile(path) // a group without the file has no limit of that kind
		return strings.TrimSpace(string(text))
	})
}

// boundsOf reads the bounds from the texts of /proc/self/cgroup and /proc/self/mountinfo; read returns the text of a file. Controllers
// of v1 and the one hierarchy of v2 may be mounted beside each other, and each limit is in one of them.
func boundsOf(groups, mounts string, read func(path string) string) (b Bounds) {
	var versions []string
	for line := range strings.Lines(mounts) {
		m, ok := mountOf(line)
		if !ok {
			continue
		}
		group, found := groupOf(groups, m.controllers)
		if !found {
			continue
		}
		inside, err := filepath.Rel(m.root, group)
		if err != nil || inside == ".." || strings.HasPrefix(inside, "../") || strings.HasPrefix(group, "/..") {
			continue
		}
		if v := m.version(); !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
		for dir := filepath.Join(m.point, inside); ; dir = filepath.Dir(dir) {
			b.take(dir, m.version(), read)
			if dir == m.point || dir == "/" {
				break
			}
		}
	}
	slices.Sort(versions)
	b.Version = strings.Join(versions, " and ")
	return b
}

// take lowers the bounds to the limits of one group.
func (b *Bounds) take(dir, version string, read func(path string) string) {
	files, quota, period := []string{"memory.max", "memory.high"}, "", ""
	if version == "v1" {
		files = []string{"memory.limit_in_bytes"}
		quota, period = read(dir+"/cpu.cfs_quota_us"), read(dir+"/cpu.cfs_period_us")
	} else {
		quota, period, _ = strings.Cut(read(dir+"/cpu.max"), " ")
	}
	for _, name := range files {
		// "max" is no number; v1 says the largest number of whole pages for none.
		if n, err := strconv.ParseUint(read(dir+"/"+name), 10, 64); err == nil && n < math.MaxInt64>>1 && (b.Memory == 0 || n < b.Memory) {
			b.Memory, b.MemoryAt = n, dir
		}
	}
	q, errQ := strconv.ParseFloat(quota, 64) // "max", and -1 in v1: none
	p, errP := strconv.ParseFloat(period, 64)
	if errQ == nil && errP == nil && q > 0 && p > 0 && (b.Cores == 0 || q/p < b.Cores) {
		b.Cores, b.CoresAt = q/p, dir
	}
}

// groupsMount is a mounted hierarchy of cgroups.
type groupsMount struct {
	root, point string
	controllers []string // of v1; nil: v2
}

func (m *groupsMount) version() string {
	if m.controllers == nil {
		return "v2"
	}
	return "v1"
}

// mountOf reads a line of mountinfo. Of v1 it takes the hierarchies that bound memory or processor time.
func mountOf(line string) (m groupsMount, ok bool) {
	if root, point, ok := groupMount(line); ok {
		return groupsMount{root: root, point: point}, true
	}
	fields := strings.Fields(line)
	dash := slices.Index(fields, "-")
	if dash < 6 || len(fields) < dash+4 || fields[dash+1] != "cgroup" {
		return m, false
	}
	m = groupsMount{root: unescape(fields[3]), point: unescape(fields[4])}
	for _, option := range strings.Split(fields[dash+3], ",") {
		if option == "memory" || option == "cpu" {
			m.controllers = append(m.controllers, option)
		}
	}
	return m, m.controllers != nil
}

// groupOf is this process's group in the hierarchy of v1 that has the controllers, or in that of v2.
func groupOf(groups string, controllers []string) (string, bool) {
	if controllers == nil {
		return ownGroup(groups)
	}
	for line := range strings.Lines(groups) { // 4:cpu,cpuacct:/path
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) == 3 && slices.Contains(strings.Split(parts[1], ","), controllers[0]) {
			return parts[2], true
		}
	}
	return "", false
}

// What Go's heap may take of a memory limit. The rest is for worker processes, stacks, the store's cache and the page cache.
const (
	heapPercent = 70
	heapMin     = 64 << 20
	// guardMemory is what watcher and guardian take: some 8 MiB each.
	guardMemory = 16 << 20
)

// HeapLimit is the soft limit of a node's Go heap under a memory limit, in bytes; 0: none.
func HeapLimit(memory uint64) int64 {
	if memory == 0 {
		return 0
	}
	share := int64(memory/100*heapPercent) - guardMemory
	return max(share, heapMin)
}
