package sqlite

import (
	"context"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// TryState counts a try, and sets the state aside where it was the last. The row of the tries stays then, for a call that is repeated.
func (s *Store) TryState(ctx context.Context, t store.StateTry) (int, error) {
	var tries int64
	err := s.write(ctx, "try a session's state", 1, func(w *writer) (err error) {
		if err := w.exec(`INSERT INTO session_try (pool, session, epoch, runs, tries, tried_at, tried_on, tried_by) VALUES (?1, ?2, ?3, ?4, 1, ?5, ?6, ?7)
 ON CONFLICT (pool, session) DO UPDATE SET tries = CASE WHEN (epoch, runs) <> (excluded.epoch, excluded.runs) THEN 1
   WHEN tried_by = excluded.tried_by THEN tries ELSE tries + 1 END,
  epoch = excluded.epoch, runs = excluded.runs, tried_at = excluded.tried_at, tried_on = excluded.tried_on, tried_by = excluded.tried_by`,
			t.Pool, t.Session, t.Epoch, t.Runs, micros(w.now), string(t.Worker), t.Name()); err != nil {
			return err
		}
		if tries, err = w.c.number("SELECT tries FROM session_try WHERE pool = ? AND session = ?", t.Pool, t.Session); err != nil || tries <= store.StateTriesMax {
			return err
		}
		return w.setAside(t, tries-1)
	})
	return int(tries), err
}

func (w *writer) setAside(t store.StateTry, tries int64) error {
	if err := w.exec(`INSERT OR REPLACE INTO session_aside (pool, session, epoch, runs, session_epoch, tries, worker, at, state)
 SELECT pool, session, epoch, ?4, ?5, ?6, ?7, ?8, state FROM session_snapshot WHERE pool = ?1 AND session = ?2 AND epoch = ?3`,
		t.Pool, t.Session, t.Epoch, t.Runs, t.SessionEpoch, tries, string(t.Worker), micros(w.now)); err != nil {
		return err
	}
	for _, sql := range []string{
		"DELETE FROM session_snapshot WHERE pool = ?1 AND session = ?2 AND epoch = ?3",
		"UPDATE session SET snapshot_epoch = 0, snapshot_runs = 0 WHERE pool = ?1 AND session = ?2 AND snapshot_epoch = ?3",
	} {
		if err := w.exec(sql, t.Pool, t.Session, t.Epoch); err != nil {
			return err
		}
	}
	return nil
}

// StateAnswered ends the count of tries.
func (s *Store) StateAnswered(ctx context.Context, pool, session string) error {
	return s.write(ctx, "end the tries of a session's state", 1, func(w *writer) error {
		return w.exec("DELETE FROM session_try WHERE pool = ? AND session = ?", pool, session)
	})
}

const asideColumns = "a.pool, a.session, a.epoch, a.runs, a.session_epoch, a.tries, a.worker, a.at"

func scanAside(v *scanner) store.AsideState {
	return store.AsideState{
		Pool: v.text(), Session: v.text(), Epoch: v.integer(), Runs: v.integer(), SessionEpoch: v.integer(), Tries: int(v.integer()),
		Worker: messages.WorkerID(v.text()), At: v.time(),
	}
}

// StateTrouble reads the tries of a session's state, and the one that was set aside.
func (s *Store) StateTrouble(ctx context.Context, pool, session string) (store.StateTrouble, error) {
	var out store.StateTrouble
	err := s.read(ctx, "read trouble with a session's state", func(c *conn) error {
		out = store.StateTrouble{}
		err := c.query("SELECT tries, tried_on, tried_at FROM session_try WHERE pool = ? AND session = ? AND tries <= ?", func(row row) error {
			v := scanner{row: row}
			out.Tries, out.TriedOn, out.TriedAt = int(v.integer()), messages.WorkerID(v.text()), v.time()
			return v.err
		}, pool, session, int64(store.StateTriesMax))
		if err != nil {
			return err
		}
		return c.query("SELECT "+asideColumns+", a.state FROM session_aside a WHERE pool = ? AND session = ?", func(row row) error {
			v := scanner{row: row}
			aside := scanAside(&v)
			aside.State, out.Aside = v.bytes(), &aside
			return v.err
		}, pool, session)
	})
	return out, err
}

// AsideStates lists states that were set aside.
func (s *Store) AsideStates(ctx context.Context, limit int) ([]store.AsideState, error) {
	var list []store.AsideState
	err := s.read(ctx, "list states that were set aside", func(c *conn) error {
		list = nil
		return c.query("SELECT "+asideColumns+" FROM session_aside a ORDER BY a.at DESC, a.pool, a.session LIMIT ?", func(row row) error {
			v := scanner{row: row}
			list = append(list, scanAside(&v))
			return v.err
		}, int64(pageSize(limit)))
	})
	return list, err
}

// DropState deletes what is stored of a session's state.
func (s *Store) DropState(ctx context.Context, pool, session string) (bool, error) {
	var deleted int64
	err := s.write(ctx, "drop a session's state", 1, func(w *writer) error {
		deleted = 0
		for _, table := range []string{"session_snapshot", "session_aside"} {
			n, err := w.c.exec("DELETE FROM "+table+" WHERE pool = ? AND session = ?", pool, session)
			if err != nil {
				return err
			}
			deleted += n
		}
		if err := w.exec("UPDATE session SET snapshot_epoch = 0, snapshot_runs = 0 WHERE pool = ? AND session = ? AND snapshot_epoch > 0", pool, session); err != nil {
			return err
		}
		return w.exec("DELETE FROM session_try WHERE pool = ? AND session = ?", pool, session)
	})
	return deleted > 0, err
}
