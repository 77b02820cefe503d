package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/sqlite"
	"github.com/troupe-run/troupe/test/servers"
)

// seeded starts a node on a store that has something from before.
func seeded(t *testing.T, seed func(s *sqlite.Store), args ...string) *node {
	t.Helper()
	n := &node{dir: t.TempDir(), args: append([]string{"--listen", "127.0.0.1:0"}, args...)}
	data := filepath.Join(n.dir, "data")
	require.NoError(t, os.Mkdir(data, 0o700))
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(data, "troupe.db")})
	require.NoError(t, err)
	seed(s)
	require.NoError(t, s.Close())
	require.NoError(t, n.begin())
	t.Cleanup(n.kill)
	return n
}

// stored submits one execution to a store.
func stored(t *testing.T, s *sqlite.Store, e messages.Execution) messages.Execution {
	t.Helper()
	e.ID, e.Action, e.Pool, e.Parameters, e.Timeout = messages.NewExecutionID(), "core.noop", "go", json.RawMessage(`{}`), time.Minute
	list, err := s.Submit(t.Context(), []messages.Execution{e})
	require.NoError(t, err)
	return list[0].Execution
}

// apply makes changes, the last of which must have an effect.
func apply(t *testing.T, s *sqlite.Store, changes ...store.Change) {
	t.Helper()
	for some := range slices.Chunk(changes, 100) {
		results, err := s.Apply(t.Context(), some)
		require.NoError(t, err)
		require.Equal(t, store.Applied, results[len(results)-1].Verdict, "%v", results[len(results)-1].Err)
	}
}

// retried ends an execution and stores its retry.
func retried(t *testing.T, s *sqlite.Store, e messages.Execution) messages.Execution {
	t.Helper()
	apply(t, s, &store.End{ID: e.ID, Outcome: messages.Outcome{Status: messages.Cancelled}})
	next := e
	next.ID, next.RetryCount, next.RetryReason = messages.NewExecutionID(), e.RetryCount+1, "manual_retry"
	if next.Original.IsZero() {
		next.Original = e.ID
	}
	made, err := s.Retry(t.Context(), e.ID, next, "ann")
	require.NoError(t, err)
	return made.Execution
}

// More than a timeline reads at once comes in parts: the page says what it does not show, and loads it. So does a long chain.
func TestALongTimelineIsLoadedInParts(t *testing.T) {
	apart(t)
	var long, last messages.Execution
	n := seeded(t, func(s *sqlite.Store) {
		inc := messages.NewIncarnation()
		require.NoError(t, s.Join(t.Context(), store.Node{Incarnation: inc, Name: "old", State: store.NodeActive}, time.Hour))
		long = stored(t, s, messages.Execution{})
		var changes []store.Change
		for i := range messages.Attempt(store.EventsMax + 200) {
			changes = append(changes, &store.Place{ID: long.ID, Attempt: i, Worker: messages.WorkerKey{Incarnation: inc, Pool: "go"}, WorkerID: "old/go/0", ClaimWithin: time.Minute},
				&store.TakeBack{ID: long.ID, Attempt: i + 1, Reason: "unclaimed"})
		}
		apply(t, s, append(changes, &store.End{ID: long.ID, Attempt: store.EventsMax + 200, Outcome: messages.Outcome{Status: messages.Cancelled}})...)
		last = stored(t, s, messages.Execution{})
		for range 59 {
			last = retried(t, s, last)
		}
		apply(t, s, &store.End{ID: last.ID, Outcome: messages.Outcome{Status: messages.Cancelled}})
	})
	p := open(t, n, "/console/executions/"+long.ID.String())
	p.shows(".missing", "is not loaded")
	p.shows(".missing", " events")
	p.turns("steps")
	p.shows(".steps", "not loaded")
	p.shows(".steps", "200 of ")
	p.looks("execution-long")
	p.click("Load")
	p.until("all of it", func() bool { return p.count(".missing") == 0 })
	require.NotContains(t, p.text(".steps"), "not loaded")
	rows := rowsOf(t, n, &long)
	p.shows(".steps", fmt.Sprintf("of %d,%03d rows", rows/1000, rows%1000))

	p.visit("/console/executions/" + last.ID.String())
	p.until("fifty of the chain", func() bool { return p.count(".chain a") == 50 })
	p.shows(".chain .here", "60")
	p.looks("execution-chain")
	p.click("10 more before")
	p.until("the whole chain", func() bool { return p.count(".chain a") == 60 })
	require.Equal(t, 0, p.count(".chain button"))
}

