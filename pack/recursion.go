package pack

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds on references between schemas.
const (
	sameDepthMax = 100        // nested schemas for one value: a check recurses so deep on each level of the value
	waysMax      = 2_000      // ways from one schema into the parts of a value
	pairsMax     = 20_000_000 // pairs of ways that are compared
)

// graph holds a schema's subschemas and the edges between them.
type graph struct {
	schemas []*jsonschema.Schema
	edges   map[*jsonschema.Schema][]edge
	loops   map[*jsonschema.Schema]int // see checker
	facts   map[*jsonschema.Schema]facts
	pairs   int // compared so far
}

// groups numbers the cycles of schemas along the wanted edges, from 1. A schema outside of any cycle has no number. It
// is Tarjan's algorithm.
func (g *graph) groups(wanted func(edge) bool) map[*jsonschema.Schema]int {
	t := &tarjan{graph: g, wanted: wanted, index: map[*jsonschema.Schema]int{}, low: map[*jsonschema.Schema]int{},
		group: map[*jsonschema.Schema]int{}, open: map[*jsonschema.Schema]bool{}}
	for _, s := range g.schemas {
		if t.index[s] == 0 {
			t.visit(s)
		}
	}
	return t.group
}

type tarjan struct {
	*graph
	wanted     func(edge) bool
	index, low map[*jsonschema.Schema]int
	group      map[*jsonschema.Schema]int
	open       map[*jsonschema.Schema]bool
	stack      []*jsonschema.Schema
	count      int
}

func (t *tarjan) visit(s *jsonschema.Schema) {
	t.index[s] = len(t.index) + 1
	t.low[s] = t.index[s]
	t.stack, t.open[s] = append(t.stack, s), true
	itself := false
	for _, e := range t.edges[s] {
		switch {
		case !t.wanted(e):
		case t.index[e.to] == 0:
			t.visit(e.to)
			t.low[s] = min(t.low[s], t.low[e.to])
		case t.open[e.to]:
			t.low[s] = min(t.low[s], t.index[e.to])
			itself = itself || e.to == s
		}
	}
	if t.low[s] != t.index[s] {
		return
	}
	at := slices.Index(t.stack, s)
	members := t.stack[at:]
	if len(members) > 1 || itself {
		t.count++
	}
	for _, m := range members {
		t.open[m] = false
		if len(members) > 1 || itself {
			t.group[m] = t.count
		}
	}
	t.stack = t.stack[:at]
}

// checkDepth refuses a schema that refers back to itself for the same value, because its check would not end. It also
// refuses one that nests too many schemas for one value.
func (g *graph) checkDepth() error {
	circles := g.groups(func(e edge) bool { return e.part.kind == whole })
	for _, s := range g.schemas {
		if circles[s] != 0 {
			return fmt.Errorf("%s: leads back to itself for the same value, without going on to a property or an item of it", place(s))
		}
	}
	depth := map[*jsonschema.Schema]int{}
	var measure func(s *jsonschema.Schema) int
	measure = func(s *jsonschema.Schema) int {
		if depth[s] == 0 {
			deepest := 0
			for _, e := range g.edges[s] {
				if e.part.kind == whole {
					deepest = max(deepest, measure(e.to))
				}
			}
			depth[s] = deepest + 1
		}
		return depth[s]
	}
	for _, s := range g.schemas {
		if n := measure(s); n > sameDepthMax {
			return fmt.Errorf("%s: applies %d schemas, one behind the other, to one value; at most %d are allowed", place(s), n, sameDepthMax)
		}
	}
	return nil
}

// way leads from a schema into a part of a value, through schemas of the same value.
type way struct {
	edge  edge
	from  *jsonschema.Schema // where the edge starts
	facts facts              // facts about a value that takes this way
}

// checkAmbiguity refuses schemas whose checks could grow exponentially with the depth of a value. Such a schema refers
// back to itself in two ways through the same part of a value, and one value may take both ways.
func (g *graph) checkAmbiguity() error {
	entered := map[*jsonschema.Schema]bool{}
	for _, s := range g.schemas {
		for _, e := range g.edges[s] {
			if e.part.kind == whole || !g.loop(s, e) {
				continue
			}
			entry := g.skip(e.to)
			if entered[entry] {
				continue
			}
			entered[entry] = true
			if err := g.checkEntry(entry); err != nil {
				return err
			}
		}
	}
	return nil
}

