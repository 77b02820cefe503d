package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// nasty are texts that must have no effect: they are refused with the field's name, or stored unchanged.
var nasty = map[string]string{"nul": "a\x00b", "markup": "<script>alert(1)</script>", "path": "../../../etc/passwd"}

// TestNastyTextInEveryField submits each of them in every field. A NUL is refused, and the error names the field. Every other
// text is stored unchanged.
func TestNastyTextInEveryField(t *testing.T) {
	t.Parallel()
	n := shared(t)
	fields := map[string]func(text string) object{
		"action_ref":      func(s string) object { return object{"action_ref": s} },
		"session":         func(s string) object { return object{"session": s} },
		"affinity":        func(s string) object { return object{"affinity": s, "session": "x"} },
		"idempotency_key": func(s string) object { return object{"idempotency_key": s + t.Name()} },
		"labels":          func(s string) object { return object{"labels": object{"name": s}} },
		"run_at":          func(s string) object { return object{"run_at": s} },
	}
	for field, with := range fields {
		for kind, text := range nasty {
			request := object{"action_ref": "core.echo", "parameters": object{"text": text}}
			for key, value := range with(text) {
				request[key] = value
			}
			status, answer := n.call(t, "POST", "/api/v1/executions", request)
			mustRefuse := kind == "nul" || field == "action_ref" || field == "affinity" || field == "run_at"
			if mustRefuse {
				require.GreaterOrEqual(t, status, 400, "%s with %s: %v", field, kind, answer)
				require.Less(t, status, 500, "%s with %s: %v", field, kind, answer)
				require.NotEmpty(t, answer.text("error", "code"))
				require.NotContains(t, answer.text("error", "message"), "\x00")
				continue
			}
			require.Equal(t, http.StatusCreated, status, "%s with %s: %v", field, kind, answer)
			e := n.finish(t, answer.text("id"))
			require.Equal(t, "completed", e.text("status"))
			require.Equal(t, text, e.text("result", "text"))
		}
	}
	status, answer := n.call(t, "POST", "/api/v1/executions", object{"action_ref": "core.echo", "labels": object{nasty["nul"]: "x"}})
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, answer.text("error", "message"), "a label's name holds the control character U+0000 at byte 1")
	n.works(t)
}

// TestParametersKeepEveryCharacter sends characters that are special for shells, logs or stores through each runtime.
func TestParametersKeepEveryCharacter(t *testing.T) {
	t.Parallel()
	n := shared(t)
	text := "nul \x00 <script> ../ $(reboot) `id` ; & | \" ' \\ \n\r\t \u2028 \U0001F3AD"
	for _, action := range []string{"core.echo", "core.shell_echo"} {
		e := n.runs(t, action, object{"text": text, "../key\x00": text})
		require.Equal(t, "completed", e.text("status"), "%v", e)
		require.Equal(t, text, e.text("result", "text"), action)
	}
	e := n.runs(t, "theatre.card", object{"text": text})
	require.Equal(t, text, e.text("result", "shown", "text"))
	e = n.runs(t, "theatre.remember", object{"line": text}, object{"session": "every-character"})
	require.Equal(t, []any{text}, e["result"].(map[string]any)["lines"])
	// The environment cannot hold a NUL. The shell gets the rest as one word.
	e = n.runs(t, "theatre.prompt", object{"word": "$(reboot); `id` <script> ../"})
	require.Equal(t, "prompted $(reboot); `id` <script> ../", e.text("result"))
}

