package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/timeline"
	"github.com/troupe-run/troupe/store"
)

const executionsPath = "/api/v1/executions"

func submitted(t *testing.T, h http.Handler, body string) form.ExecutionView {
	t.Helper()
	return read[form.ExecutionView](t, ask(t, h, "POST", executionsPath, body), http.StatusCreated)
}

func TestSubmitAndGet(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b})
	trace := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	w := ask(t, h, "POST", executionsPath, `{"action_ref":"core.echo","parameters":{"message":"hi <b>","password":"p"},
		"session":"s1","labels":{"team":"a"},"priority":9,"max_retries":2,"timeout_seconds":1.5}`, "Traceparent", trace)
	v := read[form.ExecutionView](t, w, http.StatusCreated)
	require.Equal(t, messages.Requested, v.Status)
	require.Empty(t, v.Parameters, "the caller knows them")
	require.Equal(t, "local", b.requests[0].CreatedBy)
	require.Equal(t, trace, b.requests[0].Trace)
	require.Equal(t, 9, *b.requests[0].Priority)

	got := read[form.ExecutionView](t, ask(t, h, "GET", executionsPath+"/"+v.ID.String(), ""), http.StatusOK)
	require.JSONEq(t, `{"message":"hi <b>","password":"(secret)"}`, string(got.Parameters))
	require.Equal(t, "s1", got.Session)
	require.NotContains(t, w.Body.String(), "<b>")
}

// A caller may leave out what the caller of the action gave and what its code gave back.
func TestGetWithoutPayloads(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b})
	v := submitted(t, h, `{"action_ref":"core.echo","parameters":{"message":"hi"}}`)
	path := executionsPath + "/" + v.ID.String()
	require.NotEmpty(t, read[form.ExecutionView](t, ask(t, h, "GET", path+"?without_payloads=0", ""), http.StatusOK).Parameters)
	require.Empty(t, read[form.ExecutionView](t, ask(t, h, "GET", path+"?without_payloads=1", ""), http.StatusOK).Parameters)
	refused(t, ask(t, h, "GET", path+"?without_payloads=some", ""), 400, messages.CodeInvalidRequest, "without_payloads")

	failed := &messages.Error{Code: "boom", Message: "why", Details: []byte(`{"late":"result"}`), Stderr: "written", Exit: "exit status 3"}
	e := messages.Execution{Parameters: []byte("1"), Result: []byte("2"), Error: failed}
	removePayloads(&e)
	require.Equal(t, messages.Execution{Error: &messages.Error{Code: "boom", Message: "why", Exit: "exit status 3"}}, e)
	require.Equal(t, "written", failed.Stderr, "the error itself stays whole")
}

func TestAnIdempotencyKeyAnswersTwice(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	body := `{"action_ref":"core.echo","parameters":{"n":1},"idempotency_key":"k"}`
	first := submitted(t, h, body)
	again := read[form.ExecutionView](t, ask(t, h, "POST", executionsPath, body), http.StatusOK)
	require.Equal(t, first.ID, again.ID)
	require.True(t, again.Existing)
	w := ask(t, h, "POST", executionsPath, strings.Replace(body, `"n":1`, `"n":2`, 1))
	refused(t, w, http.StatusConflict, messages.CodeKeyConflict, first.ID.String())
}

func TestSubmitWaits(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.waiting = make(chan struct{})
	close(b.waiting)
	h := New(Config{Backend: b})
	submitted(t, h, `{"action_ref":"core.echo","wait_seconds":60}`)
	b.waiting = nil
	v := submitted(t, h, `{"action_ref":"core.echo","wait_seconds":0.01}`)
	require.Equal(t, messages.Requested, v.Status, "the end of the time is an answer")
	refused(t, ask(t, h, "POST", executionsPath, `{"action_ref":"core.echo","wait_seconds":61}`), 400, messages.CodeInvalidRequest, "wait_seconds")
}

