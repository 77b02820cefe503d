package pack

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/troupe-run/troupe/messages"
)

// Of returns a set with the actions and their schemas, but without packs and pools. It serves a program that checks
// parameters of actions that nodes serve.
func Of(actions ...messages.Action) (*Set, error) {
	s := &Set{Actions: slices.Clone(actions), schemas: map[string]*checker{}}
	slices.SortFunc(s.Actions, func(a, b messages.Action) int { return cmp.Compare(a.Ref, b.Ref) })
	for i := range s.Actions {
		a := &s.Actions[i]
		if len(a.Parameters) == 0 {
			continue
		}
		schema, problem := registeredSchema(a.Parameters)
		if problem != "" {
			return nil, fmt.Errorf("action %s: %s", clip(a.Ref), problem)
		}
		s.schemas[a.Ref] = schema
	}
	return s, nil
}
