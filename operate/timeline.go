package operate

import (
	"context"
	"slices"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/journal"
	"github.com/troupe-run/troupe/rules/timeline"
	"github.com/troupe-run/troupe/store"
)

// Bounds of what a timeline reads. Of what is bounded by a number, it reads the newest in the part that is asked for. Where there is
// more, the part begins where what was read does.
const (
	timelineEvents   = store.EventsMax
	timelineAround   = 2 * store.StaleWritesMax // events before and after the part: one of them ended a placement
	timelineJournal  = 2000                     // conditions of the pool
	timelineRouters  = 50                       // conditions before and after the part, of which each router has one
	timelineBefore   = 200                      // executions of its session
	timelineWorkers  = 8                        // workers and nodes of its placements
	timelineEntries  = 500                      // other entries of the journal, of each kind
	timelinePages    = 10                       // pages of the journal for one list
	timelineMoves    = 1000                     // transitions of each worker
	timelineChain    = 1000                     // executions of the chain that the store reads
	timelineGapsFrom = time.Hour
)

// recordedWithin is how long after an event it is in the journal, unless the store is away: what happens in a second is one entry,
// and entries are written once a second.
const recordedWithin = 2500 * time.Millisecond

// Timeline says where the time of one execution went, in a part of it.
func (q *executions) Timeline(ctx context.Context, id messages.ExecutionID, part timeline.Part) (timeline.Timeline, error) {
	if shut := q.cfg.Self.Gate(); shut != nil {
		return timeline.Timeline{}, shut
	}
	r := &timelineReads{store: q.cfg.Store, own: q.cfg.Incarnation, why: q.Why, part: part}
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

	part  timeline.Part
	since time.Time          // since when all of the part was read
	cuts  []timeline.LeftOut // what bounds kept out before that
}

func (r *timelineReads) read(ctx context.Context, id messages.ExecutionID) error {
	if r.Execution, r.err = r.store.Get(store.Bare(ctx), id); r.err != nil {
		return r.err
	}
	r.Execution.Parameters, r.Execution.Result = nil, nil
	if s := r.Execution.Status; s == messages.Requested || s == messages.Scheduling {
		if x, err := r.why(ctx, id); err == nil { // else the last seconds are unknown
			r.Present = timeline.Present{Reason: x.Reason, Message: x.Message}
		}
	}
	r.Now = keep(r, func() (time.Time, error) { return r.store.Now(ctx) })
	r.since = r.begin()
	chain := keep(r, func() ([]messages.Execution, error) { return r.store.Chain(ctx, id) })
	var left []timeline.LeftOut
	r.Chain, r.Retries, left = timeline.Links(chain, &r.Execution, r.part.Links, len(chain) >= timelineChain)
	r.events(ctx)
	nodes := keep(r, func() ([]store.Node, error) { return r.store.ListNodes(ctx) })
	r.nodes(nodes)
	r.conditions(ctx)
	r.session(ctx)
	r.workers(ctx)
	r.servers(ctx)
	r.finish(left)
	return r.err
}

// begin is when the part that is asked for begins.
func (r *timelineReads) begin() time.Time {
	if r.part.From.After(r.Execution.RequestedAt) {
		return r.part.From
	}
	return r.Execution.RequestedAt
}

// cut says that of something in the part only what happened after a time was read. The answer begins there.
func (r *timelineReads) cut(l timeline.LeftOut, reached time.Time) {
	if reached.IsZero() || r.err != nil {
		return
	}
	since := reached.Add(time.Microsecond) // what else happened in that moment may be missing
	if _, to := r.window(); !since.Before(to) {
		since = reached
	}
	if !since.After(r.since) { // of gaps, what lies before the part was read too
		return
	}
	l.To, r.since = since, since
	r.cuts = append(r.cuts, l)
}

