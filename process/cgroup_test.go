package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/troupe-run/troupe/messages"
)

// thisMachine returns what groups can do on this machine. Tests check these features, and the substitutes for those
// that are missing.
func thisMachine(t testing.TB) means {
	t.Helper()
	g, m, reason := openGroup(messages.NewIncarnation())
	if m.group {
		g.remove()
		require.NoDirExists(t, g.path)
	}
	t.Logf("%+v %s", m.describe(), reason)
	return m
}

func TestMeans(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		found groupFacts
		want  means
	}{
		"nothing":                  {groupFacts{}, means{}},
		"controllers but no group": {groupFacts{kill: true, memory: true, pids: true}, means{}},
		"before Linux 5.14":        {groupFacts{writable: true}, means{group: true}},
		"no controller":            {groupFacts{writable: true, kill: true}, means{group: true, kill: true}},
		"memory":                   {groupFacts{writable: true, kill: true, memory: true}, means{group: true, kill: true, memory: true, events: true}},
		"pids":                     {groupFacts{writable: true, kill: true, pids: true}, means{group: true, kill: true, tasks: true}},
		"all":                      {groupFacts{true, true, true, true}, means{true, true, true, true, true}},
		"controllers without kill": {groupFacts{writable: true, memory: true, pids: true}, means{group: true, memory: true, tasks: true, events: true}},
	} {
		require.Equal(t, c.want, meansFor(c.found), name)
		require.Equal(t, c.want, meansOf(c.want.bits()), name)
	}
}

func TestMeansInWords(t *testing.T) {
	t.Parallel()
	sampled, marks := "samples every 500ms", "process groups, the subreaper and marks in environments"
	require.Equal(t, Containment{End: marks, Memory: sampled, Processes: sampled}, means{}.describe())
	require.Equal(t, Containment{End: "the members of its cgroup", Memory: sampled, Processes: sampled}, means{group: true}.describe())
	require.Equal(t, Containment{
		End: "cgroup.kill", Memory: "memory.max", Processes: sampled + " and pids.max", Delegated: []string{"memory", "pids"},
	}, means{true, true, true, true, true}.describe())
}

const (
	hybridMounts = `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`
	unifiedMounts = "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 master:3 - cgroup2 cgroup2 rw,nsdelegate\n"
)

func TestPlace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		groups, mounts string
		want           place
		fault          string
	}{
		"hybrid":       {"8:pids:/x\n4:memory:/m\n0::/\n", hybridMounts, place{"/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified"}, ""},
		"unified":      {"0::/system.slice/troupe.service\n", unifiedMounts, place{"/sys/fs/cgroup", "/sys/fs/cgroup/system.slice/troupe.service"}, ""},
		"odd names":    {"0::/a b/c::d\n", strings.ReplaceAll(unifiedMounts, "/sys/fs/cgroup ", `/my\040groups `), place{"/my groups", "/my groups/a b/c::d"}, ""},
		"part":         {"0::/docker/1/sub\n", strings.ReplaceAll(unifiedMounts, " / /sys", " /docker/1 /sys"), place{"/sys/fs/cgroup", "/sys/fs/cgroup/sub"}, ""},
		"another part": {"0::/docker/2\n", strings.ReplaceAll(unifiedMounts, " / /sys", " /docker/1 /sys"), place{}, "outside of the mounted part"},
		"namespace":    {"0::/../other\n", unifiedMounts, place{}, "outside of the mounted part"},
		"only v1":      {"4:memory:/m\n", hybridMounts, place{}, "no cgroup v2 hierarchy"},
		"not mounted":  {"0::/\n", "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n", place{}, "no cgroup v2 hierarchy"},
		"empty":        {"", "", place{}, "no cgroup v2 hierarchy"},
		"torn":         {"0::/\n", "1 2 3 - cgroup2\n", place{}, "no cgroup v2 hierarchy"},
	} {
		got, err := parsePlace(c.groups, c.mounts)
		require.Equal(t, c.want, got, name)
		if c.fault != "" {
			require.ErrorContains(t, err, c.fault, name)
		}
	}
}

func FuzzPlace(f *testing.F) {
	f.Add("0::/a\n", hybridMounts)
	f.Add("0::/a\n", unifiedMounts)
	f.Fuzz(func(t *testing.T, groups, mounts string) {
		if at, err := parsePlace(groups, mounts); err == nil && filepath.IsAbs(at.mount) {
			rel, err := filepath.Rel(at.mount, at.own)
			require.NoError(t, err)
			require.False(t, rel == ".." || strings.HasPrefix(rel, "../"), "%s is above the mount %s", at.own, at.mount)
		}
	})
}

