package messages

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of JSON that is stored.
const (
	JSONDepthMax  = 100  // nesting
	JSONDigitsMax = 1000 // digits of one number: programs take long to read more, or end over them
	jsonPathMax   = 512  // bytes of a path that is shown
	jsonNameMax   = 64   // bytes of a name in it
	sortedNames   = 16   // names of one object that are compared one by one
)

// JSONProblem is what keeps a text from being JSON as Troupe stores it, and where. It has no value of the text.
type JSONProblem struct {
	Path   string // JSON pointer; empty: the whole text
	Reason string // "is NaN"
}

func (p *JSONProblem) Error() string { return p.Of("the value") }

// Of describes the problem of a text that is called what.
func (p *JSONProblem) Of(what string) string {
	if p.Path == "" {
		return what + " " + p.Reason
	}
	return p.Path + " " + p.Reason
}

// Under returns the problem of a text that stands in another one, under the name.
func (p *JSONProblem) Under(name string) *JSONProblem {
	return &JSONProblem{Path: jsonStep(name) + p.Path, Reason: p.Reason}
}

// CheckJSON is the one check of JSON that comes from callers or from programs: parameters, results, chunks, an error's details, a
// session's state. The text is exactly one value in UTF-8; each name stands once in its object; texts have no half of a surrogate
// pair; numbers have up to JSONDigitsMax digits; it nests up to JSONDepthMax deep. Numbers may be larger than a program can read. Nil: it
// is such a text.
func CheckJSON(text []byte) *JSONProblem { return CheckJSONWithin(text, JSONDepthMax) }

// CheckJSONWithin is CheckJSON with another bound of the depth, for what has JSON inside. Problems name JSONDepthMax.
func CheckJSONWithin(text []byte, depth int) *JSONProblem {
	s := jsonScanner{text: text, utf8: utf8.Valid(text), depth: depth}
	s.blanks()
	p := s.value()
	if p == nil {
		if s.blanks(); s.at == len(text) {
			return nil
		}
		p = &JSONProblem{Reason: fmt.Sprintf("goes on after its JSON value, at byte %d", s.at)}
	}
	if len(p.Path) > jsonPathMax {
		half := jsonPathMax / 2
		p.Path = strings.ToValidUTF8(p.Path[:half]+cutMark+p.Path[len(p.Path)-half:], "")
	}
	return p
}

// EncodeJSON writes a value of a Go program as JSON that is stored. A json.RawMessage is taken as it is. Texts that are not UTF-8 are an
// error: encoding/json would put other characters in their place. A *JSONProblem is one that the value's own JSON has.
func EncodeJSON(v any) (json.RawMessage, error) {
	raw, given := v.(json.RawMessage)
	if !given {
		var err error
		if raw, err = json.Marshal(v); err != nil {
			if p := unfit(reflect.ValueOf(v), 0); p != nil {
				return nil, p
			}
			return nil, err
		}
	}
	if p := CheckJSON(raw); p != nil {
		return nil, p
	}
	if !given && replaced(raw) {
		return nil, errors.New("a text in it is not UTF-8")
	}
	return raw, nil
}

// unfit finds the part of a value that JSON has nothing for; nil: none is found.
func unfit(v reflect.Value, depth int) *JSONProblem {
	if depth > JSONDepthMax {
		return &JSONProblem{Reason: fmt.Sprintf("is nested deeper than %d levels", JSONDepthMax)} // or a part of itself
	}
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return &JSONProblem{Reason: fmt.Sprintf("is %v, which JSON has no number for", f)}
		}
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return &JSONProblem{Reason: "is a " + v.Type().String()}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return unfit(v.Elem(), depth+1)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if p := unfit(v.Index(i), depth+1); p != nil {
				return p.Under(strconv.Itoa(i))
			}
		}
	case reflect.Map:
		for name, part := range v.Seq2() {
			if p := unfit(part, depth+1); p != nil {
				return p.Under(fmt.Sprint(name))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !field.IsExported() || name == "-" {
				continue
			}
			if p := unfit(v.Field(i), depth+1); p != nil {
				return p.Under(cmp.Or(name, field.Name))
			}
		}
	}
	return nil
}

