package pack

import (
	"context"
	"maps"
	"runtime"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Bounds on one check of parameters. A step is one schema applied to one value, or work of about the same time, some
// 100 ns. A check of the largest parameters against an ordinary schema takes a tenth of stepsMax.
const (
	stepsMax   = 5_000_000
	stepsOfCtx = 1024          // steps between two looks at the context
	leavesMax  = fieldsMax + 1 // one more than is reported, which shows that there are more
)

// checker is one compiled schema. The library only compiles schemas. It does not validate, because its validation can
// be neither stopped nor bounded. This package checks values itself, step by step.
type checker struct {
	root  *jsonschema.Schema
	steps int64 // maximum for one check
	// loops numbers groups of schemas that refer to each other in a cycle. A schema outside of any cycle has no number.
	loops map[*jsonschema.Schema]int
	names map[*jsonschema.Schema][]string // names of properties, sorted
	enums map[*jsonschema.Schema]map[string]bool
}

// leaf is one problem with its place. Its text is made when it is reported.
type leaf struct {
	at   []string
	kind any // a jsonschema.ErrorKind, or words
}

// words is a problem for which the library has no short text.
type words string

// check is one run of a checker over one value.
type check struct {
	*checker
	ctx    context.Context
	left   int64 // steps
	look   int64 // the context is tested next when so many steps are left
	stop   error // why the run has stopped; later verdicts mean nothing
	quiet  bool  // only the verdict is wanted
	path   []string
	leaves []leaf
	floor  int // leaves with a lower index do not belong to this branch

	matcher matcher
	visits  int // of instructions of patterns, not charged yet
}

// errSteps is the error of a check that took too many steps.
type errSteps struct{}

func (errSteps) Error() string {
	return "they take too many steps to check against the action's schema: send fewer or smaller values"
}

// checksMax bounds the checks that run at once in this process. A check takes a core, and memory of some 50 times its
// parameters, which are at most messages.ParametersMax.
var checksMax = min(max(2, runtime.GOMAXPROCS(0)), 8)

// checks has one entry for each running check.
var checks = make(chan struct{}, checksMax)

// enter waits until a check may run, and leave ends the check.
func enter(ctx context.Context) error {
	select {
	case checks <- struct{}{}:
		return nil
	default:
	}
	select {
	case checks <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func leave() { <-checks }

// run checks a value. It returns the problems, at most leavesMax, or the error that ended the check without a verdict.
func (c *checker) run(ctx context.Context, v any) ([]leaf, error) {
	r := &check{checker: c, ctx: ctx, left: c.steps, look: c.steps - stepsOfCtx}
	if r.eval(c.root, v, nil) || r.stop != nil {
		return nil, r.stop
	}
	return r.leaves, nil
}

// charge counts n steps. It returns false once the run has stopped.
func (c *check) charge(n int) bool {
	if c.stop != nil {
		return false
	}
	if c.left -= int64(n); c.left < 0 {
		c.stop = errSteps{}
		return false
	}
	if c.left <= c.look {
		c.look = c.left - stepsOfCtx
		c.stop = c.ctx.Err()
	}
	return c.stop == nil
}

// fail notes a problem at the path. It returns false, the verdict.
func (c *check) fail(k any) bool {
	if !c.quiet && !c.full() {
		c.leaves = append(c.leaves, leaf{slices.Clone(c.path), k})
	}
	return false
}

// full reports that this branch has as many leaves as are reported.
func (c *check) full() bool { return len(c.leaves)-c.floor >= leavesMax }

// over reports that more checks of a value with the verdict ok add nothing.
func (c *check) over(ok bool) bool { return c.stop != nil || (!ok && (c.quiet || c.full())) }

// seen holds the properties and items of a value that matching schemas have evaluated. Nil: they are not needed.
type seen struct {
	props map[string]bool
	items map[int]bool
}

func (s *seen) prop(name string) {
	if s == nil {
		return
	}
	if s.props == nil {
		s.props = map[string]bool{}
	}
	s.props[name] = true
}

func (s *seen) item(i int) {
	if s == nil {
		return
	}
	if s.items == nil {
		s.items = map[int]bool{}
	}
	s.items[i] = true
}

// round is a pass over a schema's subschemas. Subschemas that refer back to the schema are in the last round, which
// runs only if the value matches the others. So, of branches that a constant distinguishes, only one recurses into the
// value.
type round bool

const (
	straight round = false
	looping  round = true
)

// in reports whether any of the subschemas belongs to the round.
func (c *check) in(r round, s *jsonschema.Schema, subschemas ...*jsonschema.Schema) bool {
	group := c.loops[s]
	loops := group != 0 && slices.ContainsFunc(subschemas, func(t *jsonschema.Schema) bool { return c.loops[t] == group })
	return loops == bool(r)
}

// eval reports whether v matches s. Its result means nothing once the run has stopped.
func (c *check) eval(s *jsonschema.Schema, v any, out *seen) bool {
	if !c.charge(1) {
		return false
	}
	if s.Bool != nil {
		return *s.Bool || c.fail(&kind.FalseSchema{})
	}
	if !c.isOne(s, v) {
		return false
	}
	own := out
	if own == nil && (s.UnevaluatedProperties != nil || s.UnevaluatedItems != nil) {
		own = &seen{}
	}
	ok := c.assert(s, v)
	if c.over(ok) {
		return false
	}
	ok = c.apply(straight, s, v, own) && ok
	if ok && c.loops[s] != 0 && c.stop == nil {
		ok = c.apply(looping, s, v, own)
	}
	return ok && c.unevaluated(s, v, own) && c.stop == nil
}

// apply applies the subschemas of one round.
func (c *check) apply(r round, s *jsonschema.Schema, v any, own *seen) bool {
	ok := true
	if s.Ref != nil && c.in(r, s, s.Ref) {
		ok = c.same(s.Ref, v, own)
	}
	if s.DynamicRef != nil && c.in(r, s, s.DynamicRef.Ref) {
		ok = c.same(s.DynamicRef.Ref, v, own) && ok
	}
	if c.over(ok) {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		ok = c.object(r, s, v, own) && ok
	case []any:
		ok = c.array(r, s, v, own) && ok
	}
	return !c.over(ok) && c.conditions(r, s, v, own) && ok
}

// same applies a subschema to the same value.
func (c *check) same(t *jsonschema.Schema, v any, own *seen) bool {
	if own == nil {
		return c.eval(t, v, nil)
	}
	var inner seen
	if !c.eval(t, v, &inner) {
		return false
	}
	for name := range inner.props {
		own.prop(name)
	}
	for i := range inner.items {
		own.item(i)
	}
	return c.charge(len(inner.props) + len(inner.items))
}

// inside applies a subschema to a property or an item.
func (c *check) inside(t *jsonschema.Schema, v any, token string) bool {
	c.path = append(c.path, token)
	ok := c.eval(t, v, nil)
	c.path = c.path[:len(c.path)-1]
	return ok
}

// fits returns only the verdict.
func (c *check) fits(t *jsonschema.Schema, v any, own *seen) bool {
	before := c.quiet
	c.quiet = true
	ok := c.same(t, v, own)
	c.quiet = before
	return ok
}

// branch applies one of several subschemas of which one must match. Its problems have a bound of their own.
func (c *check) branch(t *jsonschema.Schema, v any, own *seen) bool {
	before := c.floor
	c.floor = len(c.leaves)
	ok := c.same(t, v, own)
	c.floor = before
	return ok
}

func (c *check) conditions(r round, s *jsonschema.Schema, v any, own *seen) bool {
	ok := true
	if s.Not != nil && c.in(r, s, s.Not) && c.fits(s.Not, v, nil) {
		ok = c.fail(&kind.Not{})
	}
	for _, t := range s.AllOf {
		if c.over(ok) {
			return false
		}
		if c.in(r, s, t) {
			ok = c.same(t, v, own) && ok
		}
	}
	if len(s.AnyOf) > 0 && c.in(r, s, s.AnyOf...) && !c.over(ok) {
		ok = c.anyOf(s.AnyOf, v, own) && ok
	}
	if len(s.OneOf) > 0 && c.in(r, s, s.OneOf...) && !c.over(ok) {
		ok = c.oneOf(s.OneOf, v, own) && ok
	}
	if len(s.DependentSchemas) > 0 && !c.over(ok) {
		ok = c.dependents(r, s, v, own) && ok
	}
	if s.If != nil && c.in(r, s, s.If, s.Then, s.Else) && !c.over(ok) {
		ok = c.ifThenElse(s, v, own) && ok
	}
	return ok && c.stop == nil
}

func (c *check) dependents(r round, s *jsonschema.Schema, v any, own *seen) bool {
	ok := true
	for name, t := range inOrder(s.DependentSchemas) {
		if c.in(r, s, t) && has(v, name) && !c.over(ok) {
			ok = c.same(t, v, own) && ok
		}
	}
	return ok
}

func (c *check) anyOf(branches []*jsonschema.Schema, v any, own *seen) bool {
	base, matched := len(c.leaves), false
	for _, t := range branches {
		if c.branch(t, v, own) {
			if matched = true; own == nil {
				break
			}
		}
		if c.stop != nil {
			return false
		}
		c.leaves = c.leaves[:min(len(c.leaves), base+leavesMax)]
	}
	if matched {
		c.leaves = c.leaves[:base]
	}
	return matched
}

func (c *check) oneOf(branches []*jsonschema.Schema, v any, own *seen) bool {
	base, matched := len(c.leaves), -1
	for i, t := range branches {
		if matched < 0 {
			if c.branch(t, v, own) {
				matched, c.leaves = i, c.leaves[:base]
			}
			c.leaves = c.leaves[:min(len(c.leaves), base+leavesMax)]
		} else if c.fits(t, v, nil) {
			return c.fail(&kind.OneOf{Subschemas: []int{matched, i}})
		}
		if c.stop != nil {
			return false
		}
	}
	return matched >= 0
}

func (c *check) ifThenElse(s *jsonschema.Schema, v any, own *seen) bool {
	switch holds := c.fits(s.If, v, own); {
	case c.stop != nil:
		return false
	case holds && s.Then != nil:
		return c.same(s.Then, v, own)
	case !holds && s.Else != nil:
		return c.same(s.Else, v, own)
	}
	return true
}

// inOrder iterates over a map by name, so that the problems have the same order in every run.
func inOrder[V any](m map[string]V) func(func(string, V) bool) {
	return func(yield func(string, V) bool) {
		if len(m) == 0 {
			return
		}
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if !yield(name, m[name]) {
				return
			}
		}
	}
}

func has(v any, name string) bool {
	object, _ := v.(map[string]any)
	_, ok := object[name]
	return ok
}
