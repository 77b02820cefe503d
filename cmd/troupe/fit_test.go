package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestReasonsKeepTheirCause(t *testing.T) {
	t.Parallel()
	const reason = "reload refused at 15:04:05: pack hello: worker initialization failed: ModuleNotFoundError: No module named 'x'"
	for _, c := range []struct {
		limit int
		want  string
	}{
		{200, reason},
		{50, "…ModuleNotFoundError: No module named 'x'"},
		{30, "…No module named 'x'"},
		{12, "…named 'x'"},
		{3, "…'…"},
	} {
		require.Equal(t, c.want, causeTo(reason, c.limit))
	}
	require.Equal(t, "…the line: Yorick", causeTo("action_error: ValueError: forgot the line: Yorick", 18))
}

// Whatever a table holds, it keeps its first column and fits the terminal, as long as that has room for it.
func TestTablesFit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cell := rapid.StringMatching(`[a-z: ]{0,60}`)
		rows := make([][]string, rapid.IntRange(1, 4).Draw(t, "rows"))
		for i := range rows {
			rows[i] = []string{"pack.pool"}
			for range len(poolHeads) - 1 {
				rows[i] = append(rows[i], cell.Draw(t, "cell"))
			}
		}
		width := rapid.IntRange(80, 300).Draw(t, "width")
		heads, fitted := fitTable(width, poolHeads, rows)
		require.Equal(t, "POOL", heads[0])
		require.Equal(t, "REASON", heads[len(heads)-1])
		for line := range strings.SplitSeq(plain(renderTable(heads, fitted)), "\n") {
			require.LessOrEqual(t, len([]rune(line)), width, line)
		}
	})
}