// A submission that waits has its whole minute, beyond what the work of a call may take, and none of the room for calls.
func TestSubmitWaitsAWholeMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		b.waiting = make(chan struct{})
		h := New(Config{Backend: b, WaitsMax: 1, RequestsMax: 1})
		const body = `{"action_ref":"core.echo","wait_seconds":60}`
		began := time.Now()
		ended := make(chan time.Duration, 1)
		go func() {
			assert.Equal(t, http.StatusCreated, ask(t, h, "POST", executionsPath, body).Code)
			ended <- time.Since(began)
		}()
		time.Sleep(10 * time.Second)
		require.Empty(t, ended)
		refused(t, ask(t, h, "POST", executionsPath, body), http.StatusTooManyRequests, messages.CodeTooManyRequests, "try again")
		require.Len(t, b.requests, 1, "what cannot wait is not stored")
		submitted(t, h, `{"action_ref":"core.echo"}`) // takes the only room for calls
		require.Equal(t, time.Minute, <-ended)
		time.AfterFunc(59*time.Second, func() { close(b.waiting) })
		began = time.Now()
		submitted(t, h, body)
		require.Equal(t, 59*time.Second, time.Since(began), "its end ends the waiting")
	})
}

// A call to a session ends with its run's timeout and 5 s, whether or not its turn has come, and the execution goes on.
func TestACallToASessionHasADeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(t)
		b.waiting = make(chan struct{})
		b.timeout = 20 * time.Second
		h := New(Config{Backend: b})
		began := time.Now()
		w := ask(t, h, "POST", executionsPath, `{"action_ref":"core.echo","session":"s","wait_seconds":60}`)
		require.Equal(t, 25*time.Second, time.Since(began))
		refused(t, w, http.StatusGatewayTimeout, "timeout", "Session operation timeout: session s, action core.echo")
		page, err := b.List(t.Context(), store.Filter{})
		require.NoError(t, err)
		require.Contains(t, w.Body.String(), page.Executions[0].ID.String(), "whoever called can wait for its end")
		require.Equal(t, messages.Requested, page.Executions[0].Status)

		began = time.Now()
		v := submitted(t, h, `{"action_ref":"core.echo","session":"s","wait_seconds":24}`)
		require.Equal(t, messages.Requested, v.Status, "the caller's own time was over before")
		require.Equal(t, 24*time.Second, time.Since(began))
		v = submitted(t, h, `{"action_ref":"core.echo","wait_seconds":60}`)
		require.Equal(t, messages.Requested, v.Status, "no call to a session")
	})
}

func TestWaitEndsWithItsTime(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b})
	v := submitted(t, h, `{"action_ref":"core.echo"}`)
	path := executionsPath + "/" + v.ID.String() + "/wait?timeout_seconds="
	require.Equal(t, messages.Requested, read[form.ExecutionView](t, ask(t, h, "GET", path+"0.01", ""), 200).Status)
	for _, bad := range []string{"61", "-1", "NaN", "x"} {
		refused(t, ask(t, h, "GET", path+bad, ""), 400, messages.CodeInvalidRequest, "timeout_seconds must be 0 to 60")
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b})
	v := read[form.BatchView](t, ask(t, h, "POST", executionsPath+"/batch",
		`{"executions":[{"action_ref":"core.echo"},{"action_ref":"core.fail","parameters":{}}]}`), http.StatusCreated)
	require.Len(t, v.Executions, 2)
	require.Equal(t, "core.fail", b.requests[1].ActionRef)

	w := ask(t, h, "POST", executionsPath+"/batch", `{"executions":[{"action_ref":"core.echo"},{"action_ref":"a","priority":10}]}`)
	refused(t, w, 400, messages.CodeInvalidRequest, "executions[1]: priority must be 0 to 9, got 10")
	refused(t, ask(t, h, "POST", executionsPath+"/batch", `{"executions":[]}`), 400, messages.CodeInvalidRequest, "1 to 10000")
	many := `{"executions":[` + strings.TrimSuffix(strings.Repeat(`{"action_ref":"a"},`, messages.BatchMax+1), ",") + `]}`
	refused(t, ask(t, h, "POST", executionsPath+"/batch", many), 400, messages.CodeInvalidRequest, "got more")
	require.Len(t, b.requests, 2, "all or none")
}

