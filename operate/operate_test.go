package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/membership"
	"github.com/troupe-run/troupe/store"
)

func incarnationOf(n byte) messages.Incarnation { return messages.Incarnation{15: n} }

func known(n byte, name string, state store.NodeState) store.Node {
	return store.Node{Incarnation: incarnationOf(n), Name: name, State: state, Address: fmt.Sprintf("h%d:7070", n)}
}

func TestLocate(t *testing.T) {
	t.Parallel()
	all := []store.Node{
		known(9, "twin", store.NodeActive), known(8, "twin", store.NodeDraining),
		known(7, "back", store.NodeActive), known(6, "back", store.NodeActive), known(5, "back", store.NodeDead),
		known(4, "gone", store.NodeDead), known(3, "gone", store.NodeDead), known(2, "one", store.NodeDraining),
	}
	lapsed := func(inc messages.Incarnation) bool { return inc == incarnationOf(6) }
	for _, c := range []struct {
		text   string
		want   byte // 0: an error
		status int
		says   string
	}{
		{"one", 2, 0, ""},
		{incarnationOf(2).String(), 2, 0, ""},
		{"one@" + incarnationOf(2).Short(), 2, 0, ""},
		{"two@" + incarnationOf(2).Short(), 0, 404, "there is no node two@00000002"},
		{"back", 7, 0, ""}, // the other's lease has run out
		{incarnationOf(6).String(), 6, 0, ""},
		{incarnationOf(5).String(), 0, 404, "is dead: incarnation " + incarnationOf(5).String() + " has ended"},
		{"twin", 0, 409, incarnationOf(9).String() + " at h9:7070 or " + incarnationOf(8).String() + " at h8:7070"},
		{incarnationOf(8).String(), 8, 0, ""},
		{"gone", 0, 404, "node gone is dead: incarnation " + incarnationOf(4).String()},
		{"none", 0, 404, "there is no node none; `troupe nodes` lists them"},
		{"", 0, 404, "there is no node"},
	} {
		n, err := locate(c.text, all, lapsed)
		if c.want != 0 {
			require.NoError(t, err, c.text)
			require.Equal(t, incarnationOf(c.want), n.Incarnation, c.text)
			continue
		}
		var p *messages.Problem
		require.True(t, errors.As(err, &p), c.text)
		require.Equal(t, c.status, api.StatusOf(p), c.text)
		require.Contains(t, p.Message, c.says)
	}
	_, err := locate("back", all, func(messages.Incarnation) bool { return true })
	require.ErrorContains(t, err, "2 live nodes are named back", "no one is chosen where none holds its lease")
}

// What the store shows of a peer is read against when it became silent.
func TestBeats(t *testing.T) {
	t.Parallel()
	const every = time.Second
	var s sights
	base, inc := time.Now(), incarnationOf(2)
	clock := base.Add(-time.Hour) // the store's
	took := time.Duration(0)      // from the question to the store's time
	saw := func(after, beat time.Duration, lapsed bool) {
		s.keep(base.Add(after), incarnationOf(1), []membership.Other{{Incarnation: inc, Lapsed: lapsed}},
			[]store.Node{{Incarnation: incarnationOf(1), BeatAt: clock.Add(after + took)}, {Incarnation: inc, BeatAt: clock.Add(beat)}})
	}
	silent := base.Add(10 * time.Second)
	judge := func(silent time.Time) membership.BeatSight { return s.beats(inc, silent, every) }
	require.Equal(t, membership.BeatsUnknown, judge(time.Time{}), "nothing was seen yet")
	require.True(t, s.joining(inc))
	saw(10*time.Second, 9*time.Second, false)
	require.Equal(t, membership.BeatsOn, judge(time.Time{}))
	require.False(t, s.joining(inc))
	require.Equal(t, membership.BeatsDue, judge(silent))
	saw(11*time.Second, 10*time.Second, false)
	require.Equal(t, membership.BeatsDue, judge(silent), "that one may have been under way")
	saw(12*time.Second, 10*time.Second, false)
	require.Equal(t, membership.BeatsDue, judge(silent), "the same beat again is none")
	saw(13*time.Second, 11*time.Second, false)
	require.Equal(t, membership.BeatsDue, judge(silent), "one that is seen late is no later for it")
	saw(13*time.Second, 12*time.Second, false)
	require.Equal(t, membership.BeatsOn, judge(silent))
	took = 2 * time.Second
	saw(14*time.Second, 13*time.Second, false)
	require.Equal(t, membership.BeatsOn, judge(silent), "a slow answer takes nothing back")
	saw(17*time.Second, 12*time.Second, true)
	require.Equal(t, membership.BeatsOver, judge(silent))
	require.True(t, s.lapsed(inc))
	s.lost()
	require.False(t, s.joining(incarnationOf(3)), "that is not known, without the store")
	require.Equal(t, membership.BeatsUnknown, judge(silent))
	require.Len(t, s.nodes(), 1, "who was there is remembered")
	s.keep(base.Add(20*time.Second), incarnationOf(1), nil, nil)
	require.Empty(t, s.nodes())
	require.False(t, s.lapsed(inc))
}

