package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/api/hub"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/live"
	"github.com/troupe-run/troupe/store"
)

func topicsQuery(topics ...string) string {
	return "/api/v1/stream?topics=" + url.QueryEscape(strings.Join(topics, ","))
}

// sent is one event of a stream.
type sent struct{ id, kind, data string }

// events reads a stream's events, until each says that it has enough or the stream ends.
func events(t *testing.T, response *http.Response, each func(sent) (enough bool)) {
	t.Helper()
	var e sent
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.kind = value
		case "data":
			e.data = value
		case "":
			if e.kind != "" && each(e) {
				return
			}
			e = sent{}
		}
	}
}

// shownBy applies a topic's events to what a reader has, and returns the executions.
func shownBy(t *testing.T, state *[]live.Entry, e sent) (statuses map[string]messages.Status) {
	t.Helper()
	var event hub.Event
	require.NoError(t, json.Unmarshal([]byte(e.data), &event))
	require.Nil(t, event.Problem)
	from := *state
	if event.After == 0 {
		from = nil
	}
	to, err := event.Apply(from)
	require.NoError(t, err)
	*state, statuses = to, map[string]messages.Status{}
	for _, entry := range to {
		if strings.HasPrefix(entry.Key, "executions/") {
			var v form.ExecutionView
			require.NoError(t, json.Unmarshal(entry.Value, &v))
			require.Empty(t, v.Parameters)
			require.Empty(t, v.Result)
			statuses[v.ID.String()] = v.Status
		}
	}
	return statuses
}

// A stream begins with what answers and a snapshot, then has differences, and goes on where it was.
func TestALiveStream(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	base, _ := listening(t, b)
	first := submitted(t, New(Config{Backend: b}), `{"action_ref":"a","parameters":{"secret":1}}`)
	raw, d := served(t)
	var rt *route
	for _, known := range routes() {
		if known.follows {
			rt = known
		}
	}
	response := get(t, base+topicsQuery("list:limit=5", "counters", "nodes", "pools", "workers:pool=go", "fleet", "journal", "rows:"+first.ID.String()))
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	require.Equal(t, "no-store", response.Header.Get("Cache-Control"))
	var state []live.Entry
	seen, last, second := map[string]bool{}, "", ""
	events(t, response, func(e sent) bool {
		if e.kind == "alive" {
			return false
		}
		if seen[e.kind] = true; e.kind == "notice" {
			return false
		}
		if e.kind == "fleet" {
			require.Contains(t, e.data, `"slots":"rb"`)
			require.NotContains(t, e.data, `["at",`, "it would change each second")
		}
		answer := httptest.NewRecorder()
		answer.Body = bytes.NewBufferString(e.data)
		valid(t, raw, rt, d.Paths[rt.path]["get"], answer)
		if e.id != "" {
			last = e.id
		}
		if e.kind != "list" {
			return second != "" && len(seen) >= 9
		}
		statuses := shownBy(t, &state, e)
		if second == "" {
			require.Equal(t, map[string]messages.Status{first.ID.String(): messages.Requested}, statuses)
			second = submitted(t, New(Config{Backend: b}), `{"action_ref":"a"}`).ID.String()
			return false
		}
		require.Contains(t, statuses, second)
		return len(seen) >= 9
	})
	for _, kind := range []string{"notice", "list", "counters", "nodes", "pools", "workers", "fleet", "journal", "rows"} {
		require.True(t, seen[kind], kind)
	}
	require.NotEmpty(t, last)
	_ = response.Body.Close()
	again := get(t, base+topicsQuery("list:limit=5", "counters", "nodes", "pools", "workers:pool=go", "fleet", "journal", "rows:"+first.ID.String()), "Last-Event-ID", last)
	third := submitted(t, New(Config{Backend: b}), `{"action_ref":"a"}`).ID.String()
	events(t, again, func(e sent) bool {
		require.NotEqual(t, "reset", e.kind)
		if e.kind != "list" {
			return false
		}
		_, has := shownBy(t, &state, e)[third] // each is a difference to what it had
		third = map[bool]string{true: "", false: third}[has]
		return has
	})
	require.Empty(t, third, "it has come")
}

