package sqlite

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// SaveKeyframe stores what a node was at a moment.
func (s *Store) SaveKeyframe(ctx context.Context, k store.Keyframe) error {
	if err := store.CheckKeyframe(&k); err != nil {
		return err
	}
	return s.write(ctx, "save a keyframe", 1, func(w *writer) error {
		return w.exec("INSERT OR REPLACE INTO keyframe (incarnation, at, frame) VALUES (?, ?, ?)", k.Incarnation[:], micros(k.At), blob(k.Frame))
	})
}

// ReadKeyframes returns one keyframe of each incarnation.
func (s *Store) ReadKeyframes(ctx context.Context, q store.KeyframeQuery) ([]store.Keyframe, error) {
	best := "max(at)"
	if q.Oldest {
		best = "min(at)"
	}
	var out []store.Keyframe
	err := s.read(ctx, "read keyframes", func(c *conn) error {
		out = nil
		return c.query(`SELECT k.incarnation, k.at, k.frame FROM (SELECT incarnation, `+best+` AS at
 FROM keyframe WHERE at >= ? AND at < ? GROUP BY incarnation ORDER BY incarnation LIMIT ?) n
 JOIN keyframe k ON k.incarnation = n.incarnation AND k.at = n.at ORDER BY k.incarnation`, func(row row) error {
			v := scanner{row: row}
			var k store.Keyframe
			v.id((*[16]byte)(&k.Incarnation))
			k.At, k.Frame = v.time(), v.bytes()
			out = append(out, k)
			return v.err
		}, micros(q.From), before(q.To), int64(store.KeyframesMax))
	})
	return out, err
}

// before is the bound of what comes before a time; none where it is zero.
func before(t time.Time) int64 {
	if t.IsZero() {
		return math.MaxInt64
	}
	return micros(t)
}

// WorkerEventsBetween returns the transitions of a time.
func (s *Store) WorkerEventsBetween(ctx context.Context, q store.WorkerEventQuery) (store.WorkerEventPage, error) {
	order, size := "at, n", q.Size()
	if q.Newest {
		order = "at DESC, n DESC"
	}
	var page store.WorkerEventPage
	err := s.read(ctx, "read worker events", func(c *conn) error {
		page = store.WorkerEventPage{}
		return c.query(`SELECT incarnation, pool, slot, generation, at, before, after, reason, lasted FROM worker_event
 WHERE at >= ? AND at < ? ORDER BY `+order+" LIMIT ?", func(row row) error {
			if len(page.Events) == size {
				page.More = true
				return nil
			}
			v := scanner{row: row}
			var e store.WorkerEvent
			v.id((*[16]byte)(&e.Key.Incarnation))
			e.Key.Pool, e.Key.Slot, e.Generation = v.interned(), messages.Slot(v.integer()), messages.Generation(v.integer())
			e.At, e.From, e.To, e.Reason, e.Lasted = v.time(), v.interned(), v.interned(), v.interned(), v.duration()
			page.Events = append(page.Events, e)
			return v.err
		}, micros(q.From), before(q.To), int64(size)+1)
	})
	if q.Newest {
		slices.Reverse(page.Events)
	}
	return page, err
}