// fakeGroup returns a folder with the files that the kernel would make.
func fakeGroup(t testing.TB, files map[string]string) group {
	t.Helper()
	g := group{t.TempDir()}
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(g.path, name), []byte(text), 0o600))
	}
	return g
}

func (g group) read(t testing.TB, file string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(g.path, file))
	require.NoError(t, err)
	return string(raw)
}

func TestLimitsAreWritten(t *testing.T) {
	t.Parallel()
	l := &leaf{group: fakeGroup(t, map[string]string{"memory.max": "", "memory.swap.max": "", "memory.oom.group": "", "pids.max": ""})}
	require.True(t, l.limitMemory(100<<20))
	require.True(t, l.limitTasks(5))
	require.Equal(t, "104857600", l.read(t, "memory.max"))
	require.Equal(t, "0", l.read(t, "memory.swap.max"))
	require.Equal(t, "1", l.read(t, "memory.oom.group"))
	require.Equal(t, "1280", l.read(t, "pids.max"))
	require.True(t, l.limitTasks(0))
	require.Equal(t, "4096", l.read(t, "pids.max"), "nobody may fork without end")

	bare := &leaf{group: fakeGroup(t, map[string]string{"memory.max": ""})}
	require.True(t, bare.limitMemory(1), "a kernel without swap")
	require.False(t, bare.limitTasks(1), "no such controller: it is sampled")
	require.NoFileExists(t, filepath.Join(bare.path, "pids.max"))
	huge := &leaf{group: fakeGroup(t, map[string]string{"pids.max": ""})}
	require.True(t, huge.limitTasks(1<<63))
	require.Equal(t, "2147483392", huge.read(t, "pids.max"), "the largest whole number of processes that the kernel takes")
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	const quiet = "low 0\nhigh 0\nmax 3\noom 0\noom_kill 0\noom_group_kill 0\n"
	for name, c := range map[string]struct {
		leaf         leaf
		memory, pids string
		want         uint64
	}{
		"no controllers":         {want: 0},
		"quiet":                  {leaf: leaf{events: true, memory: true, tasks: true}, memory: quiet, pids: "max 0\n", want: eventsKnown},
		"its own limit":          {leaf: leaf{events: true, memory: true}, memory: "max 9\noom 1\noom_kill 2\n", want: eventsKnown | oomKilled | memoryOver},
		"the machine's memory":   {leaf: leaf{events: true, memory: true}, memory: "max 0\noom 0\noom_kill 1\n", want: eventsKnown | oomKilled},
		"no limit of its own":    {leaf: leaf{events: true}, memory: "max 0\noom 1\noom_kill 1\n", want: eventsKnown | oomKilled},
		"reached but survived":   {leaf: leaf{events: true, memory: true}, memory: "max 900\noom 1\noom_kill 0\n", want: eventsKnown},
		"tasks":                  {leaf: leaf{tasks: true}, pids: "max 1\n", want: tasksOver},
		"tasks of another limit": {leaf: leaf{}, pids: "max 1\n", want: 0},
		"torn":                   {leaf: leaf{events: true, memory: true}, memory: "oom\noom_kill x\n", want: eventsKnown},
	} {
		files := map[string]string{"pids.events": c.pids}
		if c.memory != "" {
			files["memory.events"] = c.memory
		}
		l := c.leaf
		l.group = fakeGroup(t, files)
		require.Equal(t, c.want, l.verdict(), name)
	}
	var none *leaf
	require.Zero(t, none.verdict())
	require.Zero(t, none.held())
}

func TestControllersAreHandedDown(t *testing.T) {
	t.Parallel()
	given := fakeGroup(t, map[string]string{"cgroup.controllers": "cpu memory pids\n", "cgroup.subtree_control": ""})
	below := group{filepath.Join(given.path, "below")}
	require.NoError(t, os.Mkdir(below.path, 0o700))
	for name, text := range map[string]string{"cgroup.controllers": "pids\n", "cgroup.subtree_control": ""} {
		require.NoError(t, os.WriteFile(filepath.Join(below.path, name), []byte(text), 0o600))
	}
	require.Contains(t, handDown(given.path, below), "hands down no memory controller")
	require.Empty(t, given.read(t, "cgroup.subtree_control"), "a group that nobody gave to this user is left as it is")
	require.Equal(t, "+pids", below.read(t, "cgroup.subtree_control"))
}