// rowsOf is how many rows the table of a timeline has that is read in parts.
func rowsOf(t *testing.T, n *node, e *messages.Execution) int {
	t.Helper()
	type part struct {
		Window struct{ From, To string }
		Whole  struct{ From, To string }
		Wait   []json.RawMessage
		Gaps   []json.RawMessage
	}
	attempts := store.EventsMax + 200
	path := "/api/v1/executions/" + e.ID.String() + "/timeline"
	newest := ask[part](t, n, http.MethodGet, path, nil)
	before := ask[part](t, n, http.MethodGet, path+"?from="+newest.Whole.From+"&to="+newest.Window.From, nil)
	// What the two parts cut in two is one again.
	return attempts + joined(t, before.Wait, newest.Wait) + joined(t, before.Gaps, newest.Gaps)
}

// joined is how many intervals two lists are, where the last of one may go on as the first of the other.
func joined(t *testing.T, before, after []json.RawMessage) int {
	t.Helper()
	all := len(before) + len(after)
	if len(before) == 0 || len(after) == 0 {
		return all
	}
	type interval struct{ From, To, Cause, Why, Evidence string }
	var a, b interval
	require.NoError(t, json.Unmarshal(before[len(before)-1], &a))
	require.NoError(t, json.Unmarshal(after[0], &b))
	if a.To == b.From && a.Cause == b.Cause && a.Evidence == b.Evidence && a.Why == b.Why {
		return all - 1
	}
	return all
}

// An execution that retention has deleted says so, with what is still known; one that never was says that nothing is.
func TestADeletedExecutionSaysSo(t *testing.T) {
	apart(t)
	var gone, next messages.Execution
	lost := messages.NewExecutionID()
	n := seeded(t, func(s *sqlite.Store) {
		gone = stored(t, s, messages.Execution{})
		next = retried(t, s, gone)
		now, err := s.Now(t.Context())
		require.NoError(t, err)
		_, err = s.Purge(t.Context(), store.Purge{FinishedBefore: now.Add(time.Minute)})
		require.NoError(t, err)
		require.NoError(t, s.AppendJournal(t.Context(), []messages.JournalEntry{{Incarnation: messages.NewIncarnation(), Number: 1, Kind: messages.JournalOperator,
			Subject: gone.ID.String(), What: "cancel", Caller: "ann", At: now.Add(-2 * time.Hour)}}))
		apply(t, s, &store.End{ID: next.ID, Outcome: messages.Outcome{Status: messages.Cancelled}})
		_, err = s.SaveDeadLetter(t.Context(), store.DeadLetter{At: now.Add(-time.Minute), Execution: lost, Attempt: 1, Action: "core.noop", Worker: "n1/go/0", Queue: "q", Reason: "expired", Resolution: "failed"})
		require.NoError(t, err)
	}, "--config", configured(t, "retention: {executions: 3600}\n"))
	p := open(t, n, "/console/executions/"+gone.ID.String(), "404")
	p.shows(".empty", "It was deleted by retention. This node keeps ended executions for 1 h.")
	p.shows(".remains", "cancel")
	p.shows(".remains", "ann")
	p.looks("execution-deleted")
	require.Equal(t, "troupe get "+gone.ID.String()+" --server "+n.url, p.copied("troupe command"))
	require.Equal(t, gone.ID.String(), p.copied("Id"))
	p.click("Copy as…")
	p.shows(".head .pop", "Link")
	require.NotContains(t, p.text(".head .pop"), "Report", "there is nothing to report of")
	p.do(chromedp.KeyEvent(kb.Escape))
	p.do(chromedp.Click(".remains .chain a"))
	p.shows(".head", "cancelled")
	require.Contains(t, p.value("location.pathname"), next.ID.String())
	p.visit("/console/executions/" + messages.NewExecutionID().String())
	p.shows(".empty", "Nothing of it is stored")
	require.Zero(t, p.count(".remains"))

	p.visit("/console/dead-letters")
	p.shows("tbody", "deleted")
	p.do(chromedp.Click("tbody td a", chromedp.ByQuery))
	p.shows(".facts", "It is not stored any more: what is still known of it")
	p.looks("letter-deleted")
	p.do(chromedp.Click(`.facts a[href^="executions/"]`, chromedp.ByQuery))
	p.shows(".empty", "It was stored, and is no more.")
	p.shows(".remains", "core.noop, attempt 1, n1/go/0")
	p.visit("/console/errors?from=-2h")
	p.shows("main", "is deleted by its retention. What is still known of it are counts: charts of this time")
	p.visit("/console/errors?from=" + time.Now().Add(-10*time.Minute).UTC().Format(time.RFC3339))
	p.shows(".foot", "executions failed from")
	require.NotContains(t, p.text("main"), "retention")
}

