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

// linearKeys is up to how many keys of an object are compared one by one; more are kept in a map.
const linearKeys = 16

// level is one object or list that is open at a place of a JSON text.
type level struct {
	object bool
	key    bool // the next string is a key
	first  int  // of its keys
	seen   map[string]struct{}
}

// shape reads a JSON text once, judges no grammar, and refuses what would be dear or ambiguous to parse: nesting that is too
// deep, a key that stands twice in one object, and a key of the outermost object that is none of fields to the letter.
type shape struct {
	text   []byte
	what   string          // that problems call the text
	fields map[string]bool // nil: any
	levels []level
	keys   [][]byte // of all open objects
}

// checkShape returns the first thing that is wrong with a text that is to be read into v.
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

// quoted takes the string between two quotes: where it is a key it must be new to its object.
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

// repeated reports whether the object has the key already, and takes it up.
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

// unknown is the problem of a field that is not known, with the one that was meant where only the letters' case differs.
func (s *shape) unknown(name string) *messages.Problem {
	p := unknownField(name)
	for field := range s.fields {
		if strings.EqualFold(field, name) {
			p.Message = fmt.Sprintf("unknown field %q; write it as %q", clip(name), field)
		}
	}
	return p
}

// closingQuote is where the string ends whose first character is at i; the text's length where it does not.
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

// plainKey is the key as its reader sees it: the same key may be written with escapes.
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

// fieldsOf lists the JSON names of a struct's fields, with those of embedded structs; nil: it is no struct.
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
