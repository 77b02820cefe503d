package store_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// TestStatement fixes the stored numbers: a changed number would give every stored row another meaning.
func TestStatement(t *testing.T) {
	t.Parallel()
	require.Equal(t, "1 2 3 4 5 6 7 8 9 10", store.Statement(
		"{requested} {scheduling} {scheduled} {running} {cancelling} {completed} {failed} {timed_out} {cancelled} {abandoned}"))
	require.Equal(t, "0 1 2 3 4 5 6 7", store.Statement("{submit} {place} {take_back} {claim} {finish} {end} {cancel} {rescue}"))
	require.Equal(t, "'{}' '{a,b}'", store.Statement("'{}' '{a,b}'"))
	require.Panics(t, func() { store.Statement("{promoted}") })
	require.Equal(t, store.Changes(), store.LastChanges[1:])
	for _, s := range messages.Statuses() {
		require.NotContains(t, store.LastChanges, s.String(), "a name has one number")
	}
}

// TestNoNumbersInStatements finds statements of the adapters that contain the number of a status or of a change.
func TestNoNumbersInStatements(t *testing.T) {
	t.Parallel()
	number := regexp.MustCompile(`(status|last_change) *(=|<>|<|>|<=|>=|IN) *\(?[0-9]`)
	for _, folder := range []string{"postgres", "sqlite"} {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Empty(t, number.FindString(string(text)), "%s: write the name in braces, see store.Statement", path)
		}
	}
}
