package postgres

import (
	"bytes"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// judgeAll answers for the changes that had no effect, from what stood there under the lock, and stores the stale ones
// among them as events.
func (s *Store) judgeAll(ctx context.Context, items []*item) error {
	batch := &pgx.Batch{}
	for _, it := range items {
		if it.done {
			continue
		}
		judge(it)
		if it.out.Verdict == store.Stale {
			queueStale(batch, it)
		}
	}
	if batch.Len() == 0 {
		return nil
	}
	return s.pool.SendBatch(ctx, batch).Close()
}

const passedSQL = `SELECT e.id, e.seq, e.status, e.attempt, e.pool, e.worker_inc, e.worker_slot, e.worker_id, e.placed_by, now() FROM execution e
 WHERE e.id = ANY($1)`

// passOver answers, of changes that went the straight path in vain, for placements of executions that have moved on,
// without a lock, and returns the others. Where several routers look at one pool, most placements that fail are of
// executions that another has placed: they are no events, unless all are stored.
func (s *Store) passOver(ctx context.Context, items []*item) (rest []*item, err error) {
	byID := map[messages.ExecutionID]*item{}
	var ids []messages.ExecutionID
	for _, it := range items {
		if _, ok := it.change.(*store.Place); ok {
			byID[it.id] = it
			ids = append(ids, it.id)
		}
	}
	if len(ids) == 0 {
		return items, nil
	}
	batch := &pgx.Batch{}
	err = s.query(ctx, "read placements", func(sc *scanner) {
		r, id := &record{}, messages.ExecutionID{}
		sc.id((*[16]byte)(&id))
		r.Seq, r.Status, r.Attempt, r.Pool = sc.integer(), messages.Status(sc.integer()), messages.Attempt(sc.integer()), sc.text()
		sc.id((*[16]byte)(&r.Worker.Incarnation))
		r.Worker.Slot, r.WorkerID = messages.Slot(sc.integer()), messages.WorkerID(sc.text())
		sc.id((*[16]byte)(&r.PlacedBy))
		it, at := byID[id], sc.time()
		p := it.change.(*store.Place)
		if !r.Worker.Incarnation.IsZero() {
			r.Worker.Pool = r.Pool
		}
		if _, fits := store.Next(p.Name(), r.Status); fits && r.Attempt == p.Attempt {
			return
		}
		it.found, it.at, it.done = r, at, true
		judge(it)
		if it.out.Verdict == store.Stale && s.cfg.EventsAll {
			queueStale(batch, it)
		}
	}, passedSQL, idsOf(ids))
	if err == nil && batch.Len() > 0 {
		err = s.pool.SendBatch(ctx, batch).Close()
	}
	for _, it := range items {
		if !it.done {
			rest = append(rest, it)
		}
	}
	return rest, err
}

// judge says what became of a change that had no effect.
func judge(it *item) {
	r := it.found
	if r == nil {
		it.out = store.Result{Verdict: store.Missing, At: it.at}
		return
	}
	it.out = store.Result{Verdict: store.Stale, Status: r.Status, Attempt: r.Attempt, At: it.at}
	switch c := it.change.(type) {
	case *store.Place:
		it.judgePlace(c, r)
	case *store.TakeBack:
		it.already(r.Status == messages.Requested && r.Attempt == c.Attempt && r.last == lastTakeBack)
	case *store.Claim:
		it.judgeClaim(c, r)
	case *store.Finish:
		it.judgeOutcome(c.Outcome, c.Attempt, lastFinish, r.Status.Started(), r)
	case *store.End:
		_, fits := store.Next(c.Name(), r.Status)
		it.judgeOutcome(c.Outcome, c.Attempt, lastEnd, fits, r)
	case *store.Cancel:
		e := r.Execution
		e.Parameters = nil
		it.out.Execution = &e
		it.already(true)
	case *store.Rescue:
		it.already(r.Attempt == c.Attempt && r.last == lastRescue)
	default:
		it.refuse(it.bad)
	}
}

func (it *item) already(mine bool) {
	if mine {
		it.out.Verdict = store.Already
	}
}

func (it *item) refuse(err error) {
	it.out.Verdict, it.out.Err = store.Refused, fmt.Errorf("%s execution %s: %w", it.change.Name(), it.id, err)
}

func (it *item) judgePlace(c *store.Place, r *record) {
	_, fits := store.Next(c.Name(), r.Status)
	switch {
	case !fits || r.Attempt != c.Attempt:
		it.already(r.Attempt == c.Attempt+1 && r.Worker == c.Worker && r.PlacedBy == c.PlacedBy &&
			r.Status >= messages.Scheduled && !r.Status.Terminal())
	case it.bad != nil:
		it.refuse(it.bad)
	case c.Worker.Pool != r.Pool:
		it.refuse(fmt.Errorf("worker %s of pool %q cannot take work of pool %q: %w", c.WorkerID, c.Worker.Pool, r.Pool, store.ErrInvalid))
	case c.Session != nil:
		it.refuse(fmt.Errorf("session %q: %w: %s", c.Session.Session, store.ErrSession, it.whyNot(c, r)))
	default:
		it.refuse(fmt.Errorf("%w: it was not placed", store.ErrUnavailable))
	}
}

// whyNot says what about its session kept a placement from being made.
func (it *item) whyNot(c *store.Place, r *record) string {
	u, l := c.Session, it.lane
	if l == nil {
		l = &laneState{}
	}
	switch {
	case u.Session != r.Session || u.Pool != r.Pool:
		return fmt.Sprintf("the execution belongs to session %q of pool %q", r.Session, r.Pool)
	case strict(&r.Execution) && l.active > 0:
		return "another execution of it is under way"
	case u.Bind:
		return fmt.Sprintf("epoch %d is not above the stored %d", u.Epoch, l.held.Epoch)
	}
	return fmt.Sprintf("it is not bound to this worker with epoch %d; the stored epoch is %d", u.Epoch, l.held.Epoch)
}

func (it *item) judgeClaim(c *store.Claim, r *record) {
	switch {
	case r.Status == messages.Scheduled && r.Attempt == c.Attempt && r.Worker == c.Worker:
		switch {
		case it.bad != nil:
		case r.SessionHit && r.SessionEpoch > 0: // or it is fenced: either way it is placed again
			it.bad = fmt.Errorf("session %q: %w: its binding with epoch %d has ended", r.Session, store.ErrSession, r.SessionEpoch)
		default:
			it.bad = fmt.Errorf("%s: %w", c.Worker.Incarnation, store.ErrFenced)
		}
		it.refuse(it.bad)
	case r.Status.Started() && r.Attempt == c.Attempt && r.Worker == c.Worker && r.Generation == c.Generation:
		e := r.Execution
		it.out.Execution = &e
		it.already(true)
	}
}

// judgeOutcome says Already where the very same outcome is stored.
func (it *item) judgeOutcome(o messages.Outcome, attempt messages.Attempt, last int, fits bool, r *record) {
	if it.bad != nil && (store.CheckOutcome(&o) != nil || fits && r.Attempt == attempt) {
		it.refuse(it.bad)
		return
	}
	if !r.Status.Terminal() || r.Attempt != attempt || r.last != last {
		return
	}
	for _, from := range []messages.Status{messages.Running, messages.Cancelling} {
		would := store.Settle(from, o)
		it.already(would.Status == r.Status && bytes.Equal(would.Result, r.Result) &&
			bytes.Equal(store.EncodeError(would.Error), store.EncodeError(r.Error)))
	}
}

// staleMax bounds the stale writes that are kept for one execution, so that a party that repeats without end cannot
// fill the store.
const staleMax = 64

const staleSQL = `INSERT INTO execution_event (seq, at, attempt, kind, before, after, reason, worker)
 SELECT $1::bigint, now(), $2::int, 'stale_write', $3::smallint, $3, $4::text, $5::text
 WHERE (SELECT count(*) FROM (SELECT 1 FROM execution_event WHERE seq = $1 AND kind = 'stale_write' LIMIT $6) f) < $6`

func queueStale(batch *pgx.Batch, it *item) {
	r := it.found
	var attempt messages.Attempt
	switch c := it.change.(type) {
	case *store.Place:
		attempt = c.Attempt
	case *store.TakeBack:
		attempt = c.Attempt
	case *store.Claim:
		attempt = c.Attempt
	case *store.Finish:
		attempt = c.Attempt
	case *store.End:
		attempt = c.Attempt
	case *store.Rescue:
		attempt = c.Attempt
	}
	batch.Queue(staleSQL, r.Seq, int32(attempt), int16(r.Status), pgtype.Text{String: it.change.Name(), Valid: true}, textOf(r.WorkerID), int64(staleMax))
}
