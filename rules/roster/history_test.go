package roster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
)

// Over random histories the roster decides as the model does, keeps its safety (mayPlace, check), and in the end, when
// all is well again, every execution has ended.
func TestHistories(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for i := range rapid.IntRange(0, 3).Draw(t, "workers at first") {
			w.seen(WorkerSeen{Worker: slotKey(i), Generation: 1, Direct: rapid.Bool().Draw(t, "direct"), Accepts: true, Active: true, Grade: health.Healthy, BeatAt: w.now})
		}
		t.Repeat(map[string]func(*rapid.T){
			"submit":       w.submit,
			"submit2":      w.submit,
			"offer":        w.offer,
			"answer offer": w.answerAccept,
			"answer load":  w.answerLoad,
			"answer place": w.answerPlace,
			"answer send":  w.answerPublish,
			"answer back":  w.answerTakeBack,
			"answer ask":   w.answerReload,
			"read session": w.readSession,
			"tell session": w.tellSession,
			"doubt":        w.doubt,
			"claim":        w.claim,
			"claim direct": w.claimDirect,
			"end":          w.end,
			"worker":       w.changeWorker,
			"gone":         w.loseWorker,
			"cancel":       w.cancel,
			"store":        w.outage,
			"time":         w.pass,
		})
		w.finish()
	})
}

func (w *world) seen(e WorkerSeen) {
	e.ID = messages.WorkerID("n/p/" + slotName(e.Worker))
	truth := e
	if old := w.workers[e.Worker]; old != nil && old.Generation == e.Generation && old.BeatAt.After(e.BeatAt) {
		truth.BeatAt = old.BeatAt // heartbeats do not go back
	}
	w.workers[e.Worker] = &truth
	w.step(e)
}

func (w *world) submit(t *rapid.T) {
	var arrived []messages.Candidate
	defer func() {
		// Those that cannot be handed over are found with the next look at the store.
		if len(arrived) > 0 && !w.r.rest && rapid.Bool().Draw(t, "arrived") {
			w.step(Arrived{Candidates: arrived})
			return
		}
		w.step(Wake{})
	}()
	for range rapid.IntRange(1, 3).Draw(t, "how many") {
		w.names++
		x := &worldExec{status: messages.Requested}
		x.c = messages.Candidate{ID: idOf(fmt.Sprintf("e%d", w.names)), Seq: int64(w.names),
			Priority: messages.Priority(rapid.IntRange(4, 6).Draw(t, "priority"))}
		if s := rapid.SampledFrom([]string{"", "x", "y", "z"}).Draw(t, "session"); s != "" {
			x.c.Session = s
			x.c.Affinity = rapid.SampledFrom([]messages.Affinity{"", messages.AffinityHint, messages.AffinityStrict, messages.AffinityStrictFail}).Draw(t, "mode")
		}
		if rapid.IntRange(0, 3).Draw(t, "waits") == 0 {
			x.c.WaitForWorker, x.c.WorkerDeadline = true, w.now.Add(time.Minute)
		}
		if rapid.IntRange(0, 3).Draw(t, "avoids") == 0 {
			x.c.Avoid = "n/p/w0"
		}
		w.execs = append(w.execs, x)
		if x.c.Session == "" && x.c.Avoid == "" {
			arrived = append(arrived, x.c)
		}
	}
}

// offer offers executions before they are stored; those that are not accepted are stored at once.
func (w *world) offer(t *rapid.T) {
	var e Offered
	for range rapid.IntRange(1, 3).Draw(t, "how many") {
		w.names++
		x := &worldExec{status: messages.Requested, unstored: true}
		x.c = messages.Candidate{ID: idOf(fmt.Sprintf("e%d", w.names)), Priority: messages.Priority(rapid.IntRange(4, 6).Draw(t, "priority"))}
		e.Candidates = append(e.Candidates, x.c)
		x.c.Seq = int64(w.names)
		w.execs = append(w.execs, x)
	}
	openings, accepted := w.r.Openings(), 0
	w.step(e)
	for _, c := range e.Candidates {
		if w.r.flights[c.ID] == nil {
			w.exec(c.ID).unstored = false
		} else {
			accepted++
		}
	}
	require.LessOrEqual(t, accepted, openings, "as many as said, but for a worker that aged meanwhile")
	w.step(Wake{})
}

