package mask

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// The bounds of a Set. A shorter value would be found in texts that have nothing to do with it.
const (
	ValueMin  = 8        // bytes of one value
	ValueMax  = 16 << 10 // bytes of one value
	ValuesMax = 32       // values
	totalMax  = 64 << 10 // bytes of all values together
	lineMin   = 16       // bytes of a line of a value of several that is looked for by itself
)

// Mark stands where a secret was.
const Mark = "[redacted]"

// Set is the values to look for, and the forms that they take: as they are, and as in a JSON text; each long line of a value
// of several lines too, since programs print keys line by line. It does not change, and may be used by many at once. A nil
// Set has none.
//
// Every byte that belongs to a form of a value goes, so that texts of many values that overlap leave nothing. Its cost is
// linear in the text, whatever the values are.
type Set struct {
	// A trie of all forms with failure links (Aho and Corasick, 1975), by node: the byte that leads to it, its first child,
	// its next sibling, the node of its longest proper suffix, its depth, and the length of the longest form that ends with it.
	letter                            []byte
	child, sibling, fail, depth, ends []int32
	// Of the forms that a node begins: the length of the shortest. And how many of the last bytes, at a node, are the first half
	// or more of a form; 0: none.
	least, part []int32
}

// Check says what keeps a value from being masked, or nil. The error does not show it.
func Check(value string) error {
	switch {
	case len(value) < ValueMin:
		return fmt.Errorf("it has %d bytes, and one of fewer than %d cannot be told from other text: use a longer one", len(value), ValueMin)
	case len(value) > ValueMax:
		return fmt.Errorf("it has %d bytes, at most %d are allowed", len(value), ValueMax)
	case strings.Contains(value, "\x00"):
		return errors.New("it has a NUL byte, which no variable can hold: encode it")
	}
	return nil
}

// New returns the Set of the values. The error does not show them.
func New(values []string) (*Set, error) {
	if len(values) == 0 {
		return nil, nil //nolint:nilnil // a nil Set masks nothing, as documented
	}
	total := 0
	for _, v := range values {
		if err := Check(v); err != nil {
			return nil, err
		}
		total += len(v)
	}
	if len(values) > ValuesMax || total > totalMax {
		return nil, fmt.Errorf("%d secrets of %d bytes together; at most %d of %d are allowed", len(values), total, ValuesMax, totalMax)
	}
	s := &Set{}
	s.node(0, 0)
	for _, v := range values {
		for _, form := range forms(v) {
			s.add(form)
		}
	}
	s.link()
	return s, nil
}

// Fitting returns the first of the values that New takes together, each once: those that are too short or too long to be found are
// left out, and so is what is past the bounds.
func Fitting(values []string) []string {
	var fitting []string
	total := 0
	for _, v := range values {
		if Check(v) != nil || total+len(v) > totalMax || slices.Contains(fitting, v) {
			continue
		}
		if fitting, total = append(fitting, v), total+len(v); len(fitting) == ValuesMax {
			break
		}
	}
	return fitting
}

// forms are the texts that a value may stand as.
func forms(value string) []string {
	all := []string{value}
	if lines := strings.Split(value, "\n"); len(lines) > 1 {
		for _, line := range lines {
			line = strings.TrimSuffix(line, "\r")
			if len(line) >= lineMin && !strings.HasPrefix(line, "-----") { // the frame of a PEM text is no secret
				all = append(all, line)
			}
		}
	}
	for _, plain := range slices.Clone(all) {
		var b strings.Builder
		e := json.NewEncoder(&b)
		for _, html := range []bool{true, false} {
			b.Reset()
			e.SetEscapeHTML(html)
			if e.Encode(plain) == nil {
				form := strings.Trim(strings.TrimSuffix(b.String(), "\n"), `"`)
				slashed := strings.ReplaceAll(form, "/", `\/`)
				all = append(all, form, slashed, escaped(form), escaped(slashed))
			}
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(form string) bool { return len(form) < ValueMin })
}

// escaped is a JSON text in ASCII alone, as Python and PHP write it.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r < utf8.RuneSelf:
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// node adds a node without children.
func (s *Set) node(letter byte, depth int32) int32 {
	s.letter, s.depth = append(s.letter, letter), append(s.depth, depth)
	s.child, s.sibling, s.fail, s.ends = append(s.child, 0), append(s.sibling, 0), append(s.fail, 0), append(s.ends, 0)
	s.least, s.part = append(s.least, math.MaxInt32), append(s.part, 0)
	return int32(len(s.letter) - 1) //nolint:gosec // bounded by totalMax
}

// find is the child of a node by a letter; 0: none.
func (s *Set) find(at int32, letter byte) int32 {
	for c := s.child[at]; c != 0; c = s.sibling[c] {
		if s.letter[c] == letter {
			return c
		}
	}
	return 0
}

func (s *Set) add(form string) {
	at := int32(0)
	for i := range len(form) {
		next := s.find(at, form[i])
		if next == 0 {
			next = s.node(form[i], s.depth[at]+1)
			s.sibling[next], s.child[at] = s.child[at], next
		}
		at = next
		s.least[at] = min(s.least[at], int32(len(form))) //nolint:gosec // bounded by totalMax
	}
	s.ends[at] = s.depth[at]
}

// link makes the failure links, breadth first.
func (s *Set) link() {
	queue := []int32{0}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for c := s.child[at]; c != 0; c = s.sibling[c] {
			if at != 0 {
				s.fail[c] = s.step(s.fail[at], s.letter[c])
			}
			s.ends[c] = max(s.ends[c], s.ends[s.fail[c]])
			if s.part[c] = s.part[s.fail[c]]; s.depth[c] >= s.least[c]-s.depth[c] {
				s.part[c] = s.depth[c]
			}
			queue = append(queue, c)
		}
	}
}

// step is the node behind one more letter: of the longest part of what was read that begins a form.
func (s *Set) step(at int32, letter byte) int32 {
	for {
		if next := s.find(at, letter); next != 0 {
			return next
		}
		if at == 0 {
			return 0
		}
		at = s.fail[at]
	}
}
