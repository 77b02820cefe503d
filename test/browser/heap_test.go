package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	cdp "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api/hub"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/live"
)

// busy stands between a browser and a node, and writes the live stream itself: ticks as they come once a second from a node with much to
// do, but as fast as the page reads them.
type busy struct {
	t    *testing.T
	node *node // as the browser sees it
	real *node

	mu    sync.Mutex
	ticks chan int // of the stream that was opened last
}

func busily(t *testing.T, n *node) *busy {
	t.Helper()
	s := &busy{t: t, real: n}
	s.node = before(t, n, s.follow)
	return s
}

// told is a topic of a stream, and its answer.
type told struct {
	name, kind string
	lists      live.Lists
	answer     map[string]any
	entries    []live.Entry
	entered    int // of the journal
	n          int64
}

// asks are the questions that topics answer.
var asks = map[string]struct {
	path  string
	lists live.Lists
}{
	"counters": {"overview", live.Lists{"pools": {"name"}, "nodes": {"incarnation"}}},
	"list":     {"executions", live.Lists{"executions": {"id"}}},
	"journal":  {"journal", live.Lists{"entries": {"incarnation", "number"}}},
	"nodes":    {"nodes", live.Lists{"nodes": {"incarnation"}}},
}

// stream gives the ticks of the stream that was opened last.
func (s *busy) stream() chan int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ticks
}

// tick has a tick written. It waits until the page has a stream, and has read most of what came before.
func (s *busy) tick(number int) {
	for {
		select {
		case s.stream() <- number:
			return
		case <-s.t.Context().Done():
			return
		case <-time.After(100 * time.Millisecond): // the page may have opened another stream
		}
	}
}

