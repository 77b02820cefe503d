package browser

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// write writes a file of a pack.
func write(t *testing.T, folder, name, text string) {
	t.Helper()
	path := filepath.Join(folder, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// Question 1 at 03:12: what broke, why, since when, what was lost, and what to do.
func TestTheOverviewSaysWhatBrokeAndWhatToDo(t *testing.T) {
	apart(t)
	pack := t.TempDir()
	write(t, pack, "pack.yaml", "name: sick\nversion: 1.0.0\npools:\n  - {name: own, runtime: python, workers: 1}\n")
	write(t, pack, "actions/say.yaml", "name: say\nruntime: python\npool: own\nentrypoint: say.py:say\n")
	write(t, pack, "say.py", "import nothing_of_that_name\n")
	n := start(t, "--packs", pack)
	p := open(t, n, "/console/")
	p.shows(".finding", "Pool sick.own: its workers keep failing to start")
	p.shows(".finding", "critical")
	p.shows(".finding", "since ")
	p.shows(".finding", "Why: ")
	p.shows(".finding", "nothing_of_that_name")
	p.shows(".finding", "It means: Every worker of the pool on a node failed")
	p.shows(".finding", "What to do: troupe pools shows the last error")
	p.shows(".finding", "docs/alerts.md#pool_broken")
	p.shows(".verdict", "1 thing to look at")
	p.shows(".lost", "nothing")
	p.looks("overview-broken")
	p.contrasts("overview-broken")
	for path, shows := range map[string]string{"pools": "nothing_of_that_name", "workers": "n1/sick.own/0", "history": "sick.own"} {
		p.visit("/console/" + path)
		p.shows("tbody", shows)
		if path == "workers" {
			p.until("the worker in trouble comes first", func() bool { return strings.HasPrefix(p.text("tbody tr:first-child"), "n1/sick.own/0") })
		}
		p.looks(path + "-broken")
	}
	p.visit("/console/")
	p.shows(".finding", "sick.own")
	p.do(chromedp.Click(".finding h3 a"))
	p.shows("h1", "Workers")
	require.Equal(t, "/console/workers?pool=sick.own", p.value("location.pathname + location.search"))
	write(t, pack, "say.py", "def say(params):\n    return 1\n")
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/reload", nil)
	p.visit("/console/")
	p.shows(".verdict", "Nothing is wrong")
}

// Question 3: what failed, in groups of one cause, each with the way to its executions.
func TestErrorsAreShownInGroups(t *testing.T) {
	n := start(t)
	p := open(t, n, "/console/errors")
	p.shows("main", "Nothing that fits failed")
	p.looks("errors-none")
	for i := range 3 {
		submit(t, n, "core.fail", map[string]any{"message": fmt.Sprintf("row %d of \"orders\" is bad", i), "code": "bad_row"}, map[string]any{"wait_seconds": 10})
	}
	submit(t, n, "core.fail", map[string]any{"message": "<b>not markup</b>", "code": "other"}, map[string]any{"wait_seconds": 10})
	p.visit("/console/errors")
	p.shows("tbody", "row ‹n› of ‹text› is bad")
	p.shows("tbody", "<b>not markup</b>")
	p.shows(".foot", "4 executions failed")
	require.Equal(t, 2, p.count("tbody tr"))
	p.looks("errors")
	p.contrasts("errors")
	p.do(chromedp.SetValue(".head select", "worker"), chromedp.Evaluate("document.querySelector('.head select').dispatchEvent(new Event('change', {bubbles: true}))", nil))
	p.shows("tbody", "core.fail ×")
	require.Equal(t, "/console/errors?by=worker", p.value("location.pathname + location.search"))
	p.visit("/console/errors?error=bad_row")
	p.until("one group", func() bool { return p.count("tbody tr") == 1 })
	p.do(chromedp.Click("tbody td.n a"))
	p.shows("h1", "Executions")
	p.until("its executions", func() bool { return p.count("tbody tr") == 3 })
	require.Regexp(t, `^/console/executions\?error=bad_row&ended_from=20[^&]+Z&status=failed,timed_out,abandoned&action=core\.fail$`, p.value("location.pathname + location.search"))
}
