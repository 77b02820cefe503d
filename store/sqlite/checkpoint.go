package sqlite

import (
	"sync/atomic"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// After checkpointPages pages written to the log, the checkpointer copies it to the file. If the log still reaches
// checkpointMax, the writer itself copies it and waits for that.
const (
	checkpointPages = 4000
	checkpointMax   = "wal_autocheckpoint(16000)"
)

const checkpointSQL = "PRAGMA wal_checkpoint(PASSIVE)"

// checkpointer copies the log to the file while the writer continues. It cannot reach the end of the log while the
// writer appends. So it tells the writer, which copies the small rest between two groups, after their callers have
// their answers. Then the log restarts.
type checkpointer struct {
	c      *conn
	wake   chan struct{}
	copied atomic.Bool
	done   chan struct{} // closed when it has ended
}

func openCheckpointer(cfg Config) (*checkpointer, error) {
	c, err := openConn(cfg, "cache_size(-256)", "wal_autocheckpoint(0)")
	if err != nil {
		return nil, err
	}
	return &checkpointer{c: c, wake: make(chan struct{}, 1), done: make(chan struct{})}, nil
}

// run copies whenever it is woken, until quit. If a copy is incomplete (the disk is full, a reader is active), the rest
// is safe in the log, and the next copy does it.
func (k *checkpointer) run(quit <-chan struct{}) {
	defer close(k.done)
	for {
		select {
		case <-quit:
			return
		case <-k.wake:
			_, err := k.c.exec(checkpointSQL)
			k.copied.Store(err == nil)
		}
	}
}

// checkpoint copies the writer's part after a commit.
func (w *writer) checkpoint() {
	w.written += w.c.written()
	k := w.s.checkpointer
	switch {
	case k.copied.CompareAndSwap(true, false):
		// If it fails, the next one copies the rest.
		_, _ = w.c.exec(checkpointSQL)
	case w.written >= checkpointPages:
		w.written = 0
		select {
		case k.wake <- struct{}{}:
		default:
		}
	}
}

// written returns how many pages the connection has written since the last call.
func (c *conn) written() int {
	out, err := c.allocate(8)
	if err != nil {
		return 0
	}
	defer libc.Xfree(c.tls, out)
	lib.Xsqlite3_db_status(c.tls, c.db, lib.SQLITE_DBSTATUS_CACHE_WRITE, out, out+4, 1)
	return int(number32(out))
}
