package api

import (
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/timeline"
	"github.com/troupe-run/troupe/store"
)

// This file answers how one execution went: its chain of retries, its events, why it waits, and its timeline.

func (s *server) chain(c *call) error {
	return s.ofExecution(c, func(id messages.ExecutionID) (any, error) {
		executions, err := s.Backend.Chain(c.r.Context(), id)
		return &ChainView{Executions: viewAll(executions)}, err
	})
}

func (s *server) events(c *call) error {
	return s.ofExecution(c, func(id messages.ExecutionID) (any, error) {
		q := store.EventQuery{Execution: id}
		err := c.answer.Admit(c.r.Context(), answerEvents)
		if err != nil {
			return nil, err
		}
		if q.From, q.To, err = c.query.part(); err != nil {
			return nil, err
		}
		if q.Newest, err = c.query.flag("newest"); err != nil {
			return nil, err
		}
		if q.From.IsZero() && q.To.IsZero() && !q.Newest {
			events, err := s.Backend.Events(c.r.Context(), id)
			return &EventsView{Events: orEmpty(events), More: len(events) >= store.EventsAll}, err
		}
		page, err := s.Backend.EventsBetween(c.r.Context(), q)
		return &EventsView{Events: orEmpty(page.Events), Left: page.Left, More: page.More || page.Left > 0}, err
	})
}

// part reads a range of time of one thing.
func (q query) part() (from, to time.Time, err error) {
	if from, err = q.moment("from"); err != nil {
		return from, to, err
	}
	if to, err = q.moment("to"); err == nil && !to.IsZero() && !from.Before(to) {
		err = invalid("to must be after from, got from=%s and to=%s", clip(q.text("from")), clip(q.text("to")))
	}
	return from, to, err
}

func (s *server) why(c *call) error {
	return s.ofExecution(c, func(id messages.ExecutionID) (any, error) {
		explanation, err := s.Backend.Why(c.r.Context(), id)
		return &explanation, err
	})
}

func (s *server) timeline(c *call) error {
	return s.ofExecution(c, func(id messages.ExecutionID) (any, error) {
		var part timeline.Part
		var err error
		if part.From, part.To, err = c.query.part(); err != nil {
			return nil, err
		}
		if part.Links, err = c.query.number("links_from", 1, linksFromMax, 0); err != nil {
			return nil, err
		}
		lanes, err := s.Backend.Timeline(c.r.Context(), id, part)
		return &lanes, err
	})
}

func (s *server) line(c *call) error {
	return s.ofExecution(c, func(id messages.ExecutionID) (any, error) {
		at, err := c.query.moment("at")
		if err != nil {
			return nil, err
		}
		if at.IsZero() {
			return nil, invalid("at is missing: the time of which to tell the place in line, as 2030-01-31T08:00:00Z")
		}
		line, err := s.Backend.LineAt(c.r.Context(), id, at)
		return &line, err
	})
}

// linksFromMax bounds the number of an execution in its retry chain.
const linksFromMax = 1_000_000
