package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// A program's session, or a node that froze in the middle of a batch, may hold the lock of a row. A group that needs
// the row waits once until the lock timeout. Then it finds the locked rows by SKIP LOCKED and continues without them.
// Locked rows are remembered: no call waits for them again until they are found free.

// blockedMax bounds the remembered rows, blockedFor the time.
const (
	blockedMax = 10_000
	blockedFor = time.Minute
)

// blocked remembers the executions and the sessions whose rows were found locked.
type blocked struct {
	mu    sync.Mutex
	ids   map[messages.ExecutionID]time.Time // until when each is remembered
	lanes map[laneName]time.Time
}

// laneName is a session's pool and name, encoded.
type laneName [2]string

func newBlocked() *blocked {
	return &blocked{ids: map[messages.ExecutionID]time.Time{}, lanes: map[laneName]time.Time{}}
}

// note remembers the locked rows of those that were looked at, and forgets the others.
func note[K comparable](b *blocked, known map[K]time.Time, looked []K, held map[K]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(known)+len(held) > blockedMax {
		clear(known)
	}
	for _, k := range looked {
		if held[k] {
			known[k] = time.Now().Add(blockedFor)
		} else {
			delete(known, k)
		}
	}
}

// knownBlocked returns the remembered ones of all. It costs nothing while none is remembered.
func knownBlocked[T any, K comparable](b *blocked, known map[K]time.Time, all []T, key func(T) K) (out []K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(known) == 0 {
		return nil
	}
	now := time.Now()
	for _, t := range all {
		k := key(t)
		if until, ok := known[k]; ok && now.After(until) {
			delete(known, k)
		} else if ok {
			out = append(out, k)
		}
	}
	return out
}

// The queries for locked rows. Each is a transaction of its own and locks free rows only for its duration.
const (
	heldRowsSQL = `WITH free AS MATERIALIZED (SELECT e.id FROM execution e WHERE e.id = ANY($1) FOR NO KEY UPDATE SKIP LOCKED)
 SELECT e.id FROM execution e WHERE e.id = ANY($1) AND NOT EXISTS (SELECT FROM free f WHERE f.id = e.id)`
	heldLanesSQL = `WITH n AS MATERIALIZED (SELECT DISTINCT u.pool, u.session FROM unnest($1::text[], $2::text[]) AS u (pool, session)),
 freelane AS MATERIALIZED (SELECT l.pool, l.session FROM n JOIN lane l ON l.pool = n.pool AND l.session = n.session FOR NO KEY UPDATE OF l SKIP LOCKED),
 freesession AS MATERIALIZED (SELECT s.pool, s.session FROM n JOIN session s ON s.pool = n.pool AND s.session = n.session FOR NO KEY UPDATE OF s SKIP LOCKED)
 SELECT n.pool, n.session FROM n
 WHERE EXISTS (SELECT FROM lane l WHERE l.pool = n.pool AND l.session = n.session)
   AND NOT EXISTS (SELECT FROM freelane f WHERE f.pool = n.pool AND f.session = n.session)
  OR EXISTS (SELECT FROM session s WHERE s.pool = n.pool AND s.session = n.session)
   AND NOT EXISTS (SELECT FROM freesession f WHERE f.pool = n.pool AND f.session = n.session)`
	sessionsOfSQL = `SELECT e.id, e.pool, e.session FROM execution e WHERE e.id = ANY($1) AND e.session IS NOT NULL`
	// endDeadSQL ends the open transactions of incarnations that were declared dead. Such a node froze in the middle of a
	// transaction, and the server would keep its locks until the process ends.
	endDeadSQL = `SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a JOIN node n ON a.application_name = 'troupe ' || n.incarnation
 WHERE n.state = 'dead' AND a.datname = current_database() AND a.usename = current_user AND a.xact_start IS NOT NULL AND a.pid <> pg_backend_pid()`
)

// skipKnownBlocked answers the changes whose rows are remembered as locked and still are, and returns the others.
func (s *heldRows) skipKnownBlocked(ctx context.Context, items []*item) ([]*item, error) {
	known := knownBlocked(s.blocked, s.blocked.ids, items, func(it *item) messages.ExecutionID { return it.id })
	if len(known) == 0 {
		return items, nil
	}
	return s.skipBlocked(ctx, items, known)
}

