package operate

import (
	"context"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/timeline"
	"github.com/troupe-run/troupe/store"
)

// Bounds of what a timeline reads.
const (
	timelineEvents   = 2000
	timelineJournal  = 2000 // conditions of the pool
	timelineBefore   = 200  // executions of its session
	timelineWorkers  = 8    // workers and nodes of its placements
	timelineEntries  = 200  // other entries of the journal, of each kind
	timelineMoves    = 1000 // transitions of each worker
	timelineGapsFrom = time.Hour
)

// recordedWithin is how long after an event it is in the journal, unless the store is away: what happens in a second is one entry,
// and entries are written once a second.
const recordedWithin = 2500 * time.Millisecond

// Timeline says where the time of an execution went.
func (q *executions) Timeline(ctx context.Context, id messages.ExecutionID) (timeline.Timeline, error) {
	if shut := q.cfg.Self.Gate(); shut != nil {
		return timeline.Timeline{}, shut
	}
	r := &timelineReads{store: q.cfg.Store, own: q.cfg.Incarnation, why: q.Why}
	err := r.read(ctx, id)
	if err != nil {
		return timeline.Timeline{}, found("execution", id, err)
	}
	return timeline.Of(&r.Record), nil
}

// timelineReads collects the record of one execution. Each read is bounded and goes by an index. After an error the others are left out.
type timelineReads struct {
	timeline.Record
	store Store
	own   messages.Incarnation
	why   func(context.Context, messages.ExecutionID) (view.Explanation, error)
	err   error
}

func (r *timelineReads) read(ctx context.Context, id messages.ExecutionID) error {
	if r.Execution, r.err = r.store.Get(ctx, id); r.err != nil {
		return r.err
	}
	r.Execution.Parameters, r.Execution.Result = nil, nil
	if s := r.Execution.Status; s == messages.Requested || s == messages.Scheduling {
		if x, err := r.why(ctx, id); err == nil { // else the last seconds are unknown
			r.Present = timeline.Present{Reason: x.Reason, Message: x.Message}
		}
	}
	r.Now = keep(r, func() (time.Time, error) { return r.store.Now(ctx) })
	r.Chain = keep(r, func() ([]messages.Execution, error) { return r.store.Chain(ctx, id) })
	r.Events = eventsOf(keep(r, func() ([]store.Event, error) { return r.store.Events(ctx, id) }))
	nodes := keep(r, func() ([]store.Node, error) { return r.store.ListNodes(ctx) })
	r.nodes(nodes)
	r.conditions(ctx)
	r.session(ctx)
	r.workers(ctx)
	r.servers(ctx)
	return r.err
}

// keep makes one read, unless one before it has failed.
func keep[T any](r *timelineReads, read func() (T, error)) (value T) {
	if r.err != nil {
		return value
	}
	value, r.err = read()
	return value
}

func eventsOf(events []store.Event) []timeline.Event {
	list := make([]timeline.Event, 0, len(events))
	for i := range events[:min(len(events), timelineEvents)] {
		v := &events[i]
		list = append(list, timeline.Event{
			At: v.At, Attempt: v.Attempt, Kind: v.Kind, To: v.To, Reason: v.Reason, By: v.By, Worker: messages.WorkerID(v.Worker),
			Incarnation: v.Incarnation, Generation: v.Generation, RunAt: v.RunAt, ScheduledAt: v.ScheduledAt, StartedAt: v.StartedAt,
		})
	}
	return list
}

// window is the time that is looked at.
func (r *timelineReads) window() (from, to time.Time) {
	to = r.Execution.FinishedAt
	if to.IsZero() {
		to = r.Now
	}
	return r.Execution.RequestedAt, to.Add(time.Microsecond)
}

// nodes learns the names of the nodes, and until when what each recorded is complete: up to its last renewal, but for what was not
// yet written then. One that stopped in order wrote all.
func (r *timelineReads) nodes(nodes []store.Node) {
	r.Names, r.Known = map[messages.Incarnation]string{}, map[messages.Incarnation]time.Time{}
	for i := range nodes {
		n := &nodes[i]
		r.Names[n.Incarnation] = n.Name
		switch {
		case n.Incarnation == r.own:
			r.Known[n.Incarnation] = r.Now.Add(-recordedWithin)
		case n.Ended == store.EndStopped:
			r.Known[n.Incarnation] = n.BeatAt
		default:
			r.Known[n.Incarnation] = n.BeatAt.Add(-recordedWithin)
		}
	}
}

// journal reads the entries about a subject in the window, up to a number, and returns whether there are more.
func (r *timelineReads) journal(ctx context.Context, q store.JournalQuery, most int) (list []messages.JournalEntry, more bool) {
	q.Limit = min(most, 1000)
	for {
		page := keep(r, func() (store.JournalPage, error) { return r.store.ReadJournal(ctx, q) })
		list = append(list, page.Entries...)
		if page.Next.IsZero() || r.err != nil {
			return list, false
		}
		if len(list) >= most {
			return list, true
		}
		q.After = page.Next
	}
}

