package operate

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/facets"
	"github.com/troupe-run/troupe/rules/rollup"
	"github.com/troupe-run/troupe/store"
)

// Bounds of counting values.
const (
	facetsFew     = 2000                  // executions of a list that are counted before the counts by minute are read
	facetsFewTime = 2 * time.Second       // of counting these, unless Config.CountFor says otherwise
	facetsTime    = 60 * time.Millisecond // of counting a list
	listPage      = 500                   // executions of a page
	facetsRows    = 50_000                // counts by minute, and by hour, that are read for one answer
)

// Facets counts how many executions of a filter have each value of some fields. A short list is counted whole. Of a longer one the
// counts by minute tell where they have all that is asked for; else the list is counted as far as one page of a list may look, or for
// facetsTime. The page has no executions, and says how far it came.
func (q *executions) Facets(ctx context.Context, f store.Filter, fields []facets.Field) (*facets.Counts, store.Page, error) {
	minutely := byMinutes(&f, fields)
	most, within := store.ListWalk, facetsTime
	if minutely { // their number bounds the work, so that the answer does not depend on the machine's other load
		most, within = facetsFew, cmp.Or(q.cfg.CountFor, facetsFewTime)
	}
	counts, reached, err := q.countList(ctx, f, fields, most, within)
	if err != nil || !minutely || reached.More == store.MoreEnd {
		return counts, reached, err
	}
	minutes, whole, err := q.countMinutes(ctx, &f, fields)
	if err != nil || whole {
		return minutes, store.Page{More: store.MoreEnd}, err
	}
	return q.countList(ctx, f, fields, store.ListWalk, facetsTime)
}

// countList counts the executions of a list, until it has looked at so many of them or for so long, at one page at least.
func (q *executions) countList(ctx context.Context, f store.Filter, fields []facets.Field, most int, within time.Duration) (*facets.Counts, store.Page, error) {
	f.Limit = listPage
	counts := facets.New(facets.List, fields)
	reached, err := walk(ctx, q.cfg.Store, f, most, within, counts.Add)
	return counts, reached, err
}

// lister reads pages of a list. A store.Store is one.
type lister interface {
	List(ctx context.Context, f store.Filter) (store.Page, error)
}

// walk gives each execution of a list, until it has looked at so many of them or for so long: all pages have one time. The page has no
// executions, and says how far it came.
func walk(ctx context.Context, s lister, f store.Filter, most int, within time.Duration, each func(*messages.Execution)) (store.Page, error) {
	reached := store.Page{More: store.MoreUnsearched}
	for f.Until = f.End(time.Now(), within); ; {
		page, err := s.List(ctx, f)
		if err != nil {
			return reached, err
		}
		for i := range page.Executions {
			each(&page.Executions[i])
		}
		if page.Next == 0 {
			return store.Page{More: store.MoreEnd}, nil
		}
		page.Searched.Walked = reached.Searched.Walked + max(page.Searched.Walked, len(page.Executions))
		if reached.Searched = page.Searched; page.Searched.Walked >= most || time.Now().After(f.Until) {
			return reached, nil
		}
		f.Before = page.Next
	}
}

// countMinutes counts what ended in the filter's time, taken to whole minutes, by the counts of the nodes: by the hour where minutes are added
// up. A time that begins before the minutes that are kept is taken to the whole hour. Whole: all of them were read.
func (q *executions) countMinutes(ctx context.Context, f *store.Filter, fields []facets.Field) (counts *facets.Counts, whole bool, err error) {
	now, err := q.cfg.Store.Now(ctx)
	if err != nil {
		return nil, false, err
	}
	counts = facets.New(facets.Minutes, fields)
	from, to := f.From.Truncate(time.Minute), f.To
	if from.Before(keptFrom(now, q.cfg.Counted)) {
		from = from.Truncate(time.Hour)
	}
	if to.IsZero() {
		to = now.Add(time.Minute)
	}
	cut, err := q.readSpan(ctx, store.RollupQuery{From: from, To: to, Bare: true}, now, facetsRows, func(r *rollup.Row) {
		if ofMinutes(f, &r.Key) {
			counts.AddMinute(&r.Key, r.N)
		}
	})
	return counts, cut.IsZero(), err
}

// byMinutes reports whether the counts by minute have all that a filter and the fields ask for: of a time, what has ended in it.
func byMinutes(f *store.Filter, fields []facets.Field) bool {
	switch {
	case f.From.IsZero(), f.Ends(), f.Not.Deep():
		return false
	case len(f.Sessions)+len(f.Workers)+len(f.Labels)+len(f.Keys)+len(f.IDPrefixes)+len(f.Was)+len(f.Texts) > 0:
		return false
	case slices.ContainsFunc(f.Statuses, func(s messages.Status) bool { return !s.Terminal() }):
		return false
	}
	return !slices.ContainsFunc(fields, func(f facets.Field) bool { return !f.Minutely() })
}

// ofMinutes reports whether a filter that the counts by minute can answer has what is counted of the key.
func ofMinutes(f *store.Filter, k *rollup.Key) bool {
	not := &f.Not
	return fits(f.Statuses, not.Statuses, k.Status) && fits(f.Actions, not.Actions, k.Action) && fits(f.Pools, not.Pools, k.Pool) &&
		fits(f.Errors, not.Errors, k.Code)
}

// fits reports whether a value is one of the wanted ones, if there are any, and none of the others.
func fits[T comparable](wanted, not []T, is T) bool {
	return (len(wanted) == 0 || slices.Contains(wanted, is)) && !slices.Contains(not, is)
}
