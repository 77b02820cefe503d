package browser

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	cdp "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/test/servers"
)

// swift has a node notice within seconds that a server is away.
const swift = "node: {beat_interval: 0.3, lease: 3}\n"

// configured writes a node's configuration, and returns its path.
func configured(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "troupe.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// on starts a node on servers of the test's own.
func on(t *testing.T, name, store string, args ...string) *node {
	t.Helper()
	n := &node{
		dir: t.TempDir(), name: name, env: []string{"TROUPE_STORE_URL=" + store},
		args: append([]string{"--listen", "127.0.0.1:0", "--config", configured(t, swift)}, args...),
	}
	require.NoError(t, n.begin())
	t.Cleanup(n.kill)
	return n
}

// front shows the tab: one that is hidden for long follows nothing.
func (p *page) front() {
	p.t.Helper()
	p.do(cdp.BringToFront())
}

// keep marks the page, so that kept can tell whether it was loaded again.
func (p *page) keep() { p.do(chromedp.Evaluate("window.kept = 1", nil)) }

func (p *page) kept() {
	p.t.Helper()
	require.Equal(p.t, "1", p.value("window.kept"), "the page was loaded again")
}

// worker is what these tests read of one.
type worker struct {
	Pid int `json:"pid"`
}

// end kills a worker's process.
func end(t *testing.T, pid int) {
	t.Helper()
	require.Positive(t, pid)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
}

// away is what a browser says of a question that needs the store, such as those of charts, while that is away.
const away = "503 (Service Unavailable)"

// The store is killed under open pages. What the nodes know by themselves stays live, the rest is grey with its age and the reason, and
// all go on when the store is back.
func TestTheStoreIsAwayUnderOpenPages(t *testing.T) {
	apart(t)
	store := servers.PrivatePostgres(t, servers.PostgresOptions{Unsafe: true})
	n := on(t, "n1", store.URL)
	labelled(t, n, "away")
	list, fleet, overview := open(t, n, "/console/executions?label=test%3Daway", away), open(t, n, "/console/workers?pool=python"), open(t, n, "/console/", away)
	list.until("one row", func() bool { return list.count("tbody tr") == 1 })
	fleet.shows("tbody", "n1/python/0")
	overview.shows(".verdict", "Nothing is wrong")
	pages := []*page{list, fleet, overview}
	for _, p := range pages {
		p.keep()
	}
	first := ask[worker](t, n, http.MethodGet, "/api/v1/workers/n1/python/0", nil).Pid
	require.NoError(t, store.Kill())
	list.shows(".trouble", "The store is away")
	list.shows(".trouble", "the store is away since ")
	list.shows(".trouble", "What you see is ")
	require.Equal(t, 1, list.count("table.stale tbody tr"), "what it showed stays")
	overview.shows(".verdict", "This node is not ready: it waits for store")
	overview.shows(".trouble", "the store is away since ")
	overview.shows(".tile", "python")
	overview.shows(".card .trouble", "The store is away") // what failed last, and what happened
	overview.looks("store-away-overview")
	end(t, first)
	fleet.front()
	fleet.until("the worker's next generation", func() bool {
		return regexp.MustCompile(`ready\t.*\t2\t1\t`).MatchString(strings.ReplaceAll(fleet.text("tbody tr:first-child"), "\n", ""))
	})
	require.Zero(t, fleet.count(".stale, .trouble"), "the fleet is live without the store")
	alone := open(t, n, "/console/nodes")
	alone.shows(".list tbody", "n1")
	require.Regexp(t, `–\s+–`, alone.text(".list tbody tr"), "neither its start nor its heartbeat is known without the store")
	require.Zero(t, alone.count(".list tbody time"))
	require.NoError(t, store.Start())
	for _, p := range pages {
		p.front()
		p.until("no trouble, and nothing grey", func() bool { return p.count(".trouble, .stale") == 0 })
	}
	overview.shows(".verdict", "Nothing is wrong")
	labelled(t, n, "away")
	list.front()
	list.shows(".newer", "1 newer: show")
	for _, p := range pages {
		p.kept()
	}
	require.Equal(t, "1", metric(t, n, "troupe_streams"))
}

// A card whose own question is not answered says why it is empty, so that this is not read as "nothing". It asks again when somebody wants it.
func TestACardSaysWhyItIsEmpty(t *testing.T) {
	n := shared(t)
	submit(t, n, "core.echo", map[string]any{}, map[string]any{"session": "u-44", "wait_seconds": 10})
	p := open(t, n, "/console/nowhere", "404")
	p.do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := cdp.AddScriptToEvaluateOnNewDocument(`{
			delete globalThis.SharedWorker
			const fetched = window.fetch
			const wrong = (status, code, message) => new Response(JSON.stringify({error: {code, message}}), {status, headers: {"Content-Type": "application/json"}})
			let fails = true
			window.answers = () => { fails = false }
			window.fetch = async (url, ...more) => {
				if (/\/stream\?/.test(url)) return wrong(429, "too_many", "there are too many streams")
				if (fails && /v1\/(executions|journal|errors|series|sessions|workers)\?|\/runs$/.test(url)) return wrong(503, "store_unavailable", "the store is away for a test")
				return fetched(url, ...more)
			}
		}`).Do(ctx)
		return err
	}))
	for path, cards := range map[string][]string{
		"":                 {"Failed last", "What happened"},
		"sessions/go/u-44": {"Its queue", "Its executions", "Its epochs"},
		"pools/go":         {"Its workers", "What happened to it"},
		"nodes/n1":         {"Its workers", "What happened to it"},
		"workers/n1/go/0":  {"Sessions bound to it", "Its last runs"},
		"changes/" + time.Now().UTC().Format("2006-01-02T15:04:05.000Z"): {"What fails after it", "Run p95", "What happened around it"},
	} {
		p.visit("/console/" + path)
		for _, card := range cards {
			p.until(path+": "+card+" says why", func() bool { return strings.Contains(p.card(card), "the store is away for a test") })
			require.NotContains(t, strings.ToLower(p.card(card)), "none", card)
			require.NotContains(t, strings.ToLower(p.card(card)), "nothing", card)
		}
		p.fits(path + " without some answers")
		p.accessible(path + " without some answers")
		p.do(chromedp.Evaluate("answers()", nil))
		for _, card := range cards {
			p.do(chromedp.Evaluate(fmt.Sprintf(`%s?.querySelector(".trouble button")?.click()`, cardOf(card)), nil))
			p.until(path+": "+card+" has its answer", func() bool { text := p.card(card); return text != "" && !strings.Contains(text, "the store is away") })
		}
	}
}

