package operate

import (
	"context"
	"errors"
	"sync"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/messages/wire"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/store"
)

// Bounds of the runs that a node keeps in memory.
const (
	RunsMax     = 64   // of a worker; the oldest make room
	runsWorkers = 4096 // workers; the runs of further ones are read from the store
)

// Runs are the last runs of this node's workers. The zero value can be used.
type Runs struct {
	mu sync.Mutex
	of map[messages.WorkerID]*lastRuns
}

// lastRuns are the last runs of a worker. Once full, next is the oldest.
type lastRuns struct {
	list []view.Run
	next int
}

// Add keeps an execution that has ended, if a worker ran it.
func (r *Runs) Add(e *messages.Execution) {
	if e.WorkerID == "" || e.StartedAt.IsZero() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.of[e.WorkerID]
	if last == nil {
		if len(r.of) >= runsWorkers {
			return
		}
		if r.of == nil {
			r.of = map[messages.WorkerID]*lastRuns{}
		}
		last = &lastRuns{}
		r.of[e.WorkerID] = last
	}
	if len(last.list) < RunsMax {
		last.list = append(last.list, runOf(e))
		return
	}
	last.list[last.next] = runOf(e)
	last.next = (last.next + 1) % RunsMax
}

// Of returns the last runs of a worker, the newest first.
func (r *Runs) Of(id messages.WorkerID) []view.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.of[id]
	if last == nil {
		return nil
	}
	n := len(last.list)
	list := make([]view.Run, n)
	for i := range list {
		list[i] = last.list[(last.next+n-1-i)%n]
	}
	return list
}

// Find returns the last run of an execution that is remembered, and its worker.
func (r *Runs) Find(id messages.ExecutionID) (run view.Run, on messages.WorkerID, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for worker, last := range r.of {
		for i := range last.list {
			if v := &last.list[i]; v.Execution == id && (!found || v.Attempt > run.Attempt) {
				run, on, found = *v, worker, true
			}
		}
	}
	return run, on, found
}

func runOf(e *messages.Execution) view.Run {
	run := view.Run{
		Execution: e.ID, Action: e.Action, Session: e.Session, Status: e.Status, Attempt: e.Attempt, StartedAt: e.StartedAt, FinishedAt: e.FinishedAt,
	}
	if e.Error != nil {
		run.Code = e.Error.Code
	}
	return run
}

// Runs returns the last runs of a worker, the newest first: as its node remembers them, or, where it remembers none or does not answer,
// as one page of a list finds them, which looks at a bounded number of executions.
func (s *steering) Runs(ctx context.Context, id messages.WorkerID) (view.WorkerRuns, error) {
	v := view.WorkerRuns{Worker: id, Source: view.RunsMemory}
	var err error
	if v.Runs, err = s.remembered(ctx, id); err != nil {
		return v, err
	}
	if len(v.Runs) > 0 {
		return v, nil
	}
	if shut := s.cfg.Self.Gate(); shut != nil {
		return v, shut
	}
	page, err := s.cfg.Store.List(ctx, store.Filter{Workers: []string{string(id)}, Limit: RunsMax})
	if err != nil {
		return v, err
	}
	v.Source, v.Runs, v.Unsearched = view.RunsList, []view.Run{}, page.More == store.MoreUnsearched
	for i := range page.Executions {
		if e := &page.Executions[i]; !e.StartedAt.IsZero() {
			v.Runs = append(v.Runs, runOf(e))
		}
	}
	return v, nil
}

// remembered are the runs that a worker's node has in memory; none: it has none, is of an older release, or does not answer.
func (s *steering) remembered(ctx context.Context, id messages.WorkerID) ([]view.Run, error) {
	t, err := s.worker(ctx, id)
	var p *messages.Problem
	switch {
	case errors.As(err, &p): // its node is gone; the store may still have its runs
		if _, _, _, ok := id.Split(); !ok {
			return nil, err
		}
		return nil, nil
	case err != nil:
		return nil, err
	case t.own:
		return s.cfg.Runs.Of(id), nil
	}
	reply, err := s.calls.ask(ctx, &t.node, steerTime, messages.Placement{}, wire.ProbeWorker{Pool: t.pool, Slot: t.slot, Runs: true})
	if err != nil {
		return nil, context.Cause(ctx)
	}
	v, _, err := views[view.WorkerRuns](&t.node, reply)
	return v.Runs, err
}
