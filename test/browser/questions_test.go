package browser

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// clicksMax is how many clicks away from the overview an answer is.
const clicksMax = 2

// question is one of those that the console answers. Its answer is looked for on the first of the nodes; what it is about happens on the last.
type question struct {
	text     string
	cluster  bool // a cluster can answer it otherwise than one node
	answered func(*testing.T, []*node, *visitor)
}

var questions = []question{
	{"Is everything all right?", true, allRight},
	{"Why is this waiting?", false, whyWaiting},
	{"What broke at 03:12?", false, whatBroke},
	{"Which worker is sick, since when?", true, whichWorker},
	{"What did the chain do?", false, whatChain},
	{"Did the deploy lose something?", true, whatLost},
	{"Where is the customer's job?", false, whereJob},
	{"Do we keep up; when is the backlog gone?", false, keepUp},
	{"What happened to my session?", true, whatSession},
	{"What runs, how far, can I stop it?", false, whatRuns},
}

// visitor is somebody who begins at the overview.
type visitor struct {
	*page
	clicks int
}

// through follows a link, or presses a button, that leads on.
func (v *visitor) through(xpath string) {
	v.t.Helper()
	v.clicks++
	require.LessOrEqual(v.t, v.clicks, clicksMax, "clicks to the answer")
	v.rests(xpath)
	v.do(chromedp.Click(xpath, chromedp.BySearch))
}

// turns goes to a page by the navigation.
func (v *visitor) turns(name string) {
	v.t.Helper()
	v.through(fmt.Sprintf("//nav//a[normalize-space(.)=%q]", name))
	v.shows("h1", name)
}

// home goes back to the overview.
func (v *visitor) home() {
	v.t.Helper()
	v.clicks = 0
	v.visit("/console/")
}

func last(nodes []*node) *node { return nodes[len(nodes)-1] }

func TestTheTenQuestions(t *testing.T) {
	apart(t)
	require.Len(t, questions, 10)
	for i, q := range questions {
		t.Run(fmt.Sprintf("%d %s", i+1, q.text), func(t *testing.T) {
			nodes := []*node{start(t)}
			q.answered(t, nodes, &visitor{page: open(t, nodes[0], "/console/")})
		})
	}
}

func TestTheQuestionsOfACluster(t *testing.T) {
	apart(t)
	nodes := cluster(t, 3)
	for i, q := range questions {
		if q.cluster {
			t.Run(fmt.Sprintf("%d %s", i+1, q.text), func(t *testing.T) {
				q.answered(t, nodes, &visitor{page: open(t, nodes[0], "/console/")})
			})
		}
	}
}

// A verdict, and what is behind it.
func allRight(t *testing.T, nodes []*node, v *visitor) {
	submit(t, last(nodes), "core.fail", map[string]any{"message": "no", "code": "boom"}, map[string]any{"wait_seconds": 10})
	v.shows(".verdict", "Nothing is wrong")
	v.shows("main", "boom")
	v.looks("overview")
	ask[map[string]any](t, last(nodes), http.MethodPost, "/api/v1/pools/shell/cordon", nil)
	v.shows(".verdict", "Pool shell is cordoned")
	v.looks("overview-cordoned")
	v.through(`//*[contains(@class, "verdict")]//a[contains(., "Pool shell")]`)
	v.shows("h1", "Pools")
	v.click("Uncordon")
	v.shows(".notices", "Pool shell gets work again")
	name := last(nodes).nodeName()
	ask[map[string]any](t, nodes[0], http.MethodPost, "/api/v1/nodes/"+name+"/cordon", nil)
	v.home()
	v.shows(".verdict", "Node "+name+" is cordoned")
	v.through(`//*[contains(@class, "verdict")]//a[contains(., "Node")]`)
	v.shows("h1", "Nodes")
	v.click("Uncordon")
	v.shows(".notices", "Node "+name+" gets work again")
	v.home()
	v.shows(".verdict", "Nothing is wrong")
	v.shows(".lost", "1 failed")
	v.shows("main", "new since")
	v.looks("overview-failed")
	v.through(`//*[contains(@class, "lost")]//a`)
	v.shows("tbody", "boom")
}

