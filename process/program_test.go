package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
)

func python(script string) []string { return []string{"python3", "-c", script} }

func TestFramesEcho(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	p, events := run(t, g, Spec{Argv: python(echoWorker), Framed: true})
	for i := range uint64(50) {
		id, err := p.Send("execute", map[string]uint64{"n": i})
		require.NoError(t, err)
		require.Equal(t, i+1, id, "ids grow by one")
		reply := next[Reply](t, events)
		require.Equal(t, id, reply.ID)
		require.JSONEq(t, fmt.Sprintf(`{"n":%d}`, i), string(reply.Result))
	}
	p.CloseInput()
	exit, _ := events.exit(t)
	require.Equal(t, Exit{Cause: CauseExit}, exit)
	_, err := p.Send("execute", nil)
	require.ErrorIs(t, err, ErrInputClosed)
}

func TestLargeFramesBothWays(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	p, events := run(t, g, Spec{Argv: python(echoWorker), Framed: true})
	text := strings.Repeat("y", 3<<20)
	_, err := p.Send("execute", map[string]string{"text": text})
	require.NoError(t, err)
	_, err = p.Send("ping", nil)
	require.NoError(t, err, "a frame behind a large one waits its turn")
	require.Len(t, next[Reply](t, events).Result, len(text)+len(`{"text": ""}`))
	require.Equal(t, uint64(2), next[Reply](t, events).ID)
	_, err = p.Send("execute", strings.Repeat("y", messages.FrameMax))
	require.ErrorIs(t, err, ErrTooLarge)
	id, err := p.Send("ping", nil)
	require.NoError(t, err)
	require.Equal(t, uint64(3), id, "a refused frame takes no id")
}

func TestPrintsDoNotCorruptFrames(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	noisy := "import sys\nprint('before', flush=True)\n" + strings.ReplaceAll(echoWorker,
		"    while reply:", "    os.write(1, b'\\x00\\x00\\xff{out}'); os.write(2, b'err')\n    while reply:")
	p, events := run(t, g, Spec{Argv: python(noisy), Framed: true})
	for range 20 {
		_, err := p.Send("execute", nil)
		require.NoError(t, err)
		next[Reply](t, events)
		out := p.TakeOutput()
		require.Equal(t, "\x00\x00\xff{out}", strings.TrimPrefix(string(out.Stdout), "before\n"), "output is complete when the answer is here")
		require.Equal(t, "err", string(out.Stderr))
	}
}

func TestBrokenProtocol(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	for name, c := range map[string]struct{ script, reason string }{
		"garbage":    {`printf 'Hello, world' >&4; sleep 60`, `"Hello, world"`},
		"oversized":  {`printf '\001\000\000\001x' >&4; sleep 60`, "frame length 16777217 is outside 1 to 16777216"},
		"not JSON":   {`printf '\000\000\000\004oops' >&4; sleep 60`, `"oops"`},
		"unknown":    {`printf '\000\000\000\017{"event":"jig"}' >&4; sleep 60`, `unknown event "jig"`},
		"closed":     {`exec 4>&-; sleep 60`, "closed its event pipe"},
		"torn":       {`printf '\000\000\000\017{"ev' >&4; exec 4>&-; sleep 60`, "ended within a frame"},
		"not object": {`printf '\000\000\000\004null' >&4; sleep 60`, "not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, events := run(t, g, Spec{Argv: shell(c.script), Framed: true})
			require.Contains(t, next[Broken](t, events).Reason, c.reason)
			exit, _ := events.exit(t)
			require.Equal(t, Exit{Code: -1, Signal: "SIGKILL", Cause: CauseStopped}, exit)
		})
	}
}

func TestHalfAFrameThenSilence(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	began := time.Now()
	_, events := run(t, g, Spec{Argv: shell(`printf '\000\000\001\000{"ev' >&4; sleep 60`), Framed: true})
	require.Contains(t, next[Broken](t, events).Reason, `half a frame and then silence for 10s: 8 of 260 bytes came`)
	require.GreaterOrEqual(t, time.Since(began), silenceTime)
	events.exit(t)
}

