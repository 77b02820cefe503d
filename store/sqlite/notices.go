package sqlite

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// teller is the incarnation that tells the outbox. One process uses the store, so this is kept in memory.
type teller struct {
	incarnation messages.Incarnation
	epoch       int64
	until       time.Time
}

// notice puts the execution's outcome into the outbox.
func (w *writer) notice(r *record) error {
	n, err := w.nextNotice()
	if err != nil {
		return err
	}
	return w.exec("INSERT INTO notice (n, seq, at, held) VALUES (?, ?, ?, 0)", n, r.Seq, micros(w.now))
}

// nextNotice numbers the outbox's rows. SQLite would use the number of a deleted row again, which is before the
// teller's cursor.
func (w *writer) nextNotice() (int64, error) {
	if w.lastNotice == 0 {
		err := w.c.query("SELECT coalesce(max(n), 0) FROM notice", func(row row) error {
			v := scanner{row: row}
			w.lastNotice = v.integer()
			return v.err
		})
		if err != nil {
			return 0, err
		}
	}
	w.lastNotice++
	return w.lastNotice, nil
}

// HoldNotices implements store.Notices. Told rows are deleted, so the cursor starts at the start of the table.
func (s *Store) HoldNotices(ctx context.Context, inc messages.Incarnation, lease time.Duration) (store.NoticesHold, error) {
	dead := false
	if holder := s.noticesHolder(); !holder.IsZero() && holder != inc {
		nodes, err := s.ListNodes(ctx)
		if err != nil {
			return store.NoticesHold{}, err
		}
		for i := range nodes {
			dead = dead || nodes[i].Incarnation == holder && nodes[i].State == store.NodeDead
		}
	}
	s.tellerLock.Lock()
	defer s.tellerLock.Unlock()
	t, now := &s.teller, s.clock.now()
	if !t.incarnation.IsZero() && t.incarnation != inc && !t.until.Before(now) && !dead {
		return store.NoticesHold{}, nil
	}
	*t = teller{inc, t.epoch + 1, now.Add(lease)}
	return store.NoticesHold{Epoch: t.epoch, Cursor: "0"}, nil
}

func (s *Store) noticesHolder() messages.Incarnation {
	s.tellerLock.Lock()
	defer s.tellerLock.Unlock()
	return s.teller.incarnation
}

// ReadNotices implements store.Notices. Transactions commit one after the other, so the numbers are in the order of
// commits. It reads every notice.
func (s *Store) ReadNotices(ctx context.Context, from store.NoticesCursor, limit int, _ store.NoticeRoutes) (page store.NoticesPage, err error) {
	after, err := strconv.ParseInt(string(from), 10, 64)
	if err != nil {
		return page, fmt.Errorf("cursor %q of the outbox: %w: %w", from, store.ErrInvalid, err)
	}
	if limit <= 0 {
		limit = 1000
	}
	limit = min(limit, 10_000)
	err = s.read(ctx, "read notices", func(c *conn) error {
		page = store.NoticesPage{Next: from}
		return readNotices(c, after, limit, &page)
	})
	return page, err
}

// noticeBytes bounds the results of one page, without its first notice.
const noticeBytes = 4 << 20

func readNotices(c *conn, after int64, limit int, page *store.NoticesPage) error {
	type place struct {
		n, seq int64
		at     time.Time
	}
	var places []place
	err := c.query("SELECT n, seq, at FROM notice WHERE n > ? ORDER BY n LIMIT ?", func(row row) error {
		v := scanner{row: row}
		places = append(places, place{v.integer(), v.integer(), v.time()})
		return v.err
	}, after, int64(limit))
	if err != nil {
		return err
	}
	size := 0
	for i, p := range places {
		r, err := readOne(c, chained+" WHERE e.seq = ?", p.seq)
		if err != nil {
			return err
		}
		if r != nil {
			notice := store.Notice{Execution: r.Execution}
			if len(r.Result) > messages.NoticeResultMax {
				notice.Execution.Result, notice.Truncated = nil, true
			}
			if size += len(notice.Execution.Result); size > noticeBytes && i > 0 {
				page.More = true
				return nil
			}
			page.Notices = append(page.Notices, notice)
		} else {
			page.Gone++
		}
		if page.Oldest.IsZero() {
			page.Oldest = p.at
		}
		page.Rows, page.Next = append(page.Rows, store.NoticesRow{N: p.n}), store.NoticesCursor(strconv.FormatInt(p.n, 10))
	}
	page.More = len(places) == limit
	return nil
}

// NoticesTold implements store.Notices.
func (s *Store) NoticesTold(ctx context.Context, epoch int64, lease time.Duration, told store.ToldNotices) error {
	s.tellerLock.Lock()
	defer s.tellerLock.Unlock() // so that no other takes the outbox meanwhile
	if s.teller.epoch != epoch || s.teller.incarnation.IsZero() {
		return fmt.Errorf("forget notices: %w", store.ErrNoticesLost)
	}
	if len(told.Rows)+len(told.Later) > 0 {
		err := s.write(ctx, "forget notices", len(told.Rows)+len(told.Later), func(w *writer) error { return w.toldNotices(told) })
		if err != nil {
			return err
		}
	}
	s.teller.until = s.clock.now().Add(lease)
	return nil
}

func (w *writer) toldNotices(told store.ToldNotices) error {
	for _, r := range told.Rows {
		if err := w.exec("DELETE FROM notice WHERE n = ?", r.N); err != nil {
			return err
		}
	}
	for _, id := range told.Later {
		n, err := w.nextNotice()
		if err != nil {
			return err
		}
		err = w.exec("INSERT OR IGNORE INTO notice (n, seq, at, held) SELECT ?, seq, ?, 0 FROM request WHERE id = ?", n, micros(told.LaterAt), id[:])
		if err != nil {
			return err
		}
	}
	return nil
}

// ReleaseNotices implements store.Notices.
func (s *Store) ReleaseNotices(_ context.Context, epoch int64) error {
	s.tellerLock.Lock()
	defer s.tellerLock.Unlock()
	if s.teller.epoch == epoch {
		s.teller.incarnation = messages.Incarnation{}
	}
	return nil
}

// PendingNotices implements store.Notices.
func (s *Store) PendingNotices(ctx context.Context) (p store.NoticesPending, err error) {
	now := s.clock.now()
	err = s.read(ctx, "count notices", func(c *conn) error {
		return c.query("SELECT count(*), coalesce((SELECT at FROM notice ORDER BY n LIMIT 1), 0) FROM notice", func(row row) error {
			v := scanner{row: row}
			p.Count = int(v.integer())
			if oldest := v.time(); !oldest.IsZero() {
				p.Age = max(0, now.Sub(oldest))
			}
			return v.err
		})
	})
	return p, err
}
