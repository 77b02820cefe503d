package pack

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestSchemasWhoseChecksCouldNotEndAreRefused. The library accepts each of them. With the first two, it needed hours
// and gigabytes for a body of 300 bytes.
func TestSchemasWhoseChecksCouldNotEndAreRefused(t *testing.T) {
	t.Parallel()
	const ways = "leads back to itself in two ways"
	const circle = "leads back to itself for the same value"
	for _, c := range []struct{ schema, want string }{
		{`{"properties":{"n":{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}}}`, ways},
		{`{"$ref":"#/$defs/t","$defs":{"t":{"anyOf":[
			{"type":"object","properties":{"next":{"$ref":"#/$defs/t"},"a":{"type":"integer"}}},
			{"type":"object","properties":{"next":{"$ref":"#/$defs/t"},"b":{"type":"integer"}}}]}}}`, ways},
		{`{"anyOf":[{"$ref":"#"},{"type":"object"}]}`, circle},
		{`{"$ref":"#"}`, circle},
		{`{"if":{"required":["a"]},"then":{"$ref":"#"}}`, circle},
		{`{"not":{"allOf":[{"$ref":"#"}]}}`, circle},
		{`{"properties":{"a":{"items":{"$ref":"#/properties/a"},"contains":{"$ref":"#/properties/a"}}}}`, ways},
		{`{"properties":{"a":{"$ref":"#"}},"patternProperties":{"^a":{"$ref":"#"}}}`, ways},
		{`{"patternProperties":{"^a":{"$ref":"#"},"b$":{"$ref":"#"}}}`, ways},
		{`{"allOf":[{"additionalProperties":{"$ref":"#"}},{"properties":{"a":{"$ref":"#"}}}]}`, ways},
		// The constant distinguishes nothing while the property may be missing.
		{strings.ReplaceAll(expressions, `"required":["op","args"],`, ""), ways},
		// A diamond: two ways to one schema.
		{`{"allOf":[{"$ref":"#/$defs/b"},{"$ref":"#/$defs/c"}],"$defs":{"b":{"$ref":"#/$defs/d"},"c":{"$ref":"#/$defs/d"},
			"d":{"properties":{"a":{"$ref":"#"}}}}}`, ways},
		{`{"$id":"troupe:///x","$defs":{"n":{"$dynamicAnchor":"n"}},"$dynamicRef":"#n"}`, "$dynamicRef is taken only"},
		{`{"properties":{"a":{"$ref":"https://json-schema.org/draft/2020-12/schema"}}}`, "$dynamicRef is taken only"},
		{`{"properties":{"a":{"$ref":"http://json-schema.org/draft-07/schema"}}}`, "$schema must be"},
		{`{"properties":{"a":{"pattern":"(((a{100}){10}){10}"}}}`, "not valid regex"},
		{`{"properties":{"a":{"pattern":"(((a|b|c){10}){10}){10}x{900}[a-z]{900}((a|b){30}){30}((a|b){30}){30}"}}}`, "the pattern is too large"},
		{`{"properties":{"a":{"maximum":1e999999}}}`, "out of range"},
		{chain(200), "one behind the other"},
	} {
		_, err := compile([]byte(c.schema))
		require.ErrorContains(t, err, c.want, "%s", c.schema)
	}
}

func chain(levels int) string {
	return strings.Repeat(`{"not":`, levels) + `true` + strings.Repeat("}", levels)
}

