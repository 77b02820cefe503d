package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/troupe-run/troupe/node"
)

// fileReader reads one YAML file into the keys, and notes whatever is not as it must be, with its line.
type fileReader struct {
	name     string
	keys     map[string]*Key
	seen     map[string]int // path → line
	problems Problems
}

// problem notes what is wrong at a line.
func (f *fileReader) problem(line int, format string, args ...any) {
	f.problems = append(f.problems, fmt.Sprintf("%s:%d: %s", f.name, line, fmt.Sprintf(format, args...)))
}

func (f *fileReader) read(text []byte) Problems {
	f.seen = map[string]int{}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return Problems{fmt.Sprintf("%s: %s", f.name, strings.TrimPrefix(err.Error(), "yaml: "))}
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return Problems{f.name + ": holds more than one YAML document; keep one"}
	}
	if root := doc.Content[0]; root.Tag != "!!null" {
		f.mapping(root, "")
	}
	return f.problems
}

// mapping reads one level of the file.
func (f *fileReader) mapping(n *yaml.Node, prefix string) {
	if n.Kind != yaml.MappingNode {
		f.problem(n.Line, "%s must hold keys, as in %q", orRoot(prefix), "listen: 127.0.0.1:7070")
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		path := prefix + name.Value
		if line, twice := f.seen[path]; twice {
			f.problem(name.Line, "%s is given a second time; the first is in line %d", path, line)
			continue
		}
		f.seen[path] = name.Line
		f.entry(path, name.Line, value)
	}
}

func orRoot(prefix string) string {
	if prefix == "" {
		return "the file"
	}
	return strings.TrimSuffix(prefix, ".")
}

func (f *fileReader) entry(path string, line int, value *yaml.Node) {
	if k := f.keys[path]; k != nil {
		f.value(k, value)
		return
	}
	if !f.group(path) {
		f.problem(line, "unknown key %s%s", path, suggest(path, f.names()))
		return
	}
	if value.Tag != "!!null" {
		f.mapping(value, path+".")
	}
}

// group reports whether keys lie below the path.
func (f *fileReader) group(path string) bool {
	for p := range f.keys {
		if strings.HasPrefix(p, path+".") {
			return true
		}
	}
	return false
}

func (f *fileReader) names() []string {
	names := make([]string, 0, len(f.keys))
	for p := range f.keys {
		names = append(names, p)
	}
	slices.Sort(names)
	return names
}

func (f *fileReader) value(k *Key, n *yaml.Node) {
	source := fmt.Sprintf("file %s:%d", f.name, n.Line)
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null":
		return // an empty value leaves the default
	case k.value.Type() == tokensType && n.Kind == yaml.SequenceNode:
		f.tokens(k, n, source)
	case k.value.Type() == poolsType && n.Kind == yaml.MappingNode:
		f.pools(k, n, source)
	case k.value.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		f.list(k, n, source)
	case k.value.Kind() != reflect.Slice && k.value.Kind() != reflect.Map && n.Kind == yaml.ScalarNode:
		if p := k.take(n.Value, source); p != "" {
			f.problems = append(f.problems, p)
		}
	default:
		f.problem(n.Line, "%s must be %s", k.Path, shape(k))
	}
}

// shape says what stands behind the key in a file.
func shape(k *Key) string {
	switch k.value.Kind() {
	case reflect.Slice:
		return "a " + k.Type()
	case reflect.Map:
		return "a mapping (" + k.Type() + ")"
	}
	return "one value (" + k.Type() + ")"
}

func (f *fileReader) list(k *Key, n *yaml.Node, source string) {
	var list []string
	for _, item := range n.Content {
		if item.Kind != yaml.ScalarNode {
			f.problem(item.Line, "%s: an entry must be a text", k.Path)
			return
		}
		list = append(list, item.Value)
	}
	k.value.Set(reflect.ValueOf(list))
	k.Source = source
}

// pools reads settings by the names of pools.
func (f *fileReader) pools(k *Key, n *yaml.Node, source string) {
	pools, lines := node.PoolSettings{}, map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		if line, twice := lines[name.Value]; twice {
			f.problem(name.Line, "%s.%s is given a second time; the first is in line %d", k.Path, name.Value, line)
			continue
		}
		lines[name.Value] = name.Line
		text, err := yaml.Marshal(value)
		var setting node.PoolSetting
		dec := yaml.NewDecoder(bytes.NewReader(text))
		dec.KnownFields(true)
		if err != nil || value.Kind != yaml.MappingNode || dec.Decode(&setting) != nil {
			f.problem(name.Line, "%s.%s must have the key dispatch, and no other, as in {dispatch: direct}", k.Path, name.Value)
			continue
		}
		pools[name.Value] = setting
	}
	k.value.Set(reflect.ValueOf(pools))
	k.Source = source
}

func (f *fileReader) tokens(k *Key, n *yaml.Node, source string) {
	k.value.Set(reflect.ValueOf(f.tokenList(k.Path, n)))
	k.Source = source
}

// tokenList reads a list of tokens.
func (f *fileReader) tokenList(path string, n *yaml.Node) []Token {
	var tokens []Token
	for _, item := range n.Content {
		text, err := yaml.Marshal(item)
		if err != nil {
			f.problem(item.Line, "%s: an entry cannot be read", path)
			continue
		}
		var t Token
		dec := yaml.NewDecoder(bytes.NewReader(text))
		dec.KnownFields(true)
		if dec.Decode(&t) != nil {
			// The library's error would quote the value, which may be the secret itself.
			f.problem(item.Line, "%s: an entry must have the keys name, scopes (a list) and token, token_env or certificate, may have expires, and no others", path)
			continue
		}
		tokens = append(tokens, t)
	}
	return tokens
}
