package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	cdp "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// page is one tab. What the browser complains of is collected, and fails the test at its end.
type page struct {
	t   *testing.T
	ctx context.Context
	n   *node

	passes []string // complaints with one of these texts are part of the test

	mu     sync.Mutex
	wrong  []string
	passed []string // complaints that are part of the test
	quiet  bool     // the test cuts the node off: the browser's complaints of the network are expected
}

// open opens a page of the console in a new tab, 1280 px wide. Passes are complaints that are part of the test.
func open(t *testing.T, n *node, path string, passes ...string) *page {
	t.Helper()
	tab, leave := chromedp.NewContext(browserOf(t))
	t.Cleanup(leave)
	ctx, stop := context.WithTimeout(tab, 6*patience)
	t.Cleanup(stop)
	p := &page{t: t, ctx: ctx, n: n, passes: passes}
	chromedp.ListenTarget(tab, p.hear)
	t.Cleanup(p.clean)
	p.do(cdp.BringToFront(), chromedp.EmulateViewport(1280, 800), p.theme("light"))
	p.visit(path)
	return p
}

// hear collects complaints.
func (p *page) hear(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		p.complain("exception: " + e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning || e.Type == runtime.APITypeAssert {
			var parts []string
			for _, a := range e.Args {
				parts = append(parts, string(a.Value)+a.Description)
			}
			p.complain("console: " + strings.Join(parts, " "))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning {
			p.complain(fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	}
}

func (p *page) complain(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Axe loads the page's style sheets once more, and complains where the node does not give them.
	if p.quiet && (strings.HasPrefix(text, "network: ") || strings.Contains(text, "Couldn't load preload assets")) {
		return
	}
	for _, pass := range p.passes {
		if strings.Contains(text, pass) {
			p.passed = append(p.passed, text)
			return
		}
	}
	p.wrong = append(p.wrong, text)
}

// complained reports whether the browser has complained of something that is part of the test.
func (p *page) complained(of string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.passed, func(text string) bool { return strings.Contains(text, of) })
}

func (p *page) clean() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.wrong) > 0 {
		p.t.Errorf("the browser complained:\n%s", strings.Join(p.wrong, "\n"))
	}
}

// cutOff says that the node goes away from now on.
func (p *page) cutOff() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.quiet = true
}

// do runs actions.
func (p *page) do(actions ...chromedp.Action) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Run(p.ctx, actions...))
}

// visit goes to a path of the node.
func (p *page) visit(path string) {
	p.t.Helper()
	p.do(chromedp.Navigate(p.n.url+path), chromedp.WaitReady("main"))
}

// text is what the page shows of a part.
func (p *page) text(selector string) string {
	var text string
	script := fmt.Sprintf("[...document.querySelectorAll(%q)].map((e) => e.innerText ?? e.textContent).join('\\n')", selector)
	p.do(chromedp.Evaluate(script, &text))
	return text
}

// shows waits until a part of the page has a text.
func (p *page) shows(selector, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("%s shows %q", selector, text), func() bool { return strings.Contains(p.text(selector), text) })
}

// until waits until something holds. At the end of its patience it says what the page shows.
func (p *page) until(what string, holds func() bool) {
	p.t.Helper()
	p.untilFine(func() string {
		if holds() {
			return ""
		}
		return what
	})
}

// untilFine waits until nothing is wrong.
func (p *page) untilFine(wrong func() string) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(25 * time.Millisecond) {
		what := wrong()
		if what == "" {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("waited in vain: %s; %s shows:\n%s", what, p.value("location.href"), p.text("main"))
		}
	}
}

// value evaluates an expression in the page that gives a text.
func (p *page) value(script string) string {
	p.t.Helper()
	var text string
	p.do(chromedp.Evaluate("String("+script+")", &text))
	return text
}

// count is how many elements match.
func (p *page) count(selector string) int {
	p.t.Helper()
	var n int
	p.do(chromedp.Evaluate(fmt.Sprintf("document.querySelectorAll(%q).length", selector), &n))
	return n
}

