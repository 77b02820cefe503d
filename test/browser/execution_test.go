package browser

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// One that waits says why, what to do, and up to now; the list says when it is due.
func TestOneThatWaitsSaysWhatToDo(t *testing.T) {
	n := shared(t)
	label := map[string]any{"test": "waits"}
	e := submit(t, n, "core.noop", map[string]any{}, map[string]any{"labels": label, "run_at": time.Now().Add(time.Hour)})
	p := open(t, n, "/console/executions/"+e.ID)
	p.shows(".why", "not_due")
	p.shows(".why", "What to do: Nothing: it is placed at its time.")
	p.shows(".card", "It has not started.")
	p.visit("/console/executions?label=test%3Dwaits")
	p.shows("tbody .c-wait", "in ")
	require.NotContains(t, p.text("tbody"), "−")
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/executions/"+e.ID+"/cancel", nil)
}

// A failure leads to its group, a retry to its chain; what is drawn leads to its page.
func TestAFailureLeadsOn(t *testing.T) {
	n := shared(t)
	first := submit(t, n, "core.fail", map[string]any{"message": "leads on", "code": "leads"}, map[string]any{"max_retries": 0, "wait_seconds": 30, "session": "leads"})
	require.Equal(t, "failed", first.Status)
	second := ask[execution](t, n, http.MethodPost, "/api/v1/executions/"+first.ID+"/retry", nil)
	p := open(t, n, "/console/executions/"+first.ID)
	p.until("its retry, once", func() bool {
		return strings.Contains(p.text(".card.bad"), "Retried as ") && strings.Count(p.text(".card.bad"), second.ID[len(second.ID)-6:]) == 1
	})
	p.shows(".facts", "0 of 0")
	p.shows(".card.bad", "What to do: The code is the action's own")
	p.until("both links of the chain with their times", func() bool { return p.count(".chain li") == 2 && p.count(".chain time") == 2 })
	p.do(chromedp.Evaluate("document.querySelector('.lanes svg a[href^=\"workers/\"]').dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}))", nil))
	p.until("its worker's page", func() bool { return strings.Contains(p.value("location.pathname"), "/console/workers/n1/") })
	p.visit("/console/executions/" + second.ID)
	p.shows(".facts", "1, of which the node makes up to 0 by itself")
	p.do(chromedp.Click("//a[.='its group']", chromedp.BySearch))
	p.shows("h1", "Errors")
	p.shows("tbody", "leads on")
	p.visit("/console/executions/" + second.ID)
	p.do(chromedp.Click("//dl//a[.='leads']", chromedp.BySearch))
	p.shows("h1", "Session leads")
	p.looks("session-of-a-failure")
}

// A cancel of what runs, and a retry of what may be done twice, take a reason for the journal.
func TestACancelAndARetryTakeAReason(t *testing.T) {
	n := shared(t)
	e := submit(t, n, "demo.progress", map[string]any{"steps": 100, "seconds": 200}, nil)
	p := open(t, n, "/console/executions/"+e.ID)
	p.shows(".head", "running")
	p.click("Cancel")
	p.shows("dialog[open]", "Cancel execution "+e.ID[:8])
	p.accessible("the question before a cancel")
	p.do(chromedp.SendKeys("dialog[open] input", "it was the wrong customer"))
	p.answers("Cancel it")
	p.shows(".head", "cancelled")
	p.visit("/console/history?kinds=operator&subject=" + e.ID)
	p.shows("tbody", "it was the wrong customer")

	e = submit(t, n, "core.fail", map[string]any{"message": "no"}, map[string]any{"wait_seconds": 10})
	p.visit("/console/executions/" + e.ID)
	p.click("Retry")
	p.shows("dialog[open]", "Run execution "+e.ID[:8])
	p.do(chromedp.SendKeys("dialog[open] input", "the disk has room"))
	p.answers("Run it again")
	p.until("the retry's page", func() bool { return !strings.Contains(p.value("location.pathname"), e.ID) })
	p.visit("/console/history?kinds=operator")
	p.shows("tbody", "the disk has room")
}

// While it runs its worker is busy. Once the node is gone the page says so once, is grey, and cancels nothing.
func TestTheNodeOfARunIsLost(t *testing.T) {
	apart(t)
	n := start(t)
	e := submit(t, n, "demo.progress", map[string]any{"steps": 100, "seconds": 200}, nil)
	p := open(t, n, "/console/executions/"+e.ID)
	p.shows(".head", "running")
	p.turns("steps")
	p.shows(".steps", ": busy")
	p.looks("execution-runs")
	p.cutOff()
	n.kill()
	p.shows(".trouble", "The node does not answer")
	p.until("all is grey", func() bool { return p.count(".stale .facts") == 1 })
	p.until("nothing can be cancelled", func() bool { return p.count(`.head button.danger[aria-disabled="true"]`) == 1 })
	require.Contains(t, p.value(`document.querySelector('.head button.danger').title`), "what you see is from before")
	require.Equal(t, 1, p.count(".trouble"), "one banner: %s", p.text(".trouble"))
	p.accessible("an execution whose node is lost")
}

// A worker keeps what a run writes until its end. Where another part ends the run, the page says that this was lost.
func TestTheOutputOfALostNodeIsLost(t *testing.T) {
	apart(t)
	n := start(t)
	e := submit(t, n, "demo.memory", map[string]any{"seconds": 100, "mib": 1}, nil)
	p := open(t, n, "/console/executions/"+e.ID)
	p.shows(".head", "running")
	p.cutOff()
	n.kill()
	n.args = []string{"--listen", strings.TrimPrefix(n.url, "http://")}
	require.NoError(t, n.begin())
	p.shows(".head", "abandoned")
	p.shows(".card.bad", "caught by sweep")
	p.shows("main", "what it wrote is lost")
	fine := submit(t, n, "core.echo", map[string]any{}, map[string]any{"wait_seconds": 10})
	p.visit("/console/executions/" + fine.ID)
	p.shows("main", "Parameters and result")
	require.NotContains(t, p.text("main"), "is lost")
}

// What waits for its time is no backlog: the pools have it apart.
func TestWhatIsNotDueIsNoBacklog(t *testing.T) {
	apart(t)
	n := start(t)
	later := map[string]any{"run_at": time.Now().Add(time.Hour)}
	for range 3 {
		submit(t, n, "core.noop", map[string]any{}, later)
	}
	p := open(t, n, "/console/pools")
	row := func() string { return strings.Join(strings.Fields(p.text(`[data-l="Waiting"]`)), " ") }
	p.until("three apart", func() bool { return strings.Contains(row(), "0 3 not due") })
	p.looks("pools-not-due")
	p.visit("/console/pools/go")
	p.shows(".facts", "0, 3 not due")
	p.shows(".facts", "nothing waits")
	p.visit("/console/")
	p.shows(".facts", "3 not due")
	p.shows(".tiles", "0 waiting, 3 not due")
	require.Regexp(t, `(?m)^go .* 0 +3 +0 +0 `, n.says(t, "troupe pools --server "+n.url))
}