// loop reports whether an edge from s is part of a cycle through s.
func (g *graph) loop(s *jsonschema.Schema, e edge) bool {
	return e.part.kind != propertyName && g.loops[s] != 0 && g.loops[s] == g.loops[e.to]
}

// skip follows schemas that only lead to one other schema of the cycle.
func (g *graph) skip(s *jsonschema.Schema) *jsonschema.Schema {
	for {
		var on []edge
		for _, e := range g.edges[s] {
			if g.loop(s, e) {
				on = append(on, e)
			}
		}
		if len(on) != 1 || on[0].part.kind != whole || on[0].held != nil || on[0].failed != nil || !g.factsOf(s).none() {
			return s
		}
		s = on[0].to
	}
}

func (g *graph) checkEntry(entry *jsonschema.Schema) error {
	ways, err := g.ways(entry, facts{}, nil)
	if err != nil {
		return err
	}
	for i, a := range ways {
		for _, b := range ways[:i] {
			if g.pairs++; g.pairs > pairsMax {
				return errors.New("the schema leads back to itself in too many ways")
			}
			if overlap(a.edge.part, b.edge.part) && !a.facts.excludes(b.facts) {
				return fmt.Errorf("%s: leads back to itself in two ways through the same part of a value, %s and %s, "+
					"so that a check could take twice as long with every level: tell the two apart by a required property "+
					"with a const, or by type (docs/packs.md, Parameters)", place(entry), b.named(), a.named())
			}
		}
	}
	return nil
}

func (w way) named() string {
	if w.edge.part.kind == property {
		return strings.TrimSuffix(place(w.from), "/") + "/properties/" + printable(clip(w.edge.part.name))
	}
	return place(w.edge.to)
}

// ways lists the ways from s into parts of a value that stay in its cycle.
func (g *graph) ways(s *jsonschema.Schema, f facts, into []way) ([]way, error) {
	f = f.and(g.factsOf(s))
	for _, e := range g.edges[s] {
		if !g.loop(s, e) {
			continue
		}
		taken := g.taking(f, e)
		if e.part.kind != whole {
			if into = append(into, way{edge: e, from: s, facts: taken}); len(into) > waysMax {
				return nil, fmt.Errorf("%s: leads back to itself in more than %d ways", place(s), waysMax)
			}
			continue
		}
		var err error
		if into, err = g.ways(e.to, taken, into); err != nil {
			return nil, err
		}
	}
	return into, nil
}

// overlap reports whether some property or item may belong to both parts.
func overlap(p, q part) bool {
	if p.kind > q.kind {
		p, q = q, p
	}
	switch {
	case q.kind == items:
		return p.kind == items && (p.last < 0 || q.first <= p.last) && (q.last < 0 || p.first <= q.last)
	case q.kind == unevaluated:
		return p.kind == unevaluated
	case p.kind == property && q.kind == property:
		return p.name == q.name
	case p.kind == property && q.kind == matching:
		return q.re.MatchString(p.name)
	case p.kind == property: // against additional properties
		return q.from.Properties[p.name] == nil && !matchesAny(q.from, p.name)
	case p.kind == matching && q.kind == matching:
		x, y := anchored(p.re), anchored(q.re)
		return strings.HasPrefix(x, y) || strings.HasPrefix(y, x)
	case p.kind == matching:
		return q.from.PatternProperties[p.re] == nil
	}
	return true
}

func matchesAny(s *jsonschema.Schema, name string) bool {
	for re := range s.PatternProperties {
		if re.MatchString(name) {
			return true
		}
	}
	return false
}

// anchored returns the literal text with which every match begins.
func anchored(re jsonschema.Regexp) string {
	text, ok := strings.CutPrefix(re.String(), "^")
	if !ok || strings.Contains(text, "|") {
		return ""
	}
	end := strings.IndexFunc(text, func(r rune) bool { return strings.ContainsRune(`\.+*?()[]{}^$`, r) })
	if end < 0 {
		return text
	}
	if end > 0 && strings.ContainsRune("*?{", rune(text[end])) {
		end-- // the last character may be missing
	}
	return strings.ToValidUTF8(text[:end], "")
}
