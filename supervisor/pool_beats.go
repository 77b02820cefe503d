package supervisor

import (
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/supervisor/roster"
)

// staleAfter is how old a heartbeat may be where the configuration does not say: the roster's own default.
const staleAfter = 30 * time.Second

// beat takes a heartbeat that the store holds.
func (p *Pool) beat(m *Beat) {
	keys := make([]messages.WorkerKey, 0, len(p.slots))
	for _, s := range p.slots {
		if s.cur != nil && s.cur.ready {
			s.beat = m.At
			keys = append(keys, s.key)
		}
	}
	p.step(roster.Beats{Workers: keys, At: m.At})
}

// watchBeats says once when heartbeats have become too old to place by, and once when they are back. It only tells: the
// roster judges by the same limit. A node writes the heartbeats of all its workers in one statement, so they become
// stale together, and a pool says so in one line with their number.
func (p *Pool) watchBeats(now time.Time) {
	limit := p.cfg.Roster.StaleAfter
	if limit <= 0 {
		limit = staleAfter
	}
	var stale, fresh []*slot
	for _, s := range p.slots {
		isStale := s.cur != nil && s.cur.ready && now.Sub(s.beat) > limit
		switch {
		case isStale && !s.stale:
			stale = append(stale, s)
		case s.stale && !isStale:
			fresh = append(fresh, s)
		}
		s.stale = isStale
	}
	if len(stale) > 0 {
		s := stale[0]
		p.cfg.Logger.Warn("Worker heartbeat is stale", "worker", s.id, "workers", len(stale), "age", now.Sub(s.beat), "limit", limit)
	}
	if len(fresh) > 0 {
		p.cfg.Logger.Info("Worker heartbeat is fresh again", "worker", fresh[0].id, "workers", len(fresh))
	}
}