// slowPack has an action whose one worker writes and takes its time.
func slowPack(t *testing.T) string {
	t.Helper()
	pack := t.TempDir()
	write(t, pack, "pack.yaml", "name: slow\nversion: 1.0.0\npools:\n  - {name: own, runtime: python, workers: 1}\n")
	write(t, pack, "actions/work.yaml", "name: work\nruntime: python\npool: own\nentrypoint: slow.py:work\n")
	write(t, pack, "slow.py", `import sys, time

def work(params):
    print("to stderr", file=sys.stderr, flush=True)
    time.sleep(1.5)
    return {}
`)
	return pack
}

// drag drags the mouse over a share of the lanes.
func (p *page) drag(from, to float64) {
	p.t.Helper()
	var box struct{ X, Y, Width, Height float64 }
	p.do(chromedp.ScrollIntoView(".lanes svg"), chromedp.Evaluate("(({x, y, width, height}) => ({x, y, width, height}))(document.querySelector('.lanes svg').getBoundingClientRect())", &box))
	at := func(kind input.MouseType, share float64) chromedp.Action {
		return chromedp.MouseEvent(kind, box.X+68+share*(box.Width-68), box.Y+box.Height-4, chromedp.ButtonLeft)
	}
	p.do(at(input.MousePressed, from), at(input.MouseMoved, (from+to)/2), at(input.MouseMoved, to), at(input.MouseReleased, to))
}

// query is a part of the address.
func (p *page) query(name string) string {
	p.t.Helper()
	return p.value("new URLSearchParams(location.search).get('" + name + "') ?? ''")
}

