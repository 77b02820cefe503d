package postgres

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// The outbox has one row for each statement that wrote outcomes, with the ids of the executions that have a notice. Its
// rows are inserted and deleted and never changed. Reading starts at the cursor, and all deleted rows are before it:
// reads never meet them, however many of them vacuum has not removed.

// holdNoticesSQL looks before it writes, because most callers do not get the hold. Under the row's lock it checks again
// whether the outbox is free.
const holdNoticesSQL = `WITH t AS (INSERT INTO outbox_teller AS t (incarnation, epoch, until)
  SELECT $1, 1, clock_timestamp() + $2::interval WHERE NOT EXISTS (SELECT FROM outbox_teller t WHERE NOT (` + tellerFree + `))
  ON CONFLICT (one) DO UPDATE SET incarnation = excluded.incarnation, epoch = t.epoch + 1, until = excluded.until WHERE ` + tellerFree + `
  RETURNING epoch, told, telling, at_xid, at_n, at_id)
 SELECT epoch, told::text, telling::text, at_xid::text, at_n, at_id, pg_snapshot_xmax(told) > pg_snapshot_xmax(pg_current_snapshot())
  OR EXISTS (SELECT FROM outbox WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())) FROM t`

const tellerFree = `t.incarnation IS NULL OR t.incarnation = $1 OR t.until < clock_timestamp()
   OR EXISTS (SELECT FROM node n WHERE n.incarnation = t.incarnation AND n.state = 'dead')`

// HoldNotices makes the incarnation the teller of the outbox for the lease, unless another one is.
func (s *outbox) HoldNotices(ctx context.Context, inc messages.Incarnation, lease time.Duration) (store.NoticesHold, error) {
	var hold store.NoticesHold
	var at outboxCursor
	restored := false
	err := s.query(ctx, "hold the outbox", func(v *scanner) {
		hold.Epoch = v.integer()
		at = outboxCursor{told: v.text(), telling: v.text(), xid: v.text(), n: v.integer(), id: int(v.integer())}
		restored = v.boolean()
	}, holdNoticesSQL, uuidOf(inc), intervalOf(lease))
	if err == nil && restored {
		at, err = s.renumberOutbox(ctx, hold.Epoch)
	}
	if err != nil || hold.Epoch == 0 {
		return store.NoticesHold{}, err
	}
	hold.Cursor = at.encode()
	return hold, nil
}

// renumberOutbox starts again in a database that was restored into another server, whose transaction numbers are below
// those in the outbox. All rows get this transaction's number and are told, some of them again.
func (s *outbox) renumberOutbox(ctx context.Context, epoch int64) (outboxCursor, error) {
	err := s.inTransaction(ctx, "renumber the outbox", func(b *pgx.Batch) {
		b.Queue(`UPDATE outbox_teller SET told = '1:1:', telling = NULL, at_xid = '0', at_n = 0, at_id = 0 WHERE epoch = $1`, epoch)
		b.Queue(`UPDATE outbox SET xid = pg_current_xact_id() WHERE EXISTS (SELECT FROM outbox_teller WHERE epoch = $1)`, epoch)
	})
	return outboxCursor{told: "1:1:", xid: "0"}, err
}

// toldSQL moves the cursor, deletes the rows $8 and $9, and moves the ids $10, if any, to the end, if the epoch is the
// holder's.
const toldSQL = `WITH t AS (UPDATE outbox_teller SET until = clock_timestamp() + $2::interval, told = $3::text::pg_snapshot,
   telling = $4::text::pg_snapshot, at_xid = $5::text::xid8, at_n = $6, at_id = $7 WHERE epoch = $1 RETURNING epoch),
 d AS (DELETE FROM outbox o USING t, unnest($8::text[], $9::bigint[]) AS k (xid, n) WHERE o.xid = k.xid::xid8 AND o.n = k.n),
 l AS (INSERT INTO outbox (at, ids) SELECT $11, $10 FROM t WHERE cardinality($10::uuid[]) > 0)
 SELECT epoch FROM t`

// NoticesTold deletes told notices and moves the cursor, if the epoch is the holder's.
func (s *outbox) NoticesTold(ctx context.Context, epoch int64, lease time.Duration, told store.ToldNotices) error {
	at, err := decodeOutboxCursor(told.Cursor)
	if err != nil {
		return err
	}
	xids, ns := make([]string, len(told.Rows)), make([]int64, len(told.Rows))
	for i, r := range told.Rows {
		xids[i], ns[i] = strconv.FormatUint(uint64(r.Tx), 10), r.N
	}
	held := false
	err = s.query(ctx, "forget notices", func(*scanner) { held = true }, toldSQL, epoch, intervalOf(lease), at.told, optional(at.telling),
		at.xid, at.n, at.id, xids, ns, idsOf(told.Later), timeOf(told.LaterAt))
	if err == nil && !held {
		err = fmt.Errorf("forget notices: %w", store.ErrNoticesLost)
	}
	return err
}

// ReleaseNotices ends the hold of the epoch.
func (s *outbox) ReleaseNotices(ctx context.Context, epoch int64) error {
	_, err := s.exec(ctx, "release the outbox", "UPDATE outbox_teller SET incarnation = NULL, until = clock_timestamp() WHERE epoch = $1", epoch)
	return err
}

// pendingMax bounds the counted rows, each of up to statementRows outcomes.
const pendingMax = 2000

const pendingNoticesSQL = `WITH t AS MATERIALIZED (SELECT pg_snapshot_xmax(told) AS top, ARRAY(SELECT pg_snapshot_xip(told)) AS open
  FROM (SELECT coalesce((SELECT told FROM outbox_teller), '1:1:') AS told) k),
 k AS ((SELECT o.at, o.ids FROM t, outbox o WHERE o.xid = ANY (t.open) LIMIT $1) UNION ALL (SELECT o.at, o.ids FROM t, outbox o WHERE o.xid >= t.top LIMIT $1))
 SELECT coalesce(sum(cardinality(ids)), 0)::bigint, count(*) >= $1, coalesce(greatest(clock_timestamp() - min(at), '0'), '0') FROM k`

// PendingNotices counts the notices that are not told yet.
func (s *outbox) PendingNotices(ctx context.Context) (store.NoticesPending, error) {
	var p store.NoticesPending
	err := s.query(ctx, "count notices", func(v *scanner) { p = scanPending(v) }, pendingNoticesSQL, pendingMax)
	return p, err
}

func scanPending(v *scanner) store.NoticesPending {
	return store.NoticesPending{Count: int(v.integer()), More: v.boolean(), Age: v.duration()}
}

// optional makes an empty text NULL.
func optional(text string) pgtype.Text { return pgtype.Text{String: text, Valid: text != ""} }
