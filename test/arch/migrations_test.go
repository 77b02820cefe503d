package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Two migrations with one number, as two branches can add, would keep a store from opening.
func TestEveryMigrationHasItsOwnNumber(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"postgres/migrations", "sqlite/migrations", "postgres/steps", "sqlite/steps"} {
		files, err := os.ReadDir(filepath.Join("..", "..", "store", filepath.FromSlash(store)))
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

// takesAway finds in a step what a node of the release before cannot live with: what is taken away or renamed, and a column without which it
// cannot write.
func takesAway(sql string) string {
	sql = regexp.MustCompile(`(?m)--.*$`).ReplaceAllString(sql, "")
	for _, pattern := range []string{
		`(?i)\bDROP\s+(TABLE|COLUMN|VIEW|CONSTRAINT|DEFAULT)\b`, `(?i)\bRENAME\b`, `(?i)\bSET\s+NOT\s+NULL\b`, `(?i)\bALTER\s+COLUMN\s+\w+\s+(SET\s+DATA\s+)?TYPE\b`,
		`(?i)\b(TRUNCATE|DELETE\s+FROM)\b`, `(?i)UPDATE\s+schema_(version|oldest)\b`,
	} {
		if found := regexp.MustCompile(pattern).FindString(sql); found != "" {
			return found
		}
	}
	for _, column := range regexp.MustCompile(`(?i)\bADD\s+COLUMN\b[^,;]*`).FindAllString(sql, -1) {
		if regexp.MustCompile(`(?i)NOT\s+NULL`).MatchString(column) && !regexp.MustCompile(`(?i)\bDEFAULT\b`).MatchString(column) {
			return column
		}
	}
	return ""
}

// Beside a step a node of the release before runs, and starts. A step that takes something away comes a release later, raises schema_oldest, and
// is named here.
func TestStepsOnlyAdd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ sql, found string }{
		{"ALTER TABLE a ADD COLUMN b int; ALTER TABLE a ADD COLUMN c int NOT NULL DEFAULT 0", ""},
		{"ALTER TABLE a ADD COLUMN b int NOT NULL, ADD COLUMN c int DEFAULT 0", "ADD COLUMN b int NOT NULL"},
		{"ALTER TABLE a DROP COLUMN b", "DROP COLUMN"}, {"alter table a rename to b", "rename"},
		{"CREATE TABLE a (b int NOT NULL); -- DROP TABLE", ""},
	} {
		require.Equal(t, c.found, takesAway(c.sql), c.sql)
	}
	files, err := filepath.Glob("../../store/*/steps/*.sql")
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		require.Empty(t, takesAway(string(text)), f)
	}
}
