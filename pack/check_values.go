package pack

import (
	"encoding/json"
	"hash/maphash"
	"maps"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// One step pays for so many bytes read, or so many visited instructions of a pattern. Exact arithmetic on a number
// costs several steps.
const (
	bytesOfStep   = 64
	visitsOfStep  = 16
	stepsOfNumber = 8
)

// shownMax bounds the part of a value that a text shows, in bytes, and the number of values that a text names.
const (
	shownMax = 60
	namedMax = 100
)

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}

// typeBits returns a set of types in the library's form.
func typeBits(names ...string) jsonschema.Types {
	var types jsonschema.Types
	for _, name := range names {
		types.Add(name)
	}
	return types
}

var typeBitsOf = map[string]jsonschema.Types{
	"null": typeBits("null"), "boolean": typeBits("boolean"), "number": typeBits("number"), "integer": typeBits("integer"),
	"string": typeBits("string"), "array": typeBits("array"), "object": typeBits("object"),
}

// isOne checks type, const and enum. A value that fails here is not checked further.
func (c *check) isOne(s *jsonschema.Schema, v any) bool {
	if s.Types != nil && !s.Types.IsEmpty() {
		name := typeName(v)
		n, isNumber := v.(json.Number)
		whole := isNumber && *s.Types&typeBitsOf["integer"] != 0
		if *s.Types&typeBitsOf[name] == 0 && (!whole || !c.isWhole(n)) {
			return c.fail(&kind.Type{Got: name, Want: s.Types.ToStrings()})
		}
	}
	if s.Const != nil && !c.equal(v, *s.Const) {
		return c.fail(&kind.Const{Want: *s.Const})
	}
	if s.Enum != nil && !c.oneOfValues(s, v) {
		return c.fail(&kind.Enum{Want: s.Enum.Values[:min(len(s.Enum.Values), namedMax)]})
	}
	return true
}

func (c *check) oneOfValues(s *jsonschema.Schema, v any) bool {
	if text, ok := v.(string); ok {
		return c.enums[s][text]
	}
	return slices.ContainsFunc(s.Enum.Values, func(one any) bool { return c.equal(v, one) })
}

// assert checks the keywords that have no subschemas.
func (c *check) assert(s *jsonschema.Schema, v any) bool {
	switch v := v.(type) {
	case string:
		return c.assertString(s, v)
	case json.Number:
		return c.assertNumber(s, v)
	case []any:
		return c.assertArray(s, v)
	case map[string]any:
		return c.assertObject(s, v)
	}
	return true
}

func (c *check) assertString(s *jsonschema.Schema, text string) bool {
	ok := true
	if s.MinLength != nil || s.MaxLength != nil {
		c.charge(len(text) / bytesOfStep)
		length := utf8.RuneCountInString(text)
		if s.MinLength != nil && length < *s.MinLength {
			ok = c.fail(&kind.MinLength{Got: length, Want: *s.MinLength})
		}
		if s.MaxLength != nil && length > *s.MaxLength {
			ok = c.fail(&kind.MaxLength{Got: length, Want: *s.MaxLength})
		}
	}
	if s.Pattern != nil && !c.matches(s.Pattern, text) {
		ok = c.fail(&kind.Pattern{Got: shown(text), Want: s.Pattern.String()})
	}
	return ok
}

func shown(text string) string {
	if len(text) <= shownMax {
		return text
	}
	return strings.ToValidUTF8(text[:shownMax], "") + "…"
}

// matches reports whether the pattern is found in the text. Each visited instruction is charged, so a match stops when
// the steps or the context end.
func (c *check) matches(re jsonschema.Regexp, text string) bool {
	p, ok := re.(*pattern)
	if !ok {
		return c.charge(1+len(text)*patternMax/visitsOfStep) && re.MatchString(text) // not a pattern that compile made
	}
	if !c.charge(1) {
		return false
	}
	return c.matcher.match(p, text, func(visits int) bool {
		c.visits += visits
		steps := c.visits / visitsOfStep
		c.visits %= visitsOfStep
		return c.charge(steps)
	})
}

func (c *check) assertNumber(s *jsonschema.Schema, number json.Number) bool {
	if s.Minimum == nil && s.Maximum == nil && s.ExclusiveMinimum == nil && s.ExclusiveMaximum == nil && s.MultipleOf == nil {
		return true
	}
	n := c.exact(number)
	if n == nil {
		return false // the run has stopped
	}
	ok := true
	if want := s.Minimum; want != nil && n.Cmp(want) < 0 {
		ok = c.fail(&kind.Minimum{Got: n, Want: want})
	}
	if want := s.Maximum; want != nil && n.Cmp(want) > 0 {
		ok = c.fail(&kind.Maximum{Got: n, Want: want})
	}
	if want := s.ExclusiveMinimum; want != nil && n.Cmp(want) <= 0 {
		ok = c.fail(&kind.ExclusiveMinimum{Got: n, Want: want})
	}
	if want := s.ExclusiveMaximum; want != nil && n.Cmp(want) >= 0 {
		ok = c.fail(&kind.ExclusiveMaximum{Got: n, Want: want})
	}
	if want := s.MultipleOf; want != nil && !new(big.Rat).Quo(n, want).IsInt() {
		ok = c.fail(&kind.MultipleOf{Got: n, Want: want})
	}
	return ok
}

