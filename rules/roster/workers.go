package roster

import (
	"cmp"
	"time"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
	"github.com/troupe-run/troupe/rules/placement"
)

// standing is what a worker is to the pool, whatever its load.
type standing uint8

// The standings, and the order in which they are judged: the first that applies holds.
const (
	broken    standing = iota // its pool is broken on its node: absent
	starting                  // initializing, or being replaced on a live node: busy
	stale                     // no fresh heartbeat: absent
	unhealthy                 // absent
	cordoned                  // cordoned, draining or inactive: busy
	refusing                  // it takes no work for the moment: while nothing is on it as one that starts, else as busy
	working                   // takes work
	standings
)

// absent reports whether a worker of the standing is no reason to wait.
func (s standing) absent() bool { return s == broken || s == stale || s == unhealthy }

var standingNames = [...]string{"broken", "starting", "stale", "unhealthy", "cordoned", "refusing", "working"}

func (s standing) String() string { return standingNames[s] }

// worker is one slot of the pool.
type worker struct {
	seen     WorkerSeen
	standing standing
	depth    int  // flights on it
	running  int  // of them, claimed
	free     int  // its share of the roster's free capacity
	idle     bool // it counts among the roster's idle workers
	occupied bool // it counts among the roster's occupied workers
	flights  *flight
	parked   queue     // sessions' executions that wait for this worker
	listed   time.Time // its moment in the roster's beats heap; zero: it is not there
	batch    *batch    // of its last round
}

// judge says what the worker is now.
func (r *Roster) judge(w *worker) standing {
	s := &w.seen
	switch {
	case s.Broken:
		return broken
	case s.Starting:
		return starting
	}
	switch h := r.evaluate(w); {
	case h.Stale():
		return stale
	case !h.Grade.Takes():
		return unhealthy
	case !s.Active:
		return cordoned
	case !s.Accepts:
		return refusing
	}
	return working
}

// evaluate grades a worker, with its heartbeat, as every other place does that shows or uses a grade.
func (r *Roster) evaluate(w *worker) health.Report {
	s := health.Sample{Reported: w.seen.Grade}.Beat(r.now, w.seen.BeatAt, w.seen.BeatEvery, r.config.StaleTimes)
	report := health.Evaluate(health.Thresholds{Heartbeat: r.config.StaleAfter}, s)
	if w.seen.Grade == health.Unknown {
		report.Grade = health.Unhealthy // nobody has said that it is well
	}
	return report
}

// staleAt is when the worker's heartbeat becomes too old, unless another comes.
func (r *Roster) staleAt(w *worker) time.Time {
	return w.seen.BeatAt.Add(cmp.Or(health.Limit(w.seen.BeatEvery, r.config.StaleTimes), r.config.StaleAfter))
}

// capacity is how much may be on the worker at once: what it runs, and the window where it is healthy.
func (r *Roster) capacity(w *worker) int {
	if w.seen.Grade == health.Healthy {
		return 1 + r.window
	}
	return 1
}

// workerSeen brings a worker up to date.
func (r *Roster) workerSeen(e *WorkerSeen) {
	w := r.workers[e.Worker]
	if w == nil {
		w = r.join(e.Worker)
	}
	before := w.seen
	if before.Generation > 0 && e.Generation > before.Generation {
		r.endGeneration(w)
	}
	w.seen = *e
	if e.BeatAt.Before(before.BeatAt) && e.Generation == before.Generation {
		w.seen.BeatAt = before.BeatAt
	}
	r.refresh(w)
	if w.listed.IsZero() || before.BeatEvery != e.BeatEvery {
		r.list(w)
	}
	if before.Grade.Takes() && e.Grade > before.Grade {
		r.takeBackAll(w, "worker_"+e.Grade.String())
	}
}

// join makes a worker, or finds one again that left while something of it was still open.
func (r *Roster) join(key messages.WorkerKey) *worker {
	w := r.departed[key]
	if w == nil {
		w = &worker{}
		w.parked.worker = w
	}
	delete(r.departed, key)
	w.standing, w.seen = standings, WorkerSeen{}
	r.workers[key] = w
	return w
}

// refresh judges the worker again, and lets what waits for it know.
func (r *Roster) refresh(w *worker) {
	was := w.standing
	w.standing = r.judge(w)
	if was != w.standing {
		if was < standings {
			r.counts[was]--
		}
		r.counts[w.standing]++
	}
	r.settleFree(w)
	r.table.Upsert(r.described(w))
	switch {
	case w.standing.absent() || was < standings && was.absent(): // back, and perhaps busy: a strict_fail waits for no turn
		r.unparkAll(w)
	case w.free > 0:
		r.unpark(w)
	}
	if !w.standing.absent() {
		r.wakePatients()
	}
}

// described is the worker as package placement sees it.
func (r *Roster) described(w *worker) placement.Worker {
	return placement.Worker{
		Key: w.seen.Worker, ID: w.seen.ID, Tier: w.tier(), Depth: w.depth, Capacity: r.capacity(w),
	}
}

// tier is how available the worker is, by what it is now.
func (w *worker) tier() placement.Tier {
	switch {
	case w.standing.absent() && w.seen.Active && w.seen.Accepts:
		return placement.Missing
	case w.standing.absent():
		return placement.Absent
	case w.standing != working:
		return placement.Closed
	case w.seen.Grade == health.Healthy:
		return placement.Open
	}
	return placement.LastResort
}

