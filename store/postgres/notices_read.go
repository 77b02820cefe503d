package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// outboxCursor is the progress of telling. A transaction gets its number before it commits, so a number cannot be the
// cursor: it would skip transactions that commit late. The cursor is a snapshot: all rows visible in told are told.
// Rows that are visible in the later snapshot telling and not in told are told in the order of their transactions. The
// position in that order is the next row and the number of its ids that are told. After the last row, telling becomes
// told. A transaction that was in progress is listed in the snapshot. It is looked for by its number for as long as it
// takes, and no other waits for it.
type outboxCursor struct {
	told, telling string // snapshots in Postgres's format: xmin:xmax:xip,…; telling may be empty
	xid           string
	n             int64
	id            int
}

func (c outboxCursor) encode() store.NoticesCursor {
	return store.NoticesCursor(strings.Join([]string{c.told, c.telling, c.xid, strconv.FormatInt(c.n, 10), strconv.Itoa(c.id)}, "|"))
}

func decodeOutboxCursor(text store.NoticesCursor) (c outboxCursor, err error) {
	fields := strings.Split(string(text), "|")
	if len(fields) != 5 {
		return c, fmt.Errorf("cursor %q of the outbox: want 5 fields: %w", text, store.ErrInvalid)
	}
	c = outboxCursor{told: fields[0], telling: fields[1], xid: fields[2]}
	if c.n, err = strconv.ParseInt(fields[3], 10, 64); err == nil {
		c.id, err = strconv.Atoi(fields[4])
	}
	if err != nil {
		return c, fmt.Errorf("cursor %q of the outbox: %w: %w", text, store.ErrInvalid, err)
	}
	return c, nil
}

// snapshot parses a pg_snapshot: transactions from xmax on had not begun, those in open had not ended.
func snapshot(text string) (xmax uint64, open []string, err error) {
	fields := strings.Split(text, ":")
	if len(fields) != 3 {
		return 0, nil, fmt.Errorf("snapshot %q: want 3 fields: %w", text, store.ErrInvalid)
	}
	if xmax, err = strconv.ParseUint(fields[1], 10, 64); err != nil {
		return 0, nil, fmt.Errorf("snapshot %q: %w", text, err)
	}
	if fields[2] != "" {
		open = strings.Split(fields[2], ",")
	}
	return xmax, open, nil
}

// readOutboxSQL reads up to $6 rows, starting at ($4, $5), that are visible in the snapshot $1 (NULL: this
// statement's), of the transactions $2 or from $3 on.
const readOutboxSQL = `WITH s AS MATERIALIZED (SELECT coalesce($1::text::pg_snapshot, pg_current_snapshot()) AS seen),
 o AS ((SELECT o.xid, o.n, o.at, o.ids, o.status, o.action FROM s, outbox o WHERE o.xid = ANY ($2::text[]::xid8[]) AND (o.xid, o.n) >= ($4::text::xid8, $5::bigint)
   AND pg_visible_in_snapshot(o.xid, s.seen) ORDER BY o.xid, o.n LIMIT $6)
  UNION ALL (SELECT o.xid, o.n, o.at, o.ids, o.status, o.action FROM s, outbox o WHERE o.xid >= $3::text::xid8 AND (o.xid, o.n) >= ($4::text::xid8, $5::bigint)
   AND pg_visible_in_snapshot(o.xid, s.seen) ORDER BY o.xid, o.n LIMIT $6))
 SELECT s.seen::text, o.xid::text::bigint, o.n, o.at, o.ids, o.status, o.action FROM s LEFT JOIN o ON true ORDER BY o.xid, o.n LIMIT $6`

// outboxRow is one row that was read.
type outboxRow struct {
	store.NoticesRow
	at    time.Time
	ids   []messages.ExecutionID
	route store.NoticeRoute // of all of them; zero: not known
}

// noticeID is an execution of the outbox, with the route of its row.
type noticeID struct {
	id    messages.ExecutionID
	route store.NoticeRoute
}

// noticesMax bounds one page.
const noticesMax = 10_000

// ReadNotices returns the next notices.
func (s *outbox) ReadNotices(ctx context.Context, from store.NoticesCursor, limit int, unheard store.NoticeRoutes) (store.NoticesPage, error) {
	if limit <= 0 {
		limit = 1000
	}
	limit = min(limit, noticesMax)
	at, err := decodeOutboxCursor(from)
	if err != nil {
		return store.NoticesPage{}, err
	}
	r := outboxReader{cursor: at, limit: limit}
	rowsMax := r.rowsMax(s.outboxFill.Load())
	if err := s.readOutbox(ctx, &r, rowsMax); err != nil {
		return store.NoticesPage{}, err
	}
	page, all := r.page(rowsMax)
	if len(all) == 0 {
		return page, nil
	}
	s.outboxFill.Store(r.fill())
	ids := toRead(all, unheard, &page)
	outcomes, err := s.noticeOutcomes(ctx, ids)
	if err != nil {
		return store.NoticesPage{}, err
	}
	if n := outcomes.fit(ids); n < len(ids) {
		r.limit = slices.IndexFunc(all, func(k noticeID) bool { return k.id == ids[n] })
		page, all = r.page(rowsMax)
		ids = toRead(all, unheard, &page)
	}
	if err := s.longOutcomes(ctx, outcomes, ids); err != nil {
		return store.NoticesPage{}, err
	}
	for _, id := range ids {
		if o, ok := outcomes[id]; ok {
			page.Notices = append(page.Notices, o.Notice)
		} else {
			page.Gone++
		}
	}
	return page, nil
}

