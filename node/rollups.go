package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/rules/rollup"
	"github.com/troupe-run/troupe/store"
)

// How often the counts are collected and written, and their bounds.
const (
	rollupCollect = time.Second
	rollupEvery   = 10 * time.Second
	submitKeysMax = 2000 // pools, actions and versions that are told apart at once
)

// rollups counts by minute what this node submits and ends, and writes that every ten seconds. An end takes no statement and no lock of its
// own: the recorder tells of a whole transaction at once. A submission adds to a counter.
type rollups struct {
	*base

	submits sync.Map     // of rollup.Key to *submitCounter
	keys    atomic.Int32 // in submits

	mu      sync.Mutex
	minutes rollup.Minutes
	dropped int // that were told

	turn    sync.Mutex // held while rows are written
	written time.Time
}

// submitCounter counts the submissions of a key. counted is how many of them are in the minutes.
type submitCounter struct {
	n       atomic.Int64
	counted int64
}

// submitted counts what was stored just now.
func (r *rollups) submitted(stored []store.Submitted) {
	if r.cfg.Unrecorded {
		return
	}
	var last rollup.Key
	n := int64(0)
	for i := range stored {
		if stored[i].Existing {
			continue
		}
		e := &stored[i].Execution
		if k := (rollup.Key{Pool: e.Pool, Action: e.Action, Version: e.Version}); k != last {
			r.submit(last, n)
			last, n = k, 0
		}
		n++
	}
	r.submit(last, n)
}

func (r *rollups) submit(k rollup.Key, n int64) {
	if n == 0 {
		return
	}
	c, known := r.submits.Load(k)
	if !known {
		if r.keys.Load() >= submitKeysMax {
			k = rollup.Key{Action: rollup.Other}
		}
		if c, known = r.submits.LoadOrStore(k, &submitCounter{}); !known {
			r.keys.Add(1)
		}
	}
	c.(*submitCounter).n.Add(n)
}

// transaction counts what has ended in a transaction of the recorder, and the retries that it stored. It keeps the runs of workers.
func (r *rollups) transaction(all []actors.Recorded) {
	if r.cfg.Unrecorded {
		return
	}
	locked := false
	for i := range all {
		for j := range all[i].Results {
			done := &all[i].Results[j]
			if done.Verdict != store.Applied || !done.Status.Terminal() || done.Execution == nil {
				continue
			}
			if !locked {
				locked = true
				r.mu.Lock()
			}
			end := rollup.EndOf(done.Execution, done.Status, done.At)
			r.minutes.Ended(&end)
			r.runs.Add(done.Execution)
			if next := retryOf(all[i].Items[j].Change); next != nil {
				r.minutes.Submitted(end.At, rollup.Key{Pool: next.Pool, Action: next.Action, Version: next.Version}, 1)
			}
		}
	}
	if locked {
		r.mu.Unlock()
	}
}

// retryOf is the retry that a change stores; nil: none.
func retryOf(c store.Change) *messages.Execution {
	switch c := c.(type) {
	case *store.Finish:
		return c.Retry
	case *store.End:
		return c.Retry
	}
	return nil
}

// round collects what was submitted, and writes the counts when it is time.
func (r *rollups) round(ctx context.Context) error {
	r.collect()
	r.turn.Lock()
	defer r.turn.Unlock()
	if now := time.Now(); now.Sub(r.written) >= rollupEvery-rollupCollect/2 {
		r.written = now
		return r.write(ctx)
	}
	return nil
}

// finish writes all before the node leaves its store.
func (r *rollups) finish(ctx context.Context) error {
	r.collect()
	r.turn.Lock()
	defer r.turn.Unlock()
	return r.write(ctx)
}

// collect adds what was submitted since the last time to the minute that it is now.
func (r *rollups) collect() {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.submits.Range(func(key, value any) bool {
		c := value.(*submitCounter)
		if n := c.n.Load(); n > c.counted {
			r.minutes.Submitted(now, key.(rollup.Key), n-c.counted)
			c.counted = n
		}
		return true
	})
}

// write writes the rows that have changed. What the store does not take is written again with the next.
func (r *rollups) write(ctx context.Context) error {
	r.mu.Lock()
	rows := r.minutes.Take(r.clock.Now())
	dropped := r.minutes.Dropped - r.dropped
	r.dropped = r.minutes.Dropped
	r.mu.Unlock()
	if dropped > 0 {
		r.logger.Warn("counts of executions dropped, because the store has not taken them for long", "rows", dropped)
	}
	for len(rows) > 0 {
		batch := rows[:min(len(rows), store.RollupBatch)]
		err := r.store.SaveRollups(ctx, operate.StoredRows(r.incarnation, batch))
		if err != nil && !errors.Is(err, store.ErrInvalid) {
			r.mu.Lock()
			r.minutes.Return(rows)
			r.mu.Unlock()
			return err
		}
		if err != nil { // a defect; what comes after it is not to wait for ever
			r.logger.Error("counts of executions are not stored", "rows", len(batch), "error", err)
		}
		rows = rows[len(batch):]
	}
	return nil
}
