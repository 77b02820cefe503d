package pack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
)

func value(t require.TestingT, text string) any {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err)
	return v
}

func checkerOf(t require.TestingT, schema string) *checker {
	c, err := compile([]byte(schema))
	require.NoError(t, err, "%s", schema)
	return c
}

// verdicts are schemas with values that match and values that do not.
var verdicts = []struct {
	schema string
	good   []string
	bad    []string
}{
	{`{"type":"integer"}`, []string{`1`, `1.0`, `-3e2`}, []string{`1.5`, `"1"`, `null`, `1e-1`}},
	{`{"type":["number","null"]}`, []string{`1`, `1.5`, `null`}, []string{`true`, `[]`, `{}`}},
	{`{"const":{"a":[1,"x",null]}}`, []string{`{"a":[1.0,"x",null]}`}, []string{`{"a":[1,"x"]}`, `{"a":[1,"x",false]}`, `1`}},
	{`{"enum":["a",1,true,[1]]}`, []string{`"a"`, `1.0`, `true`, `[1]`}, []string{`"b"`, `2`, `false`, `[2]`, `{}`}},
	{`{"minLength":2,"maxLength":3,"pattern":"^a"}`, []string{`"aé"`, `"abc"`, `7`}, []string{`"a"`, `"abcd"`, `"bcd"`}},
	{`{"minimum":1,"exclusiveMaximum":3,"multipleOf":0.5}`, []string{`1`, `2.5`}, []string{`0.5`, `3`, `1.2`}},
	{`{"maximum":1,"exclusiveMinimum":0}`, []string{`1`, `0.1`}, []string{`0`, `2`}},
	{`{"required":["a"],"minProperties":1,"maxProperties":2}`, []string{`{"a":1}`, `{"a":1,"b":2}`}, []string{`{}`, `{"b":1}`, `{"a":1,"b":2,"c":3}`}},
	{`{"properties":{"a":{"type":"integer"}},"patternProperties":{"^x":{"type":"string"}},"additionalProperties":false}`,
		[]string{`{"a":1,"x1":""}`}, []string{`{"a":""}`, `{"x":1}`, `{"b":1}`}},
	{`{"additionalProperties":{"type":"integer"},"propertyNames":{"maxLength":2}}`, []string{`{"ab":1}`}, []string{`{"a":""}`, `{"abc":1}`}},
	{`{"dependentRequired":{"a":["b"]},"dependentSchemas":{"c":{"required":["d"]}}}`, []string{`{"a":1,"b":1}`, `{"c":1,"d":1}`, `{}`}, []string{`{"a":1}`, `{"c":1}`}},
	{`{"prefixItems":[{"type":"integer"}],"items":{"type":"string"},"minItems":1,"maxItems":3}`, []string{`[1]`, `[1,"a","b"]`}, []string{`[]`, `["a"]`, `[1,1]`, `[1,"a","b","c"]`}},
	{`{"uniqueItems":true}`, []string{`[1,2,"1",[1],{"a":1}]`, `[true,1]`}, []string{`[1,1.0]`, `[{"a":1,"b":2},{"b":2,"a":1}]`, `[[],[]]`, `[0,-0]`}},
	{`{"contains":{"type":"integer"},"minContains":2,"maxContains":3}`, []string{`[1,2]`, `[1,2,3,"a"]`}, []string{`[1]`, `[1,2,3,4]`}},
	{`{"contains":{"type":"integer"}}`, []string{`["a",1]`}, []string{`["a"]`, `[]`}},
	{`{"not":{"type":"integer"}}`, []string{`"a"`}, []string{`1`}},
	{`{"allOf":[{"minimum":1},{"maximum":2}]}`, []string{`1`}, []string{`0`, `3`}},
	{`{"anyOf":[{"type":"integer"},{"type":"string","minLength":2}]}`, []string{`1`, `"ab"`}, []string{`"a"`, `null`}},
	{`{"oneOf":[{"minimum":1},{"maximum":5}]}`, []string{`0`, `6`}, []string{`3`}},
	{`{"oneOf":[{"type":"integer"},{"type":"string"}]}`, []string{`0`}, []string{`null`}},
	{`{"if":{"required":["a"]},"then":{"required":["b"]},"else":{"required":["c"]}}`, []string{`{"a":1,"b":1}`, `{"c":1}`}, []string{`{"a":1}`, `{}`}},
	{`{"allOf":[{"properties":{"a":true}}],"unevaluatedProperties":false}`, []string{`{"a":1}`}, []string{`{"b":1}`}},
	{`{"anyOf":[{"required":["a"],"properties":{"a":true}},{"properties":{"b":true}}],"unevaluatedProperties":false}`, []string{`{"a":1,"b":1}`, `{"b":1}`}, []string{`{"c":1}`}},
	{`{"allOf":[{"prefixItems":[true]}],"unevaluatedItems":{"type":"string"}}`, []string{`[1,"a"]`}, []string{`[1,2]`}},
	{`{"contains":{"type":"integer"},"unevaluatedItems":false}`, []string{`[1,2]`}, []string{`[1,"a"]`}},
	{`{"$defs":{"n":{"properties":{"next":{"$ref":"#/$defs/n"},"v":{"type":"integer"}},"additionalProperties":false}},"$ref":"#/$defs/n"}`,
		[]string{`{"next":{"next":{"v":1}}}`}, []string{`{"next":{"next":{"v":""}}}`, `{"next":{"x":1}}`}},
	{`{"$defs":{"n":{"$dynamicAnchor":"n","properties":{"next":{"$dynamicRef":"#n"}},"additionalProperties":false}},"$ref":"#/$defs/n"}`,
		[]string{`{"next":{"next":{}}}`}, []string{`{"next":{"x":1}}`}},
	{`{"properties":{"a":false,"b":true}}`, []string{`{"b":1}`}, []string{`{"a":1}`}},
	{`{"dependencies":{"a":["b"],"c":{"required":["d"]}}}`, []string{`{"a":1,"b":2}`, `{"c":1,"d":1}`}, []string{`{"a":1}`, `{"c":1}`}},
	{expressions, []string{`{"op":"var","name":"x"}`, `{"op":"and","args":[{"op":"or","args":[{"op":"var","name":"y"}]}]}`},
		[]string{`{"op":"and","args":[{"op":"xor","args":[]}]}`, `{"op":"var"}`, `{}`}},
}