// toRead returns the ids whose executions must be read, and counts the others in the page.
func toRead(all []noticeID, unheard store.NoticeRoutes, page *store.NoticesPage) []messages.ExecutionID {
	ids := make([]messages.ExecutionID, 0, len(all))
	for _, k := range all {
		if unheard.Has(k.route) {
			if n, more := page.Unread[k.route]; more {
				page.Unread[k.route] = n + 1
				continue
			}
			if page.Unread == nil {
				page.Unread = map[store.NoticeRoute]int{}
			}
			page.Unread[k.route] = 0
		}
		ids = append(ids, k.id)
	}
	return ids
}

// readOutbox reads rows of the outbox.
func (s *outbox) readOutbox(ctx context.Context, r *outboxReader, rowsMax int) error {
	top, open, err := snapshot(r.cursor.told)
	if err != nil {
		return err
	}
	err = s.query(ctx, "read notices", func(v *scanner) {
		r.seen = v.text()
		row := outboxRow{NoticesRow: store.NoticesRow{Tx: v.integer(), N: v.integer()}, at: v.time()}
		row.ids = v.ids()
		row.route = store.NoticeRoute{Status: messages.Status(v.integer()), Action: v.text()}
		if row.Tx != 0 {
			r.rows = append(r.rows, row)
		}
	}, readOutboxSQL, optional(r.cursor.telling), open, strconv.FormatUint(top, 10), r.cursor.xid, r.cursor.n, rowsMax)
	if err != nil {
		return err
	}
	if now, _, err := snapshot(r.seen); err != nil || now < top {
		return fmt.Errorf("read notices: the server's transactions are behind those that were told: %w", store.ErrNoticesLost)
	}
	return nil
}

// outboxReader makes a page of the rows that were read.
type outboxReader struct {
	cursor outboxCursor
	limit  int
	seen   string
	rows   []outboxRow
}

// rowsMax returns how many rows to read for a page, estimated from the number of ids in the last rows.
func (r *outboxReader) rowsMax(fill int64) int {
	return min(r.limit, r.limit/int(max(fill, 1))+8)
}

func (r *outboxReader) fill() int64 {
	ids := 0
	for i := range r.rows {
		ids += len(r.rows[i].ids)
	}
	return int64(ids / len(r.rows))
}

// page takes ids up to the limit. The page's Rows are those that it tells completely.
func (r *outboxReader) page(rowsMax int) (store.NoticesPage, []noticeID) {
	var ids []noticeID
	page := store.NoticesPage{}
	skip := r.cursor.id
	next := r.cursor
	next.telling = r.seen
	for i := range r.rows {
		row := &r.rows[i]
		rest := row.ids
		if i == 0 && strconv.FormatInt(row.Tx, 10) == r.cursor.xid && row.N == r.cursor.n {
			rest = rest[min(skip, len(rest)):]
		}
		room := r.limit - len(ids)
		if room <= 0 {
			break
		}
		if page.Oldest.IsZero() || row.at.Before(page.Oldest) {
			page.Oldest = row.at
		}
		taken := min(room, len(rest))
		for _, id := range rest[:taken] {
			ids = append(ids, noticeID{id, row.route})
		}
		next.xid = strconv.FormatInt(row.Tx, 10)
		if taken < len(rest) {
			next.n, next.id = row.N, len(row.ids)-len(rest)+taken
			break
		}
		next.n, next.id = row.N+1, 0
		page.Rows = append(page.Rows, row.NoticesRow)
	}
	if len(page.Rows) == len(r.rows) && len(r.rows) < rowsMax {
		next = outboxCursor{told: r.seen, xid: "0"}
		page.More = r.cursor.telling != "" // there may be rows that an old snapshot does not see
	} else {
		page.More = true
	}
	page.Next = next.encode()
	return page, ids
}

// ids reads a uuid[].
func (s *scanner) ids() []messages.ExecutionID {
	b := s.raw()
	if len(b) == 0 {
		return nil
	}
	const header, entry = 20, 4 + 16 // dimensions, flags, type, length, first index; then length and bytes of each
	if len(b) < 12 || (binary.BigEndian.Uint32(b) != 0 && (binary.BigEndian.Uint32(b) != 1 || len(b) < header || (len(b)-header)%entry != 0)) {
		s.err = fmt.Errorf("column %d: no array of ids in %d bytes", s.n, len(b))
		return nil
	}
	var out []messages.ExecutionID
	for at := header; at+entry <= len(b); at += entry {
		out = append(out, messages.ExecutionID(b[at+4:at+entry]))
	}
	return out
}
