package postgres

import (
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// hexMark begins a text that Postgres could not store as it is.
const hexMark = `\x`

// encodeText makes a Go text storable in Postgres. A text that holds a NUL byte, is not UTF-8, or begins with the mark
// becomes the mark and its bytes in hex. All others stay as they are.
func encodeText(s string) string {
	if !strings.HasPrefix(s, hexMark) && !strings.ContainsRune(s, 0) && utf8.ValidString(s) {
		return s
	}
	return hexMark + hex.EncodeToString([]byte(s))
}

// decodeText is the inverse of encodeText. If the rest after the mark is not hex, another program wrote the text, and
// it is returned as it is.
func decodeText(s string) string {
	rest, ok := strings.CutPrefix(s, hexMark)
	if !ok {
		return s
	}
	b, err := hex.DecodeString(rest)
	if err != nil {
		return s
	}
	return string(b)
}