func TestPoolsAreSummed(t *testing.T) {
	t.Parallel()
	sum := poolSum{}
	sum.add("a", false, &view.Pool{Name: "go", Runtime: "go", Workers: 3, Ready: 2, Busy: 1, Restarts: 4, Window: 5, Cordoned: true, Dispatch: "direct",
		Routing: view.Routing{Mode: "leading", Router: "a"}})
	sum.add("b", true, &view.Pool{Name: "go", Runtime: "go", Workers: 2, Starting: 1, Degraded: 1, Window: 9, Broken: true, Reason: "no go", Dispatch: "broker",
		Routing: view.Routing{Mode: "following", Router: "a"}})
	sum.addStale(&view.Worker{Pool: "go", Node: "c"})
	sum.add("a", false, &view.Pool{Name: "py", Workers: 1, Broken: true, Reason: "no python"})
	sum.add("a", false, &view.Pool{Name: "sh", Workers: 1, Broken: true, Reason: "x: y", Dispatch: "direct"})
	sum.add("b", true, &view.Pool{Name: "sh", Workers: 1, Broken: true, Reason: "z", Cordoned: true})
	sum.addStale(&view.Worker{Pool: "far", Node: "c", Runtime: "shell"})
	views := sum.views([]store.Depth{
		{Pool: "go", Status: messages.Requested, Count: 7, NotDue: 3}, {Pool: "go", Status: messages.Scheduled, Count: 2},
		{Pool: "go", Status: messages.Running, Count: 1}, {Pool: "other", Status: messages.Running, Count: 9},
	})
	require.Equal(t, []view.Pool{
		{Name: "far", Runtime: "shell", Nodes: 1, Workers: 1, Stale: 1},
		{Name: "go", Runtime: "go", Nodes: 3, Workers: 6, Stale: 1, Ready: 2, Busy: 1, Degraded: 1, Starting: 1, Waiting: 7, NotDue: 3, Placed: 2,
			Running: 1, Window: 9, Restarts: 4, Reason: "broken on 1 of 2 nodes: b: no go", Dispatch: "mixed", Routing: view.Routing{Mode: "following", Router: "a"}},
		{Name: "py", Nodes: 1, Workers: 1, Broken: true, Reason: "no python"},
		{Name: "sh", Nodes: 2, Workers: 2, Broken: true, Reason: "a: x: y; b: z", Dispatch: "direct"}, // an older release does not say
	}, views)
}

// A listing that does not fit travels in pages, each worker once and in order.
func TestAListingTravelsInPages(t *testing.T) {
	t.Parallel()
	var all []view.Worker
	for _, pool := range []string{"a", "b.c"} {
		for slot := range messages.Slot(1500) {
			all = append(all, view.Worker{ID: messages.NewWorkerID("n", pool, slot), Pool: pool, LastError: strings.Repeat("x", 400)})
		}
	}
	var got []view.Worker
	after, pages := "", 0
	for {
		body, err := pageOf(all, after, placeOf, behindPlace)
		require.NoError(t, err)
		page := body.(wire.Views)
		require.LessOrEqual(t, len(page.View), wire.ViewsMax)
		var part []view.Worker
		require.NoError(t, json.Unmarshal(page.View, &part))
		got, pages = append(got, part...), pages+1
		if after = page.Next; after == "" {
			break
		}
	}
	require.Equal(t, all, got)
	require.Greater(t, pages, 5)
	for _, odd := range []string{"x", "a/", "a/x", "/"} {
		_, err := pageOf(all[:2], odd, placeOf, behindPlace)
		require.NoError(t, err, "a place that is none is no harm")
	}
}

