package node

import (
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupe-run/troupe/actors"
)

// lateAfter is when a recorder is late that has something to commit.
const lateAfter = 5 * time.Second

// lateness says what of a recorder's backlog is late: stuck, where nothing has been committed for lateAfter although
// something waits, and held, where single executions' changes are not made and the others pass. Empty: it is not so.
func lateness(s actors.BacklogState, now time.Time) (stuck, held string) {
	age := since(s.Oldest, now)
	if idle := min(age, since(s.Committed, now)); idle >= lateAfter {
		stuck = fmt.Sprintf("recorder: nothing committed for %s; the oldest of %d changes has waited for %s", round(idle), s.Changes, round(age))
	}
	if age := since(s.ApartOldest, now); age >= lateAfter {
		held = fmt.Sprintf("recorder: changes of %d executions are not committed, the oldest for %s; all others go on", s.Apart, round(age))
		if s.Why != nil {
			held += ": " + s.Why.Error()
		}
	}
	return stuck, held
}

// since is how long ago a moment was; zero for none.
func since(at, now time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return now.Sub(at)
}

func round(d time.Duration) time.Duration { return d.Round(time.Second) }

// recorderWatch logs a recorder that is late, once and then each minute, and its end.
type recorderWatch struct {
	logger hclog.Logger
	looked time.Time

	late  time.Time // since when; zero: it is not
	told  time.Time
	stuck bool
}

// recorderLook is how often the recorder is looked at.
const recorderLook = time.Second

// look takes how the backlog stands. Only the node's watcher calls it.
func (w *recorderWatch) look(state func() actors.BacklogState, now time.Time) {
	if now.Sub(w.looked) < recorderLook {
		return
	}
	w.looked = now
	s := state()
	stuck, held := lateness(s, now)
	reason := stuck
	if reason == "" {
		reason = held
	}
	switch {
	case reason == "" && !w.late.IsZero():
		w.logger.Info("recorder commits again", "after", round(now.Sub(w.late)))
		w.late, w.told = time.Time{}, time.Time{}
	case reason == "":
	case w.late.IsZero() || now.Sub(w.told) >= repeatEvery || stuck != "" && !w.stuck:
		if w.late.IsZero() {
			w.late = now
		}
		w.told = now
		w.logger.Warn("recorder has not committed", "changes", s.Changes, "apart", s.Apart, "reason", reason)
	}
	w.stuck = stuck != ""
}

// backlog shows what the recorder has not committed.
func (c *liveCollector) backlog(gauge func(*prometheus.Desc, float64, ...string)) {
	s, now := c.of.backlog.State(), time.Now()
	gauge(c.uncommitted, max(since(s.Oldest, now), since(s.ApartOldest, now)).Seconds())
	gauge(c.heldBack, float64(s.Apart))
}