// cardOf is the card of a page whose title begins so, as an expression, and card what it shows.
func cardOf(title string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(".card")].find((c) => c.querySelector("h2")?.textContent.startsWith(%q))`, title)
}

func (p *page) card(title string) string {
	p.t.Helper()
	return p.value(cardOf(title) + `?.innerText ?? ""`)
}

// The broker is killed under an open page, which says so and goes on.
func TestTheBrokerIsAwayUnderAnOpenPage(t *testing.T) {
	apart(t)
	broker := servers.PrivateRabbitMQ(t, servers.RabbitMQOptions{})
	n := on(t, "n1", servers.RoomyPostgres(t), "--broker", broker.URL)
	p := open(t, n, "/console/")
	p.shows(".verdict", "Nothing is wrong")
	p.keep()
	require.NoError(t, broker.Kill())
	p.shows(".verdict", "This node is not ready: it waits for broker")
	p.shows(".verdict", "What to do: Check that RabbitMQ runs")
	p.shows(".tile", "broker away")
	p.looks("broker-away")
	require.Zero(t, p.count(".trouble, .stale"), "the store has all that the page shows")
	require.NoError(t, broker.Start())
	p.shows(".verdict", "Nothing is wrong")
	p.kept()
}

// A node is drained from a page of another node. Its own pages say that it has gone, and the others that it drains, and then that it left.
func TestANodeIsDrainedUnderOpenPages(t *testing.T) {
	apart(t)
	nodes := cluster(t, 2)
	own, other := open(t, nodes[1], "/console/nodes"), open(t, nodes[0], "/console/nodes")
	for _, p := range []*page{own, other} {
		p.until("two nodes", func() bool { return p.count(".list tbody tr:not(.old)") == 2 })
		p.keep()
	}
	other.until("each reaches the other", func() bool {
		return other.count(".reach tbody tr") == 2 && strings.Count(other.text(".reach tbody"), "reached") == 2
	})
	other.looks("nodes-reach")
	ask[map[string]any](t, nodes[0], http.MethodPost, "/api/v1/nodes/n1/cordon", nil)
	run := submit(t, nodes[1], "core.sleep", map[string]any{"seconds": 3}, nil)
	other.until("it runs", func() bool {
		return ask[execution](t, nodes[0], http.MethodGet, "/api/v1/executions/"+run.ID, nil).Status == "running"
	})
	other.do(chromedp.Click(`//tr[contains(., "n2")]//button[contains(., "Drain")]`, chromedp.BySearch))
	other.shows("dialog[open]", "Drain the node n2?")
	other.shows("dialog[open]", "It is the last that takes work of the pools ")
	require.Equal(t, "true", other.value("[...document.querySelectorAll('dialog[open] button')].at(-1).disabled"), "its name is to be typed")
	own.cutOff()
	other.do(chromedp.SendKeys("dialog[open] input", "n2"))
	other.do(chromedp.Click(`//dialog//button[contains(., "Drain it")]`, chromedp.BySearch))
	for _, p := range []*page{other, own} {
		p.shows("tbody", "draining")
	}
	own.shows(".lost", "The node does not answer")
	require.Equal(t, 1, own.count("table.stale"))
	other.until("one node is left", func() bool { return other.count(".list tbody tr:not(.old)") == 1 })
	<-nodes[1].done
	require.Equal(t, "completed", ask[execution](t, nodes[0], http.MethodGet, "/api/v1/executions/"+run.ID, nil).Status, "what ran was finished")
	other.kept()
	own.kept()
	type journal struct {
		Entries []struct {
			At string `json:"at"`
		} `json:"entries"`
	}
	drains := ask[journal](t, nodes[0], http.MethodGet, "/api/v1/journal?kinds=node&what=draining", nil).Entries
	require.Len(t, drains, 1)
	other.visit("/console/changes/" + drains[0].At)
	other.shows(".nearest .here", "node n2") // its entry has no name
}

