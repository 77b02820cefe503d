package sqlite

import (
	"context"
	"slices"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// ledBy is the condition that a live incarnation leads a row of router. No lease is evaluated: the lock on the file
// says who is live.
const ledBy = "EXISTS (SELECT 1 FROM node n WHERE n.incarnation = router.incarnation AND n.state <> 'dead')"

// Lead takes those of the pools that have no leader, and returns all of them that have one afterwards. If nothing
// changes, which is usual, it costs a read and no transaction.
func (s *Store) Lead(ctx context.Context, inc messages.Incarnation, pools []string) ([]store.Router, error) {
	pools = slices.Compact(slices.Sorted(slices.Values(pools)))
	led := 0
	err := s.read(ctx, "look who leads pools", func(c *conn) (err error) {
		led, err = countLed(c, pools)
		return err
	})
	if err != nil {
		return nil, err
	}
	if led < len(pools) {
		if err := s.write(ctx, "lead pools", len(pools), func(w *writer) error { return w.lead(inc, pools) }); err != nil {
			return nil, err
		}
	}
	all, err := s.Routers(ctx)
	return slices.DeleteFunc(all, func(r store.Router) bool {
		_, asked := slices.BinarySearch(pools, r.Pool)
		return !asked || r.Incarnation.IsZero()
	}), err
}

func countLed(c *conn, pools []string) (led int, err error) {
	for _, pool := range pools {
		n, err := c.number("SELECT count(*) FROM router WHERE pool = ? AND "+ledBy, pool)
		if err != nil {
			return 0, err
		}
		led += int(n)
	}
	return led, nil
}

func (w *writer) lead(inc messages.Incarnation, pools []string) error {
	for _, pool := range pools {
		err := w.exec(`INSERT INTO router (pool, incarnation, epoch, since)
 SELECT ?2, n.incarnation, 1, ?3 FROM node n WHERE n.incarnation = ?1 AND n.state = 'active'
 ON CONFLICT (pool) DO UPDATE SET incarnation = excluded.incarnation, epoch = epoch + 1, since = excluded.since WHERE NOT `+ledBy,
			inc[:], pool, micros(w.now))
		if err != nil {
			return err
		}
	}
	return nil
}

// Resign gives up those of the pools that the incarnation leads; nil: all.
func (s *Store) Resign(ctx context.Context, inc messages.Incarnation, pools []string) error {
	return s.write(ctx, "give up pools", 1+len(pools), func(w *writer) error { return w.resign(inc, pools) })
}

func (w *writer) resign(inc messages.Incarnation, pools []string) error {
	const sql = "UPDATE router SET incarnation = NULL, since = ? WHERE incarnation = ?"
	if pools == nil {
		return w.exec(sql, micros(w.now), inc[:])
	}
	for _, pool := range pools {
		if err := w.exec(sql+" AND pool = ?", micros(w.now), inc[:], pool); err != nil {
			return err
		}
	}
	return nil
}

// Routers returns every row, by pool.
func (s *Store) Routers(ctx context.Context) ([]store.Router, error) {
	var out []store.Router
	err := s.read(ctx, "list routers", func(c *conn) error {
		return c.query("SELECT pool, incarnation, epoch, since FROM router ORDER BY pool", func(row row) error {
			v := scanner{row: row}
			r := store.Router{Pool: v.text()}
			v.id((*[16]byte)(&r.Incarnation))
			r.Epoch, r.Since = v.integer(), v.time()
			out = append(out, r)
			return v.err
		})
	})
	return out, err
}