// finish sets the part that was read, and says what is left of the one that was asked for.
func (r *timelineReads) finish(left []timeline.LeftOut) {
	begin := r.begin()
	r.To = r.part.To
	if r.since.After(r.Execution.RequestedAt) {
		r.From = r.since
	}
	for _, l := range r.cuts {
		l.AtLeast = l.AtLeast || l.N == 0 || l.To.Before(r.since) // what was read of it before that is not in the answer either
		l.From, l.To, l.Next = begin, r.since, partQuery(begin, r.since)
		left = append(left, l)
	}
	r.LeftOut = append(left, r.LeftOut...)
}

// partQuery is the query for a part of a timeline.
func partQuery(from, to time.Time) string {
	return "from=" + from.UTC().Format(time.RFC3339Nano) + "&to=" + to.UTC().Format(time.RFC3339Nano)
}

// events reads the events in the part, and those around it that ended its placements.
func (r *timelineReads) events(ctx context.Context) {
	between := func(q store.EventQuery) store.EventPage {
		q.Execution = r.Execution.ID
		return keep(r, func() (store.EventPage, error) { return r.store.EventsBetween(ctx, q) })
	}
	within := between(store.EventQuery{From: r.part.From, To: r.part.To, Newest: true, Limit: timelineEvents})
	list, first := within.Events, r.part.From
	switch full := len(list) >= timelineEvents; {
	case full && (within.Left > 0 || within.More):
		first = list[0].At
		r.cut(timeline.LeftOut{What: timeline.LeftEvents, N: within.Left, AtLeast: within.More}, first)
	case within.More:
		r.LeftOut = append(r.LeftOut, timeline.LeftOut{What: timeline.LeftEvents, AtLeast: true})
	}
	if first.After(r.Execution.RequestedAt) {
		before := between(store.EventQuery{To: first, Newest: true, Limit: timelineAround})
		list, r.EventsBegin = slices.Concat(before.Events, list), before.Left > 0 || before.More
	}
	if !r.part.To.IsZero() {
		after := between(store.EventQuery{From: r.part.To, Limit: timelineAround})
		list = append(list, after.Events...)
		if after.Left > 0 || after.More { // whether its last run was lost, the newest say
			last := between(store.EventQuery{From: after.Events[len(after.Events)-1].At.Add(time.Microsecond), Newest: true, Limit: timelineAround})
			list = append(list, last.Events...)
		}
	}
	r.Events = eventsOf(list)
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
	for i := range events {
		v := &events[i]
		list = append(list, timeline.Event{
			At: v.At, Attempt: v.Attempt, Kind: v.Kind, To: v.To, Reason: v.Reason, By: v.By, Worker: messages.WorkerID(v.Worker),
			Incarnation: v.Incarnation, Generation: v.Generation, RunAt: v.RunAt, ScheduledAt: v.ScheduledAt, StartedAt: v.StartedAt,
		})
	}
	return list
}

// window is the time that is looked at: since when all was read, up to the end of the part.
func (r *timelineReads) window() (from, to time.Time) {
	to = r.Execution.FinishedAt
	if to.IsZero() {
		to = r.Now
	}
	to = to.Add(time.Microsecond)
	if !r.part.To.IsZero() && r.part.To.Before(to) {
		to = r.part.To
	}
	return r.since, to
}