func TestListPages(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	for i := range 5 {
		submitted(t, h, fmt.Sprintf(`{"action_ref":"core.echo","parameters":{"i":%d},"labels":{"odd":"%d"}}`, i, i%2))
	}
	seen := map[messages.ExecutionID]bool{}
	next := ""
	for range 3 {
		page := read[ExecutionList](t, ask(t, h, "GET", executionsPath+"?limit=2&cursor="+next, ""), 200)
		for _, e := range page.Executions {
			require.False(t, seen[e.ID])
			require.Empty(t, e.Parameters)
			seen[e.ID] = true
		}
		next = page.NextCursor
	}
	require.Len(t, seen, 5)
	require.Empty(t, next)
	odd := read[ExecutionList](t, ask(t, h, "GET", executionsPath+"?label=odd%3D1&status=requested,running&status=failed&action=core.echo&pool=go", ""), 200)
	require.Len(t, odd.Executions, 2)
	none := ask(t, h, "GET", executionsPath+"?status=failed", "")
	require.Contains(t, none.Body.String(), `"executions":[]`)
}

func TestListRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	for target, text := range map[string]string{
		"?statuss=failed":       `unknown query parameter "statuss"`,
		"?status=gone":          `abandoned, got "gone"`,
		"?limit=0":              "limit must be a whole number from 1 to 1000",
		"?limit=x":              "limit must be",
		"?limit=1&limit=2":      "given 2 times",
		"?cursor=abc":           "cursor",
		"?cursor=YzF8eA":        "none of this list's", // a cursor that holds no number
		"?label=odd":            "label must be name=value",
		"?action=a%00b":         "control character U+0000",
		"?a=%zz":                "the query is malformed",
		"?session=%1f%3Cscript": "control character",
	} {
		refused(t, ask(t, h, "GET", executionsPath+target, ""), 400, messages.CodeInvalidRequest, text)
	}
}

func TestUnknownIDsAreNamed(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	unknown := messages.NewExecutionID().String()
	for _, c := range []struct{ method, path, name string }{
		{"GET", executionsPath + "/" + unknown, unknown},
		{"GET", executionsPath + "/" + unknown + "/wait?timeout_seconds=0", unknown},
		{"GET", executionsPath + "/" + unknown + "/output", unknown},
		{"GET", executionsPath + "/" + unknown + "/output?follow=1", unknown},
		{"GET", executionsPath + "/" + unknown + "/why", unknown},
		{"POST", executionsPath + "/" + unknown + "/cancel", unknown},
		{"POST", executionsPath + "/" + unknown + "/retry", unknown},
		{"GET", executionsPath + "/nonsense", `"nonsense"`},
		{"GET", executionsPath + "/..%2f..%2fetc", `"../../etc"`},
		{"GET", executionsPath + "/%3Cscript%3E", `<script>`},
		{"GET", "/api/v1/workers/n1/go/99", "worker n1/go/99"},
		{"GET", "/api/v1/workers/n1/go/x", "node/pool/slot"},
		{"GET", "/api/v1/workers/n1/go/99/health", "worker n1/go/99"},
		{"POST", "/api/v1/workers/n1/go/99/health", "worker n1/go/99"},
		{"POST", "/api/v1/workers/n1/go/99/kill", "worker n1/go/99"},
		{"POST", "/api/v1/workers/n1/go/99/cordon", "worker n1/go/99"},
		{"POST", "/api/v1/pools/nope/cordon", "pool nope"},
		{"GET", "/api/v1/nodes/nope", "node nope"},
		{"POST", "/api/v1/nodes/nope/cordon", "node nope"},
		{"POST", "/api/v1/nodes/nope/drain", "node nope"},
		{"GET", "/api/v1/dead-letters/77", "dead letter 77"},
		{"GET", "/api/v1/dead-letters/x", `"x"`},
		{"POST", "/api/v1/dead-letters/77/requeue", "dead letter 77"},
		{"POST", "/api/v1/dead-letters/77/discard", "dead letter 77"},
		{"GET", "/api/v1/nothing", "/api/v1/nothing"},
		{"GET", "/", "openapi.json"},
		{"GET", "/metrics", "metrics"},
		{"GET", "/debug/actors", "actor tree"},
		{"GET", "/debug/actors/pool/go", "actor tree"},
	} {
		w := ask(t, h, c.method, c.path, "")
		refused(t, w, http.StatusNotFound, messages.CodeNotFound, c.name)
		require.NotContains(t, w.Body.String(), "<script>", "the text is escaped")
	}
}