// The cause now, and the wait so far; and the way to end it.
func whyWaiting(t *testing.T, nodes []*node, v *visitor) {
	e := submit(t, last(nodes), "core.noop", map[string]any{}, map[string]any{"run_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)})
	v.through(`//dl//a[contains(@href, "status=requested")]`)
	v.through(fmt.Sprintf("//a[@title=%q]", e.ID))
	v.shows(".why", "not_due")
	v.until("the timeline's table", func() bool {
		return strings.Contains(v.value("document.querySelector('.steps')?.textContent"), "not_due")
	})
	v.looks("waiting")
	v.click("Cancel")
	v.shows(".head", "cancelled")
	require.Equal(t, "cancelled", ask[execution](t, nodes[0], http.MethodGet, "/api/v1/executions/"+e.ID, nil).Status)
}

// What failed then and not before, in groups of one cause.
func whatBroke(t *testing.T, nodes []*node, v *visitor) {
	var from string
	for i := range 3 {
		e := submit(t, last(nodes), "core.fail", map[string]any{"message": fmt.Sprintf("row %d is bad", i), "code": fmt.Sprint("bad", min(i, 1))}, map[string]any{"wait_seconds": 10})
		if i == 1 {
			from = ask[struct {
				At string `json:"requested_at"`
			}](t, nodes[0], http.MethodGet, "/api/v1/executions/"+e.ID, nil).At
		}
	}
	v.turns("Errors")
	v.until("two groups", func() bool { return v.count("tbody tr") == 2 })
	v.do(chromedp.SendKeys("#filter", "from:"+from+kb.Enter))
	v.until("the group of that time", func() bool { return v.count("tbody tr") == 1 })
	v.shows("tbody", "row ‹n› is bad")
	v.shows(".foot", "2 executions failed")
	v.through(`//tbody//td[@class="n"]//a`)
	v.shows("h1", "Executions")
	v.until("its executions", func() bool { return v.count("tbody tr") == 2 })
}

// A worker's lifecycle; and a kill is asked about, carried out, and recorded.
func whichWorker(t *testing.T, nodes []*node, v *visitor) {
	id := last(nodes).nodeName() + "/python/0"
	pid := ask[worker](t, nodes[0], http.MethodGet, "/api/v1/workers/"+id, nil).Pid
	end(t, pid)
	v.turns("Workers")
	v.do(chromedp.SendKeys("#filter", "pool:python"+kb.Enter))
	v.shows("tbody", id)
	v.through(fmt.Sprintf("//tbody//a[normalize-space(.)=%q]", id))
	v.shows(".facts", "ready")
	v.shows("main", "process_exited")
	v.shows(".facts", "2, ")
	v.click("Kill")
	v.shows("dialog", "Kill "+id+"?")
	v.shows("dialog", "It runs nothing now.")
	v.do(chromedp.Click(`//dialog//button[contains(., "Kill it")]`, chromedp.BySearch))
	v.shows(".notices", "is ended; another generation follows")
	v.shows(".facts", "3, ")
	v.visit("/console/history?kinds=operator")
	v.shows("tbody", "kill")
	v.shows("tbody", "by local")
}

// Every try of a chain, and how it is tried again.
func whatChain(t *testing.T, nodes []*node, v *visitor) {
	e := submit(t, last(nodes), "core.fail", map[string]any{"message": "the tide was out", "code": "boom", "retriable": true},
		map[string]any{"wait_seconds": 10, "session": "u-17", "labels": map[string]any{"team": "harbour"}})
	v.through(fmt.Sprintf("//a[@href=%q]", "executions/"+e.ID))
	v.shows(".card.bad", "boom")
	v.shows(".card.bad", "the tide was out")
	for _, lane := range []string{"wait", "placed", "run", "worker", "session"} {
		v.shows(".lanes text.lane", lane)
	}
	v.looks("failed")
	v.click("Retry")
	v.shows("dialog", "not marked idempotent")
	v.click("Run it again")
	v.until("the retry's page", func() bool { return !strings.Contains(v.value("location.pathname"), e.ID) })
	v.until("a chain of two", func() bool { return v.count(".chain li") == 2 })
	v.shows(".chain", "manual_retry")
}

// The mark of the deployment leads to a ledger that adds up.
func whatLost(t *testing.T, nodes []*node, v *visitor) {
	v.turns("Changes")
	if len(nodes) == 1 {
		v.shows(".ledger", "nothing was requested")
		v.looks("changes-none")
	}
	for range 3 {
		submit(t, last(nodes), "core.echo", map[string]any{}, map[string]any{"wait_seconds": 10})
	}
	bad := submit(t, last(nodes), "core.fail", map[string]any{"message": "bad", "code": "bad"}, map[string]any{"wait_seconds": 10})
	ask[execution](t, last(nodes), http.MethodPost, "/api/v1/executions/"+bad.ID+"/retry", nil)
	long := submit(t, last(nodes), "core.sleep", map[string]any{"seconds": 300}, nil)
	ask[map[string]any](t, last(nodes), http.MethodPost, "/api/v1/marks", map[string]any{"name": "deploy <b>1.4.2</b>"})
	v.visit("/console/history?kinds=mark") // until it is recorded
	v.shows("tbody", "deploy <b>1.4.2</b>")
	v.home()
	v.turns("Changes")
	v.shows("tbody", "deploy <b>1.4.2</b>")
	v.shows("tbody", "node") // its start
	v.through(`//tr[contains(., 'deploy')]//a`)
	v.shows("h1", "deploy <b>1.4.2</b>")
	v.shows(".verdict", "It adds up: of ")
	v.shows(".verdict", ", 1 is open, and none is missing.")
	v.shows("main", "core.fail")
	v.shows("main", "What happened around it")
	v.looks("change")
	v.do(chromedp.Click(`//a[.='the whole ledger']`, chromedp.BySearch))
	v.until("the time of the ledger", func() bool { return v.value("new URLSearchParams(location.search).has('from')") == "true" })
	v.shows(".verdict", "It adds up: of ")
	if len(nodes) == 1 {
		v.shows(".verdict", "of 6 accepted, 5 have ended")
	}
	v.shows(".ledger", "Deleted by retention")
	v.shows(".ledger", "Taken back, not claimed since")
	v.shows(".ledger", "Sessions restored")
	v.shows(".ledger", "Sessions lost")
	v.looks("changes")
	v.do(chromedp.Click(`//dl//div[dt='completed']//a`, chromedp.BySearch))
	v.shows("h1", "Executions")
	v.until("its executions", func() bool { return v.count("tbody tr") >= 3 })
	require.Equal(t, "completed", v.value("new URLSearchParams(location.search).get('status')"))
	if len(nodes) == 1 {
		v.do(chromedp.NavigateBack())
		v.shows("h1", "Changes")
		v.do(chromedp.Click(`//dl//div[dt='Retries of others']//a[.='1']`, chromedp.BySearch))
		v.shows("h1", "Executions")
		v.until("the retry", func() bool { return v.count("tbody tr") == 1 && strings.Contains(v.text("tbody"), "core.fail") })
		v.shows(".filters", "was:retry")
	}
	ask[map[string]any](t, nodes[0], http.MethodPost, "/api/v1/executions/"+long.ID+"/cancel", nil)
}

// An id's beginning, a label, an idempotency key or a session finds it.
func whereJob(t *testing.T, nodes []*node, v *visitor) {
	for i := range 3 {
		submit(t, last(nodes), "core.noop", map[string]any{}, map[string]any{"labels": map[string]any{"customer": fmt.Sprint("other", i)}})
	}
	e := submit(t, last(nodes), "core.noop", map[string]any{}, map[string]any{
		"wait_seconds": 10, "session": "s-9", "idempotency_key": "order-1", "labels": map[string]any{"customer": "acme"},
	})
	for _, filter := range []string{"label:customer=acme", "key:order-1", "session:s-9", "id_prefix:" + e.ID} {
		v.home()
		v.turns("Executions")
		v.shows("tbody", "core.noop")
		v.do(chromedp.SendKeys("#filter", filter+kb.Enter))
		v.until("one row for "+filter, func() bool { return v.count("tbody tr") == 1 })
		v.through(fmt.Sprintf("//a[@title=%q]", e.ID))
		v.shows(".facts", "acme")
	}
}

// What comes in and goes out, and what waits in each pool since when.
func keepUp(t *testing.T, nodes []*node, v *visitor) {
	ask[map[string]any](t, last(nodes), http.MethodPost, "/api/v1/pools/shell/cordon", nil)
	submit(t, last(nodes), "core.shell_echo", map[string]any{"message": "a"}, nil)
	submit(t, last(nodes), "core.noop", map[string]any{}, map[string]any{"wait_seconds": 10})
	v.shows(".facts", "Submitted")
	v.shows(".facts", "Ended")
	tile := `//section[contains(@class, "tile")][.//a[normalize-space(.)="shell"]]`
	v.do(chromedp.WaitVisible(tile+`//a[contains(., "1 waiting")]`, chromedp.BySearch))
	v.until("the oldest", func() bool { return strings.Contains(v.text(".tile"), "1 waiting, the oldest requested ") })
	v.through(tile + `//h2//a`)
	v.shows("h1", "Pool shell")
	v.shows(".card.why", "workers_cordoned")
	v.home()
	v.through(tile + `//a[contains(., "1 waiting")]`)
	v.shows("h1", "Executions")
	v.shows("tbody", "core.shell_echo")
	require.Equal(t, 1, v.count("tbody tr"))
}

// Where it is bound, how often it was bound anew, and why.
func whatSession(t *testing.T, nodes []*node, v *visitor) {
	run := func() (on string) {
		e := submit(t, last(nodes), "demo.counter", map[string]any{}, map[string]any{"session": "u-42", "wait_seconds": 20})
		require.Equal(t, "completed", e.Status)
		return e.Worker
	}
	end(t, ask[worker](t, nodes[0], http.MethodGet, "/api/v1/workers/"+run(), nil).Pid)
	v.turns("Sessions")
	v.shows("tbody", "not bound")
	run()
	v.until("another epoch", func() bool { return strings.Contains(v.text(`tbody [data-l="Epoch"]`), "2") })
	v.through(`//tbody//a[.="u-42"]`)
	v.shows("h1", "Session u-42")
	v.shows(".facts", "2")
	v.shows("main", "unbound: worker_gone")
}

// Progress and output as they come, and a cancel.
func whatRuns(t *testing.T, nodes []*node, v *visitor) {
	e := submit(t, last(nodes), "demo.progress", map[string]any{"steps": 60, "seconds": 60}, nil)
	v.through(`//dl//a[contains(@href, "status=running")]`)
	v.through(fmt.Sprintf("//a[@title=%q]", e.ID))
	v.until("progress", func() bool { return v.count("progress") == 1 })
	v.shows(".head", "running")
	v.until("it goes on", func() bool { return v.value("document.querySelector('progress').value > 0.01") == "true" })
	v.click("Cancel")
	v.shows("dialog[open]", "Cancel execution "+e.ID[:8])
	v.click("Cancel it")
	v.shows(".head", "cancelled")
}
