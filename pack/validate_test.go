package pack_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/pack"
)

const strictSchema = `
parameters:
  type: object
  required: [text, size]
  additionalProperties: false
  properties:
    text: {type: string, minLength: 2, pattern: "^[a-z]+$"}
    size: {$ref: "#/$defs/size"}
    tags: {type: array, uniqueItems: true, items: {enum: [red, green]}}
    when: {anyOf: [{type: integer}, {const: now}]}
    never: false
    api_key: {type: string, pattern: "^k-"}
  $defs: {size: {type: integer, minimum: 1, multipleOf: 2}}
secrets: [api_key]
`

func strictSet(t testing.TB) *pack.Set {
	set, err := pack.Load([]string{write(t, files{
		"pack.yaml":        goodPack,
		"actions/a.yaml":   "name: a\nruntime: go\n" + strictSchema,
		"actions/any.yaml": "name: any\nruntime: go\n",
	})}, options())
	require.NoError(t, err)
	return set
}

func TestValidateNamesTheField(t *testing.T) {
	t.Parallel()
	set := strictSet(t)
	for _, c := range []struct{ params, want string }{
		{``, "parameters: /size: missing required property; /text: missing required property"},
		{`{}`, "parameters: /size: missing required property; /text: missing required property"},
		{`{"text":"ab","size":3}`, "parameters: /size: multipleOf: got 3, want 2"},
		{`{"text":"ab","size":"2"}`, "parameters: /size: got string, want integer"},
		{`{"text":"a","size":2}`, "parameters: /text: minLength: got 1, want 2"},
		{`{"text":"AB","size":2}`, "parameters: /text: 'AB' does not match pattern '^[a-z]+$'"},
		{`{"text":"ab","size":2,"extra":1,"<script>":2}`, "parameters: /<script>: unknown property; /extra: unknown property"},
		{`{"text":"ab","size":2,"a/b~\u0000":1}`, "parameters: /a~1b~0\uFFFD: unknown property"},
		{`{"text":"ab","size":2,"tags":["red","blue"]}`, "parameters: /tags/1: value must be one of 'red', 'green'"},
		{`{"text":"ab","size":2,"tags":["red","red"]}`, "parameters: /tags: items at 0 and 1 are equal"},
		{`{"text":"ab","size":2,"when":"later"}`, "parameters: /when: got string, want integer; /when: value must be 'now'"},
		{`{"text":"ab","size":2,"never":1}`, "parameters: /never: is not allowed"},
		{`{"text":"ab","size":2,"api_key":"hunter2"}`, "parameters: /api_key: is not valid (the value is secret)"},
		{`{"text":"ab","size":1e999999999}`, "parameters: /size: the number is out of range: its exponent may be -400 to 400"},
		{`{"text":"ab","size":1e-999999999}`, "parameters: /size: the number is out of range: its exponent may be -400 to 400"},
		{`{"text":"ab","size":1e99999999999999999999}`, "parameters: /size: the number is out of range: its exponent may be -400 to 400"},
		{`[]`, "parameters: must be a JSON object"},
		{`null`, "parameters: must be a JSON object"},
		{` "text"`, "parameters: must be a JSON object"},
		{`{"text":`, "parameters: /text ends in the middle of its JSON"},
		{`{} {}`, "parameters: the value goes on after its JSON value, at byte 3"},
		{"{\"text\":\"\xff\"}", "parameters: /text is not UTF-8"},
		{strings.Repeat("[", 10_000), "parameters: " + strings.Repeat("/0", 100) + " is nested deeper than 100 levels"},
	} {
		err := set.Validate(t.Context(), "core.a", json.RawMessage(c.params))
		var bad *pack.ParameterError
		require.ErrorAs(t, err, &bad, "%.60s", c.params)
		require.EqualError(t, err, c.want)
		code := messages.CodeInvalidParameters
		if messages.CheckJSON([]byte(c.params)) != nil && c.params != "" {
			code = messages.CodeInvalidJSON
		}
		require.Equal(t, code, bad.Code)
	}
	require.NoError(t, set.Validate(t.Context(), "core.a", json.RawMessage(`{"text":"ab","size":4,"tags":["red"],"when":"now","api_key":"k-1"}`)))
	require.NoError(t, set.Validate(t.Context(), "core.any", nil))
	require.ErrorIs(t, set.Validate(t.Context(), "core.none\x00", nil), pack.ErrUnknownAction)
}

