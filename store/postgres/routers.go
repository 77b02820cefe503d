package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// leadSQL takes, for $1, those of the pools $2 that nobody leads. What a concurrent transaction changes under it is
// respected: a row that was taken since the statement's snapshot has another epoch than was seen, so that it stays; and the
// leases are judged under a lock on their rows. The row of a leader that is being renewed or declared dead right now is
// skipped, and judged by the next call: so no two statements wait for each other's nodes. The rows of nodes are locked before
// those of routers, and these by pool.
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

// ledSQL reads how the pools stand, by a snapshot that is younger than leadSQL's.
const ledSQL = routersSQL + ` WHERE pool = ANY ($1::text[]) AND incarnation IS NOT NULL ORDER BY pool COLLATE "C"`

// resignSQL gives up what $1 leads of the pools $2 (NULL: all), and says so on the channel $3, once a transaction.
const resignSQL = `WITH l AS MATERIALIZED (SELECT pool FROM router WHERE incarnation = $1 AND ($2::text[] IS NULL OR pool = ANY ($2)) ORDER BY pool FOR UPDATE),
 r AS (UPDATE router r SET incarnation = NULL, since = clock_timestamp() FROM l WHERE r.pool = l.pool AND r.incarnation = $1 RETURNING r.pool)
 SELECT pg_notify($3, '` + wordRouter + `') FROM r`

// Lead takes those of the pools that nobody leads, and returns how all of them stand then.
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

// Resign gives up what the incarnation leads of the pools; nil: all.
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

// encodeTexts encodes each text; nil stays nil, which is NULL to the server.
func encodeTexts(texts []string) []string {
	if texts == nil {
		return nil
	}
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = encodeText(t)
	}
	return out
}
