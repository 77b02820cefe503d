package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// hostile is a text that would run, load or hide something if it were more than a text.
const hostile = `<img src=x onerror=taken=1><script>taken=1</script><a href="javascript:taken=1">click</a>`

// turned has marks that turn text round, hide it, or command a terminal.
const turned = "\u202edlrow\u2066\u200b\x1b]8;;javascript:taken=1\x07link\x1b]8;;\x07\x1b[31m\x00\x07"

// A pack whose code writes, raises and fails to start with such texts, and lines of a MiB.
func hostilePack(t *testing.T) string {
	t.Helper()
	pack := t.TempDir()
	write(t, pack, "pack.yaml", "name: bad\nversion: 1.0.0\npools:\n  - {name: own, runtime: python, workers: 1}\n  - {name: never, runtime: python, workers: 1}\n")
	write(t, pack, "actions/say.yaml", "name: say\nruntime: python\npool: own\nentrypoint: say.py:say\n")
	write(t, pack, "actions/drip.yaml", "name: drip\nruntime: python\npool: own\nentrypoint: say.py:drip\n")
	write(t, pack, "actions/never.yaml", "name: never\nruntime: python\npool: never\nentrypoint: never.py:never\n")
	write(t, pack, "never.py", fmt.Sprintf("raise ValueError(%q)\n", hostile))
	write(t, pack, "say.py", fmt.Sprintf("import sys\nimport time\n\ndef drip(params):\n    for n in range(100):\n        print(n, end=\" \", flush=True)\n        time.sleep(0.2)\n\ndef say(params):\n    text = %q + params[\"turned\"]\n"+
		"    print(text)\n    print(text, file=sys.stderr)\n    print(\"<b>\" + \"x\" * (1 << 20) + \"</b>\")\n    sys.stdout.flush()\n    raise ValueError(text)\n", hostile))
	return pack
}

// harmless fails if a text has become more than a text.
func (p *page) harmless(where string) {
	p.t.Helper()
	require.Equal(p.t, "undefined", p.value("typeof taken"), "%s: a text ran", where)
	require.Zero(p.t, p.count("main img, main script, main iframe, main object, main b > i, main table a[onclick]"), "%s: a text became elements", where)
	require.Equal(p.t, "", p.value("[...document.querySelectorAll('a')].filter((a) => !/^https?:$/.test(new URL(a.getAttribute('href') ?? '', document.baseURI).protocol)).map((a) => a.outerHTML).join()"), "%s: a link leads elsewhere", where)
	require.NotRegexp(p.t, `[\x{202a}-\x{202e}\x{2066}-\x{2069}\x{200b}\x00\x07\x1b]`, p.text("main"), "%s: marks are shown, and do nothing", where)
}

// A line that a program does not end grows on the page while it is written.
func TestALineGrowsWhileItIsWritten(t *testing.T) {
	n := start(t, "--packs", hostilePack(t))
	p := open(t, n, "/console/executions/"+submit(t, n, "bad.drip", map[string]any{}, nil).ID)
	p.opensOutput()
	p.until("the line is longer", func() bool { return strings.Contains(p.text(".output"), "0 1 2 3 4 5 6 7 8") })
	require.Contains(t, p.text(".head"), "running")
	p.until("and grows", func() bool { return strings.Contains(p.text(".output"), "20 21 22") })
	require.Contains(t, p.text(".head"), "running")
}