func TestParametersAtTheLimit(t *testing.T) {
	t.Parallel()
	set := strictSet(t)
	of := func(size int) json.RawMessage {
		return json.RawMessage(`{"x":"` + strings.Repeat("y", size-len(`{"x":""}`)) + `"}`)
	}
	for _, size := range []int{messages.ParametersMax - 1, messages.ParametersMax} {
		require.NoError(t, set.Validate(t.Context(), "core.any", of(size)))
	}
	err := set.Validate(t.Context(), "core.any", of(messages.ParametersMax+1))
	var bad *pack.ParameterError
	require.ErrorAs(t, err, &bad)
	require.Equal(t, messages.CodeTooLarge, bad.Code)
	require.EqualError(t, err, "parameters: 1048577 bytes, at most 1048576 are allowed")
}

func TestProblemsOfParametersAreBounded(t *testing.T) {
	t.Parallel()
	var params strings.Builder
	params.WriteString(`{"text":"` + strings.Repeat("A", 100_000) + `","size":2`)
	for i := range 500 {
		fmt.Fprintf(&params, `,"%s%d":1`, strings.Repeat("x", 1000), i)
	}
	params.WriteString("}")
	err := strictSet(t).Validate(t.Context(), "core.a", json.RawMessage(params.String()))
	require.Error(t, err)
	require.Less(t, len(err.Error()), 5000)
}

// TestHostileParametersEndEarly: reading stops at the first level too deep, and a number that is too long is refused by
// its length, before any arithmetic.
func TestHostileParametersEndEarly(t *testing.T) {
	t.Parallel()
	set := strictSet(t)
	for _, c := range []struct{ params, want string }{
		{strings.Repeat("[", 1<<20), "parameters: " + strings.Repeat("/0", 100) + " is nested deeper than 100 levels"},
		{strings.Repeat(`{"":`, 1<<18), "parameters: " + strings.Repeat("/", 100) + " is nested deeper than 100 levels"},
		{`{"size":` + strings.Repeat("9", 1<<19) + `}`, "parameters: /size is a number of 524288 digits"},
	} {
		err := set.Validate(t.Context(), "core.a", json.RawMessage(c.params))
		require.Error(t, err)
		require.Equal(t, c.want, err.Error()[:min(len(c.want), len(err.Error()))])
	}
}

