package operate

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// RemoteWorkers are the workers of other nodes, as their rows in the store show them.
type RemoteWorkers struct {
	cfg     *Config
	futures futures
}

// Served reads which pools have workers on other live nodes, and when those last beat, as moments of this process. A
// worker that is stale, that its node has taken out, or that has ended and not come back, does not count.
func (r *RemoteWorkers) Served(ctx context.Context) (map[string]map[messages.Incarnation]supervisor.LastBeat, error) {
	if _, err := r.cfg.Store.Now(ctx); err != nil { // the ages go by a clock that is known now
		return nil, err
	}
	rows, err := r.cfg.Store.ListWorkers(ctx, "")
	served := map[string]map[messages.Incarnation]supervisor.LastBeat{}
	ahead := map[messages.Incarnation]time.Duration{}
	for i := range rows {
		w := &rows[i]
		age := r.beatAge(w.Beat)
		inc, pool := w.Key.Incarnation, w.Key.Pool
		if inc == r.cfg.Incarnation || !w.Active || w.State == lifecycle.Terminated.String() {
			continue
		}
		graded := r.grade(w, age)
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
	r.futures.tell(r.cfg.Logger, ahead)
	return served, err
}

// SkewMin is how far two clocks may be apart before that is worth a word.
const SkewMin = time.Second

// beatAge is how long ago the store noted a heartbeat. What is ahead by less than the clocks are compared to is new.
func (r *RemoteWorkers) beatAge(at time.Time) time.Duration {
	age := r.cfg.Clock.Since(at)
	if age > -SkewMin {
		return max(age, 0)
	}
	return age
}

// grade grades a worker as its row in the store has it, with a heartbeat of the given age.
func (r *RemoteWorkers) grade(w *store.Worker, age time.Duration) health.Report {
	sample := health.Sample{StateDegraded: w.State == lifecycle.Degraded.String()}
	var capabilities struct {
		Health health.Capabilities `json:"health"`
	}
	if json.Unmarshal(w.Capabilities, &capabilities) == nil {
		sample = capabilities.Health.Sample()
		sample.StateDegraded = w.State == lifecycle.Degraded.String()
	}
	return health.Evaluate(r.cfg.Grades.Thresholds, sample.Beat(w.Beat.Add(age), w.Beat, w.BeatEvery, r.cfg.Grades.StalenessTimes))
}

// view is a worker as its row has it: as old as its last heartbeat.
func (r *RemoteWorkers) view(w *store.Worker, node string) view.Worker {
	v := view.Worker{
		ID: w.ID, Pool: w.Key.Pool, Node: node, Runtime: w.Runtime, Generation: w.Generation, State: w.State, Health: w.Health,
		Cordoned: w.Cordoned, Since: w.Since, Heartbeat: w.Beat, Stale: true, SeenAt: w.Beat,
	}
	var capabilities struct {
		Health json.RawMessage `json:"health"`
	}
	if json.Unmarshal(w.Capabilities, &capabilities) == nil {
		v.Report = capabilities.Health
	}
	graded := r.grade(w, r.beatAge(w.Beat))
	v.Grade, v.GradeCauses = graded.Grade.String(), graded.Causes.Names()
	if graded.Stale() {
		v.Health = lifecycle.Unhealthy.String()
	}
	return v
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