// followed takes the events of one execution from a stream, until it has so many entries.
func followed(t *testing.T, response *http.Response, entries int, from *hub.Event) (said []view.Live) {
	t.Helper()
	defer func() { _ = response.Body.Close() }()
	raw, d := served(t)
	rt := liveRoute()
	events(t, response, func(e sent) bool {
		require.NotEqual(t, "reset", e.kind)
		if e.kind != "execution" {
			return false
		}
		require.Empty(t, e.id, "it goes on by its place")
		answer := httptest.NewRecorder()
		answer.Body = bytes.NewBufferString(e.data)
		valid(t, raw, rt, d.Paths[rt.path]["get"], answer)
		var event hub.Event
		require.NoError(t, json.Unmarshal([]byte(e.data), &event))
		require.Nil(t, event.Problem)
		require.Equal(t, from.N, event.After)
		*from = event
		for _, item := range event.Said {
			var l view.Live
			require.NoError(t, json.Unmarshal(item, &l))
			said = append(said, l)
		}
		return len(said) >= entries
	})
	return said
}

// The topic of an execution has what following its output has, and goes on at a place.
func TestAnExecutionIsFollowedInAStream(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.followed = make(chan struct{})
	half := 0.5
	b.live = []view.Live{{Kind: "status", Status: messages.Running}, {Kind: "stdout", Data: []byte("hello\n")}, {Kind: "progress", Fraction: &half, Message: "half"}}
	h := hub.New(hub.Config{ID: "i"})
	t.Cleanup(h.Close)
	base, _ := listeningAs(t, Config{Backend: b, Hub: h})
	id := submitted(t, New(Config{Backend: b}), `{"action_ref":"a"}`).ID.String()
	var at hub.Event
	require.Equal(t, b.live, followed(t, get(t, base+topicsQuery("nodes", "execution:"+id)), 3, &at))
	require.Equal(t, "execution:"+id, at.Topic)
	require.Equal(t, int64(3), at.N)
	at.N = 1
	require.Equal(t, b.live[1:], followed(t, get(t, base+topicsQuery("execution:"+id+"@"+at.Log+".1")), 2, &at))
	at.N = 0
	require.Equal(t, b.live, followed(t, get(t, base+topicsQuery("execution:"+id+"@other.1")), 3, &at), "a place that is not known")
}

// What cannot be followed is a problem of its topic, and the others go on.
func TestAnExecutionThatIsNotKnownIsNotFollowed(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]messages.Code{"unknown": messages.CodeNotFound, "away": messages.CodeStoreUnavailable} {
		hubs := hub.New(hub.Config{ID: "i"})
		cfg := Config{Backend: newBackend(t), Hub: hubs}
		if name == "away" {
			cfg.Gate = func() *messages.Problem { return messages.Problemf(messages.CodeStoreUnavailable, "the store is away") }
		}
		h := New(cfg)
		synctest.Test(t, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			written := flowing(t, h, ctx, "execution:01a1fd4f-1cd9-7cd2-866c-8d33808e543f,nodes")
			synctest.Wait()
			require.Contains(t, written(), "event: nodes\n")
			require.Contains(t, written(), `{"topic":"execution:01a1fd4f-1cd9-7cd2-866c-8d33808e543f","problem":{"code":"`+string(code)+`"`)
			leave()
			synctest.Wait()
			hubs.Close()
			synctest.Wait()
		})
	}
}

// The description of an event has the fields of one.
func TestTheDescriptionOfAnEventHasItsFields(t *testing.T) {
	t.Parallel()
	fields := func(of any) (names []string) {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) {
			if !f.Anonymous {
				names = append(names, f.Tag.Get("json"))
			}
		}
		return names
	}
	require.ElementsMatch(t, fields(hub.Event{}), fields(LiveEvent{}))
}