func (w *world) answerAccept(t *rapid.T) {
	a := take(t, &w.accepts)
	switch rapid.IntRange(0, 9).Draw(t, "what came of it") {
	case 0: // it was not stored
		w.exec(a.ID).status = messages.Cancelled
		w.step(Placed{ID: a.ID})
	case 1: // it was stored without its placement
		w.exec(a.ID).unstored = false
		w.step(Placed{ID: a.ID})
	default:
		w.accepted(a, rapid.IntRange(0, 9).Draw(t, "unknown") == 0)
	}
}

func (w *world) accepted(a Assignment, unknown bool) {
	x := w.exec(a.ID)
	x.unstored = false
	if a.Generation == 0 {
		w.placed(a, unknown, false)
		return
	}
	x.status, x.worker, x.c.Attempt = messages.Running, a.Worker, a.Attempt+1
	w.step(Placed{ID: a.ID, Attempt: a.Attempt + 1, OK: !unknown})
	if seen := w.workers[a.Worker]; seen != nil && seen.Generation == a.Generation && !unknown {
		w.step(Claimed{Placement: messages.Placement{Execution: a.ID, Attempt: a.Attempt + 1}, Worker: a.Worker})
		return
	}
	w.ended(x, 0, false, false) // it is given back
}

func (w *world) answerLoad(t *rapid.T) {
	if len(w.loads) == 0 {
		t.Skip("no load")
	}
	e := w.loads[0]
	w.loads = nil
	if rapid.IntRange(0, 19).Draw(t, "store away") == 0 {
		e = Loaded{Failed: true}
	}
	w.step(e)
}

// take removes one of the open answers.
func take[T any](t *rapid.T, from *[]T) T {
	if len(*from) == 0 {
		t.Skip("none open")
	}
	i := rapid.IntRange(0, len(*from)-1).Draw(t, "which")
	v := (*from)[i]
	*from = slices.Delete(*from, i, i+1)
	return v
}

func (w *world) answerPlace(t *rapid.T) {
	a := take(t, &w.places)
	w.placed(a, rapid.IntRange(0, 9).Draw(t, "unknown") == 0, rapid.IntRange(0, 9).Draw(t, "early") == 0)
}

// placed carries a placement out; unknown: it came about, and the answer says that it did not.
func (w *world) placed(a Assignment, unknown, lost bool) {
	if lost {
		w.step(Placed{ID: a.ID})
		return
	}
	ok, conflict := w.store(a)
	if ok && unknown {
		w.exec(a.ID).sent = false
		ok = false
	}
	w.step(Placed{ID: a.ID, Attempt: a.Attempt + 1, OK: ok, SessionConflict: conflict, ClaimBy: w.now.Add(15 * time.Second)})
}

func (w *world) answerPublish(t *rapid.T) {
	w.published(take(t, &w.publishes), rapid.IntRange(0, 9).Draw(t, "returned") > 0)
}

func (w *world) published(e Publish, ok bool) {
	for _, p := range e.Placements {
		if x := w.exec(p.Execution); ok && e.Direct && x.c.Attempt+1 == p.Attempt {
			x.handed = append(x.handed, e.Worker)
		} else if ok && x.c.Attempt == p.Attempt && x.status == messages.Scheduled {
			x.sent = true
		}
	}
	w.step(Published{Placements: e.Placements, OK: ok})
}

func (w *world) answerTakeBack(t *rapid.T) { w.takenBack(take(t, &w.backs)) }