// expressions refers to itself in two branches, which a constant distinguishes.
const expressions = `{"$ref":"#/$defs/e","$defs":{"e":{"oneOf":[
	{"type":"object","required":["op","args"],"properties":{"op":{"const":"and"},"args":{"type":"array","items":{"$ref":"#/$defs/e"}}}},
	{"type":"object","required":["op","args"],"properties":{"op":{"const":"or"},"args":{"type":"array","items":{"$ref":"#/$defs/e"}}}},
	{"type":"object","required":["op","name"],"properties":{"op":{"const":"var"},"name":{"type":"string"}}}]}}}`

// TestCheckAgreesWithTheLibrary: the bounded check and the library give the same verdict on each value.
func TestCheckAgreesWithTheLibrary(t *testing.T) {
	t.Parallel()
	for _, c := range verdicts {
		checked := checkerOf(t, c.schema)
		for i, list := range [][]string{c.good, c.bad} {
			for _, text := range list {
				v := value(t, text)
				wrong, err := checked.run(t.Context(), v)
				require.NoError(t, err)
				require.Equal(t, i == 0, len(wrong) == 0, "%s of %s: %v", c.schema, text, leafTexts(wrong, nil))
				require.Equal(t, i == 0, checked.root.Validate(v) == nil, "the library: %s of %s", c.schema, text)
			}
		}
	}
}

