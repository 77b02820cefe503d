package process

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// bystander is a process that looks like a worker's child but belongs to no node.
func bystander(t testing.TB) procID {
	t.Helper()
	cmd := exec.Command("sh", "-c", "trap '' TERM; while :; do sleep 60; done")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	id, ok := identify(cmd.Process.Pid)
	require.True(t, ok)
	return id
}

func TestGuardianKilled(t *testing.T) {
	t.Parallel()
	require.NoError(t, BecomeSubreaper())
	g := newGuardian(t, Config{})
	other := bystander(t)
	for range 2 {
		dir := t.TempDir()
		p, events := run(t, g, Spec{Dir: dir, Argv: shell(stubborn + "; echo up; wait")})
		family := append(stubbornFamily(t, dir), procID{p.Pid(), mustStat(t, p.Pid()).id.start})
		guardian := g.Pid()
		require.NoError(t, syscall.Kill(guardian, syscall.SIGKILL))
		exit, _ := events.exit(t)
		require.Equal(t, Exit{Code: -1, Cause: CauseGuardian, Lost: true}, exit)
		for _, id := range family {
			_, err := readStat(id.pid)
			require.ErrorIs(t, err, os.ErrNotExist, "all are dead and reaped when the exit is told")
		}
		require.NotEqual(t, guardian, g.Pid())
	}
	_, events := run(t, g, Spec{Argv: shell("exit 5")})
	exit, _ := events.exit(t)
	require.Equal(t, 5, exit.Code, "a new guardian has started")
	require.True(t, other.alive())
}

func mustStat(t testing.TB, pid int) procStat {
	t.Helper()
	stat, err := readStat(pid)
	require.NoError(t, err)
	return stat
}

func TestGuardianRestartsAreBounded(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	start := func() error {
		_, err := g.Start(t.Context(), Spec{Argv: []string{"true"}, Env: environment()}, func(Event) {})
		return err
	}
	for range 2 {
		require.NoError(t, start())
		require.NoError(t, g.link.cmd.Process.Kill())
		<-g.link.down
	}
	g.starts = slices.Repeat([]time.Time{time.Now()}, restartMax) // as if five had died by now: a busy machine takes long for as many
	err := start()
	require.ErrorIs(t, err, ErrGuardian)
	require.ErrorContains(t, err, "start true: process guardian: died 5 times in 10s: the next one starts in ")
	g.starts[0] = time.Now().Add(-restartTime)
	require.NoError(t, start(), "the first death is too long ago to count")
}

func TestStartFindsTheGuardianDead(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	_, events := run(t, g, Spec{Argv: []string{"true"}})
	events.exit(t)
	l := g.link
	l.sendMu.Lock() // the request is held back until its guardian has ended
	go func() {
		defer l.sendMu.Unlock()
		await(func() bool { return len(l.all()) > 0 })
		_ = l.cmd.Process.Kill()
		<-l.down
	}()
	_, events = run(t, g, Spec{Argv: shell("exit 4")})
	exit, _ := events.exit(t)
	require.Equal(t, 4, exit.Code)
}

// await polls a condition outside the test's goroutine, for patience at most.
func await(holds func() bool) {
	for end := time.Now().Add(patience); !holds() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// A guardian that dies after the request and before the answer may have begun the program. The program is not started
// again.
func TestAStartThatMayHaveBegunIsNotRepeated(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	_, events := run(t, g, Spec{Argv: []string{"true"}})
	events.exit(t)
	log := filepath.Join(t.TempDir(), "log")
	l := g.link
	require.NoError(t, syscall.Kill(g.Pid(), syscall.SIGSTOP)) // it gets the request and never answers
	go func() {
		await(func() bool { return l.unread(t) > 0 })
		_ = syscall.Kill(l.pid(), syscall.SIGKILL)
	}()
	_, err := g.Start(t.Context(), Spec{Argv: shell("echo ran >>" + log), Env: environment()}, func(Event) {})
	require.ErrorIs(t, err, ErrGuardian)
	require.ErrorContains(t, err, "the program may have begun")
	require.NoFileExists(t, log)
}

// unread returns how many sent bytes the guardian has not read.
func (l *link) unread(t *testing.T) (n int) {
	raw, err := l.conn.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	}
	assert.NoError(t, err)
	return n
}

