package bulk

import (
	"cmp"
	"maps"
	"slices"

	"github.com/troupe-run/troupe/messages"
)

// Bounds of a preview.
const (
	CountMax    = 100_000 // executions or dead letters that are looked at
	ExamplesMax = 10
	actionsMax  = 50 // actions with a count of their own
	Others      = "(other)"
)

// Tally is what a preview says of the executions or dead letters that match.
type Tally struct {
	Kind     Kind
	Count    int64                     // to act on
	Matched  int64                     // with those that are left as they are
	Status   map[messages.Status]int64 // of executions
	Reason   map[string]int64          // of dead letters
	Action   map[string]int64
	Skipped  map[Why]int64
	Examples []messages.Execution // the first ones to act on, without parameters and results
	Letters  []Letter             // the same of dead letters
}

// NewTally returns one of nothing.
func NewTally(kind Kind) *Tally {
	return &Tally{Kind: kind, Status: map[messages.Status]int64{}, Reason: map[string]int64{}, Action: map[string]int64{}, Skipped: map[Why]int64{}}
}

// Add counts one execution.
func (t *Tally) Add(e *messages.Execution) {
	if why := Judge(t.Kind, e); why != "" {
		t.Skip(why)
		return
	}
	t.Matched++
	t.Count++
	t.Status[e.Status]++
	t.action(e.Action)
	if len(t.Examples) < ExamplesMax {
		t.Examples = append(t.Examples, *e)
	}
}

// action counts an action, the ones above the bound together.
func (t *Tally) action(action string) {
	if _, known := t.Action[action]; !known && len(t.Action) >= actionsMax {
		action = Others
	}
	t.Action[action]++
}

// Skip counts one that is left as it is.
func (t *Tally) Skip(why Why) {
	t.Matched++
	t.Skipped[why]++
}

// Counted is a value with its count.
type Counted struct {
	Value string `json:"value"`
	N     int64  `json:"n"`
}

// Sorted lists counts, the largest first.
func Sorted[K ~string](counts map[K]int64) []Counted {
	out := make([]Counted, 0, len(counts))
	for value, n := range counts {
		out = append(out, Counted{string(value), n})
	}
	slices.SortFunc(out, func(a, b Counted) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Value, b.Value)) })
	return out
}

// Statuses lists the counts by status, the largest first.
func (t *Tally) Statuses() []Counted {
	named := make(map[string]int64, len(t.Status))
	for status := range maps.Keys(t.Status) {
		named[status.String()] = t.Status[status]
	}
	return Sorted(named)
}

// Grown reports whether so many more match than were previewed that somebody must look again: more than a tenth.
func Grown(previewed, now int64) bool { return (now-previewed)*10 > previewed }