func TestAHostileTopicIsNamed(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	many := strings.Repeat("nodes,", topicsMax) + "pools"
	ids := strings.Repeat("01a1fd4f-1cd9-7cd2-866c-8d33808e543f+", topicRows+1)
	for topics, want := range map[string]string{
		"":                            `topic ""`,
		"weather":                     `topic "weather": there is no such topic; want one of counters, list,`,
		"counters,list:colour=red":    `topic "list:colour=red": unknown query parameter "colour"`,
		"list:status=lost":            `topic "list:status=lost": status must be requested, `,
		"list:limit=1000":             "limit may be 200 in a topic, and is 1000",
		"list:cursor=x":               `unknown query parameter "cursor"`,
		"list:status=failed&status=%": "the query is malformed",
		"list:label=x":                "label must be name=value",
		"list:from=yesterday":         "from must be a time",
		"journal:kinds=rumour":        "rumour",
		"journal:limit=500":           "limit may be 200",
		"workers:limit=5000":          "limit must be a whole number from 1 to 1000",
		"counters:pool=x":             "takes none",
		"nodes:x=1":                   "takes none",
		"rows:":                       "it has 0 ids",
		"rows:" + ids:                 "it has 201 ids",
		"rows:me":                     `"me" is no id`,
		"execution":                   `topic "execution": "" is no id`,
		"execution:me":                `"me" is no id`,
		"execution:01a1fd4f-1cd9-7cd2-866c-8d33808e543f@":    `"" is no place`,
		"execution:01a1fd4f-1cd9-7cd2-866c-8d33808e543f@1":   `"1" is no place`,
		"execution:01a1fd4f-1cd9-7cd2-866c-8d33808e543f@i.x": `"i.x" is no place`,
		strings.Repeat("execution:01a1fd4f-1cd9-7cd2-866c-8d33808e543f,", topicFlows) + "execution:01a1fd4f-1cd9-7cd2-866c-8d33808e543e": "output of up to 16 executions",
		"list:q=\x00": "topics",
		many:          "a stream has up to 32 topics",
		"list:action=" + strings.Repeat("a", topicMax): "and may have 8192",
		",": `topic ""`,
	} {
		w := ask(t, h, "GET", "/api/v1/stream?topics="+url.QueryEscape(topics), "")
		status := http.StatusUnprocessableEntity
		if strings.Contains(topics, "\x00") {
			status = http.StatusBadRequest
		}
		require.Equal(t, status, w.Code, "%s: %s", topics, w.Body)
		got := read[form.ErrorBody](t, w, status).Error
		require.Contains(t, got.Message, want, topics)
		if strings.HasPrefix(want, "topic ") {
			require.Contains(t, strings.Split(topics, ","), got.Details.(map[string]any)["topic"])
		}
	}
	require.Equal(t, http.StatusBadRequest, ask(t, h, "GET", "/api/v1/stream?follow=1", "").Code)
	require.Equal(t, http.StatusUnprocessableEntity, ask(t, h, "GET", "/api/v1/stream", "").Code)
}

// Streams have places of their own: neither do they take those of others, nor the other way round.
func TestStreamsHavePlacesOfTheirOwn(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	cfg := Config{Backend: b}.withDefaults()
	s := &server{Config: cfg, guard: newGuard(&cfg), logger: cfg.Logger, streams: gauge{max: 1}, requests: gauge{max: 1}, waits: gauge{max: 1}}
	h := s.mux(routes())
	s.streams.enter()
	w := ask(t, h, "GET", topicsQuery("nodes"), "")
	refused(t, w, http.StatusTooManyRequests, messages.CodeTooManyRequests, "in flight")
	require.NotEmpty(t, w.Header().Get("Retry-After"))
	require.Equal(t, 200, ask(t, h, "GET", "/api/v1/nodes", "").Code)
	require.Equal(t, 256, StreamsMax)
}

// flowing serves one stream in a bubble, and returns what it has written so far.
func flowing(t *testing.T, h http.Handler, ctx context.Context, topics string, headers ...string) (written func() string) {
	t.Helper()
	w := &slate{header: http.Header{}}
	w.reads(h, ctx, topics, headers...)
	return w.text
}

// reads has a handler write topics to the response.
func (w *slate) reads(h http.Handler, ctx context.Context, topics string, headers ...string) {
	r := httptest.NewRequestWithContext(ctx, "GET", topicsQuery(topics), nil)
	r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost"
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	go h.ServeHTTP(w, r)
}

// slate is a response that can be read while it is written.
type slate struct {
	mu     sync.Mutex
	header http.Header
	body   strings.Builder
	writes int // that were sent
}

func (w *slate) Header() http.Header { return w.header }
func (w *slate) WriteHeader(int)     {}
func (w *slate) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
}
func (w *slate) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.body.Write(b)
}

func (w *slate) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.body.String()
}

