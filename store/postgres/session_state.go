package postgres

import (
	"context"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// TryState counts a try, and sets the state aside where it was the last. The row of the tries stays then, for a call that is repeated.
func (s *sessionRows) TryState(ctx context.Context, t store.StateTry) (tries int, err error) {
	pool, session := encodeText(t.Pool), encodeText(t.Session)
	err = s.query(ctx, "try a session's state", func(v *scanner) { tries = int(v.integer()) }, `INSERT INTO session_try AS t
  (pool, session, epoch, runs, tries, tried_at, tried_on, tried_by) VALUES ($1, $2, $3, $4, 1, clock_timestamp(), $5, $6)
 ON CONFLICT (pool, session) DO UPDATE SET tries = CASE WHEN (t.epoch, t.runs) <> (excluded.epoch, excluded.runs) THEN 1
   WHEN t.tried_by = excluded.tried_by THEN t.tries ELSE t.tries + 1 END,
  epoch = excluded.epoch, runs = excluded.runs, tried_at = excluded.tried_at, tried_on = excluded.tried_on, tried_by = excluded.tried_by
 RETURNING tries`, pool, session, t.Epoch, t.Runs, encodeText(string(t.Worker)), t.Name())
	if err != nil || tries <= store.StateTriesMax {
		return tries, err
	}
	_, err = s.exec(ctx, "set a session's state aside", `WITH k AS (DELETE FROM session_snapshot WHERE pool = $1 AND session = $2 AND epoch = $3 RETURNING epoch, state),
 u AS (UPDATE session SET snapshot_epoch = 0, snapshot_runs = 0 WHERE pool = $1 AND session = $2 AND snapshot_epoch = $3)
 INSERT INTO session_aside (pool, session, epoch, runs, session_epoch, tries, worker, at, state)
 SELECT $1, $2, k.epoch, $4, $5, $6, $7, clock_timestamp(), k.state FROM k
 ON CONFLICT (pool, session) DO UPDATE SET epoch = excluded.epoch, runs = excluded.runs, session_epoch = excluded.session_epoch,
  tries = excluded.tries, worker = excluded.worker, at = excluded.at, state = excluded.state`,
		pool, session, t.Epoch, t.Runs, t.SessionEpoch, int64(tries-1), encodeText(string(t.Worker)))
	return tries, err
}

// StateAnswered ends the count of tries.
func (s *sessionRows) StateAnswered(ctx context.Context, pool, session string) error {
	_, err := s.exec(ctx, "end the tries of a session's state", "DELETE FROM session_try WHERE pool = $1 AND session = $2", encodeText(pool), encodeText(session))
	return err
}

const asideColumns = "a.pool, a.session, a.epoch, a.runs, a.session_epoch, a.tries, a.worker, a.at"

func scanAside(v *scanner) store.AsideState {
	return store.AsideState{
		Pool: v.text(), Session: v.text(), Epoch: v.integer(), Runs: v.integer(), SessionEpoch: v.integer(), Tries: int(v.integer()),
		Worker: messages.WorkerID(v.text()), At: v.time(),
	}
}

// StateTrouble reads the tries of a session's state, and the one that was set aside.
func (s *sessionRows) StateTrouble(ctx context.Context, pool, session string) (out store.StateTrouble, err error) {
	err = s.query(ctx, "read trouble with a session's state", func(v *scanner) {
		out.Tries, out.TriedOn, out.TriedAt = int(v.integer()), messages.WorkerID(v.text()), v.time()
		aside := scanAside(v)
		if aside.State = v.bytes(); aside.Session != "" {
			out.Aside = &aside
		}
	}, `SELECT t.tries, t.tried_on, t.tried_at, `+asideColumns+`, a.state FROM (SELECT $1::text AS pool, $2::text AS session) n
 LEFT JOIN session_try t ON t.pool = n.pool AND t.session = n.session AND t.tries <= $3 LEFT JOIN session_aside a ON a.pool = n.pool AND a.session = n.session`,
		encodeText(pool), encodeText(session), store.StateTriesMax)
	return out, err
}

// AsideStates lists states that were set aside.
func (s *sessionRows) AsideStates(ctx context.Context, limit int) (list []store.AsideState, err error) {
	err = s.query(ctx, "list states that were set aside", func(v *scanner) { list = append(list, scanAside(v)) },
		"SELECT "+asideColumns+" FROM session_aside a ORDER BY a.at DESC, a.pool, a.session LIMIT $1", pageSize(limit))
	return list, err
}

// DropState deletes what is stored of a session's state.
func (s *sessionRows) DropState(ctx context.Context, pool, session string) (had bool, err error) {
	err = s.query(ctx, "drop a session's state", func(v *scanner) { had = v.integer() > 0 }, `WITH
 u AS (UPDATE session SET snapshot_epoch = 0, snapshot_runs = 0 WHERE pool = $1 AND session = $2 AND snapshot_epoch > 0),
 k AS (DELETE FROM session_snapshot WHERE pool = $1 AND session = $2 RETURNING 1), a AS (DELETE FROM session_aside WHERE pool = $1 AND session = $2 RETURNING 1),
 t AS (DELETE FROM session_try WHERE pool = $1 AND session = $2) SELECT (SELECT count(*) FROM k) + (SELECT count(*) FROM a)`,
		encodeText(pool), encodeText(session))
	return had, err
}