// What programs and callers write is text on every page, whatever it looks like: output, results, errors, stacks, labels, names, marks,
// reasons, and what a worker says that does not start.
func TestWhatProgramsWriteIsText(t *testing.T) {
	apart(t)
	n := start(t, "--packs", hostilePack(t))
	e := submit(t, n, "bad.say", map[string]any{"turned": turned, hostile: hostile}, map[string]any{
		"wait_seconds": 30, "session": "<i>s</i>\u202e", "labels": map[string]any{"<b>team": hostile, "\u202eturned": "\u2066round\u200b"}, "idempotency_key": hostile,
	})
	require.Equal(t, "failed", e.Status)
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/marks", map[string]any{"name": "deploy \u202e" + hostile[:50]})
	late := submit(t, n, "bad.say", map[string]any{"turned": ""}, map[string]any{"session": "late\u202e", "run_at": time.Now().Add(time.Hour), "labels": map[string]any{"l": "\u202e"}})
	submit(t, n, "core.echo", map[string]any{"text": hostile + turned[:9]}, map[string]any{"wait_seconds": 10})

	p := open(t, n, "/console/executions/"+e.ID)
	p.shows(".card.bad", "<img src=x onerror=taken=1>")
	p.shows(".card.bad", "⟨U+202E⟩")
	p.shows(".facts", "<b>team")
	p.opensOutput()
	p.shows(".output", "<script>taken=1</script>")
	p.shows(".output", "⟨U+202E⟩")
	p.shows(".output .ansi-red", "␀␇")
	p.until("the whole line", func() bool {
		return p.value("document.querySelector('.output').textContent.includes('x'.repeat(100000))") == "true"
	})
	p.do(chromedp.Evaluate("document.querySelectorAll('details').forEach((d) => (d.open = true)); document.querySelectorAll('main input[type=checkbox]').forEach((i) => i.click())", nil))
	p.until("parameters", func() bool { return strings.Contains(p.text(".json pre"), "onerror=taken=1") })
	p.shows(".facts", "⟨U+202E⟩turned")
	p.shows(".facts", "⟨U+2066⟩round⟨U+200B⟩")
	p.shows(".facts", "<i>s</i>⟨U+202E⟩")
	p.harmless("the execution")
	p.visit("/console/executions/" + late.ID)
	p.shows(".facts", "late⟨U+202E⟩")
	p.harmless("one that is not due")
	for _, page := range []struct{ path, shows string }{
		{"", "deploy ⟨U+202E⟩<img"}, {"executions?label=%3Cb%3Eteam%3D" + strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(hostile, "=", "%3D"), "<", "%3C"), " ", "%20"), "label.⟨U+202E⟩turned"},
		{"errors", "<img src"}, {"errors?by=worker", "<img src"}, {"sessions", "<i>s</i>⟨U+202E⟩"}, {"history", "deploy ⟨U+202E⟩<img"}, {"history?kinds=session", "<i>s</i>⟨U+202E⟩"}, {"changes", "deploy ⟨U+202E⟩<img"},
		{"sessions/bad.own/%3Ci%3Es%3C%2Fi%3E%E2%80%AE", "Session <i>s</i>⟨U+202E⟩"}, {"executions?label=l%3D%E2%80%AE", "l=⟨U+202E⟩"}, {"history?subject=%E2%80%AE", "⟨U+202E⟩"},
		{"workers?pool=bad.never", "n1/bad.never/0"}, {"workers/n1/bad.never/0", "<img src"},
	} {
		p.visit("/console/" + page.path)
		p.shows("main", page.shows)
		p.harmless(page.path)
	}
	p.visit("/console/")
	p.shows(".finding", "Pool bad.never")
	p.shows(".finding", "<img src")
	p.harmless("a finding")
	for _, path := range []string{"executions/%3Cimg%20src%3Dx%3E", "executions?q=" + "%3Cscript%3E&label=javascript:taken%3D1", "actions/javascript:taken=1", "%3Cb%3E"} {
		q := open(t, n, "/console/"+path, "404", "422", "400")
		q.shows("main", "")
		q.harmless(path)
	}
}

// elsewhere is a page of another origin, though of the same site: the browser sends the node's cookie with what it asks.
func elsewhere(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>elsewhere</title><main>elsewhere</main>"))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// A page of another origin reads nothing of a node and commands nothing, with the cookie of who is logged in and on a node without tokens. It cannot
// show the console within itself.
func TestAnotherOriginReadsAndCommandsNothing(t *testing.T) {
	for name, n := range map[string]*node{"with a cookie": guarded(t, "admin"), "without tokens": start(t)} {
		t.Run(name, func(t *testing.T) {
			e := submit(t, n, "core.sleep", map[string]any{"seconds": 300}, nil)
			p := open(t, n, "/console/executions", "401", "CORS", "ERR_FAILED", "403", "frame-ancestors", "ERR_BLOCKED", "Framing", "net::ERR")
			if n.token != "" {
				p.shows("main", "This node wants a token")
				p.do(chromedp.SendKeys("#token", secret+kb.Enter))
			}
			p.shows("tbody", "core.sleep")
			p.do(chromedp.Navigate(elsewhere(t)))
			async := func(script string) (text string) {
				p.do(chromedp.Evaluate("(async () => { "+script+" })()", &text, awaited))
				return text
			}
			for _, path := range []string{"/api/v1/executions", "/api/v1/me", "/api/v1/stream?topics=nodes", "/api/v1/executions/" + e.ID + "/output"} {
				require.Equal(t, "TypeError", async(fmt.Sprintf("try { const a = await fetch(%q, {credentials: 'include'}); return await a.text() } catch (e) { return e.name }", n.url+path)), path)
			}
			for _, how := range []string{
				`{method: 'POST', mode: 'no-cors', credentials: 'include'}`,
				`{method: 'POST', mode: 'no-cors', credentials: 'include', headers: {'Content-Type': 'text/plain'}, body: '{}'}`,
				`{method: 'POST', credentials: 'include', headers: {'Content-Type': 'application/json'}, body: '{}'}`,
			} {
				async(fmt.Sprintf("try { await fetch(%q, %s) } catch {} return 'sent'", n.url+"/api/v1/executions/"+e.ID+"/cancel", how))
			}
			p.do(chromedp.Evaluate(fmt.Sprintf(`{ const f = document.createElement('form'); f.method = 'POST'; f.target = 'there'; f.action = %q
				const i = document.createElement('iframe'); i.name = 'there'; document.body.append(i, f); i.onload = () => { window.posted = 1 }; f.submit()
				const c = document.createElement('iframe'); c.src = %q; c.onload = () => { window.framed = 1 }; document.body.append(c) }`, n.url+"/api/v1/executions/"+e.ID+"/cancel", n.url+"/console/"), nil))
			p.until("both frames have loaded", func() bool {
				return p.value("window.posted === 1 && window.framed === 1") == "true"
			})
			p.until("the console is not shown within another page", func() bool { return p.complained("frame-ancestors") })
			require.Contains(t, []string{"running", "scheduled", "requested"}, ask[execution](t, n, http.MethodGet, "/api/v1/executions/"+e.ID, nil).Status, "nothing was cancelled")
			ask[map[string]any](t, n, http.MethodPost, "/api/v1/executions/"+e.ID+"/cancel", nil)
		})
	}
}