// A node that stops says so, and has its readers come back at different times.
func TestTheEndOfTheNodeResetsItsStreams(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	synctest.Test(t, func(t *testing.T) {
		life, end := context.WithCancel(t.Context())
		written := flowing(t, h, context.WithValue(life, lifeKey{}, life), "nodes")
		synctest.Wait()
		require.Contains(t, written(), "event: nodes")
		time.Sleep(liveBeat + hub.Every/2)
		synctest.Wait()
		require.Contains(t, written(), "event: alive\ndata: {")
		require.Contains(t, written(), `"read":{"nodes":"`)
		end()
		synctest.Wait()
		require.Regexp(t, `id:\nevent: reset\nretry: \d+\ndata: \{"why":"the node stops","retry_after_ms":\d+\}\n\n$`, written())
	})
}

// What comes at the same tick is written at once, with the sign of life where that is due; where nothing comes, that comes by itself.
func TestAStreamIsWrittenAtTicks(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		w := &slate{header: http.Header{}}
		w.reads(h, ctx, "nodes")
		writes := func() int {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.writes
		}
		time.Sleep(2*liveBeat + hub.Every/3)
		before, events := writes(), strings.Count(w.text(), "event: ")
		time.Sleep(4 * hub.Every)
		require.Equal(t, 4, writes()-before, w.text())
		require.Equal(t, 4+2, strings.Count(w.text(), "event: ")-events, w.text())
		leave()
		synctest.Wait()
	})
	quiet := New(Config{Backend: newBackend(t)})
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		written := flowing(t, quiet, ctx, "journal")
		time.Sleep(3 * liveBeat)
		require.GreaterOrEqual(t, strings.Count(written(), "event: alive"), 2, written())
		leave()
		synctest.Wait()
	})
}

// What comes while a stream gathers has not to find room beside what came before: a reader that is fast is not reset.
func TestAStreamTakesWhatItGathers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := hub.New(hub.Config{ID: "i", Buffer: 100})
		changing := func(took time.Duration) func(context.Context) ([]live.Entry, error) {
			n := 0
			return func(context.Context) ([]live.Entry, error) {
				time.Sleep(took)
				n++
				return []live.Entry{{Key: "x", Value: fmt.Appendf(nil, "[%d,%q]", n, strings.Repeat("x", 200))}}, nil
			}
		}
		reader, err := h.Join([]hub.Topic{{Name: "a", Kind: "a", Read: changing(0)}, {Name: "b", Kind: "b", Read: changing(5 * time.Millisecond)}}, "")
		require.NoError(t, err)
		slate := &slate{header: http.Header{}}
		out := liveWriter{
			c: &call{r: httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)}, reader: reader,
			st: &stream{w: slate, control: http.NewResponseController(slate), events: true}, joined: time.Now().Add(-time.Minute),
		}
		for range 5 {
			<-reader.Ready()
			out.beaten = time.Now()
			require.NoError(t, out.write())
		}
		require.Zero(t, h.State().Resets)
		require.Equal(t, 5, slate.writes)
		require.Equal(t, []int{5, 5, 0}, []int{strings.Count(slate.text(), "event: a"), strings.Count(slate.text(), "event: b"), strings.Count(slate.text(), "event: reset")}, slate.text())
		reader.Leave()
		h.Close()
		time.Sleep(hub.Every)
	})
}

// A token that ends while a stream is open ends the stream.
func TestATokensEndEndsItsStream(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	synctest.Test(t, func(t *testing.T) {
		h := New(Config{Backend: b, Access: withTokens(t, []Token{
			{Name: "viewer", Secret: readToken, Scopes: []Scope{ScopeRead}, Expires: time.Now().Add(time.Minute)},
			{Name: "sender", Secret: submitToken, Scopes: []Scope{ScopeSubmit}},
		})})
		written := flowing(t, h, t.Context(), "nodes", "Authorization", "Bearer "+readToken)
		time.Sleep(time.Minute - time.Second)
		synctest.Wait()
		require.NotContains(t, written(), "reset")
		time.Sleep(2 * liveBeat)
		synctest.Wait()
		require.True(t, strings.HasSuffix(written(), "data: {\"why\":\"you may no longer read this; log in again\",\"retry_after_ms\":0}\n\n"), written())
		for token, code := range map[string]int{"": 401, readToken: 401, submitToken: 403} {
			require.Equal(t, code, ask(t, h, "GET", topicsQuery("nodes"), "", "Authorization", "Bearer "+token).Code)
		}
	})
}

