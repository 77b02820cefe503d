package pack

import (
	"maps"
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// object applies the subschemas of one round to an object's properties.
func (c *check) object(r round, s *jsonschema.Schema, object map[string]any, own *seen) bool {
	ok := c.properties(r, s, object, own)
	if c.over(ok) {
		return false
	}
	if len(s.PatternProperties) > 0 || s.AdditionalProperties != nil {
		ok = c.others(r, s, object, own) && ok
	}
	if s.PropertyNames != nil && c.in(r, s, s.PropertyNames) && !c.over(ok) {
		for _, name := range c.keys(object) {
			if !c.fits(s.PropertyNames, name, nil) {
				c.path = append(c.path, name)
				ok = c.fail(words("is not a name that a property may have"))
				c.path = c.path[:len(c.path)-1]
			}
			if c.over(ok) {
				return false
			}
		}
	}
	for name, dependency := range inOrder(s.Dependencies) {
		t, isSchema := dependency.(*jsonschema.Schema)
		if _, there := object[name]; there && isSchema && c.in(r, s, t) && !c.over(ok) {
			ok = c.same(t, object, own) && ok
		}
	}
	return ok
}

// properties iterates over the schema's names or the object's, whichever are fewer.
func (c *check) properties(r round, s *jsonschema.Schema, object map[string]any, own *seen) bool {
	if len(s.Properties) == 0 {
		return true
	}
	names := c.names[s]
	if len(object) < len(names) {
		names = c.keys(object)
	}
	ok := true
	if !c.charge(len(names) / 8) {
		return false
	}
	for _, name := range names {
		t := s.Properties[name]
		v, there := object[name]
		if t == nil || !there || !c.in(r, s, t) {
			continue
		}
		own.prop(name)
		if ok = c.inside(t, v, name) && ok; c.over(ok) {
			return false
		}
	}
	return ok
}

// others applies the schemas of properties that match a pattern or that have no schema by name.
func (c *check) others(r round, s *jsonschema.Schema, object map[string]any, own *seen) bool {
	additional, _ := s.AdditionalProperties.(*jsonschema.Schema)
	allowed, plain := s.AdditionalProperties.(bool)
	ok := true
	for _, name := range c.keys(object) {
		if c.over(ok) {
			return false
		}
		_, known := s.Properties[name]
		for re, t := range s.PatternProperties {
			if !c.matches(re, name) {
				continue
			}
			known = true
			if c.in(r, s, t) {
				own.prop(name)
				ok = c.inside(t, object[name], name) && ok
			}
		}
		switch {
		case known:
		case additional != nil && c.in(r, s, additional):
			own.prop(name)
			ok = c.inside(additional, object[name], name) && ok
		case plain && !allowed && r == straight:
			ok = c.fail(&kind.AdditionalProperties{Properties: []string{name}})
		case plain && allowed:
			own.prop(name)
		}
	}
	return ok
}

// keys returns an object's names. It sorts them if problems are reported.
func (c *check) keys(object map[string]any) []string {
	if !c.charge(len(object)) {
		return nil
	}
	names := slices.AppendSeq(make([]string, 0, len(object)), maps.Keys(object))
	if !c.quiet {
		slices.Sort(names)
	}
	return names
}

// array applies the subschemas of one round to an array's items.
func (c *check) array(r round, s *jsonschema.Schema, array []any, own *seen) bool {
	ok := true
	head := min(len(s.PrefixItems), len(array))
	for i, v := range array[:head] {
		if t := s.PrefixItems[i]; c.in(r, s, t) {
			own.item(i)
			ok = c.inside(t, v, strconv.Itoa(i)) && ok
		}
		if c.over(ok) {
			return false
		}
	}
	if t := s.Items2020; t != nil && c.in(r, s, t) {
		for i, v := range array[head:] {
			own.item(head + i)
			if ok = c.inside(t, v, strconv.Itoa(head+i)) && ok; c.over(ok) {
				return false
			}
		}
	}
	if s.Contains != nil && c.in(r, s, s.Contains) {
		ok = c.contains(s, array, own) && ok
	}
	return ok
}

func (c *check) contains(s *jsonschema.Schema, array []any, own *seen) bool {
	matched := 0
	for i, v := range array {
		if c.fits(s.Contains, v, nil) {
			matched++
			own.item(i)
		}
		if c.stop != nil {
			return false
		}
	}
	least := 1
	if s.MinContains != nil {
		least = *s.MinContains
	}
	switch {
	case matched < least && s.MinContains == nil:
		return c.fail(&kind.Contains{})
	case matched < least:
		return c.fail(words("contains: " + strconv.Itoa(matched) + " items match, at least " + strconv.Itoa(least) + " must"))
	case s.MaxContains != nil && matched > *s.MaxContains:
		return c.fail(words("contains: " + strconv.Itoa(matched) + " items match, at most " + strconv.Itoa(*s.MaxContains) + " may"))
	}
	return true
}

// unevaluated applies the schemas for properties and items that no other subschema has evaluated.
func (c *check) unevaluated(s *jsonschema.Schema, v any, own *seen) bool {
	ok := true
	switch v := v.(type) {
	case map[string]any:
		if s.UnevaluatedProperties == nil {
			return true
		}
		for _, name := range c.keys(v) {
			if !own.props[name] {
				own.prop(name)
				ok = c.inside(s.UnevaluatedProperties, v[name], name) && ok
			}
			if c.over(ok) {
				return false
			}
		}
	case []any:
		if s.UnevaluatedItems == nil {
			return true
		}
		for i, item := range v {
			if !own.items[i] {
				own.item(i)
				ok = c.inside(s.UnevaluatedItems, item, strconv.Itoa(i)) && ok
			}
			if c.over(ok) {
				return false
			}
		}
	}
	return ok
}