// anyRoot draws a schema whose parts may refer to each other.
func anyRoot(t *rapid.T) string {
	s := anySchema(t, 3)
	s["$defs"] = map[string]any{"a": anySchema(t, 3), "b": anySchema(t, 2)}
	raw, err := json.Marshal(s)
	require.NoError(t, err)
	return string(raw)
}

// anySchema draws a schema.
func anySchema(t *rapid.T, depth int) map[string]any {
	s := map[string]any{}
	inner := func(label string) any { return anySchema(t, depth-1) }
	words := []string{"$ref", "type", "const", "enum", "minLength", "minimum", "required", "minItems", "uniqueItems", "maxProperties"}
	if depth > 0 {
		words = append(words, "properties", "patternProperties", "additionalProperties", "propertyNames", "items", "prefixItems",
			"contains", "not", "allOf", "anyOf", "oneOf", "if", "unevaluatedProperties", "unevaluatedItems", "dependentSchemas")
	}
	for _, word := range rapid.SliceOfNDistinct(rapid.SampledFrom(words), 0, 3, rapid.ID).Draw(t, "words") {
		switch word {
		case "$ref":
			s[word] = rapid.SampledFrom([]string{"#", "#/$defs/a", "#/$defs/a", "#/$defs/b"}).Draw(t, word)
		case "type":
			s[word] = rapid.SampledFrom([]string{"null", "boolean", "integer", "number", "string", "array", "object"}).Draw(t, word)
		case "const":
			s[word] = anyValue(t, 1)
		case "enum":
			s[word] = []any{anyValue(t, 1), anyValue(t, 0)}
		case "minLength", "minimum", "minItems", "maxProperties":
			s[word] = rapid.IntRange(0, 2).Draw(t, word)
		case "required":
			s[word] = []any{rapid.SampledFrom([]string{"a", "b"}).Draw(t, word)}
		case "uniqueItems":
			s[word] = true
		case "properties", "dependentSchemas":
			s[word] = map[string]any{"a": inner(word), "b": rapid.Bool().Draw(t, word)}
		case "patternProperties":
			s[word] = map[string]any{"^[ab]": inner(word)}
		case "prefixItems", "allOf", "anyOf", "oneOf":
			s[word] = []any{inner(word), inner(word)}
		case "if":
			s["if"], s["then"], s["else"] = inner("if"), inner("then"), inner("else")
		default:
			s[word] = inner(word)
		}
	}
	return s
}

func anyValue(t *rapid.T, depth int) any {
	kinds := 4
	if depth > 0 {
		kinds = 6
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return json.Number(rapid.SampledFrom([]string{"0", "1", "1.0", "2", "1.5", "-0"}).Draw(t, "number"))
	case 3:
		return rapid.SampledFrom([]string{"", "a", "ab", "abc"}).Draw(t, "text")
	case 4:
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			list = append(list, anyValue(t, depth-1))
		}
		return list
	}
	object := map[string]any{}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3, rapid.ID).Draw(t, "names") {
		object[name] = anyValue(t, depth-1)
	}
	return object
}

func TestCheckAgreesWithTheLibraryOnAnySchema(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw := anyRoot(t)
		checked, err := compile([]byte(raw))
		if err != nil {
			require.ErrorContains(t, err, "leads back to itself")
			return
		}
		for range 3 {
			v := anyValue(t, 3)
			wrong, err := checked.run(context.Background(), v)
			require.NoError(t, err)
			require.Equal(t, checked.root.Validate(v) == nil, len(wrong) == 0, "%s of %v: %v", raw, v, leafTexts(wrong, nil))
		}
	})
}

