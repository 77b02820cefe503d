package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// A pack whose code returns a word, or fails with one, after it wrote one.
func tellingPack(t *testing.T) string {
	t.Helper()
	pack := t.TempDir()
	write(t, pack, "pack.yaml", "name: tell\nversion: 1.0.0\npools:\n  - {name: own, runtime: python, workers: 1}\n")
	write(t, pack, "actions/all.yaml", "name: all\nruntime: python\npool: own\nentrypoint: tell.py:all\n")
	write(t, pack, "tell.py", `import sys

def all(params):
    print("word-of-stdout", flush=True)
    print("word-of-stderr", file=sys.stderr, flush=True)
    if params.get("fail"):
        raise ValueError("the message")
    return {"word": "word-of-result"}
`)
	return pack
}

// console.payloads says how an execution's page shows parameters, result and output: not at all, by a click, or at once.
func TestThePageShowsPayloadsAsTheNodeSays(t *testing.T) {
	apart(t)
	pack := tellingPack(t)
	for _, how := range []string{"hide", "click", "show"} {
		t.Run(how, func(t *testing.T) {
			n := start(t, "--packs", pack, "--config", configured(t, "console: {payloads: "+how+"}\n"))
			label := map[string]any{"wait_seconds": 30}
			done := submit(t, n, "tell.all", map[string]any{"given": "word-of-parameters"}, label)
			failed := submit(t, n, "tell.all", map[string]any{"given": "word-of-parameters", "fail": true}, label)
			p := open(t, n, "/console/executions/"+failed.ID)
			p.do(chromedp.Evaluate(`navigator.clipboard.writeText = async (text) => { window.copied = text }`, nil))
			p.shows(".card.bad", "the message")
			p.payloads(how, "word-of-parameters", "word-of-stdout", "word-of-stderr")
			p.click("Copy as…")
			p.click("Report as Markdown")
			p.until("a report", func() bool { return strings.Contains(p.value("window.copied"), "the message") })
			require.Equal(t, how != "hide", strings.Contains(p.value("window.copied"), "word-of-stderr"), "the report")
			p.visit("/console/executions/" + done.ID)
			p.shows(".head", "completed")
			p.payloads(how, "word-of-parameters", "word-of-result", "word-of-stdout", "word-of-stderr")
		})
	}
}

// opensOutput opens what an execution has written: where nothing else is configured, that takes a click.
func (p *page) opensOutput() {
	p.t.Helper()
	p.until("output", func() bool { return p.count("details.written") == 1 })
	p.turns("written")
}

// turns opens a fold, or closes it.
func (p *page) turns(class string) {
	p.t.Helper()
	p.rests(`//details[contains(@class, "` + class + `")]/summary`) // what comes in above moves it
	p.do(chromedp.Click("details." + class + " > summary"))
}

// payloads checks where the page has words of payloads: nowhere, in what is closed, or on the screen.
func (p *page) payloads(how string, words ...string) {
	p.t.Helper()
	shown := func(word string) bool {
		return p.value(`[...document.querySelectorAll('main pre')].some((e) => e.textContent.includes("`+word+`") && !e.closest('details:not([open])'))`) == "true"
	}
	if how == "hide" {
		p.shows("main", "This node does not show payloads (console.payloads)")
		p.shows("main", "Nothing unusual") // all parts of the page are there
		for _, word := range words {
			require.NotContains(p.t, p.value("document.documentElement.outerHTML"), word)
		}
		require.Equal(p.t, "0", p.value(`performance.getEntriesByType('resource').filter((e) => /\/output/.test(e.name)).length`), "the output is not asked for")
		require.Equal(p.t, "0", p.value(`performance.getEntriesByType('resource').filter((e) => /executions\/[0-9a-f-]+$/.test(e.name)).length`), "nor the payloads")
		return
	}
	for _, word := range words {
		p.until("it has "+word, func() bool { return strings.Contains(p.value("document.querySelector('main').textContent"), word) })
		if how == "show" {
			require.True(p.t, shown(word), "%s is open", word)
			continue
		}
		require.False(p.t, shown(word), "%s is closed", word)
	}
	if how == "click" {
		p.do(chromedp.Evaluate("document.querySelectorAll('main details:not([open]) > summary').forEach((s) => s.click())", nil))
		for _, word := range words {
			p.until(word+" opens by a click", func() bool { return shown(word) })
		}
	}
}
