package node

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/supervisor"
)

// beats writes the heartbeats of this node's workers, and knows what became of the last.
type beats struct {
	*base

	mu    sync.Mutex
	taken time.Time // when the last that the store took was written
	why   string    // the last was not taken
}

// write writes the workers' heartbeats in one statement, then tells the pools. The reports of what ran since the
// last one ride along; a pool too busy to answer costs its reports, never its heartbeat. Pools measure the age of their
// own workers' heartbeats by this machine's clock, from before the write: the store's may stand elsewhere.
func (b *beats) write(ctx context.Context) error {
	at := time.Now()
	limited, cancel := context.WithTimeout(ctx, reportTime(ctx))
	reports := b.reports(limited)
	cancel()
	err := b.store.Heartbeat(ctx, b.incarnation, reports)
	b.note(at, err)
	if err != nil {
		return err
	}
	b.pools.TellAll(&supervisor.Beat{At: at})
	return nil
}

func (b *beats) note(at time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.why = err.Error()
		return
	}
	b.taken, b.why = at, ""
}

// read says why the last heartbeat was not taken; empty: it was.
func (b *beats) read() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.why
}

// last is when the last was written that the store took; zero: none was.
func (b *beats) last() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken
}

// reportTime is how long a heartbeat waits for the pools' views: the write needs most of its time.
func reportTime(ctx context.Context) time.Duration {
	end, bounded := ctx.Deadline()
	if !bounded {
		return describeTime
	}
	return min(describeTime, time.Until(end)/4)
}

// reports are the health reports of the workers that have run anything.
func (b *beats) reports(ctx context.Context) map[messages.WorkerKey]json.RawMessage {
	reports := map[messages.WorkerKey]json.RawMessage{}
	for name, d := range b.pools.describeAll(ctx, supervisor.Describe{Used: true}) {
		for i := range d.Workers {
			w := &d.Workers[i]
			if raw, err := json.Marshal(map[string]any{"health": w.Report}); err == nil {
				reports[messages.WorkerKey{Incarnation: b.incarnation, Pool: name, Slot: w.Slot}] = raw
			}
		}
	}
	return reports
}
