package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/store"
)

func TestWorkerPagesAreInOrderOfSlots(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	var ids []messages.WorkerID
	next := ""
	for {
		page := read[WorkerList](t, ask(t, h, "GET", "/api/v1/workers?limit=3&cursor="+next, ""), 200)
		for _, w := range page.Workers {
			ids = append(ids, w.ID)
		}
		if next = page.NextCursor; next == "" {
			break
		}
	}
	require.Equal(t, []messages.WorkerID{"n1/go/0", "n1/go/1", "n1/go/2", "n1/go/10"}, ids)
	require.Contains(t, ask(t, h, "GET", "/api/v1/workers?state=busy", "").Body.String(), `"workers":[]`)
}

// Workers in trouble come first, in pages too, with the same order among themselves.
func TestWorkersInTroubleComeFirst(t *testing.T) {
	t.Parallel()
	all := []view.Worker{
		{ID: "a/go/0", State: "ready", Grade: "healthy"}, {ID: "a/go/1", State: "busy", Grade: "degraded"}, {ID: "a/go/2", State: "ready", Grade: "healthy", Cordoned: true},
		{ID: "a/go/10", State: "initializing", Grade: "unhealthy", LastError: "no module"}, {ID: "a/go/9", State: "degraded", Grade: "unhealthy"},
		{ID: "b/go/0", State: "initializing", Grade: "unhealthy"}, {ID: "b/go/1", State: "ready", Grade: "healthy", Stale: true}, {ID: "b/go/2", State: "ready", Grade: "unhealthy"},
		{ID: "b/go/3", State: "terminated", Grade: "unknown", LastError: "no module"}, {ID: "b/go/4", State: "terminated", Grade: "unknown"},
	}
	for _, limit := range []int{1, 3, 8, 100} {
		var ids []messages.WorkerID
		for after := ""; ; {
			page, next, err := workerPage(all, &workerFilter{}, troubledFirst, after, limit)
			require.NoError(t, err)
			for _, w := range page {
				ids = append(ids, w.ID)
			}
			if next == "" {
				break
			}
			after, err = parseCursor(next)
			require.NoError(t, err)
		}
		require.Equal(t, []messages.WorkerID{"a/go/9", "a/go/10", "b/go/1", "b/go/2", "b/go/3", "a/go/1", "a/go/2", "a/go/0", "b/go/0", "b/go/4"}, ids, limit)
	}
	h := New(Config{Backend: newBackend(t)})
	require.Len(t, read[WorkerList](t, ask(t, h, "GET", "/api/v1/workers?order=troubled", ""), 200).Workers, 4)
	refused(t, ask(t, h, "GET", "/api/v1/workers?order=up", ""), 400, messages.CodeInvalidRequest, "order must be id or troubled")
	refused(t, ask(t, h, "GET", "/api/v1/workers?cursor="+cursor("n1/go/0"), ""), 400, messages.CodeInvalidRequest, "next_cursor")
}

func TestAWorkerAndItsHealth(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	v := read[WorkerDetailView](t, ask(t, h, "GET", "/api/v1/workers/n1/go/0", ""), 200)
	require.InDelta(t, 1.5, v.History[0].LastedMS, 0)
	runs := read[view.WorkerRuns](t, ask(t, h, "GET", "/api/v1/workers/n1/go/0/runs", ""), 200)
	require.Equal(t, messages.WorkerID("n1/go/0"), runs.Worker)
	require.Equal(t, messages.Code("boom"), runs.Runs[0].Code)
	refused(t, ask(t, h, "GET", "/api/v1/workers/n1/go/x/runs", ""), 404, messages.CodeNotFound, "n1/go/x")
	for _, method := range []string{"GET", "POST"} {
		health := read[HealthView](t, ask(t, h, method, "/api/v1/workers/n1/go/0/health", ""), 200)
		require.JSONEq(t, `{"status":"healthy"}`, string(health.Report))
	}
}

func TestAPoolInDetail(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	v := read[view.PoolDetail](t, ask(t, h, "GET", "/api/v1/pools/go", ""), 200)
	require.Equal(t, []view.SlotCount{{State: "ready", N: 4}}, v.Slots)
	refused(t, ask(t, h, "GET", "/api/v1/pools/none", ""), 404, messages.CodeNotFound, "pool")
	refused(t, ask(t, h, "GET", "/api/v1/pools/go?node=n1", ""), 400, messages.CodeInvalidRequest, "node")
}

