package main

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/tree"
	"github.com/spf13/cobra"

	"github.com/troupe-run/troupe/cmd/troupe/client"
	"github.com/troupe-run/troupe/debug"
)

func (t *treeAsk) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "tree [ACTOR]", Short: "Show the live actors of a node or of all, or one with its history",
		Long: `Show the live actors of the node that --server names, of all live nodes with --cluster, or of another node with --node. With
--cluster each node has the age of its view, and the reason if it does not answer. An ACTOR, such as troupe/pools/go, is shown as JSON with its history.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if t.cluster && (t.node != "" || len(args) > 0) {
				return usagef("troupe tree: --cluster shows every node; name one with --node NAME, or one of its actors with --node NAME ACTOR")
			}
			return atMost("ACTOR")(cmd, args)
		},
	}
	cmd.Flags().IntVar(&t.most, "children", 16, "children shown of each actor, those with problems first; 0, and json: all")
	cmd.Flags().BoolVar(&t.cluster, "cluster", false, "the actors of all live nodes")
	cmd.Flags().StringVar(&t.node, "node", "", "the actors of this node, by its name or incarnation")
	cmd.RunE = t.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		switch {
		case len(args) == 1:
			var d map[string]any
			return t.show(ctx, c, t.path(args[0]), &d, nil)
		case t.cluster:
			var f debug.Forest
			return t.show(ctx, c, t.path(""), &f, func() string { return renderForest(f, t.most) })
		case t.node != "":
			var p debug.Part
			return t.show(ctx, c, t.path(""), &p, func() string { return renderPart(p, t.most) })
		}
		var own debug.Tree
		return t.show(ctx, c, t.path(""), &own, func() string { return renderTree(own, t.most, c.Now()) })
	})
	return cmd
}

// treeAsk is the verb tree, and what its flags say.
type treeAsk struct {
	*app
	cluster bool
	node    string
	most    int
}

// path is where that is.
func (t *treeAsk) path(actor string) string {
	q := url.Values{}
	if t.cluster {
		q.Set("cluster", "1")
	}
	if t.node != "" {
		q.Set("node", t.node)
	}
	path := "/debug/actors"
	if actor != "" {
		path += "/" + (&url.URL{Path: actor}).EscapedPath()
	} else if t.most > 0 && t.output != "json" {
		q.Set("children", strconv.Itoa(t.most))
	}
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	return path
}

// show asks for what is at path and prints it, as JSON where there is no text of it.
func (t *treeAsk) show(ctx context.Context, c *client.Client, path string, v any, text func() string) error {
	if err := c.Get(ctx, path, v); err != nil {
		return err
	}
	if text == nil || t.output == "json" {
		return t.printJSON(v)
	}
	_, err := lipgloss.Fprintln(t.out, text())
	return err
}

func renderForest(f debug.Forest, most int) string {
	called := map[string]int{}
	for _, p := range f.Nodes {
		called[p.Node]++
	}
	parts := make([]string, len(f.Nodes))
	for i, p := range f.Nodes {
		if called[p.Node] > 1 { // as in the ids of its workers
			p.Node += "@" + p.Incarnation.Short()
		}
		parts[i] = renderPart(p, most)
	}
	return strings.Join(parts, "\n\n")
}

// renderPart shows one node's part. How long its actors have been as they are is by its own clock, when it was asked.
func renderPart(p debug.Part, most int) string {
	words := []string{visible(p.Node), tone(p.State)}
	if p.Cordoned {
		words = append(words, tone("cordoned"))
	}
	if p.Tree != nil {
		words = append(words, fmt.Sprintf("%d actors", p.Tree.Count))
	}
	if p.AgeMS != nil && !p.Own {
		words = append(words, "as of "+short(time.Duration(*p.AgeMS)*time.Millisecond)+" ago")
	}
	if p.Error != "" {
		words = append(words, badStyle.UnsetPadding().Render("not reached:")+" "+visible(p.Error))
	}
	root := tree.Root(strings.Join(words, " "))
	if p.Tree != nil {
		grow(root, p.Tree.Roots, most, p.Tree.At)
	}
	return root.String()
}

func renderTree(t debug.Tree, most int, now time.Time) string {
	root := tree.Root(visible(strings.TrimSpace(fmt.Sprintf("%s %d actors", t.Node, t.Count))))
	grow(root, t.Roots, most, now)
	return root.String()
}

func grow(node *tree.Tree, branches []*debug.Branch, most int, now time.Time) {
	slices.SortStableFunc(branches, func(a, b *debug.Branch) int { return debug.CompareIDs(a.ID, b.ID) })
	for _, b := range branches {
		if len(b.Children) == 0 && b.Hidden == nil {
			node.Child(actorLine(b, now))
			continue
		}
		child := tree.Root(actorLine(b, now))
		grow(child, b.Children, most, now)
		if b.Hidden != nil {
			child.Child(hiddenLine(b.Hidden, most))
		}
		node.Child(child)
	}
}

// hiddenLine says how many are not shown, and how to see them.
func hiddenLine(h *debug.Hidden, most int) string {
	line := fmt.Sprintf("… and %d more", h.Count)
	var states []string
	for _, state := range slices.Sorted(maps.Keys(h.States)) {
		states = append(states, fmt.Sprintf("%d %s", h.States[state], visible(state)))
	}
	if len(states) > 0 {
		line += ": " + strings.Join(states, ", ")
	}
	if most > 0 {
		return line + " (--children 0 shows them)"
	}
	return line + " (too many for one answer)"
}

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
