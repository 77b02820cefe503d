package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-run/troupe/store"
)

// commitSubmits stores the calls of one group in one transaction. When something in it meets what is there already, and
// does not stand for it, each call gets a transaction of its own, so that what is wrong with one never fails another. What
// takes too long, or fails in a way that nobody knows, is divided until it stands alone.
func (s *submitter) commitSubmits(ctx context.Context, group []*submitCall) {
	group = s.turnAwayBlocked(ctx, group, false)
	if len(group) == 1 {
		s.submitSingly(ctx, group)
	}
	if len(group) < 2 {
		return
	}
	err := s.submitTogether(ctx, group)
	if sqlState(err) == codeLock {
		if free := s.turnAwayBlocked(ctx, group, true); len(free) < len(group) {
			s.commitSubmits(ctx, free)
			return
		}
	}
	switch {
	case err == nil:
	case ofOne(err, group):
		s.submitSingly(ctx, group)
	case store.OfPart(s.mapError("submit", err)):
		half := len(group) / 2
		s.commitSubmits(ctx, group[:half])
		s.commitSubmits(ctx, group[half:])
	default:
		for _, c := range group {
			c.err = err
		}
	}
}

// ofOne reports whether an error of a group may be that of one call in it, which is quickly found. A lock that is not had may
// be that of a key, which a program's transaction has.
func ofOne(err error, group []*submitCall) bool {
	if sqlState(err) == codeLock {
		return slices.ContainsFunc(group, func(c *submitCall) bool { return keyed(c.executions) })
	}
	return dataError(err) || errors.Is(err, store.ErrConflict)
}

// turnAwayBlocked fails the calls that submit to a session whose row is held by another transaction, and returns the others.
// It looks at the sessions that are remembered as held, or at all of the group's.
func (s *submitter) turnAwayBlocked(ctx context.Context, group []*submitCall, all bool) []*submitCall {
	var names []laneName
	for _, c := range group {
		names = append(names, lanesOf(c)...)
	}
	if !all {
		names = some(s.blocked, s.blocked.lanes, names, func(n laneName) laneName { return n })
	}
	if len(names) == 0 {
		return group
	}
	held, err := s.held.lookLanes(ctx, names)
	if err != nil || len(held) == 0 {
		return group
	}
	s.endDead(ctx)
	var free []*submitCall
	for _, c := range group {
		of := lanesOf(c)
		if at := slices.IndexFunc(of, func(n laneName) bool { return held[n] }); at >= 0 {
			c.err = fmt.Errorf("session %q of pool %q: %w: %w: submit again, or end the transaction that has it (pg_stat_activity, pg_locks)",
				of[at][1], of[at][0], store.ErrUnavailable, store.ErrBlocked)
			continue
		}
		free = append(free, c)
	}
	return free
}

// lanesOf are the sessions of a call.
func lanesOf(c *submitCall) (out []laneName) {
	for i := range c.executions {
		if e := &c.executions[i]; e.Session != "" {
			out = append(out, laneName{encodeText(e.Pool), encodeText(e.Session)})
		}
	}
	return out
}

// submitSingly stores each call by itself. A key that an open transaction has is waited for once.
func (s *submitter) submitSingly(ctx context.Context, group []*submitCall) {
	held := map[ownedKey]error{}
	for _, c := range group {
		var key ownedKey
		if len(c.executions) == 1 {
			key = ownedKeyOf(&c.executions[0])
		}
		if c.err = held[key]; c.err != nil {
			continue
		}
		if s.submitAlone(ctx, c); key.key != "" && sqlState(c.err) == codeLock {
			held[key] = c.err
		}
	}
}

// locksMax bounds how often a call alone waits for a lock whose holder has gone by the time of the look.
const locksMax = 2

// submitAlone stores one call. A lock that it waits for in vain is that of a session, which the look finds, or that of a key
// or an id, which no look can find: another transaction has inserted it and not committed. Where the look finds nobody, a
// call without keys is made once more, because a session's holder may have ended before the look.
func (s *submitter) submitAlone(ctx context.Context, c *submitCall) {
	alone, tries := []*submitCall{c}, locksMax
	if keyed(c.executions) {
		tries = 1
	}
	for n := range tries {
		// The first look is for what other calls have found meanwhile, those of this group too.
		if len(s.turnAwayBlocked(ctx, alone, n > 0)) == 0 {
			return
		}
		if c.out, c.err = s.submitOne(ctx, c.executions, c.places); sqlState(c.err) != codeLock {
			return
		}
	}
	if len(s.turnAwayBlocked(ctx, alone, true)) > 0 {
		c.err = &store.PartError{Err: fmt.Errorf("submit in %s: %w: %w, of a session, an id or an idempotency key: submit again, "+
			"or end the transaction that has it (pg_stat_activity, pg_locks): %w", s.where, store.ErrUnavailable, store.ErrBlocked, c.err)}
	}
}