// rests waits until an element stays where it is: what comes in above it moves it, and a click goes to a place.
func (p *page) rests(xpath string) {
	p.t.Helper()
	place := fmt.Sprintf(`(() => {
		const e = document.evaluate(%q, document, null, XPathResult.FIRST_ORDERED_NODE_TYPE).singleNodeValue?.getBoundingClientRect()
		return e ? e.x + " " + (e.y + scrollY) : ""
	})()`, xpath)
	before, since := "", time.Now()
	p.until("it rests: "+xpath, func() bool {
		if now := p.value(place); now != before {
			before, since = now, time.Now()
		}
		return before != "" && time.Since(since) > restTime && p.count("[aria-busy=true]") == 0
	})
}

// restTime is how long an element that rests has not moved.
const restTime = 200 * time.Millisecond

// button is a button with a text, as a selector for chromedp.BySearch.
func button(text string) string {
	return fmt.Sprintf("//button[contains(normalize-space(.), %q)]", text)
}

func (p *page) click(text string) {
	p.t.Helper()
	p.do(chromedp.Click(button(text), chromedp.BySearch))
}

func (p *page) theme(name string) chromedp.Action {
	return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"},
	})
}

// widths and themes in which each page is looked at.
var (
	widths = []int64{1280, 360}
	themes = []string{"light", "dark"}
)

// between are further widths in which each page must fit: at 1024 and 1001 px beside the rail, below under it, and on both sides of the
// width at which lists have two lines a row.
var between = []int64{1024, 1001, 901, 800, 765}

// looks checks the page at every width and in every theme: nothing reaches beyond the screen, and axe finds nothing. At a zoom of 200 %
// it fits too. With -screenshots it takes pictures.
func (p *page) looks(name string) {
	p.t.Helper()
	for _, width := range widths {
		for _, theme := range themes {
			p.do(p.theme(theme), chromedp.EmulateViewport(width, 800))
			p.fits(fmt.Sprintf("%s at %d px", name, width))
			p.accessible(fmt.Sprintf("%s at %d px, %s", name, width, theme))
			p.picture(fmt.Sprintf("%s-%d-%s", name, width, theme))
		}
	}
	p.do(p.theme("light"))
	for _, width := range between {
		p.do(chromedp.EmulateViewport(width, 800))
		p.fits(fmt.Sprintf("%s at %d px", name, width))
		p.picture(fmt.Sprintf("%s-%d", name, width))
	}
	p.do(chromedp.EmulateViewport(1280/2, 800/2, chromedp.EmulateScale(2)))
	p.fits(name + " at a zoom of 200 %")
	p.do(chromedp.EmulateViewport(1280, 800))
}

// contrasts checks the page with high contrast.
func (p *page) contrasts(name string) {
	p.t.Helper()
	p.do(chromedp.Evaluate("document.documentElement.dataset.theme = 'contrast'", nil))
	p.accessible(name + " with high contrast")
	p.picture(name + "-1280-contrast")
	p.do(chromedp.Evaluate("delete document.documentElement.dataset.theme", nil))
}

// fits waits until nothing reaches beyond the screen, menus that are opened included, and no cell of a status or a duration is cut.
func (p *page) fits(what string) {
	p.t.Helper()
	p.untilFine(func() string {
		wrong := p.value(misfits)
		if wrong == "" {
			wrong = p.beyond()
		}
		if wrong != "" {
			return what + ": " + wrong
		}
		return ""
	})
}