func TestSteering(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b})
	for _, path := range []string{"workers/n1/go/0/cordon", "workers/n1/go/0/uncordon", "pools/go/cordon", "pools/go/uncordon", "nodes/n1/cordon", "nodes/n1/uncordon"} {
		require.Equal(t, 200, ask(t, h, "POST", "/api/v1/"+path, "").Code, path)
	}
	require.Equal(t, "kill", read[DoneView](t, ask(t, h, "POST", "/api/v1/workers/n1/go/0/kill", ""), http.StatusAccepted).Done)
	require.Equal(t, "drain", read[DoneView](t, ask(t, h, "POST", "/api/v1/nodes/n1/drain", ""), http.StatusAccepted).Done)
	require.Equal(t, []string{"worker n1/go/0 true by local", "worker n1/go/0 false by local", "pool go true by local", "pool go false by local",
		"node n1 true by local", "node n1 false by local", "kill n1/go/0 by local", "drain n1 by local"}, b.cordons)
	report := read[ReloadReport](t, ask(t, h, "POST", "/api/v1/reload", ""), 200)
	require.Equal(t, []string{"core.sleep"}, report.Added)
}

func TestOneNode(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	n := read[view.Node](t, ask(t, h, "GET", "/api/v1/nodes/n1", ""), 200)
	require.Equal(t, "n1", n.Name)
	require.Equal(t, "self", n.Reach)
}

// A node that did not answer is named beside what the others said, and a filter by node reaches the backend.
func TestUnreachedNodesAreNamed(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.unreached = []view.Unreached{{Node: "n2", Incarnation: messages.NewIncarnation(), Why: "the connection was lost"}}
	h := New(Config{Backend: b})
	workers := read[WorkerList](t, ask(t, h, "GET", "/api/v1/workers", ""), 200)
	require.Len(t, workers.Workers, 4)
	require.Equal(t, b.unreached, workers.Unreached)
	require.Equal(t, b.unreached, read[PoolList](t, ask(t, h, "GET", "/api/v1/pools", ""), 200).Unreached)
	require.Empty(t, read[WorkerList](t, ask(t, h, "GET", "/api/v1/workers?node=none", ""), 200).Workers)
	require.Equal(t, 404, ask(t, h, "GET", "/api/v1/pools?node=none", "").Code)
}