func TestCancelAndRetry(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	one := executionsPath + "/" + submitted(t, h, `{"action_ref":"core.echo","parameters":{"password":"p"}}`).ID.String()
	refused(t, ask(t, h, "POST", one+"/retry", ""), http.StatusConflict, messages.CodeNotRetriable, "has not ended")
	v := read[form.ExecutionView](t, ask(t, h, "POST", one+"/cancel", ""), 200)
	require.Equal(t, messages.Cancelled, v.Status)
	require.NotContains(t, string(v.Parameters), `"p"`)
	made := read[form.ExecutionView](t, ask(t, h, "POST", one+"/retry", ""), http.StatusCreated)
	again := read[form.ExecutionView](t, ask(t, h, "POST", one+"/retry", `{"idempotency_key":""}`), http.StatusOK)
	require.Equal(t, made.ID, again.ID, "an execution has one retry")
	require.True(t, again.Existing)
	require.False(t, made.Existing)
	refused(t, ask(t, h, "POST", one+"/retry", `{"key":"k"}`), http.StatusBadRequest, messages.CodeUnknownField, "key")
	long := `{"idempotency_key":"` + strings.Repeat("k", messages.KeyMax+1) + `"}`
	refused(t, ask(t, h, "POST", one+"/retry", long), http.StatusBadRequest, messages.CodeInvalidRequest, "idempotency_key")
	require.NotEmpty(t, read[EventsView](t, ask(t, h, "GET", one+"/events", ""), 200).Events)
	require.Len(t, read[ChainView](t, ask(t, h, "GET", one+"/chain", ""), 200).Executions, 1, "the stand-in makes no chain")
	require.Equal(t, "all_busy", read[view.Explanation](t, ask(t, h, "GET", one+"/why", ""), 200).Reason)
	out := read[OutputView](t, ask(t, h, "GET", one+"/output", ""), 200)
	require.Empty(t, out.Stdout)
	lanes := ask(t, h, "GET", one+"/timeline", "")
	require.Equal(t, timeline.Unknown, read[timeline.Timeline](t, lanes, 200).Wait[0].Cause)
	require.Contains(t, lanes.Body.String(), `"servers":[]`, "a lane without states is a list")
	whole := read[timeline.Timeline](t, lanes, 200).Whole
	half := whole.From.Add(whole.To.Sub(whole.From) / 2)
	part := read[timeline.Timeline](t, ask(t, h, "GET", one+"/timeline?from="+half.Format(time.RFC3339Nano)+"&links_from=7", ""), 200)
	require.Equal(t, timeline.Window{From: half, To: whole.To}, part.Window)
	require.Equal(t, []timeline.LeftOut{{What: timeline.LeftRetries, N: 1, From: whole.From, To: whole.From, Next: "links_from=1"}}, part.LeftOut)
	for query, names := range map[string]string{"from=noon": "from", "from=2030-01-31T08:00:00Z&to=2030-01-31T08:00:00Z": "to must be after from", "links_from=0": "links_from"} {
		refused(t, ask(t, h, "GET", one+"/timeline?"+query, ""), http.StatusBadRequest, messages.CodeInvalidRequest, names)
	}
	line := read[view.PastLine](t, ask(t, h, "GET", one+"/line?at="+half.Format(time.RFC3339Nano), ""), 200)
	require.Equal(t, []any{half, 3, "pool"}, []any{line.At, line.Line.Ahead, line.Line.Of})
	for query, names := range map[string]string{"": "at is missing", "?at=noon": "at must be a time"} {
		refused(t, ask(t, h, "GET", one+"/line"+query, ""), http.StatusBadRequest, messages.CodeInvalidRequest, names)
	}
	newest := read[EventsView](t, ask(t, h, "GET", one+"/events?newest=1", ""), 200)
	require.NotEmpty(t, newest.Events)
	require.False(t, newest.More)
	require.Empty(t, read[EventsView](t, ask(t, h, "GET", one+"/events?to=2020-01-31T08:00:00Z", ""), 200).Events)
	refused(t, ask(t, h, "GET", executionsPath+"/"+messages.NewExecutionID().String()+"/timeline", ""), 404, messages.CodeNotFound, "execution")
}