// While the store is away, what needs it says so, and what does not goes on.
func TestAStreamGoesOnWithoutTheStore(t *testing.T) {
	t.Parallel()
	away := messages.Problemf(messages.CodeStoreUnavailable, "the store is away")
	var shut *messages.Problem = away
	h := New(Config{Backend: newBackend(t), Gate: func() *messages.Problem { return shut }})
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		written := flowing(t, h, ctx, "nodes,list")
		synctest.Wait()
		require.Contains(t, written(), "event: nodes\n")
		require.Contains(t, written(), `"problem":{"code":"store_unavailable","message":"the store is away"}`)
		leave()
		synctest.Wait()
	})
}

func TestConcerns(t *testing.T) {
	t.Parallel()
	failed := store.Filter{Statuses: []messages.Status{messages.Failed}, Pools: []string{"go"}, Actions: []string{"a"}, Sessions: []string{"s"}, Workers: []string{"n/go/1"}}
	either := store.Filter{Pools: []string{"go", "python"}, Actions: []string{"a", "b"}, Sessions: []string{"s", "t"}, Workers: []string{"n/go/1", "n/go/2"}}
	for name, c := range map[string]struct {
		f    store.Filter
		c    hub.Change
		want bool
	}{
		"no filter":                    {store.Filter{}, hub.Change{Status: messages.Requested, New: true}, true},
		"what was there before":        {store.Filter{Pools: []string{"go"}, Labels: [][2]string{{"a", "b"}}}, hub.Change{Status: messages.Running, Pool: "go"}, false},
		"or may come in":               {store.Filter{Labels: [][2]string{{"a", "b"}}, Errors: []messages.Code{"x"}}, hub.Change{Status: messages.Failed}, true},
		"its labels":                   {store.Filter{Labels: [][2]string{{"a", "b"}, {"c", ""}}}, hub.Change{New: true, Labels: map[string]string{"a": "b", "c": ""}}, true},
		"another label":                {store.Filter{Labels: [][2]string{{"a", "b"}}}, hub.Change{New: true, Labels: map[string]string{"a": "c"}}, false},
		"one of two values of a label": {store.Filter{Labels: [][2]string{{"a", "b"}, {"a", "c"}}}, hub.Change{New: true, Labels: map[string]string{"a": "c"}}, true},
		"a label that is left out":     {store.Filter{Not: store.Exclusion{Labels: [][2]string{{"a", "b"}}}}, hub.Change{New: true, Labels: map[string]string{"a": "b"}}, false},
		"a text that may be there":     {store.Filter{Not: store.Exclusion{Texts: []string{"t"}}}, hub.Change{Status: messages.Failed}, true},
		"one label of two":             {store.Filter{Labels: [][2]string{{"a", "b"}, {"c", ""}}}, hub.Change{New: true, Labels: map[string]string{"a": "b"}}, false},
		"all is as wanted":             {failed, hub.Change{Status: messages.Failed, Pool: "go", Action: "a", Session: "s", Worker: "n/go/1"}, true},
		"what is not known may":        {failed, hub.Change{}, true},
		"another status":               {failed, hub.Change{Status: messages.Running}, false},
		"another pool":                 {failed, hub.Change{Status: messages.Failed, Pool: "python"}, false},
		"another action":               {failed, hub.Change{Action: "b"}, false},
		"another session":              {failed, hub.Change{Session: "t"}, false},
		"another worker":               {failed, hub.Change{Worker: "n/go/2"}, false},
		"one of two pools":             {either, hub.Change{Pool: "python", Action: "b", Session: "t", Worker: "n/go/2"}, true},
		"none of two pools":            {either, hub.Change{Pool: "shell"}, false},
		"none of two actions":          {either, hub.Change{Action: "c"}, false},
		"none of two sessions":         {either, hub.Change{Session: "u"}, false},
		"none of two workers":          {either, hub.Change{Worker: "n/go/3"}, false},
		"a status that is not":         {store.Filter{Not: store.Exclusion{Statuses: []messages.Status{messages.Failed}}}, hub.Change{Status: messages.Failed}, false},
		"what has not ended":           {store.Filter{EndedFrom: time.Unix(1, 0)}, hub.Change{Status: messages.Running}, false},
		"what has ended":               {store.Filter{EndedTo: time.Unix(1, 0)}, hub.Change{Status: messages.Failed}, true},
	} {
		require.Equal(t, c.want, concerns(&c.f, &c.c), name)
	}
}