func TestAWorkerTravelsWithAsMuchHistoryAsFits(t *testing.T) {
	t.Parallel()
	d := view.WorkerDetail{Worker: view.Worker{ID: "n/a/0"}}
	for range historyMax {
		d.History = append(d.History, store.WorkerEvent{Metadata: json.RawMessage(`"` + strings.Repeat("x", 8<<10) + `"`)})
	}
	raw, err := fitWorker(d)
	require.NoError(t, err)
	require.LessOrEqual(t, len(raw), wire.ViewsMax)
	var got view.WorkerDetail
	require.NoError(t, json.Unmarshal(raw, &got))
	require.Len(t, got.History, historyMax/4)
	d.LastError = strings.Repeat("x", wire.ViewsMax)
	_, err = fitWorker(d)
	require.ErrorContains(t, err, "worker n/a/0 does not fit")
}

func TestEventsTravelAndComeBack(t *testing.T) {
	t.Parallel()
	at := time.Now()
	for _, h := range []messages.RunEvent{
		{Kind: "stdout", At: at, Data: []byte("a\xff"), Fraction: -1},
		{Kind: "chunk", At: at, Chunk: json.RawMessage(`{"a":1}`)},
		{Kind: "progress", At: at, Fraction: 0.5, Message: "half"},
	} {
		w := wireOf(&h)
		require.Equal(t, live(h), liveOf(&w))
	}
	w := wireOf(&messages.RunEvent{Kind: "progress", Fraction: math.NaN()})
	require.Nil(t, liveOf(&w).Fraction)
	w = wireOf(&messages.RunEvent{Kind: "chunk", Chunk: make([]byte, wire.RunEventMax)})
	require.Equal(t, "notice", w.Kind)
	require.Contains(t, w.Message, "too large to be passed on")
	require.Equal(t, "notice", liveOf(&wire.RunEvent{Kind: "chunk", Chunk: []byte("{")}).Kind)
}

// What a node refuses arrives as the problem that it was.
func TestRefusalsTravel(t *testing.T) {
	t.Parallel()
	to := &store.Node{Name: "b"}
	for _, c := range []struct {
		err    error
		status int
		says   string
	}{
		{noWorker("b/go/7"), http.StatusNotFound, `node b: there is no worker "b/go/7"`},
		{fmt.Errorf("cordon: %w", store.ErrNotFound), http.StatusNotFound, "node b: cordon: "},
		{store.ErrUnavailable, http.StatusServiceUnavailable, "node b: "},
		{context.DeadlineExceeded, http.StatusServiceUnavailable, "node b: "},
		{errors.New(strings.Repeat("ä", 300)), http.StatusBadGateway, "node b refused it: ää"},
	} {
		ack := refuse(c.err)
		require.LessOrEqual(t, len(ack.Refused), refusedMax)
		var p *messages.Problem
		require.True(t, errors.As(refusal(to, ack), &p))
		require.Equal(t, c.status, api.StatusOf(p), c.err)
		require.Contains(t, p.Message, c.says)
	}
}

func TestATimeBeyondTheBackOffIsSaid(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		e    messages.Execution
		said bool
	}{
		"submitted for a time":       {messages.Execution{RunAt: now.Add(48 * time.Hour)}, false},
		"a retry":                    {messages.Execution{RetryCount: 1, RunAt: now.Add(5 * time.Minute)}, false},
		"a retry, a little beyond":   {messages.Execution{RetryCount: 1, RunAt: now.Add(6 * time.Minute)}, false},
		"a retry, far beyond":        {messages.Execution{RetryCount: 1, RunAt: now.Add(time.Hour)}, true},
		"given back, far beyond":     {messages.Execution{Attempt: 2, RunAt: now.Add(time.Hour)}, true},
		"given back, after a moment": {messages.Execution{Attempt: 2, RunAt: now.Add(time.Second)}, false},
	} {
		x := view.Explanation{Message: "it waits for its time", WhatToDo: "Nothing."}
		beyondBackOff(&x, &c.e, now, 5*time.Minute)
		require.Equal(t, c.said, x.WhatToDo != "Nothing.", name)
		if c.said {
			require.Contains(t, x.Message, "it waits for its time; that is 1h0m0s from now, and its longest back-off is 5m0s:", name)
		}
	}
}
