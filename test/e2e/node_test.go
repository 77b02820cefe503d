package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/test/servers"
)

// patience bounds every wait of these tests. On an idle machine everything is much faster.
const patience = 2 * time.Minute

// options say how to start a node.
type options struct {
	config string   // YAML
	packs  []string // folders; the node gets copies, so that byte code and a test's changes do not get into the checkout
	env    []string
	flags  []string
	token  string
	trust  *servers.Authority // signs the API's certificate; nil: the API has no TLS
	data   string             // empty: a folder of its own
	mounts string             // shell commands that run first, in the node's own mount namespace
	files  int                // how many files the node's process may open; 0: as many as the test
	// program is the binary; empty: the one under test. user runs it; nil: this user.
	program string
	user    *syscall.Credential
}

// node is one running troupe.
type node struct {
	options
	cmd  *exec.Cmd
	url  string
	home string
	log  *logBook
	done chan struct{}
	err  error // the process's error, once done is closed
	// client has connections of its own, because another test may close those of http.DefaultClient, as httptest does.
	client http.Client
}

// start starts a node for one test. It is killed at the test's end.
func start(t *testing.T, o options) *node {
	t.Helper()
	n, err := launch(t.TempDir(), o)
	if err != nil {
		t.Fatalf("start a node: %v", err)
	}
	t.Cleanup(n.kill)
	return n
}

// launch starts a node in dir and waits until it is ready.
func launch(dir string, o options) (*node, error) {
	n, err := begin(dir, o)
	if err != nil {
		return nil, err
	}
	if err := n.untilReady(); err != nil {
		n.kill()
		return nil, fmt.Errorf("%w\n%s", err, n.log.tail(30))
	}
	return n, nil
}

// begin starts a node's process and does not wait.
func begin(dir string, o options) (*node, error) {
	args := append([]string{"node", "--listen", "127.0.0.1:0", "--name", "n1"}, o.flags...)
	if o.data == "" {
		o.data = filepath.Join(dir, "data")
	}
	args = append(args, "--data", o.data)
	home := filepath.Join(dir, "home")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return nil, err
	}
	if o.config != "" {
		path := filepath.Join(dir, "troupe.yaml")
		if err := os.WriteFile(path, []byte(o.config), 0o644); err != nil {
			return nil, err
		}
		args = append(args, "--config", path)
	}
	for i, pack := range o.packs {
		if !filepath.IsAbs(pack) {
			copied := filepath.Join(dir, "packs", filepath.Base(pack))
			if err := os.CopyFS(copied, os.DirFS(pack)); err != nil && !errors.Is(err, os.ErrExist) {
				return nil, err
			}
			o.packs[i] = copied
		}
		args = append(args, "--packs", o.packs[i])
	}
	transport := &http.Transport{}
	if o.trust != nil {
		transport.TLSClientConfig = &tls.Config{RootCAs: o.trust.Roots()}
	}
	n := &node{
		options: o, home: home, log: &logBook{}, done: make(chan struct{}),
		client: http.Client{Transport: transport},
	}
	if o.program == "" {
		o.program = binary
	}
	n.cmd = exec.Command(o.program, args...)
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: o.user}
	if o.mounts != "" {
		n.cmd = exec.Command("unshare", append([]string{
			"--map-root-user", "--mount", "sh", "-euc", o.mounts + "\nexec \"$@\"", "sh", binary,
		}, args...)...)
	}
	if o.files > 0 {
		n.cmd = exec.Command("sh", append([]string{"-euc", fmt.Sprintf("ulimit -n %d\nexec \"$@\"", o.files), "sh", binary}, args...)...)
	}
	n.cmd.Env = append([]string{"HOME=" + home, "PATH=" + searchPath, "TMPDIR=" + os.TempDir()}, o.env...)
	n.cmd.Stdout, n.cmd.Stderr = n.log, n.log
	n.cmd.WaitDelay = 5 * time.Second
	if err := n.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		n.err = n.cmd.Wait()
		close(n.done)
	}()
	return n, nil
}

// again starts a node again, on the same folders.
func (n *node) again(t *testing.T) *node {
	t.Helper()
	next, err := launch(filepath.Dir(n.home), n.options)
	if err != nil {
		t.Fatalf("start the node again: %v", err)
	}
	t.Cleanup(next.kill)
	return next
}

func (n *node) untilReady() error {
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		select {
		case <-n.done:
			return fmt.Errorf("the node ended: %w", n.err)
		case <-time.After(10 * time.Millisecond):
		}
		if n.url == "" {
			for _, line := range n.log.lines() {
				if line.Message == "node started" {
					n.url = "http://" + line.Listen
					if n.trust != nil {
						n.url = "https://" + line.Listen
					}
				}
			}
			continue
		}
		if res, err := n.client.Get(n.url + "/readyz"); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
	}
	return errors.New("the node is not ready")
}

// stop sends SIGTERM, waits for the end and returns its error.
func (n *node) stop() error {
	n.signal(syscall.SIGTERM)
	return n.ended()
}

func (n *node) signal(s syscall.Signal) { _ = n.cmd.Process.Signal(s) }

// ended waits for the process's end and returns its error; nil for exit status 0.
func (n *node) ended() error {
	select {
	case <-n.done:
		return n.err
	case <-time.After(patience):
		n.kill()
		return errors.New("the process does not end")
	}
}

// kill ends the process by SIGKILL.
func (n *node) kill() {
	_ = n.cmd.Process.Kill()
	<-n.done
}

// the log

// logLine is one line of the node's log.
type logLine struct {
	Level   string `json:"@level"`
	Message string `json:"@message"`
	Listen  string `json:"listen"`
	text    string
}

// logBook collects what a node writes.
type logBook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// lines parses the log. A line that is not JSON has only its text.
func (l *logBook) lines() []logLine {
	var lines []logLine
	for text := range strings.Lines(l.String()) {
		line := logLine{text: strings.TrimSpace(text)}
		_ = json.Unmarshal([]byte(text), &line)
		lines = append(lines, line)
	}
	return lines
}

func (l *logBook) tail(n int) string {
	lines := strings.Split(strings.TrimSpace(l.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// the command line

// result is the result of one call of the command line.
type result struct {
	code     int
	out, err string
}

// troupe runs the command line against the node.
func (n *node) troupe(t *testing.T, args ...string) result {
	t.Helper()
	return n.troupeWith(t, "", args...)
}

// troupeWith is troupe with standard input.
func (n *node) troupeWith(t *testing.T, input string, args ...string) result {
	t.Helper()
	return execute(t, input, []string{"TROUPE_SERVER=" + n.url, "TROUPE_TOKEN=" + n.token}, args...)
}

// execute runs the command line to its end.
func execute(t *testing.T, input string, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append([]string{"HOME=" + t.TempDir(), "PATH=" + searchPath}, env...)
	cmd.Stdin = strings.NewReader(input)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("troupe %v: %v", args, err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// prints runs the command line, which must succeed, and returns its standard output.
func (n *node) prints(t *testing.T, args ...string) string {
	t.Helper()
	r := n.troupe(t, args...)
	require.Equal(t, 0, r.code, "troupe %v: %s%s", args, r.out, r.err)
	return strings.TrimSuffix(r.out, "\n")
}

// await polls until the condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s in vain: %s", patience, what)
		}
		time.Sleep(15 * time.Millisecond)
	}
}

// logged waits for a text in the node's log.
func (n *node) logged(t *testing.T, text string) {
	t.Helper()
	await(t, "the log says "+text, func() bool { return strings.Contains(n.log.String(), text) })
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}
