package pack

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// fields reads the keys of one mapping strictly. Each key has one getter. It notes a problem with the value and then
// returns the zero value. done notes the keys that no getter read.
type fields struct {
	*source
	node  *yaml.Node
	path  string // prefix of the keys in problems, "retry."
	nodes map[string]*yaml.Node
	keys  []*yaml.Node
	known []string
}

// fields opens a mapping. If the node is not a mapping, it notes that and returns nil.
func (s *source) fields(node *yaml.Node, path string) *fields {
	if node.Kind != yaml.MappingNode {
		name := cmp.Or(strings.TrimSuffix(path, "."), s.what, "the file")
		s.fail(node, "%s must be a mapping of keys to values, got %s", name, describe(node))
		return nil
	}
	f := &fields{source: s, node: node, path: path, nodes: map[string]*yaml.Node{}}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge":
			s.fail(key, "%s is not a key: keys are plain text", path+describe(key))
			continue
		case f.nodes[key.Value] != nil:
			s.fail(key, "the key %s is there twice", path+clip(key.Value))
			continue
		}
		f.nodes[key.Value] = value
		f.keys = append(f.keys, key)
	}
	return f
}

// done notes every key that no getter read.
func (f *fields) done() {
	for _, key := range f.keys {
		if !slices.Contains(f.known, key.Value) {
			f.fail(key, "unknown key %s: the keys are %s", f.path+clip(key.Value), strings.Join(f.known, ", "))
		}
	}
}

// get returns the value of a key, or nil where the key is missing.
func (f *fields) get(key string) *yaml.Node {
	f.known = append(f.known, key)
	return f.nodes[key]
}

// wrong notes a value that does not suit the key.
func (f *fields) wrong(node *yaml.Node, key, want string) {
	f.fail(node, "%s must be %s, got %s", f.path+key, want, describe(node))
}

// text reads a text without control characters. Long texts may have line breaks and tabs.
func (f *fields) text(key string, limit int, long bool) string {
	node := f.get(key)
	if node == nil {
		return ""
	}
	return f.plain(node, f.path+key, limit, long)
}

// plain checks one text node.
func (s *source) plain(node *yaml.Node, name string, limit int, long bool) string {
	if node.Kind != yaml.ScalarNode || node.ShortTag() != "!!str" {
		hint := ""
		if node.Kind == yaml.ScalarNode && node.ShortTag() != "!!null" {
			hint = ": put it in quotes"
		}
		s.fail(node, "%s must be text, got %s%s", name, describe(node), hint)
		return ""
	}
	text := node.Value
	switch bad := strings.IndexFunc(text, func(r rune) bool { return control(r, long) }); {
	case text == "":
		s.fail(node, "%s is empty", name)
	case len(text) > limit:
		s.fail(node, "%s has %d bytes, at most %d are allowed", name, len(text), limit)
	case !utf8.ValidString(text):
		s.fail(node, "%s is not UTF-8", name)
	case bad >= 0:
		r, _ := utf8.DecodeRuneInString(text[bad:])
		s.fail(node, "%s holds the control character %U at byte %d", name, r, bad)
	default:
		return text
	}
	return ""
}

func control(r rune, long bool) bool {
	if long && (r == '\n' || r == '\t') {
		return false
	}
	return r < 0x20 || (r >= 0x7f && r < 0xa0)
}

// flag reads true or false.
func (f *fields) flag(key string) bool {
	node := f.get(key)
	if node == nil {
		return false
	}
	if node.Kind != yaml.ScalarNode || node.ShortTag() != "!!bool" {
		f.wrong(node, key, "true or false")
		return false
	}
	return strings.EqualFold(node.Value, "true")
}

// integer reads a whole number between low and high; ok is false where there is none.
func (f *fields) integer(key string, low, high int) (n int, ok bool) {
	node := f.get(key)
	if node == nil {
		return 0, false
	}
	if node.Kind != yaml.ScalarNode || node.ShortTag() != "!!int" {
		f.wrong(node, key, "a whole number")
		return 0, false
	}
	v, err := strconv.ParseInt(strings.ReplaceAll(node.Value, "_", ""), 0, 64)
	if err != nil || v < int64(low) || v > int64(high) {
		f.fail(node, "%s must be %s, got %s", f.path+key, between(low, high), clip(node.Value))
		return 0, false
	}
	return int(v), true
}

// between describes a range for people.
func between(low, high int) string {
	return strconv.Itoa(low) + " to " + strconv.Itoa(high)
}

// number reads a number between low and high, both included.
func (f *fields) number(key string, low, high float64, want string) (v float64, ok bool) {
	node := f.get(key)
	if node == nil {
		return 0, false
	}
	v, ok = numberOf(node)
	if !ok {
		f.wrong(node, key, "a number")
		return 0, false
	}
	if v < low || v > high {
		f.fail(node, "%s must be %s, got %s", f.path+key, want, clip(node.Value))
		return 0, false
	}
	return v, true
}

