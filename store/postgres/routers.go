package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// leadSQL takes, for $1, those of the pools $2 without a leader. It respects changes by concurrent transactions: a row
// taken after the statement's snapshot has another epoch and does not change, and leases are checked under a lock on
// their rows. The row of a leader that is being renewed or declared dead is skipped, and the next call checks it. So no
// two statements wait for each other's nodes. Rows of nodes are locked before those of routers, and these by pool.
const leadSQL = `WITH open AS MATERIALIZED (SELECT w.pool, r.epoch, n.incarnation AS holder
  FROM (SELECT DISTINCT pool FROM unnest($2::text[]) AS u (pool)) w LEFT JOIN router r ON r.pool = w.pool LEFT JOIN node n ON n.incarnation = r.incarnation
  WHERE n.incarnation IS NULL OR n.state = 'dead' OR n.lease_until < clock_timestamp()),
 me AS MATERIALIZED (SELECT n.incarnation FROM node n WHERE n.incarnation = $1 AND n.state = 'active' AND n.lease_until > clock_timestamp()
  AND EXISTS (SELECT FROM open) FOR SHARE OF n),
 gone AS MATERIALIZED (SELECT n.incarnation FROM node n WHERE n.incarnation = ANY (ARRAY(SELECT holder FROM open WHERE holder IS NOT NULL))
  AND EXISTS (SELECT FROM me) AND (n.state = 'dead' OR n.lease_until < clock_timestamp()) FOR SHARE OF n SKIP LOCKED)
 INSERT INTO router AS r (pool, incarnation, epoch, since)
 SELECT o.pool, me.incarnation, coalesce(o.epoch, 0) + 1, clock_timestamp() FROM open o, me
  WHERE o.holder IS NULL OR o.holder IN (SELECT incarnation FROM gone) ORDER BY o.pool
 ON CONFLICT (pool) DO UPDATE SET incarnation = excluded.incarnation, epoch = excluded.epoch, since = excluded.since
  WHERE r.epoch = excluded.epoch - 1`

const routersSQL = `SELECT pool, incarnation, epoch, since FROM router`

// ledSQL reads the pools with a leader, with a snapshot younger than leadSQL's.
const ledSQL = routersSQL + ` WHERE pool = ANY ($1::text[]) AND incarnation IS NOT NULL ORDER BY pool COLLATE "C"`

// resignSQL gives up those of the pools $2 (NULL: all) that $1 leads, and notifies on the channel $3, once in a
// transaction.
const resignSQL = `WITH l AS MATERIALIZED (SELECT pool FROM router WHERE incarnation = $1 AND ($2::text[] IS NULL OR pool = ANY ($2)) ORDER BY pool FOR UPDATE),
 r AS (UPDATE router r SET incarnation = NULL, since = clock_timestamp() FROM l WHERE r.pool = l.pool AND r.incarnation = $1 RETURNING r.pool)
 SELECT pg_notify($3, '` + payloadRouter + `') FROM r`

// Lead takes those of the pools that have no leader, and returns all of them that have one afterwards.
func (s *routerRows) Lead(ctx context.Context, inc messages.Incarnation, pools []string) ([]store.Router, error) {
	if len(pools) == 0 {
		return nil, nil
	}
	var out []store.Router
	names := encodeTexts(pools)
	err := s.inTransaction(ctx, "lead pools", func(b *pgx.Batch) {
		out = nil
		b.Queue(leadSQL, uuidOf(inc), names)
		b.Queue(ledSQL, names).Query(func(rows pgx.Rows) error {
			return each(rows, func(v *scanner) { out = append(out, scanRouter(v)) })
		})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Resign gives up those of the pools that the incarnation leads; nil: all.
func (s *routerRows) Resign(ctx context.Context, inc messages.Incarnation, pools []string) error {
	_, err := s.exec(ctx, "give up pools", resignSQL, uuidOf(inc), encodeTexts(pools), s.channel())
	return err
}

// Routers returns every row, by pool.
func (s *routerRows) Routers(ctx context.Context) ([]store.Router, error) {
	var out []store.Router
	err := s.query(ctx, "list routers", func(v *scanner) { out = append(out, scanRouter(v)) }, routersSQL+` ORDER BY pool COLLATE "C"`)
	return out, err
}

func scanRouter(v *scanner) store.Router {
	r := store.Router{Pool: v.text()}
	v.id((*[16]byte)(&r.Incarnation))
	r.Epoch, r.Since = v.integer(), v.time()
	return r
}

// encodeTexts encodes each text. Nil stays nil, which is NULL for the server.
func encodeTexts[T ~string](texts []T) []string {
	if texts == nil {
		return nil
	}
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = encodeText(string(t))
	}
	return out
}
