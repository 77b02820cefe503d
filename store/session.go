package store

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// SessionFilter says which sessions a list has. Its zero value has all.
type SessionFilter struct {
	Pools    []string    // of one of these; none: of any
	NotPools []string    // of none of these
	Names    []NameRange // with a name in one of these, as NameRanges makes them; none: with any
	Bound    bool        // only those that are bound to a worker
	Unbound  bool        // only those that are not
}

// NameRange are the names from From on and before To, in the order of bytes. An empty To has no end.
type NameRange struct{ From, To string }

// holds reports whether a name is in the range.
func (r NameRange) holds(name string) bool { return name >= r.From && (r.To == "" || name < r.To) }

// NameRanges are the names that begin with one of only, or any if that is empty, and with none of not: in order, and apart. Without one,
// no name is left.
func NameRanges(only, not []string) []NameRange {
	if len(only) == 0 {
		only = []string{""}
	}
	var ranges []NameRange
	for _, prefix := range slices.Sorted(slices.Values(only)) {
		if n := len(ranges); n == 0 || !ranges[n-1].holds(prefix) { // else what begins so is in the range before
			ranges = append(ranges, NameRange{prefix, PrefixEnd(prefix)})
		}
	}
	for _, prefix := range not {
		ranges = without(ranges, NameRange{prefix, PrefixEnd(prefix)})
	}
	return ranges
}

// without are the ranges without the names of another one.
func without(ranges []NameRange, out NameRange) (left []NameRange) {
	for _, r := range ranges {
		if before := (NameRange{r.From, lower(r.To, out.From)}); out.From > r.From && before.From < before.To {
			left = append(left, before)
		}
		if after := (NameRange{max(r.From, out.To), r.To}); out.To != "" && (r.To == "" || after.From < r.To) {
			left = append(left, after)
		}
	}
	return left
}

// lower is the lower one of two ends of ranges.
func lower(a, b string) string {
	if a == "" {
		return b
	}
	return min(a, b)
}

// HasPool reports whether the filter has sessions of a pool.
func (f *SessionFilter) HasPool(pool string) bool { return wanted(f.Pools, f.NotPools, pool) }

// Only is the one pool that the list is of; empty: it may be of several.
func (f *SessionFilter) Only() string {
	if len(f.Pools) == 1 {
		return f.Pools[0]
	}
	return ""
}

// Position splits the position after which a list goes on into a pool and a name. Empty: from the start.
func (f *SessionFilter) Position(after string) (pool, name string) {
	if only := f.Only(); only != "" {
		return only, after
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