func (w *world) takenBack(e TakeBack) {
	x := w.exec(e.Placement.Execution)
	if x.c.Attempt+1 == e.Placement.Attempt && x.status != messages.Running {
		if x.status == messages.Requested {
			x.c.Attempt, x.runAt, x.handed = e.Placement.Attempt, w.now.Add(e.Delay), nil
			x.c.TakeBacks++
		}
		w.step(Released{Placement: e.Placement})
		return
	}
	if x.c.Attempt != e.Placement.Attempt || x.status == messages.Running {
		return
	}
	if x.status == messages.Scheduled {
		x.status, x.runAt = messages.Requested, w.now.Add(e.Delay)
		x.c.TakeBacks++
	}
	w.step(Released{Placement: e.Placement})
}

func (w *world) answerReload(t *rapid.T) { w.moved(take(t, &w.reloads)) }

func (w *world) moved(name string) {
	e := w.word(name)
	e.Asked = true
	w.step(e)
}

// word is what the store has of a session.
func (w *world) word(name string) SessionMoved {
	e := SessionMoved{Session: name, TouchedAt: w.now}
	if s := w.sessions[name]; s != nil {
		e.Worker, e.Epoch, e.StartedEpoch, e.FinishedEpoch = s.worker, s.epoch, s.started, s.finished
	}
	return e
}

// readSession reads what the store has of a session, for an answer that nobody waits for and that comes late.
func (w *world) readSession(t *rapid.T) {
	name := rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "session")
	if w.sessions[name] == nil || len(w.words) > 3 {
		t.Skip("nothing to read")
	}
	w.words = append(w.words, w.word(name))
}

func (w *world) doubt(t *rapid.T) {
	w.step(Doubted{Session: rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "session")})
}

// tellSession tells late what was read. A binding that has ended since, under the same epoch, is left to the claim, which asks
// for it.
func (w *world) tellSession(t *rapid.T) {
	e := take(t, &w.words)
	stands := w.sessions[e.Session]
	known, _ := w.r.table.Session(e.Session)
	if !e.Worker.IsZero() && (stands.epoch == e.Epoch && stands.worker.IsZero() || known.Epoch == e.Epoch && known.Worker.IsZero()) {
		t.Skip("its binding has ended")
	}
	w.step(e)
}

// in lists the executions that stand so.
func (w *world) in(keep func(*worldExec) bool) (all []*worldExec) {
	for _, x := range w.execs {
		if keep(x) {
			all = append(all, x)
		}
	}
	return all
}

func (w *world) claimable() []*worldExec {
	return w.in(func(x *worldExec) bool {
		busy := slices.ContainsFunc(w.execs, func(o *worldExec) bool {
			return o.status == messages.Running && o.worker == x.worker
		})
		return x.status == messages.Scheduled && x.sent && !busy && w.workers[x.worker] != nil
	})
}

func (w *world) running() []*worldExec {
	return w.in(func(x *worldExec) bool { return x.status == messages.Running })
}

func (w *world) claim(t *rapid.T) {
	all := w.claimable()
	w.claimed(take(t, &all))
}

// claimDirect has a worker claim what it was handed directly, or one that the router before this one handed it to. What is not
// requested any more, or not with this attempt, it lets go.
func (w *world) claimDirect(t *rapid.T) {
	all := w.in(func(x *worldExec) bool { return len(x.handed) > 0 })
	x := take(t, &all)
	by := take(t, &x.handed)
	if other := slotKey(rapid.IntRange(0, 3).Draw(t, "slot")); rapid.IntRange(0, 9).Draw(t, "another worker") == 0 {
		if w.workers[other] != nil && x.status == messages.Requested && other != by {
			x.handed = append(x.handed, by)
			by = other
		}
	}
	w.answeredDirect(x, by)
}

func (w *world) answeredDirect(x *worldExec, by messages.WorkerKey) {
	pl := messages.Placement{Execution: x.c.ID, Attempt: x.c.Attempt + 1}
	if x.status != messages.Requested || w.workers[by] == nil {
		if x.status == messages.Running {
			pl.Attempt--
		}
		w.step(Released{Placement: pl, Worker: by})
		return
	}
	x.c.Attempt, x.worker = pl.Attempt, by
	w.claimed(x)
}