// The timeline is looked at closely by mouse, keys and fingers. The address has what is seen, and one cursor says what was at its moment in
// all lanes.
func TestATimelineIsLookedAtClosely(t *testing.T) {
	apart(t)
	n := start(t, "--packs", slowPack(t))
	first := submit(t, n, "slow.work", map[string]any{}, nil)
	second := submit(t, n, "slow.work", map[string]any{}, map[string]any{"wait_seconds": 30})
	require.Equal(t, "completed", second.Status)
	p := open(t, n, "/console/executions/"+second.ID)
	for _, lane := range []string{"wait", "run", "output", "beside"} {
		p.shows(".lanes text.lane", lane)
	}
	p.until("the other run leads to its page", func() bool { return p.count(`.lanes svg a[href="executions/`+first.ID+`"]`) == 1 })

	p.drag(0.3, 0.7)
	p.until("a part is in the address", func() bool { return p.query("from") != "" && p.query("to") != "" })
	p.shows("main", "Shown: ")
	span := func() time.Duration {
		from, errFrom := time.Parse(time.RFC3339Nano, p.query("from"))
		to, errTo := time.Parse(time.RFC3339Nano, p.query("to"))
		require.NoError(t, errFrom)
		require.NoError(t, errTo)
		return to.Sub(from)
	}
	dragged := span()
	p.do(chromedp.Evaluate(`(() => { const s = document.querySelector(".lanes svg"), b = s.getBoundingClientRect()
		s.dispatchEvent(new WheelEvent("wheel", {ctrlKey: true, deltaY: -150, clientX: b.x + b.width / 2, clientY: b.y + 30, bubbles: true, cancelable: true})) })()`, nil))
	p.until("the wheel zooms in", func() bool { return span() < dragged })
	turned := span()
	p.do(chromedp.Evaluate(`(() => { const s = document.querySelector(".lanes svg"), b = s.getBoundingClientRect()
		const touch = (kind, id, x) => s.dispatchEvent(new PointerEvent(kind, {pointerType: "touch", pointerId: id, clientX: b.x + 68 + x * (b.width - 68), clientY: b.y + 30, bubbles: true}))
		touch("pointerdown", 1, 0.4); touch("pointerdown", 2, 0.6); touch("pointermove", 1, 0.3); touch("pointermove", 2, 0.7); touch("pointerup", 1, 0.3); touch("pointerup", 2, 0.7) })()`, nil))
	p.until("two fingers zoom in", func() bool { return span() < turned })
	p.looks("execution-zoomed")

	p.do(chromedp.Focus(".steer input"), chromedp.KeyEvent("0"))
	p.until("all of it", func() bool { return p.query("from") == "" && p.query("to") == "" })
	p.do(chromedp.KeyEvent(kb.End), chromedp.KeyEvent(kb.ArrowLeft), chromedp.KeyEvent(kb.ArrowLeft))
	p.until("the cursor is in the address", func() bool { return p.query("at") != "" })
	p.shows(".readout", "running 1.")
	p.shows(".readout", "1 entry written")
	p.shows(".readout", "of 1 busy") // its pool
	require.Contains(t, p.value("document.querySelector('.steer input').getAttribute('aria-valuetext')"), "running 1.")
	begun := ask[struct {
		At time.Time `json:"started_at"`
	}](t, n, http.MethodGet, "/api/v1/executions/"+first.ID, nil).At
	p.visit("/console/executions/" + second.ID + "?at=" + begun.Add(time.Second).Format("2006-01-02T15:04:05.000Z"))
	p.shows(".readout", " after its request")
	p.shows(".readout", "its worker ran slow.work")
	p.shows(".readout", "none was before it") // the first one ran
	p.do(chromedp.Focus(".steer input"))
	for range 3 {
		before := p.value("location.search")
		p.do(chromedp.KeyEvent("+"))
		p.until("a key zooms in", func() bool { return p.value("location.search") != before })
	}
	seen := p.value("location.search")
	p.do(chromedp.Reload(), chromedp.WaitReady("main"))
	p.shows(".readout", " after its request")
	p.shows("main", "Shown: ")
	require.Equal(t, seen, p.value("location.search"))
	p.turns("steps")
	p.until("its table is in the address", func() bool { return p.query("table") == "timeline" })
	p.do(chromedp.Reload(), chromedp.WaitReady("main"))
	p.until("its table is open", func() bool { return p.value(`document.querySelector(".steps")?.open`) == "true" })
	p.shows(".steps", "its worker ran:")
	require.NotContains(t, p.text(".steps"), "ran: completed", "the run is not in the part that is shown")

	p.visit("/console/executions/" + second.ID + seen)
	p.shows(".lanes text.lane", "wait")
	p.do(chromedp.EmulateViewport(360, 800)) // as when the window is zoomed, or a phone is turned
	table := func() string { return p.value(`document.querySelector(".steps")?.open`) }
	p.until("the table stands in the place of the lanes", func() bool { return table() == "true" && p.count(".lanes svg") == 0 })
	require.Empty(t, p.query("table"))
	p.shows(".readout", " after its request")
	p.fits("a part of a timeline at 360 px")
	p.click("All")
	p.until("all of it, on a phone", func() bool { return p.query("from") == "" && p.query("to") == "" })
	p.shows(".steps", "ran: completed")
	p.do(chromedp.EmulateViewport(1280, 800))
	p.until("the lanes are back", func() bool { return table() == "false" && p.count(".lanes svg") == 1 })

	p.visit("/console/executions/" + second.ID + "?from=noon")
	p.shows(".chip.wrong", "want a time, as 2030-01-31T08:00:00Z")
	p.do(chromedp.Click(`[aria-label="Remove from:noon"]`))
	p.until("it is removed", func() bool { return p.count(".chip") == 0 && p.query("from") == "" })
}

