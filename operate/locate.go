package operate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// names reports whether a text names the incarnation: its node's name, itself, or both as worker ids join them.
func names(text string, n *store.Node) bool {
	return text == n.Name || text == n.Incarnation.String() || text == n.Name+"@"+n.Incarnation.Short()
}

// locate finds the live incarnation that a text names. Of two that share a name one whose lease has run out does not count;
// two that both live are ambiguous, for nobody can know which is meant.
func locate(text string, known []store.Node, lapsed func(messages.Incarnation) bool) (store.Node, error) {
	var live, dead []store.Node
	for i := range known {
		switch n := &known[i]; {
		case !names(text, n):
		case n.State == store.NodeDead:
			dead = append(dead, *n)
		default:
			live = append(live, *n)
		}
	}
	if len(live) > 1 {
		holding := slices.DeleteFunc(slices.Clone(live), func(n store.Node) bool { return lapsed(n.Incarnation) })
		if len(holding) > 0 {
			live = holding
		}
	}
	switch {
	case len(live) == 1:
		return live[0], nil
	case len(live) > 1:
		return store.Node{}, ambiguous(text, live)
	case len(dead) > 0:
		return store.Node{}, messages.Problemf(messages.CodeNotFound,
			"node %s is dead: incarnation %s has ended, and no other of the name lives", text, dead[0].Incarnation)
	}
	return store.Node{}, messages.Problemf(messages.CodeNotFound, "there is no node %s; `troupe nodes` lists them", text)
}

// ambiguous says which live incarnations share a name.
func ambiguous(text string, live []store.Node) error {
	list := make([]string, len(live))
	incarnations := make([]messages.Incarnation, len(live))
	for i := range live {
		incarnations[i] = live[i].Incarnation
		list[i] = live[i].Incarnation.String()
		if live[i].Address != "" {
			list[i] += " at " + live[i].Address
		}
	}
	return &messages.Problem{
		Code:    messages.CodeAmbiguousNode,
		Message: fmt.Sprintf("%d live nodes are named %s: name the incarnation that is meant, %s", len(live), text, strings.Join(list, " or ")),
		Details: map[string]any{"incarnations": incarnations},
	}
}
