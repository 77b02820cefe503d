package lifecycle

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the rendered parts of docs/lifecycle.md")

const page = "../../docs/lifecycle.md"

// between replaces what stands between a name's markers.
func between(t *testing.T, text, name, body string) string {
	t.Helper()
	begin, end := "<!-- "+name+": rendered from rules/lifecycle -->\n", "<!-- "+name+": end -->\n"
	i, j := strings.Index(text, begin), strings.Index(text, end)
	require.True(t, i >= 0 && j > i, "docs/lifecycle.md has no markers for %s", name)
	return text[:i+len(begin)] + body + text[j:]
}

// The page shows the lifecycle as it is. After a change: go test ./rules/lifecycle -update.
func TestPageIsRendered(t *testing.T) {
	t.Parallel()
	have, err := os.ReadFile(page)
	require.NoError(t, err)
	want := between(t, string(have), "table", Table())
	want = between(t, want, "diagram", "```mermaid\n"+Diagram()+"```\n")
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(have), "run go test ./rules/lifecycle -update")
}

func TestRenderingsHoldEveryEdge(t *testing.T) {
	t.Parallel()
	lines := map[string]bool{}
	for line := range strings.Lines(Diagram()) {
		lines[strings.TrimSpace(line)] = true
	}
	ForEachEdge(func(e Edge) {
		found := false
		for line := range lines {
			arrow, reasons, _ := strings.Cut(line, ": ")
			if arrow != e.From.String()+" --> "+e.To.String() {
				continue
			}
			for _, r := range strings.Split(reasons, "<br/>") {
				found = found || r == e.Reason.String()
			}
		}
		require.True(t, found, "%v is not in the diagram", e)
	})
	require.Equal(t, len(rows)+2, strings.Count(Table(), "\n"))
}
