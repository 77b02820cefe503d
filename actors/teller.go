package actors

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/store"
)

// Bounds of the teller.
const (
	noticesPage  = 2000             // notices that are published without waiting for a confirm
	noticesPages = 50               // of one round
	noticesCall  = 15 * time.Second // one call to the store or the broker
)

// round is how a round of the teller ended.
type round uint8

const (
	roundEmpty     round = iota // nothing was left
	roundMore                   // there is more, or may be
	roundUnwritten              // nothing was left, and what was told is to be written down soon
)

// teller tells the outbox while it holds it: page after page in the order of the commits, the next one being read while one is
// published, and what is told being deleted meanwhile. One round at a time uses it.
//
// A page is told to its end before the next begins, and a message that the broker has not confirmed is published again with all
// that follow it in its page. So whoever listens hears of an execution before it hears of the retry that repeats it.
type teller struct {
	cfg   NoticesConfig
	world World       // its clock; a round is work beside an actor already
	holds atomic.Bool // the actor reads it too
	one   sync.Mutex  // the round that is under way

	epoch   int64 // 0: it does not hold the outbox
	cursor  store.NoticesCursor
	page    *noticePage // that was not told to its end
	ahead   chan pageRead
	record  *toldRecord
	unheard unheardRoutes
	stuck   time.Time // since when every round has failed; zero: the last one did not
	rests   time.Time // until then others may take the outbox
	logs    tellerLogs
}

// tellerLogs are the messages of a broker or of notices that stay as they are.
type tellerLogs struct{ leaving, untellable Repeated }

func newTeller(cfg NoticesConfig, world World) *teller { return &teller{cfg: cfg, world: world} }

// pageRead is a page, or why there is none.
type pageRead struct {
	page *noticePage
	err  error
}

// round tells until nothing is left, up to a bound.
func (t *teller) round(ctx context.Context) (round, error) {
	t.one.Lock()
	defer t.one.Unlock()
	r, err := t.tell(ctx)
	if _, err := t.takeAhead(); err != nil {
		t.cfg.Logger.Debug("page read ahead and not used", "error", err)
	}
	if errors.Is(err, store.ErrNoticesLost) {
		t.cfg.Logger.Info("another node tells the notices", "error", err)
		t.lose()
		err = nil
	}
	t.judge(ctx, err)
	return r, err
}

// judge leaves the outbox to others when this node has not been able to tell for long: they may reach the broker.
func (t *teller) judge(ctx context.Context, err error) {
	switch {
	case err == nil || t.epoch == 0:
		t.stuck = time.Time{}
	case t.stuck.IsZero():
		t.stuck = t.world.Now()
	case t.world.Now().Sub(t.stuck) >= t.cfg.GiveUp && ctx.Err() == nil:
		t.logs.leaving.Warn(t.cfg.Logger, "leaving the notices to another node", "error", err)
		t.release(ctx)
		t.stuck, t.rests = time.Time{}, t.world.Now().Add(t.cfg.GiveUp)
	}
}

func (t *teller) tell(ctx context.Context) (round, error) {
	if err := t.hold(ctx); err != nil || t.epoch == 0 {
		return roundEmpty, err
	}
	for range noticesPages {
		if err := t.record.keep(ctx); err != nil {
			return roundEmpty, err
		}
		if err := t.next(ctx); err != nil {
			return roundEmpty, err
		}
		page := t.page
		size := page.size()
		if page.More {
			t.readAhead(ctx, page.Next)
		}
		whole, err := t.probe(ctx, page)
		if err != nil {
			return roundEmpty, err
		}
		if !whole {
			if err := t.readAgain(ctx); err != nil {
				return roundEmpty, err
			}
			continue
		}
		if err := t.publish(ctx, page); err != nil {
			return roundEmpty, err
		}
		t.cursor, t.page = page.Next, nil
		t.record.add(page)
		if page.stuck() {
			return roundEmpty, page.refused()
		}
		if !page.More && size < noticesPage/2 {
			return t.record.rest(ctx)
		}
	}
	return roundMore, nil
}

// hold takes the outbox, where nobody has it.
func (t *teller) hold(ctx context.Context) error {
	if t.epoch != 0 || t.world.Now().Before(t.rests) {
		return nil
	}
	if s := t.cfg.Broker.Status(); !s.Up || s.Blocked {
		return takesNothing(s)
	}
	limited, cancel := context.WithTimeout(ctx, noticesCall)
	defer cancel()
	now := t.world.Now()
	h, err := t.cfg.Store.HoldNotices(limited, t.cfg.Incarnation, t.cfg.Lease)
	if err != nil || h.Epoch == 0 {
		return err
	}
	t.epoch, t.cursor, t.record = h.Epoch, h.Cursor, newToldRecord(t.cfg, t.world, h, now)
	t.holds.Store(true)
	t.cfg.Logger.Info("telling the notices of all nodes", "epoch", t.epoch)
	return nil
}

// lose forgets everything that belongs to a hold: whoever has the outbox now knows how far it was told.
func (t *teller) lose() {
	t.holds.Store(false)
	t.epoch, t.cursor, t.page, t.record = 0, "", nil, nil
}

// leave gives the outbox up after the last round.
func (t *teller) leave() {
	t.one.Lock()
	defer t.one.Unlock()
	if t.epoch == 0 {
		return
	}
	t.release(context.Background())
}

// release gives the outbox up.
func (t *teller) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, noticesCall)
	defer cancel()
	err := t.record.finish(ctx)
	if err = errors.Join(err, t.cfg.Store.ReleaseNotices(ctx, t.epoch)); err != nil {
		t.cfg.Logger.Debug("outbox not given up in order: its lease ends, and what was not written down is told again", "error", err)
	}
	t.lose()
}

// next makes page the one to publish: the one that was begun, the one that was read ahead, or a new one.
func (t *teller) next(ctx context.Context) (err error) {
	if t.page != nil {
		return nil
	}
	if t.page, err = t.takeAhead(); t.page != nil || err != nil {
		return err
	}
	t.page, err = t.read(ctx, t.cursor, t.unheard.copy())
	return err
}

// readAgain reads the page of the cursor again, without the routes that turned out to be heard. What was read ahead follows the
// page as it was.
func (t *teller) readAgain(ctx context.Context) (err error) {
	t.page = nil
	if _, err = t.takeAhead(); err != nil {
		t.cfg.Logger.Debug("page read ahead and not used", "error", err)
	}
	t.page, err = t.read(ctx, t.cursor, t.unheard.copy())
	return err
}

// read reads a page and makes its messages.
func (t *teller) read(ctx context.Context, from store.NoticesCursor, unheard store.NoticeRoutes) (*noticePage, error) {
	limited, cancel := context.WithTimeout(ctx, noticesCall)
	defer cancel()
	found, err := t.cfg.Store.ReadNotices(limited, from, noticesPage, unheard)
	if err != nil {
		return nil, err
	}
	return t.compose(found), nil
}

// readAhead reads the page that follows, beside the round.
func (t *teller) readAhead(ctx context.Context, from store.NoticesCursor) {
	answer := make(chan pageRead, 1)
	t.ahead = answer
	known := t.unheard.copy()
	go func() {
		page, err := t.read(ctx, from, known)
		answer <- pageRead{page, err}
	}()
}

// takeAhead waits for the page that was read ahead, if one was. Each round ends with it, so that none leaves work behind.
func (t *teller) takeAhead() (*noticePage, error) {
	if t.ahead == nil {
		return nil, nil
	}
	r := <-t.ahead
	t.ahead = nil
	return r.page, r.err
}
