package pack

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// facts are known about a value that takes one way through a schema. They are never changed once made.
type facts struct {
	types    jsonschema.Types            // 0: any
	values   map[string]map[string]bool  // a property's values, as JSON
	required map[string]bool             // properties
	closed   map[*jsonschema.Schema]bool // schemas that allow only the properties that they name
	held     map[*jsonschema.Schema]bool // conditions that hold
	failed   map[*jsonschema.Schema]bool // conditions that do not
}

func (f facts) none() bool { return f.types == 0 && len(f.values)+len(f.required)+len(f.closed) == 0 }

// factsOf returns what a schema requires of its value, without its subschemas of the cycle.
func (g *graph) factsOf(s *jsonschema.Schema) facts {
	if known, ok := g.facts[s]; ok {
		return known
	}
	f := facts{values: map[string]map[string]bool{}, required: map[string]bool{}}
	if s.Types != nil {
		f.types = *s.Types
		if f.types&typeBitsOf["number"] != 0 {
			f.types |= typeBitsOf["integer"]
		}
	}
	for _, name := range s.Required {
		f.required[name] = true
	}
	if allowed, ok := s.AdditionalProperties.(bool); ok && !allowed {
		f.closed = map[*jsonschema.Schema]bool{s: true}
	}
	straight := func(t *jsonschema.Schema) bool { return g.loops[s] == 0 || g.loops[t] != g.loops[s] }
	for name, t := range s.Properties {
		if values := valuesOf(t); straight(t) && values != nil {
			f.values[name] = values
		}
	}
	for _, t := range slices.Concat(targets(s), s.AllOf) {
		if straight(t) {
			f = f.and(g.factsOf(t))
		}
	}
	g.facts[s] = f
	return f
}

// valuesOf returns the values that a schema's const or enum allows, as JSON; nil if it allows any.
func valuesOf(s *jsonschema.Schema) map[string]bool {
	var values []any
	switch {
	case s.Const != nil:
		values = []any{*s.Const}
	case s.Enum != nil:
		values = s.Enum.Values
	case s.Ref != nil:
		return valuesOf(s.Ref)
	default:
		return nil
	}
	texts := make(map[string]bool, len(values))
	for _, v := range values {
		switch n, isNumber := v.(json.Number); {
		case isNumber && !plainInteger(n): // the number has other texts
			return nil
		case typeName(v) == "array" || typeName(v) == "object": // it may contain such numbers
			return nil
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil
		}
		texts[string(text)] = true
	}
	return texts
}

// and returns the facts where both hold.
func (f facts) and(g facts) facts {
	both := facts{types: f.types, values: maps.Clone(f.values), required: maps.Clone(f.required),
		closed: maps.Clone(f.closed), held: maps.Clone(f.held), failed: maps.Clone(f.failed)}
	if g.types != 0 {
		both.types = g.types // the inner schema's; a value outside of the outer one's types is refused there
	}
	both.values = merge(both.values, g.values)
	both.required = merge(both.required, g.required)
	both.closed = merge(both.closed, g.closed)
	both.held = merge(both.held, g.held)
	both.failed = merge(both.failed, g.failed)
	return both
}

func merge[K comparable, V any](a, b map[K]V) map[K]V {
	if a == nil {
		a = make(map[K]V, len(b))
	}
	maps.Copy(a, b)
	return a
}

// taking returns the facts after an edge with a condition is taken.
func (g *graph) taking(f facts, e edge) facts {
	switch {
	case e.held != nil:
		f = f.and(g.factsOf(e.held))
		f.held[e.held] = true
	case e.failed != nil:
		f = f.and(facts{})
		f.failed[e.failed] = true
	}
	return f
}

// excludes reports that no value takes both ways.
func (f facts) excludes(g facts) bool {
	if f.types != 0 && g.types != 0 && f.types&g.types == 0 {
		return true
	}
	for name, values := range f.values {
		others := g.values[name]
		if others != nil && f.required[name] && g.required[name] && disjoint(values, others) {
			return true
		}
	}
	if f.forbids(g.required) || g.forbids(f.required) {
		return true
	}
	return !disjoint(f.held, g.failed) || !disjoint(f.failed, g.held)
}

// forbids reports that one of the properties is not allowed.
func (f facts) forbids(names map[string]bool) bool {
	for s := range f.closed {
		for name := range names {
			if s.Properties[name] == nil && !matchesAny(s, name) {
				return true
			}
		}
	}
	return false
}

func disjoint[K comparable](a, b map[K]bool) bool {
	for v := range a {
		if b[v] {
			return false
		}
	}
	return true
}
