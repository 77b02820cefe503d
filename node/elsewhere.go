package node

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// lookElsewhere tells the pools which other nodes have workers of theirs. It asks nothing while no other node lives, or all
// that live share their routers.
func (n *Node) lookElsewhere(ctx context.Context) error {
	if !n.looksElsewhere() {
		return nil
	}
	served, err := n.elsewhere(ctx)
	if err != nil {
		return err
	}
	for name, handle := range n.pools.all() {
		n.system.Send(handle.pid, &supervisor.Elsewhere{Beats: served[name]})
	}
	return nil
}

// elsewhere reads which pools have workers on other live nodes, and when those last beat, as moments of this process. A
// worker that is stale, that its node has taken out, or that has ended and not come back, does not count.
func (n *Node) elsewhere(ctx context.Context) (map[string]map[messages.Incarnation]supervisor.LastBeat, error) {
	if !n.cfg.full() {
		return nil, nil
	}
	if _, err := n.store.Now(ctx); err != nil { // the ages go by a clock that is known now
		return nil, err
	}
	rows, err := n.store.ListWorkers(ctx, "")
	served := map[string]map[messages.Incarnation]supervisor.LastBeat{}
	ahead := map[messages.Incarnation]time.Duration{}
	for i := range rows {
		w := &rows[i]
		age := n.beatAge(w.Beat)
		inc, pool := w.Key.Incarnation, w.Key.Pool
		if inc == n.incarnation || !w.Active || w.State == lifecycle.Terminated.String() {
			continue
		}
		graded := n.gradeRow(w, age)
		if graded.Future() {
			ahead[inc] = max(ahead[inc], -age)
		}
		if graded.Stale() {
			continue
		}
		if served[pool] == nil {
			served[pool] = map[messages.Incarnation]supervisor.LastBeat{}
		}
		if at := time.Now().Add(-max(age, 0)); at.After(served[pool][inc].At) {
			served[pool][inc] = supervisor.LastBeat{At: at, Every: w.BeatEvery}
		}
	}
	n.futures.tell(n.logger, ahead)
	return served, err
}

// thresholds are the borders between the grades on this node.
func (n *Node) thresholds() health.Thresholds {
	t := n.cfg.Thresholds
	t.Heartbeat, t.Off = health.Limit(n.cfg.HeartbeatInterval, n.cfg.StalenessMultiplier), n.cfg.HealthDisabled
	return t
}

// beatAge is how long ago the store noted a heartbeat. What is ahead by less than the clocks are compared to is new.
func (n *Node) beatAge(at time.Time) time.Duration {
	age := n.clock.Since(at)
	if age > -skewMin {
		return max(age, 0)
	}
	return age
}

// gradeRow grades a worker as its row in the store has it, with a heartbeat of the given age.
func (n *Node) gradeRow(w *store.Worker, age time.Duration) health.Report {
	sample := health.Sample{StateDegraded: w.State == lifecycle.Degraded.String()}
	var capabilities struct {
		Health health.Capabilities `json:"health"`
	}
	if json.Unmarshal(w.Capabilities, &capabilities) == nil {
		sample = capabilities.Health.Sample()
		sample.StateDegraded = w.State == lifecycle.Degraded.String()
	}
	return health.Evaluate(n.thresholds(), sample.Beat(w.Beat.Add(age), w.Beat, w.BeatEvery, n.cfg.StalenessMultiplier))
}

// futures are the other nodes whose heartbeats are ahead of the store's clock, as the log has said.
type futures struct {
	mu    sync.Mutex
	known map[messages.Incarnation]struct{}
}

// tell logs each change once.
func (f *futures) tell(logger hclog.Logger, ahead map[messages.Incarnation]time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for inc := range f.known {
		if _, still := ahead[inc]; !still {
			delete(f.known, inc)
		}
	}
	for inc, by := range ahead {
		if _, told := f.known[inc]; told {
			continue
		}
		if f.known == nil {
			f.known = map[messages.Incarnation]struct{}{}
		}
		f.known[inc] = struct{}{}
		logger.Warn("Worker heartbeat is from the future; it counts as fresh", "incarnation", inc, "ahead", by)
	}
}
