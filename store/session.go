package store

import (
	"strings"
	"unicode/utf8"
)

// SessionFilter says which sessions a list has. Its zero value has all.
type SessionFilter struct {
	Pool   string // only this one
	Prefix string // only names that begin so
	Bound  bool   // only those that are bound to a worker
}

// Position splits the position after which a list goes on into a pool and a name. Empty: from the start.
func (f *SessionFilter) Position(after string) (pool, name string) {
	if f.Pool != "" {
		return f.Pool, after
	}
	pool, name, _ = strings.Cut(after, "/")
	return pool, name
}

// PrefixEnd is the first text, in the order of bytes, behind all that begin with a prefix; empty: there is none.
func PrefixEnd(prefix string) string {
	runes := []rune(prefix)
	for i := len(runes) - 1; i >= 0; i-- {
		if runes[i] == utf8.MaxRune {
			continue
		}
		runes[i]++
		if runes[i] == 0xD800 { // no text has surrogates
			runes[i] = 0xE000
		}
		return string(runes[:i+1])
	}
	return ""
}
