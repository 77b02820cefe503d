package browser

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

const base = "/ops/troupe"

// outside collects what a browser asks of a proxy outside of the base path.
type outside struct {
	mu    sync.Mutex
	paths []string
}

func (o *outside) add(path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.paths = append(o.paths, path)
}

func (o *outside) list() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.paths
}

// behind puts a reverse proxy before a node. It passes on what lies below the base path, and removes that path or leaves it.
func behind(t *testing.T, n *node, strip bool) (*node, *outside) {
	t.Helper()
	target, err := url.Parse(n.url)
	require.NoError(t, err)
	var proxy http.Handler = &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.SetXForwarded()
		r.Out.Host = r.In.Host
	}}
	if strip {
		proxy = http.StripPrefix(base, proxy)
	}
	missed := &outside{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, base+"/") {
			missed.add(r.URL.Path)
			http.NotFound(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.CloseClientConnections)
	return &node{url: server.URL + base, token: n.token}, missed
}

// Behind a proxy with a path prefix the console works as it does at the root, whether the proxy removes the prefix or leaves it: pages,
// login, commands and the live stream.
func TestTheConsoleWorksBelowAPath(t *testing.T) {
	config := filepath.Join(t.TempDir(), "troupe.yaml")
	require.NoError(t, os.WriteFile(config, []byte("http: {base_path: "+base+"}\ntokens: [{name: ana, token: "+secret+", scopes: [admin]}]\n"), 0o600))
	n := start(t, "--config", config)
	n.token = secret
	for name, strip := range map[string]bool{"the proxy removes it": true, "the proxy leaves it": false} {
		t.Run(name, func(t *testing.T) {
			seen, missed := behind(t, n, strip)
			p := open(t, seen, "/", "401")
			p.shows("main", "This node wants a token")
			require.Equal(t, base+"/console/", p.value("location.pathname"))
			p.do(chromedp.SendKeys("#token", secret+kb.Enter))
			p.shows("h1", "Overview")
			p.shows(".verdict", "Nothing is wrong")
			p.do(chromedp.Click(`//nav//a[.="Executions"]`, chromedp.BySearch))
			p.shows("h1", "Executions")
			e := submit(t, seen, "core.echo", map[string]any{}, map[string]any{"wait_seconds": 10})
			p.until("it comes by the stream", func() bool {
				return p.count(`a[href="executions/`+e.ID+`"]`) > 0 || strings.Contains(p.text(".newer"), "newer")
			})
			require.Equal(t, "0", p.value(`performance.getEntriesByType("resource").filter((e) => /\/api\/v1\/executions/.test(e.name)).length`), "the list is followed, by the worker")
			p.visit("/console/executions/" + e.ID)
			p.shows("main", "core.echo")
			p.do(chromedp.Reload())
			p.shows("main", "core.echo")
			p.visit("/console/pools/shell")
			p.shows("h1", "Pool shell")
			require.Equal(t, "troupe pool shell --server "+seen.url, p.copied("troupe command"))
			p.click("Cordon")
			p.answers("Cordon it")
			p.shows(".notices", "Pool shell gets no new work")
			p.do(chromedp.Click(`//div[contains(@class, "notices")]//button[.="Uncordon"]`, chromedp.BySearch))
			p.shows(".notices", "Pool shell gets work again")
			require.Equal(t, "0", p.value(`document.querySelectorAll('a[href^="/"]').length`), "links are relative to the page's base")
			p.click("Log out")
			p.shows("main", "This node wants a token")
			require.Empty(t, missed.list(), "nothing is asked outside of the path")
		})
	}
	require.Equal(t, http.StatusOK, statusOf(t, n.url+"/healthz"), "the node answers without it too")
}
