package chaos_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/test/chaos"
)

// asByDefault removes the events that the store does not keep by default.
func asByDefault(h *chaos.History) *chaos.History {
	sparse := *h
	sparse.Sparse, sparse.Executions = true, slices.Clone(h.Executions)
	for i := range sparse.Executions {
		e := &sparse.Executions[i]
		e.Events = slices.DeleteFunc(slices.Clone(e.Events), func(ev store.Event) bool {
			finish := ev.From == messages.Running && (ev.To == messages.Completed || ev.To == messages.Failed)
			return ev.Kind == "place" || ev.Kind == "claim" || finish
		})
	}
	return &sparse
}

func steps(e *chaos.Stored) (all [][3]int) {
	for _, ev := range e.Changes() {
		all = append(all, [3]int{int(ev.From), int(ev.To), int(ev.Attempt)})
	}
	return all
}

// Filled adds the steps that the store leaves out, each in its place.
func TestUsualStepsAreImplied(t *testing.T) {
	t.Parallel()
	whole := validHistory()
	filled := asByDefault(&whole.History).Filled()
	for i := range whole.Executions {
		require.Equal(t, steps(&whole.Executions[i]), steps(&filled.Executions[i]), "execution %d", i)
	}
	require.Empty(t, chaos.Check(asByDefault(&whole.History)))
}

// A history of the default settings breaks the same rules as one with all events.
func TestEveryRuleFiresByDefault(t *testing.T) {
	t.Parallel()
	for _, m := range mutations {
		if m.rule == "history_is_whole" {
			continue // they change events that a sparse history does not have; TestASparseHistoryIsWhole covers them
		}
		w := validHistory()
		m.mutate(w)
		found := chaos.Check(asByDefault(&w.History))
		require.Len(t, found, 1, "%s: %v", m.name, found)
		require.Equal(t, m.rule, found[0].Rule, m.name)
	}
}

func TestASparseHistoryIsWhole(t *testing.T) {
	t.Parallel()
	for name, mutate := range map[string]func(*chaos.History){
		"the row has an attempt that nothing led to": func(h *chaos.History) { h.Executions[1].Attempt = 4 },
		"a rescue is of an older attempt": func(h *chaos.History) {
			e := &h.Executions[0]
			e.Events[len(e.Events)-1].Attempt = 1
		},
		"a rescue is missing": func(h *chaos.History) { h.Executions[1].Events = nil },
	} {
		h := asByDefault(&validHistory().History)
		mutate(h)
		found := chaos.Check(h)
		require.True(t, slices.ContainsFunc(found, func(v chaos.Violation) bool { return v.Rule == "history_is_whole" }), "%s: %v", name, found)
	}
}