// TestChecksEndByTheirSteps: a check that would take too long ends by its count of steps. The load of the machine does
// not change that count.
func TestChecksEndByTheirSteps(t *testing.T) {
	t.Parallel()
	many := strings.Repeat(`{"a":"x"},`, 1000)
	for name, c := range map[string]struct{ schema, params string }{
		// No schema here is ambiguous, but each value is compared with each of many others.
		"values": {fmt.Sprintf(`{"properties":{"l":{"items":{"enum":[%s{"a":"x"}]}}}}`, strings.Repeat(`{"b":1},`, 5000)),
			`{"l":[` + strings.TrimSuffix(many, ",") + `]}`},
		"pattern": {`{"properties":{"l":{"pattern":"(a|aa|aaa|b{9}){1,50}c"}}}`, `{"l":"` + strings.Repeat("a", 1_000_000) + `"}`},
		// Each level of this schema applies twice as many schemas as the one before.
		"fan": {fan(40), `{"a":1}`},
	} {
		checked := checkerOf(t, c.schema)
		checked.steps = stepsMax / 100 // a hundredth is enough for the test
		_, err := checked.run(t.Context(), value(t, c.params))
		require.ErrorIs(t, err, errSteps{}, name)
	}
	set, err := Of(messages.Action{Ref: "p.a", Parameters: json.RawMessage(fan(40))})
	require.NoError(t, err)
	set.schemas["p.a"].steps = stepsMax / 100
	err = set.Validate(t.Context(), "p.a", nil)
	var bad *ParameterError
	require.ErrorAs(t, err, &bad)
	require.ErrorContains(t, err, "too many steps")
}

func fan(levels int) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
	for i := range levels {
		fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"d%d":{}}}`, levels)
	return b.String()
}

func TestAChecksContextEndsIt(t *testing.T) {
	t.Parallel()
	checked := checkerOf(t, fan(40))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := checked.run(ctx, value(t, `{}`))
	require.ErrorIs(t, err, context.Canceled)
}

// TestNothingIsMadeThatIsNotTold counts the allocations of a check; the machine's load does not change them. A list
// with only wrong items costs no more than its first items.
func TestNothingIsMadeThatIsNotTold(t *testing.T) {
	checked := checkerOf(t, `{"properties":{"l":{"items":{"anyOf":[{"type":"integer"},{"pattern":"^b"},{"maxLength":3}]}}}}`)
	cost := func(items int) uint64 {
		v := map[string]any{"l": make([]any, items)}
		for i := range items {
			v["l"].([]any)[i] = "aaaa"
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		wrong, err := checked.run(t.Context(), v)
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		require.Len(t, wrong, leavesMax)
		return after.Mallocs - before.Mallocs
	}
	few := cost(100)
	require.Less(t, cost(200_000), 2*few+1000)
}

// TestChecksWaitForTheirTurn: a check waits while the maximum number runs, and stops waiting when its context ends.
func TestChecksWaitForTheirTurn(t *testing.T) {
	set, err := Of(messages.Action{Ref: "p.a", Parameters: json.RawMessage(`{"properties":{"n":{"type":"integer"}}}`)})
	require.NoError(t, err)
	for range checksMax {
		require.NoError(t, enter(t.Context()))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, set.Validate(ctx, "p.a", nil), context.Canceled)
	done := make(chan error)
	go func() { done <- set.Validate(t.Context(), "p.a", nil) }()
	leave()
	require.NoError(t, <-done)
	for range checksMax - 1 {
		leave()
	}
	require.Empty(t, checks)
}

func TestTheFirstWrongFieldsAreTold(t *testing.T) {
	t.Parallel()
	set, err := Of(messages.Action{Ref: "p.a", Parameters: json.RawMessage(`{"additionalProperties":{"type":"integer"}}`)})
	require.NoError(t, err)
	var params bytes.Buffer
	for i := range 500 {
		fmt.Fprintf(&params, `,"k%03d":"x"`, i)
	}
	var bad *ParameterError
	require.ErrorAs(t, set.Validate(t.Context(), "p.a", json.RawMessage("{"+params.String()[1:]+"}")), &bad)
	require.Len(t, bad.Problems, fieldsMax+1)
	require.Equal(t, "/k000: got string, want integer", bad.Problems[0])
	require.Equal(t, "and more", bad.Problems[fieldsMax])
}
