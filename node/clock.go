package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/clock"
)

// timed is a store whose every word about the time is a sample of its clock: each beat and each question for the time.
type timed struct {
	store.Store
	clock *clock.Clock
	took  func(step time.Duration) // told after each sample
	beat  func(err error)          // told how each renewal of the lease ended
}

// Now implements store.Store.
func (t *timed) Now(ctx context.Context) (time.Time, error) {
	asked := time.Now()
	now, err := t.Store.Now(ctx)
	if err == nil {
		t.sample(asked, now)
	}
	return now, err
}

// Beat implements store.Store.
func (t *timed) Beat(ctx context.Context, inc messages.Incarnation, lease time.Duration) (store.Pulse, error) {
	asked := time.Now()
	pulse, err := t.Store.Beat(ctx, inc, lease)
	if err == nil {
		t.sample(asked, pulse.At)
	}
	t.beat(err)
	return pulse, err
}

func (t *timed) sample(asked, stored time.Time) {
	t.took(t.clock.Take(clock.Sample{Asked: asked, Answered: time.Now(), Stored: stored}))
}

// skew tells when the machine's clock leaves the store's, and when it is back.
type skew struct {
	*base
	clocks hclog.Logger // of what it tells

	mu   sync.Mutex
	told time.Duration // what was told last; 0: that the clocks agree
}

// sampled takes a sample's news: the skew is told where it has changed, and after a step of the store's clock the workers'
// heartbeats are written anew, for by that clock they have become old.
func (s *skew) sampled(step time.Duration) {
	s.note(s.clock.Skew(), s.cfg.full())
	if step == 0 {
		return
	}
	s.logger.Warn("the store's clock was set; what waits for a time of it comes early or late by as much", "step_seconds", step.Seconds())
	if s.phase.started.Load() {
		s.system.Send(s.system.PID("troupe/monitors/heartbeat"), &actors.RoundNow{})
	}
}

// note logs a change: the clocks part by more than operate.SkewMin, or by another operate.SkewMin and a tenth, or agree again.
func (s *skew) note(now clock.Skew, served bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ahead := beyond(now)
	switch {
	case ahead == 0 && s.told != 0:
		s.clocks.Info("this machine's clock agrees with the store's again", "was_ahead_seconds", s.told.Seconds())
	case ahead != 0 && (ahead-s.told).Abs() > operate.SkewMin+s.told.Abs()/10:
		s.clocks.Warn("this machine's clock is not the store's", "ahead_seconds", ahead.Seconds(), "error_seconds", now.Error.Seconds(),
			"advice", skewAdvice(served))
	default:
		return
	}
	s.told = ahead
}

// beyond is how far the machine's clock is ahead of the store's, or behind it, where that is surely more than operate.SkewMin; else 0.
func beyond(s clock.Skew) time.Duration {
	if !s.Known || s.Ahead.Abs()-s.Error <= operate.SkewMin {
		return 0
	}
	return s.Ahead
}

// skewAdvice says what a skew does and what to do about it; served: the store is a server's.
func skewAdvice(served bool) string {
	if served {
		return "work goes by the store's clock and is not affected, but times in this node's logs are; set the clocks of both machines with NTP"
	}
	return "the embedded store's clock never goes back while the node runs, so what waits for a time of day comes too early; " +
		"restart the node to follow the machine's clock"
}

// skewNote is what /readyz says of the clocks; empty: nothing.
func skewNote(s clock.Skew, served bool) string {
	ahead := beyond(s)
	if ahead == 0 {
		return ""
	}
	side := "ahead of"
	if ahead < 0 {
		side = "behind"
	}
	return fmt.Sprintf("this machine's clock is %.1f s %s the store's: %s", ahead.Abs().Seconds(), side, skewAdvice(served))
}