// TestNastyPathsAndQueries puts these texts into ids in paths and into values of queries.
func TestNastyPathsAndQueries(t *testing.T) {
	t.Parallel()
	n := shared(t)
	texts := []string{"%00", "a%00b", "%3Cscript%3E", "..%2F..%2Fetc%2Fpasswd", strings.Repeat("a", 3000), "%ff%fe", "nope"}
	for _, text := range texts {
		for _, c := range []struct{ method, path string }{
			{"GET", "/api/v1/executions/" + text}, {"POST", "/api/v1/executions/" + text + "/cancel"},
			{"POST", "/api/v1/executions/" + text + "/retry"}, {"GET", "/api/v1/executions/" + text + "/wait"},
			{"GET", "/api/v1/executions/" + text + "/output"}, {"GET", "/api/v1/executions/" + text + "/output?follow=1"},
			{"GET", "/api/v1/executions/" + text + "/chain"}, {"GET", "/api/v1/executions/" + text + "/events"},
			{"GET", "/api/v1/executions/" + text + "/why"}, {"GET", "/api/v1/workers/n1/go/" + text},
			{"GET", "/api/v1/workers/" + text + "/go/0"}, {"POST", "/api/v1/workers/n1/" + text + "/0/kill"},
			{"POST", "/api/v1/workers/n1/" + text + "/0/cordon"}, {"POST", "/api/v1/pools/" + text + "/cordon"},
			{"POST", "/api/v1/nodes/" + text + "/drain"}, {"GET", "/api/v1/dead-letters/" + text},
			{"POST", "/api/v1/dead-letters/" + text + "/requeue"}, {"GET", "/debug/actors/" + text}, {"GET", "/" + text},
			{"GET", "/api/v1/executions?status=" + text}, {"GET", "/api/v1/executions?cursor=" + text},
			{"GET", "/api/v1/executions?limit=" + text}, {"GET", "/api/v1/executions?label=" + text},
			{"GET", "/api/v1/sessions?cursor=" + text}, {"GET", "/api/v1/workers?cursor=" + text},
			{"GET", "/api/v1/executions?" + text + "=1"},
		} {
			status, answer := n.call(t, c.method, c.path, nil)
			require.True(t, status >= 400 && status < 500, "%s %s: %d %v", c.method, c.path, status, answer)
			require.NotEmpty(t, answer.text("error", "code"))
			require.NotEmpty(t, answer.text("error", "message"))
		}
		for _, filter := range []string{"action", "pool", "session", "worker"} {
			status, answer := n.call(t, "GET", "/api/v1/executions?"+filter+"="+text, nil)
			require.True(t, status == http.StatusOK && len(answer.list("executions")) == 0 || status == http.StatusBadRequest,
				"%s=%s: %d %v", filter, text, status, answer)
		}
	}
	n.works(t)
}

func TestUnknownIDs(t *testing.T) {
	t.Parallel()
	n := shared(t)
	const id = "019aa5c0-0000-7000-8000-000000000001"
	for path, want := range map[string]string{
		"/api/v1/executions/" + id: id, "/api/v1/executions/" + id + "/wait": id, "/api/v1/executions/" + id + "/output": id,
		"/api/v1/executions/" + id + "/chain": id, "/api/v1/executions/" + id + "/why": id,
		"/api/v1/executions/" + id + "/events": id, "/api/v1/workers/n1/go/999": "n1/go/999",
		"/api/v1/workers/n9/go/0": "n9/go/0", "/api/v1/dead-letters/77": "77", "/debug/actors/troupe/nobody": "troupe/nobody",
	} {
		status, answer := n.call(t, "GET", path, nil)
		require.Equal(t, http.StatusNotFound, status, "%s: %v", path, answer)
		require.Equal(t, "not_found", answer.text("error", "code"))
		require.Contains(t, answer.text("error", "message"), want)
	}
	status, answer := n.call(t, "POST", "/api/v1/executions", object{"action_ref": "core.ecoh"})
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, answer.text("error", "message"), `there is no action "core.ecoh"; `)
	for _, args := range [][]string{{"get", id}, {"wait", id}, {"cancel", id}, {"retry", id}, {"logs", id}, {"logs", "-f", id}, {"why", id}} {
		r := n.troupe(t, args...)
		require.Equal(t, 1, r.code, "%v", args)
		require.Contains(t, r.err, id)
		require.Contains(t, r.err, "not_found")
	}
}

// TestParametersThatBreakTheSchema: the error names the place in the parameters and what the schema requires there.
func TestParametersThatBreakTheSchema(t *testing.T) {
	t.Parallel()
	n := shared(t)
	for _, c := range []struct {
		action, parameters, want string
	}{
		{"core.sleep", `{"seconds":"long"}`, "/seconds: got string, want number"},
		{"core.sleep", `{"seconds":-1}`, "/seconds: minimum"},
		{"core.sleep", `{}`, "seconds"},
		{"core.sleep", `{"seconds":1,"minutes":2}`, "minutes"},
		{"theatre.remember", `{"line":5}`, "/line: got number, want string"},
	} {
		status, answer := n.call(t, "POST", "/api/v1/executions", `{"action_ref":"`+c.action+`","parameters":`+c.parameters+`}`)
		require.Equal(t, http.StatusUnprocessableEntity, status)
		require.Equal(t, "invalid_parameters", answer.text("error", "code"))
		require.Contains(t, answer.text("error", "message"), c.want)
		require.Contains(t, answer.text("error", "message"), "action "+c.action)
	}
	r := n.troupe(t, "submit", "core.sleep", "seconds=long")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "/seconds: got string, want number")
	// In a batch the error names the entry, and nothing of the batch is stored.
	status, answer := n.call(t, "POST", "/api/v1/executions/batch", `{"executions":[
		{"action_ref":"core.noop","labels":{"batch":"broken"}},{"action_ref":"core.sleep","parameters":{"seconds":"x"}}]}`)
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Contains(t, answer.text("error", "message"), "execution 2 of 2: action core.sleep")
	require.Empty(t, n.get(t, "/api/v1/executions?label="+url.QueryEscape("batch=broken")).list("executions"))
}