// TestOrdinaryRecursionIsTaken: schemas of trees, of lists, and of unions that a constant or a type distinguishes.
func TestOrdinaryRecursionIsTaken(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		expressions,
		`{"properties":{"children":{"type":"array","items":{"$ref":"#"}}},"additionalProperties":{"$ref":"#"}}`,
		`{"properties":{"left":{"$ref":"#"},"right":{"$ref":"#"}}}`,
		`{"properties":{"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}}}`,
		`{"properties":{"v":{"$ref":"#/$defs/any"}},"$defs":{"any":{"anyOf":[{"type":["string","number","boolean","null"]},
			{"type":"array","items":{"$ref":"#/$defs/any"}},{"type":"object","additionalProperties":{"$ref":"#/$defs/any"}}]}}}`,
		`{"patternProperties":{"^x-":{"$ref":"#"},"^y-":{"$ref":"#"}},"additionalProperties":{"$ref":"#"}}`,
		`{"propertyNames":{"$ref":"#"}}`,
		`{"oneOf":[{"required":["and"],"properties":{"and":{"items":{"$ref":"#"}}}},{"required":["or"],"properties":{"or":{"items":{"$ref":"#"}}}}]}`,
		// Unions by conditions: the common properties are required outside.
		`{"required":["kind"],"properties":{"kind":{"enum":["a","b"]}},"allOf":[
			{"if":{"properties":{"kind":{"const":"a"}}},"then":{"properties":{"sub":{"$ref":"#"}}}},
			{"if":{"properties":{"kind":{"const":"b"}}},"then":{"properties":{"sub":{"$ref":"#"}}}}]}`,
		`{"if":{"required":["a"]},"then":{"properties":{"x":{"$ref":"#"}}},"else":{"properties":{"x":{"$ref":"#"}}}}`,
		// Branches by reference, with the constant in the part that both share.
		`{"oneOf":[{"$ref":"#/$defs/p"},{"$ref":"#/$defs/q"}],"$defs":{
			"p":{"allOf":[{"$ref":"#/$defs/isP"}],"properties":{"sub":{"$ref":"#"}}},
			"q":{"required":["k"],"properties":{"k":{"const":"q"},"sub":{"$ref":"#"}}},
			"isP":{"required":["k"],"properties":{"k":{"const":"p"}}}}}`,
		`{"prefixItems":[{"$ref":"#"},{"$ref":"#"}],"items":{"$ref":"#"}}`,
		// Distinguished by whole numbers, and by required properties where no other property is allowed.
		strings.NewReplacer(`"and"`, "1", `"or"`, "2").Replace(expressions),
		`{"oneOf":[{"required":["all"],"properties":{"all":{"items":{"$ref":"#"}},"then":{"$ref":"#"}},"additionalProperties":false},
			{"required":["any"],"properties":{"any":{"items":{"$ref":"#"}},"then":{"$ref":"#"}},"additionalProperties":false}]}`,
		schemaOfSchemas,
	} {
		_, err := compile([]byte(schema))
		require.NoError(t, err, "%s", schema)
	}
}

// A property may have the name $id, and an example may contain one. Neither is the keyword.
func TestWhatNamesItself(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]bool{
		`{"$id":"troupe:///x"}`:                             true,
		`{"properties":{"a":{"$id":"troupe:///x"}}}`:        true,
		`{"anyOf":[{"$id":"troupe:///x"}]}`:                 true,
		`{"properties":{"properties":{"$id":"x"}}}`:         true,
		`{"properties":{"$id":{"type":"string"}}}`:          false,
		`{"$defs":{"$id":{"type":"string"}}}`:               false,
		`{"const":{"$id":"x"},"default":{"$id":"x"}}`:       false,
		`{"enum":[{"$id":"x"}],"examples":[{"$id":"x"}]}`:   false,
		`{"required":["$id"],"additionalProperties":false}`: false,
	} {
		var v any
		require.NoError(t, json.Unmarshal([]byte(schema), &v))
		require.Equal(t, want, namesItself(v), schema)
	}
	_, err := compile([]byte(`{"properties":{"$id":{"type":"string"},"n":{"$dynamicRef":"#n"}},"$defs":{"n":{"$dynamicAnchor":"n"}}}`))
	require.NoError(t, err)
}

// schemaOfSchemas is the part of draft 7's schema of schemas that has references.
const schemaOfSchemas = `{"definitions":{"schemaArray":{"type":"array","minItems":1,"items":{"$ref":"#"}},
	"stringArray":{"type":"array","items":{"type":"string"},"uniqueItems":true,"default":[]}},"type":["object","boolean"],
	"properties":{"$id":{"type":"string"},"additionalItems":{"$ref":"#"},"items":{"anyOf":[{"$ref":"#"},{"$ref":"#/definitions/schemaArray"}],"default":true},
	"contains":{"$ref":"#"},"required":{"$ref":"#/definitions/stringArray"},"additionalProperties":{"$ref":"#"},
	"definitions":{"type":"object","additionalProperties":{"$ref":"#"},"default":{}},"properties":{"type":"object","additionalProperties":{"$ref":"#"}},
	"patternProperties":{"type":"object","additionalProperties":{"$ref":"#"},"propertyNames":{"format":"regex"}},
	"dependencies":{"type":"object","additionalProperties":{"anyOf":[{"$ref":"#"},{"$ref":"#/definitions/stringArray"}]}},
	"propertyNames":{"$ref":"#"},"if":{"$ref":"#"},"then":{"$ref":"#"},"else":{"$ref":"#"},"allOf":{"$ref":"#/definitions/schemaArray"},
	"anyOf":{"$ref":"#/definitions/schemaArray"},"oneOf":{"$ref":"#/definitions/schemaArray"},"not":{"$ref":"#"}},"default":true}`