// The kernel keeps the mark of delegation only on its own file system.
func TestDelegation(t *testing.T) {
	t.Parallel()
	m := thisMachine(t)
	if !m.group {
		require.False(t, delegated(t.TempDir()))
		return
	}
	at, err := findPlace()
	require.NoError(t, err)
	given := group{filepath.Join(at.own, "test-delegated-"+messages.NewIncarnation().String())}
	require.NoError(t, os.Mkdir(given.path, 0o755))
	defer given.remove()
	below := place{mount: at.mount, own: filepath.Join(given.path, "node")}
	require.Equal(t, below.own, below.base(), "the group above is somebody else's")
	if err := unix.Setxattr(given.path, "user.delegate", []byte("1"), 0); err != nil {
		require.ErrorIs(t, err, unix.EOPNOTSUPP, "before Linux 5.7")
		require.NoError(t, unix.Setxattr(given.path, "trusted.delegate", []byte("1"), 0))
	}
	require.True(t, delegated(given.path))
	require.Equal(t, given.path, below.base())
	require.Equal(t, at.mount, place{at.mount, at.mount}.base(), "nothing is above the mount")
}

// Only a group finds this descendant: it has left its session, its environment and its parents.
func TestNoFugitiveOutlivesItsProgram(t *testing.T) {
	t.Parallel()
	m := thisMachine(t)
	g := newGuardian(t, Config{})
	dir := t.TempDir()
	path, end := filepath.Join(dir, "pid"), filepath.Join(dir, "end")
	p, events := run(t, g, Spec{Argv: shell(fugitive(path) + "; while ! test -e " + end + "; do :; done; exit 1")})
	escaped := pidIn(t, path)
	require.Eventually(t, func() bool {
		v, err := p.Vitals()
		return err == nil && (m.group && v.Count == 2 || !m.group && v.Count == 1)
	}, patience, time.Millisecond, "a group counts it, nothing else can")
	require.NoError(t, os.WriteFile(end, nil, 0o600))
	exit, _ := events.exit(t)
	require.Equal(t, Exit{Code: 1, Cause: CauseExit}, exit)
	require.Equal(t, !m.group, escaped.alive(), "gone when the exit is told, where there are groups")
	require.NoError(t, g.Close())
	gone(t, time.Second, escaped)
	if m.group {
		require.NoDirExists(t, g.group.path)
	}
}

func TestGroupOfAProgram(t *testing.T) {
	t.Parallel()
	m := thisMachine(t)
	g := newGuardian(t, Config{})
	path := filepath.Join(t.TempDir(), "pid")
	p, events := run(t, g, Spec{Argv: shell(fugitive(path) + "; cat /proc/self/cgroup; echo; read line"), Framed: true, Limits: messages.Limits{OpenFiles: 64}})
	events.exit(t)
	out := string(p.TakeOutput().Stdout)
	name := fmt.Sprintf("/%s%s/%s\n", groupPrefix, g.cfg.Incarnation, "1.1")
	require.Equal(t, m.group, strings.Contains(out, name), "in its group from the first instant, through the shim as well: %s", out)
	if !m.group {
		return
	}
	require.Eventually(t, func() bool { return len(g.group.below()) == 0 }, patience, time.Millisecond, "the group of an ended program is removed")
}

func TestSampledProcessesCountFugitives(t *testing.T) {
	t.Parallel()
	m := thisMachine(t)
	g := newGuardian(t, Config{WithoutGroups: !m.group})
	dir := t.TempDir()
	script := ""
	for i := range 4 {
		script += fugitive(filepath.Join(dir, strconv.Itoa(i))) + "; "
	}
	_, events := run(t, g, Spec{Argv: shell(script + "exec sleep 2"), Limits: messages.Limits{Processes: 4}})
	exit, _ := events.exit(t)
	if m.group {
		require.Equal(t, CauseProcesses, exit.Cause)
		return
	}
	require.Equal(t, CauseExit, exit.Cause, "without groups their marks would be needed")
}

// A killed guardian cannot end its groups. Its watcher ends the processes in them, and the node removes the groups.
func TestGuardianKilledWithAFugitive(t *testing.T) {
	t.Parallel()
	m := thisMachine(t)
	require.NoError(t, BecomeSubreaper())
	g := newGuardian(t, Config{})
	path := filepath.Join(t.TempDir(), "pid")
	_, events := run(t, g, Spec{Argv: shell(fugitive(path) + "; exec sleep 60")})
	escaped := pidIn(t, path)
	require.NoError(t, syscall.Kill(g.Pid(), syscall.SIGKILL))
	exit, _ := events.exit(t)
	require.Equal(t, CauseGuardian, exit.Cause)
	require.False(t, escaped.alive())
	if m.group {
		require.Empty(t, g.group.below())
	}
}

