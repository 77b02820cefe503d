package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/failures"
	"github.com/troupe-run/troupe/store"
)

// Bounds of the groups that are asked for.
const (
	errorsDefault = time.Hour
	errorsMax     = 31 * 24 * time.Hour
	groupsDefault = 50
	groupsMax     = 200
)

// ErrorGroups is what failed in a time, grouped.
type ErrorGroups struct {
	From       time.Time         `json:"from"`
	To         time.Time         `json:"to"`
	By         failures.By       `json:"by"`
	Executions int               `json:"executions" doc:"that failed in that time, as far as was looked"`
	Groups     []*failures.Group `json:"groups" doc:"the largest first"`
	Left       int               `json:"left,omitempty" doc:"groups beyond the limit"`
	More       store.More        `json:"more" doc:"end: all was looked at; unsearched: there may be more"`
	SearchedTo *SearchedView     `json:"searched_to,omitempty" doc:"how far was looked, where that was not all"`
	KeptFrom   time.Time         `json:"kept_from,omitzero" doc:"what failed before it, from from on, is deleted by its retention and in no group; /series still counts it"`
}

// unsuccessful are the statuses of executions that failed.
func unsuccessful() []messages.Status {
	return []messages.Status{messages.Failed, messages.TimedOut, messages.Abandoned}
}

func errorsRoute() *route {
	params := []param{
		{name: "from", kind: "string", help: "What failed at this time or later, as 2030-01-31T08:00:00Z; an hour before to where left out."},
		{name: "to", kind: "string", help: "What failed before this time; now where left out."},
		{name: "by", kind: "string", help: "What a group has in common: " + words(failures.Ways()) + "; message where left out, which is action, code, type and message without numbers, ids and quoted texts."},
		{name: "limit", kind: "integer", help: "So many groups, 1 to 200; 50 where left out."},
	}
	for _, p := range listParams() {
		if !slices.Contains([]string{"from", "to", "ended_from", "ended_to", "limit", "cursor", "order"}, p.name) {
			params = append(params, p)
		}
	}
	return &route{method: "GET", path: "/api/v1/errors", scope: ScopeRead, group: "executions", params: params,
		summary: "What failed, grouped by what it has in common: how many, since when, on which workers, with examples.",
		result:  ErrorGroups{}, handle: (*server).errors}
}

func (s *server) errors(c *call) error {
	limit, err := c.query.number("limit", 1, groupsMax, groupsDefault)
	if err != nil {
		return err
	}
	f, err := failuresFilter(c.query, s.Now())
	if err != nil {
		return err
	}
	by, err := word(c.query, "by", failures.Ways())
	if err != nil {
		return err
	}
	v, err := s.walks.get(c.r.Context(), c.r.URL.RawQuery, func(ctx context.Context) (v ErrorGroups, err error) {
		groups, reached, err := s.Backend.Failures(ctx, f, by)
		if err != nil {
			return v, err
		}
		v = ErrorGroups{From: f.From, To: f.To, By: by, Executions: groups.All(), More: reached.More}
		v.Groups, v.Left = groups.Done(limit)
		if kept := s.Backend.KeptFrom(); kept.After(f.From) {
			v.KeptFrom = kept
		}
		if reached.More != store.MoreEnd {
			v.SearchedTo = &SearchedView{At: reached.Searched.At, Seq: reached.Searched.Seq, Walked: reached.Searched.Walked}
		}
		return v, nil
	})
	if err != nil {
		return err
	}
	return writeJSON(c.w, http.StatusOK, &v)
}

// failuresFilter is a list's filter of what failed in a time.
func failuresFilter(q query, now time.Time) (f store.Filter, err error) {
	if f, err = filterOf(q); err != nil {
		return f, err
	}
	if f.From, f.To, err = q.span(now, errorsDefault, errorsMax); err != nil {
		return f, err
	}
	if len(f.Statuses) == 0 {
		f.Statuses = unsuccessful()
	}
	for _, status := range f.Statuses {
		if !slices.Contains(unsuccessful(), status) {
			return f, invalid("status must be %s, got %q", statusWords(unsuccessful()), status)
		}
	}
	return f, nil
}
