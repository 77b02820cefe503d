package sqlite

import (
	"slices"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// branch is the walk of one of several values in an index.
type branch struct {
	args         []any
	ahead        []int64 // seqs that are read, and not given yet
	above, below int64   // seqs between these are not read yet
	over         bool    // all are read
}

// each gives the next seqs of those that have one of the values in an index, and merges the walks of the values. An execution has one value.
// The walks read as many seqs as are given, and one small read of each value more. The value is the last parameter of from, behind those that
// all walks have.
func (l *listing) each(c *conn, from string, values []string, n int, common ...any) (seqs []int64, err error) {
	if l.branches == nil {
		for _, value := range store.Each(values) {
			l.branches = append(l.branches, branch{args: append(slices.Clone(common), value), above: l.above, below: l.below})
		}
	}
	for len(seqs) < n {
		var next *branch
		for i := range l.branches {
			b := &l.branches[i]
			if err = l.fill(c, from, b, n/len(l.branches)+1); err != nil {
				return nil, err
			}
			if len(b.ahead) > 0 && (next == nil || (b.ahead[0] < next.ahead[0]) == l.f.Oldest) {
				next = b
			}
		}
		if next == nil {
			break
		}
		seqs, next.ahead = append(seqs, next.ahead[0]), next.ahead[1:]
	}
	return seqs, nil
}

// fill reads the next n seqs of a walk, if none are ahead.
func (l *listing) fill(c *conn, from string, b *branch, n int) (err error) {
	if len(b.ahead) > 0 || b.over {
		return nil
	}
	if b.ahead, err = l.take(c, from, slices.Concat(b.args, []any{b.above, b.below, int64(n)})...); err != nil {
		return err
	}
	if b.over = len(b.ahead) < n; b.over {
		return nil
	}
	if last := b.ahead[n-1]; l.f.Oldest {
		b.above = last
	} else {
		b.below = last
	}
	return nil
}

// isOne checks that a column of a row that is found by its seq has one of the values. The plus keeps SQLite from a look at an index of the
// column for each of several values and each row.
func isOne(column string, values []string) string {
	if len(values) == 1 {
		return column + " = ?"
	}
	return "+" + column + " IN (" + places(len(values)) + ")"
}

func texts(values []string) []any {
	out := make([]any, len(values))
	for i, value := range values {
		out[i] = value
	}
	return out
}

func numbers(statuses []messages.Status) []any {
	out := make([]any, len(statuses))
	for i, s := range statuses {
		out[i] = int64(s)
	}
	return out
}
