package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
)

// plainBodies are read in one pass.
var plainBodies = []string{
	`{"action_ref":"core.echo"}`,
	`{"action_ref":"core.noop","parameters":{}}`,
	" \t\r\n{ \"action_ref\" : \"core.echo\" , \"parameters\" : { \"a\" : [ 1 , -0.5e+3 , true , false , null , \"x\\u00e4\\n\" , { } , [ ] ] } } \n",
	`{"action_ref":"ü","session":"s","affinity":"strict","priority":9,"run_at":"2030-01-31T09:00:00.5+01:00","idempotency_key":"k",
		"timeout_seconds":1.5,"max_retries":0,"queue_deadline_seconds":1e2,"labels":{"a":"b","c":""}}`,
	`{"action_ref":"a","labels":{}}`,
	`{"action_ref":"a","priority":-1,"max_retries":999999999,"timeout_seconds":-0}`,
	`{"action_ref":"a","parameters":7}`,
	`{"action_ref":"a","parameters":null}`,
	`{"action_ref":"a","parameters":"text"}`,
	`{"action_ref":"a","parameters":` + nested(quickDepth-1) + `}`,
	`{}`,
}

// otherBodies are read by encoding/json, or refused by it or before it.
var otherBodies = []string{
	``, ` `, `{`, `}`, `[]`, `null`, `7`, `"x"`, `nonsense`, `{]`, `{"action_ref"}`, `{"action_ref":}`, `{"action_ref":"a",}`, `{,}`,
	`{"action_ref":"a"} {}`, `{"action_ref":"a"}]`, `{"action_ref":"a"`, `{"action_ref":"a`, `{"action_ref":"a\`, `{"action_ref":"a\u12`,
	`{"action_ref":null}`, `{"action_ref":7}`, `{"action_ref":"\u0061"}`, `{"\u0061ction_ref":"a"}`, `{"Action_Ref":"a"}`, `{"x":1}`,
	`{"action_ref":"a","action_ref":"b"}`, `{"action_ref":"a","\u0061ction_ref":"b"}`, "{\"action_ref\":\"a\x00\"}", "{\"action_ref\":\"a\xff\"}",
	"{\"action_ref\":\"a\n\"}", `{"action_ref":"a","parameters":{"a":1,"a":2}}`, `{"action_ref":"a","parameters":{"a":1,"\u0061":2}}`,
	`{"action_ref":"a","parameters":{"x":[{"b":1},{"b":1,"b":1}]}}`, `{"action_ref":"a","parameters":{"\n":1}}`,
	`{"action_ref":"a","parameters":{"a":"\x"}}`, `{"action_ref":"a","parameters":{"a":"\u12g4"}}`, `{"action_ref":"a","parameters":[1,]}`,
	`{"action_ref":"a","parameters":[1 2]}`, `{"action_ref":"a","parameters":{"a" 1}}`, `{"action_ref":"a","parameters":{a:1}}`,
	`{"action_ref":"a","parameters":01}`, `{"action_ref":"a","parameters":-}`, `{"action_ref":"a","parameters":1.}`, `{"action_ref":"a","parameters":.5}`,
	`{"action_ref":"a","parameters":1e}`, `{"action_ref":"a","parameters":+1}`, `{"action_ref":"a","parameters":tru}`, `{"action_ref":"a","parameters":NaN}`,
	`{"action_ref":"a","parameters":nul`, `{"action_ref":"a","parameters":` + nested(quickDepth+1) + `}`, `{"action_ref":"a","parameters":` + nested(10_000) + `}`,
	`{"action_ref":"a","parameters":{` + manyKeys(40) + `}}`, `{"action_ref":"a","parameters":{` + manyKeys(40) + `,"k7":0}}`,
	`{"action_ref":"a","priority":1.0}`, `{"action_ref":"a","priority":1e1}`, `{"action_ref":"a","priority":"1"}`, `{"action_ref":"a","priority":null}`,
	`{"action_ref":"a","priority":1234567890123}`, `{"action_ref":"a","priority":99999999999999999999}`, `{"action_ref":"a","priority":-}`,
	`{"action_ref":"a","timeout_seconds":1e999}`, `{"action_ref":"a","timeout_seconds":"1"}`, `{"action_ref":"a","timeout_seconds":null}`,
	`{"action_ref":"a","timeout_seconds":{}}`, `{"action_ref":"a","run_at":"tomorrow"}`, `{"action_ref":"a","run_at":7}`, `{"action_ref":"a","run_at":null}`,
	`{"action_ref":"a","run_at":"2030-01-31T09:00:00\u005a"}`, `{"action_ref":"a","run_at":{}}`, `{"action_ref":"a","labels":null}`, `{"action_ref":"a","labels":[]}`,
	`{"action_ref":"a","labels":{"a":1}}`, `{"action_ref":"a","labels":{"a":null}}`, `{"action_ref":"a","labels":{"a":"b","a":"c"}}`, `{"action_ref":"a","labels":{"a":"\u0062"}}`,
	`{"action_ref":"a","wait_seconds":"1"}`, `{"action_ref":"a","wait_seconds":-1e-999}x`, "\ufeff{\"action_ref\":\"a\"}",
}

func manyKeys(n int) string {
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprintf(`"k%d":%d`, i, i))
	}
	return strings.Join(keys, ",")
}

