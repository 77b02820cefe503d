package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/api/form"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// statsSpan is the default period of the dead-letter statistics.
const statsSpan = 48 * time.Hour

func deadLetterRoutes() []*route {
	const one = "/api/v1/dead-letters/{id}"
	return []*route{
		{method: "GET", path: "/api/v1/dead-letters", scope: ScopeRead, group: "dead letters", params: []param{limitParam, cursorParam},
			summary: "The dead letters, newest first, without their bodies.", result: DeadLetterList{}, handle: (*server).deadLetters},
		{method: "GET", path: "/api/v1/dead-letters/stats", scope: ScopeRead, group: "dead letters",
			params:  []param{{name: "hours", kind: "integer", help: "How far back to count, 1 to 720; 48 where left out."}},
			summary: "Counts by worker, action, reason and hour.", result: DeadLetterStats{}, handle: (*server).deadLetterStats},
		{method: "GET", path: one, scope: ScopeRead, group: "dead letters",
			summary: "One dead letter, with up to 64 KiB of its body.", result: store.DeadLetter{}, handle: (*server).deadLetter},
		{method: "POST", reason: true, path: one + "/requeue", scope: ScopeOperate, group: "dead letters", status: http.StatusCreated,
			summary: "Submit its execution again, as /retry does.", result: form.ExecutionView{}, handle: (*server).requeue},
		{method: "POST", reason: true, path: one + "/discard", scope: ScopeOperate, group: "dead letters",
			summary: "Mark it as handled, without a new execution.", result: store.DeadLetter{}, handle: (*server).discard},
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
	letters, err := s.Backend.DeadLetters().ListDeadLetters(c.r.Context(), before, limit)
	if err != nil {
		return err
	}
	view := DeadLetterList{DeadLetters: orEmpty(letters)}
	if len(letters) == limit {
		view.NextCursor = numberCursor(letters[limit-1].ID)
	}
	return writeJSON(c.w, http.StatusOK, &view)
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
	return writeJSON(c.w, http.StatusOK, &letter)
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
	return writeJSON(c.w, http.StatusOK, &letter)
}
