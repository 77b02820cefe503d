package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	readmeFile    = regexp.MustCompile("(?ms)`(packs/hello/[^`\n]+)`:\n\n```[a-z]+\n(.*?)^```")
	readmeConsole = regexp.MustCompile("(?ms)^```console\n(.*?)^```")
	anyID         = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	anyDuration   = regexp.MustCompile(`\b[0-9.]+(µs|ms|s|m)\b`)
	blanks        = regexp.MustCompile(`[ \t]+`)
)

// TestReadmeTour writes the pack of the README and runs the README's commands for that pack and for the core pack, one after the
// other. Their output must be that of the README, except ids and durations.
func TestReadmeTour(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	dir := t.TempDir()
	files := readmeFile.FindAllStringSubmatch(string(text), -1)
	require.Len(t, files, 3, "the README writes a pack of three files")
	for _, f := range files {
		write(t, dir, f[1], f[2])
	}
	n := start(t, options{packs: []string{filepath.Join(dir, "packs", "hello")}, flags: []string{"--name", "box"}})
	typed := 0
	for _, block := range readmeConsole.FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(block[1], "hello.greet") && !strings.Contains(block[1], "core.") {
			continue // its output depends on the machine
		}
		typed += n.types(t, strings.ReplaceAll(block[1], "$PWD/bin", filepath.Dir(binary)))
	}
	require.GreaterOrEqual(t, typed, 12, "the README's commands are found")
	require.NoError(t, n.stop())
}

// types runs the commands of a block, each in a shell, and compares their output. It replaces the worker in the README by the
// worker that the session is bound to.
func (n *node) types(t *testing.T, block string) int {
	t.Helper()
	parts := strings.Split("\n"+block, "\n$ ")[1:]
	before := ""
	for _, part := range parts {
		command, want, _ := strings.Cut(part, "\n")
		bound := n.worker(t, "s1")
		command, want = strings.ReplaceAll(command, "box/python/0", bound), strings.ReplaceAll(want, "box/python/0", bound)
		if strings.HasPrefix(command, "ID=") {
			out := n.shell(t, command+"; echo $ID")
			before = "ID=" + strings.TrimSpace(out) + "; "
			continue
		}
		got := plain(n.shell(t, before+command))
		if strings.HasPrefix(command, "troupe logs -f") { // how much of the output is live depends on the machine
			require.Contains(t, got, "greeting Ada")
			require.Contains(t, got, "completed")
			continue
		}
		pattern := strings.ReplaceAll(regexp.QuoteMeta(plain(want)), "…", "(?s:.*)")
		require.Regexp(t, "^"+pattern+"$", got, "$ %s", command)
	}
	return len(parts)
}

// worker is the name of the worker that the session is bound to; the first worker if there is none.
func (n *node) worker(t *testing.T, session string) string {
	t.Helper()
	for _, s := range n.get(t, "/api/v1/sessions").list("sessions") {
		if s.text("session") == session && s.text("worker", "pool") != "" {
			return "box/python/" + s.text("worker", "slot")
		}
	}
	return "box/python/0"
}

func (n *node) shell(t *testing.T, script string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Env = []string{"HOME=" + n.home, "PATH=" + filepath.Dir(binary) + ":" + searchPath, "TROUPE_SERVER=" + n.url}
	out, _ := cmd.CombinedOutput() // a failed command is shown by its output
	return string(out)
}

// plain replaces what differs between runs.
func plain(text string) string {
	text = anyDuration.ReplaceAllString(anyID.ReplaceAllString(text, "ID"), "TIME")
	return strings.TrimSpace(blanks.ReplaceAllString(text, " "))
}
