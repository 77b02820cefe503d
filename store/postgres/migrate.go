package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-run/troupe/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migration is one step of the schema.
type migration struct {
	version int
	name    string
	sql     string
}

// steps returns the migrations in this program, oldest first.
func steps() ([]migration, error) {
	files, err := fs.ReadDir(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	var out []migration
	for _, f := range files {
		number, _, _ := strings.Cut(f.Name(), "_")
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, fmt.Errorf("migration %s: want a number in front: %w", f.Name(), err)
		}
		b, err := migrations.ReadFile("migrations/" + f.Name())
		if err != nil {
			return nil, err
		}
		out = append(out, migration{n, strings.TrimSuffix(f.Name(), ".sql"), string(b)})
	}
	slices.SortFunc(out, func(a, b migration) int { return a.version - b.version })
	return out, nil
}

//go:embed steps/*.sql
var additions embed.FS

// Migration describes one step of the schema.
type Migration struct {
	Version int // 0: it only adds to the schema, and has no number of its own
	Name    string
	Applied bool
	Newer   bool // this program does not know it: a newer program used the database
}

// Migrate brings the schema of cfg's database up to this version, forward only, as Open does.
func Migrate(ctx context.Context, cfg Config) error {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return err
	}
	p, err := cfg.pool()
	if err != nil {
		return err
	}
	return migrate(ctx, cfg, p.ConnConfig)
}

// Status lists the steps of the schema, oldest first, and says which the database has. It changes nothing.
func Status(ctx context.Context, cfg Config) ([]Migration, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	p, err := cfg.pool()
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, p.ConnConfig)
	if err != nil {
		return nil, mapError("read the schema's version in "+describe(p.ConnConfig), err)
	}
	defer conn.Close(ctx)
	has, err := version(ctx, conn)
	if err != nil {
		return nil, mapError("read the schema's version in "+describe(p.ConnConfig), err)
	}
	all, err := steps()
	if err != nil {
		return nil, err
	}
	var out []Migration
	for _, m := range all {
		out = append(out, Migration{Version: m.version, Name: m.name, Applied: m.version <= has})
	}
	if has > out[len(out)-1].Version {
		rows, err := conn.Query(ctx, "SELECT version, name FROM schema_version WHERE version > $1 ORDER BY version", out[len(out)-1].Version)
		if err == nil {
			err = each(rows, func(v *scanner) {
				out = append(out, Migration{Version: int(v.integer()), Name: v.text(), Applied: true, Newer: true})
			})
		}
		if err != nil {
			return nil, mapError("read the schema's version in "+describe(p.ConnConfig), err)
		}
	}
	made, _, err := madeSteps(ctx, conn)
	if err != nil {
		return nil, mapError("read the schema's steps in "+describe(p.ConnConfig), err)
	}
	known, err := store.StepsIn(additions, "steps")
	for _, s := range known {
		out = append(out, Migration{Name: s.Name, Applied: slices.Contains(made, s.Name)})
	}
	for _, name := range made {
		if !slices.ContainsFunc(known, func(s store.Step) bool { return s.Name == name }) {
			out = append(out, Migration{Name: name, Applied: true, Newer: true})
		}
	}
	return out, err
}

