package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/troupe-run/troupe/test/servers"
)

// terminal is a program in a terminal of its own.
type terminal struct {
	t             *testing.T
	rows, columns uint16
	master        *os.File
	cmd           *exec.Cmd
	ended         chan struct{}
	mu            sync.Mutex
	shown         bytes.Buffer
}

// inTerminal starts troupe in a new terminal of that size.
func inTerminal(t *testing.T, rows, columns uint16, environ []string, args ...string) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	fd := int(master.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	defer slave.Close()
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}))
	cmd := exec.Command(binary, args...)
	cmd.Env = append([]string{"PATH=" + searchPath, "HOME=" + t.TempDir(), "TERM=xterm-256color"}, environ...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	s := &terminal{t: t, rows: rows, columns: columns, master: master, cmd: cmd, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			s.mu.Lock()
			s.shown.Write(buffer[:n])
			s.mu.Unlock()
			if err != nil {
				return // no process has the terminal open any more
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = master.Close()
	})
	return s
}

// raw is everything that was written to the terminal, with control sequences.
func (s *terminal) raw() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown.String()
}

var sequence = regexp.MustCompile(`\x1b\[[0-9;?=>]*[a-zA-Z]|\x1b[=>]`)

// text is what was written, without control sequences.
func (s *terminal) text() string {
	return sequence.ReplaceAllString(strings.ReplaceAll(s.raw(), "\r\n", "\n"), "")
}

// shows waits until the terminal has shown a text.
func (s *terminal) shows(pattern string) {
	s.t.Helper()
	is := regexp.MustCompile(pattern)
	await(s.t, "the terminal shows "+pattern, func() bool { return is.MatchString(s.text()) })
}