// follow writes a snapshot of each topic, and then the ticks.
func (s *busy) follow(w http.ResponseWriter, r *http.Request) {
	ticks := make(chan int)
	s.mu.Lock()
	s.ticks = ticks
	s.mu.Unlock()
	var topics []*told
	for name := range strings.SplitSeq(r.URL.Query().Get("topics"), ",") {
		kind, filter, _ := strings.Cut(name, ":")
		of, known := asks[kind]
		if !known {
			http.NotFound(w, r)
			s.t.Errorf("the page follows %s", name)
			return
		}
		t := &told{name: name, kind: kind, lists: of.lists}
		answer, err := http.Get(s.real.url + "/api/v1/" + of.path + "?" + filter)
		if err != nil {
			return
		}
		err = json.NewDecoder(answer.Body).Decode(&t.answer)
		_ = answer.Body.Close()
		if err != nil {
			return
		}
		delete(t.answer, "me")
		topics = append(topics, t)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	if _, err := fmt.Fprint(w, "event: notice\ndata: {\"node\":\"n1\",\"version\":\"dev\",\"build\":\"dev\"}\n\n"); err != nil {
		return
	}
	for tick := 0; ; {
		for _, t := range topics {
			if _, err := w.Write(t.frame(tick)); err != nil {
				return
			}
		}
		if out.Flush() != nil {
			return
		}
		select {
		case tick = <-ticks:
		case <-r.Context().Done():
			return
		}
	}
}

// frame is the event of a tick, or nothing where the tick changes nothing. The first is the snapshot.
func (t *told) frame(tick int) []byte {
	if tick > 0 {
		t.change(tick)
	}
	text, err := json.Marshal(t.answer)
	if err != nil {
		panic(err) // it was read from JSON
	}
	entries, err := live.Split(text, t.lists)
	if err != nil {
		panic(err)
	}
	e := hub.Event{Topic: t.name, At: time.Now().UTC(), N: t.n + 1, After: t.n}
	if e.Change = live.Diff(t.entries, entries); e.After == 0 {
		e.Change = live.Snapshot(entries)
	} else if e.Change.Empty() {
		return nil
	}
	t.entries, t.n = entries, e.N
	event, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", t.kind, event)
}

// change makes what a second of much work makes of an answer: every number is another one, executions and entries come and go.
func (t *told) change(tick int) {
	switch t.kind {
	case "counters":
		for _, part := range []string{"totals", "counts", "pools"} {
			t.answer[part] = another(t.answer[part])
		}
		t.answer["totals"].(map[string]any)["running"] = tick
		t.answer["counts"].(map[string]any)["failures"] = []any{map[string]any{
			"action_ref": "core.fail", "code": fmt.Sprintf("code_%d", tick), "n": tick, "before": 0, "first": time.Now(), "last": time.Now(),
		}}
	case "list":
		list, _ := t.answer["executions"].([]any)
		if len(list) == 0 {
			return
		}
		last := list[len(list)-1].(map[string]any)
		fresh := make([]any, 0, len(list))
		for i := range min(5, len(list)-1) {
			e := map[string]any{}
			for name, value := range last {
				e[name] = value
			}
			id := messages.NewExecutionID().String()
			e["id"], e["requested_at"], e["session"] = id, time.Now().UTC(), "s"+id
			e["error"] = map[string]any{"code": fmt.Sprintf("code_%d_%d", tick, i), "message": "of " + id}
			fresh = append(fresh, e)
		}
		// The oldest row stays: the page shows it, and so how far it has read.
		last["error"] = map[string]any{"code": fmt.Sprintf("tick_%d", tick), "message": "it is said"}
		t.answer["executions"] = append(append(fresh, list[:len(list)-1-len(fresh)]...), last)
	case "journal":
		list, _ := t.answer["entries"].([]any)
		if len(list) == 0 {
			return
		}
		e := map[string]any{}
		for name, value := range list[0].(map[string]any) {
			e[name] = value
		}
		t.entered++ // a tick can be written again
		e["number"], e["at"], e["subject"] = 1_000_000+t.entered, time.Now().UTC(), fmt.Sprintf("pool-%d", tick)
		t.answer["entries"] = append([]any{e}, list[:len(list)-1]...)
	}
}

// another is a value with other numbers.
func another(v any) any {
	switch v := v.(type) {
	case float64:
		return float64(rand.IntN(1000))
	case map[string]any:
		for name := range v {
			v[name] = another(v[name])
		}
	case []any:
		for i := range v {
			v[i] = another(v[i])
		}
	}
	return v
}

// What a page and its follower hold after a time, in bytes, and how much more than halfway through it.
const (
	heapMax  = 150e6
	heapMore = 0.75e6
)

// A page that is open for long holds no more than a page that is open for half as long.
func TestAPageThatIsOpenForLongHoldsNoMore(t *testing.T) { staysOpen(t, 600) }

// TestWholePageThatIsOpenForLong is the same for the ticks of eight hours: make chaos.
func TestWholePageThatIsOpenForLong(t *testing.T) {
	if os.Getenv("TROUPE_CHAOS") != "whole" {
		t.Skip("28,800 ticks: make chaos, or TROUPE_CHAOS=whole")
	}
	staysOpen(t, 8*60*60)
}

func staysOpen(t *testing.T, ticks int) {
	apart(t)
	n := start(t)
	for range 50 {
		submit(t, n, "core.fail", map[string]any{"message": "no", "code": "no"}, map[string]any{"labels": map[string]any{"test": "long"}, "wait_seconds": 10})
	}
	for _, of := range []struct {
		path, where string
		shows       func(tick int) string // where the page has read it
	}{
		{"/console/executions?label=test%3Dlong", "tbody", func(tick int) string { return fmt.Sprintf("tick_%d", tick) }},
		{"/console/", ".facts", func(tick int) string { return "Running\n" + grouped(tick) }},
	} {
		s := busily(t, n)
		p := open(t, s.node, "/console/settings")
		p.do(chromedp.ActionFunc(func(ctx context.Context) error { // so that the page's heap has what a shared worker would hold too
			_, err := cdp.AddScriptToEvaluateOnNewDocument(`delete globalThis.SharedWorker`).Do(ctx)
			return err
		}))
		p.visit(of.path)
		said := 0
		goOn := func(more int) float64 {
			for range more {
				said++
				s.tick(said)
			}
			p.until("it has read "+of.shows(said), func() bool {
				if strings.Contains(p.text(of.where), of.shows(said)) {
					return true
				}
				s.tick(said) // the page may have opened another stream
				return false
			})
			return p.heap()
		}
		began := time.Now()
		first := goOn(ticks / 10)
		half := goOn(ticks/2 - ticks/10)
		whole := goOn(ticks - ticks/2)
		t.Logf("%s: the heap has %.1f MB after %d ticks, %.1f MB after %d, and %.1f MB after %d, in %v", of.path, first/1e6, ticks/10, half/1e6, ticks/2, whole/1e6, ticks, time.Since(began).Round(time.Millisecond))
		require.Less(t, whole, half+heapMore)
		require.Less(t, whole, heapMax)
	}
}

// grouped writes a number as the page does.
func grouped(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}
