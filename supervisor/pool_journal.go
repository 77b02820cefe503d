package supervisor

import (
	"context"
	"encoding/json"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/store"
)

// journalMax bounds the worker rows and events that wait for a store that does not answer; older events go first. What
// is lost is history, never work.
const journalMax = 20_000

// journal writes the workers' rows and transitions behind the pool, one batch at a time.
type journal struct {
	workers []store.Worker
	events  []store.WorkerEvent
	healths []string
	busy    bool
	failed  bool // the last batch was not written
}

// saved says that a batch of the journal has been written, or was not.
type saved struct {
	workers []store.Worker
	events  []store.WorkerEvent
	healths []string
	err     error
}

// ready notes that a generation has become ready: its row is made anew, with its first heartbeat.
func (j *journal) ready(p *Pool, s *slot, m *member) {
	j.workers = append(j.workers, store.Worker{
		Key: s.key, ID: s.id, Generation: m.gen, Runtime: p.cfg.Runtime.Name, State: m.state.String(), Health: m.health.String(),
		Active: true, Cordoned: s.cordoned, Beat: p.storedTime(s.beat), BeatEvery: p.cfg.BeatEvery, Since: p.storedTime(m.since),
		Capabilities: capabilities(m),
	})
	if over := len(j.workers) - journalMax; over > 0 {
		j.workers = j.workers[over:]
	}
	j.flush(p)
}

// capabilities is what a worker's heartbeat reports.
func capabilities(m *member) json.RawMessage {
	raw, err := json.Marshal(map[string]any{"health": m.report})
	if err != nil {
		return nil
	}
	return raw
}

func (j *journal) transition(p *Pool, s *slot, m *member, e *lifecycle.Entry) {
	event := store.WorkerEvent{
		Key: s.key, Generation: m.gen, At: p.storedTime(time.UnixMilli(e.AtMillis)), From: e.From.String(), To: e.To.String(),
		Reason: e.Reason.String(), Lasted: e.In,
	}
	if e.Meta != nil {
		if raw, err := json.Marshal(e.Meta); err == nil {
			event.Metadata = raw
		}
	}
	j.events = append(j.events, event)
	j.healths = append(j.healths, m.health.String())
	if over := len(j.events) - journalMax; over > 0 {
		j.events, j.healths = j.events[over:], j.healths[over:]
	}
}

// flush writes what has gathered, beside the pool, unless a batch is under way.
func (j *journal) flush(p *Pool) {
	if j.busy || len(j.workers) == 0 && len(j.events) == 0 {
		return
	}
	j.busy = true
	batch := &saved{workers: j.workers, events: j.events, healths: j.healths}
	j.workers, j.events, j.healths = nil, nil, nil
	p.world.Beside(storeTimeout, func(ctx context.Context) func() {
		if len(batch.workers) > 0 {
			batch.err = p.cfg.Store.SaveWorkers(ctx, batch.workers)
		}
		if batch.err == nil && len(batch.events) > 0 {
			batch.err = p.cfg.Store.RecordTransitions(ctx, batch.events, batch.healths)
		}
		return func() { p.saved(batch) }
	})
}

// poolLogs are the messages that others can cause: who sends foreign messages, and a broker that takes none.
type poolLogs struct{ quarantined, unpublished actors.Repeated }

// firstWarns is the level of a failure: the first of a row is worth a warning.
func firstWarns(first bool) hclog.Level {
	if first {
		return hclog.Warn
	}
	return hclog.Debug
}

// written reports whether nothing waits to be written, after a last try where something does. A store that fails does
// not hold up the end.
func (j *journal) written(p *Pool) bool {
	if j.failed {
		return true
	}
	j.flush(p)
	return !j.busy
}

// saved keeps a batch that was not written for the next second, within the bound.
func (p *Pool) saved(m *saved) {
	j := &p.journal
	before := j.failed
	j.busy, j.failed = false, m.err != nil
	if m.err != nil {
		p.cfg.Logger.Log(firstWarns(!before), "worker states not stored, storing again", "error", m.err)
		if len(j.workers)+len(m.workers) <= journalMax {
			j.workers = append(m.workers, j.workers...)
		}
		if len(j.events)+len(m.events) <= journalMax {
			j.events, j.healths = append(m.events, j.events...), append(m.healths, j.healths...)
		}
		return
	}
	j.flush(p)
}
