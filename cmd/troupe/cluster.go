package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/store/postgres"
)

// secretOverlap is for how long nodes accept the secret that was rotated out: each reads the new one within some seconds.
const secretOverlap = 10 * time.Minute

// cluster has the verbs for what all nodes share.
type cluster struct{ configuration }

func (c cluster) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "cluster", Short: "Manage the data that all nodes of a cluster share",
		Long: "Manage the data that all nodes of a cluster share in their store. These verbs connect to Postgres, and to no node.",
	}
	cmd.AddCommand(c.rotateSecret())
	return cmd
}

func (c cluster) rotateSecret() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rotate-secret", Short: "Make a new secret for the connections between nodes", Args: exactly(),
		Long: "Make a new secret, by which the nodes of the cluster prove to each other that they belong to it. Nodes read it within ten\n" +
			"seconds, and make their connections again without losing anything. The old secret is accepted for ten minutes. If somebody\n" +
			"else knows it, use --now: it is then rejected at once, and nodes may not reach each other for some seconds.",
		Example: "  troupe cluster rotate-secret --store postgres://troupe@db/troupe\n  troupe cluster rotate-secret --config troupe.yaml --now",
	}
	configFlags(cmd.Flags())
	now := cmd.Flags().Bool("now", false, "reject the old secret at once")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		loaded, err := c.load(cmd.Flags())
		switch {
		case err != nil:
			return err
		case loaded.Store.URL == "":
			return errors.New("there is no secret to rotate: the embedded store is one node's alone; give the cluster's Postgres with --store")
		}
		rotated, err := rotateSecret(cmd.Context(), postgres.Config{URL: loaded.Store.URL, Name: "rotate-secret"}, *now)
		if err != nil {
			return err
		}
		if c.output == "json" {
			return c.printJSON(rotated)
		}
		_, err = fmt.Fprintln(c.out, rotated)
		return err
	}
	return cmd
}

// rotated is what a rotation did.
type rotated struct {
	Secret  int64   `json:"secret"` // its number
	Overlap float64 `json:"overlap_seconds"`
}

func (r rotated) String() string {
	if r.Overlap == 0 {
		return fmt.Sprintf("the cluster has a new secret, number %d; the one before is accepted no more once a node has read this one, within 10 s", r.Secret)
	}
	return fmt.Sprintf("the cluster has a new secret, number %d; the one before is accepted for %s", r.Secret, time.Duration(r.Overlap*float64(time.Second)))
}

// rotateSecret rotates the secret in a database whose schema is up to date.
func rotateSecret(ctx context.Context, cfg postgres.Config, now bool) (r rotated, err error) {
	steps, err := postgres.Status(ctx, cfg)
	if err != nil {
		return r, err
	}
	for _, step := range steps {
		if !step.Applied {
			return r, fmt.Errorf("the schema lacks %s: run troupe migrate, or start a node of this version, first", step.Name)
		}
	}
	s, err := postgres.Open(ctx, cfg)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	overlap := secretOverlap
	if now {
		overlap = 0
	}
	r.Overlap = overlap.Seconds()
	r.Secret, err = s.RotateClusterSecret(ctx, overlap)
	return r, err
}