func TestActionsShowSeconds(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	a := read[ActionList](t, ask(t, h, "GET", "/api/v1/actions", ""), 200).Actions[0]
	require.InDelta(t, 90, a.TimeoutSeconds, 0)
	require.Equal(t, "wait", a.OnNoWorker)
	require.Equal(t, a, read[ActionView](t, ask(t, h, "GET", "/api/v1/actions/core.echo", ""), 200))
	for _, ref := range []string{"core.ech", "core.echo@1.0.0", "core.echo/x", "CORE.ECHO", "%01"} {
		require.Equal(t, 404, ask(t, h, "GET", "/api/v1/actions/"+ref, "").Code, ref)
	}
	require.Contains(t, ask(t, h, "GET", "/api/v1/actions/core.ech", "").Body.String(), "action core.ech is not known here")
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b, Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("up 1\n")) })})
	require.True(t, read[Readiness](t, ask(t, h, "GET", "/readyz", ""), 200).Ready)
	b.ready = Readiness{WaitsFor: []string{"store"}, BrokenPools: []string{"python"}}
	require.Eventually(t, func() bool { return ask(t, h, "GET", "/readyz", "").Code == 503 }, patience, time.Millisecond) // an answer is given again for a while
	require.Equal(t, []string{"store"}, read[Readiness](t, ask(t, h, "GET", "/readyz", ""), 503).WaitsFor)
	require.Equal(t, "up 1\n", ask(t, h, "GET", "/metrics", "").Body.String())
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b})
	id := submitted(t, h, `{"action_ref":"core.echo"}`).ID
	for range 3 {
		_, err := b.SaveDeadLetter(t.Context(), store.DeadLetter{Reason: "expired", Execution: id, Action: "core.echo", Resolution: "failed", Headers: json.RawMessage(`{}`)})
		require.NoError(t, err)
	}
	page := read[DeadLetterList](t, ask(t, h, "GET", "/api/v1/dead-letters?limit=2", ""), 200)
	require.Len(t, page.DeadLetters, 2)
	page = read[DeadLetterList](t, ask(t, h, "GET", "/api/v1/dead-letters?limit=2&cursor="+page.NextCursor, ""), 200)
	require.Len(t, page.DeadLetters, 1)
	require.Empty(t, page.NextCursor)
	require.Equal(t, []any{store.MoreEnd, (*LetterSearched)(nil)}, []any{page.More, page.SearchedTo})
	_, err := b.SaveDeadLetter(t.Context(), store.DeadLetter{Reason: "maxlen", Action: "core.fail", Worker: "n1/go/0", Resolution: "failed"})
	require.NoError(t, err)
	for query, want := range map[string]int{
		"reason=maxlen": 1, "reason=expired&limit=2": 2, "action=core.echo": 3, "worker=n1/go/0": 1, "resolution=failed": 4, "resolution=requeued": 0,
		"reason=maxlen&reason=expired": 4, "not.reason=expired": 1, "not.reason=expired&not.reason=maxlen": 0, "reason=expired&not.action=core.echo": 0, "not.worker=n1/go/0": 3,
		"resolution=requeued&resolution=failed&not.action=core.fail": 3,
		"from=2000-01-01T00:00:00Z":                                  4, "to=2000-01-01T00:00:00Z": 0,
	} {
		require.Len(t, read[DeadLetterList](t, ask(t, h, "GET", "/api/v1/dead-letters?"+query, ""), 200).DeadLetters, want, query)
	}
	page = read[DeadLetterList](t, ask(t, h, "GET", "/api/v1/dead-letters?reason=expired&limit=1", ""), 200)
	require.Equal(t, []any{store.MoreFound, int64(3), 2}, []any{page.More, page.SearchedTo.ID, page.SearchedTo.Walked})
	many := strings.Join(slices.Repeat([]string{"not.reason=x"}, 21), "&")
	refused(t, ask(t, h, "GET", "/api/v1/dead-letters?"+many, ""), 400, messages.CodeInvalidRequest, "not.reason may be given 20 times, and is 21")
	refused(t, ask(t, h, "GET", "/api/v1/dead-letters?from=2030-01-02T00:00:00Z&to=2030-01-01T00:00:00Z", ""), 400, messages.CodeInvalidRequest, "from must be before to")
	require.Equal(t, 4, read[DeadLetterStats](t, ask(t, h, "GET", "/api/v1/dead-letters/stats?hours=1", ""), 200).Total)
	require.Equal(t, id, read[form.ExecutionView](t, ask(t, h, "POST", "/api/v1/dead-letters/1/requeue", ""), 201).ID)
	discarded := read[DeadLetterView](t, ask(t, h, "POST", "/api/v1/dead-letters/2/discard", ""), 200)
	require.Equal(t, []string{"discarded", "somebody has marked it as handled", "Nothing."}, []string{discarded.Resolution, discarded.Means, discarded.WhatToDo})

	_, err = b.SaveDeadLetter(t.Context(), store.DeadLetter{Reason: "expired", Execution: messages.NewExecutionID(), Resolution: "failed"})
	require.NoError(t, err)
	var gone []bool
	for _, d := range read[DeadLetterList](t, ask(t, h, "GET", "/api/v1/dead-letters", ""), 200).DeadLetters {
		gone = append(gone, d.Gone)
		require.Equal(t, d.Gone, read[DeadLetterView](t, ask(t, h, "GET", fmt.Sprintf("/api/v1/dead-letters/%d", d.ID), ""), 200).Gone)
	}
	require.Equal(t, []bool{true, false, false, false, false}, gone, "the newest one's execution is not stored, and one names none")
}

// sought keeps which sessions were asked for.
type sought struct {
	store.Store
	filters []store.SessionFilter
}

func (s *sought) ListSessions(ctx context.Context, f store.SessionFilter, after string, limit int) ([]store.Session, error) {
	s.filters = append(s.filters, f)
	return s.Store.ListSessions(ctx, f, after, limit)
}

func TestSessionsAreSearchedByName(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	s := &sought{Store: b.Store}
	b.Store = s
	require.Empty(t, read[SessionList](t, ask(t, New(Config{Backend: b}), "GET", "/api/v1/sessions?q=user-&pool=go&bound=1", ""), 200).Sessions)
	require.Equal(t, []store.SessionFilter{{Pools: []string{"go"}, Names: []store.NameRange{{From: "user-", To: "user."}}, Bound: true}}, s.filters)
	query := "q=a&q=user-&not.q=user-9&pool=go&pool=py.lab&not.pool=python&not.bound=1"
	require.Empty(t, read[SessionList](t, ask(t, New(Config{Backend: b}), "GET", "/api/v1/sessions?"+query, ""), 200).Sessions)
	require.Equal(t, store.SessionFilter{
		Pools: []string{"go", "py.lab"}, NotPools: []string{"python"}, Unbound: true,
		Names: []store.NameRange{{From: "a", To: "b"}, {From: "user-", To: "user-9"}, {From: "user-:", To: "user."}},
	}, s.filters[1])
	for query, why := range map[string]string{
		"q=user-1&not.q=user": "q and not.q leave no name", "bound=1&not.bound=1": "leave no session", strings.Repeat("&pool=a", 21)[1:]: "pool may be given 20 times, and is 21",
	} {
		refused(t, ask(t, New(Config{Backend: b}), "GET", "/api/v1/sessions?"+query, ""), 400, messages.CodeInvalidRequest, why)
	}
}