// replaced reports whether encoding/json has put the replacement character in the place of bytes that are not UTF-8: only then it
// writes it as an escape.
func replaced(raw []byte) bool {
	const escape = `\ufffd`
	for {
		i := bytes.Index(raw, []byte(escape))
		if i < 0 {
			return false
		}
		slashes := 0
		for slashes < i && raw[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return true
		}
		raw = raw[i+len(escape):]
	}
}

// jsonScanner reads a text once. It recurses as deep as the text may nest.
type jsonScanner struct {
	text  []byte
	at    int
	utf8  bool     // the whole text is
	depth int      // levels that are left
	names [][]byte // of all open objects
}

func (s *jsonScanner) blanks() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// take takes a byte, with the blanks behind it, if it is the next one.
func (s *jsonScanner) take(c byte) bool {
	if s.at == len(s.text) || s.text[s.at] != c {
		return false
	}
	s.at++
	s.blanks()
	return true
}

// wrong is the problem of a text that is no JSON.
func (s *jsonScanner) wrong() *JSONProblem {
	if s.at >= len(s.text) {
		return &JSONProblem{Reason: "ends in the middle of its JSON"}
	}
	return &JSONProblem{Reason: fmt.Sprintf("is not JSON at byte %d", s.at)}
}

func (s *jsonScanner) value() *JSONProblem {
	if s.at == len(s.text) {
		return s.wrong()
	}
	switch c := s.text[s.at]; {
	case c == '"':
		_, p := s.quoted()
		return p
	case c == '{' || c == '[':
		if s.depth == 0 {
			return &JSONProblem{Reason: fmt.Sprintf("is nested deeper than %d levels", JSONDepthMax)}
		}
		s.depth--
		s.at++
		s.blanks()
		p := s.inside(c == '{')
		s.depth++
		return p
	case c >= '0' && c <= '9' || c == '-':
		return s.number()
	}
	return s.word()
}

// inside reads an object or a list behind its beginning.
func (s *jsonScanner) inside(object bool) *JSONProblem {
	if object {
		return s.object()
	}
	if s.take(']') {
		return nil
	}
	for i := 0; ; i++ {
		if p := s.value(); p != nil {
			return &JSONProblem{Path: "/" + strconv.Itoa(i) + p.Path, Reason: p.Reason}
		}
		if s.blanks(); s.take(',') {
			continue
		}
		if s.take(']') {
			return nil
		}
		return s.wrong()
	}
}

func (s *jsonScanner) object() *JSONProblem {
	if s.take('}') {
		return nil
	}
	first := len(s.names)
	var many map[string]struct{}
	for {
		if s.at == len(s.text) || s.text[s.at] != '"' {
			return s.wrong()
		}
		name, p := s.quoted()
		if p != nil {
			return p
		}
		name = plainName(name)
		if s.known(s.names[first:], name, &many) {
			return &JSONProblem{Path: jsonStep(string(name)), Reason: "is there twice in one object"}
		}
		if many == nil {
			s.names = append(s.names, name)
		}
		if s.blanks(); !s.take(':') {
			return s.wrong()
		}
		if p := s.value(); p != nil {
			return p.Under(string(name))
		}
		if s.blanks(); s.take(',') {
			continue
		}
		s.names = s.names[:first]
		if s.take('}') {
			return nil
		}
		return s.wrong()
	}
}

// known reports whether an object has had the name. From sortedNames on the names are in a map.
func (s *jsonScanner) known(names [][]byte, name []byte, many *map[string]struct{}) bool {
	if *many == nil {
		for _, n := range names {
			if bytes.Equal(n, name) {
				return true
			}
		}
		if len(names) < sortedNames {
			return false
		}
		*many = make(map[string]struct{}, 4*sortedNames)
		for _, n := range names {
			(*many)[string(n)] = struct{}{}
		}
	}
	before := len(*many)
	(*many)[string(name)] = struct{}{}
	return len(*many) == before
}

// jsonStep is one step of a path.
func jsonStep(name string) string {
	name = strings.NewReplacer("~", "~0", "/", "~1").Replace(ClipText(name, jsonNameMax))
	return "/" + strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' {
			return '\uFFFD'
		}
		return r
	}, name)
}

