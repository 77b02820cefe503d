package browser

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

const secret = "a-token-of-this-test-with-many-letters"

// guarded starts a node that wants a token.
func guarded(t *testing.T, scope string) *node {
	t.Helper()
	config := filepath.Join(t.TempDir(), "troupe.yaml")
	require.NoError(t, os.WriteFile(config, []byte("tokens: [{name: ana, token: "+secret+", scopes: ["+scope+"]}]\n"), 0o600))
	n := start(t, "--config", config)
	n.token = secret
	return n
}

// A node with tokens asks for one, and trades it for a cookie that no script can read. A reload is still logged in, until
// somebody logs out.
func TestATokenIsTradedForACookie(t *testing.T) {
	n := guarded(t, "admin")
	submit(t, n, "core.echo", map[string]any{}, map[string]any{"wait_seconds": 10})
	p := open(t, n, "/console/executions", "401")
	p.shows("main", "This node wants a token")
	p.shows(".login code", "troupe token new --name NAME --scope SCOPE")
	p.looks("login")
	p.do(chromedp.SendKeys("#token", "not-this-one"+kb.Enter))
	p.shows(".login", "the token is not known here")
	p.do(chromedp.SendKeys("#token", secret+kb.Enter))
	p.shows("tbody", "core.echo")
	require.Equal(t, n.url+"/console/executions{}", p.value("location.href + document.cookie + JSON.stringify({...localStorage, ...sessionStorage})"))
	p.do(chromedp.Reload())
	p.shows("tbody", "core.echo")
	p.shows(".frame", "ana")
	p.click("Log out")
	p.shows("main", "This node wants a token")
	p.do(chromedp.Reload())
	p.shows("main", "This node wants a token")
}

// What a token does not allow is said, with the API's own words.
func TestAScopeThatLacksSaysSo(t *testing.T) {
	n := guarded(t, "submit")
	p := open(t, n, "/console/executions", "401", "403")
	p.shows("main", "This node wants a token")
	p.do(chromedp.SendKeys("#token", secret+kb.Enter))
	p.shows(".trouble", "Your token does not allow this")
	p.shows(".trouble", "lacks the scope")
	for _, path := range []string{
		"", "errors", "pools", "pools/go", "workers", "workers/n1/go/0", "nodes", "nodes/n1", "tree", "sessions", "sessions/go/x", "dead-letters", "webhooks", "actions/core.echo", "history", "changes",
		"operations", "settings", "pools?to=2020-01-01T00:00:00Z", "tree?at=2020-01-01T00:00:00Z",
	} {
		p.visit("/console/" + path)
		p.shows(".trouble", "Your token does not allow this")
		p.until("nothing is waited for", func() bool { return p.count("main > .loading") == 0 })
		p.accessible(path + " without the scope")
		p.do(chromedp.EmulateViewport(360, 800))
		p.fits(path + " without the scope")
		p.do(chromedp.EmulateViewport(1280, 800))
	}
}