// sameAsSlowly reads a body in one pass, and holds what was read to what encoding/json reads in decodeSlowly. It reports whether one
// pass was enough.
func sameAsSlowly(t *testing.T, body []byte) bool {
	t.Helper()
	before := form.SubmitBody{Request: submit.Request{ActionRef: "before", Labels: map[string]string{"a": "b"}, Trace: "t"}}
	var want form.SubmitBody
	wrong, got := decodeSlowly(theBody, body, &want), before
	read := quick(body, &got)
	if read {
		require.NoError(t, wrong, "%q", body)
		require.Equal(t, want, got, "%q", body)
	} else {
		require.Equal(t, before, got, "%q", body)
	}
	var line, lineWant submit.Request
	lineWrong := decodeSlowly("the line", body, &lineWant)
	if quick(body, &line) {
		require.NoError(t, lineWrong, "%q", body)
		require.Equal(t, lineWant, line, "%q", body)
	}
	// The parameters are the caller's bytes no longer than the call: the buffer that they came in is used again.
	kept := string(got.Parameters)
	clear(body)
	require.Equal(t, kept, string(got.Parameters))
	return read
}

func TestPlainSubmissionsAreReadInOnePass(t *testing.T) {
	t.Parallel()
	for _, body := range plainBodies {
		require.True(t, sameAsSlowly(t, []byte(body)), body)
	}
	require.True(t, sameAsSlowly(t, []byte(`{"action_ref":"a","wait_seconds":1.5}`)))
	var line submit.Request
	require.False(t, quick([]byte(`{"action_ref":"a","wait_seconds":1}`), &line), "a batch has no wait")
	for _, body := range otherBodies {
		require.False(t, sameAsSlowly(t, []byte(body)), body)
	}
	// Each field of a submission is read in one pass: a new one is added there too.
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	n, f := 3, 1.5
	whole := form.SubmitBody{WaitSeconds: &f, Request: submit.Request{ActionRef: "a", Parameters: json.RawMessage(`{"a":1}`), Session: "s", Affinity: "hint", Priority: &n,
		RunAt: at, IdempotencyKey: "k", TimeoutSeconds: &f, MaxRetries: &n, QueueDeadline: &f, Labels: map[string]string{"a": "b"}, Trace: "t"}}
	body, err := json.Marshal(whole)
	require.NoError(t, err)
	for field := range fieldsOf(reflect.TypeOf(whole)) {
		if field == "webhook" {
			continue // few submissions have one: it is read slowly
		}
		require.Contains(t, string(body), `"`+field+`":`)
	}
	require.True(t, sameAsSlowly(t, body))
}

// Whatever the body, the answer of a node is that of one that reads every body slowly: the same status, headers and text.
func TestAnswersAreThoseOfTheSlowWay(t *testing.T) {
	t.Parallel()
	server := New(Config{Backend: &fake{}})
	for _, body := range append(append([]string{}, plainBodies...), otherBodies...) {
		var want form.SubmitBody
		err := decodeSlowly(theBody, []byte(body), &want)
		var p *messages.Problem
		if err == nil {
			p = want.Check()
		} else {
			p = toProblem(err)
		}
		w := ask(t, server, "POST", executionsPath, body, "Content-Type", "application/json")
		if p == nil {
			require.Equal(t, 201, w.Code, "%q: %s", body, w.Body)
			continue
		}
		require.Equal(t, StatusOf(p), w.Code, "%q", body)
		text, err := json.Marshal(form.ErrorBody{Error: form.ErrorView{Code: string(p.Code), Message: p.Message, Details: p.Details}})
		require.NoError(t, err)
		require.Equal(t, string(text)+"\n", w.Body.String(), "%q", body)
	}
}

func FuzzQuick(f *testing.F) {
	for _, body := range append(append([]string{}, plainBodies...), otherBodies...) {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) { sameAsSlowly(t, body) })
}

func BenchmarkDecode(b *testing.B) {
	for name, body := range map[string]string{"small": `{"action_ref":"core.noop"}`, "one": `{"action_ref":"core.noop","parameters":{"message":"hi","n":12}}`, "large": sized(64 << 10)} {
		b.Run(name+"/quick", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var v form.SubmitBody
				_ = quick([]byte(body), &v)
			}
		})
		b.Run(name+"/slow", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var v form.SubmitBody
				_ = decodeSlowly(theBody, []byte(body), &v)
			}
		})
	}
}