// A token is removed under an open page. The page asks for another one, and shows nothing of what it had.
func TestATokenIsRemovedUnderAnOpenPage(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	give := func(token string) {
		require.NoError(t, os.WriteFile(tokens+".new", []byte("- {name: ana, token: "+token+", scopes: [admin]}\n"), 0o600))
		require.NoError(t, os.Rename(tokens+".new", tokens))
	}
	give(secret)
	n := start(t, "--config", configured(t, "tokens_file: "+tokens+"\n"))
	n.token = secret
	labelled(t, n, "removed")
	p := open(t, n, "/console/executions?label=test%3Dremoved", "401")
	p.shows("main", "This node wants a token")
	p.do(chromedp.SendKeys("#token", secret+kb.Enter))
	p.until("one row", func() bool { return p.count("tbody tr") == 1 })
	p.keep()
	other := strings.ToUpper(secret)
	give(other)
	p.shows("main", "This node wants a token")
	require.Zero(t, p.count("tbody tr"))
	p.do(chromedp.SendKeys("#token", other+kb.Enter))
	p.until("one row again", func() bool { return p.count("tbody tr") == 1 })
	p.kept()
	n.token = other
	labelled(t, n, "removed")
	p.shows(".newer", "1 newer: show")
}

// The node of an execution's page is killed and comes back, while another node runs the execution: its output goes on in the page.
func TestOutputGoesOnWhenTheNodeIsBack(t *testing.T) {
	apart(t)
	nodes := cluster(t, 2)
	ask[map[string]any](t, nodes[0], http.MethodPost, "/api/v1/nodes/n1/cordon", nil)
	words := strings.Repeat("ebb ", 20) + "flow"
	run := submit(t, nodes[1], "demo.stream", map[string]any{"text": words, "seconds": 0.5}, nil)
	p := open(t, nodes[0], "/console/executions/"+run.ID)
	p.opensOutput()
	p.shows(".output", "ebb")
	p.keep()
	p.cutOff()
	nodes[0].kill()
	p.shows(".trouble", "The node does not answer")
	nodes[0].args = []string{"--listen", strings.TrimPrefix(nodes[0].url, "http://")}
	require.NoError(t, nodes[0].begin())
	p.until("the output follows what runs", func() bool {
		return p.count(".trouble") == 0 && strings.Contains(p.text(".head"), "running") && strings.Count(p.text(".output"), "ebb") > 8
	})
	require.NotContains(t, p.text("main"), "the node does not answer")
	p.shows(".head", "completed")
	p.shows(".output", "flow")
	p.kept()
}
