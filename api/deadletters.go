package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/bulk"
	"github.com/troupe-run/troupe/store"
)

// statsSpan is the default period of the dead-letter statistics.
const statsSpan = 48 * time.Hour

// letterPage is how many dead letters are read at a time where some of them are left out.
const letterPage = 1000

func deadLetterRoutes() []*route {
	const one = "/api/v1/dead-letters/{id}"
	return []*route{
		{method: "GET", path: "/api/v1/dead-letters", scope: ScopeRead, group: "dead letters", params: append(letterParams(), limitParam, cursorParam),
			summary: "The dead letters, newest first, without their bodies.", result: DeadLetterList{}, handle: (*server).deadLetters},
		{method: "GET", path: "/api/v1/dead-letters/stats", scope: ScopeRead, group: "dead letters",
			params:  []param{{name: "hours", kind: "integer", help: "How far back to count, 1 to 720; 48 where left out."}},
			summary: "Counts by worker, action, reason and hour.", result: DeadLetterStats{}, handle: (*server).deadLetterStats},
		{method: "GET", path: one, scope: ScopeRead, group: "dead letters",
			summary: "One dead letter, with up to 64 KiB of its body.", result: DeadLetterView{}, handle: (*server).deadLetter},
		{method: "POST", reason: true, path: one + "/requeue", scope: ScopeOperate, group: "dead letters", status: http.StatusCreated,
			summary: "Submit its execution again, as /retry does.", result: form.ExecutionView{}, handle: (*server).requeue},
		{method: "POST", reason: true, path: one + "/discard", scope: ScopeOperate, group: "dead letters",
			summary: "Mark it as handled, without a new execution.", result: DeadLetterView{}, handle: (*server).discard},
	}
}

func (s *server) deadLetters(c *call) error {
	limit, err := c.query.number("limit", 1, 1000, 100)
	if err != nil {
		return err
	}
	before, err := c.query.position()
	if err != nil {
		return err
	}
	f, err := letterFilter(c.query)
	if err != nil {
		return err
	}
	view, err := s.letters(c.r.Context(), &f, before, limit)
	if err != nil {
		return err
	}
	if err := s.findGone(c.r.Context(), view.DeadLetters); err != nil {
		return err
	}
	return writeJSON(c.w, http.StatusOK, view)
}

func letterFilter(q query) (f store.DeadLetterFilter, err error) {
	if f.LetterValues, err = letterValuesOf(q, ""); err != nil {
		return f, err
	}
	if f.Not, err = letterValuesOf(q, notPrefix); err != nil {
		return f, err
	}
	f.From, f.To, err = q.times()
	return f, err
}

// letterValuesOf reads the values of the parameters that begin so.
func letterValuesOf(q query, prefix string) (v store.LetterValues, err error) {
	var workers []string
	for name, values := range map[string]*[]string{"reason": &v.Reasons, "resolution": &v.Resolutions, "worker": &workers, "action": &v.Actions} {
		if *values, err = q.several(prefix + name); err != nil {
			return v, err
		}
	}
	for _, w := range workers {
		v.Workers = append(v.Workers, messages.WorkerID(w))
	}
	return v, nil
}

// letters reads a page of the dead letters that a filter has. It looks at no more than store.DeadLetterWalk of them.
func (s *server) letters(ctx context.Context, f *store.DeadLetterFilter, before int64, limit int) (*DeadLetterList, error) {
	size, last := letterPage, LetterSearched{ID: before}
	if f.IsZero() {
		size = limit
	}
	view := &DeadLetterList{DeadLetters: []DeadLetterView{}, More: store.MoreEnd}
	for {
		page, err := s.Backend.DeadLetters().ListDeadLetters(ctx, last.ID, size)
		if err != nil {
			return nil, err
		}
		for i := range page {
			last = LetterSearched{At: page[i].At, ID: page[i].ID, Walked: last.Walked + 1}
			if !f.Match(&page[i]) {
				continue
			}
			if view.DeadLetters = append(view.DeadLetters, DeadLetterView{DeadLetter: page[i]}); len(view.DeadLetters) == limit {
				return view.on(store.MoreFound, last), nil
			}
		}
		if len(page) < size {
			return view, nil
		}
		if last.Walked >= store.DeadLetterWalk {
			return view.on(store.MoreUnsearched, last), nil
		}
	}
}

// findGone marks the dead letters whose executions the store does not have.
func (s *server) findGone(ctx context.Context, letters []DeadLetterView) error {
	var ids []int64
	for i := range letters {
		if !letters[i].Execution.IsZero() {
			ids = append(ids, letters[i].ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	found, err := s.Backend.DeadLetters().FindDeadLetters(ctx, ids)
	if err != nil {
		return err
	}
	gone := map[int64]bool{}
	for i := range found {
		gone[found[i].ID] = found[i].Status == messages.StatusInvalid
	}
	for i := range letters {
		letters[i].Gone = gone[letters[i].ID]
	}
	return nil
}

// on is the page with the way to the next one.
func (l *DeadLetterList) on(more store.More, last LetterSearched) *DeadLetterList {
	l.More, l.SearchedTo, l.NextCursor = more, &last, numberCursor(last.ID)
	return l
}

func (s *server) deadLetterStats(c *call) error {
	hours, err := c.query.number("hours", 1, 720, int(statsSpan/time.Hour))
	if err != nil {
		return err
	}
	since := time.Now().UTC().Add(-time.Duration(hours) * time.Hour)
	counts, err := s.Backend.DeadLetters().DeadLetterStats(c.r.Context(), since)
	if err != nil {
		return err
	}
	view := DeadLetterStats{Since: since, Counts: orEmpty(counts)}
	for _, n := range counts {
		view.Total += n.Count
	}
	return writeJSON(c.w, http.StatusOK, &view)
}

func letterID(r *http.Request) (int64, error) {
	text := r.PathValue("id")
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, messages.Problemf(messages.CodeNotFound, "dead letter %q is not known here: its id is a number", clip(text))
	}
	return id, nil
}

func (s *server) deadLetter(c *call) error {
	id, err := letterID(c.r)
	if err != nil {
		return err
	}
	letter, err := s.Backend.DeadLetters().GetDeadLetter(c.r.Context(), id)
	if err != nil {
		return named(err, "dead letter", strconv.FormatInt(id, 10))
	}
	return s.letter(c, letter)
}

func (s *server) requeue(c *call) error {
	id, err := letterID(c.r)
	if err != nil {
		return err
	}
	made, err := s.Backend.RequeueDeadLetter(c.r.Context(), id, c.caller)
	if err != nil {
		return named(err, "dead letter", strconv.FormatInt(id, 10))
	}
	return s.made(c, &made)
}

func (s *server) discard(c *call) error {
	id, err := letterID(c.r)
	if err != nil {
		return err
	}
	letter, err := s.Backend.DiscardDeadLetter(c.r.Context(), id, c.caller)
	if err != nil {
		return named(err, "dead letter", strconv.FormatInt(id, 10))
	}
	return s.letter(c, letter)
}

// letter answers with one dead letter.
func (s *server) letter(c *call, letter store.DeadLetter) error {
	view := []DeadLetterView{{DeadLetter: letter}}
	if err := s.findGone(c.r.Context(), view); err != nil {
		return err
	}
	view[0].Means, view[0].WhatToDo = bulk.LetterAdvice(letter.Reason, letter.Resolution)
	return writeJSON(c.w, http.StatusOK, &view[0])
}