func (w *world) claimed(x *worldExec) {
	x.status = messages.Running
	x.c.TakeBacks = 0
	if s := w.sessions[x.c.Session]; s != nil && !x.miss && s.started == 0 {
		s.started = x.epoch
	}
	w.step(Claimed{Placement: messages.Placement{Execution: x.c.ID, Attempt: x.c.Attempt}, Worker: x.worker})
}

func (w *world) end(t *rapid.T) {
	all := w.running()
	x := take(t, &all)
	took := rapid.SampledFrom([]time.Duration{time.Microsecond, 3 * time.Millisecond, 10 * time.Second}).Draw(t, "took")
	w.unseen = rapid.IntRange(0, 9).Draw(t, "unseen") == 0
	w.ended(x, took, rapid.IntRange(0, 4).Draw(t, "lost") > 0, rapid.Bool().Draw(t, "restored"))
	w.unseen = false
}

func (w *world) ended(x *worldExec, took time.Duration, finished, restored bool) {
	x.handed = nil
	x.status = messages.Requested
	if finished {
		x.status = messages.Completed
		if s := w.sessions[x.c.Session]; s != nil && !x.miss {
			s.finished = max(s.finished, x.epoch)
		}
	}
	pl := messages.Placement{Execution: x.c.ID, Attempt: x.c.Attempt}
	if w.unseen {
		w.step(Ended{Placement: pl, Unseen: true})
		return
	}
	w.step(Ended{Placement: pl, Worker: x.worker, Session: x.c.Session, Took: took, Finished: finished, Restored: restored && finished})
}

func (w *world) changeWorker(t *rapid.T) {
	k := slotKey(rapid.IntRange(0, 3).Draw(t, "slot"))
	e := WorkerSeen{Worker: k, Generation: 1, Accepts: true, Active: rapid.IntRange(0, 4).Draw(t, "cordoned") > 0,
		Grade: rapid.SampledFrom(testGrades).Draw(t, "grade"), BeatAt: w.now,
		BeatEvery: time.Duration(rapid.SampledFrom([]int{0, 0, 1, 10, 20}).Draw(t, "heartbeat interval")) * time.Second}
	if old := w.workers[k]; old != nil {
		e.Generation = old.Generation
	}
	e.Direct = rapid.Bool().Draw(t, "direct")
	switch rapid.IntRange(0, 9).Draw(t, "how") {
	case 0:
		e.Starting, e.Accepts = true, false
	case 1:
		e.Broken = true
	case 2:
		e.Accepts = false
	case 3:
		e.BeatAt = w.now.Add(-time.Minute)
	}
	w.seen(e)
}

func (w *world) loseWorker(t *rapid.T) {
	k := slotKey(rapid.IntRange(0, 3).Draw(t, "slot"))
	if w.workers[k] == nil {
		t.Skip("no such worker")
	}
	restarts := rapid.Bool().Draw(t, "restarts")
	if restarts {
		w.workers[k].Generation++
		w.workers[k].Starting, w.workers[k].Accepts = true, false
	} else {
		delete(w.workers, k)
		for _, x := range w.running() {
			if x.worker == k {
				x.status = messages.Requested
			}
		}
	}
	w.step(WorkerGone{Worker: k, Restarts: restarts})
}

func (w *world) cancel(t *rapid.T) {
	all := w.in(func(x *worldExec) bool { return x.status == messages.Requested && !x.unstored })
	x := take(t, &all)
	x.status = messages.Cancelled
	if rapid.Bool().Draw(t, "told") {
		w.step(Withdrawn{ID: x.c.ID})
	}
}

// outage tells that the store is away, or that it is back.
func (w *world) outage(t *rapid.T) { w.step(Store{Away: rapid.Bool().Draw(t, "away")}) }