func TestKillFindsThoseWhoHide(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	path := filepath.Join(t.TempDir(), "pid")
	p, events := run(t, g, Spec{Argv: shell(fmt.Sprintf("setsid env -i /bin/sh -c 'echo $$ >%s; exec /bin/sleep 60' & wait", path))})
	hidden := pidIn(t, path)
	p.Kill()
	events.exit(t)
	gone(t, time.Second, hidden)
}

func TestGuardianMissing(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{Executable: "/nonexistent/troupe"})
	_, err := g.Start(t.Context(), Spec{Argv: []string{"true"}, Env: environment()}, nil)
	require.ErrorIs(t, err, ErrGuardian)
	require.ErrorContains(t, err, "/nonexistent/troupe")
}

func TestGuardianRefusesToRunByItself(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	out, err := (&exec.Cmd{Path: self, Args: []string{guardianName}, Env: []string{}}).CombinedOutput()
	require.ErrorContains(t, err, "exit status 2")
	require.Contains(t, string(out), "is started by a node")
}

func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	dir := t.TempDir()
	_, events := run(t, g, Spec{Dir: dir, Argv: shell(stubborn + "; wait")})
	family := stubbornFamily(t, dir)
	began := time.Now()
	require.NoError(t, g.Close())
	require.Less(t, time.Since(began), closeTime)
	for _, id := range family {
		require.False(t, id.alive())
	}
	exit, _ := events.exit(t)
	require.Equal(t, -1, exit.Code)
	_, err := g.Start(t.Context(), Spec{Argv: []string{"/bin/true"}}, nil)
	require.ErrorIs(t, err, ErrClosed)
	_, err = NewGuardian(Config{Lease: -1})
	require.ErrorContains(t, err, "lease must not be negative, got -1ns")
	_, err = NewGuardian(Config{Ledger: "/nonexistent/ledger"})
	require.ErrorContains(t, err, "process ledger: open /nonexistent/ledger")
}

func TestLease(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second // longer than a busy machine pauses a test
	g := newGuardian(t, Config{Lease: lease})
	began := time.Now()
	_, events := run(t, g, Spec{Argv: shell("trap '' TERM; setsid sleep 60")})
	for time.Since(began) < lease*3/2 {
		g.Renew(time.Now())
		select {
		case e := <-events:
			require.Failf(t, "a renewed lease holds", "%+v", e)
		case <-time.After(lease / 20):
		}
	}
	renewed := time.Now()
	g.Renew(renewed)
	exit, _ := events.exit(t)
	require.Equal(t, "SIGKILL", exit.Signal)
	require.Equal(t, CauseStopped, exit.Cause)
	require.GreaterOrEqual(t, time.Since(renewed), lease-10*time.Millisecond)
	require.Less(t, time.Since(renewed), lease+5*time.Second)
	_, err := g.Start(t.Context(), Spec{Argv: []string{"true"}, Env: environment()}, nil)
	require.ErrorContains(t, err, "the node's lease has ended")
	g.Renew(time.Now())
	_, events = run(t, g, Spec{Argv: []string{"true"}})
	exit, _ = events.exit(t)
	require.Equal(t, Exit{Cause: CauseExit}, exit, "a renewed lease lets programs start again")
}

// startNode runs this binary as a node with three programs, and returns when all of their processes run.
func startNode(t testing.TB, ledger, lease string) (node *exec.Cmd, family []procID) {
	t.Helper()
	dir := t.TempDir()
	node, guardian := startNodeWith(t, ledger, lease, dir, "", "echo $$ >first;"+stubborn+"; wait", "trap '' TERM; echo $$ >second; while :; do :; done")
	family = stubbornFamily(t, dir)
	for _, name := range []string{"first", "second"} {
		family = append(family, pidIn(t, filepath.Join(dir, name)))
	}
	return node, append(family, guardian)
}

