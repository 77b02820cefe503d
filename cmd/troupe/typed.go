package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/messages"
)

// refsMax bounds how many references inside a schema are followed for one type.
const refsMax = 16

// typed makes key=value a JSON value where the action's schema takes a number or a boolean there and no text. A node that
// does not say what the action takes leaves the pairs as they are.
func typed(ctx context.Context, c *client.Client, action string, pairs []string) []string {
	if !slices.ContainsFunc(pairs, func(pair string) bool { return scalarType(pair) != "" }) {
		return pairs
	}
	schema, err := schemaOf(ctx, c, action)
	if err != nil {
		return pairs
	}
	return typedPairs(schema, pairs)
}

// schemaOf asks for an action's schema; nil where there is none.
func schemaOf(ctx context.Context, c *client.Client, action string) (json.RawMessage, error) {
	var v api.ActionList
	if err := c.Get(ctx, "/api/v1/actions", &v); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(v.Actions, func(x api.ActionView) bool { return x.Ref == action })
	if i < 0 {
		return nil, nil
	}
	return v.Actions[i].Parameters, nil
}

// scalarType is what a key=value pair's text would be as JSON: integer, number or boolean; empty for anything else.
func scalarType(pair string) string {
	key, text, _ := strings.Cut(pair, "=")
	if key == "" || strings.HasSuffix(key, ":") || !json.Valid([]byte(text)) || strings.TrimSpace(text) != text {
		return ""
	}
	switch {
	case text == "true" || text == "false":
		return "boolean"
	case !strings.ContainsAny(text[:1], "-0123456789"):
		return ""
	case strings.ContainsAny(text, ".eE"):
		return "number"
	}
	return "integer"
}

// typedPairs writes key:=value for each pair whose text is a number or a boolean where the schema takes that and no text.
func typedPairs(schema json.RawMessage, pairs []string) []string {
	p := newParameters(schema)
	typed := slices.Clone(pairs)
	for i, pair := range pairs {
		key, text, _ := strings.Cut(pair, "=")
		is := scalarType(pair)
		if is == "" {
			continue
		}
		takes := p.types(p.property(key), refsMax)
		if takes[is] || (is == "integer" && takes["number"]) || (is == "number" && takes["integer"]) {
			if !takes["string"] {
				typed[i] = key + ":=" + text
			}
		}
	}
	return typed
}

// parameters is a schema as far as the command line reads it: which names it takes, and of which types.
type parameters struct {
	root any
}

func newParameters(schema json.RawMessage) *parameters {
	p := &parameters{}
	_ = json.Unmarshal(schema, &p.root) // what is no schema takes no names
	return p
}

// properties lists what the schema names, by its name.
func (p *parameters) properties() map[string]any {
	found := map[string]any{}
	p.collect(p.root, refsMax, found)
	return found
}

func (p *parameters) collect(node any, deep int, into map[string]any) {
	schema, _ := node.(map[string]any)
	if schema == nil || deep == 0 {
		return
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, of := range properties {
		if _, known := into[name]; !known {
			into[name] = of
		}
	}
	p.collect(p.target(schema), deep-1, into)
	for _, part := range list(schema["allOf"]) {
		p.collect(part, deep-1, into)
	}
}

// property is the schema of one name.
func (p *parameters) property(name string) any {
	if of, ok := p.properties()[name]; ok {
		return of
	}
	root, _ := p.root.(map[string]any)
	return root["additionalProperties"]
}

// target is what a schema refers to inside the whole one.
func (p *parameters) target(schema map[string]any) any {
	ref, _ := schema["$ref"].(string)
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	node := p.root
	for _, token := range strings.Split(pointer, "/")[1:] {
		object, _ := node.(map[string]any)
		node = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(token)]
	}
	if pointer == "" {
		return p.root
	}
	return node
}

// types is which types a schema takes; every type where it does not say.
func (p *parameters) types(node any, deep int) map[string]bool {
	schema, _ := node.(map[string]any)
	if schema == nil || deep == 0 {
		return anyType
	}
	switch of := schema["type"].(type) {
	case string:
		return map[string]bool{of: true}
	case []any:
		return union(of, func(x any) map[string]bool { name, _ := x.(string); return map[string]bool{name: true} })
	}
	if value, ok := schema["const"]; ok {
		return map[string]bool{typeOf(value): true}
	}
	if values := list(schema["enum"]); values != nil {
		return union(values, func(x any) map[string]bool { return map[string]bool{typeOf(x): true} })
	}
	if target := p.target(schema); target != nil {
		return p.types(target, deep-1)
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		if branches := list(schema[word]); branches != nil && len(branches) <= refsMax {
			return union(branches, func(x any) map[string]bool { return p.types(x, deep/2) })
		}
	}
	return anyType
}

var anyType = map[string]bool{"string": true, "number": true, "integer": true, "boolean": true, "null": true, "array": true, "object": true}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func union(list []any, of func(any) map[string]bool) map[string]bool {
	all := map[string]bool{}
	for _, x := range list {
		maps.Copy(all, of(x))
	}
	return all
}

func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case float64:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}

// hintJSON says how JSON is written where a node refused text that a pair gave.
func hintJSON(err error, pairs []string) error {
	var refused *client.Error
	if !errors.As(err, &refused) || refused.Code != string(messages.CodeInvalidParameters) {
		return err
	}
	for _, pair := range pairs {
		key, _, ok := strings.Cut(pair, "=")
		if ok && !strings.HasSuffix(key, ":") && strings.Contains(refused.Message, "/"+key+": got string, want ") {
			return fmt.Errorf("%w\nkey=value is text; for a number, true, false, null, a list or an object write %s:=…", err, key)
		}
	}
	return err
}

// parameterNames offers the names that the action takes and that are not given yet, ready for a value.
func parameterNames(ctx context.Context, c *client.Client, args []string) ([]string, error) {
	schema, err := schemaOf(ctx, c, args[0])
	if err != nil {
		return nil, err
	}
	p := newParameters(schema)
	known := p.properties()
	for _, pair := range args[1:] {
		key, _, _ := strings.Cut(pair, "=")
		delete(known, strings.TrimSuffix(key, ":"))
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(known)) {
		takes := p.types(known[name], refsMax)
		sign := ":="
		if takes["string"] || takes["number"] || takes["integer"] || takes["boolean"] {
			sign = "="
		}
		offered := visible(name) + sign
		if len(takes) < len(anyType) {
			offered += "\t" + strings.Join(slices.Sorted(maps.Keys(takes)), " or ")
		}
		names = append(names, offered)
	}
	return names, nil
}
