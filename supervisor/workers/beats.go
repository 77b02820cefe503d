package workers

import (
	"cmp"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/rules/roster"
)

// What the roster takes where the configuration does not say.
const (
	staleAfter = 30 * time.Second
	staleTimes = 3
)

// Beat takes a heartbeat of this node's workers that the store holds.
func (w *Workers) Beat(at time.Time) {
	keys := make([]messages.WorkerKey, 0, len(w.slots))
	for _, s := range w.slots {
		if s.cur != nil && s.cur.ready {
			s.beat = at
			keys = append(keys, w.key(s))
		}
	}
	w.link.Tell(roster.Beats{Workers: keys, At: at})
}

// evaluate grades the worker of a slot, by what it reports and by its heartbeat. One that has not become ready has none yet,
// and counts as starting.
func (w *Workers) evaluate(s *slot, now time.Time, report *health.Capabilities, state lifecycle.State) health.Report {
	sample := report.Sample()
	sample.StateDegraded = state == lifecycle.Degraded
	sample.HeartbeatSeen = true
	if s.cur != nil && s.cur.ready {
		sample = sample.Beat(now, s.beat, w.Config.BeatEvery, cmp.Or(w.Config.Roster.StaleTimes, staleTimes))
	}
	thresholds := w.WorkerConfig.Thresholds
	thresholds.Heartbeat = cmp.Or(w.Config.Roster.StaleAfter, staleAfter)
	return health.Evaluate(thresholds, sample)
}

// watchBeats says once when heartbeats have become too old to place by, or are ahead of the clock, and once when they are well
// again. It only tells: the roster evaluates them by the same rule. A node writes the heartbeats of all its workers in one
// statement, so they become stale together, and a pool says so in one line with their number.
func (w *Workers) watchBeats(now time.Time) {
	var stale, fresh, future []*slot
	for _, s := range w.slots {
		var seen health.Report
		if s.cur != nil && s.cur.ready {
			seen = w.evaluate(s, now, &s.cur.report, s.cur.state)
		}
		switch {
		case seen.Stale() && !s.stale:
			stale = append(stale, s)
		case s.stale && !seen.Stale():
			fresh = append(fresh, s)
		}
		if seen.Future() && !s.future {
			future = append(future, s)
		}
		s.stale, s.future = seen.Stale(), seen.Future()
		s.showBeat()
	}
	if len(stale) > 0 {
		s := stale[0]
		w.Config.Logger.Warn("Worker heartbeat is stale", "worker", s.id, "workers", len(stale), "age", now.Sub(s.beat),
			"limit", cmp.Or(health.Limit(w.Config.BeatEvery, cmp.Or(w.Config.Roster.StaleTimes, staleTimes)), w.Config.Roster.StaleAfter, staleAfter))
	}
	if len(fresh) > 0 {
		w.Config.Logger.Info("Worker heartbeat is fresh again", "worker", fresh[0].id, "workers", len(fresh))
	}
	if len(future) > 0 {
		w.Config.Logger.Warn("Worker heartbeat is from the future; it counts as fresh", "worker", future[0].id, "workers", len(future),
			"ahead", future[0].beat.Sub(now))
	}
}

// showBeat has the worker's actor shown as stale, or as fresh again.
func (s *slot) showBeat() {
	if s.cur == nil || s.cur.shownStale == s.stale {
		return
	}
	s.cur.shownStale = s.stale
	s.cur.cell.Update(func(st *actors.Status) { st.Stale = s.stale })
}