// startNodeWith runs this binary as a node with a program for each script, in dir; groups "none": without cgroups.
func startNodeWith(t testing.TB, ledger, lease, dir, groups string, scripts ...string) (node *exec.Cmd, guardian procID) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	node = exec.Command(self, scripts...)
	node.Env = append(environment(), roleVar+"=node", "PIDS="+dir, "LEDGER="+ledger, "LEASE="+lease, "GROUPS="+groups)
	node.Stderr = os.Stderr
	out, err := node.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, node.Start())
	t.Cleanup(func() {
		_ = node.Process.Kill()
		_ = node.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	var pid int
	_, err = fmt.Sscanf(line, "guardian %d", &pid)
	require.NoError(t, err)
	return node, mustStat(t, pid).id
}

func TestNodeKilled(t *testing.T) {
	t.Parallel()
	other := bystander(t)
	for range 5 {
		node, family := startNode(t, filepath.Join(t.TempDir(), "ledger"), "0s")
		require.NoError(t, node.Process.Kill())
		gone(t, 5*time.Second, family...)
		require.True(t, other.alive())
	}
}

func TestNodeFrozen(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	node, family := startNode(t, filepath.Join(t.TempDir(), "ledger"), lease.String())
	guardian := len(family) - 1
	require.NoError(t, node.Process.Signal(syscall.SIGSTOP))
	gone(t, lease+5*time.Second, family[:guardian]...)
	require.True(t, family[guardian].alive(), "it waits for the node to come back")
	require.NoError(t, node.Process.Kill())
	gone(t, 5*time.Second, family[guardian])
}

// watcherOf is the parent of a guardian.
func watcherOf(t testing.TB, guardian procID) procID {
	t.Helper()
	return mustStat(t, mustStat(t, guardian.pid).ppid).id
}

// No process outlives a node and a guardian that are killed together, with a cgroup and without one. This holds even
// for a descendant that left its session, cleared its environment and lost its parents.
func TestNodeAndGuardianKilledTogether(t *testing.T) {
	t.Parallel()
	other := bystander(t)
	for _, groups := range []string{"", "none"} {
		ledger, dir := filepath.Join(t.TempDir(), "ledger"), t.TempDir()
		path := filepath.Join(dir, "fugitive")
		node, guardian := startNodeWith(t, ledger, "0s", dir, groups, "echo $$ >first;"+stubborn+"; wait", fugitive(path)+"; exec sleep 60")
		family := append(stubbornFamily(t, dir), pidIn(t, filepath.Join(dir, "first")), pidIn(t, path), guardian, watcherOf(t, guardian))
		require.NoError(t, node.Process.Signal(syscall.SIGSTOP))
		require.NoError(t, guardian.kill())
		require.NoError(t, node.Process.Kill())
		gone(t, 5*time.Second, family...)
		ended, err := EndSurvivors(ledger)
		require.NoError(t, err)
		require.Zero(t, ended, "nothing is left for the next boot")
	}
	require.True(t, other.alive())
}

// When the watcher is killed too, the next boot ends the processes that are left.
func TestNodeGuardianAndWatcherKilledTogether(t *testing.T) {
	t.Parallel()
	other := bystander(t)
	path := filepath.Join(t.TempDir(), "ledger")
	node, family := startNode(t, path, "0s")
	guardian := family[len(family)-1]
	killAbove(t, node, guardian)
	for _, id := range family[:3] {
		require.True(t, id.alive(), "the workers' children are left for the next boot to find")
	}
	ended, err := EndSurvivors(path)
	require.NoError(t, err)
	require.GreaterOrEqual(t, ended, 3)
	gone(t, time.Second, family...)
	require.True(t, other.alive())
	ended, err = EndSurvivors(path)
	require.NoError(t, err)
	require.Zero(t, ended, "the ledger is empty now")
}

// killAbove kills a node, its watcher and its guardian at once, so that none can react.
func killAbove(t testing.TB, node *exec.Cmd, guardian procID) {
	t.Helper()
	watcher := watcherOf(t, guardian)
	require.NoError(t, node.Process.Signal(syscall.SIGSTOP))
	require.NoError(t, syscall.Kill(watcher.pid, syscall.SIGSTOP))
	require.NoError(t, guardian.kill())
	require.NoError(t, watcher.kill())
	require.NoError(t, node.Process.Kill())
	gone(t, 5*time.Second, guardian, watcher)
}

// When node and watcher are killed together, the guardian ends all processes.
func TestNodeAndWatcherKilledTogether(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "fugitive")
	node, guardian := startNodeWith(t, "", "0s", dir, "none", stubborn+"; wait", fugitive(path)+"; exec sleep 60")
	family := append(stubbornFamily(t, dir), pidIn(t, path), guardian, watcherOf(t, guardian))
	require.NoError(t, node.Process.Signal(syscall.SIGSTOP))
	require.NoError(t, watcherOf(t, guardian).kill())
	require.NoError(t, node.Process.Kill())
	gone(t, 5*time.Second, family...)
}

