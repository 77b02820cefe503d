package arch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Two migrations with one number, as two branches can add, would keep a store from opening.
func TestEveryMigrationHasItsOwnNumber(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"postgres", "sqlite"} {
		files, err := os.ReadDir(filepath.Join("..", "..", "store", store, "migrations"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		owner := map[string]string{}
		for _, f := range files {
			number, _, found := strings.Cut(f.Name(), "_")
			require.True(t, found, f.Name())
			require.Empty(t, owner[number], "%s has the number of another migration of %s", f.Name(), store)
			owner[number] = f.Name()
		}
	}
}
