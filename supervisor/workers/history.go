package workers

import (
	"context"
	"encoding/json"
	"time"

	"github.com/troupe-run/troupe/rules/lifecycle"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor/part"
)

// historyMax bounds the worker rows and events that wait for a store that does not answer; older events go first. What
// is lost is history, never work.
const historyMax = 20_000

// history writes the workers' rows and transitions behind the pool, one batch at a time.
type history struct {
	workers []store.Worker
	events  []store.WorkerEvent
	healths []string
	busy    bool
	failed  bool // the last batch was not written
}

// saved says that a batch of the history has been written, or was not.
type saved struct {
	workers []store.Worker
	events  []store.WorkerEvent
	healths []string
	err     error
}

// ready notes that a generation has become ready: its row is made anew, with its first heartbeat.
func (h *history) ready(w *Workers, s *slot, m *member) {
	h.workers = append(h.workers, store.Worker{
		Key: w.key(s), ID: s.id, Generation: m.gen, Runtime: w.Config.Runtime.Name, State: m.state.String(), Health: m.health.String(),
		Active: true, Cordoned: s.cordoned, Beat: w.StoredTime(s.beat), BeatEvery: w.Config.BeatEvery, Since: w.StoredTime(m.since),
		Capabilities: capabilities(m),
	})
	if over := len(h.workers) - historyMax; over > 0 {
		h.workers = h.workers[over:]
	}
	h.flush(w)
}

// capabilities is what a worker's heartbeat reports.
func capabilities(m *member) json.RawMessage {
	raw, err := json.Marshal(map[string]any{"health": m.report})
	if err != nil {
		return nil
	}
	return raw
}

// transition notes a change. The first one of a worker that replaces a lost one, or is ready after starts that failed, says so: by that the
// journal has it. Of starts that fail one after the other few are noted, each with how many it stands for. Of crashes soon after a start all are
// noted, and the journal tells few.
func (h *history) transition(w *Workers, s *slot, m *member, e *lifecycle.Entry) {
	event := store.WorkerEvent{
		Key: w.key(s), Generation: m.gen, At: w.StoredTime(time.UnixMilli(e.AtMillis)), From: e.From.String(), To: e.To.String(),
		Reason: e.Reason.String(), Lasted: e.In,
	}
	meta := e.Meta
	switch had := s.had(); {
	case e.Reason == lifecycle.InitComplete && (!had.lostAt.IsZero() && !had.crashes.Quiet() || had.starts.Any()):
		meta = &lifecycle.Metadata{Reason: had.starts.After(had.lastFailure)}
	case e.StartFailed():
		n, tell := s.has().starts.Failed(w.World.Now())
		if !tell {
			return
		}
		failed := with(meta)
		failed.Starts = n
		meta = &failed
	case e.CrashedAtOnce(m.first):
		n, tell := s.has().crashes.Ended(w.World.Now(), true)
		if !tell {
			event.Reason = lifecycle.ErrorAgain
			break
		}
		crashed := with(meta)
		crashed.Crashes = n
		meta = &crashed
	case e.To == lifecycle.Terminating && s.rare != nil:
		s.rare.crashes.Ended(w.World.Now(), false)
	}
	if meta != nil {
		if raw, err := json.Marshal(meta); err == nil {
			event.Metadata = raw
		}
	}
	h.events = append(h.events, event)
	h.healths = append(h.healths, m.health.String())
	if over := len(h.events) - historyMax; over > 0 {
		h.events, h.healths = h.events[over:], h.healths[over:]
	}
}

// with is a copy of what is known of a transition, to be added to.
func with(meta *lifecycle.Metadata) lifecycle.Metadata {
	if meta == nil {
		return lifecycle.Metadata{}
	}
	return *meta
}

// flush writes what has gathered, beside the pool, unless a batch is under way.
func (h *history) flush(w *Workers) {
	if h.busy || len(h.workers) == 0 && len(h.events) == 0 {
		return
	}
	h.busy = true
	batch := &saved{workers: h.workers, events: h.events, healths: h.healths}
	h.workers, h.events, h.healths = nil, nil, nil
	w.World.Beside(part.StoreTimeout, func(ctx context.Context) func() {
		if len(batch.workers) > 0 {
			batch.err = w.Config.Store.SaveWorkers(ctx, batch.workers)
		}
		if batch.err == nil && len(batch.events) > 0 {
			batch.err = w.Config.Store.RecordTransitions(ctx, batch.events, batch.healths)
		}
		return func() { h.saved(w, batch) }
	})
}

// Written reports whether nothing of the workers' history waits to be written, after a last try where something does. A store that
// fails does not hold up the end.
func (w *Workers) Written() bool {
	if w.history.failed {
		return true
	}
	w.history.flush(w)
	return !w.history.busy
}

// saved keeps a batch that was not written for the next second, within the bound.
func (h *history) saved(w *Workers, m *saved) {
	before := h.failed
	h.busy, h.failed = false, m.err != nil
	if m.err != nil {
		w.Config.Logger.Log(part.FirstWarns(!before), "worker states not stored, storing again", "error", m.err)
		if len(h.workers)+len(m.workers) <= historyMax {
			h.workers = append(m.workers, h.workers...)
		}
		if len(h.events)+len(m.events) <= historyMax {
			h.events, h.healths = append(m.events, h.events...), append(m.healths, h.healths...)
		}
		return
	}
	h.flush(w)
}
