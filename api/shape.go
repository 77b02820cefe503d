package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
)

// linearKeys is the number of an object's keys up to which keys are compared one by one. For more, a map is used.
const linearKeys = 16

// level is one open object or list.
type level struct {
	object bool
	key    bool // the next string is a key
	first  int  // index of its first key
	seen   map[string]struct{}
}

// shape reads a JSON text once. It does not check the grammar. It refuses texts that would be expensive or ambiguous to
// parse: nesting that is too deep, a key that is twice in one object, and a key of the outermost object that does not
// exactly match one of fields.
type shape struct {
	text   []byte
	what   string          // name of the text in problems
	fields map[string]bool // nil: any
	levels []level
	keys   [][]byte // keys of all open objects
}

// checkShape returns the first problem of a text that will be decoded into v.
func checkShape(what string, text []byte, v any) *messages.Problem {
	var levels [messages.JSONDepthMax + bodyWrap]level
	var keys [64][]byte
	s := shape{text: text, what: what, fields: fieldsOf(reflect.TypeOf(v)), levels: levels[:0], keys: keys[:0]}
	return s.check()
}

func (s *shape) check() *messages.Problem {
	for i := 0; i < len(s.text); i++ {
		switch c := s.text[i]; c {
		case '"':
			end := closingQuote(s.text, i+1)
			if p := s.quoted(i, end); p != nil {
				return p
			}
			i = end
		case '{', '[':
			if len(s.levels) == cap(s.levels) {
				return submit.TooDeep(s.what)
			}
			s.levels = append(s.levels, level{object: c == '{', key: c == '{', first: len(s.keys)})
		case '}', ']':
			if n := len(s.levels) - 1; n >= 0 {
				s.keys = s.keys[:s.levels[n].first]
				s.levels = s.levels[:n]
			}
		case ',':
			if n := len(s.levels) - 1; n >= 0 {
				s.levels[n].key = s.levels[n].object
			}
		}
	}
	return nil
}

// quoted handles the string between two quotes. A key must be new in its object.
func (s *shape) quoted(start, end int) *messages.Problem {
	n := len(s.levels) - 1
	if n < 0 || !s.levels[n].key {
		return nil
	}
	l := &s.levels[n]
	l.key = false
	key := plainKey(s.text[start+1 : min(end, len(s.text))])
	if n == 0 && s.fields != nil && !s.fields[string(key)] {
		return s.unknown(string(key))
	}
	if s.repeated(l, key) {
		p := messages.Problemf(messages.CodeDuplicateField, "%s has the key %q twice in one object (byte %d); send it once", s.what, clip(string(key)), start)
		p.Details = map[string]any{"field": clip(string(key))}
		return p
	}
	return nil
}

// repeated reports whether the object has the key already. If not, it adds the key.
func (s *shape) repeated(l *level, key []byte) bool {
	if l.seen == nil {
		keys := s.keys[l.first:]
		for _, k := range keys {
			if bytes.Equal(k, key) {
				return true
			}
		}
		if len(keys) < linearKeys {
			s.keys = append(s.keys, key)
			return false
		}
		l.seen = make(map[string]struct{}, 4*linearKeys)
		for _, k := range keys {
			l.seen[string(k)] = struct{}{}
		}
	}
	_, twice := l.seen[string(key)]
	l.seen[string(key)] = struct{}{}
	return twice
}

// unknown returns the problem of an unknown field. If a known field differs only in case, it names that.
func (s *shape) unknown(name string) *messages.Problem {
	p := unknownField(name)
	for field := range s.fields {
		if strings.EqualFold(field, name) {
			p.Message = fmt.Sprintf("unknown field %q; write it as %q", clip(name), field)
		}
	}
	return p
}

// closingQuote returns the end of the string whose first character is at i, or the text's length if it has no end.
func closingQuote(text []byte, i int) int {
	for ; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(text)
}

// plainKey returns the key without escapes: the same key may be written with them.
func plainKey(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	var plain string
	quoted := append(append([]byte{'"'}, raw...), '"')
	if json.Unmarshal(quoted, &plain) != nil {
		return raw // the parser refuses it
	}
	return []byte(plain)
}

var knownFields sync.Map // of reflect.Type to map[string]bool

// fieldsOf lists the JSON names of a struct's fields, with those of embedded structs; nil if it is no struct.
func fieldsOf(t reflect.Type) map[string]bool {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	if known, ok := knownFields.Load(t); ok {
		return known.(map[string]bool)
	}
	fields := map[string]bool{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-", f.Anonymous && name == "", !f.IsExported():
		case name == "":
			fields[f.Name] = true
		default:
			fields[name] = true
		}
	}
	known, _ := knownFields.LoadOrStore(t, fields)
	return known.(map[string]bool)
}