// Node, watcher and guardian are killed together: the next boot finds the groups by the incarnation in the ledger.
func TestLeftGroupsAreEndedAtBoot(t *testing.T) {
	t.Parallel()
	m := thisMachine(t)
	ledgerAt := filepath.Join(t.TempDir(), "ledger")
	path := filepath.Join(t.TempDir(), "pid")
	node, guardian := startNodeWith(t, ledgerAt, "0s", t.TempDir(), "", fugitive(path)+"; exec sleep 60")
	escaped := pidIn(t, path)
	raw, err := os.ReadFile(ledgerAt)
	require.NoError(t, err)
	_, _, dead := survivors(parseLedger(raw))
	require.Len(t, dead, 1)
	require.Equal(t, m.group, len(leftGroups(dead)) == 1)
	killAbove(t, node, guardian)
	require.True(t, escaped.alive())
	ended, err := EndSurvivors(ledgerAt)
	require.NoError(t, err)
	require.Equal(t, !m.group, escaped.alive())
	if m.group {
		require.Positive(t, ended)
		require.Empty(t, leftGroups(dead), "killed and removed")
		return
	}
	require.NoError(t, escaped.kill())
}

func TestGroupThatIsGoneIsMadeAgain(t *testing.T) {
	t.Parallel()
	m := thisMachine(t)
	g := newGuardian(t, Config{})
	_, events := run(t, g, Spec{Argv: []string{"true"}})
	events.exit(t)
	if m.group {
		require.Eventually(t, func() bool { return syscall.Rmdir(g.group.path) == nil }, patience, time.Millisecond)
	}
	p, events := run(t, g, Spec{Argv: []string{"sleep", "60"}})
	in, grouped := p.(*program).group()
	require.Equal(t, m.group, grouped)
	require.Equal(t, m.group, in.populated())
	p.Kill()
	events.exit(t)
}

// A program starts even when the kernel refuses its group. Here the folder is not in a cgroup file system.
func TestGroupThatIsRefused(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	g.looked, g.group, g.means = true, group{t.TempDir()}, means{group: true, kill: true}
	for range 2 {
		p, events := run(t, g, Spec{Argv: shell("exit 3")})
		_, grouped := p.(*program).group()
		require.False(t, grouped)
		exit, _ := events.exit(t)
		require.Equal(t, 3, exit.Code)
	}
	require.Empty(t, g.group.below())

	_, none, reason := openGroupIn(t.TempDir(), messages.NewIncarnation())
	require.Equal(t, means{}, none)
	require.Contains(t, reason, "cgroup.procs may not be written")
}

// The kernel enforces the limit where the controller reaches the programs. Elsewhere samples do.
func TestMemoryIsHeldByWhatThereIs(t *testing.T) {
	t.Parallel()
	m := thisMachine(t)
	g := newGuardian(t, Config{})
	eater, err := os.Executable()
	require.NoError(t, err)
	p, events := run(t, g, Spec{Argv: []string{eater}, Env: environment(roleVar + "=eater"), Limits: messages.Limits{Memory: 100 << 20, Processes: 50}})
	in, grouped := p.(*program).group()
	require.Equal(t, m.group, grouped)
	require.Equal(t, m.memory, p.(*program).held.Load()&memoryHeld != 0, "what the kernel does not hold is sampled")
	require.Equal(t, m.memory, in.has("memory.max"))
	require.Equal(t, m.tasks, in.has("pids.max"))
	exit, _ := events.exit(t)
	require.Equal(t, Exit{Code: -1, Signal: "SIGKILL", Cause: CauseMemory}, exit)
}

func TestJudgeWithAGroup(t *testing.T) {
	t.Parallel()
	const killed, one = 9, 1 << 8
	over := uint64(eventsKnown | oomKilled | memoryOver)
	for name, c := range map[string]struct {
		x    exitReport
		e    evidence
		want Exit
	}{
		"its memory limit":      {exitReport{status: killed, group: over}, evidence{oom: true}, Exit{Code: -1, Signal: "SIGKILL", Cause: CauseMemory}},
		"a child over it":       {exitReport{status: one, group: over}, evidence{oom: true}, Exit{Code: 1, Cause: CauseMemory}},
		"the machine's memory":  {exitReport{status: killed, group: eventsKnown | oomKilled}, evidence{oom: true}, Exit{Code: -1, Signal: "SIGKILL", Cause: CauseOOM}},
		"a fork was refused":    {exitReport{status: one, group: tasksOver}, evidence{}, Exit{Code: 1, Cause: CauseProcesses}},
		"refused and got along": {exitReport{group: tasksOver}, evidence{}, Exit{Cause: CauseExit}},
		"stopped, then over":    {exitReport{status: killed, killed: true, group: over}, evidence{asked: CauseStopped}, Exit{Code: -1, Signal: "SIGKILL", Cause: CauseStopped}},
	} {
		require.Equal(t, c.want, exitOf(c.x, c.e), name)
	}
}