// When the watcher dies, the guardian ends too, and the node starts new ones.
func TestWatcherKilled(t *testing.T) {
	t.Parallel()
	require.NoError(t, BecomeSubreaper())
	g := newGuardian(t, Config{})
	dir := t.TempDir()
	_, events := run(t, g, Spec{Dir: dir, Argv: shell(stubborn + "; wait")})
	family := stubbornFamily(t, dir)
	watcher := watcherOf(t, mustStat(t, g.Pid()).id)
	require.NoError(t, watcher.kill())
	exit, _ := events.exit(t)
	require.Equal(t, CauseGuardian, exit.Cause)
	gone(t, time.Second, append(family, watcher)...)
	_, events = run(t, g, Spec{Argv: shell("exit 5")})
	exit, _ = events.exit(t)
	require.Equal(t, 5, exit.Code)
}

func TestLedgerSparesAReusedPid(t *testing.T) {
	t.Parallel()
	other := bystander(t)
	path := filepath.Join(t.TempDir(), "ledger")
	inc := incarnation(t)
	records := []record{
		{boot: bootID(), id: procID{other.pid, other.start - 1}, incarnation: inc}, // an earlier process with this pid
		{boot: "another-boot", id: other, incarnation: inc},
		{boot: bootID(), id: procID{1 << 21, 1}, incarnation: inc},
	}
	var raw strings.Builder
	for _, r := range records {
		raw.Write(r.line())
	}
	raw.WriteString("torn rec")
	require.NoError(t, os.WriteFile(path, []byte(raw.String()), 0o600))
	require.Equal(t, records, parseLedger([]byte(raw.String())))
	ended, err := EndSurvivors(path)
	require.NoError(t, err)
	require.Zero(t, ended)
	require.True(t, other.alive())
}

func TestEndSurvivorsWithoutALedger(t *testing.T) {
	t.Parallel()
	ended, err := EndSurvivors(filepath.Join(t.TempDir(), "none"))
	require.NoError(t, err)
	require.Zero(t, ended)
	_, err = EndSurvivors(t.TempDir())
	require.ErrorContains(t, err, "read process ledger")
}

func TestLedgerStaysSmall(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger")
	g := newGuardian(t, Config{Ledger: path})
	for range 20 {
		_, events := run(t, g, Spec{Argv: []string{"true"}})
		events.exit(t)
	}
	_, events := run(t, g, Spec{Argv: []string{"sleep", "60"}})
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.LessOrEqual(t, len(raw), 3*recordLen)
	require.Len(t, parseLedger(raw), 2, "the guardian and the one program that lives")
	require.NoError(t, g.Close())
	events.exit(t)
}

func FuzzLedger(f *testing.F) {
	f.Add([]byte("boot 12 34 0199aaaa-0000-7000-8000-000000000000\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, r := range parseLedger(raw) {
			require.Greater(t, r.id.pid, 1, "nobody ends init")
			again, ok := parseRecord(r.line())
			require.True(t, ok)
			require.Equal(t, r, again)
		}
	})
}

func FuzzStat(f *testing.F) {
	f.Add([]byte("42 (a) b) R 1 42 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 777 1 1"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if stat, err := parseStat(42, raw); err == nil {
			require.Equal(t, 42, stat.id.pid)
		}
	})
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	var all []recorder
	for i := range 60 {
		r := newRecorder()
		_, err := g.Start(context.Background(), Spec{Argv: shell(fmt.Sprintf("echo %d; exit %d", i, i)), Env: environment()}, r.sink)
		require.NoError(t, err)
		all = append(all, r)
	}
	for i, r := range all {
		exit, before := r.exit(t)
		require.Equal(t, Exit{Code: i, Cause: CauseExit}, exit)
		require.Equal(t, []Event{Wrote{Data: fmt.Appendf(nil, "%d\n", i)}}, before)
	}
}