func TestNeverReads(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	p, events := run(t, g, Spec{Argv: []string{"sleep", "60"}, Framed: true})
	text := strings.Repeat("z", 64<<10)
	var err error
	sent := 0
	for ; err == nil && sent < 10*queueMax; sent++ {
		_, err = p.Send("ping", text)
	}
	require.ErrorIs(t, err, ErrQueueFull)
	require.Greater(t, sent, queueMax/2)
	p.Kill()
	exit, _ := events.exit(t)
	require.Equal(t, CauseStopped, exit.Cause)
}

func TestQueuedFramesArriveInOrder(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	late := "import time\ntime.sleep(0.2)\n" + echoWorker
	p, events := run(t, g, Spec{Argv: python(late), Framed: true})
	text := strings.Repeat("z", 10_000)
	for range 100 {
		_, err := p.Send("ping", text)
		require.NoError(t, err)
	}
	p.CloseInput()
	for want := range uint64(100) {
		require.Equal(t, want+1, next[Reply](t, events).ID)
	}
	exit, _ := events.exit(t)
	require.Zero(t, exit.Code, "the pipe is closed behind what was queued")
}

func TestOutputCaps(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	p, events := run(t, g, Spec{Argv: shell(`head -c 300000 /dev/zero; head -c 200000 /dev/zero | tr '\0' e >&2; printf END >&2; exit 3`), OutputMax: 1000})
	exit, before := events.exit(t)
	require.Equal(t, Exit{Code: 3, Cause: CauseExit}, exit)
	live := map[bool]int{}
	for _, e := range before {
		live[e.(Wrote).Stderr] += len(e.(Wrote).Data)
	}
	require.Equal(t, map[bool]int{false: 1000, true: 1000}, live)
	out := p.TakeOutput()
	require.Len(t, out.Stdout, 1000)
	require.True(t, out.StdoutCut)
	require.Equal(t, strings.Repeat("e", 1000), string(out.Stderr))
	require.True(t, out.ErrCut)
	require.Len(t, p.StderrTail(), tailMax)
	require.True(t, strings.HasSuffix(p.StderrTail(), "eEND"), "the tail is the end, whatever was cut")
	require.True(t, p.TakeOutput().Empty())
	p.ClearOutput()
	require.Empty(t, p.StderrTail())
}

func TestStdoutHasALimitOfItsOwn(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	p, events := run(t, g, Spec{Argv: shell(`head -c 3000 /dev/zero; head -c 3000 /dev/zero >&2`), OutputMax: 1000, StdoutMax: 2000})
	events.exit(t)
	out := p.TakeOutput()
	require.Len(t, out.Stdout, 2000)
	require.Len(t, out.Stderr, 1000)
}

func TestStdin(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	for _, size := range []int{0, 10, pipeRoom, pipeRoom + 1, 500_000} {
		in := bytes.Repeat([]byte("i"), size)
		p, events := run(t, g, Spec{Argv: []string{"cat"}, Stdin: in})
		exit, _ := events.exit(t)
		require.Equal(t, Exit{Cause: CauseExit}, exit)
		require.Len(t, p.TakeOutput().Stdout, size)
	}
	_, events := run(t, g, Spec{Argv: []string{"true"}, Stdin: make([]byte, 1<<20)})
	exit, _ := events.exit(t)
	require.Zero(t, exit.Code, "unread input is nobody's fault")
	p, events := run(t, g, Spec{Argv: []string{"readlink", "/proc/self/fd/0"}})
	events.exit(t)
	require.Equal(t, "/dev/null\n", string(p.TakeOutput().Stdout))
}

func TestProgramsGetOnlyWhatTheyAreGiven(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	dir := t.TempDir()
	p, events := run(t, g, Spec{Argv: shell(`pwd; ls /proc/self/fd | tr '\n' ' '; env | cut -d= -f1 | sort | tr '\n' ' '`), Dir: dir,
		Env: environment("A=1")})
	events.exit(t)
	require.Equal(t, dir+"\n0 1 2 3 A PATH PWD TROUPE_LINEAGE ", string(p.TakeOutput().Stdout), "3 is the listing's own")
}

func TestStartSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	for want, spec := range map[string]Spec{
		"start pyhton3: executable file not found in PATH (":                   {Argv: []string{"pyhton3"}, Env: environment()},
		"start sh: its environment has no PATH":                                {Argv: []string{"sh"}},
		"no command is given":                                                  {},
		"no such file or directory":                                            {Argv: []string{"/nonexistent/python3"}},
		"may not be executed: permission denied":                               {Argv: []string{file("plain", "", 0o600)}},
		"is a directory":                                                       {Argv: []string{dir}},
		"working directory: stat /nonexistent":                                 {Argv: []string{"/bin/sh"}, Dir: "/nonexistent"},
		"the interpreter in its first line, /nonexistent/python: no such file": {Argv: []string{file("shebang", "#!/nonexistent/python -u\n", 0o700)}},
		"its first line ends with a carriage return":                           {Argv: []string{file("dos", "#!/usr/bin/env sh\r\nexit 0\r\n", 0o700)}},
		"dos: its first line ends with a carriage return":                      {Argv: []string{"dos"}, Env: []string{"PATH=" + dir}},
		"not a program":                                                        {Argv: []string{file("text", "hello\n", 0o700)}},
		"shimmed: not a program":                                               {Argv: []string{file("shimmed", "hello\n", 0o700)}, Limits: messages.Limits{OpenFiles: 64}},
		"arguments and environment are too long":                               {Argv: []string{"/bin/sh", strings.Repeat("x", 200_000)}},
		"pass large input on stdin":                                            {Argv: []string{"/bin/sh", strings.Repeat("x", packetMax)}},
	} {
		_, err := g.Start(t.Context(), spec, func(e Event) { t.Errorf("%s: event %v", want, e) })
		require.ErrorContains(t, err, want)
		require.Equal(t, len(spec.Argv) > 0 && !strings.Contains(want, "large input"), errors.Is(err, ErrUnstartable), "%s: it fails again", want)
	}
}

func TestStartGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := filepath.Join(t.TempDir(), "pid")
	for range 20 {
		p, err := g.Start(ctx, Spec{Argv: shell("echo $$ >" + path + "; exec sleep 60"), Env: environment()}, func(Event) {})
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
			continue
		}
		p.Kill()
	}
	require.Eventually(t, func() bool { return len(g.link.all()) == 0 }, patience, time.Millisecond, "a program that nobody waits for is ended")
}

func TestIgnoresTerminate(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	p, events := run(t, g, Spec{Argv: python("import os, signal, time\nsignal.signal(signal.SIGTERM, lambda *_: os.write(1, b'no\\n'))\nos.write(1, b'up\\n')\nwhile True: time.sleep(1)")})
	next[Wrote](t, events)
	p.Terminate()
	require.Equal(t, "no\n", string(next[Wrote](t, events).Data), "it heard and lives on")
	p.Kill()
	exit, _ := events.exit(t)
	require.Equal(t, Exit{Code: -1, Signal: "SIGKILL", Cause: CauseStopped}, exit)
	p.Kill() // nothing happens after the end
}

// Terminate reaches the whole process group: a program's children get SIGTERM too, even if the program does not pass it
// on.
func TestTerminateReachesTheGroup(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	p, events := run(t, g, Spec{Argv: python(`import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    signal.signal(signal.SIGTERM, lambda *_: os.write(1, b'child\n'))
    os.write(1, b'up\n')
    while True: time.sleep(1)
while True: time.sleep(1)`)})
	require.Equal(t, "up\n", string(next[Wrote](t, events).Data))
	p.Terminate()
	require.Equal(t, "child\n", string(next[Wrote](t, events).Data))
	p.Kill()
	exit, _ := events.exit(t)
	require.Equal(t, CauseStopped, exit.Cause)
}

func TestVitals(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	p, events := run(t, g, Spec{Argv: shell("kill -STOP $$; sleep 60 & sleep 60")})
	state := func(want byte, count int) func() bool {
		return func() bool {
			v, err := p.Vitals()
			require.NoError(t, err)
			return v.State == want && v.Count == count && v.Resident > 0
		}
	}
	require.Eventually(t, state('T', 1), patience, time.Millisecond)
	require.NoError(t, syscall.Kill(p.Pid(), syscall.SIGCONT))
	require.Eventually(t, state('S', 3), patience, time.Millisecond)
	p.Kill()
	events.exit(t)
}