func (w *world) pass(t *rapid.T) {
	w.tick(time.Duration(rapid.IntRange(1, 6000).Draw(t, "ms"))*time.Millisecond, rapid.IntRange(0, 3).Draw(t, "beats") > 0)
}

func (w *world) tick(d time.Duration, beats bool) {
	w.now = w.now.Add(d)
	w.step(Tick{})
	if beats {
		e := Beats{At: w.now}
		for i := range 4 {
			if s := w.workers[slotKey(i)]; s != nil && !s.Starting {
				s.BeatAt = w.now
				e.Workers = append(e.Workers, slotKey(i))
			}
		}
		w.step(e)
	}
}

// finish makes all well and lets the rest run down.
func (w *world) finish() {
	w.step(Store{})
	for i := range 4 {
		g := messages.Generation(1)
		if old := w.workers[slotKey(i)]; old != nil {
			g = old.Generation
		}
		w.seen(WorkerSeen{Worker: slotKey(i), Generation: g, Accepts: true, Active: true, Grade: health.Healthy, BeatAt: w.now})
	}
	rounds := 0
	for ; rounds < 60+3*len(w.execs) && !w.over(); rounds++ {
		w.settleAll()
		w.sweepStore()
		w.tick(time.Second, true)
	}
	require.True(w.t, w.over(), "every candidate is eventually placed, failed or explained; left: %v", w.left())
	require.Empty(w.t, w.r.flights, "every slot is free again")
	for _, worker := range w.r.workers {
		require.Zero(w.t, worker.depth)
		require.Zero(w.t, worker.parked.len())
	}
	w.settleAll()
	w.tick(time.Second, true)
	w.settleAll()
	require.Empty(w.t, w.r.held, "nothing is held for ever")
	require.Empty(w.t, w.r.lines, "a session without work leaves nothing behind but its binding")
	require.Empty(w.t, w.r.departed)
	require.Zero(w.t, w.r.unanswered)
	require.Nil(w.t, w.r.firstTimed)
}

func (w *world) over() bool { return len(w.left())+len(w.r.flights) == 0 }

func (w *world) left() (all []string) {
	for _, x := range w.in(func(x *worldExec) bool { return !x.status.Terminal() }) {
		all = append(all, fmt.Sprintf("%s %s #%d %s", nameOf(x.c.ID), x.status, x.c.Attempt, w.r.Why(w.now, x.c.ID)))
	}
	return all
}

// settleAll answers all that is open, and runs all that can run.
func (w *world) settleAll() {
	for n := 0; n < 100 && len(w.loads)+len(w.places)+len(w.accepts)+len(w.publishes)+len(w.backs)+len(w.reloads) > 0; n++ {
		for _, e := range drain(&w.loads) {
			w.step(e)
		}
		for _, a := range drain(&w.places) {
			w.placed(a, false, false)
		}
		for _, a := range drain(&w.accepts) {
			w.accepted(a, false)
		}
		for _, e := range drain(&w.publishes) {
			w.published(e, true)
		}
		for _, e := range drain(&w.backs) {
			w.takenBack(e)
		}
		for _, name := range drain(&w.reloads) {
			w.moved(name)
		}
		for _, x := range w.in(func(x *worldExec) bool { return len(x.handed) > 0 }) {
			for _, by := range drain(&x.handed) {
				w.answeredDirect(x, by)
			}
		}
		for all := w.claimable(); len(all) > 0; all = w.claimable() {
			w.claimed(all[0])
		}
		for _, x := range w.running() {
			w.ended(x, time.Millisecond, true, false)
		}
	}
}

func drain[T any](from *[]T) []T {
	all := *from
	*from = nil
	return all
}

// sweepStore takes back what the roster does not know to be placed, as the store's own sweep does.
func (w *world) sweepStore() {
	for _, x := range w.in(func(x *worldExec) bool { return x.status == messages.Scheduled && !x.sent }) {
		if f := w.r.flights[x.c.ID]; f == nil || f.placement.Attempt != x.c.Attempt || f.phase == placing {
			x.status = messages.Requested
		}
	}
}
