package messages_test

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
)

func nested(depth int) string { return strings.Repeat(`[`, depth) + strings.Repeat(`]`, depth) }

func TestCheckJSON(t *testing.T) {
	t.Parallel()
	many := func(last string) string {
		var b strings.Builder
		for i := range 40 {
			b.WriteString(`"k` + strconv.Itoa(i) + `":0,`)
		}
		return `{` + b.String() + last + `:1}`
	}
	long := strings.Repeat("1", messages.JSONDigitsMax)
	for text, want := range map[string]string{
		`null`: "", ` {"a" : [ 1 , -0.0, 1e400, 0.1e-5, true,false,"\u00e9\ud83d\ude00é" ] } `: "", `{}`: "", `[]`: "", `""`: "", long: "",
		nested(messages.JSONDepthMax): "", many(`"k40"`): "", `{"a":{"x":1},"b":{"x":1}}`: "", `[{"a":1},{"a":1}]`: "",

		`{"a":[NaN]}`:                           "/a/0 is NaN, which JSON has no number for",
		`{"a/b~":{"c":-Infinity`:                "/a~1b~0/c is -Infinity, which JSON has no number for",
		`Infinity`:                              "the value is Infinity, which JSON has no number for",
		`{"a":` + long + `1}`:                   "/a is a number of 1001 digits, more than the 1000 that one may have; send it as a text",
		`[0.` + long + `]`:                      "/0 is a number of 1001 digits, more than the 1000 that one may have; send it as a text",
		`[1e` + long + `]`:                      "/0 is a number of 1001 digits, more than the 1000 that one may have; send it as a text",
		`{"a":1,"b":{"x":0},"a":2}`:             "/a is there twice in one object",
		`{"a":1,"\u0061":2}`:                    "/a is there twice in one object",
		many(`"k3"`):                            "/k3 is there twice in one object",
		many(`"k39"`):                           "/k39 is there twice in one object",
		`{"a":["\ud83d"]}`:                      "/a/0 has half of a surrogate pair, which is no character",
		`["\ude00\ud83d"]`:                      "/0 has half of a surrogate pair, which is no character",
		`["\ud83dx"]`:                           "/0 has half of a surrogate pair, which is no character",
		`["\ud83d\u0061"]`:                      "/0 has half of a surrogate pair, which is no character",
		"{\"a\":[\"\xff\"]}":                    "/a/0 is not UTF-8",
		"\xff":                                  "the value is not JSON at byte 0",
		nested(messages.JSONDepthMax + 1):       strings.Repeat("/0", messages.JSONDepthMax) + " is nested deeper than 100 levels",
		``:                                      "the value ends in the middle of its JSON",
		`{"a":`:                                 "/a ends in the middle of its JSON",
		`{"a":1} x`:                             "the value goes on after its JSON value, at byte 8",
		`{"a":01}`:                              "/a is not JSON at byte 7",
		`[1,]`:                                  "/1 is not JSON at byte 3",
		`{"a":1,}`:                              "the value is not JSON at byte 7",
		`{a:1}`:                                 "the value is not JSON at byte 1",
		`{"secret":hunter2}`:                    "/secret is not JSON at byte 10",
		`{"` + strings.Repeat("k", 100) + `":x`: "/" + strings.Repeat("k", 61) + "… is not JSON at byte 104",
		"{\"a\nb\":1}":                          "the value is not JSON at byte 3",
		`{"a\nb":x}`:                            "/a\uFFFDb is not JSON at byte 8",
	} {
		got := ""
		if p := messages.CheckJSON([]byte(text)); p != nil {
			got = p.Error()
		}
		require.Equal(t, want, got, "%.80s", text)
	}
	deep := messages.CheckJSON([]byte(strings.Repeat(`{"`+strings.Repeat("n", 60)+`":`, 101)))
	require.Less(t, len(deep.Path), 600)
	require.True(t, strings.HasSuffix(deep.Error(), "nnn is nested deeper than 100 levels"))
	require.Equal(t, "/parameters/a is NaN", (&messages.JSONProblem{Path: "/a", Reason: "is NaN"}).Under("parameters").Of("the body"))
}

