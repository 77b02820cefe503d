package sqlite

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// countRequested reads a slice. Its rows are added up here, because SQLite would sort them to group them, and one expression of all columns
// costs it more than the columns. LEFT JOIN finds the end of the slice also where the last requests have no execution.
const countRequested = `SELECT r.seq, r.requested_at, e.status, r.original, e.crash_count, e.take_backs, e.session_flags
 FROM request r NOT INDEXED LEFT JOIN execution e ON e.seq = r.seq WHERE r.seq > ? AND r.seq <= ? ORDER BY r.seq LIMIT ?`

// CountRequested counts the executions that were requested in a time.
func (s *Store) CountRequested(ctx context.Context, q store.CountQuery) (store.Counted, error) {
	var counted store.Counted
	err := s.read(ctx, "count executions", func(c *conn) error {
		above, err := horizon(c, micros(q.From))
		if err != nil {
			return err
		}
		last, err := horizon(c, micros(q.To))
		if err != nil {
			return err
		}
		counted, err = q.Slices(above, last, 0, func(count *store.Count, above int64, size int) (store.CountedSlice, error) {
			return countSlice(c, count, above, last, size)
		})
		return err
	})
	return counted, err
}

// minuteMicros is a minute as the store has times.
const minuteMicros = int64(time.Minute / time.Microsecond)

func countSlice(c *conn, count *store.Count, above, last int64, size int) (slice store.CountedSlice, err error) {
	var of minuteOf
	latest := int64(0)
	err = c.query(countRequested, func(row row) error {
		slice.Looked, slice.Last, latest = slice.Looked+1, row.integer(0), row.integer(1)
		if minute := latest - latest%minuteMicros; minute != of.minute {
			of.into(count)
			of = minuteOf{minute: minute}
		}
		of.add(latest, row.integer(2)|flags(len(row.raw(3)) > 0, row.integer(4) > 0, row.integer(5) > 0, row.integer(6)&flagLost != 0)<<4)
		return nil
	}, above, last, int64(size))
	of.into(count)
	slice.Latest = moment(latest)
	return slice, err
}

// minuteOf counts executions of one minute by their status and bits, of all and of those at its edge.
type minuteOf struct {
	minute    int64
	all, edge [1 << 8]int64
}

func (m *minuteOf) add(at, bits int64) {
	bits &= int64(len(m.all) - 1)
	m.all[bits]++
	if at-m.minute < int64(store.CountEdge/time.Microsecond) {
		m.edge[bits]++
	}
}

func (m *minuteOf) into(count *store.Count) {
	for bits, n := range m.all {
		status := messages.Status(bits & 15)
		if n == 0 || status == 0 {
			continue
		}
		of := store.MinuteCount{Minute: moment(m.minute), Status: status, N: n, Edge: m.edge[bits]}
		for bit, field := range []*int64{&of.Retries, &of.Repeated, &of.TakenBack, &of.StateLost} {
			if bits&(16<<bit) != 0 {
				*field = n
			}
		}
		count.Add(&of)
	}
}

// purgedMinute counts deleted executions that were requested in a minute.
type purgedMinute struct{ minute, n, edge, tail int64 }

// purgedMinutes counts deleted executions by the minute of their request. They are added nearly in order of time, so a minute mostly follows
// itself, and one that comes again is added up in the store.
type purgedMinutes []purgedMinute

func (p *purgedMinutes) add(requested int64) {
	in := requested % minuteMicros
	if last := len(*p) - 1; last < 0 || (*p)[last].minute != requested-in {
		*p = append(*p, purgedMinute{minute: requested - in})
	}
	m := &(*p)[len(*p)-1]
	m.n++
	if in < store.CountEdge.Microseconds() {
		m.edge++
	}
	if in >= minuteMicros-store.CountTail.Microseconds() {
		m.tail++
	}
}

func (p purgedMinutes) save(w *writer) error {
	for _, m := range p {
		if err := w.exec(`INSERT INTO purged (minute, n, edge, tail) VALUES (?, ?, ?, ?)
 ON CONFLICT (minute) DO UPDATE SET n = n + excluded.n, edge = edge + excluded.edge, tail = tail + excluded.tail`, m.minute, m.n, m.edge, m.tail); err != nil {
			return err
		}
	}
	return nil
}

const countPurged = `SELECT coalesce(sum(n) FILTER (WHERE minute >= ?1 AND minute < ?2), 0), coalesce(sum(tail) FILTER (WHERE minute < ?1), 0),
 coalesce(sum(edge) FILTER (WHERE minute = ?2), 0), coalesce((SELECT value FROM meta WHERE name = 'purged_from'), 0)
 FROM purged WHERE minute >= ?1 - ?3 AND minute <= ?2`

// CountPurged says how many executions of a time were deleted.
func (s *Store) CountPurged(ctx context.Context, from, to time.Time) (counted store.PurgedCount, err error) {
	err = s.read(ctx, "count what was purged", func(c *conn) error {
		return c.query(countPurged, func(row row) error {
			v := scanner{row: row}
			counted = store.PurgedCount{N: v.integer(), Before: v.integer(), Behind: v.integer(), From: v.time()}
			return v.err
		}, micros(from), micros(to), minuteMicros)
	})
	return counted, err
}