// The answer about an execution that is not stored says what is still known of it.
func TestADeletedExecution(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b})
	id := messages.NewExecutionID()
	b.remains = &view.Remains{Was: true, Retention: true, Kept: 3600, Journal: []messages.JournalEntry{{Kind: messages.JournalOperator, What: "cancel", Caller: "ann"}}}
	for _, part := range []string{"", "/timeline", "/line?at=2030-01-31T08:00:00Z", "/why", "/events?newest=1", "/chain", "/output", "/output?follow=1", "/wait?timeout_seconds=0"} {
		w := ask(t, h, "GET", executionsPath+"/"+id.String()+part, "")
		refused(t, w, http.StatusNotFound, messages.CodeNotFound, id.String()+" was deleted by retention")
		var answer struct {
			Error struct {
				Details struct{ Remains view.Remains }
			}
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
		require.Equal(t, *b.remains, answer.Error.Details.Remains, part)
	}
	for _, command := range []string{"/cancel", "/webhook/retry"} { // who commands need not be one who reads
		refused(t, ask(t, h, "POST", executionsPath+"/"+id.String()+command, ""), http.StatusNotFound, messages.CodeNotFound, id.String()+" is not known here")
	}
	b.err = store.ErrUnavailable
	refused(t, ask(t, h, "GET", executionsPath+"/"+id.String(), ""), http.StatusServiceUnavailable, messages.CodeStoreUnavailable, "")
}

func TestOutputKeepsBytes(t *testing.T) {
	t.Parallel()
	v := viewOutput(messages.ExecutionID{}, messages.Output{Stdout: []byte("a\xff"), Stderr: []byte("ü"), StdoutCut: true, Notice: "lost"})
	require.Equal(t, "lost", v.Notice)
	require.Equal(t, []byte("a\xff"), v.StdoutBase64)
	require.Equal(t, "ü", v.Stderr)
	require.Nil(t, v.StderrBase64)
	require.True(t, v.StdoutTruncated)
}

func TestTheNodesFaultsAreTold(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b})
	for _, c := range []struct {
		err    error
		status int
		code   messages.Code
	}{
		{fmt.Errorf("open /secret/path: %w", store.ErrUnavailable), 503, messages.CodeStoreUnavailable},
		{store.ErrReadOnly, 503, messages.CodeStoreUnavailable},
		{store.MayBeStored([]messages.Execution{{ID: messages.NewExecutionID()}}, fmt.Errorf("/secret/path: %w", store.ErrUnavailable)), 503, messages.CodeStoreUnavailable},
		{store.ErrFull, 507, messages.CodeStorageFull},
		{fmt.Errorf("disk on fire at /secret/path"), 500, messages.CodeInternal},
		{&messages.Problem{Code: messages.CodeActionNotFound, Message: "action a is not known"}, 404, "action_not_found"},
	} {
		b.err = c.err
		w := ask(t, h, "POST", executionsPath, `{"action_ref":"a"}`)
		refused(t, w, c.status, c.code, "")
		require.NotContains(t, w.Body.String(), "/secret/path")
		if c.status == 503 {
			require.NotEmpty(t, w.Header().Get("Retry-After"))
		}
	}
}