// TestParametersOfOneMebibyte sends parameters below and at the limit to a process and back. One byte more is refused.
func TestParametersOfOneMebibyte(t *testing.T) {
	t.Parallel()
	n := shared(t)
	const limit = 1 << 20
	for _, size := range []int{limit - 1, limit} {
		fill := strings.Repeat("x", size-len(`{"text":""}`))
		for _, action := range []string{"core.shell_echo", "theatre.card"} {
			_, answer := n.call(t, "POST", "/api/v1/executions", `{"action_ref":"`+action+`","parameters":{"text":"`+fill+`"}}`)
			e := n.finish(t, answer.text("id"))
			require.Equal(t, "completed", e.text("status"), "%s with %d bytes: %s", action, size, e.text("error"))
			if action == "core.shell_echo" {
				require.Len(t, e.text("result", "text"), len(fill))
			}
		}
	}
	fill := strings.Repeat("x", limit+1-len(`{"text":""}`))
	status, answer := n.call(t, "POST", "/api/v1/executions", `{"action_ref":"core.echo","parameters":{"text":"`+fill+`"}}`)
	require.Equal(t, http.StatusRequestEntityTooLarge, status)
	require.Equal(t, "parameters_too_large", answer.text("error", "code"))
	require.Contains(t, answer.text("error", "message"), "1048577 bytes; the limit is 1048576")
	status, answer = n.call(t, "POST", "/api/v1/executions", `{"action_ref":"core.echo","parameters":{"text":"`+strings.Repeat("x", 2<<20)+`"}}`)
	require.Equal(t, http.StatusRequestEntityTooLarge, status)
	require.Equal(t, "parameters_too_large", answer.text("error", "code"))
	r := n.troupeWith(t, `{"text":"`+fill+`"}`, "submit", "core.echo", "--params", "-")
	require.NotZero(t, r.code)
	require.Contains(t, r.err, "1048576")
	n.works(t)
}

func TestDeepJSON(t *testing.T) {
	t.Parallel()
	n := shared(t)
	nested := func(depth int) string { return strings.Repeat(`{"a":`, depth-1) + "{}" + strings.Repeat("}", depth-1) }
	for _, depth := range []int{101, 10_000} {
		status, answer := n.call(t, "POST", "/api/v1/executions", `{"action_ref":"core.echo","parameters":`+nested(depth)+`}`)
		require.Equal(t, http.StatusBadRequest, status)
		require.Equal(t, "invalid_json", answer.text("error", "code"))
		require.Contains(t, answer.text("error", "message"), "nested deeper than 100 levels")
	}
	status, answer := n.call(t, "POST", "/api/v1/executions", `{"action_ref":"core.echo","parameters":`+nested(100)+`}`)
	require.Equal(t, http.StatusCreated, status, "%v", answer)
	require.Equal(t, "completed", n.finish(t, answer.text("id")).text("status"))
	r := n.troupeWith(t, nested(10_000), "submit", "core.echo", "--params", "-")
	require.NotZero(t, r.code)
	require.Contains(t, r.err, "nested deeper than 100 levels")
}

// TestMalformedRequests sends bodies that are not requests.
func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	n := shared(t)
	for body, code := range map[string]string{
		"": "invalid_json", "{": "invalid_json", "nope": "invalid_json", "[]": "invalid_request", `{"action_ref":"core.echo"} {}`: "invalid_json",
		`{"action_ref":"core.echo","params":{}}`: "unknown_field", `{"action_ref":1}`: "invalid_request",
		`{"action_ref":"core.echo","parameters":[]}`: "invalid_request", "{\"action_ref\":\"\xff\"}": "invalid_json",
		`{"action_ref":"core.echo","priority":10}`: "invalid_request", `{"action_ref":"core.echo","timeout_seconds":-1}`: "invalid_request",
		`{"action_ref":"core.echo","max_retries":100000}`: "invalid_request", `{}`: "invalid_request",
	} {
		status, answer := n.call(t, "POST", "/api/v1/executions", body)
		require.Equal(t, http.StatusBadRequest, status, "%s: %v", body, answer)
		require.Equal(t, code, answer.text("error", "code"), "%s: %v", body, answer)
	}
	status, _ := n.call(t, "DELETE", "/api/v1/executions", nil)
	require.Equal(t, http.StatusMethodNotAllowed, status)
	n.works(t)
}
