package postgres_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/store/postgres"
)

var update = flag.Bool("update", false, "write docs/schema.md anew")

const schemaPage = "../../docs/schema.md"

const schemaHead = `# The database schema

This page lists the tables of a node in Postgres. It is rendered from the comments in the migrations. In ` + "`psql`" + `, ` + "`\\d+`" + ` shows the same. Read the
views, and write only to ` + "`submission`" + ` and ` + "`cancellation`" + `, as in [quick-reference.md](quick-reference.md). The other tables belong to the nodes. They
change from release to release, and a row that another program writes may stop a node's work on it.

The embedded store has the same tables in SQLite, with microseconds since 1970 for times and blobs for ids. SQLite stores no comments; its migrations have
them.
`

// relationsSQL reads the tables and views of the schema with their comments; the views for operators come first.
const relationsSQL = `SELECT c.oid, c.relname, c.relkind = 'v', obj_description(c.oid, 'pg_class')
 FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'v') ORDER BY c.relkind = 'r', c.relname`

const columnsSQL = `SELECT a.attname, format_type(a.atttypid, a.atttypmod), col_description(a.attrelid, a.attnum)
 FROM pg_attribute a WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`

const indexesSQL = `SELECT c.relname, regexp_replace(pg_get_indexdef(i.indexrelid), '^.* USING ', ''), obj_description(c.oid, 'pg_class')
 FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = $1 ORDER BY NOT i.indisprimary, c.relname`

const functionsSQL = `SELECT p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')', coalesce(pg_get_function_result(p.oid), ''),
 obj_description(p.oid, 'pg_proc') FROM pg_proc p WHERE p.pronamespace = current_schema()::regnamespace ORDER BY 1`

// TestTheSchemaPageIsCurrent checks that docs/schema.md has the comments of the migrations.
func TestTheSchemaPageIsCurrent(t *testing.T) {
	t.Parallel()
	d := newBench(t)
	c := d.connect(t, d.open(t, postgres.Config{Schema: "page"}).Schema())
	page := schemaHead
	type relation struct {
		oid           uint32
		name, comment string
		view          bool
	}
	rows, err := c.Query(t.Context(), relationsSQL)
	require.NoError(t, err)
	relations, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r relation, err error) {
		return r, row.Scan(&r.oid, &r.name, &r.view, &r.comment)
	})
	require.NoError(t, err)
	for _, r := range relations {
		kind := "Table"
		if r.view {
			kind = "View"
		}
		page += fmt.Sprintf("\n## %s `%s`\n\n%s\n\n%s", kind, r.name, r.comment, triples(t, c, "column", "type", columnsSQL, r.oid))
		if !r.view {
			page += "\n" + triples(t, c, "index", "on", indexesSQL, r.oid)
		}
	}
	page += "\n## Functions\n\n" + triples(t, c, "function", "gives", functionsSQL)
	page = strings.ReplaceAll(page, "page.", "")
	if *update {
		require.NoError(t, os.WriteFile(schemaPage, []byte(page), 0o644))
	}
	text, err := os.ReadFile(schemaPage)
	require.NoError(t, err)
	require.True(t, page == string(text), "docs/schema.md is not what the migrations say: run go test ./store/postgres -run TestTheSchemaPage -update")
}

// triples returns a table of name, type and comment.
func triples(t *testing.T, c *pgx.Conn, name, kind, query string, args ...any) string {
	rows, err := c.Query(t.Context(), query, args...)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		var name, kind string
		var comment *string
		if err := row.Scan(&name, &kind, &comment); err != nil {
			return "", err
		}
		if comment == nil {
			comment = new(string)
		}
		cell := strings.NewReplacer("|", `\|`, "\n", " ").Replace
		return fmt.Sprintf("| `%s` | `%s` | %s |\n", cell(name), cell(kind), cell(*comment)), nil
	})
	require.NoError(t, err)
	return fmt.Sprintf("| %s | %s | meaning |\n|---|---|---|\n%s", name, kind, strings.Join(lines, ""))
}
