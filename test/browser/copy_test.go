package browser

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// copied is what a page copies as a command.
func (p *page) copied(what string) string {
	p.t.Helper()
	p.do(chromedp.Evaluate("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve() }; window.copied = ''", nil))
	p.click("Copy as…")
	p.do(chromedp.Click(`//span[@class="pop"]//button[.="`+what+`"]`, chromedp.BySearch))
	p.until("something is copied", func() bool { return p.value("window.copied") != "" })
	return p.value("window.copied")
}

// says runs a command line in a shell that has troupe. It names its node: troupe knows none. It fails if the command does.
func (n *node) says(t *testing.T, line string) string {
	t.Helper()
	path := t.TempDir()
	require.NoError(t, os.Symlink(binary, filepath.Join(path, "troupe")))
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"), "TROUPE_SERVER=http://127.0.0.1:1", "HOME="+n.dir)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", line, out)
	return string(out)
}

// What a page copies as a command is one that the command line takes, and it shows what the page does.
func TestWhatAPageCopiesRuns(t *testing.T) {
	n := shared(t)
	label := map[string]any{"labels": map[string]any{"test": "copies"}, "wait_seconds": 10, "session": "of a customer's"}
	echo := submit(t, n, "core.echo", map[string]any{}, label)
	bad := submit(t, n, "core.fail", map[string]any{"message": "no", "code": "copied"}, label)
	p := open(t, n, "/console/")
	for _, c := range []struct{ path, has, lacks string }{
		{"", "", ""},
		{"executions?label=test%3Dcopies", echo.ID, ""},
		{"executions?label=test%3Dcopies&not.action=core.echo", bad.ID, echo.ID},
		{"executions?label=test%3Dcopies&not.status=failed,abandoned&order=oldest", echo.ID, bad.ID},
		{"executions?label=test%3Dcopies&status=failed,completed&from=-1h&not.error=copied&not.label=a%3Db", echo.ID, bad.ID},
		{"executions?id_prefix=" + echo.ID[:13] + "&session=of+a+customer%27s", echo.ID, ""},
		{"errors?label=test%3Dcopies", "copied", ""},
		{"executions?label=test%3Dcopies&not.q=COPIED", echo.ID, bad.ID},
		{"executions?label=test%3Dcopies&status=failed,completed&q=copied&q=nowhere", bad.ID, echo.ID},
		{"executions?label=test%3Dcopies&not.id_prefix=" + bad.ID + "&not.was=retry&not.key=k", echo.ID, bad.ID},
		{"executions?label=test%3Dcopies&label=test%3Dother&id_prefix=" + bad.ID + "&id_prefix=ffff", bad.ID, echo.ID},
		{"errors?label=test%3Dcopies&not.error=copied", "none", "copied"},
		{"errors?label=test%3Dcopies&status=timed_out,abandoned", "none", "copied"},
		{"errors?label=test%3Dcopies&by=worker&id_prefix=" + bad.ID[:13], "copied", ""},
		{"errors?key=nope&from=-2h", "none", "copied"},
		{"pools", "python", ""},
		{"pools/python", "python", ""},
		{"workers", "n1/python/0", ""},
		{"workers?pool=python&state=ready&order=id", "n1/python/0", "n1/go/0"},
		{"workers?pool=python&pool=shell&not.state=busy&order=id", "n1/python/0", "n1/go/0"},
		{"workers?state=ready&state=busy&not.pool=python", "n1/go/0", "n1/python/0"},
		{"workers/n1/python/0", "n1/python/0", "n1/python/1"},
		{"nodes", "n1", ""},
		{"nodes/n1", "n1", ""},
		{"sessions?q=of+a&bound=1", "of a customer's", ""},
		{"sessions/go/of%20a%20customer's", "of a customer's", ""},
		{"dead-letters?reason=expired&from=-1h", "none", ""},
		{"dead-letters?reason=expired&reason=maxlen&not.action=core.echo", "none", ""},
		{"actions", "core.echo", ""},
		{"actions/core.echo", "core.echo", "core.fail"},
		{"executions/" + echo.ID, echo.ID, bad.ID},
		{"history?kinds=node,session", "joined", ""},
		{"history?not.kinds=operator,session", "joined", ""},
		{"changes?from=-1h", "", ""},
		{"webhooks", "", ""},
		{"operations", "", ""},
		{"tree", "troupe/pools", ""},
	} {
		p.visit("/console/" + c.path)
		p.until("it is shown", func() bool { return p.count(".head h1") == 1 && p.count("main > .loading") == 0 })
		line := p.copied("troupe command")
		out := n.says(t, line)
		require.Contains(t, out, c.has, "%s: %s", c.path, line)
		if c.lacks != "" {
			require.NotContains(t, out, c.lacks, "%s: %s", c.path, line)
		}
	}
}

// A name that stands in the address of a page is no part of a command for the shell, whoever made the link. There is no thing of this name.
func TestACopiedCommandHasNoOther(t *testing.T) {
	n := shared(t)
	p := open(t, n, "/console/", "404")
	const name = "a;b $(c)"
	for path, want := range map[string]string{
		"pools/": "troupe pool '" + name + "'", "actions/": "troupe actions '" + name + "'", "nodes/": "troupe nodes '" + name + "'",
		"executions/": "troupe get '" + name + "'", "operations/": "troupe operation '" + name + "'", "dead-letters/": "troupe dead-letters show '" + name + "'",
		"workers/n1/python/": "troupe workers 'n1/python/" + name + "'", "sessions/go/": "troupe sessions get 'go/" + name + "'",
	} {
		p.visit("/console/" + path + url.PathEscape(name))
		p.until("it is shown", func() bool { return p.count(".head h1") == 1 && p.count("main > .loading") == 0 })
		require.Equal(t, want+" --server "+n.url, p.copied("troupe command"))
	}
}
