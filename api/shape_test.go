package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
)

// Two readers of one body must see the same: a key stands once in its object, and a field's name is its own to the letter.
func TestAmbiguousKeysAreRefused(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	h := New(Config{Backend: b})
	many := func(last string) string {
		var keys strings.Builder
		for i := range 40 {
			fmt.Fprintf(&keys, `"k%d":%d,`, i, i)
		}
		return `{"action_ref":"a","parameters":{` + keys.String() + last + `:1}}`
	}
	for _, c := range []struct {
		body string
		code messages.Code
		text string
	}{
		{`{"action_ref":"a","action_ref":"b"}`, messages.CodeDuplicateField, `the body has the key "action_ref" twice in one object (byte 18)`},
		{`{"action_ref":"a","action_re\u0066":"b"}`, messages.CodeDuplicateField, `"action_ref" twice`},
		{`{"action_ref":"a","labels":{"x":"1","x":"2"}}`, messages.CodeDuplicateField, `"x" twice`},
		{`{"action_ref":"a","parameters":{"x":1,"y":{"x":1},"x":2}}`, messages.CodeDuplicateField, `"x" twice`},
		{`{"action_ref":"a","parameters":{"x":[{"a":1},{"a":1,"b":[],"a":2}]}}`, messages.CodeDuplicateField, `"a" twice`},
		{`{"action_ref":"a","parameters":{"\"":1,"\u0022":2}}`, messages.CodeDuplicateField, `"\"" twice`},
		{many(`"k39"`), messages.CodeDuplicateField, `"k39" twice`},
		{many(`"k3"`), messages.CodeDuplicateField, `"k3" twice`},
		{`{"Action_Ref":"a"}`, messages.CodeUnknownField, `unknown field "Action_Ref"; write it as "action_ref"`},
		{`{"action_ref":"a","ACTION_REF":"b"}`, messages.CodeUnknownField, `write it as "action_ref"`},
		{`{"action_ref":"a","wait_Seconds":0}`, messages.CodeUnknownField, `write it as "wait_seconds"`},
		{`{"action_ref":"a","CreatedBy":"root"}`, messages.CodeUnknownField, `unknown field "CreatedBy"`},
		{`{"action_ref":"a","Request":{}}`, messages.CodeUnknownField, `unknown field "Request"`},
	} {
		refused(t, ask(t, h, "POST", executionsPath, c.body), http.StatusBadRequest, c.code, c.text)
	}
	require.Empty(t, b.requests)
	for _, body := range []string{
		many(`"k40"`),
		`{"action_ref":"a","parameters":{"x":1,"X":2,"y":[{"x":1},{"x":1}],"z":{"x":"\"x\":1,{"}},"labels":{"x":"x","X":"x"}}`,
	} {
		submitted(t, h, body)
	}
}

func TestARetrysKeysAreJudgedToo(t *testing.T) {
	t.Parallel()
	h := New(Config{Backend: newBackend(t)})
	id := submitted(t, h, `{"action_ref":"a"}`).ID.String()
	refused(t, ask(t, h, "POST", executionsPath+"/"+id+"/retry", `{"Idempotency_Key":"k"}`), 400, messages.CodeUnknownField, `write it as "idempotency_key"`)
	refused(t, ask(t, h, "POST", executionsPath+"/"+id+"/retry", `{"idempotency_key":"k","idempotency_key":"l"}`), 400, messages.CodeDuplicateField, "twice")
}

// What the library writes has no key twice, so its shape is right; with one of its objects' keys repeated it is not.
func TestShapeOfWhatTheLibraryWrites(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Custom(func(t *rapid.T) any { return value(t, rapid.IntRange(0, 6).Draw(t, "depth")) }).Draw(t, "value")
		text, err := json.Marshal(map[string]any{"a": v, "b": v})
		require.NoError(t, err)
		var into map[string]any
		require.Nil(t, checkShape("it", text, &into))
		key, err := json.Marshal(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"))
		require.NoError(t, err)
		twice := string(text[:len(text)-1]) + "," + string(key) + ":0}"
		p := checkShape("it", []byte(twice), &into)
		require.NotNil(t, p, twice)
		require.Equal(t, messages.CodeDuplicateField, p.Code)
	})
}

// repeats is the plain way to find a key that stands twice in its object.
func repeats(t *testing.T, dec *json.Decoder) bool {
	token, err := dec.Token()
	require.NoError(t, err)
	open, _ := token.(json.Delim)
	twice, seen := false, map[any]bool{}
	for open != 0 && dec.More() {
		if open == '{' {
			key, err := dec.Token()
			require.NoError(t, err)
			twice = twice || seen[key]
			seen[key] = true
		}
		twice = repeats(t, dec) || twice
	}
	if open != 0 {
		_, err = dec.Token()
		require.NoError(t, err)
	}
	return twice
}

// FuzzShape: whatever the text, the check ends without a panic; of a text that is JSON it says what the plain way says.
func FuzzShape(f *testing.F) {
	for _, seed := range []string{`{"a":1,"a":2}`, `{"`, `}]`, `{"a\`, `[[[{"a":{}}]]]`, `"\`, `{"a":"\\","b":1}`, `{"a":{"a":[]},"b":"a"}`, `{"\ud800":1,"\ud801":2}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p := checkShape("it", text, &map[string]any{})
		if !utf8.Valid(text) || !json.Valid(text) || p != nil && p.Code == messages.CodeTooDeep {
			return
		}
		require.Equal(t, repeats(t, json.NewDecoder(bytes.NewReader(text))), p != nil)
	})
}
