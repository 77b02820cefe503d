package router

import (
	"cmp"
	"context"
	"slices"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// dueStore is the part of the store that says what is due.
type dueStore interface {
	Due(ctx context.Context, q store.DueQuery) (store.DuePage, error)
}

// The bounds of one look past executions whose action nobody here serves: so many pages, each of at most so many executions and heads.
const (
	dueRounds  = 40
	duePageMax = 5000
)

// served says which candidates the workers of this router can run. Nodes share a router only where they serve the same, so it asks this node's
// packs.
func (r *Router) served() func(*messages.Candidate) bool {
	if r.WorkerConfig == nil || r.WorkerConfig.Action == nil {
		return func(*messages.Candidate) bool { return true }
	}
	action := r.WorkerConfig.Action
	return func(c *messages.Candidate) bool {
		_, ok := action(c.Action, c.Version)
		return ok
	}
}

// due reads what is due and can be run here. What cannot is left in the store, for a node that serves it. Where such executions fill a page, it
// looks behind them: on from the last position and, for the heads of sessions, which have none, at more of them.
func due(ctx context.Context, s dueStore, q store.DueQuery, served func(*messages.Candidate) bool) (store.DuePage, error) {
	page, err := s.Due(ctx, q)
	found, passed := split(page.Candidates, served)
	if err != nil || passed == 0 {
		return page, err
	}
	answer := page
	answer.Candidates = found
	next := q
	for range dueRounds {
		if !page.More || len(answer.Candidates) >= q.Limit+q.Heads {
			break
		}
		heads := next.Heads
		next.Limit, next.Heads = min(2*next.Limit, duePageMax), min(4*next.Heads, duePageMax)
		if last := lastSingle(page.Candidates); last != nil {
			next.AfterPriority, next.AfterSeq = last.Priority, last.Seq
		} else if next.Heads == heads {
			break // there is no more to look at
		}
		if page, err = s.Due(ctx, next); err != nil {
			return answer, err
		}
		found, passed = split(page.Candidates, served)
		for _, c := range found {
			if !slices.ContainsFunc(answer.Candidates, func(had messages.Candidate) bool { return had.ID == c.ID }) {
				answer.Candidates = append(answer.Candidates, c)
			}
		}
		answer.More = page.More
		if passed == 0 {
			break
		}
	}
	slices.SortStableFunc(answer.Candidates, func(a, b messages.Candidate) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Seq, b.Seq))
	})
	return answer, nil
}

// split are the candidates that are served, and how many are not.
func split(all []messages.Candidate, served func(*messages.Candidate) bool) (found []messages.Candidate, passed int) {
	for i := range all {
		if served(&all[i]) {
			found = append(found, all[i])
		}
	}
	return found, len(all) - len(found)
}

// lastSingle is the last candidate without a place in a session's line: the position from which the next page goes on.
func lastSingle(all []messages.Candidate) *messages.Candidate {
	for i := len(all) - 1; i >= 0; i-- {
		if c := &all[i]; c.Session == "" || c.Affinity == messages.AffinityHint {
			return c
		}
	}
	return nil
}
