package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/troupe-run/troupe/messages"
)

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	eater, err := os.Executable()
	require.NoError(t, err)
	// The shell itself stays small: the limit is on the tree.
	_, events := run(t, g, Spec{
		Argv: shell(eater + " & wait"), Env: environment(roleVar + "=eater"),
		Limits: messages.Limits{Memory: 100 << 20},
	})
	exit, _ := events.exit(t)
	require.Equal(t, Exit{Code: -1, Signal: "SIGKILL", Cause: CauseMemory}, exit)
}

func TestUnderTheMemoryLimit(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	_, events := run(t, g, Spec{Argv: []string{"sleep", "1.2"}, Limits: messages.Limits{Memory: 100 << 20, Processes: 1}})
	exit, _ := events.exit(t)
	require.Equal(t, Exit{Cause: CauseExit}, exit, "two samples left it alone")
}

func TestProcessesLimit(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	_, events := run(t, g, Spec{Argv: shell("for i in 1 2 3 4 5 6; do setsid sleep 60 & done; wait"), Limits: messages.Limits{Processes: 5}})
	exit, _ := events.exit(t)
	require.Equal(t, CauseProcesses, exit.Cause)
}

func TestCPULimit(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	for name, c := range map[string]struct{ script, signal string }{
		"obedient": {"while :; do :; done", "SIGXCPU"},
		"stubborn": {"trap '' XCPU; while :; do :; done", "SIGKILL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, events := run(t, g, Spec{Argv: shell(c.script), Limits: messages.Limits{CPUTime: 300 * time.Millisecond}})
			exit, _ := events.exit(t)
			require.Equal(t, Exit{Code: -1, Signal: c.signal, Cause: CauseCPU}, exit)
		})
	}
}

// Default limits hold where a pool sets none, without a shim and with one.
func TestDefaultLimits(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	var hard, core syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(unix.RLIMIT_NOFILE, &hard))
	require.NoError(t, syscall.Getrlimit(unix.RLIMIT_CORE, &core))
	show := func(most uint64) string {
		if most == unix.RLIM_INFINITY {
			return "unlimited"
		}
		return strconv.FormatUint(most, 10)
	}
	for _, limits := range []messages.Limits{{}, {CPUTime: time.Hour}} {
		p, events := run(t, g, Spec{Argv: shell(`ulimit -Sn; ulimit -Hn; ulimit -Sc; ulimit -Sn $(ulimit -Hn) && ulimit -Sn`), Limits: limits})
		exit, _ := events.exit(t)
		require.Zero(t, exit.Code)
		require.Equal(t, []string{show(min(openFilesDefault, hard.Max)), show(hard.Max), "0", show(hard.Max)},
			strings.Fields(string(p.TakeOutput().Stdout)), "%+v", limits)
	}
}

// The kernel bounds threads even without a limit, and the bound is far above one.
func TestBoundOnThreads(t *testing.T) {
	t.Parallel()
	l := &leaf{group: group{t.TempDir()}}
	file := filepath.Join(l.path, "pids.max")
	for processes, want := range map[uint64]string{0: "4096", 1: "256", 100: "25600", 1 << 60: "2147483392"} {
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		require.True(t, l.limitTasks(processes))
		got, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}

func TestOpenFilesLimit(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	p, events := run(t, g, Spec{Argv: shell("ulimit -n; ulimit -t; tr '\\0' ' ' </proc/$$/cmdline; ls /proc/$$/fd"),
		Limits: messages.Limits{OpenFiles: 33}, Framed: true})
	exit, _ := events.exit(t)
	require.Zero(t, exit.Code)
	require.Regexp(t, "^33\nunlimited\nsh -c .* 0\n1\n2\n3\n4\n$", string(p.TakeOutput().Stdout), "the shim leaves no trace")
	p, events = run(t, g, Spec{Argv: python("open_files = []\nwhile True: open_files.append(open('/dev/null'))"), Limits: messages.Limits{OpenFiles: 33}})
	exit, _ = events.exit(t)
	require.Equal(t, Exit{Code: 1, Cause: CauseExit}, exit)
	require.Contains(t, p.StderrTail(), "Too many open files")
}

func TestProgramsDieBeforeTheNodeWhenMemoryRunsOut(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	_, events := run(t, g, Spec{Argv: shell("while read -r score </proc/$$/oom_score_adj; test $score != 500; do :; done")})
	exit, _ := events.exit(t)
	require.Zero(t, exit.Code)
}

func TestCPULimitIsRoundedUp(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	p, events := run(t, g, Spec{Argv: shell("ulimit -t"), Limits: messages.Limits{CPUTime: 1500 * time.Millisecond}})
	events.exit(t)
	require.Equal(t, "2\n", string(p.TakeOutput().Stdout), "the kernel counts whole seconds")
}

func TestJudge(t *testing.T) {
	t.Parallel()
	const killed, xcpu, one = 9, 24, 1 << 8
	for name, c := range map[string]struct {
		x    exitReport
		e    evidence
		want Exit
	}{
		"clean":                {exitReport{}, evidence{}, Exit{Cause: CauseExit}},
		"clean after SIGTERM":  {exitReport{killed: true}, evidence{asked: CauseStopped}, Exit{Cause: CauseStopped}},
		"by the lease":         {exitReport{status: killed, killed: true}, evidence{}, Exit{Code: -1, Signal: "SIGKILL", Cause: CauseStopped}},
		"oom":                  {exitReport{status: killed}, evidence{oom: true}, Exit{Code: -1, Signal: "SIGKILL", Cause: CauseOOM}},
		"someone's SIGKILL":    {exitReport{status: killed}, evidence{}, Exit{Code: -1, Signal: "SIGKILL", Cause: CauseSignal}},
		"memory wins over oom": {exitReport{status: killed, killed: true}, evidence{asked: CauseMemory, oom: true}, Exit{Code: -1, Signal: "SIGKILL", Cause: CauseMemory}},
		"cpu":                  {exitReport{status: xcpu}, evidence{limit: 1}, Exit{Code: -1, Signal: "SIGXCPU", Cause: CauseCPU}},
		"cpu of its own":       {exitReport{status: xcpu}, evidence{}, Exit{Code: -1, Signal: "SIGXCPU", Cause: CauseSignal}},
		"killed under limit":   {exitReport{status: killed, cpu: 5}, evidence{limit: 9}, Exit{Code: -1, Signal: "SIGKILL", Cause: CauseSignal}},
		"exit 1 over cpu":      {exitReport{status: one, cpu: 50}, evidence{limit: 9}, Exit{Code: 1, Cause: CauseExit}},
	} {
		require.Equal(t, c.want, exitOf(c.x, c.e), name)
	}
}

// Each process counts its share of shared pages: a program that uses the system's libraries counts less than its
// resident size.
func TestSharedPagesAreDivided(t *testing.T) {
	t.Parallel()
	pages := make([]byte, 8<<20)
	for i := range pages {
		pages[i] = 1 // not shared
	}
	bytesUsed, ok := proportional(os.Getpid())
	if !ok {
		t.Skip("this kernel has no smaps_rollup")
	}
	require.Greater(t, bytesUsed, int64(len(pages)))
	runtime.KeepAlive(pages)

	c := exec.Command("sleep", "60")
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	other := exec.Command("sleep", "60") // shares the whole program
	require.NoError(t, other.Start())
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
	require.Eventually(t, func() bool {
		bytesUsed, ok := proportional(c.Process.Pid)
		return ok && bytesUsed > 0 && bytesUsed < resident(c.Process.Pid)
	}, 10*time.Second, 10*time.Millisecond)
}