// settleFree keeps the roster's free capacity in step with the worker's.
func (r *Roster) settleFree(w *worker) {
	free := 0
	if w.standing == working {
		free = max(r.capacity(w)-w.depth, 0)
	}
	r.free += free - w.free
	w.free = free
	r.setIdle(w, free > 0 && w.depth == 0 && w.seen.Grade == health.Healthy && r.mayClaim(w))
	r.setOccupied(w, w.standing == refusing && w.depth > 0)
}

// mayClaim reports whether what is offered may be given to the worker.
func (r *Roster) mayClaim(w *worker) bool {
	return r.config.Claims.IsZero() || r.config.Claims == w.seen.Worker.Incarnation
}

func (r *Roster) setIdle(w *worker, idle bool) {
	switch {
	case idle && !w.idle:
		r.idle++
	case !idle && w.idle:
		r.idle--
	}
	w.idle = idle
}

func (r *Roster) setOccupied(w *worker, occupied bool) {
	switch {
	case occupied && !w.occupied:
		r.occupied++
	case !occupied && w.occupied:
		r.occupied--
	}
	w.occupied = occupied
}

// workerGone takes a slot, or its generation, out of the pool: its bindings end, what is queued on it is taken back.
// What runs on a slot that is gone for good is left to the rescue; a generation's end is told by Ended.
func (r *Roster) workerGone(e *WorkerGone) {
	w := r.workers[e.Worker]
	if w == nil {
		return
	}
	r.endGeneration(w)
	if e.Restarts {
		w.seen.Starting, w.seen.Accepts, w.seen.BeatAt = true, false, time.Time{}
		r.refresh(w)
		r.unparkAll(w)
		return
	}
	r.removeWorker(w)
}

// workerLeft leaves a worker to another router.
func (r *Roster) workerLeft(e *WorkerLeft) {
	w := r.workers[e.Worker]
	if w == nil {
		return
	}
	w.seen.Starting, w.seen.Accepts, w.seen.Active, w.seen.Broken, w.seen.Queue = true, false, true, false, ""
	r.refresh(w)
	r.handOver(w)
}

// endGeneration ends what was tied to the worker's process.
func (r *Roster) endGeneration(w *worker) {
	r.takeBackAll(w, "worker_gone")
	for _, ended := range r.table.UnbindWorker(w.seen.Worker, r.now) {
		r.emit(Unbind{Session: ended.Session, Worker: ended.Worker, Epoch: ended.Epoch, Reason: "worker_gone"})
	}
}

func (r *Roster) removeWorker(w *worker) {
	for f := w.flights; f != nil; {
		next := f.next
		if f.phase == flying {
			r.land(f, false)
		}
		f = next
	}
	r.counts[w.standing]--
	r.free -= w.free
	w.free, w.standing = 0, standings
	r.setIdle(w, false)
	r.setOccupied(w, false)
	delete(r.workers, w.seen.Worker)
	if w.flights != nil {
		r.departed[w.seen.Worker] = w
	}
	r.table.Remove(w.seen.Worker, r.now)
	r.unparkAll(w)
}

// beat brings heartbeats up to date.
func (r *Roster) beat(e *Beats) {
	for _, key := range e.Workers {
		w := r.workers[key]
		if w == nil || !w.seen.BeatAt.Before(e.At) {
			continue
		}
		w.seen.BeatAt = e.At
		if w.standing == stale {
			r.refresh(w)
		}
		if w.listed.IsZero() {
			r.list(w)
		}
	}
}

// list has the worker's heartbeat looked at when it may have become too old.
func (r *Roster) list(w *worker) {
	w.listed = r.staleAt(w)
	r.beats.push(w, w.listed)
}

// age turns workers stale whose heartbeat has become too old. A worker is looked at at the moment that held when it was
// listed last; one that has beaten since is listed again.
func (r *Roster) age() {
	for {
		item, due := r.beats.due(r.now)
		if !due {
			return
		}
		r.beats.pop()
		w := item.worker
		if !w.listed.Equal(item.at) {
			continue // it was listed anew
		}
		w.listed = time.Time{}
		if r.workers[w.seen.Worker] != w {
			continue
		}
		if !r.evaluate(w).Stale() {
			r.list(w)
		} else if w.standing != stale {
			r.refresh(w)
		}
	}
}

// widenEvery is how often the window may widen: a p90 on the border between two windows must not touch every worker all
// the time. After a stall of the machine it opens again step by step.
const widenEvery = 100 * time.Millisecond

// rewindow gives every worker the window that the run times allow now. A window opens and narrows at once; it widens
// with a Tick, and between Ticks once in widenEvery.
func (r *Roster) rewindow(tick bool) {
	p90, _ := r.times.p90()
	window := min(placement.Window(p90, r.config.QueueDepthDegraded), r.config.WindowMax)
	widens := window > r.window && r.window > 0
	if window == r.window || widens && !tick && r.now.Sub(r.widened) < widenEvery {
		return
	}
	if widens {
		r.widened = r.now
	}
	r.window = window
	for _, key := range r.order() {
		r.refresh(r.workers[key])
	}
}

// present reports whether any worker is a reason to wait.
func (r *Roster) present() bool {
	return r.counts[starting]+r.counts[cordoned]+r.counts[refusing]+r.counts[working] > 0
}