// screen is what a terminal of that size shows in the end, line by line.
func (s *terminal) screen() []string {
	s.t.Helper()
	e := vt.NewEmulator(int(s.columns), int(s.rows))
	go func() { _, _ = io.Copy(io.Discard, e) }() // the emulator's answers to queries
	defer e.Close()
	_, err := e.Write([]byte(s.raw()))
	require.NoError(s.t, err)
	lines := strings.Split(strings.TrimRight(e.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

func (s *terminal) types(keys string) {
	s.t.Helper()
	_, err := s.master.WriteString(keys)
	require.NoError(s.t, err)
}

// ends waits for the program's end and returns its exit code.
func (s *terminal) ends() int {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(time.Minute):
		require.FailNow(s.t, "the program did not end", "%s", s.text())
	}
	_ = s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}

// TestAQuietStart starts and stops a node as a new user does. The output is one line for each pool, the address, and a command to
// try.
func TestAQuietStart(t *testing.T) {
	t.Parallel()
	for _, size := range [][2]uint16{{24, 80}, {40, 120}} {
		address := servers.OwnAddress()
		s := inTerminal(t, size[0], size[1], nil, "node", "--data", filepath.Join(t.TempDir(), "data"), "--listen", address, "--packs", "testdata/plain")
		s.shows(`try: troupe --server ` + address + ` submit core.echo message=hi --wait`)
		out, err := exec.Command(binary, "--server", address, "submit", "core.echo", "message=hi", "--wait").CombinedOutput()
		require.NoError(t, err, "what is to be tried works: %s", out)
		s.types("\x03")
		require.Zero(t, s.ends(), s.text())
		require.NotContains(t, s.text(), "INFO")
		lines := strings.Split(strings.TrimSpace(s.text()), "\n")
		started, stopped := 0, 0
		for _, line := range lines {
			require.LessOrEqual(t, len(line), int(size[1]), line)
			switch {
			case regexp.MustCompile(`^ +pool [a-z.]+ +\d+ workers?$`).MatchString(strings.TrimRight(" "+line, " ")):
				started++
			case regexp.MustCompile(`^ +pool [a-z.]+ +stopped$`).MatchString(line):
				stopped++
			}
		}
		require.Equal(t, started, stopped, s.text())
		require.GreaterOrEqual(t, started, 3, s.text())
		require.Len(t, lines, started+stopped+5, "the address, the console's, a command, that it stops and that it has: %s", s.text())
		require.Contains(t, s.text(), "troupe listens on http://"+address+"\nconsole: http://"+address+"/console/\ntry: ")
	}
}

// TestWithoutATerminalLogsAreComplete reads what a log collector gets: each line is JSON, and starts of workers are only at
// debug.
func TestWithoutATerminalLogsAreComplete(t *testing.T) {
	t.Parallel()
	n := start(t, options{packs: []string{"testdata/plain"}, config: sharedConfig})
	n.logged(t, "pool started")
	n.prints(t, "worker", "kill", n.get(t, "/api/v1/workers?pool=plain.own").list("workers")[0].text("id"))
	n.logged(t, "worker changed")
	require.NoError(t, n.stop())
	n.logged(t, "pool stopped")
	for _, line := range n.log.lines() {
		require.NotEmpty(t, line.Message, "it is JSON: %s", line.text)
		if line.Message == "worker changed" {
			require.NotContains(t, line.text, "init_complete")
			require.NotContains(t, line.text, `"shutdown"`)
		}
	}
}

// TestTimesFollowTZ shows a time in the caller's zone, with the zone's name.
func TestTimesFollowTZ(t *testing.T) {
	t.Parallel()
	n := shared(t)
	id := n.runs(t, "core.echo", nil).text("id")
	for zone, offset := range map[string]string{"UTC": "Z", "Asia/Kolkata": `\+05:30`} {
		r := execute(t, "", []string{"TROUPE_SERVER=" + n.url, "TROUPE_TOKEN=" + n.token, "TZ=" + zone}, "get", id)
		require.Regexp(t, `(?m)^finished +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}`+offset+`$`, r.out)
	}
}

// TestTopInATerminal shows more rows than fit. The screen says that rows are left out, and it shows a pause.
func TestTopInATerminal(t *testing.T) {
	t.Parallel()
	n := start(t, options{config: sharedConfig})
	for range 40 {
		n.submit(t, "core.sleep", object{"seconds": 50})
	}
	for _, size := range [][2]uint16{{24, 80}, {40, 120}} {
		s := inTerminal(t, size[0], size[1], []string{"TROUPE_SERVER=" + n.url}, "top", "--every", "200ms")
		s.shows(`… and \d+ more run, for less long`)
		s.types("p")
		s.shows(`PAUSED`)
		s.types("q")
		require.Zero(t, s.ends())
	}
}

// TestBatchResultsStayOnTheScreen waits for a batch whose results and progress both go to the terminal. The progress must not
// overwrite an id or a result.
func TestBatchResultsStayOnTheScreen(t *testing.T) {
	t.Parallel()
	n := shared(t)
	batch := filepath.Join(t.TempDir(), "batch.jsonl")
	require.NoError(t, os.WriteFile(batch, []byte(`{"word":"one"}
{"word":"two"}
{"status":3}
{"word":"four"}
{"status":4}
`), 0o600))
	for _, size := range [][2]uint16{{24, 80}, {40, 120}} {
		s := inTerminal(t, size[0], size[1], []string{"TROUPE_SERVER=" + n.url}, "submit", "theatre.prompt", "--batch", batch, "--wait", "-o", "json")
		require.Equal(t, 1, s.ends(), s.text())
		// The terminal wraps lines at its width.
		shown := strings.Join(s.screen(), "")
		for _, result := range []string{"one", "two", "four"} {
			require.Contains(t, shown, `"prompted `+result, "%v", s.screen())
		}
		require.Equal(t, 3, strings.Count(shown, `"status":"completed"`), "%v", s.screen())
		require.Equal(t, 2, strings.Count(shown, `"status":"failed"`), "%v", s.screen())
		require.Equal(t, 2, strings.Count(shown, `"code":"exit_status"`), "%v", s.screen())
		failed := 0
		kept := slices.DeleteFunc(strings.Split(s.text(), "\n"), func(line string) bool {
			about := strings.HasPrefix(line, "execution ")
			if about {
				failed++
				require.Contains(t, strings.Join(s.screen(), "\n"), "\n"+line[:70], "it has a line of its own: %v", s.screen())
			}
			return about
		})
		require.Equal(t, 2, failed, s.text())
		var ends []struct{ ID string }
		require.NoError(t, json.Unmarshal([]byte(strings.Join(kept, "\n")), &ends), s.text())
		require.Len(t, ends, 5)
		for _, end := range ends {
			require.Contains(t, shown, `"id":"`+end.ID+`"`, "%v", s.screen())
		}
	}
}

// TestTablesFitTheTerminal shows the tables of a node that has a pack with a refused reload. No line is wrapped, and a reason
// keeps its cause.
func TestTablesFitTheTerminal(t *testing.T) {
	t.Parallel()
	n := start(t, options{packs: []string{"testdata/theatre"}, config: sharedConfig})
	id := n.runs(t, "theatre.stumble", object{"line": "Yorick", "said": strings.Repeat("to be or not to be ", 12)}, object{"labels": object{"scene": "first"}}).text("id")
	code := filepath.Join(n.packs[0], "actions", "keeper.py")
	text, err := os.ReadFile(code)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(code, append([]byte("import nowhere\n"), text...), 0o600))
	require.NotZero(t, n.troupe(t, "reload").code)
	for _, size := range [][2]uint16{{24, 80}, {40, 120}} {
		for _, c := range []struct {
			args []string
			want []string
		}{
			{[]string{"pools"}, []string{"POOL ", "STATE ", "READY ", "WAITING ", "REASON", "theatre.keeper", "old code", "No module named 'nowhere'"}},
			{[]string{"list"}, []string{"ID ", "ACTION ", "STATUS ", "ERROR", id, "failed", "the line: Yorick"}},
			{[]string{"workers", "--pool", "theatre.keeper"}, []string{"WORKER ", "STATE ", "GRADE ", "LAST FAILURE", "n1/theatre.keeper/0", "ready"}},
			{[]string{"get", id}, []string{"scene=first", "ValueError: forgot the line: Yorick", "to be or not to be"}},
		} {
			s := inTerminal(t, size[0], size[1], []string{"TROUPE_SERVER=" + n.url}, c.args...)
			require.Zero(t, s.ends(), s.text())
			for line := range strings.SplitSeq(s.text(), "\n") {
				require.LessOrEqual(t, len([]rune(line)), int(size[1]), "%v at %v breaks %q", c.args, size, line)
			}
			shown := s.screen()
			for _, want := range c.want {
				require.Contains(t, strings.Join(strings.Fields(strings.Join(shown, "\n")), " ")+" ", want, "%v at %v:\n%s", c.args, size, strings.Join(shown, "\n"))
			}
		}
	}
}
