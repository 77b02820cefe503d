package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/tree"
	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/supervisor/debug"
)

func (a *app) tree() *cobra.Command {
	most := 0
	cmd := &cobra.Command{
		Use: "tree [ACTOR]", Short: "Show the live actors, or one with its history",
		Args: func(cmd *cobra.Command, args []string) error {
			return exactly([]string{"ACTOR"}[:min(len(args), 1)]...)(cmd, args)
		},
	}
	cmd.Flags().IntVar(&most, "children", 16, "children shown of each actor; 0: all")
	cmd.RunE = a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		if len(args) == 1 {
			var d map[string]any
			if err := c.Get(ctx, "/debug/actors/"+(&url.URL{Path: args[0]}).EscapedPath(), &d); err != nil {
				return err
			}
			return a.printJSON(d)
		}
		var t debug.Tree
		if err := c.Get(ctx, "/debug/actors", &t); err != nil {
			return err
		}
		if a.output == "json" {
			return a.printJSON(t)
		}
		_, err := lipgloss.Fprintln(a.out, renderTree(t, most, time.Now()))
		return err
	})
	return cmd
}

func renderTree(t debug.Tree, most int, now time.Time) string {
	root := tree.Root(visible(strings.TrimSpace(fmt.Sprintf("%s %d actors", t.Node, t.Count))))
	grow(root, t.Roots, most, now)
	return root.String()
}

func grow(node *tree.Tree, branches []*debug.Branch, most int, now time.Time) {
	slices.SortStableFunc(branches, func(a, b *debug.Branch) int { return compareNatural(a.ID, b.ID) })
	shown := branches
	if most > 0 && len(branches) > most {
		shown = branches[:most]
	}
	for _, b := range shown {
		if len(b.Children) == 0 {
			node.Child(actorLine(b, now))
			continue
		}
		child := tree.Root(actorLine(b, now))
		grow(child, b.Children, most, now)
		node.Child(child)
	}
	if hidden := len(branches) - len(shown); hidden > 0 {
		node.Child(fmt.Sprintf("… and %d more (--children 0 shows them)", hidden))
	}
}

// compareNatural orders ids as people do: slot 9 before slot 10.
func compareNatural(a, b string) int {
	for a != "" && b != "" {
		m, n := digits(a), digits(b)
		if m == 0 || n == 0 {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		if c := cmp.Or(cmp.Compare(m, n), strings.Compare(a[:m], b[:n])); c != 0 {
			return c
		}
		a, b = a[m:], b[n:]
	}
	return cmp.Compare(len(a), len(b))
}

// digits is how many digits stand at the head of s.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }

// actorLine says of an actor what differs from the ordinary. Its texts come from programs and callers, so they are
// made visible one by one, before any colour.
func actorLine(b *debug.Branch, now time.Time) string {
	parts := []string{visible(b.ID)}
	for _, word := range []string{b.State, b.Health, b.Grade} {
		if word != "" && (len(parts) == 1 || word != "healthy") {
			parts = append(parts, tone(word))
		}
	}
	parts = append(parts, ago(b.Since, now))
	if b.Why != "" {
		parts = append(parts, visible("("+b.Why+")"))
	}
	if b.MailboxDepth > 0 {
		parts = append(parts, fmt.Sprintf("mailbox %d", b.MailboxDepth))
	}
	if b.Restarts > 0 {
		parts = append(parts, fmt.Sprintf("restarts %d", b.Restarts))
	}
	if !b.Execution.IsZero() {
		parts = append(parts, "runs "+b.Execution.String())
	}
	if b.LastFailure != "" {
		parts = append(parts, "failed: "+visible(clipTo(b.LastFailure, 60)))
	}
	return strings.Join(parts, " ")
}

// tone colours a word that matters.
func tone(word string) string {
	style, ok := tones[word]
	if !ok {
		return visible(word)
	}
	return style.UnsetPadding().Render(word)
}
