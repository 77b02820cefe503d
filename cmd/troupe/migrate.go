package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
	"github.com/troupe-run/troupe/store/sqlite"
)

// migrator is the verb migrate.
type migrator struct{ configuration }

func (m migrator) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "migrate", Short: "Bring the store's schema up to date and end", Args: exactly(),
		Long: "Bring the store's schema up to date, forward only, and end. A node does so by itself at its start. Use this to do it\n" +
			"before, or by another database user. On Postgres nodes may run meanwhile, because a step only adds to the schema. With the\n" +
			"embedded store no node may run, and a node's start is enough.",
		Example: "  troupe migrate --store postgres://owner@db/troupe --status\n  troupe migrate --store postgres://owner@db/troupe",
	}
	configFlags(cmd.Flags())
	status := cmd.Flags().Bool("status", false, "show the steps and whether they were applied, and change nothing")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		loaded, err := m.load(cmd.Flags())
		switch {
		case err != nil:
			return err
		case loaded.Store.URL == "":
			return m.migrateEmbedded(cmd.Context(), loaded.Data, *status)
		case *status:
			return m.status(cmd.Context(), loaded.Store.URL)
		}
		return m.migratePostgres(cmd.Context(), loaded.Store.URL)
	}
	return cmd
}

// migrateEmbedded opens the embedded store, which migrates it.
func (m migrator) migrateEmbedded(ctx context.Context, data string, status bool) error {
	path := filepath.Join(data, storeName)
	if status {
		return m.showEmbedded(embeddedStore{Path: path, says: "is the embedded store: a node migrates it by itself at its start"})
	}
	s, err := sqlite.Open(ctx, sqlite.Config{Path: path})
	if errors.Is(err, store.ErrLocked) {
		return fmt.Errorf("%w; a node migrates the embedded store by itself at its start, so it is up to date", err)
	}
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	return m.showEmbedded(embeddedStore{Path: path, UpToDate: true, says: "is up to date; a node migrates the embedded store by itself at its start"})
}

// embeddedStore is what migrate says about a store file.
type embeddedStore struct {
	Path     string `json:"path"`
	UpToDate bool   `json:"up_to_date"` // false: not looked at
	says     string
}

func (m migrator) showEmbedded(e embeddedStore) error {
	if m.output == "json" {
		return m.printJSON(e)
	}
	_, err := fmt.Fprintln(m.out, e.Path, e.says)
	return err
}

// step is one migration as people see it.
type step struct {
	Version int    `json:"version"` // 0: it only adds to the schema, and has no number
	Name    string `json:"name"`
	State   string `json:"state"` // made, missing, newer
}

// status shows the steps.
func (m migrator) status(ctx context.Context, url string) error {
	all, err := postgres.Status(ctx, postgres.Config{URL: url, Name: "migrate"})
	if err != nil {
		return err
	}
	steps, rows := make([]step, len(all)), make([][]string, len(all))
	for i, m := range all {
		state := "missing"
		switch {
		case m.Newer:
			state = "newer"
		case m.Applied:
			state = "made"
		}
		steps[i] = step{m.Version, m.Name, state}
		rows[i] = []string{"", m.Name, state}
		if m.Version > 0 {
			rows[i][0] = fmt.Sprint(m.Version)
		}
	}
	return m.show(steps, []string{"VERSION", "STEP", "STATE"}, rows)
}

// migratePostgres makes the steps that are missing and says which.
func (m migrator) migratePostgres(ctx context.Context, url string) error {
	cfg := postgres.Config{URL: url, Name: "migrate"}
	before, err := postgres.Status(ctx, cfg)
	if err == nil {
		err = postgres.Migrate(ctx, cfg)
	}
	if err != nil {
		return err
	}
	report := migration{Made: []string{}}
	for _, m := range before {
		report.To = max(report.To, m.Version)
		if m.Applied {
			report.From = max(report.From, m.Version)
		} else {
			report.Made = append(report.Made, m.Name)
		}
	}
	if m.output == "json" {
		return m.show(report, nil, nil)
	}
	_, err = fmt.Fprintln(m.out, report)
	return err
}

// migration is what a migration did.
type migration struct {
	From int      `json:"from"` // 0: there was no schema
	To   int      `json:"to"`
	Made []string `json:"made"`
}

func (m migration) String() string {
	if len(m.Made) == 0 {
		return fmt.Sprintf("the schema is at version %d already; nothing was to be done", m.To)
	}
	if m.From == m.To {
		return fmt.Sprintf("the schema stays at version %d and has got %s", m.To, strings.Join(m.Made, ", "))
	}
	return fmt.Sprintf("the schema went from version %d to %d (%s)", m.From, m.To, strings.Join(m.Made, ", "))
}
