package pack

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/troupe-run/troupe/messages"
)

// CheckJSON refuses a text that is not exactly one JSON value in UTF-8, or that nests deeper than
// messages.JSONDepthMax. The depth is judged first, in one pass that neither recurses nor allocates and stops where
// it is exceeded, so that deep nesting costs no more than its first levels.
func CheckJSON(raw []byte) error {
	if at := tooDeep(raw, messages.JSONDepthMax); at >= 0 {
		return fmt.Errorf("nested deeper than %d levels at byte %d", messages.JSONDepthMax, at)
	}
	if !utf8.Valid(raw) {
		return fmt.Errorf("not UTF-8")
	}
	if !json.Valid(raw) {
		var v json.RawMessage
		return fmt.Errorf("not valid JSON: %w", json.Unmarshal(raw, &v))
	}
	return nil
}

// tooDeep is where the nesting first exceeds the limit, or -1. On a text that is not JSON it says something, which
// does not matter, since that is refused anyway.
func tooDeep(raw []byte, limit int) int {
	depth, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted:
			switch c {
			case '\\':
				i++
			case '"':
				quoted = false
			}
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			if depth++; depth > limit {
				return i
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return -1
}
