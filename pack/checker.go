package pack

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// newChecker prepares a compiled schema for checks. It refuses a schema whose checks have no bound. The error says
// where and why.
func newChecker(root *jsonschema.Schema, hasIDs bool) (*checker, error) {
	schemas := reachable(root)
	c := &checker{root: root, steps: stepsMax, names: map[*jsonschema.Schema][]string{}, enums: map[*jsonschema.Schema]map[string]bool{}}
	for _, s := range schemas {
		if err := checkDialect(s, schemas, hasIDs); err != nil {
			return nil, err
		}
		if len(s.Properties) > 0 {
			c.names[s] = slices.Sorted(maps.Keys(s.Properties))
		}
		if s.Enum != nil {
			c.enums[s] = textsOf(s.Enum.Values)
		}
	}
	g := &graph{schemas: schemas, edges: map[*jsonschema.Schema][]edge{}, facts: map[*jsonschema.Schema]facts{}}
	for _, s := range schemas {
		g.edges[s] = edgesOf(s)
	}
	if err := g.checkDepth(); err != nil {
		return nil, err
	}
	g.loops = g.groups(func(e edge) bool { return e.part.kind != propertyName }) // a name has no parts inside
	c.loops = g.loops
	return c, g.checkAmbiguity()
}

func textsOf(values []any) map[string]bool {
	texts := map[string]bool{}
	for _, v := range values {
		if text, ok := v.(string); ok {
			texts[text] = true
		}
	}
	return texts
}

// checkDialect refuses schemas that need other rules than those of this file: other dialects inside a schema, and
// references whose target depends on the path to them.
func checkDialect(s *jsonschema.Schema, all []*jsonschema.Schema, hasIDs bool) error {
	if s.DraftVersion != 2020 {
		return fmt.Errorf("%s: $schema must be %s everywhere", place(s), draft)
	}
	if s.DynamicRef == nil || s.DynamicRef.Anchor == "" {
		return nil
	}
	foreign := slices.ContainsFunc(all, func(t *jsonschema.Schema) bool { return !strings.HasPrefix(t.Location, schemaURL) })
	if hasIDs || foreign {
		return fmt.Errorf("%s: $dynamicRef is taken only in a schema without $id: write $ref", place(s))
	}
	return nil
}

// place returns the place of a schema as a JSON pointer.
func place(s *jsonschema.Schema) string {
	_, pointer, _ := strings.Cut(s.Location, "#")
	return orRoot(printable(clip(pointer)))
}

// reachable lists the schemas that can be reached from root, root first.
func reachable(root *jsonschema.Schema) []*jsonschema.Schema {
	all := []*jsonschema.Schema{root}
	known := map[*jsonschema.Schema]bool{root: true}
	for i := 0; i < len(all); i++ {
		for _, e := range edgesOf(all[i]) {
			if !known[e.to] {
				known[e.to] = true
				all = append(all, e.to)
			}
		}
	}
	return all
}

// targets returns the schemas that s refers to.
func targets(s *jsonschema.Schema) []*jsonschema.Schema {
	var to []*jsonschema.Schema
	if s.Ref != nil {
		to = append(to, s.Ref)
	}
	if s.DynamicRef != nil {
		to = append(to, s.DynamicRef.Ref)
	}
	return to
}

// edge leads from a schema to a subschema, for the same value or for a part of it.
type edge struct {
	to   *jsonschema.Schema
	part part
	// The edge is taken only if the value matches held and does not match failed; nil means no condition.
	held, failed *jsonschema.Schema
}

// part says to which part of a value a subschema applies.
type part struct {
	kind  partKind
	name  string             // a property
	re    jsonschema.Regexp  // properties that match it
	from  *jsonschema.Schema // properties that this schema does not name
	first int                // items
	last  int                // -1: without an end
}

type partKind int

const (
	whole partKind = iota
	property
	matching
	additional
	unevaluated // parts to which no other subschema applies
	propertyName
	items
)

// edgesOf lists the edges of a schema in a fixed order.
func edgesOf(s *jsonschema.Schema) []edge {
	edges := sameEdges(s)
	for _, t := range inOrder(s.DependentSchemas) {
		edges = append(edges, edge{to: t})
	}
	for _, dependency := range inOrder(s.Dependencies) {
		if t, ok := dependency.(*jsonschema.Schema); ok {
			edges = append(edges, edge{to: t})
		}
	}
	for name, t := range inOrder(s.Properties) {
		edges = append(edges, edge{to: t, part: part{kind: property, name: name}})
	}
	for _, re := range slices.SortedFunc(maps.Keys(s.PatternProperties), func(a, b jsonschema.Regexp) int {
		return strings.Compare(a.String(), b.String())
	}) {
		edges = append(edges, edge{to: s.PatternProperties[re], part: part{kind: matching, re: re}})
	}
	add := func(t *jsonschema.Schema, p part) {
		if t != nil {
			edges = append(edges, edge{to: t, part: p})
		}
	}
	if t, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		add(t, part{kind: additional, from: s})
	}
	add(s.UnevaluatedProperties, part{kind: unevaluated})
	add(s.PropertyNames, part{kind: propertyName})
	for i, t := range s.PrefixItems {
		add(t, part{kind: items, first: i, last: i})
	}
	add(s.Items2020, part{kind: items, first: len(s.PrefixItems), last: -1})
	add(s.Contains, part{kind: items, last: -1})
	add(s.UnevaluatedItems, part{kind: unevaluated})
	return edges
}

// sameEdges lists the edges to subschemas of the same value.
func sameEdges(s *jsonschema.Schema) []edge {
	var edges []edge
	for _, t := range slices.Concat(targets(s), []*jsonschema.Schema{s.Not, s.If}, s.AllOf, s.AnyOf, s.OneOf) {
		if t != nil {
			edges = append(edges, edge{to: t})
		}
	}
	if s.Then != nil {
		edges = append(edges, edge{to: s.Then, held: s.If})
	}
	if s.Else != nil {
		edges = append(edges, edge{to: s.Else, failed: s.If})
	}
	return edges
}
