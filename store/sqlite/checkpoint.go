package sqlite

import (
	"sync/atomic"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// checkpointPages is after how many pages written to the log it is copied to the file. The writer alone does so, and
// waits for it, when the log has reached checkpointMax in spite of all.
const (
	checkpointPages = 4000
	checkpointMax   = "wal_autocheckpoint(16000)"
)

const checkpointSQL = "PRAGMA wal_checkpoint(PASSIVE)"

// checkpointer copies the log to the file beside the writer, which goes on meanwhile. It cannot come to the log's end
// while the writer adds to it; so the writer, once told, copies the little that is left, between two groups and after
// their callers have their answers, and the log begins anew.
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

// run copies whenever it is woken, until quit. What a copy cannot do (the disk is full, a reader is in the way) stays
// in the log, where it is safe, and the next one does it.
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

// checkpoint does the writer's part, after a commit.
func (w *writer) checkpoint() {
	w.written += w.c.written()
	k := w.s.checkpointer
	switch {
	case k.copied.CompareAndSwap(true, false):
		// Its failure is the next one's work.
		_, _ = w.c.exec(checkpointSQL)
	case w.written >= checkpointPages:
		w.written = 0
		select {
		case k.wake <- struct{}{}:
		default:
		}
	}
}

// written is how many pages the connection has written since the last call.
func (c *conn) written() int {
	out, err := c.allocate(8)
	if err != nil {
		return 0
	}
	defer libc.Xfree(c.tls, out)
	lib.Xsqlite3_db_status(c.tls, c.db, lib.SQLITE_DBSTATUS_CACHE_WRITE, out, out+4, 1)
	return int(number32(out))
}