// before reads the last entries about a subject before the window, oldest first.
func (r *timelineReads) before(ctx context.Context, kind messages.JournalKind, subject string, most int) []messages.JournalEntry {
	from, _ := r.window()
	q := store.JournalQuery{Kinds: []messages.JournalKind{kind}, Subject: subject, To: from, Newest: true, Limit: most}
	page := keep(r, func() (store.JournalPage, error) { return r.store.ReadJournal(ctx, q) })
	slices.Reverse(page.Entries)
	return page.Entries
}

// conditions reads what the routers recorded of the pool, and where entries are missing.
func (r *timelineReads) conditions(ctx context.Context) {
	const routersMax = 50
	from, to := r.window()
	q := store.JournalQuery{Kinds: []messages.JournalKind{messages.JournalPool}, Subject: r.Execution.Pool, From: from, To: to}
	within, more := r.journal(ctx, q, timelineJournal)
	r.Conditions = append(r.before(ctx, messages.JournalPool, r.Execution.Pool, routersMax), within...)
	if more {
		r.Read = within[len(within)-1].At
	}
	for _, kind := range []messages.JournalKind{messages.JournalPool, messages.JournalSession} {
		gaps, _ := r.journal(ctx, store.JournalQuery{
			Kinds: []messages.JournalKind{messages.JournalGap}, Subject: string(kind), From: from.Add(-timelineGapsFrom), To: to,
		}, timelineEntries)
		r.Gaps = append(r.Gaps, gaps...)
	}
}

// session reads what its session did before it.
func (r *timelineReads) session(ctx context.Context) {
	e := &r.Execution
	if e.Session == "" {
		return
	}
	page := keep(r, func() (store.Page, error) {
		return r.store.List(ctx, store.Filter{Session: e.Session, Pool: e.Pool, Before: e.Seq, Limit: timelineBefore})
	})
	r.Before = slices.DeleteFunc(page.Executions, func(p messages.Execution) bool {
		return !p.FinishedAt.IsZero() && !p.FinishedAt.After(e.RequestedAt)
	})
	from, to := r.window()
	subject := e.Pool + "/" + e.Session
	within, _ := r.journal(ctx, store.JournalQuery{Kinds: []messages.JournalKind{messages.JournalSession}, Subject: subject, From: from, To: to}, timelineEntries)
	r.Bindings = append(r.before(ctx, messages.JournalSession, subject, 1), within...)
}

// workers reads what became of its workers and their nodes.
func (r *timelineReads) workers(ctx context.Context) {
	from, to := r.window()
	var keys []messages.WorkerKey
	var nodes []messages.Incarnation
	for _, placed := range r.placed() {
		_, pool, slot, ok := placed.worker.Split()
		key := messages.WorkerKey{Incarnation: placed.inc, Pool: pool, Slot: slot}
		if !ok || placed.inc.IsZero() || slices.Contains(keys, key) || len(keys) == timelineWorkers {
			continue
		}
		keys = append(keys, key)
		moves := keep(r, func() ([]store.WorkerEvent, error) { return r.store.WorkerEvents(ctx, key, timelineMoves) })
		for i := range moves {
			if m := &moves[i]; m.At.Before(to) {
				r.Transitions = append(r.Transitions, timeline.Transition{
					Worker: placed.worker, Generation: m.Generation, At: m.At, From: m.From, To: m.To, Reason: m.Reason, Lasted: m.Lasted,
				})
			}
		}
		if !slices.Contains(nodes, placed.inc) {
			nodes = append(nodes, placed.inc)
			entries, _ := r.journal(ctx, store.JournalQuery{
				Kinds: []messages.JournalKind{messages.JournalNode}, Subject: placed.inc.String(), From: from, To: to,
			}, timelineEntries)
			r.Nodes = append(r.Nodes, entries...)
		}
	}
	slices.SortStableFunc(r.Transitions, func(a, b timeline.Transition) int { return a.At.Compare(b.At) })
}

// placement is a worker that it was placed on.
type placement struct {
	worker messages.WorkerID
	inc    messages.Incarnation
}

// placed lists the workers that it was placed on, the last one first.
func (r *timelineReads) placed() []placement {
	list := []placement{{r.Execution.WorkerID, r.Execution.Worker.Incarnation}}
	for i := range slices.Backward(r.Events) {
		list = append(list, placement{r.Events[i].Worker, r.Events[i].Incarnation})
	}
	return list
}

// servers reads when a server was not there for a router of its pool or the node of a worker.
func (r *timelineReads) servers(ctx context.Context) {
	from, to := r.window()
	concerned := map[messages.Incarnation]bool{}
	for _, p := range r.placed() {
		concerned[p.inc] = true
	}
	for i := range r.Conditions {
		concerned[r.Conditions[i].Incarnation] = true
	}
	for _, server := range []string{"store", "broker"} {
		within, _ := r.journal(ctx, store.JournalQuery{Kinds: []messages.JournalKind{messages.JournalServer}, Subject: server, From: from, To: to}, timelineEntries)
		all := append(r.before(ctx, messages.JournalServer, server, timelineWorkers), within...)
		r.Servers = append(r.Servers, slices.DeleteFunc(all, func(e messages.JournalEntry) bool { return !concerned[e.Incarnation] })...)
	}
}

// Journal returns a page of the journal.
func (q *executions) Journal(ctx context.Context, query store.JournalQuery) (store.JournalPage, error) {
	return q.cfg.Store.ReadJournal(ctx, query)
}
