package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// SaveKeyframe stores what a node was at a moment.
func (s *keyframeRows) SaveKeyframe(ctx context.Context, k store.Keyframe) error {
	if err := store.CheckKeyframe(&k); err != nil {
		return err
	}
	_, err := s.exec(ctx, "save a keyframe", `INSERT INTO keyframe (incarnation, at, frame) VALUES ($1, $2, $3)
 ON CONFLICT (incarnation, at) DO UPDATE SET frame = excluded.frame`, uuidOf(k.Incarnation), timeOf(k.At), k.Frame)
	return err
}

// keyframesSQL finds the moments in the index before it reads what is stored of them.
const keyframesSQL = `SELECT k.incarnation, k.at, k.frame FROM (SELECT incarnation, CASE WHEN $3 THEN min(at) ELSE max(at) END AS at
 FROM keyframe WHERE at >= $1 AND at < $2 GROUP BY incarnation ORDER BY incarnation LIMIT $4) n
 JOIN keyframe k ON k.incarnation = n.incarnation AND k.at = n.at ORDER BY k.incarnation`

// ReadKeyframes returns one keyframe of each incarnation.
func (s *keyframeRows) ReadKeyframes(ctx context.Context, q store.KeyframeQuery) ([]store.Keyframe, error) {
	var out []store.Keyframe
	err := s.query(ctx, "read keyframes", func(v *scanner) {
		var k store.Keyframe
		v.id((*[16]byte)(&k.Incarnation))
		k.At, k.Frame = v.time(), v.bytes()
		out = append(out, k)
	}, keyframesSQL, boundOf(q.From, pgtype.NegativeInfinity), boundOf(q.To, pgtype.Infinity), q.Oldest, store.KeyframesMax)
	return out, err
}

// WorkerEventsBetween returns the transitions of a time.
func (s *keyframeRows) WorkerEventsBetween(ctx context.Context, q store.WorkerEventQuery) (store.WorkerEventPage, error) {
	order, size := "at, n", q.Size()
	if q.Newest {
		order = "at DESC, n DESC"
	}
	var page store.WorkerEventPage
	err := s.query(ctx, "read worker events", func(v *scanner) {
		var e store.WorkerEvent
		v.id((*[16]byte)(&e.Key.Incarnation))
		e.Key.Pool, e.Key.Slot, e.Generation = v.text(), messages.Slot(v.integer()), messages.Generation(v.integer())
		e.At, e.From, e.To, e.Reason, e.Lasted = v.time(), v.text(), v.text(), v.text(), v.duration()
		page.Events = append(page.Events, e)
	}, `SELECT incarnation, pool, slot, generation, at, before, after, reason, lasted FROM worker_event
 WHERE at >= $1 AND at < $2 ORDER BY `+order+` LIMIT $3`, boundOf(q.From, pgtype.NegativeInfinity), boundOf(q.To, pgtype.Infinity), size+1)
	if len(page.Events) > size {
		page.Events, page.More = page.Events[:size], true
	}
	if q.Newest {
		slices.Reverse(page.Events)
	}
	return page, err
}