func TestAListIsBrief(t *testing.T) {
	t.Parallel()
	views := []form.ExecutionView{{Parameters: json.RawMessage(`1`), Result: json.RawMessage(`2`),
		Error: &messages.Error{Code: "c", Message: strings.Repeat("é", messageShown), Details: json.RawMessage(`3`)}}, {}}
	was := views[0].Error
	briefly(views)
	require.Empty(t, views[0].Parameters)
	require.Empty(t, views[0].Result)
	require.Empty(t, views[0].Error.Details)
	require.Equal(t, strings.Repeat("é", messageShown/2-2)+"…", views[0].Error.Message, "500 bytes with the mark")
	require.Len(t, was.Message, 2*messageShown, "what others have is not changed")
}

// A topic's rows fit into what one topic may have, whatever the executions are: a list that is too long would not be followed at all.
func TestALongestListFitsIntoATopic(t *testing.T) {
	t.Parallel()
	now := time.Now()
	text := func(n int) string { return strings.Repeat("<", n) } // six bytes each, in JSON
	long := func() messages.Execution {
		e := messages.Execution{
			ID: messages.NewExecutionID(), Action: text(256), Version: text(64), Pool: text(64), Status: messages.Failed, Attempt: 1 << 30, Session: text(256),
			Affinity: "strict_fail", CreatedBy: text(128), IdempotencyKey: text(256), RetryReason: text(256), Labels: map[string]string{},
			Trace:    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 a=" + text(512),
			WorkerID: messages.WorkerID(text(64)), RequestedAt: now, RunAt: now, ScheduledAt: now, ClaimBy: now, StartedAt: now, RunDeadline: now, FinishedAt: now.Add(time.Hour),
			QueueDeadline: now, Original: messages.NewExecutionID(), RetriedAs: messages.NewExecutionID(), Result: make(json.RawMessage, messages.ResultMax),
			Error: &messages.Error{
				Code: messages.Code(text(messages.CodeMax)), Message: text(messages.ErrorMessageMax), Type: text(messages.TypeMax), Class: text(64), NoRetry: text(1 << 10),
				FailedBy: text(64), Exit: text(1 << 10), Stderr: text(8 << 10), Details: make(json.RawMessage, 10<<10),
			},
		}
		for i := range 32 {
			e.Labels[fmt.Sprintf("%03d%s", i, text(253))] = text(256)
		}
		return e
	}
	list, worst := ExecutionList{}, long()
	for range topicRows {
		worst.ID = messages.NewExecutionID()
		list.Executions = append(list.Executions, viewAll([]messages.Execution{worst})...)
	}
	briefly(list.Executions)
	entries, err := hub.OfText(live.Lists{"executions": {"id"}}, func(context.Context) ([]byte, error) { return json.Marshal(&list) })(t.Context())
	require.NoError(t, err)
	require.Greater(t, live.Size(entries), topicRows*2000)
	require.LessOrEqual(t, live.Size(entries), hub.StateMax)
	row := list.Executions[0]
	require.Len(t, row.ActionRef, 256)
	require.Len(t, row.Error.Code, messages.CodeMax)
	require.NotEmpty(t, row.Error.Message)

	some := long()
	some.Action, some.Session, some.Labels, some.IdempotencyKey, some.RetryReason, some.Trace = "a", "s", map[string]string{"team": "a"}, "k", "", ""
	some.Error = &messages.Error{Code: "c", Message: strings.Repeat("m", messageShown), Type: "T"}
	views := viewAll([]messages.Execution{some})
	briefly(views)
	require.Equal(t, some.Labels, views[0].Labels)
	require.Equal(t, some.Error, views[0].Error)
}

// Lists have no payloads: neither a result, nor what is in an error, which has the result of a run that was cancelled.
func TestListsHaveNoPayloads(t *testing.T) {
	t.Parallel()
	late := store.RecordedOutcome(messages.Cancelling, messages.Outcome{Status: messages.Completed, Result: json.RawMessage(`"the payload"`)})
	late.Error.Stderr, late.Error.Message = "the payload", "m"+strings.Repeat("é", messages.ListedMessageMax)
	e := messages.Execution{ID: messages.NewExecutionID(), Status: messages.Cancelled, Error: late.Error, Parameters: json.RawMessage(`"the payload"`)}
	text, err := json.Marshal(viewAll([]messages.Execution{e, {ID: e.ID}}))
	require.NoError(t, err)
	require.NotContains(t, string(text), "the payload")
	require.NotContains(t, string(text), "\uFFFD")
	require.Less(t, len(text), messages.ListedMessageMax+2048)
	require.Contains(t, string(late.Error.Details), "the payload", "what the store has is not changed")
}

