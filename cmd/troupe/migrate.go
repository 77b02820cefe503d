package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/store/sqlite"
)

func (a *app) migrate() *cobra.Command {
	cmd := &cobra.Command{
		Use: "migrate", Short: "Bring the store's schema up to date and end", Args: exactly(),
		Long: "Bring the store's schema up to date and end. A node does so by itself at its start; this is for those who want it done before.",
	}
	configFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		loaded, err := a.load(cmd.Flags())
		if err != nil {
			return err
		}
		if loaded.Store.URL != "" {
			return usagef("store.url is set, and this troupe migrates the embedded store alone")
		}
		path := filepath.Join(loaded.Data, storeName)
		s, err := sqlite.Open(cmd.Context(), sqlite.Config{Path: path})
		if err != nil {
			return err
		}
		if err := s.Close(); err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.out, "%s is up to date\n", path)
		return err
	}
	return cmd
}
