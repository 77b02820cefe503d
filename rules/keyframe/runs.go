package keyframe

import (
	"strconv"
	"strings"
)

// Runs writes letters by runs: each letter, and how often it stands there where that is more than once, in parentheses. aab is a(2)b.
func Runs(letters []byte) string {
	var b strings.Builder
	for i := 0; i < len(letters); {
		n := 1
		for i+n < len(letters) && letters[i+n] == letters[i] {
			n++
		}
		b.WriteByte(letters[i])
		if n > 1 {
			b.WriteString("(" + strconv.Itoa(n) + ")")
		}
		i += n
	}
	return b.String()
}

// Unrun is the inverse of Runs, for at most so many letters.
func Unrun(text string, most int) (string, error) {
	var b strings.Builder
	for len(text) > 0 {
		n, rest := 1, text[1:]
		if strings.HasPrefix(rest, "(") {
			count, after, closed := strings.Cut(rest[1:], ")")
			var err error
			if n, err = strconv.Atoi(count); err != nil || !closed || n < 1 {
				return "", errDamaged
			}
			rest = after
		}
		if n > most-b.Len() {
			return "", errDamaged
		}
		b.WriteString(strings.Repeat(text[:1], n))
		text = rest
	}
	return b.String(), nil
}