func (c *check) assertArray(s *jsonschema.Schema, array []any) bool {
	ok := true
	if s.MinItems != nil && len(array) < *s.MinItems {
		ok = c.fail(&kind.MinItems{Got: len(array), Want: *s.MinItems})
	}
	if s.MaxItems != nil && len(array) > *s.MaxItems {
		ok = c.fail(&kind.MaxItems{Got: len(array), Want: *s.MaxItems})
	}
	if s.UniqueItems && !c.over(ok) {
		if i, j, found := c.duplicates(array); found {
			ok = c.fail(&kind.UniqueItems{Duplicates: [2]int{i, j}})
		}
	}
	return ok
}

func (c *check) assertObject(s *jsonschema.Schema, object map[string]any) bool {
	ok := true
	if s.MinProperties != nil && len(object) < *s.MinProperties {
		ok = c.fail(&kind.MinProperties{Got: len(object), Want: *s.MinProperties})
	}
	if s.MaxProperties != nil && len(object) > *s.MaxProperties {
		ok = c.fail(&kind.MaxProperties{Got: len(object), Want: *s.MaxProperties})
	}
	if missing := c.missing(object, s.Required); len(missing) > 0 {
		ok = c.fail(&kind.Required{Missing: missing})
	}
	for name, wanted := range inOrder(s.DependentRequired) {
		ok = c.dependent(object, name, wanted) && ok
	}
	for name, dependency := range inOrder(s.Dependencies) {
		if wanted, isList := dependency.([]string); isList {
			ok = c.dependent(object, name, wanted) && ok
		}
	}
	return ok
}

func (c *check) dependent(object map[string]any, name string, wanted []string) bool {
	if _, there := object[name]; !there {
		return true
	}
	if missing := c.missing(object, wanted); len(missing) > 0 {
		return c.fail(&kind.DependentRequired{Prop: name, Missing: missing})
	}
	return true
}

// missing returns required names that the object lacks, at most leavesMax.
func (c *check) missing(object map[string]any, wanted []string) []string {
	var missing []string
	c.charge(len(wanted) / 8)
	for _, name := range wanted {
		if _, there := object[name]; !there && len(missing) < leavesMax {
			missing = append(missing, name)
		}
	}
	return missing
}

// plainInteger reports that a number has only this text.
func plainInteger(n json.Number) bool { return !strings.ContainsAny(string(n), ".eE") && n != "-0" }

func (c *check) isWhole(n json.Number) bool {
	if !strings.ContainsAny(string(n), ".eE") {
		return true
	}
	exact := c.exact(n)
	return exact != nil && exact.IsInt()
}

// exact returns a number's value, or nil once the run has stopped. The length of its text is checked before.
func (c *check) exact(n json.Number) *big.Rat {
	if !c.charge(stepsOfNumber) {
		return nil
	}
	exact, _ := new(big.Rat).SetString(string(n))
	return exact
}

// equal compares two values as JSON does: numbers by value.
func (c *check) equal(a, b any) bool {
	if !c.charge(1) {
		return false
	}
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, value := range a {
			other, there := b[name]
			if !there || !c.equal(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, c.equal)
	case json.Number:
		b, ok := b.(json.Number)
		return ok && c.equalNumbers(a, b)
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}

func (c *check) equalNumbers(a, b json.Number) bool {
	if a == b || (plainInteger(a) && plainInteger(b)) {
		return a == b
	}
	x, y := c.exact(a), c.exact(b)
	return x != nil && y != nil && x.Cmp(y) == 0
}

// duplicates finds two items that are equal.
func (c *check) duplicates(array []any) (first, second int, found bool) {
	if len(array) < 2 {
		return 0, 0, false
	}
	var h maphash.Hash
	at := make(map[uint64][]int, len(array))
	for i, item := range array {
		h.Reset()
		c.hash(&h, item)
		if c.stop != nil {
			return 0, 0, false
		}
		sum := h.Sum64()
		for _, j := range at[sum] {
			if c.equal(item, array[j]) {
				return j, i, true
			}
		}
		at[sum] = append(at[sum], i)
	}
	return 0, 0, false
}

// hash writes a value to h. Equal values write the same bytes.
func (c *check) hash(h *maphash.Hash, v any) {
	c.charge(1)
	text := func(tag byte, text string) {
		c.charge(len(text) / bytesOfStep)
		h.WriteByte(tag)
		h.WriteString(text)
		h.WriteByte(0xff)
	}
	switch v := v.(type) {
	case map[string]any:
		text('{', "")
		for _, name := range slices.Sorted(maps.Keys(v)) {
			text('k', name)
			c.hash(h, v[name])
		}
	case []any:
		text('[', "")
		for _, item := range v {
			c.hash(h, item)
		}
		text(']', "")
	case string:
		text('s', v)
	case json.Number:
		if plainInteger(v) {
			text('n', string(v))
		} else if exact := c.exact(v); exact != nil {
			text('n', exact.RatString())
		}
	case bool:
		if v {
			text('t', "")
		} else {
			text('f', "")
		}
	default:
		text('0', "")
	}
}