func TestExits(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	for script, want := range map[string]Exit{
		"exit 0":                       {Cause: CauseExit},
		"exit 42":                      {Code: 42, Cause: CauseExit},
		"kill -9 $$":                   {Code: -1, Signal: "SIGKILL", Cause: CauseSignal},
		"kill -SEGV $$":                {Code: -1, Signal: "SIGSEGV", Cause: CauseSignal},
		"trap 'exit 7' TERM; kill $$ ": {Code: 7, Cause: CauseExit},
	} {
		_, events := run(t, g, Spec{Argv: shell(script)})
		exit, _ := events.exit(t)
		require.Equal(t, want, exit, script)
	}
}

// Everything that a program left in its pipes is reported before its end, however late the node reads it.
func TestWhatALateNodeReadsIsComplete(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	path, events := filepath.Join(t.TempDir(), "go"), newRecorder()
	busy, goOn := make(chan struct{}), make(chan struct{})
	stall := sync.OnceFunc(func() {
		close(busy)
		<-goOn // nothing is read meanwhile
	})
	sink := func(e Event) {
		stall()
		events.sink(e)
	}
	frame := `{"event":"log","message":"last"}`
	started, err := g.Start(t.Context(), Spec{Framed: true, Env: environment(), Argv: shell(fmt.Sprintf(
		`echo first; while ! test -e %s; do :; done; echo second; echo third >&2; printf '\000\000\000\%03o%s' >&4`, path, len(frame), frame))}, sink)
	require.NoError(t, err)
	<-busy
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	<-started.(*program).ended
	time.Sleep(2 * drainTime)
	close(goOn)
	exit, before := events.exit(t)
	require.Equal(t, Exit{Cause: CauseExit}, exit)
	wrote, said := map[bool]string{}, ""
	for _, e := range before {
		switch e := e.(type) {
		case Wrote:
			wrote[e.Stderr] += string(e.Data)
		case Log:
			said = e.Message
		}
	}
	require.Equal(t, map[bool]string{false: "first\nsecond\n", true: "third\n"}, wrote)
	require.Equal(t, "last", said)
}

// fugitive is a shell script whose grandchild leaves the session, drops the mark from its environment, keeps the pipes
// open, writes its pid into the file and loses its parents.
func fugitive(path string) string {
	return fmt.Sprintf(`(setsid env -i /bin/sh -c 'echo $$ >%s; exec /bin/sleep 60' &) ; while ! test -s %[1]s; do :; done`, path)
}

// Without a group, the grandchild is found only when the guardian itself ends.
func TestGrandchildDoesNotHoldUpTheExit(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{WithoutGroups: true})
	path := filepath.Join(t.TempDir(), "pid")
	_, events := run(t, g, Spec{Argv: shell(fugitive(path))})
	events.exit(t)
	stray := pidIn(t, path) // which still lives
	require.NoError(t, g.Close())
	gone(t, time.Second, stray)
}

func TestNothingOutlivesItsProgram(t *testing.T) {
	t.Parallel()
	g := newGuardian(t, Config{})
	dir := t.TempDir()
	p, events := run(t, g, Spec{Dir: dir, Argv: shell(stubborn + "; wait")})
	family := stubbornFamily(t, dir)
	v, err := p.Vitals()
	require.NoError(t, err)
	require.GreaterOrEqual(t, v.Count, len(family)+1, "those that left are counted")
	require.Positive(t, v.Resident)
	p.Kill()
	events.exit(t)
	for _, id := range family {
		require.False(t, id.alive(), "descendants are gone when the exit is told")
	}
	_, err = p.Vitals()
	require.ErrorContains(t, err, "has ended")
}

// stubborn is a shell script that leaves a plain child that ignores SIGTERM, a child in a session of its own, and one
// that forked twice and left its session. Each writes its pid into a file.
const stubborn = `
(trap '' TERM; sh -c 'echo $PPID >plain'; while :; do sleep 60; done) &
setsid sh -c 'trap "" TERM; echo $$ >session; while :; do sleep 60; done' &
(setsid sh -c '(trap "" TERM; sh -c "echo \$PPID >double"; while :; do sleep 60; done) & exit' &)
trap '' TERM`

func stubbornFamily(t testing.TB, dir string) []procID {
	t.Helper()
	var family []procID
	for _, name := range []string{"plain", "session", "double"} {
		family = append(family, pidIn(t, filepath.Join(dir, name)))
	}
	return family
}