// skipBlocked finds the locked executions, answers their changes, and returns the other changes.
func (s *heldRows) skipBlocked(ctx context.Context, items []*item, ids []messages.ExecutionID) ([]*item, error) {
	held, err := s.findBlocked(ctx, ids)
	if err != nil || len(held) == 0 {
		return items, err
	}
	s.endDead(ctx)
	var rest []*item
	for _, it := range items {
		if !held[it.id] {
			rest = append(rest, it)
			continue
		}
		it.out = store.Result{Verdict: store.Blocked, Err: fmt.Errorf("%s execution %s in %s: %w; it is repeated until the lock is gone: "+
			"end the transaction that has it (pg_stat_activity, pg_locks)", it.change.Name(), it.id, s.where, store.ErrBlocked)}
	}
	return rest, nil
}

// findBlocked returns which of the executions are locked by others, or belong to a locked session.
func (s *heldRows) findBlocked(ctx context.Context, ids []messages.ExecutionID) (map[messages.ExecutionID]bool, error) {
	held := map[messages.ExecutionID]bool{}
	of := map[laneName][]messages.ExecutionID{}
	batch := &pgx.Batch{}
	batch.Queue(heldRowsSQL, idsOf(ids)).Query(func(rows pgx.Rows) error {
		return each(rows, func(sc *scanner) {
			var id messages.ExecutionID
			sc.id((*[16]byte)(&id))
			held[id] = true
		})
	})
	batch.Queue(sessionsOfSQL, idsOf(ids)).Query(func(rows pgx.Rows) error {
		return each(rows, func(sc *scanner) {
			var id messages.ExecutionID
			sc.id((*[16]byte)(&id))
			name := laneName{encodeText(sc.text()), encodeText(sc.text())}
			of[name] = append(of[name], id)
		})
	})
	if err := s.pool.SendBatch(ctx, batch).Close(); err != nil {
		return nil, err
	}
	if len(of) > 0 {
		names := make([]laneName, 0, len(of))
		for name := range of {
			names = append(names, name)
		}
		lanes, err := s.findBlockedLanes(ctx, names)
		if err != nil {
			return nil, err
		}
		for name := range lanes {
			for _, id := range of[name] {
				held[id] = true
			}
		}
	}
	note(s.blocked, s.blocked.ids, ids, held)
	return held, nil
}

// findBlockedLanes returns which of the sessions are locked by others.
func (s *heldRows) findBlockedLanes(ctx context.Context, names []laneName) (map[laneName]bool, error) {
	pools, sessions := make([]string, len(names)), make([]string, len(names))
	for i, n := range names {
		pools[i], sessions[i] = n[0], n[1]
	}
	held := map[laneName]bool{}
	rows, err := s.pool.Query(ctx, heldLanesSQL, pools, sessions)
	if err != nil {
		return nil, err
	}
	err = each(rows, func(sc *scanner) { held[laneName{encodeText(sc.text()), encodeText(sc.text())}] = true })
	if err == nil {
		note(s.blocked, s.blocked.lanes, names, held)
	}
	return held, err
}

// endDead ends the transactions of dead incarnations. If the user has no right to, they last until their processes end.
func (s *core) endDead(ctx context.Context) {
	_, _ = s.pool.Exec(ctx, endDeadSQL)
}

// blockedLooks bounds how often a group looks for locked rows: others may lock more rows meanwhile.
const blockedLooks = 3

// applyUnblocked makes changes by f. After a lock timeout it repeats f without the blocked changes.
func (s *heldRows) applyUnblocked(ctx context.Context, items []*item, f func([]*item) error) error {
	rest, err := s.skipKnownBlocked(ctx, items)
	if err != nil {
		return err
	}
	for n := 0; len(rest) > 0; n++ {
		err := f(rest)
		if sqlState(err) != codeLock || n == blockedLooks {
			return err
		}
		waiting := open(rest)
		ids := make([]messages.ExecutionID, len(waiting))
		for i, it := range waiting {
			ids[i] = it.id
		}
		free, lookErr := s.skipBlocked(ctx, waiting, ids)
		if lookErr != nil || len(free) == len(waiting) { // none of these rows is locked, or no longer
			return err
		}
		rest = free
	}
	return nil
}