// A submission whose answer is lost may be stored: the caller gets the id to ask for.
func TestASubmissionWithoutAnswerNamesItsExecution(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b})
	id := messages.NewExecutionID()
	b.err = store.MayBeStored([]messages.Execution{{ID: id}, {}}, store.ErrUnavailable)
	for _, path := range []string{executionsPath, executionsPath + "/batch"} {
		body := `{"action_ref":"a"}`
		if path != executionsPath {
			body = `{"executions":[{"action_ref":"a"},{"action_ref":"a"}]}`
		}
		w := ask(t, h, "POST", path, body)
		refused(t, w, http.StatusServiceUnavailable, messages.CodeStoreUnavailable, "all 2 executions may be stored. Once it answers, GET /api/v1/executions/"+id.String())
		require.Contains(t, w.Body.String(), `"execution":"`+id.String()+`"`)
	}
	require.ErrorIs(t, store.MayBeStored(nil, store.ErrConflict), store.ErrConflict)
	var unanswered *store.UnansweredError
	require.False(t, errors.As(store.MayBeStored([]messages.Execution{{ID: id}}, store.ErrConflict), &unanswered), "the store has refused it")
}

// The headers are parsed by rules/submit. Here: which of them count.
func TestTraceOfARequest(t *testing.T) {
	t.Parallel()
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for name, c := range map[string]struct {
		headers []string
		want    string
	}{
		"none":                    {nil, ""},
		"a traceparent":           {[]string{"traceparent", good}, good},
		"one that is none":        {[]string{"Traceparent", "00-x"}, ""},
		"two of them":             {[]string{"Traceparent", good, "Traceparent", good}, ""},
		"a tracestate":            {[]string{"Traceparent", good, "Tracestate", "a=1"}, good + " a=1"},
		"two tracestates are one": {[]string{"Traceparent", good, "Tracestate", "a=1", "Tracestate", "b=2"}, good + " a=1,b=2"},
		"a wrong tracestate":      {[]string{"Traceparent", good, "Tracestate", "A"}, good},
		"a tracestate alone":      {[]string{"Tracestate", "a=1"}, ""},
	} {
		r, err := http.NewRequest(http.MethodGet, "/", nil)
		require.NoError(t, err)
		for i := 0; i < len(c.headers); i += 2 {
			r.Header.Add(c.headers[i], c.headers[i+1])
		}
		require.Equal(t, c.want, traceOf(r), name)
	}
}

// Every way in takes the header's trace, unless the submission has one of its own; what is wrong in a submission is told.
func TestTraceOfASubmission(t *testing.T) {
	t.Parallel()
	const own, header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, c := range []struct{ path, kind, body string }{
		{"/api/v1/executions", "application/json", `{"action_ref":"a.b","trace":%q}`},
		{"/api/v1/executions/batch", "application/json", `{"executions":[{"action_ref":"a.b","trace":%q}]}`},
		{"/api/v1/executions/stream", "application/x-ndjson", `{"action_ref":"a.b","trace":%q}`},
	} {
		for given, want := range map[string]string{own + " a=1": own + " a=1", "": header + " b=2"} {
			b := newBackend(t)
			w := ask(t, New(Config{Backend: b}), "POST", c.path, fmt.Sprintf(c.body, given), "Content-Type", c.kind, "Traceparent", header, "Tracestate", "b=2")
			require.Less(t, w.Code, 300, w.Body.String())
			require.Len(t, b.requests, 1, c.path)
			require.Equal(t, want, b.requests[0].Trace, c.path)
		}
		w := ask(t, New(Config{Backend: newBackend(t)}), "POST", c.path, fmt.Sprintf(c.body, "x"), "Content-Type", c.kind)
		require.Contains(t, w.Body.String(), "trace must be a W3C traceparent", c.path)
	}
}

func TestTheViewOfATrace(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for trace, want := range map[string][3]string{
		"": {}, parent: {parent, "", "0af7651916cd43dd8448eb211c80319c"}, parent + " a=1": {parent, "a=1", "0af7651916cd43dd8448eb211c80319c"},
	} {
		v := form.ViewExecution(&messages.Execution{Trace: trace})
		require.Equal(t, want, [3]string{v.Trace, v.TraceState, v.TraceID})
		e := v.Execution()
		require.Equal(t, trace, e.Trace, "a client reads back what the node has")
	}
}

func TestDurationOfARun(t *testing.T) {
	t.Parallel()
	at := time.Unix(100, 0)
	v := form.ViewExecution(&messages.Execution{StartedAt: at, FinishedAt: at.Add(1500 * time.Microsecond)})
	require.InDelta(t, 1.5, v.DurationMS, 0)
}
