package browser

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// heap is what the page's scripts hold, in bytes, after all that can be given back was.
func (p *page) heap() float64 {
	p.t.Helper()
	var used float64
	p.do(heapprofiler.CollectGarbage(), chromedp.ActionFunc(func(ctx context.Context) (err error) {
		used, _, _, _, err = runtime.GetHeapUsage().Do(ctx)
		return err
	}))
	return used
}

// rounds goes round the pages by their links, without loading any anew, and waits at each until it has drawn.
const rounds = `(async (n) => {
	const drawn = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))
	for (let i = 0; i < n; i++) {
		const links = document.querySelectorAll('nav a')
		links[i % links.length].click()
		await drawn()
	}
	return document.querySelectorAll('*').length
})`

// Going round the pages leaves nothing of those that were left.
func TestGoingRoundThePagesLeavesNothingBehind(t *testing.T) { goRound(t, 40) }

// TestWholeGoingRound is the same 500 times: make chaos.
func TestWholeGoingRound(t *testing.T) {
	if os.Getenv("TROUPE_CHAOS") != "whole" {
		t.Skip("500 pages: make chaos, or TROUPE_CHAOS=whole")
	}
	goRound(t, 500)
}

// goRound compares the heap after so many navigations with that after the first time round.
func goRound(t *testing.T, navigations int) {
	n := shared(t)
	p := open(t, n, "/console/")
	p.shows("h1", "Overview")
	round := func(times int) {
		var elements int
		p.do(chromedp.Evaluate(rounds+fmt.Sprintf("(%d)", times), &elements, awaited))
	}
	round(13)
	before := p.heap()
	round(navigations)
	after := p.heap()
	t.Logf("the heap has %.1f MB at first, and %.1f MB after %d navigations more", before/1e6, after/1e6, navigations)
	require.Less(t, after, before+1.5e6)
}

func awaited(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }

// frames scrolls through the page in steps, and returns how long each frame took, in order.
const frames = `(async () => {
	const took = []
	let before = 0
	const end = document.body.scrollHeight - innerHeight
	for (let i = 0; i <= 120; i++) {
		scrollTo(0, end * i / 120)
		const now = await new Promise((done) => requestAnimationFrame(done))
		if (before) took.push(now - before)
		before = now
	}
	return took.sort((a, b) => a - b)
})()`

// A list of a thousand rows draws some of them. How long its frames take is logged, and not asserted: that is the machine's.
func TestAThousandRowsAreScrolled(t *testing.T) {
	n := shared(t)
	var batch []map[string]any
	for range 1000 {
		batch = append(batch, map[string]any{"action_ref": "core.noop", "labels": map[string]any{"test": "thousand"}})
	}
	ask[map[string]any](t, n, http.MethodPost, "/api/v1/executions/batch", map[string]any{"executions": batch})
	p := open(t, n, "/console/executions?label=test%3Dthousand")
	for rows := 100; rows < 1000; rows += 100 {
		p.shows(".foot", fmt.Sprintf("%d rows", rows))
		p.click("Load older")
	}
	p.shows(".foot", "1,000 rows")
	var took []float64
	p.do(chromedp.Evaluate(frames, &took, awaited))
	t.Logf("frames while 1,000 rows are scrolled: median %.1f ms, 95 %% %.1f ms, longest %.1f ms", took[len(took)/2], took[len(took)*95/100], took[len(took)-1])
	require.LessOrEqual(t, p.count("tbody tr:not(.gap)"), 60)
	require.Positive(t, p.count("tbody tr:not(.gap)"))
}
