package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// cached is how many bytes of pages the connection keeps.
func (c *conn) cached(t *testing.T) int {
	out, err := c.allocate(8)
	require.NoError(t, err)
	defer libc.Xfree(c.tls, out)
	require.EqualValues(t, lib.SQLITE_OK, lib.Xsqlite3_db_status(c.tls, c.db, lib.SQLITE_DBSTATUS_CACHE_USED, out, out+4, 0))
	return int(number32(out))
}

// It does not run beside others: all connections of a process share one list of pages, and those of other tests push out what it looks at.
func TestTheCacheIsReleased(t *testing.T) {
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "troupe.db")})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	inc := messages.NewIncarnation()
	workers := make([]store.Worker, 5000)
	for i := range workers {
		workers[i] = store.Worker{Key: messages.WorkerKey{Incarnation: inc, Pool: "p", Slot: messages.Slot(i)}, State: "ready"}
	}
	require.NoError(t, s.Join(t.Context(), store.Node{Incarnation: inc, Name: "n"}, time.Minute))
	require.NoError(t, s.SaveWorkers(t.Context(), workers))
	cached := func() (write, read int) {
		require.NoError(t, s.write(t.Context(), "look", 1, func(w *writer) error {
			write = w.c.cached(t)
			return nil
		}))
		for range s.cfg.Readers {
			require.NoError(t, s.read(t.Context(), "look", func(c *conn) error {
				read += c.cached(t)
				return nil
			}))
		}
		return write, read
	}
	for range s.cfg.Readers {
		_, err := s.ListWorkers(t.Context(), "")
		require.NoError(t, err)
	}
	write, read := cached()
	require.NoError(t, s.ReleaseCache(t.Context()))
	lessWrite, lessRead := cached()
	require.Less(t, lessWrite, write/4)
	require.Less(t, lessRead, read/4)
	list, err := s.ListWorkers(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, list, 5000, "what was released is read again")
}