// migrate checks the server and brings the schema up to this version. Nodes that start at the same time make each step
// one after the other, under an advisory lock that ends with the step's transaction.
func migrate(ctx context.Context, cfg Config, cc *pgx.ConnConfig) error {
	what := "open " + describe(cc)
	conn, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return mapError(what, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := checkServer(ctx, conn); err != nil {
		return mapError(what, fmt.Errorf("%s: %w", what, err))
	}
	all, err := steps()
	if err != nil {
		return err
	}
	has, err := version(ctx, conn)
	if err != nil {
		return mapError(what, err)
	}
	if has != all[len(all)-1].version {
		if err := upgrade(ctx, conn, cfg, all); err != nil {
			return mapError(what, err)
		}
	}
	return mapError(what, add(ctx, conn, cfg))
}

// add makes the missing steps that only add to the schema, each in its own transaction, as upgrade does. It refuses a schema for which this
// program is too old.
func add(ctx context.Context, conn *pgx.Conn, cfg Config) error {
	known, err := store.StepsIn(additions, "steps")
	if err != nil {
		return err
	}
	made, oldest, err := madeSteps(ctx, conn)
	if err != nil {
		return err
	}
	if err := oldest.Check(describe(conn.Config())); err != nil {
		return err
	}
	for _, step := range store.MissingSteps(known, made) {
		err := oneStep(ctx, conn, cfg, func(tx pgx.Tx) error {
			if made, _, err := madeSteps(ctx, conn); err != nil || slices.Contains(made, step.Name) {
				return err // another node made it
			}
			if _, err := tx.Exec(ctx, step.SQL, pgx.QueryExecModeSimpleProtocol); err != nil {
				return fmt.Errorf("step %s: %w", step.Name, err)
			}
			_, err := tx.Exec(ctx, "INSERT INTO schema_step (name) VALUES ($1)", step.Name)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// madeSteps returns the names of the steps that only add to the schema and were made, and the oldest program that may use it.
func madeSteps(ctx context.Context, conn *pgx.Conn) (names []string, oldest store.Oldest, err error) {
	var has bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass('schema_step') IS NOT NULL").Scan(&has); err != nil || !has {
		return nil, oldest, err
	}
	err = conn.QueryRow(ctx, `SELECT coalesce(array_agg(name ORDER BY name), '{}'), (SELECT max(generation) FROM schema_oldest), (SELECT max(release) FROM schema_oldest)
 FROM schema_step`).Scan(&names, &oldest.Generation, &oldest.Release)
	return names, oldest, err
}

// checkServer returns why the server or database cannot hold the store, or nil.
func checkServer(ctx context.Context, conn *pgx.Conn) error {
	var number int
	var text, encoding string
	err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, current_setting('server_version'), current_setting('server_encoding')").
		Scan(&number, &text, &encoding)
	switch {
	case err != nil:
		return err
	case number < serverMin:
		return unfit("the server is Postgres %s, want 15 or newer: upgrade it", text)
	case encoding != "UTF8":
		return unfit("the database's encoding is %s, want UTF8: create it with ENCODING 'UTF8' TEMPLATE template0", encoding)
	}
	return nil
}

// unfitError says that the server or database cannot hold the store; waiting does not help.
type unfitError struct{ error }

func unfit(format string, args ...any) error { return unfitError{fmt.Errorf(format, args...)} }

// version returns the schema's version, 0 if there is none yet.
func version(ctx context.Context, conn *pgx.Conn) (int, error) {
	var has bool
	var n int
	if err := conn.QueryRow(ctx, "SELECT to_regclass('schema_version') IS NOT NULL").Scan(&has); err != nil || !has {
		return 0, err
	}
	err := conn.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM schema_version").Scan(&n)
	return n, err
}

const versionTable = `CREATE TABLE IF NOT EXISTS schema_version (version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now());
COMMENT ON TABLE schema_version IS 'The steps of this schema that were made.';
COMMENT ON COLUMN schema_version.version IS 'The step''s number.';
COMMENT ON COLUMN schema_version.name IS 'The step''s name.';
COMMENT ON COLUMN schema_version.applied_at IS 'When it was made.';
COMMENT ON INDEX schema_version_pkey IS 'One row a step.';`

// upgrade makes the missing steps of the schema, each in its own transaction: the locks of a step delay running nodes
// only during that step. After a crash between two steps, the next start continues with the second.
func upgrade(ctx context.Context, conn *pgx.Conn, cfg Config, all []migration) error {
	for range all {
		done, err := upgradeOnce(ctx, conn, cfg, all)
		if err != nil || done {
			return err
		}
	}
	return nil
}

// upgradeOnce makes and records the first missing step of the schema. done: none is missing.
func upgradeOnce(ctx context.Context, conn *pgx.Conn, cfg Config, all []migration) (done bool, err error) {
	err = oneStep(ctx, conn, cfg, func(tx pgx.Tx) error {
		has, err := version(ctx, conn)
		if err != nil {
			return err
		}
		newest := all[len(all)-1].version
		if has > newest {
			return fmt.Errorf("open %s: %w: its schema is version %d, this troupe knows up to %d; run the newer troupe, or restore a backup",
				describe(conn.Config()), store.ErrNewer, has, newest)
		}
		next := slices.IndexFunc(all, func(m migration) bool { return m.version > has })
		if done = next < 0 || next == len(all)-1; next < 0 {
			return nil // another node made the last step
		}
		return all[next].apply(ctx, tx, has == 0)
	})
	return done, err
}

// oneStep makes one step of the schema in a transaction of its own, under the lock by which nodes make them one after the other.
func oneStep(ctx context.Context, conn *pgx.Conn, cfg Config, step func(pgx.Tx) error) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // it fails after a commit, and otherwise the first error matters
	// Another node may migrate and hold the lock for a while, and a step may take long.
	if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = '10min'; SET LOCAL lock_timeout = '1min'", pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('troupe schema ' || $1, 0))", cfg.Schema); err != nil {
		return err
	}
	if err := createSchema(ctx, tx, cfg.Schema); err != nil {
		return err
	}
	if err := step(tx); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// apply runs the step and records it.
func (m migration) apply(ctx context.Context, tx pgx.Tx, first bool) error {
	if first {
		if _, err := tx.Exec(ctx, versionTable, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, m.sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("migration %s: %w", m.name, err)
	}
	_, err := tx.Exec(ctx, "INSERT INTO schema_version (version, name) VALUES ($1, $2)", m.version, m.name)
	return err
}

// createSchema creates the schema if it is missing. Looking first needs no right to create.
func createSchema(ctx context.Context, tx pgx.Tx, schema string) error {
	var has bool
	err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", schema).Scan(&has)
	if err != nil || has {
		return err
	}
	_, err = tx.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{schema}.Sanitize())
	return err
}