// plainName is a name without its quotes and escapes.
func plainName(quoted []byte) []byte {
	var plain string
	if bytes.IndexByte(quoted, '\\') < 0 || json.Unmarshal(quoted, &plain) != nil {
		return quoted[1 : len(quoted)-1]
	}
	return []byte(plain)
}

// quoted reads a text and returns it as it is written.
func (s *jsonScanner) quoted() ([]byte, *JSONProblem) {
	from := s.at
	for s.at++; s.at < len(s.text); s.at++ {
		c := s.text[s.at]
		if c > '\\' || c >= ' ' && c != '"' && c != '\\' { // most of a text
			continue
		}
		switch {
		case c == '"':
			s.at++
			raw := s.text[from:s.at]
			if !s.utf8 && !utf8.Valid(raw) {
				return nil, &JSONProblem{Reason: "is not UTF-8"}
			}
			return raw, nil
		case c < ' ':
			return nil, s.wrong()
		default:
			if p := s.escape(); p != nil {
				return nil, p
			}
		}
	}
	return nil, s.wrong()
}

// escape reads up to the last byte of an escape.
func (s *jsonScanner) escape() *JSONProblem {
	s.at++
	if s.at == len(s.text) {
		return s.wrong()
	}
	switch s.text[s.at] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
	default:
		return s.wrong()
	}
	first, ok := s.hex(s.at + 1)
	if !ok {
		return s.wrong()
	}
	s.at += 4
	if first < 0xd800 || first > 0xdfff {
		return nil
	}
	if rest := s.text[s.at+1:]; first < 0xdc00 && len(rest) > 1 && rest[0] == '\\' && rest[1] == 'u' {
		if second, ok := s.hex(s.at + 3); ok && second >= 0xdc00 && second <= 0xdfff {
			s.at += 6
			return nil
		}
	}
	return &JSONProblem{Reason: "has half of a surrogate pair, which is no character"}
}

// hex reads four hexadecimal digits.
func (s *jsonScanner) hex(at int) (rune, bool) {
	if at+4 > len(s.text) {
		return 0, false
	}
	n := rune(0)
	for _, c := range s.text[at : at+4] {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			n = n<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return n, true
}

func (s *jsonScanner) number() *JSONProblem {
	from := s.at
	if s.text[s.at] == '-' {
		if s.at++; s.at < len(s.text) && s.text[s.at] == 'I' {
			s.at = from
			return s.word()
		}
	}
	whole := s.digits()
	if whole == 0 || whole > 1 && s.text[s.at-whole] == '0' {
		return s.wrong()
	}
	all := whole
	if s.at < len(s.text) && s.text[s.at] == '.' {
		s.at++
		n := s.digits()
		if n == 0 {
			return s.wrong()
		}
		all += n
	}
	if s.at < len(s.text) && s.text[s.at]|0x20 == 'e' {
		if s.at++; s.at < len(s.text) && (s.text[s.at] == '+' || s.text[s.at] == '-') {
			s.at++
		}
		n := s.digits()
		if n == 0 {
			return s.wrong()
		}
		all += n
	}
	if all > JSONDigitsMax {
		return &JSONProblem{Reason: fmt.Sprintf("is a number of %d digits, more than the %d that one may have; send it as a text", all, JSONDigitsMax)}
	}
	return nil
}

// digits reads digits and returns how many there were.
func (s *jsonScanner) digits() int {
	from := s.at
	for s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
		s.at++
	}
	return s.at - from
}

// word reads true, false or null. It names what other languages write for numbers that JSON does not have.
func (s *jsonScanner) word() *JSONProblem {
	rest := s.text[s.at:]
	for _, word := range []string{"true", "false", "null"} {
		if len(rest) >= len(word) && string(rest[:len(word)]) == word {
			s.at += len(word)
			return nil
		}
	}
	for _, word := range []string{"NaN", "Infinity", "-Infinity"} {
		if bytes.HasPrefix(rest, []byte(word)) {
			return &JSONProblem{Reason: "is " + word + ", which JSON has no number for"}
		}
	}
	return s.wrong()
}