func numberOf(node *yaml.Node) (float64, bool) {
	if node.Kind != yaml.ScalarNode || (node.ShortTag() != "!!int" && node.ShortTag() != "!!float") {
		return 0, false
	}
	var v float64
	if node.Decode(&v) != nil || v != v {
		return 0, false
	}
	return v, true
}

// secondsMax is about a year.
const secondsMax = 30 << 20

// seconds reads a positive number of seconds.
func (f *fields) seconds(key string) time.Duration {
	node := f.get(key)
	if node == nil {
		return 0
	}
	v, ok := numberOf(node)
	switch {
	case !ok:
		f.wrong(node, key, "a number of seconds")
	case v <= 0:
		f.fail(node, "%s must be positive, got %s", f.path+key, clip(node.Value))
	case v > secondsMax:
		f.fail(node, "%s must be at most %d, got %s", f.path+key, secondsMax, clip(node.Value))
	default:
		return max(time.Millisecond, time.Duration(v*float64(time.Second)).Round(time.Millisecond))
	}
	return 0
}

// duration reads a positive time like 1s.
func (f *fields) duration(key string) time.Duration {
	node := f.get(key)
	if node == nil {
		return 0
	}
	if node.Kind != yaml.ScalarNode || node.ShortTag() != "!!str" {
		f.wrong(node, key, "a duration like 500ms, 30s or 1h")
		return 0
	}
	d, err := time.ParseDuration(node.Value)
	switch {
	case err != nil:
		f.fail(node, "%s must be a duration like 500ms, 30s or 1h, got %q", f.path+key, clip(node.Value))
	case d <= 0:
		f.fail(node, "%s must be positive, got %s", f.path+key, clip(node.Value))
	case d > secondsMax*time.Second:
		f.fail(node, "%s must be at most a year, got %s", f.path+key, clip(node.Value))
	default:
		return d
	}
	return 0
}

// size reads a number of bytes, plain or like 2GiB.
func (f *fields) size(key string) int64 {
	node := f.get(key)
	if node == nil {
		return 0
	}
	tag := node.ShortTag()
	if node.Kind != yaml.ScalarNode || (tag != "!!str" && tag != "!!int") {
		f.wrong(node, key, "a size like 512MiB")
		return 0
	}
	n, ok := parseSize(node.Value)
	if !ok {
		f.fail(node, "%s must be a positive size like 512MiB or 2GiB, got %q", f.path+key, clip(node.Value))
	}
	return n
}

// list reads the items of a sequence. It returns nil where the key is missing or the value is no sequence.
func (f *fields) list(key string, limit int) []*yaml.Node {
	node := f.get(key)
	if node == nil {
		return nil
	}
	if node.Kind != yaml.SequenceNode {
		f.wrong(node, key, "a list")
		return nil
	}
	if len(node.Content) > limit {
		f.fail(node, "%s has %d items, at most %d are allowed", f.path+key, len(node.Content), limit)
		return nil
	}
	return node.Content
}

// texts reads a list of texts.
func (f *fields) texts(key string, limit, length int, long bool) []string {
	var texts []string
	for i, item := range f.list(key, limit) {
		texts = append(texts, f.plain(item, f.path+key+"["+strconv.Itoa(i)+"]", length, long))
	}
	return texts
}

// sub opens the mapping at a key. It returns nil where the key is missing or the value is no mapping.
func (f *fields) sub(key string) *fields {
	node := f.get(key)
	if node == nil {
		return nil
	}
	return f.fields(node, f.path+key+".")
}

// describe describes a node, with its value if that is short.
func describe(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "the alias *" + clip(node.Value) + " (aliases are not supported)"
	}
	switch node.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!bool":
		return node.Value
	case "!!int", "!!float":
		return "the number " + clip(node.Value)
	case "!!str":
		return strconv.Quote(clip(node.Value))
	case "!!merge":
		return "<<"
	}
	return clip(node.ShortTag() + " " + node.Value)
}

func hasControl(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return control(r, true) }) >= 0
}

const nameMax = 64 // bytes

var namePattern = regexp.MustCompile(`^[a-z0-9_]+$`)

// name reads a required name.
func (f *fields) name(key string) string {
	node := f.get(key)
	if node == nil {
		f.fail(f.node, "%s is missing", f.path+key)
		return ""
	}
	name := f.plain(node, f.path+key, nameMax, false)
	if name != "" && !namePattern.MatchString(name) {
		f.fail(node, "%s must be of lower-case letters, digits and _, got %s", f.path+key, strconv.Quote(clip(name)))
		return ""
	}
	return name
}
