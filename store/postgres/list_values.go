package postgres

import (
	"strings"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// merged walks the index for each of the values, over as many executions at most for each as the part of the walk has. Its later parts are
// sized by how long the first one took.
func (l *listing) merged(values []string, walk func(value string) string) string {
	walks := make([]string, 0, len(values))
	for _, value := range store.Each(values) {
		walks = append(walks, walk(l.arg(encodeText(value))))
	}
	return l.merge(walks)
}

// merge is one walk of several, in the order of the list.
func (l *listing) merge(walks []string) string {
	if len(walks) == 1 {
		return walks[0]
	}
	return "SELECT " + l.columns + " FROM ((" + strings.Join(walks, ") UNION ALL (") + ")) u" + l.tail
}

// isOne checks that a column has one of the values.
func (l *listing) isOne(column string, values []string) string {
	if len(values) == 1 {
		return column + " = " + l.arg(encodeText(values[0]))
	}
	return column + " = ANY(" + l.arg(encodeTexts(values)) + "::text[])"
}

func numbers(statuses []messages.Status) []int16 {
	out := make([]int16, len(statuses))
	for i, s := range statuses {
		out[i] = int16(s)
	}
	return out
}
