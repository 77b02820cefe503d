package live

import (
	"strconv"
	"strings"
)

// Place is how much a reader has of a log, which is a ring of what was said.
type Place struct {
	Log string // its name; empty: the reader has nothing
	N   int64  // number of the last item that the reader has
}

// ParsePlace reads a place from its text.
func ParsePlace(text string) (p Place, valid bool) {
	dot := strings.LastIndexByte(text, '.')
	if dot <= 0 {
		return Place{}, false
	}
	n, err := strconv.ParseInt(text[dot+1:], 10, 64)
	if err != nil || n < 0 {
		return Place{}, false
	}
	return Place{Log: text[:dot], N: n}, true
}

// String is the place as ParsePlace reads it.
func (p Place) String() string { return p.Log + "." + strconv.FormatInt(p.N, 10) }

// Part returns the items behind a number, as many as fit into a room of bytes, but at least one where there is one. Lost is how many
// of those behind the number were dropped; next is the number of the last item of the part. The items are the ring's own until the
// next Add.
func (r *Ring[T]) Part(after int64, room int) (items []T, lost, next int64) {
	items, _ = r.After(after)
	if after < r.first-1 {
		lost = r.first - 1 - after
	}
	for i := range items {
		if room -= r.size(items[i]); room < 0 && i > 0 {
			items = items[:i]
			break
		}
	}
	return items, lost, after + lost + int64(len(items))
}
