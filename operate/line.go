package operate

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/rules/timeline"
	"github.com/troupe-run/troupe/store"
)

// Bounds of looking for what was before an execution.
const (
	lineWalk = store.ListWalk        // executions that are looked at, those that were requested last
	lineTime = 60 * time.Millisecond // of looking
)

// LineAt says where an execution stood in line at a time of the past: how many others of its pool, or of its session, were before it. Which
// ones, the rows say. It looks at those that had been requested by then, the last ones first.
func (q *executions) LineAt(ctx context.Context, id messages.ExecutionID, at time.Time) (view.PastLine, error) {
	at = at.Truncate(time.Microsecond)
	t, err := q.Timeline(ctx, id, timeline.Part{From: at, To: at.Add(time.Microsecond)})
	if err != nil {
		return view.PastLine{}, err
	}
	v := view.PastLine{Execution: id, At: at}
	if len(t.Wait) == 0 {
		return v, nil
	}
	v.Cause, v.Evidence = t.Wait[0].Cause, t.Wait[0].Evidence
	line := timeline.Line{At: at, Which: timeline.LineOf(v.Cause)}
	if line.Which == "" {
		return v, nil
	}
	e, err := q.cfg.Store.Get(store.Bare(ctx), id)
	if err != nil {
		return v, found("execution", id, err)
	}
	line.Of = &e
	f := store.Filter{Pools: []string{e.Pool}, To: at.Add(time.Microsecond), Limit: listPage}
	if line.Which == roster.SessionLine {
		f.Sessions = []string{e.Session}
	}
	reached, err := walk(ctx, q.cfg.Store, f, lineWalk, lineTime, line.Look)
	if err != nil {
		return v, err
	}
	v.Line = &view.Line{Ahead: line.Ahead, AtLeast: line.Unsure || reached.More != store.MoreEnd || at.Before(q.KeptFrom()), Of: line.Which}
	if reached.More != store.MoreEnd {
		v.Since = reached.Searched.At
	}
	return v, nil
}
