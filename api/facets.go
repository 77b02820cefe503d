package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/rules/facets"
	"github.com/troupe-run/troupe/store"
)

// Bounds of the values of a field.
const (
	valuesDefault = 50
	valuesMax     = 200
)

// Facets is how many executions of a list have each value of some fields.
type Facets struct {
	From       time.Time                 `json:"from,omitzero" doc:"of the filter"`
	To         time.Time                 `json:"to,omitzero" doc:"of the filter"`
	Basis      facets.Basis              `json:"basis" doc:"list: the executions themselves were counted; minutes: what the nodes counted by minute, of executions that ended in that time"`
	Exact      bool                      `json:"exact" doc:"all executions of the filter were counted"`
	Executions int64                     `json:"executions" doc:"that were counted"`
	Fields     map[string][]facets.Count `json:"fields" doc:"by field, the most frequent values first; an execution without a value is not counted there"`
	Left       map[string]int            `json:"left,omitempty" doc:"by field, how many values there are beyond the limit"`
	Share      float64                   `json:"share,omitempty" doc:"the share of the time from from to to that was looked at, where that was not all"`
	SearchedTo *SearchedView             `json:"searched_to,omitempty" doc:"how far was looked, where that was not all"`
}

func facetsRoute() *route {
	params := []param{
		{name: "fields", kind: "string", many: true, help: "What is counted by: " + words(facets.Fields()) + ", or label.NAME; repeat it, or join several with commas, up to 10. status, action, pool and error where left out."},
		{name: "limit", kind: "integer", help: "So many values of each field, 1 to 200; 50 where left out."},
	}
	for _, p := range listParams() {
		if !slices.Contains([]string{"limit", "cursor", "order"}, p.name) {
			params = append(params, p)
		}
	}
	return &route{method: "GET", path: "/api/v1/facets", scope: ScopeRead, group: "executions", params: params,
		summary: "How many executions of a list have each status, action, pool, error code or other value.", result: Facets{}, handle: (*server).facetsOf}
}

func (s *server) facetsOf(c *call) error {
	f, err := filterOf(c.query)
	if err != nil {
		return err
	}
	limit, err := c.query.number("limit", 1, valuesMax, valuesDefault)
	if err != nil {
		return err
	}
	fields, err := fieldsOfQuery(c.query)
	if err != nil {
		return err
	}
	v, err := s.counted.get(c.r.Context(), c.r.URL.RawQuery, func(ctx context.Context) (v Facets, err error) {
		counts, reached, err := s.Backend.Facets(ctx, f, fields)
		if err != nil {
			return v, err
		}
		return viewFacets(&f, counts, &reached, limit, s.Now()), nil
	})
	if err != nil {
		return err
	}
	return writeJSON(c.w, http.StatusOK, &v)
}

func viewFacets(f *store.Filter, counts *facets.Counts, reached *store.Page, limit int, now time.Time) Facets {
	v := Facets{From: f.From, To: f.To, Basis: counts.Basis, Executions: counts.All, Exact: counts.Basis == facets.List}
	v.Fields, v.Left = counts.Done(limit)
	if reached.More == store.MoreEnd {
		return v
	}
	v.Exact, v.SearchedTo = false, &SearchedView{At: reached.Searched.At, Seq: reached.Searched.Seq, Walked: reached.Searched.Walked}
	if to := f.To; !f.From.IsZero() {
		if to.IsZero() || to.After(now) {
			to = now
		}
		v.Share = facets.Share(f.From, to, reached.Searched.At)
	}
	return v
}

// fieldsOfQuery reads the fields, each alone or several joined with commas.
func fieldsOfQuery(q query) (list []facets.Field, err error) {
	for _, text := range q.all("fields") {
		for name := range strings.SplitSeq(text, ",") {
			field := facets.Field(name)
			switch {
			case !field.Valid():
				return nil, invalid("fields must be %s, or label.NAME, got %q", words(facets.Fields()), clip(name))
			case slices.Contains(list, field):
			case len(list) == facets.FieldsMax:
				return nil, invalid("fields may have %d fields", facets.FieldsMax)
			default:
				list = append(list, field)
			}
		}
	}
	if len(list) == 0 {
		list = facets.Fields()[:4]
	}
	return list, nil
}
