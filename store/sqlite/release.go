package sqlite

import (
	"context"
	"fmt"

	lib "modernc.org/sqlite/lib"
)

// ReleaseCache frees the pages that the connections keep of the file. The writer has up to 8 MiB of them, a reader up to 2 MiB. The next
// calls read from the file again, which the system caches too.
func (s *Store) ReleaseCache(ctx context.Context) error {
	const what = "release the cache"
	if err := s.write(ctx, what, 1, func(w *writer) error { return w.c.release() }); err != nil {
		return err
	}
	for range s.cfg.Readers { // they take turns
		if err := s.read(ctx, what, (*conn).release); err != nil {
			return err
		}
	}
	return nil
}

// release frees the connection's pages that are not in use.
func (c *conn) release() error {
	if code := lib.Xsqlite3_db_release_memory(c.tls, c.db); code != lib.SQLITE_OK {
		return fmt.Errorf("sqlite3_db_release_memory: code %d", code)
	}
	return nil
}
