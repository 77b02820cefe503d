package pack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/troupe-run/troupe/messages"
)

// schemaMax bounds an action's schema as JSON, in bytes.
const schemaMax = 128 << 10

// draft is the only supported dialect of JSON Schema.
const draft = "https://json-schema.org/draft/2020-12/schema"

// schema reads an action's parameters key. It returns the JSON Schema as JSON and compiled, or nil for both if there is
// none or it notes a problem.
func (s *source) schema(node *yaml.Node) (json.RawMessage, *checker) {
	v, ok := s.jsonValue(node, "parameters", 0)
	if !ok {
		return nil, nil
	}
	object, isObject := v.(map[string]any)
	if !isObject {
		s.fail(node, "parameters must be a JSON Schema, got %s", describe(node))
		return nil, nil
	}
	if problem := checkRoot(object); problem != "" {
		s.fail(node, "parameters: %s", problem)
		return nil, nil
	}
	raw, err := json.Marshal(object)
	if err != nil || len(raw) > schemaMax {
		s.fail(node, "parameters: the schema has %d bytes, at most %d are allowed", len(raw), schemaMax)
		return nil, nil
	}
	schema, err := compile(raw)
	if err != nil {
		s.fail(node, "parameters: %s", schemaProblem(err))
		return nil, nil
	}
	return raw, schema
}

// checkRoot returns the problem with a schema's outermost keys, or nothing.
func checkRoot(object map[string]any) string {
	if dialect, ok := object["$schema"]; ok && dialect != draft && dialect != draft+"#" {
		return fmt.Sprintf("$schema must be %s, got %q", draft, clip(fmt.Sprint(dialect)))
	}
	types, ok := object["type"]
	if !ok || types == "object" {
		return ""
	}
	if list, isList := types.([]any); isList && slices.Contains(list, any("object")) {
		return ""
	}
	return "type must be object, because an execution's parameters always are one"
}

// schemaURL is the address of a schema inside the compiler. Nothing is ever loaded from it.
const schemaURL = "troupe:///parameters"

// compile compiles a schema without external references, and refuses one whose checks have no bound.
func compile(raw []byte) (*checker, error) {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	if problem := checkNumbers(v, ""); problem != "" {
		return nil, errors.New(problem)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(compilePattern)
	if err := c.AddResource(schemaURL, v); err != nil {
		return nil, schemaError(err)
	}
	schema, err := c.Compile(schemaURL)
	if err != nil {
		return nil, schemaError(err)
	}
	checks, err := newChecker(schema, namesItself(v))
	if err != nil {
		return nil, unboundedError{err}
	}
	return checks, nil
}

// named are the keywords whose value's keys are names. plain are the keywords whose value is no schema.
var (
	named = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
	plain = []string{"const", "enum", "default", "examples"}
)

// namesItself reports whether a schema, or one inside it, has the keyword $id. A property with that name does not
// count.
func namesItself(v any) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, namesItself)
	case map[string]any:
		for key, inner := range v {
			under, isMap := inner.(map[string]any)
			switch {
			case key == "$id":
				return true
			case slices.Contains(plain, key):
			case slices.Contains(named, key) && isMap:
				if slices.ContainsFunc(slices.Collect(maps.Values(under)), namesItself) {
					return true
				}
			case namesItself(inner):
				return true
			}
		}
	}
	return false
}

// unboundedError is why a valid schema is refused.
type unboundedError struct{ error }

// schemaProblem describes the problem of a schema for people.
func schemaProblem(err error) string {
	var unbounded unboundedError
	if errors.As(err, &unbounded) {
		return "no check by this JSON Schema could be bounded: " + err.Error()
	}
	return "not a valid JSON Schema: " + clipLong(err.Error())
}

// schemaError returns the compiler's error without schemaURL, which is internal.
func schemaError(err error) error {
	var remote *jsonschema.LoadURLError // it has no Unwrap
	if errors.As(err, &remote) {
		return remote.Err
	}
	var invalid *jsonschema.SchemaValidationError
	if errors.As(err, &invalid) {
		var causes *jsonschema.ValidationError
		if errors.As(invalid.Err, &causes) {
			return errors.New(strings.Join(fieldTexts(causes), "; "))
		}
	}
	return errors.New(strings.ReplaceAll(err.Error(), schemaURL, ""))
}

// noLoader loads nothing, neither from files nor from the network.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) { return nil, remoteError(url) }

// remoteError is a $ref, $schema or $id that points outside the schema.
type remoteError string

func (e remoteError) Error() string {
	return fmt.Sprintf("%s is outside the schema and is not loaded: put the definition under $defs", clip(string(e)))
}

// jsonValue converts a YAML node to a JSON value. It refuses scalars that JSON does not have, except dates, which
// become their text.
func (s *source) jsonValue(node *yaml.Node, name string, depth int) (any, bool) {
	if depth > messages.JSONDepthMax {
		s.fail(node, "%s is nested deeper than %d levels", clip(name), messages.JSONDepthMax)
		return nil, false
	}
	switch node.Kind {
	case yaml.MappingNode:
		return s.jsonObject(node, name, depth)
	case yaml.SequenceNode:
		list := make([]any, 0, len(node.Content))
		for i, item := range node.Content {
			v, ok := s.jsonValue(item, fmt.Sprintf("%s[%d]", clip(name), i), depth+1)
			if !ok {
				return nil, false
			}
			list = append(list, v)
		}
		return list, true
	case yaml.ScalarNode:
		return s.jsonScalar(node, name)
	}
	s.fail(node, "%s must be a JSON value, got %s", clip(name), describe(node))
	return nil, false
}

func (s *source) jsonObject(node *yaml.Node, name string, depth int) (any, bool) {
	f := s.fields(node, name+".")
	if f == nil || len(f.nodes)*2 != len(node.Content) {
		return nil, false // noted by fields
	}
	object := make(map[string]any, len(f.nodes))
	for _, key := range f.keys {
		v, ok := s.jsonValue(f.nodes[key.Value], clip(name)+"."+clip(key.Value), depth+1)
		if !ok {
			return nil, false
		}
		object[key.Value] = v
	}
	return object, true
}

func (s *source) jsonScalar(node *yaml.Node, name string) (any, bool) {
	switch node.ShortTag() {
	case "!!str", "!!timestamp":
		return node.Value, true
	case "!!null":
		return nil, true
	case "!!bool":
		return strings.EqualFold(node.Value, "true"), true
	case "!!int", "!!float":
		var v any
		if err := node.Decode(&v); err == nil {
			if raw, err := json.Marshal(v); err == nil { // fails for infinity and NaN
				return json.Number(raw), true
			}
		}
	}
	s.fail(node, "%s must be a JSON value, got %s", clip(name), describe(node))
	return nil, false
}
