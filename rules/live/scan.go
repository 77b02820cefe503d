package live

import (
	"bytes"
	"errors"
	"fmt"
)

var (
	errHalf   = errors.New("the text ends within a value")
	errEnough = errors.New("nothing more is looked for")
)

// eachMember calls each with the names and the values of an object, until it returns an error; errEnough is none. A name is as it is written: all
// that json.Marshal makes of a struct's fields are written as they are.
func eachMember(object []byte, each func(name, value []byte) error) error {
	err := eachValue(object, '{', '}', func(at int) (int, error) {
		colon, err := valueEnd(object, at)
		if err != nil {
			return 0, err
		}
		if colon >= len(object) || object[colon] != ':' || object[at] != '"' {
			return 0, errors.New("want a member of an object")
		}
		end, err := valueEnd(object, colon+1)
		if err != nil {
			return 0, err
		}
		return end, each(object[at+1:colon-1], object[colon+1:end])
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// eachValue goes through what stands between two brackets, separated by commas. Part is called with where a part begins, and returns where it
// ends.
func eachValue(text []byte, open, shut byte, part func(at int) (end int, err error)) error {
	if len(text) == 0 || text[0] != open {
		return fmt.Errorf("want JSON that begins with %c", open)
	}
	if len(text) == 2 && text[1] == shut {
		return nil
	}
	for at := 1; ; at++ {
		end, err := part(at)
		switch {
		case err != nil:
			return err
		case end >= len(text):
			return errHalf
		case text[end] == shut:
			return nil
		case text[end] != ',':
			return fmt.Errorf("want a comma or %c, got %c", shut, text[end])
		}
		at = end
	}
}

// valueEnd is where the value ends that begins at a place of a JSON text without spaces.
func valueEnd(text []byte, at int) (int, error) {
	for depth := 0; at < len(text); at++ {
		switch text[at] {
		case '"':
			if at = stringEnd(text, at); at < 0 {
				return 0, errHalf
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ',', ':':
			continue
		default: // a number, true, false or null
			for at+1 < len(text) && !isMark(text[at+1]) {
				at++
			}
		}
		if depth <= 0 {
			return at + 1, nil
		}
	}
	return 0, errHalf
}

// isMark reports whether a character ends a number or a word.
func isMark(c byte) bool { return c == ',' || c == '}' || c == ']' || c == ':' }

// stringEnd is the place of the quotation mark that ends the string that begins at a place; -1: there is none.
func stringEnd(text []byte, at int) int {
	for at++; at < len(text); at += 2 { // behind a backslash and what it stands before
		mark := bytes.IndexByte(text[at:], '"')
		if mark < 0 {
			return -1
		}
		escape := bytes.IndexByte(text[at:at+mark], '\\')
		if escape < 0 {
			return at + mark
		}
		at += escape
	}
	return -1
}
