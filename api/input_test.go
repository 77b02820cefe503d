package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
)

// sized is a submission whose parameters are exactly n bytes long.
func sized(n int) string {
	const empty = `{"a":""}`
	return `{"action_ref":"core.echo","parameters":{"a":"` + strings.Repeat("x", n-len(empty)) + `"}}`
}

func TestParametersAroundTheirLimit(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	submitted(t, h, sized(messages.ParametersMax-1))
	v := submitted(t, h, sized(messages.ParametersMax))
	got := read[form.ExecutionView](t, ask(t, h, "GET", executionsPath+"/"+v.ID.String(), ""), 200)
	require.Len(t, got.Parameters, messages.ParametersMax)
	for _, n := range []int{messages.ParametersMax + 1, BodyMax + 1, 3 * BodyMax} {
		refused(t, ask(t, h, "POST", executionsPath, sized(n)), http.StatusRequestEntityTooLarge, "parameters_too_large", "1")
	}
	batch := `{"executions":[` + sized(messages.ParametersMax) + `,` + sized(messages.ParametersMax+1) + `]}`
	refused(t, ask(t, h, "POST", executionsPath+"/batch", batch), http.StatusRequestEntityTooLarge, "parameters_too_large", "executions[1]: parameters are 1048577 bytes")
	refused(t, ask(t, h, "POST", executionsPath+"/batch", strings.Repeat(" ", BatchBodyMax+1)), http.StatusRequestEntityTooLarge, messages.CodeBodyTooLarge, "33554432")
}

func nested(depth int) string {
	return strings.Repeat(`{"a":`, depth-1) + "{}" + strings.Repeat("}", depth-1)
}

func TestDepthAroundItsLimit(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	body := func(depth int) string { return `{"action_ref":"core.echo","parameters":` + nested(depth) + `}` }
	submitted(t, h, body(messages.JSONDepthMax))
	for _, depth := range []int{messages.JSONDepthMax + 1, messages.JSONDepthMax + 10, 10_000} {
		refused(t, ask(t, h, "POST", executionsPath, body(depth)), 400, messages.CodeInvalidJSON, "100 levels")
	}
	read[form.BatchView](t, ask(t, h, "POST", executionsPath+"/batch", `{"executions":[`+body(messages.JSONDepthMax)+`]}`), 201)
	refused(t, ask(t, h, "POST", executionsPath+"/batch", `{"executions":[`+body(messages.JSONDepthMax+1)+`]}`), 400, messages.CodeInvalidJSON, "executions[0]")
	refused(t, ask(t, h, "POST", executionsPath, strings.Repeat("[", 1_000_000)), 400, messages.CodeInvalidJSON, "100 levels")
}