func TestEncodeJSON(t *testing.T) {
	t.Parallel()
	loop := []any{nil}
	loop[0] = loop
	for want, v := range map[string]any{
		`{"a":1.50}`: json.RawMessage(`{"a":1.50}`), `"\ufffd"`: json.RawMessage(`"\ufffd"`), `"\\ufffd"`: `\ufffd`, "\"\uFFFD\"": "\uFFFD", `[1,"a"]`: []any{1, "a"}, `null`: nil,
	} {
		raw, err := messages.EncodeJSON(v)
		require.NoError(t, err)
		require.Equal(t, want, string(raw))
	}
	for want, v := range map[string]any{
		"a text in it is not UTF-8": map[string]any{"a": "x\xff"}, "the value is a chan int": make(chan int), "the value is NaN, which JSON has no number for": math.NaN(),
		"/a/0 is +Inf": map[string]any{"a": []any{math.Inf(1)}}, "/n/X is NaN": struct {
			N *struct{ X float64 } `json:"n"`
			y float64
		}{N: &struct{ X float64 }{math.NaN()}}, "is nested deeper than 100 levels": loop,
		"/a is NaN": json.RawMessage(`{"a":NaN}`), "/a is there twice": json.RawMessage(`{"a":1,"a":1}`), "/x/0 is a number of 1001 digits": map[string]any{"x": []any{json.Number(strings.Repeat("1", 1001))}},
	} {
		_, err := messages.EncodeJSON(v)
		require.ErrorContains(t, err, want)
	}
}

// What CheckJSON takes is what encoding/json takes, but for what it says more of.
func TestCheckJSONIsJSON(t *testing.T) {
	t.Parallel()
	pieces := []string{`{`, `}`, `[`, `]`, `,`, `:`, `"a"`, `"b"`, `"\u00e9"`, `"\`, `"`, `1`, `-`, `0`, `.5`, `e3`, `E+1`, `true`, `null`, `nul`, ` `, "\n", "\xff", "é", `\u12`, "\x01"}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 8).Draw(t, "text"), "")
		p := messages.CheckJSON([]byte(text))
		valid := json.Valid([]byte(text)) && utf8.ValidString(text)
		if p == nil {
			require.True(t, valid, "%q", text)
		} else if valid {
			require.Contains(t, p.Reason, "twice", "%q", text)
		}
	})
}

func TestTheDepthIsWhatTheParserNests(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Custom(func(t *rapid.T) any { return value(t, rapid.IntRange(0, 6).Draw(t, "depth")) }).Draw(t, "value")
		text, err := json.Marshal(v)
		require.NoError(t, err)
		depth := depthOf(v)
		require.Nil(t, messages.CheckJSONWithin(text, depth))
		if depth > 0 {
			require.Contains(t, messages.CheckJSONWithin(text, depth-1).Reason, "nested deeper")
		}
	})
}

func value(t *rapid.T, depth int) any {
	switch rapid.IntRange(0, 2).Draw(t, "kind") * min(depth, 1) {
	case 1:
		return []any{value(t, depth-1), rapid.String().Draw(t, "text")}
	case 2:
		return map[string]any{rapid.SampledFrom([]string{`"`, `\`, `{[`, "a"}).Draw(t, "key"): value(t, depth-1)}
	}
	return rapid.SampledFrom([]string{`"`, `\"`, `\\`, `[[[[`, `}}}`, ""}).Draw(t, "leaf")
}

func depthOf(v any) int {
	most := -1
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			most = max(most, depthOf(item))
		}
		return max(most, 0) + 1
	case map[string]any:
		for _, item := range v {
			most = max(most, depthOf(item))
		}
		return max(most, 0) + 1
	}
	return 0
}

func FuzzCheckJSON(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5e3,"\ud83d\ude00"]}`, `[NaN]`, `{"a":1,"a":2}`, "\xff", `["\ud83d"]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if messages.CheckJSON(text) == nil && (!json.Valid(text) || !utf8.Valid(text)) {
			t.Fatalf("%q is no JSON", text)
		}
	})
}

func BenchmarkCheckJSON(b *testing.B) {
	row := `{"id":9007199254740993,"name":"a text of some length, with an escape \n in it","list":[1,2,3,4.5],"ok":true}`
	text := []byte("[" + strings.Repeat(row+",", 1000) + row + "]")
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if messages.CheckJSON(text) != nil {
			b.Fatal("it is JSON")
		}
	}
}