func TestATooManyTopicsProblemSaysWhenToComeBack(t *testing.T) {
	t.Parallel()
	h := hub.New(hub.Config{ID: "i"})
	var topics []hub.Topic
	for i := range hub.TopicsMax {
		topics = append(topics, hub.Topic{Name: fmt.Sprint(i), Read: func(context.Context) ([]live.Entry, error) { return nil, errors.New("nothing") }})
	}
	r, err := h.Join(topics, "")
	require.NoError(t, err)
	defer r.Leave()
	w := ask(t, New(Config{Backend: newBackend(t), Hub: h}), "GET", topicsQuery("nodes"), "")
	refused(t, w, http.StatusTooManyRequests, messages.CodeTooManyRequests, "different topics")
	require.Equal(t, "5", w.Header().Get("Retry-After"))
}

// An execution that has ended is read again after a while: a retry by hand is noted in it, and retention deletes it.
func TestAnEndedRowIsReadAgain(t *testing.T) {
	t.Parallel()
	now := time.Unix(100, 0)
	for age, fresh := range map[time.Duration]bool{0: true, endedKept - 1: true, endedKept: false} {
		require.Equal(t, fresh, endedRow{read: now.Add(-age)}.fresh(now), age)
	}
	require.False(t, endedRow{}.fresh(now), "it was not read")
}

// A worker list changes by what its workers do, and not by the time of the look or what they report. When a stale one was seen stays.
func TestAWorkerListDoesNotChangeByItself(t *testing.T) {
	t.Parallel()
	seen := time.Unix(1, 0)
	workers := []view.Worker{{ID: "a/go/0", SeenAt: seen, Report: []byte(`{"last_check":1}`)}, {ID: "b/go/0", Stale: true, SeenAt: seen}}
	brieflyWorkers(workers)
	require.Equal(t, []view.Worker{{ID: "a/go/0"}, {ID: "b/go/0", Stale: true, SeenAt: seen}}, workers)
}

// The entries of a worker list are those of its JSON, from one list to the next; a worker that is as it was keeps its text.
func TestWorkersAreWrittenOnlyWhereTheyChange(t *testing.T) {
	t.Parallel()
	var texts workerTexts
	var before []live.Entry
	now := time.Now()
	for name, list := range []WorkerList{
		{Workers: []view.Worker{}},
		{Workers: []view.Worker{{ID: "a/go/0"}, {ID: "a/go/1", GradeCauses: []string{"x"}}}, NextCursor: "c"},
		{Workers: []view.Worker{{ID: "a/go/0"}, {ID: "a/go/1", GradeCauses: []string{"y"}}}},
		{Workers: []view.Worker{{ID: "a/go/1", GradeCauses: []string{"y"}}}},
		{Workers: []view.Worker{{ID: "a/go/1", GradeCauses: []string{"y"}}, {ID: "a/go/0", Stale: true}, {ID: "a/go/0"}}, Unreached: []view.Unreached{{Node: "b"}}},
		{Workers: nil},
	} {
		now = now.Add(workerKept)
		got, err := texts.entries(list, now)
		require.NoError(t, err)
		ids := map[messages.WorkerID]bool{}
		for _, w := range list.Workers {
			ids[w.ID] = true
		}
		if len(ids) > 0 {
			require.Len(t, texts.byID, len(ids), "those that are gone are forgotten")
		}
		list.Workers = orEmpty(list.Workers)
		text, err := json.Marshal(&list)
		require.NoError(t, err)
		want, err := live.Split(text, live.Lists{"workers": {"id"}})
		require.NoError(t, err)
		require.Equal(t, want, got, "list %d", name)
		if name == 2 {
			require.Same(t, &before[0].Value[0], &got[0].Value[0], "it is as it was")
			require.NotEqual(t, before[1].Value, got[1].Value)
		}
		before = got
	}
}