func TestSessionPages(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	require.Empty(t, read[SessionList](t, ask(t, h, "GET", "/api/v1/sessions?pool=go&bound=1", ""), 200).Sessions)
	refused(t, ask(t, h, "GET", "/api/v1/sessions?bound=maybe", ""), 400, messages.CodeInvalidRequest, "bound must be 1 or 0")
	last := store.Session{Pool: "go", Session: "a/b"}
	require.Equal(t, "a/b", sessionPosition("go", last))
	require.Equal(t, "go/a/b", sessionPosition("", last))
}

// A session is read and ended under its pool and name, whatever characters that holds.
func TestASessionIsReadAndEnded(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b})
	for name, path := range map[string]string{"a/b": "a%2Fb", "ü ?": "%C3%BC%20%3F", "plain": "plain", "x/y": "x/y"} {
		key := b.bind(t, name)
		path = "/api/v1/sessions/go/" + path
		v := read[view.SessionDetail](t, ask(t, h, "GET", path, ""), 200)
		require.Equal(t, "core.echo", v.Queue[0].Action)
		require.Equal(t, []any{name, key}, []any{v.Session.Session.Session, v.Worker})
		read[view.Session](t, ask(t, h, "DELETE", path, ""), 200)
		require.True(t, read[view.SessionDetail](t, ask(t, h, "GET", path, ""), 200).Worker.IsZero())
		require.Equal(t, "session go/"+name+" by "+localCaller, b.cordons[len(b.cordons)-1])
	}
	for _, path := range []string{"/api/v1/sessions/go/nobody", "/api/v1/sessions/go/" + strings.Repeat("x", 2000), "/api/v1/sessions/go/%00"} {
		refused(t, ask(t, h, "GET", path, ""), 404, messages.CodeNotFound, "session")
		refused(t, ask(t, h, "DELETE", path, ""), 404, messages.CodeNotFound, "session")
	}
	refused(t, ask(t, h, "POST", "/api/v1/sessions/go/a", ""), 405, messages.CodeMethodNotAllowed, "DELETE")
}

// Whatever a caller does is done in the name of the caller's token.
func TestActsAreInTheTokensName(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	b := newBackend(t)
	h := New(Config{Backend: b, Access: withTokens(t, []Token{{Name: "ops", Secret: adminToken, Scopes: []Scope{ScopeAdmin}}}),
		Logger: hclog.New(&hclog.LoggerOptions{Output: &log})})
	as := []string{"Authorization", "Bearer " + adminToken}
	post := func(path, body string, status int) []byte {
		r := ask(t, h, "POST", path, body, as...)
		require.Equal(t, status, r.Code, "%s: %s", path, r.Body)
		return r.Body.Bytes()
	}
	var e, retried form.ExecutionView
	require.NoError(t, json.Unmarshal(post(executionsPath, `{"action_ref":"core.echo"}`, 201), &e))
	post(executionsPath+"/"+e.ID.String()+"/cancel", "", 200)
	require.NoError(t, json.Unmarshal(post(executionsPath+"/"+e.ID.String()+"/retry", "", 201), &retried))
	events := read[EventsView](t, ask(t, h, "GET", executionsPath+"/"+e.ID.String()+"/events", "", as...), 200).Events
	require.Len(t, events, 2)
	require.Equal(t, []string{"cancel", "ops", "retry", "ops"}, []string{events[0].Kind, events[0].By, events[1].Kind, events[1].By})

	_, err := b.SaveDeadLetter(t.Context(), store.DeadLetter{Reason: "expired", Execution: e.ID, Resolution: "failed"})
	require.NoError(t, err)
	post("/api/v1/dead-letters/1/requeue", "", 201)
	post("/api/v1/dead-letters/1/discard", "", 200)
	post("/api/v1/reload", "", 200)
	require.Equal(t, []string{"requeue by ops", "discard by ops", "reload by ops"}, b.acts)
}
