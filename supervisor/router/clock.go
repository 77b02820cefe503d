package router

import (
	"slices"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store/clock"
)

// localTimes turns the times of the store that an event brings into moments of this process, by which the roster goes: neither the
// machine's clock nor a step of the store's moves what the roster waits for then. Times of the workers' heartbeats are moments of
// this process already.
func localTimes(c *clock.Clock, e roster.Event) roster.Event {
	switch e := e.(type) {
	case roster.Loaded:
		e.NextAt, e.Candidates = c.Local(e.NextAt), localDeadlines(c, e.Candidates)
		return e
	case roster.Arrived:
		if slices.ContainsFunc(e.Candidates, hasDeadline) {
			return roster.Arrived{Candidates: localDeadlines(c, e.Candidates)}
		}
	case roster.Offered:
		if slices.ContainsFunc(e.Candidates, hasDeadline) {
			return roster.Offered{Candidates: localDeadlines(c, e.Candidates)}
		}
	case roster.Holding:
		e.ClaimBy = c.Local(e.ClaimBy)
		return e
	case roster.SessionMoved:
		e.TouchedAt = c.Noted(e.TouchedAt)
		return e
	}
	return e // Placed, of which there is one for each execution, is made with local times
}

func hasDeadline(c messages.Candidate) bool { return !c.WorkerDeadline.IsZero() }

// localDeadlines does so with what few candidates have. Their slice may be somebody else's too, so it is left as it is.
func localDeadlines(c *clock.Clock, all []messages.Candidate) []messages.Candidate {
	first := slices.IndexFunc(all, hasDeadline)
	if first < 0 {
		return all
	}
	all = slices.Clone(all)
	for i := first; i < len(all); i++ {
		all[i].WorkerDeadline = c.Local(all[i].WorkerDeadline)
	}
	return all
}