// A plain folder replaces the hierarchy: neither can be removed while it is not empty.
func TestEmptyGroupsLeftBehindAreRemoved(t *testing.T) {
	t.Parallel()
	base := group{t.TempDir()}
	for _, name := range []string{"troupe-empty", "troupe-used/1.1", "somebody-else"} {
		require.NoError(t, os.MkdirAll(filepath.Join(base.path, name), 0o700))
	}
	base.tidy(time.Now())
	require.Len(t, base.below(), 3, "all are young")
	base.tidy(time.Now().Add(2 * emptyTime))
	require.NoDirExists(t, filepath.Join(base.path, "troupe-empty"))
	require.DirExists(t, filepath.Join(base.path, "troupe-used/1.1"))
	require.DirExists(t, filepath.Join(base.path, "somebody-else"))
}

func TestBoundsAreTheSmallestOnThePath(t *testing.T) {
	const mounts1 = `32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
`
	const none1 = "9223372036854771712"
	for name, c := range map[string]struct {
		groups, mounts string
		files          map[string]string
		want           Bounds
	}{
		"nothing": {"", "", nil, Bounds{}},
		"v2, without limits": {"0::/a/b\n", unifiedMounts, map[string]string{"/sys/fs/cgroup/a/b/memory.max": "max", "/sys/fs/cgroup/a/b/cpu.max": "max 100000"},
			Bounds{Version: "v2"}},
		"v2, the group above is smaller": {"0::/a/b\n", unifiedMounts, map[string]string{
			"/sys/fs/cgroup/a/b/memory.max": "536870912", "/sys/fs/cgroup/a/memory.max": "134217728",
			"/sys/fs/cgroup/a/b/cpu.max": "50000 100000", "/sys/fs/cgroup/a/cpu.max": "400000 100000",
		}, Bounds{"v2", 134217728, "/sys/fs/cgroup/a", 0.5, "/sys/fs/cgroup/a/b"}},
		"v2, memory.high is where the kernel begins to hold it back": {"0::/a\n", unifiedMounts, map[string]string{
			"/sys/fs/cgroup/a/memory.max": "536870912", "/sys/fs/cgroup/a/memory.high": "134217728",
		}, Bounds{"v2", 134217728, "/sys/fs/cgroup/a", 0, ""}},
		"v2, a container sees its own group as the root": {"0::/\n", unifiedMounts, map[string]string{"/sys/fs/cgroup/memory.max": "134217728"},
			Bounds{"v2", 134217728, "/sys/fs/cgroup", 0, ""}},
		"v1": {"4:memory:/a/b\n1:cpu,cpuacct:/c\n", mounts1, map[string]string{
			"/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": none1, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "134217728",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes":   none1,
			"/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_quota_us": "150000", "/sys/fs/cgroup/cpu,cpuacct/c/cpu.cfs_period_us": "100000",
			"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1", "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
		}, Bounds{"v1", 134217728, "/sys/fs/cgroup/memory/a", 1.5, "/sys/fs/cgroup/cpu,cpuacct/c"}},
		"v1 with v2 beside it": {"4:memory:/a\n0::/\n", mounts1 + unifiedMounts, map[string]string{"/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "134217728"},
			Bounds{"v1 and v2", 134217728, "/sys/fs/cgroup/memory/a", 0, ""}},
		"outside of what is mounted": {"0::/../x\n", unifiedMounts, nil, Bounds{}},
		"odd texts":                  {"0::/\n4:memory\n", unifiedMounts, map[string]string{"/sys/fs/cgroup/memory.max": "-5", "/sys/fs/cgroup/cpu.max": "100000"}, Bounds{Version: "v2"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, boundsOf(c.groups, c.mounts, func(path string) string { return c.files[path] }))
		})
	}
}

func TestHeapLimit(t *testing.T) {
	const mib = 1 << 20
	for memory, want := range map[uint64]int64{0: 0, 32 * mib: 64, 100 * mib: 64, 128 * mib: 73, 512 * mib: 342, 4096 * mib: 2851} {
		require.InDelta(t, want*mib, HeapLimit(memory), mib, "%d MiB", memory/mib)
	}
}