// TestHostileListsCostWhatTheirLengthDoes counts work by its allocations, which the machine's load does not change:
// every element that is checked, compared as a number or reported allocates. It is not parallel, so that no other
// allocations are counted.
func TestHostileListsCostWhatTheirLengthDoes(t *testing.T) {
	set := strictSet(t)
	const short, times = 4_000, 8
	for _, element := range []string{`1e300`, `"red"`, `"a"`, `{}`} {
		cost := func(n int) (objects, size uint64) {
			list := strings.TrimSuffix(strings.Repeat(element+",", n), ",")
			params := json.RawMessage(`{"text":"ab","size":2,"tags":[` + list + `]}`)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := set.Validate(t.Context(), "core.a", params)
			runtime.ReadMemStats(&after)
			var bad *pack.ParameterError
			require.ErrorAs(t, err, &bad)
			require.Equal(t, messages.CodeInvalidParameters, bad.Code)
			return after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc
		}
		objects, size := cost(short)
		more, larger := cost(times * short)
		// Linear work costs 8 times as much, quadratic work 64 times.
		require.Less(t, more, 2*times*objects, "objects for %s", element)
		require.Less(t, larger, 2*times*size, "bytes for %s", element)
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	action := &messages.Action{Secrets: []string{"api_key", "token"}}
	for _, c := range []struct{ params, want string }{
		{`{"api_key":"hunter2","n":12345678901234567890.10}`, `{"api_key":"[redacted]","n":12345678901234567890.10}`},
		{`{"deep":[{"token":{"a":1}}],"text":"token"}`, `{"deep":[{"token":"[redacted]"}],"text":"token"}`},
		{`{"api_key":"a","api_key":"b"}`, `"[redacted]"`},
		{`{"api_key":"hunter2"`, `"[redacted]"`},
		{strings.Repeat("[", 200), `"[redacted]"`},
		{``, ``},
	} {
		require.Equal(t, c.want, string(pack.Redact(action, json.RawMessage(c.params))))
	}
	require.Equal(t, `{"api_key":1`, string(pack.Redact(&messages.Action{}, json.RawMessage(`{"api_key":1`))))
}

func TestSecretValues(t *testing.T) {
	t.Parallel()
	action := &messages.Action{Secrets: []string{"api_key", "token"}}
	for params, want := range map[string][]string{
		`{"api_key":"hunter2","n":1,"deep":[{"token":{"a":["x",12345678901234567890.10,true,null]}}]}`: {"hunter2", "x", "12345678901234567890.10"},
		`{"text":"token"}`: nil, `{"api_key":`: nil, ``: nil,
	} {
		require.Equal(t, want, pack.SecretValues(action, json.RawMessage(params)))
	}
	require.Nil(t, pack.SecretValues(&messages.Action{}, json.RawMessage(`{"api_key":"x"}`)))
}

// TestNoSecretSurvives: the value of a secret appears neither in shown parameters nor in Validate's errors, whatever
// its place.
func TestNoSecretSurvives(t *testing.T) {
	t.Parallel()
	set := strictSet(t)
	action, _ := set.Action("core.a")
	rapid.Check(t, func(t *rapid.T) {
		secret := "S3CRET" + rapid.StringMatching(`[a-z]{0,8}`).Draw(t, "secret")
		var value any = secret
		for range rapid.IntRange(0, 4).Draw(t, "depth") {
			switch rapid.IntRange(0, 2).Draw(t, "shape") {
			case 0:
				value = []any{value}
			case 1:
				value = map[string]any{"inner": value}
			case 2:
				value = map[string]any{"api_key": value, "text": "x"}
			}
		}
		raw, err := json.Marshal(map[string]any{"api_key": value, "size": 2})
		require.NoError(t, err)
		require.NotContains(t, string(pack.Redact(action, raw)), "S3CRET")
		require.NotContains(t, set.Validate(t.Context(), "core.a", raw).Error(), "S3CRET")
	})
}

func FuzzValidate(f *testing.F) {
	f.Add([]byte(`{"text":"ab","size":4,"tags":["red"],"when":"now","api_key":"k-1"}`))
	f.Add([]byte(`{"text":"ab","size":1e400,"tags":[1,1.0]}`))
	set := strictSet(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := set.Validate(t.Context(), "core.a", raw); err != nil {
			require.LessOrEqual(t, len(err.Error()), 21*500)
		}
	})
}

func BenchmarkValidate(b *testing.B) {
	set := strictSet(b)
	params := json.RawMessage(`{"text":"ab","size":4,"tags":["red"],"when":"now"}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := set.Validate(b.Context(), "core.a", params); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValidateAnyObject(b *testing.B) {
	set, err := pack.Load([]string{write(b, files{
		"pack.yaml": goodPack, "actions/a.yaml": "name: a\nruntime: go\nparameters: {type: object}\n",
	})}, options())
	require.NoError(b, err)
	params := json.RawMessage(`{"message":"hi","n":1}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := set.Validate(b.Context(), "core.a", params); err != nil {
			b.Fatal(err)
		}
	}
}