func TestBadBodies(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b})
	for _, c := range []struct {
		body string
		code messages.Code
		text string
	}{
		{`{`, messages.CodeInvalidJSON, "ends in the middle"},
		{` `, messages.CodeInvalidJSON, "ends in the middle"},
		{`nonsense`, messages.CodeInvalidJSON, "not JSON"},
		{`{"action_ref":"a"} {}`, messages.CodeInvalidJSON, "goes on after its JSON value, at byte 19"},
		{`{"action_ref":"a",}`, messages.CodeInvalidJSON, "not JSON"},
		{"{\"action_ref\":\"a\xff\"}", messages.CodeInvalidJSON, "not UTF-8"},
		{`[]`, messages.CodeInvalidRequest, "the body: want an object, got array"},
		{`{"action_ref":7}`, messages.CodeInvalidRequest, "action_ref: want text, got number"},
		{`{"action_ref":"a","priority":"high"}`, messages.CodeInvalidRequest, "priority: want a whole number, got string"},
		{`{"action_ref":"a","priority":1.5}`, messages.CodeInvalidRequest, "priority: want a whole number"},
		{`{"action_ref":"a","timeout_seconds":"1"}`, messages.CodeInvalidRequest, "timeout_seconds: want a number"},
		{`{"action_ref":"a","run_at":"tomorrow"}`, messages.CodeInvalidRequest, "tomorrow"},
		{`{"action_ref":"a","run_at":"infinity"}`, messages.CodeInvalidRequest, "infinity"},
		{`{"action_ref":"a","run_at":"-infinity"}`, messages.CodeInvalidRequest, "-infinity"},
		{`{"action_ref":"a","labels":{"a":1}}`, messages.CodeInvalidRequest, "labels"},
		{`{"action_ref":"a","<script>":1}`, messages.CodeUnknownField, "script"},
		{`{"action_ref":"a","created_by":"root"}`, messages.CodeUnknownField, `"created_by"`},
		{`{}`, messages.CodeInvalidRequest, "action_ref is missing"},
		{`null`, messages.CodeInvalidRequest, "action_ref is missing"},
		{`{"action_ref":"a","parameters":[]}`, messages.CodeInvalidRequest, "parameters must be a JSON object"},
		{`{"action_ref":"a","parameters":"x"}`, messages.CodeInvalidRequest, "parameters must be a JSON object"},
		{`{"action_ref":"a","priority":-1}`, messages.CodeInvalidRequest, "got -1"},
		{`{"action_ref":"a","max_retries":-1}`, messages.CodeInvalidRequest, "max_retries"},
		{`{"action_ref":"a","timeout_seconds":0}`, messages.CodeInvalidRequest, "timeout_seconds"},
		{`{"action_ref":"a","timeout_seconds":1e300}`, messages.CodeInvalidRequest, "timeout_seconds"},
		{`{"action_ref":"a","timeout_seconds":1e999}`, messages.CodeInvalidRequest, "timeout_seconds"},
		{`{"action_ref":"a","queue_deadline_seconds":-1}`, messages.CodeInvalidRequest, "queue_deadline_seconds"},
		{`{"action_ref":"a","affinity":"hint"}`, messages.CodeInvalidRequest, "no session is given"},
		{`{"action_ref":"a","session":"s","affinity":"maybe"}`, messages.CodeInvalidRequest, `unknown affinity "maybe"`},
		{`{"action_ref":"a","run_at":"9999-01-01T00:00:00Z"}`, messages.CodeInvalidRequest, "run_at"},
		{`{"action_ref":"a","labels":{"":"x"}}`, messages.CodeInvalidRequest, "without a name"},
		{`{"action_ref":"a","labels":{"x":"\u0000"}}`, messages.CodeInvalidRequest, "labels: x holds the control character U+0000"},
	} {
		refused(t, ask(t, h, "POST", executionsPath, c.body), 400, c.code, c.text)
	}
	require.Empty(t, b.requests)
}

// Every field with NUL is refused by name; with markup or dots it is stored as it came and shown as JSON.
func TestHostileTextInEveryField(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	for _, field := range []string{"action_ref", "session", "idempotency_key"} {
		w := ask(t, h, "POST", executionsPath, hostile(t, field, "a\x00b"))
		refused(t, w, 400, messages.CodeInvalidRequest, field+" holds the control character U+0000 at byte 1")
		for _, text := range []string{`<script>alert(1)</script>`, `../../etc/passwd`} {
			w := ask(t, h, "POST", executionsPath, hostile(t, field, text))
			v := read[map[string]any](t, w, http.StatusCreated)
			require.Equal(t, text, v[field])
			require.NotContains(t, w.Body.String(), "<script>")
		}
		refused(t, ask(t, h, "POST", executionsPath, hostile(t, field, strings.Repeat("x", 257))), 400, messages.CodeInvalidRequest, "257 bytes long; the limit is 256")
	}
	body := `{"action_ref":"a","parameters":{"k\u0000":"\u0000<script>../"},"labels":{"../":"<script>"}}`
	v := submitted(t, h, body)
	w := ask(t, h, "GET", executionsPath+"/"+v.ID.String(), "")
	got := read[form.ExecutionView](t, w, 200)
	require.JSONEq(t, `{"k\u0000":"\u0000<script>../"}`, string(got.Parameters))
	require.Equal(t, map[string]string{"../": "<script>"}, got.Labels)
	require.NotContains(t, w.Body.String(), "<script>")
}

func hostile(t *testing.T, field, text string) string {
	t.Helper()
	m := map[string]any{"action_ref": "core.echo"}
	m[field] = text
	b, err := json.Marshal(m)
	require.NoError(t, err)
	return string(b)
}

