package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChunksAreBoundedByRowsAndBytes(t *testing.T) {
	t.Parallel()
	type row struct{ bytes, item int }
	sizes := func(rows, limit int, all ...row) (out [][]int) {
		for part := range chunks(all, rows, limit, func(r *row) int { return r.bytes }, func(a, b *row) bool { return a.item == b.item && a.item > 0 }) {
			var got []int
			for _, r := range part {
				got = append(got, r.bytes)
			}
			out = append(out, got)
		}
		return out
	}
	of := func(bytes ...int) (all []row) {
		for _, b := range bytes {
			all = append(all, row{bytes: b})
		}
		return all
	}
	require.Empty(t, sizes(2, 10))
	require.Equal(t, [][]int{{1, 2}, {3}}, sizes(2, 10, of(1, 2, 3)...))
	require.Equal(t, [][]int{{4, 6}, {5, 5}, {1}}, sizes(9, 10, of(4, 6, 5, 5, 1)...))
	require.Equal(t, [][]int{{1}, {99}, {1, 2}}, sizes(9, 10, of(1, 99, 1, 2)...), "one that is over the bound goes alone")
	require.Equal(t, [][]int{{8}, {8, 8, 8}, {1}}, sizes(2, 10, row{8, 1}, row{8, 2}, row{8, 2}, row{8, 2}, row{1, 3}), "one change stays together")
}
