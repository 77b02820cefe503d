package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-run/troupe/store"
)

// commitSubmits stores the calls of one group in one transaction. If the group conflicts with stored rows of other
// requests, each call gets its own transaction, so that one call never makes another fail. A group that takes too long,
// or fails with an unknown error, is divided until the cause is alone.
func (s *submitter) commitSubmits(ctx context.Context, group []*submitCall) {
	group = s.failBlocked(ctx, group, false)
	if len(group) == 1 {
		s.submitSingly(ctx, group)
	}
	if len(group) < 2 {
		return
	}
	err := s.submitTogether(ctx, group)
	if sqlState(err) == codeLock {
		if free := s.failBlocked(ctx, group, true); len(free) < len(group) {
			s.commitSubmits(ctx, free)
			return
		}
	}
	switch {
	case err == nil:
	case causedByOneCall(err, group):
		s.submitSingly(ctx, group)
	case store.MayPassInParts(s.mapError("submit", err)):
		half := len(group) / 2
		s.commitSubmits(ctx, group[:half])
		s.commitSubmits(ctx, group[half:])
	default:
		for _, c := range group {
			c.err = err
		}
	}
}

// causedByOneCall reports whether an error of a group may come from one call in it that is found quickly. A lock timeout may come
// from a key that a program's transaction has inserted.
func causedByOneCall(err error, group []*submitCall) bool {
	if sqlState(err) == codeLock {
		return slices.ContainsFunc(group, func(c *submitCall) bool { return keyed(c.executions) })
	}
	return dataError(err) || errors.Is(err, store.ErrConflict)
}

// failBlocked fails the calls that submit to a session whose row another transaction has locked, and returns the
// others. It checks the sessions that are remembered as locked, or all of the group's.
func (s *submitter) failBlocked(ctx context.Context, group []*submitCall, all bool) []*submitCall {
	var names []laneName
	for _, c := range group {
		names = append(names, lanesOf(c)...)
	}
	if !all {
		names = knownBlocked(s.blocked, s.blocked.lanes, names, func(n laneName) laneName { return n })
	}
	if len(names) == 0 {
		return group
	}
	held, err := s.held.findBlockedLanes(ctx, names)
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

// lanesOf returns the sessions of a call.
func lanesOf(c *submitCall) (out []laneName) {
	for i := range c.executions {
		if e := &c.executions[i]; e.Session != "" {
			out = append(out, laneName{encodeText(e.Pool), encodeText(e.Session)})
		}
	}
	return out
}

// submitSingly stores each call alone. It waits once for a key that an open transaction has.
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

// locksMax bounds how often a single call waits for a lock whose holder is gone when it looks.
const locksMax = 2

// submitAlone stores one call. A lock timeout comes from the lock of a session, which failBlocked finds, or from a
// key or id, which no query finds: another transaction has inserted it and not committed. If no lock is found, a call
// without keys is repeated once, because the holder of a session may have ended before the look.
func (s *submitter) submitAlone(ctx context.Context, c *submitCall) {
	alone, tries := []*submitCall{c}, locksMax
	if keyed(c.executions) {
		tries = 1
	}
	for n := range tries {
		// The first check is for locks that other calls have found meanwhile, also those of this group.
		if len(s.failBlocked(ctx, alone, n > 0)) == 0 {
			return
		}
		if c.out, c.err = s.submitOne(ctx, c.executions, c.places); sqlState(c.err) != codeLock {
			return
		}
	}
	if len(s.failBlocked(ctx, alone, true)) > 0 {
		c.err = &store.PartError{Err: fmt.Errorf("submit in %s: %w: %w, of a session, an id or an idempotency key: submit again, "+
			"or end the transaction that has it (pg_stat_activity, pg_locks): %w", s.where, store.ErrUnavailable, store.ErrBlocked, c.err)}
	}
}
