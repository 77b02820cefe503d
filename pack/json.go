package pack

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/troupe-run/troupe/messages"
)

// CheckJSON refuses a text that is not exactly one JSON value in UTF-8, or that nests deeper than
// messages.JSONDepthMax. It checks the depth first, in one pass without recursion and allocation. The pass stops at the
// first level too many, so deep nesting costs no more than the allowed levels.
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

// tooDeep returns where the nesting first exceeds the limit, or -1. For a text that is not JSON the result means
// nothing; such a text is refused anyway.
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
