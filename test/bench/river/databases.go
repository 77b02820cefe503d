package main

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	_ "modernc.org/sqlite" // the driver that Troupe uses too
)

// openPostgres opens a schema of its own in the database, which close drops.
func openPostgres(ctx context.Context, address string) (*database[pgx.Tx], error) {
	const schema = "river_bench"
	cfg, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = 20
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	d := &database[pgx.Tx]{
		driver: riverpgxv5.New(pool), schema: schema,
		rows: func(ctx context.Context, query string) (n int, err error) {
			err = pool.QueryRow(ctx, named(query, schema+".river_job")).Scan(&n)
			return n, err
		},
		exec: func(ctx context.Context, statement string) error {
			_, err := pool.Exec(ctx, named(statement, schema+".river_job"))
			return err
		},
	}
	drop := func() error { return d.exec(context.Background(), "DROP SCHEMA IF EXISTS "+schema+" CASCADE") }
	d.close = func() error {
		defer pool.Close()
		return drop()
	}
	if err := errors.Join(drop(), d.exec(ctx, "CREATE SCHEMA "+schema)); err != nil {
		pool.Close()
		return nil, err
	}
	return d, nil
}

// openSQLite opens the file as River's documentation recommends: a write-ahead log, and one connection. Each commit is synced,
// as in Troupe.
func openSQLite(ctx context.Context, file string) (*database[*sql.Tx], error) {
	pragmas := url.Values{"_pragma": {"journal_mode(WAL)", "synchronous(FULL)"}}
	db, err := sql.Open("sqlite", "file:"+file+"?"+pragmas.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	d := &database[*sql.Tx]{
		driver: riversqlite.New(db),
		rows: func(ctx context.Context, query string) (n int, err error) {
			err = db.QueryRowContext(ctx, named(query, "river_job")).Scan(&n)
			return n, err
		},
		exec: func(ctx context.Context, statement string) error {
			_, err := db.ExecContext(ctx, named(statement, "river_job"))
			return err
		},
		close: db.Close,
	}
	return d, db.PingContext(ctx)
}

// named puts the name of the table of the jobs into a statement.
func named(statement, jobs string) string { return strings.ReplaceAll(statement, "{jobs}", jobs) }