// TestAUnionGoesOnInOneBranchOnly: a check of a distinguished union costs its length, and not two to the power of its
// depth.
func TestAUnionGoesOnInOneBranchOnly(t *testing.T) {
	t.Parallel()
	checked := checkerOf(t, expressions)
	steps := func(depth int) int64 {
		v := value(t, strings.Repeat(`{"op":"or","args":[`, depth)+`{"op":"none"}`+strings.Repeat(`]}`, depth))
		c := &check{checker: checked, ctx: t.Context(), left: stepsMax}
		require.False(t, c.eval(checked.root, v, nil))
		require.NoError(t, c.stop)
		require.NotEmpty(t, c.leaves)
		return stepsMax - c.left
	}
	require.Less(t, steps(40), 5*steps(10))
}

// anyTrees draws three schemas of trees that refer to each other, with branches that may be distinguished.
func anyTrees(t *rapid.T) string {
	ref := func() any {
		return map[string]any{"$ref": fmt.Sprintf("#/$defs/%d", rapid.IntRange(0, 2).Draw(t, "to"))}
	}
	branch := func() map[string]any {
		s := map[string]any{}
		properties := map[string]any{}
		for _, word := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "items", "other", "same", "pattern",
			"type", "kind", "required", "closed"}), 1, 5, rapid.ID).Draw(t, "words") {
			switch word {
			case "a", "b":
				properties[word] = ref()
			case "items":
				s["items"] = ref()
			case "other":
				s["additionalProperties"] = ref()
			case "same":
				s["allOf"] = []any{ref()}
			case "pattern":
				s["patternProperties"] = map[string]any{rapid.SampledFrom([]string{"^a", "^b", "."}).Draw(t, "pattern"): ref()}
			case "type":
				s["type"] = rapid.SampledFrom([]string{"object", "array"}).Draw(t, "type")
			case "kind":
				properties["k"] = map[string]any{"const": rapid.SampledFrom([]string{"p", "q"}).Draw(t, "kind")}
			case "required":
				s["required"] = []string{rapid.SampledFrom([]string{"k", "a", "b"}).Draw(t, "name")}
			case "closed":
				s["additionalProperties"] = false
			}
		}
		s["properties"] = properties
		return s
	}
	defs := map[string]any{}
	for i := range 3 {
		s := branch()
		switch word := rapid.SampledFrom([]string{"anyOf", "oneOf", "allOf", "if", ""}).Draw(t, "of"); word {
		case "":
		case "if":
			s["if"], s["then"], s["else"] = branch(), branch(), branch()
		default:
			s[word] = []any{branch(), branch()}
		}
		defs[fmt.Sprint(i)] = s
	}
	raw, err := json.Marshal(map[string]any{"$ref": "#/$defs/0", "$defs": defs})
	require.NoError(t, err)
	return string(raw)
}

// TestNoSchemaThatIsTakenGrowsWithTheDepth: with every accepted schema, the check of a deep value ends. With an
// ambiguous schema, each level, or each third one, would cost as much as all levels below it.
func TestNoSchemaThatIsTakenGrowsWithTheDepth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw := anyTrees(t)
		checked, err := compile([]byte(raw))
		if err != nil {
			require.ErrorContains(t, err, "leads back to itself")
			return
		}
		levels := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "ap", "bp", "aq", "item"}), 1, 3).Draw(t, "levels")
		_, err = checked.run(t.Context(), nested(levels, 72))
		require.NoError(t, err, "%s of %v", raw, levels)
		shallow := nested(levels, 4)
		wrong, err := checked.run(t.Context(), shallow)
		require.NoError(t, err)
		require.Equal(t, checked.root.Validate(shallow) == nil, len(wrong) == 0, "the library: %s of %v", raw, shallow)
	})
}

// nested returns a value of many levels: items, or properties that are named by a level's first letter and contain its
// kind.
func nested(levels []string, depth int) any {
	var v any = map[string]any{}
	for i := range depth {
		level := levels[i%len(levels)]
		if level == "item" {
			v = []any{v}
			continue
		}
		object := map[string]any{level[:1]: v}
		if len(level) > 1 {
			object["k"] = level[1:]
		}
		v = object
	}
	return v
}