// nodes learns the names of the nodes, and until when what each recorded is complete: up to its last renewal, but for what was not
// yet written then. One that stopped in order wrote all.
func (r *timelineReads) nodes(nodes []store.Node) {
	r.Names, r.Known, r.Beats = map[messages.Incarnation]string{}, map[messages.Incarnation]time.Time{}, map[messages.Incarnation]time.Time{}
	for i := range nodes {
		n := &nodes[i]
		r.Names[n.Incarnation], r.Beats[n.Incarnation] = n.Name, n.BeatAt
		if n.Incarnation == r.own {
			r.Beats[n.Incarnation] = r.Now
		}
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

// newest reads the newest entries of the journal that a query selects, up to a number, and returns them oldest first. Reached is the
// time after which they are all; zero: they are all.
func (r *timelineReads) newest(ctx context.Context, q store.JournalQuery, most int) (list []messages.JournalEntry, reached time.Time) {
	q.Newest, q.Limit = true, min(most+1, 1000)
	for range timelinePages {
		page := keep(r, func() (store.JournalPage, error) { return r.store.ReadJournal(ctx, q) })
		list = append(list, page.Entries...)
		q.After, reached = page.Next, page.Next.At
		if page.Next.IsZero() || len(list) > most || r.err != nil {
			break
		}
	}
	if len(list) > most {
		list = list[:most]
		reached = list[most-1].At
	}
	slices.Reverse(list)
	return list, reached
}

// about asks for the entries of a kind about a subject; what, if there is any: only those.
func about(kind messages.JournalKind, subject string, what ...string) store.JournalQuery {
	return store.JournalQuery{Kinds: []messages.JournalKind{kind}, Subjects: []string{subject}, Whats: what}
}

// before reads the last entries before the window, oldest first.
func (r *timelineReads) before(ctx context.Context, q store.JournalQuery, most int) []messages.JournalEntry {
	q.To, _ = r.window()
	q.Newest, q.Limit = true, most
	page := keep(r, func() (store.JournalPage, error) { return r.store.ReadJournal(ctx, q) })
	slices.Reverse(page.Entries)
	return page.Entries
}

// after reads the first entries after the window, where that ends before the execution does: they end what held before.
func (r *timelineReads) after(ctx context.Context, q store.JournalQuery, most int) []messages.JournalEntry {
	if r.part.To.IsZero() {
		return nil
	}
	q.From, q.Limit = r.part.To, most
	return keep(r, func() (store.JournalPage, error) { return r.store.ReadJournal(ctx, q) }).Entries
}

// entries reads the entries that are asked for: in the window, and those around it.
func (r *timelineReads) entries(ctx context.Context, of store.JournalQuery, what string, most, around int) []messages.JournalEntry {
	q := of
	q.From, q.To = r.window()
	within, reached := r.newest(ctx, q, most)
	r.cut(timeline.LeftOut{What: what}, reached)
	from, _ := r.window()
	within = slices.DeleteFunc(within, func(e messages.JournalEntry) bool { return e.At.Before(from) })
	if around == 0 {
		return within
	}
	return slices.Concat(r.before(ctx, of, around), within, r.after(ctx, of, around))
}

// conditions reads what the routers recorded of the pool, and where entries are missing.
func (r *timelineReads) conditions(ctx context.Context) {
	r.Conditions = r.entries(ctx, about(messages.JournalPool, r.Execution.Pool), timeline.LeftConditions, timelineJournal, timelineRouters)
	for _, kind := range []messages.JournalKind{messages.JournalPool, messages.JournalSession} {
		from, to := r.window()
		gaps, reached := r.newest(ctx, store.JournalQuery{
			Kinds: []messages.JournalKind{messages.JournalGap}, Subjects: []string{string(kind)}, From: from.Add(-timelineGapsFrom), To: to,
		}, timelineEntries)
		r.cut(timeline.LeftOut{What: timeline.LeftGaps}, reached)
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
		return r.store.List(ctx, store.Filter{Sessions: []string{e.Session}, Pools: []string{e.Pool}, Before: e.Seq, Limit: timelineBefore})
	})
	n := len(page.Executions)
	r.Before = slices.DeleteFunc(page.Executions, func(p messages.Execution) bool {
		return !p.FinishedAt.IsZero() && !p.FinishedAt.After(e.RequestedAt)
	})
	if page.Next != 0 && len(r.Before) == n {
		r.LeftOut = append(r.LeftOut, timeline.LeftOut{What: timeline.LeftBefore, AtLeast: true})
	}
	r.Bindings = r.entries(ctx, about(messages.JournalSession, e.Pool+"/"+e.Session, journal.SessionBound, journal.SessionUnbound), timeline.LeftSession, timelineEntries, 1)
}

// workers reads what became of its workers and their nodes.
func (r *timelineReads) workers(ctx context.Context) {
	var keys, others []messages.WorkerKey
	var nodes []messages.Incarnation
	var last time.Time // of the placements on the others
	for _, placed := range r.placed() {
		_, pool, slot, ok := placed.worker.Split()
		key := messages.WorkerKey{Incarnation: placed.inc, Pool: pool, Slot: slot}
		if !ok || placed.inc.IsZero() || slices.Contains(keys, key) || slices.Contains(others, key) {
			continue
		}
		if len(keys) == timelineWorkers {
			if others = append(others, key); last.IsZero() {
				last = placed.to
			}
			continue
		}
		keys = append(keys, key)
		r.transitions(ctx, placed.worker, key)
		if !slices.Contains(nodes, placed.inc) {
			nodes = append(nodes, placed.inc)
			r.Nodes = append(r.Nodes, r.entries(ctx, about(messages.JournalNode, placed.inc.String()), timeline.LeftNode, timelineEntries, 1)...)
		}
	}
	if from, _ := r.window(); len(others) > 0 && last.After(from) {
		end := last.Add(time.Microsecond)
		r.LeftOut = append(r.LeftOut, timeline.LeftOut{What: timeline.LeftWorkers, N: len(others), From: from, To: end, Next: partQuery(from, end)})
	}
	slices.SortStableFunc(r.Transitions, func(a, b timeline.Transition) int { return a.At.Compare(b.At) })
}

// transitions reads those of one worker, the newest.
func (r *timelineReads) transitions(ctx context.Context, id messages.WorkerID, key messages.WorkerKey) {
	from, to := r.window()
	moves := keep(r, func() ([]store.WorkerEvent, error) { return r.store.WorkerEvents(ctx, key, timelineMoves) })
	for i := range moves {
		if m := &moves[i]; m.At.Before(to) {
			r.Transitions = append(r.Transitions, timeline.Transition{
				Worker: id, Incarnation: key.Incarnation, Generation: m.Generation, At: m.At, From: m.From, To: m.To, Reason: m.Reason, Lasted: m.Lasted,
			})
		}
	}
	if n := len(moves); n == timelineMoves && moves[n-1].At.Add(-moves[n-1].Lasted).After(from) {
		r.LeftOut = append(r.LeftOut, timeline.LeftOut{What: timeline.LeftTransitions, Of: string(id), AtLeast: true, From: from, To: moves[n-1].At})
	}
}

// placement is a worker that it was placed on, until when.
type placement struct {
	worker messages.WorkerID
	inc    messages.Incarnation
	to     time.Time
}

// placed lists the workers that it was placed on in the window, the last one first.
func (r *timelineReads) placed() (list []placement) {
	from, to := r.window()
	add := func(worker messages.WorkerID, inc messages.Incarnation, begin, end time.Time) {
		if begin.Before(to) && !end.Before(from) {
			list = append(list, placement{worker, inc, end})
		}
	}
	e := &r.Execution
	begin, end := e.ScheduledAt, e.FinishedAt
	if begin.IsZero() {
		begin = e.StartedAt
	}
	if end.IsZero() {
		end = r.Now
	}
	add(e.WorkerID, e.Worker.Incarnation, begin, end)
	for i := range slices.Backward(r.Events) {
		v := &r.Events[i]
		if begin = v.ScheduledAt; begin.IsZero() {
			begin = v.At
		}
		add(v.Worker, v.Incarnation, begin, v.At)
	}
	return list
}

// servers reads when a server was not there for a router of its pool or the node of a worker.
func (r *timelineReads) servers(ctx context.Context) {
	concerned := map[messages.Incarnation]bool{}
	for _, p := range r.placed() {
		concerned[p.inc] = true
	}
	for i := range r.Conditions {
		concerned[r.Conditions[i].Incarnation] = true
	}
	for _, server := range []string{"store", "broker"} {
		all := r.entries(ctx, about(messages.JournalServer, server), timeline.LeftServers, timelineEntries, timelineWorkers)
		r.Servers = append(r.Servers, slices.DeleteFunc(all, func(e messages.JournalEntry) bool { return !concerned[e.Incarnation] })...)
	}
}
