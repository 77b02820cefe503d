package sqlite

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// Tamper runs one statement on a closed store's file.
func Tamper(t *testing.T, path, statement string) {
	c, err := openConn(Config{Path: path})
	require.NoError(t, err)
	_, err = c.exec(statement)
	require.NoError(t, err)
	require.NoError(t, c.close())
}

// Ask reads one text from a store's file while the store is open.
func Ask(t *testing.T, path, query string) (text string) {
	c, err := openConn(Config{Path: path})
	require.NoError(t, err)
	require.NoError(t, c.query(query, func(r row) error {
		text = r.interned(0)
		return nil
	}))
	require.NoError(t, c.close())
	return text
}

// Path returns the store's file.
func (s *Store) Path() string { return s.cfg.Path }

// Raise gives a store with a page limit more pages, as freed space on a disk would.
func Raise(t *testing.T, s *Store, pages int) {
	require.NoError(t, s.write(t.Context(), "raise", 1, func(w *writer) error {
		_, err := w.c.number(fmt.Sprintf("PRAGMA max_page_count = %d", pages))
		return err
	}))
}

// Steps returns how many instructions of SQLite's virtual machine the reading connections have run since the last call.
// Other load does not affect this measure.
func Steps(t *testing.T, s *Store) (steps int) {
	eachReader(t, s, func(c *conn) {
		for _, st := range c.stmts {
			steps += int(lib.Xsqlite3_stmt_status(c.tls, st.p, lib.SQLITE_STMTSTATUS_VM_STEP, 1))
		}
	})
	return steps
}

// eachReader calls f with each of the reading connections, while none of them is used.
func eachReader(t *testing.T, s *Store, f func(*conn)) {
	var held []*conn
	for range s.cfg.Readers {
		c, ok := takeReader(s.readers)
		require.True(t, ok)
		held = append(held, c)
	}
	for _, c := range held {
		f(c)
		s.readers <- c
	}
}

// Deepen adds n waiting turns to a session of pool go, after all stored ones, only in the table that Due reads.
func Deepen(t *testing.T, s *Store, session string, n int) {
	require.NoError(t, s.write(t.Context(), "deepen", 1, func(w *writer) error {
		return w.exec(`WITH RECURSIVE i(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM i WHERE n < ?)
 INSERT INTO turn (pool, session, seq, priority, fail) SELECT 'go', ?, 1000000000 + n, 5, 0 FROM i`, int64(n), session)
	}))
}

// Hold keeps the writer busy until the channel is closed.
func Hold(s *Store) chan struct{} {
	release, started := make(chan struct{}), make(chan struct{})
	go func() {
		_ = s.write(context.Background(), "hold", 1, func(*writer) error {
			close(started)
			<-release
			return nil
		})
	}()
	<-started
	return release
}

// Grow writes n ended executions directly into the file, with a few waiting or running ones among the oldest: every
// status, ten actions, four pools, sessions, workers and labels.
func Grow(t testing.TB, s *Store, n int) {
	for _, sql := range []string{
		`WITH RECURSIVE i(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM i WHERE n < ?)
 INSERT INTO request (seq, id, action, version, labels, timeout, stall_timeout, flags, max_retries, retry_count, requested_at, parameters)
 SELECT n, randomblob(16), 'core.a' || (n % 10), '1.0.0', CASE WHEN n % 10 = 0 THEN CAST('{"k":"v' || (n % 100) || '"}' AS BLOB) END, 60000000, 0, 0, 0, 0, 1800000000000000 + n, CAST('{"n":1}' AS BLOB) FROM i`,
		`WITH RECURSIVE i(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM i WHERE n < ?)
 INSERT INTO execution (seq, rank, on_worker, unusual, status, attempt, last_change, priority, pool, session, worker_id, run_at, finished_at, queue_deadline, worker_deadline)
 SELECT n, CASE WHEN n <= 50 THEN 64 * (n % 4 + 1) + 9 - n % 10 END, CASE WHEN n > 50 AND n <= 100 THEN 1 END,
 CASE WHEN n <= 100 THEN NULL WHEN n <= 150 THEN 9 WHEN n % 20 = 0 THEN 7 END, CASE WHEN n <= 50 THEN 1 WHEN n <= 100 THEN 4 WHEN n <= 150 THEN 9 WHEN n % 20 = 0 THEN 7 ELSE 6 END,
 1, 4, n % 10, 'pool' || (n % 4), CASE WHEN n % 5 = 0 THEN 's' || (n % 1000) END, 'n/pool/' || (n % 64), 1800000000000000 + n, 1800000000000000 + n, 0, 0 FROM i`,
		`WITH RECURSIVE i(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM i WHERE n < ?)
 INSERT INTO execution_label (key, value, seq) SELECT 'k', 'v' || (n % 100), n FROM i WHERE n % 10 = 0`,
		`WITH RECURSIVE i(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM i WHERE n < ?)
 INSERT INTO outcome (seq, result) SELECT n, CAST('{}' AS BLOB) FROM i WHERE n > 100`,
		`INSERT INTO pool (n, name) SELECT column1 + 1, 'pool' || column1 FROM (VALUES (0), (1), (2), (3)) WHERE ? > 0`,
	} {
		require.NoError(t, s.write(t.Context(), "grow", 1, func(w *writer) error { return w.exec(sql, int64(n)) }))
	}
	require.NoError(t, s.write(t.Context(), "grow", 1, func(w *writer) error { w.seq += int64(n); return nil }))
}

// Repeat stores n copies of the last stored execution, whose run_at is ahead, directly into the file.
func Repeat(t testing.TB, s *Store, n int) {
	const numbers = "WITH RECURSIVE i(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM i WHERE n < ?1) "
	require.NoError(t, s.write(t.Context(), "repeat", 1, func(w *writer) error {
		for _, table := range []string{"request", "execution", "timer"} {
			var names, values []string
			if err := w.c.query("SELECT name FROM pragma_table_info('"+table+"')", func(r row) error {
				name := r.interned(0)
				value, own := map[string]string{"seq": "?2 + i.n", "id": "randomblob(16)"}[name]
				if !own {
					value = "o." + name
				}
				names, values = append(names, name), append(values, value)
				return nil
			}); err != nil {
				return err
			}
			sql := numbers + "INSERT INTO " + table + " (" + strings.Join(names, ", ") + ") SELECT " + strings.Join(values, ", ") + " FROM i, " + table + " o WHERE o.seq = ?2"
			if err := w.exec(sql, int64(n), w.seq); err != nil {
				return err
			}
		}
		w.seq += int64(n)
		return nil
	}))
}

// Misses returns how many pages the reading connections have read from the file since the last call.
func Misses(t *testing.T, s *Store) (misses int) {
	eachReader(t, s, func(c *conn) {
		out, err := c.allocate(8)
		require.NoError(t, err)
		require.NoError(t, c.check(lib.Xsqlite3_db_status(c.tls, c.db, lib.SQLITE_DBSTATUS_CACHE_MISS, out, out+4, 1)))
		misses += int(number32(out))
		libc.Xfree(c.tls, out)
	})
	return misses
}