func TestMediaTypes(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	body := `{"action_ref":"core.echo"}`
	for _, kind := range []string{"application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8"} {
		require.Equal(t, 201, ask(t, h, "POST", executionsPath, body, "Content-Type", kind).Code, kind)
	}
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1", ";;"} {
		refused(t, ask(t, h, "POST", executionsPath, body, "Content-Type", kind), 415, messages.CodeMediaType, "send application/json")
	}
	for _, kind := range []string{"application/json", "application/json;"} {
		w := ask(t, h, "POST", executionsPath, body, "Content-Type", kind, "Content-Encoding", "gzip")
		refused(t, w, 415, messages.CodeMediaType, `Content-Encoding "gzip"`)
		w = ask(t, h, "POST", executionsPath+"/batch", `{"executions":[`+body+`]}`, "Content-Type", kind, "Content-Encoding", "br")
		refused(t, w, 415, messages.CodeMediaType, `Content-Encoding "br"`)
		require.Equal(t, 201, ask(t, h, "POST", executionsPath, body, "Content-Type", kind, "Content-Encoding", "identity").Code)
	}
}

func TestMethodsAndPaths(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	for _, c := range []struct{ method, path, allow string }{
		{"DELETE", executionsPath, "POST, GET, HEAD"},
		{"PUT", executionsPath + "/x", "GET, HEAD"},
		{"GET", executionsPath + "/batch", "POST"},
		{"GET", executionsPath + "/x/cancel", "POST"},
		{"POST", "/api/v1/dead-letters/stats", "GET, HEAD"},
		{"POST", "/healthz", "GET, HEAD"},
		{"OPTIONS", "/api/v1/pools", "GET, HEAD"},
		{"TRACE", "/api/v1/pools", "GET, POST"},
		{"G", "/api/v1/pools", "GET, POST"},
	} {
		w := ask(t, h, c.method, c.path, "")
		refused(t, w, 405, messages.CodeMethodNotAllowed, c.path)
		require.ElementsMatch(t, strings.Split(c.allow, ", "), strings.Split(w.Header().Get("Allow"), ", "), c.path)
	}
	for _, path := range []string{"//api/v1/pools", "/api/v1/../pools", "/api//v1/pools", "/api/v1/executions/..", "/./healthz"} {
		refused(t, ask(t, h, "GET", path, ""), 404, messages.CodeNotFound, "shortest form")
	}
	refused(t, ask(t, h, "GET", "/api/v1/pools/", ""), 404, messages.CodeNotFound, "/api/v1/pools/")
	require.Equal(t, 200, ask(t, h, "HEAD", "/api/v1/pools", "").Code)
}

func TestAPanicIsOneAnswer(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: nil})
	refused(t, ask(t, h, "GET", "/api/v1/pools", ""), 500, messages.CodeInternal, "log")
}

// FuzzBody: whatever the body, the answer is JSON with a status of the caller's or a stored execution, never a 500.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{`{"action_ref":"core.echo","parameters":{"a":1}}`, `{"action_ref":"a","priority":99}`, `{"x":`, nested(200),
		`{"action_ref":"a","session":"\u0000"}`, `{"action_ref":"a","wait_seconds":0,"labels":{"a":"b"},"run_at":"2030-01-01T00:00:00Z"}`,
		"\xff\xfe", `{"executions":[{"action_ref":"a"}]}`} {
		f.Add([]byte(seed))
	}
	h := New(Config{Backend: newBackend(f)})
	f.Fuzz(func(t *testing.T, body []byte) {
		if bytes.Contains(body, []byte("wait_seconds")) {
			return // the backend has no end to wait for
		}
		for _, path := range []string{executionsPath, executionsPath + "/batch"} {
			w := ask(t, h, "POST", path, string(body), "Content-Type", "application/json")
			require.Less(t, w.Code, 500, "%s: %s", path, w.Body)
			require.True(t, json.Valid(w.Body.Bytes()))
			require.Equal(t, "application/json", w.Header().Get("Content-Type"))
			if w.Code >= 400 {
				e := read[form.ErrorBody](t, w, w.Code)
				require.NotEmpty(t, e.Error.Code)
				require.NotEmpty(t, e.Error.Message)
			}
		}
	})
}

func BenchmarkSubmit(b *testing.B) {
	h := New(Config{Backend: &fake{}})
	body := `{"action_ref":"core.noop","parameters":{"message":"hi","n":12}}`
	b.ReportAllocs()
	for b.Loop() {
		if w := ask(b, h, "POST", executionsPath, body); w.Code != 201 {
			b.Fatal(fmt.Sprint(w.Code, w.Body))
		}
	}
}
