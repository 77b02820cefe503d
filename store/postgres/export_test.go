package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Settings returns the settings of every connection of the store.
func Settings(c Config) map[string]string { return c.withDefaults().settings() }

// Schema returns the schema of the store's tables.
func (s *Store) Schema() string { return s.cfg.Schema }

// ConnsMax returns how many connections the pool of a store would have.
func ConnsMax(c Config) (int32, error) {
	p, err := c.withDefaults().pool()
	if err != nil {
		return 0, err
	}
	return p.MaxConns, nil
}

// FreshColumns returns the columns of an insert, and whether rows that are alike may differ in them.
func FreshColumns() map[string]bool {
	columns := map[string]bool{}
	for _, f := range freshFields {
		columns[f.name] = f.own
	}
	return columns
}

// Alike reports whether the executions are inserted as rows that are alike.
func Alike(executions []messages.Execution) bool {
	var rows freshRows
	for i := range executions {
		if rows.add(&executions[i]) != nil {
			return false
		}
	}
	return rows.alike()
}

// MigrateTo makes the first steps of the schema, up to a version, as an older program would.
func MigrateTo(ctx context.Context, c Config, version int) error {
	c = c.withDefaults()
	p, err := c.pool()
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, p.ConnConfig)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	all, err := steps()
	if err != nil {
		return err
	}
	return upgrade(ctx, conn, c, slices.DeleteFunc(all, func(m migration) bool { return m.version > version }))
}

// Ask runs a query for one text on a connection of the pool.
func (s *Store) Ask(ctx context.Context, sql string) (text string, err error) {
	err = s.pool.QueryRow(ctx, sql).Scan(&text)
	return text, err
}

// AskBeats runs a query for one text on the connection for beats.
func (s *Store) AskBeats(ctx context.Context, sql string) (text string, err error) {
	err = s.beats.use(ctx, "ask", func(ctx context.Context, c *pgx.Conn) error { return c.QueryRow(ctx, sql).Scan(&text) })
	return text, err
}

// Plans returns the statements that the store's idle connections have prepared, each with its generic plan.
func (s *Store) Plans(ctx context.Context) (map[string]string, error) {
	plans := map[string]string{}
	for _, c := range s.pool.AcquireAllIdle(ctx) {
		err := explainAll(ctx, c.Conn(), plans)
		c.Release()
		if err != nil {
			return nil, err
		}
	}
	return plans, nil
}

func explainAll(ctx context.Context, c *pgx.Conn, plans map[string]string) error {
	rows, err := c.Query(ctx, "SELECT name, statement, cardinality(parameter_types) FROM pg_prepared_statements", pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return err
	}
	type prepared struct {
		name, text string
		parameters int
	}
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (p prepared, err error) {
		return p, r.Scan(&p.name, &p.text, &p.parameters)
	})
	if err != nil {
		return err
	}
	for _, p := range all {
		if _, known := plans[p.text]; known {
			continue
		}
		explain := "EXPLAIN EXECUTE " + pgx.Identifier{p.name}.Sanitize()
		if p.parameters > 0 {
			explain += "(NULL" + strings.Repeat(", NULL", p.parameters-1) + ")"
		}
		rows, err := c.Query(ctx, explain, pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			return err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("%s: %w", p.text, err)
		}
		plans[p.text] = strings.Join(lines, "\n")
	}
	return nil
}

// ReadOutboxSQL is the statement that reads the outbox.
const ReadOutboxSQL = readOutboxSQL

// LookTime is the duration of a look by the clock of SlowLooks.
const LookTime = floorMost / (5 * floorShare)

// LooksUntilNarrow bounds the whole looks in a row by that clock, after an execution came to wait below a floor.
const LooksUntilNarrow = int(floorClear/LookTime) + 1

// SlowLooks makes every look of Due count as slow, and floors as old enough. The clock of the floors advances by
// LookTime each time they read it. So only the order of calls decides which looks are whole ones.
func (s *Store) SlowLooks() {
	clock := time.Now()
	var mu sync.Mutex
	floors := s.dueRows.floors
	floors.slow, floors.age = -1, -1
	floors.now = func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		clock = clock.Add(LookTime)
		return clock
	}
}

// ApplyTogether makes calls as one group with the deadline of ctx, and returns the error of each.
func ApplyTogether(ctx context.Context, s *Store, calls ...[]store.Change) (failures []error) {
	group := make([]*applyCall, len(calls))
	for i, changes := range calls {
		group[i] = &applyCall{ctx: ctx, changes: changes}
	}
	s.commitApplies(ctx, group)
	for _, c := range group {
		failures = append(failures, c.err)
	}
	return failures
}

// SpoilConnections runs a statement on the connection of the beats and on all of the pool.
func (s *Store) SpoilConnections(ctx context.Context, sql string) error {
	err := s.beats.use(ctx, "spoil", func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, sql)
		return err
	})
	for range s.pool.Config().MaxConns {
		c, failed := s.pool.Acquire(ctx)
		if failed != nil {
			return errors.Join(err, failed)
		}
		defer c.Release()
		_, failed = c.Exec(ctx, sql)
		err = errors.Join(err, failed)
	}
	return err
}

// OfStatement reports whether an error with the given code of the server is of a statement; empty: of an error without one.
func OfStatement(code string) bool {
	if code == "" {
		return ofStatement(io.EOF)
	}
	return ofStatement(fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code}))
}

// SetSilence sets after which silence the listening connection is checked. It must be called before the first Watch.
func (s *Store) SetSilence(d time.Duration) { s.deliver.silence = d }

// Echoes reports whether a connection hears the store's notification to itself. One that does not listen is like one whose LISTEN is dead.
func (s *Store) Echoes(ctx context.Context, listens bool) (bool, error) {
	c, err := pgx.ConnectConfig(ctx, s.deliver.config)
	if err != nil {
		return false, err
	}
	defer closeQuietly(c)
	if listens {
		_, err = c.Exec(ctx, `LISTEN "troupe.echo.test"`)
	}
	return err == nil && s.deliver.echoes(ctx, c, "troupe.echo.test"), err
}
