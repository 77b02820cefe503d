package actors

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-run/troupe/store"
)

// recordEvery is how often the teller writes down how far it has come. What it told since then is told again when its node dies.
// Once nothing is left to tell it does so earlier, so that the outbox is soon empty.
const (
	recordEvery = 250 * time.Millisecond
	recordRest  = 100 * time.Millisecond
)

// toldRecord writes down what was told, beside the telling: one write at a time, which also renews the lease. What a write that
// failed had goes with the next one.
type toldRecord struct {
	cfg     NoticesConfig
	world   World
	epoch   int64
	told    store.ToldNotices // not written yet
	under   *store.ToldNotices
	answer  chan error
	began   time.Time // the last write
	renewed time.Time // what the lease is counted from: before the write that gave it
}

func newToldRecord(cfg NoticesConfig, world World, h store.NoticesHold, at time.Time) *toldRecord {
	return &toldRecord{cfg: cfg, world: world, epoch: h.Epoch, told: store.ToldNotices{Cursor: h.Cursor}, renewed: at}
}

// add takes what was told.
func (r *toldRecord) add(p *noticePage) {
	r.told.Cursor, r.told.Rows = p.Next, append(r.told.Rows, p.Rows...)
	r.later(p)
}

func (r *toldRecord) later(p *noticePage) {
	if len(p.later) == 0 {
		return
	}
	if r.told.LaterAt.IsZero() || p.Oldest.Before(r.told.LaterAt) {
		r.told.LaterAt = p.Oldest
	}
	r.told.Later = append(r.told.Later, p.later...)
}

// keep writes when it is time: it begins a write and takes the answer of the last one, without waiting for it. Where the lease
// may end soon it does wait, so that who has lost the outbox publishes no more.
func (r *toldRecord) keep(ctx context.Context) error {
	if err := r.take(false); err != nil {
		return err
	}
	age := r.world.Now().Sub(r.renewed)
	if age > r.cfg.Lease*2/3 {
		return r.finish(ctx)
	}
	if r.under == nil && (age > r.cfg.Lease/3 || r.unwritten() && r.world.Now().Sub(r.began) >= recordEvery) {
		r.begin(ctx)
	}
	return nil
}

func (r *toldRecord) unwritten() bool { return len(r.told.Rows)+len(r.told.Later) > 0 }

// rest is keep where nothing is left to tell.
func (r *toldRecord) rest(ctx context.Context) (round, error) {
	err := r.keep(ctx)
	if err == nil && r.under == nil && r.unwritten() && r.world.Now().Sub(r.began) >= recordRest {
		r.begin(ctx)
	}
	if err != nil || !r.unwritten() {
		return roundEmpty, err
	}
	return roundUnwritten, nil
}

// finish writes all that there is, and waits for it.
func (r *toldRecord) finish(ctx context.Context) error {
	if err := r.take(true); err != nil && (errors.Is(err, store.ErrNoticesLost) || ctx.Err() != nil) {
		return err
	}
	r.begin(ctx)
	return r.take(true)
}

func (r *toldRecord) begin(ctx context.Context) {
	told := r.told
	r.under, r.told = &told, store.ToldNotices{Cursor: told.Cursor}
	r.began = r.world.Now()
	answer := make(chan error, 1)
	r.answer = answer
	go func() {
		limited, cancel := context.WithTimeout(ctx, noticesCall)
		defer cancel()
		answer <- r.cfg.Store.NoticesTold(limited, r.epoch, r.cfg.Lease, told)
	}()
}

// take takes the answer of the write that is under way, if it is there or waited for.
func (r *toldRecord) take(wait bool) error {
	if r.under == nil {
		return nil
	}
	var err error
	if wait {
		err = <-r.answer
	} else {
		select {
		case err = <-r.answer:
		default:
			return nil
		}
	}
	if err == nil {
		r.renewed = r.began
	} else {
		r.told.Rows = append(r.under.Rows, r.told.Rows...)
		r.told.Later = append(r.under.Later, r.told.Later...)
		if !r.under.LaterAt.IsZero() {
			r.told.LaterAt = r.under.LaterAt
		}
	}
	r.under = nil
	return err
}