// beyond opens each menu of the page and closes it again, and is those that did not lie within the window.
func (p *page) beyond() string {
	p.t.Helper()
	var wrong string
	p.do(chromedp.Evaluate(menus, &wrong, func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
	return wrong
}

// menus opens what opens a menu, and gives the menus beyond the window's edges. What is open already is only measured.
const menus = `(async () => {
	const wrong = [], focused = document.activeElement, scrolled = scrollY
	const measure = () => document.querySelectorAll(".pop").forEach((e) => {
		const { left, right } = e.getBoundingClientRect()
		if (left < -0.5 || right > innerWidth + 0.5) wrong.push("the menu " + e.parentElement.innerText.slice(0, 30) + " lies at " + left + " to " + right)
	})
	measure()
	if (document.querySelector(".pop, dialog[open]")) return wrong.join("; ")
	for (const button of [...document.querySelectorAll(".menu > button[aria-expanded=false]")].filter((e) => e.checkVisibility())) {
		button.click()
		await new Promise((drawn) => setTimeout(drawn))
		measure()
		if (button.ariaExpanded === "true") button.click()
		await new Promise((drawn) => setTimeout(drawn))
	}
	if (document.activeElement !== focused) focused?.focus?.({ preventScroll: true })
	scrollTo(0, scrolled)
	return wrong.join("; ")
})()`

// misfits is what does not fit: a page is asked for all of it at once.
const misfits = `[["it is wider than the screen", document.documentElement.scrollWidth > innerWidth ? "by " + (document.documentElement.scrollWidth - innerWidth) : ""],
	["cut", ` + cut + `], ["label beyond its row", ` + label + `], ["beyond its card", ` + out + `], ["too small to press", ` + small + `]].filter(([, wrong]) => wrong).map((pair) => pair.join(": ")).join("; ")`

// small is what is pressed and has less than 24 px each way. The label around a checkbox is pressed too, where nothing lies over it but what is
// opened for a while.
const small = `[...document.querySelectorAll("button, select, summary, input")].filter((e) => e.checkVisibility()).map((e) => (e.type === "checkbox" && e.closest("label")) || e).filter((e) => {
	const r = e.getBoundingClientRect(), [x, y] = [r.left + r.width / 2, r.top + r.height / 2]
	const hit = ([dx, dy]) => { const there = document.elementFromPoint(x + dx, y + dy); return !there || e.contains(there) || there.closest(".pop") }
	return r.width < 23.9 || r.height < 23.9 || e.matches(".pick") && !document.querySelector("dialog[open]") && r.top > 0 && r.bottom < innerHeight && ![[-11, 0], [11, 0], [0, -11], [0, 11]].every(hit)
}).map((e) => e.tagName + " " + e.className + " " + e.innerText.slice(0, 30)).join(", ")`

// out is the beginning of what reaches beyond its card, where that is not scrolled.
const out = `[...document.querySelectorAll(".card")].flatMap((c) => [...c.querySelectorAll("table, dl, ul, p")].filter((e) =>
	!e.closest(".scroll, .wide, .pop, .lanes, .plot, .offscreen") && e.getBoundingClientRect().right > c.getBoundingClientRect().right + 1)).map((e) => e.innerText.slice(0, 40)).join(", ")`

// cut is the text of the cells that show less than all of it.
const cut = `[...document.querySelectorAll("td:has(.status), td.c-wait, td.c-run")].filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.innerText).join(", ")`

// label is the labels beside the cells of a narrow list that are higher or wider than the room they have.
const label = `[...document.querySelectorAll("table.cards td[data-l]")].filter((e) => e.checkVisibility()).filter((e) => {
	const before = getComputedStyle(e, "::before")
	return before.content !== "none" && (parseFloat(before.height) > e.clientHeight + 0.5 || parseFloat(before.width) > parseFloat(getComputedStyle(e).paddingLeft))
}).map((e) => e.dataset.l).join(", ")`

func (p *page) picture(name string) {
	p.t.Helper()
	if *pictures == "" {
		return
	}
	var png []byte
	p.do(chromedp.CaptureScreenshot(&png))
	require.NoError(p.t, os.MkdirAll(*pictures, 0o755))
	require.NoError(p.t, os.WriteFile(filepath.Join(*pictures, strings.ReplaceAll(name, "/", "-")+".png"), png, 0o644))
}
