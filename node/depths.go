package node

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/store"
)

// depths asks the store how much waits for all callers of this node. To count walks an index over what waits, up to
// store.DepthMax of each pool and priority, so an answer that took long serves for a while: counting then takes at most a twentieth of
// one connection's time, whoever asks how often. What is counted fast is always counted anew. A submission of this node ends
// an answer that took less than half a second, so that who submits and then looks finds it; where a count takes longer, so
// many wait that one more is not worth it.
type depths struct {
	count func(context.Context) ([]store.Depth, error)
	turn  chan struct{} // holds one while somebody counts
	last  []store.Depth
	until time.Time // how long last serves
	dear  bool      // it serves that long, whatever is submitted
	knows int64     // how many submissions had ended when it was begun

	submissions atomic.Int64 // of this node, that have ended
}

const (
	depthsFast    = 5 * time.Millisecond   // an answer that took less serves no other call
	depthsDear    = 500 * time.Millisecond // an answer that took as long serves after submissions, too
	depthsShare   = 20                     // an answer serves this many times as long as it took,
	depthsAgeMax  = 10 * time.Second       // but no longer
	depthsTimeMax = 4 * time.Second        // of one count; the Postgres adapter's statements end after 5 s
)

func newDepths(count func(context.Context) ([]store.Depth, error)) *depths {
	return &depths{count: count, turn: make(chan struct{}, 1)}
}

// Depths implements store.Store.
func (d *doubt) Depths(ctx context.Context) ([]store.Depth, error) { return d.counted.read(ctx) }

// submitted notes that a submission of this node has ended, stored or not.
func (d *depths) submitted() { d.submissions.Add(1) }

// read returns the depths, up to 10 s old where counting takes long. Callers at the same time wait for one count.
func (d *depths) read(ctx context.Context) ([]store.Depth, error) {
	submissions := d.submissions.Load()
	select {
	case d.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-d.turn }()
	began := time.Now()
	if began.Before(d.until) && (d.dear || d.knows >= submissions) {
		return slices.Clone(d.last), nil
	}
	limited, cancel := context.WithTimeout(ctx, depthsTimeMax)
	defer cancel()
	knows := d.submissions.Load()
	counted, err := d.count(limited)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	d.last, d.until, d.dear, d.knows = counted, time.Time{}, took >= depthsDear, knows
	if took >= depthsFast {
		d.until = time.Now().Add(min(depthsShare*took, depthsAgeMax))
	}
	return slices.Clone(counted), nil
}