// A node freezes while it runs an execution. The timeline has it silent, then dead, then what it did when it went on, beside the run that
// was lost and its worker; and the same in words.
func TestAFrozenNodeIsSeen(t *testing.T) {
	apart(t)
	store := servers.RoomyPostgres(t)
	frozen, other := on(t, "n1", store), on(t, "n2", store)
	ask[map[string]any](t, other, http.MethodPost, "/api/v1/nodes/n2/cordon", nil)
	run := submit(t, other, "demo.progress", map[string]any{"seconds": 5}, nil)
	p := open(t, other, "/console/executions/"+run.ID)
	p.shows(".head", "running")
	p.until("progress", func() bool { return p.count("progress") == 1 })
	ask[map[string]any](t, other, http.MethodPost, "/api/v1/nodes/n2/uncordon", nil)
	require.NoError(t, frozen.cmd.Process.Signal(syscall.SIGSTOP))
	for _, part := range []string{"n1 alive", "silent", "dead", "lost", "n2/python/"} {
		p.shows(".lanes text.bar", part)
	}
	require.NoError(t, frozen.cmd.Process.Signal(syscall.SIGCONT))
	p.shows(".head", "completed")
	p.turns("steps")
	for _, part := range []string{"waited: lost_run", "n1: silent", "no heartbeat, seen by n2", "n1: dead", "g1: busy", "wrote: nothing but progress"} {
		p.shows(".steps", part)
	}
	p.looks("execution-frozen-node")
}

// Where few of many entries of the journal match, the history says how far it looked, and looks further when asked.
func TestTheHistorySaysHowFarItLooked(t *testing.T) {
	apart(t)
	n := seeded(t, func(s *sqlite.Store) {
		now, err := s.Now(t.Context())
		require.NoError(t, err)
		list := make([]messages.JournalEntry, store.JournalWalk+1)
		for i := range list {
			list[i] = messages.JournalEntry{At: now.Add(time.Duration(i-len(list)) * time.Second), Incarnation: messages.Incarnation{1}, Number: int64(i + 1),
				Kind: messages.JournalPool, Subject: "python", What: "condition", Reason: "workers_busy"}
		}
		list[0].What = "handed_over"
		for some := range slices.Chunk(list, store.JournalBatch) {
			require.NoError(t, s.AppendJournal(t.Context(), some))
		}
	})
	p := open(t, n, "/console/history?what=handed_over")
	p.shows(".foot", "0 rows so far, looked back to ")
	p.looks("history-unsearched")
	p.click("Look further")
	p.shows(".foot", "1 row: all there are")
	p.shows("main", "handed_over: workers_busy")
}

// While it waits, an execution says how many are before it.
func TestAnExecutionSaysItsPlaceInLine(t *testing.T) {
	apart(t)
	n := start(t)
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/pools/shell/cordon", nil)
	var last execution
	for range 3 {
		last = submit(t, n, "core.shell_echo", map[string]any{"message": "a"}, nil)
	}
	p := open(t, n, "/console/executions/"+last.ID)
	p.shows(".why .place", "2 are before it for the next free worker of its pool.")
	p.looks("execution-in-line")
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/pools/shell/uncordon", nil)
	p.shows(".head", "completed")
	p.until("it waits no more", func() bool { return p.count(".place") == 0 })
	requested := ask[struct {
		At time.Time `json:"requested_at"`
	}](t, n, http.MethodGet, "/api/v1/executions/"+last.ID, nil).At
	p.visit("/console/executions/" + last.ID + "?at=" + requested.Add(time.Millisecond).Format("2006-01-02T15:04:05.000Z"))
	p.shows(".readout", "2 were before it")
	p.looks("execution-was-in-line")
}

// A worker's page has what grades it beside the thresholds, and a session's page leads to its worker and says what its snapshot has.
func TestWhatGradesAWorker(t *testing.T) {
	n := shared(t)
	e := submit(t, n, "demo.counter", map[string]any{}, map[string]any{"session": "graded", "wait_seconds": 30})
	require.Equal(t, "completed", e.Status)
	p := open(t, n, "/console/sessions/python/graded")
	p.shows(".facts", "Snapshot")
	p.do(chromedp.Click(`//dl//a[.="`+e.Worker+`"]`, chromedp.BySearch))
	p.shows("h1", e.Worker)
	p.shows(".grade", "Faults and failed probes in a row")
	p.until("the borders", func() bool {
		text := p.text(".grade table")
		return strings.Contains(text, "from 3") && strings.Contains(text, "from 10") && strings.Contains(text, "above 30\u00a0s")
	})
	p.shows(".grade .facts", "Last probe answered")
	require.Zero(t, p.count(".grade .json"), "nothing is raw")
	p.shows(".strip", "ready ")
	p.until("the session that is bound to it", func() bool { return p.count(`a[href="sessions/python/graded"]`) == 1 })
	p.looks("worker-graded")
}
