package arch_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	quoted   = regexp.MustCompile("`([^`]+)`")
	mapRow   = regexp.MustCompile("(?m)^\\| `[^`]*/`.*\\|$")
	target   = regexp.MustCompile("`make ([a-z-]+)`")
	helpLine = regexp.MustCompile("(?m)^([a-z-]+):.*## ")
)

// wordsMax is how many words a newcomer is asked to learn.
const wordsMax = 40

// TestContributingNamesWhatIsThere holds the first page of a newcomer to the tree: the map's paths, the targets of make, and the
// number of words.
func TestContributingNamesWhatIsThere(t *testing.T) {
	t.Parallel()
	page := file(t, "CONTRIBUTING.md")
	rows := mapRow.FindAllString(page, -1)
	require.Greater(t, len(rows), 15)
	mapped := map[string]bool{}
	for _, row := range rows {
		for _, m := range quoted.FindAllStringSubmatch(row, -1) {
			_, err := os.Stat(filepath.Join(root, m[1]))
			require.NoError(t, err, row)
			folder, _, deeper := strings.Cut(m[1], "/")
			if deeper {
				mapped[folder] = true
			}
		}
	}
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	for _, e := range entries {
		if e.IsDir() && holdsGo(t, e.Name()) {
			require.True(t, mapped[e.Name()], "CONTRIBUTING.md does not say what is in %s/", e.Name())
		}
	}
	known := map[string]bool{}
	for _, m := range helpLine.FindAllStringSubmatch(file(t, "Makefile"), -1) {
		known[m[1]] = true
	}
	for _, m := range target.FindAllStringSubmatch(page, -1) {
		require.True(t, known[m[1]], "make has no target %s", m[1])
	}
	_, glossary, found := strings.Cut(page, "| word | meaning |")
	require.True(t, found)
	require.LessOrEqual(t, strings.Count(glossary, "\n| "), wordsMax)
}

func file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(text)
}

// holdsGo reports whether a folder of the root has packages in it; assets and rendered code need no row.
func holdsGo(t *testing.T, folder string) bool {
	t.Helper()
	if strings.HasPrefix(folder, ".") {
		return false
	}
	files, err := filepath.Glob(filepath.Join(root, folder, "*", "*.go"))
	require.NoError(t, err)
	return len(files) > 2
}
