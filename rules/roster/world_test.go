package roster

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/health"
)

// world is a store, a broker and workers around a roster, each with faults: answers come late, in any order, refused or
// unknown. It checks every effect against its own truth and against the model.
type world struct {
	t     *rapid.T
	r     *Roster
	m     *model
	now   time.Time
	names int

	execs    []*worldExec
	sessions map[string]*worldSession
	workers  map[messages.WorkerKey]*WorkerSeen

	loads     []Loaded
	places    []Assignment
	accepts   []Assignment
	publishes []Publish
	backs     []TakeBack
	reloads   []string
	unseen    bool           // the next end: it is not told how
	words     []SessionMoved // of the store on sessions, on their way
}

type worldExec struct {
	c      messages.Candidate
	status messages.Status
	runAt  time.Time
	worker messages.WorkerKey
	sent   bool
	epoch  int64
	miss   bool
	// unstored: it is offered and accepted, and not in the store yet.
	unstored bool
	// handed are the workers that were handed it directly with the next attempt, and have not answered.
	handed []messages.WorkerKey
}

type worldSession struct {
	worker          messages.WorkerKey
	epoch, finished int64
	started         int64
}

func newWorld(t *rapid.T) *world {
	c := Config{SessionTimeout: 1000 * time.Hour}
	if rapid.Bool().Draw(t, "claims") {
		c.Claims = slotKey(0).Incarnation
	}
	w := &world{t: t, r: New(c), m: newModel(epoch0), now: epoch0, sessions: map[string]*worldSession{}, workers: map[messages.WorkerKey]*WorkerSeen{}}
	w.m.claims = c.Claims
	w.step(Tick{})
	return w
}

// step sends one event to the roster and the model, and compares.
func (w *world) step(e Event) {
	effects := slices.Clone(w.r.Step(w.now, e))
	var places []Assignment
	var fails []Fail
	var backs []TakeBack
	for _, effect := range effects {
		switch effect := effect.(type) {
		case Place:
			places = append(places, effect.Assignments...)
		case Accept:
			require.Empty(w.t, w.m.held, "nothing is accepted before what waits")
			places = append(places, effect.Assignments...)
		case Fail:
			fails = append(fails, effect)
		case TakeBack:
			backs = append(backs, effect)
		}
	}
	w.m.window = w.r.window
	w.m.step(w.now, e, places)
	w.compare(e, places, fails, backs)
	for _, effect := range effects {
		w.carryOut(effect)
	}
	for _, effect := range effects {
		if end, ok := effect.(EndSession); ok {
			s := w.sessions[end.Session]
			require.False(w.t, s != nil && s.worker == end.Worker && s.epoch <= end.Epoch, "after %T %+v: a bound session's worker drops its state: %+v", e, e, end)
		}
	}
	w.check()
}

func (w *world) compare(e Event, places []Assignment, fails []Fail, backs []TakeBack) {
	what := fmt.Sprintf("after %T %+v at %s", e, e, w.now.Sub(epoch0))
	require.Equal(w.t, len(w.m.places), len(places), "%s: placed %v, the model %v", what, places, w.m.places)
	for i, a := range places {
		require.Contains(w.t, w.m.allow[i], a.Worker, "%s: placement %d", what, i)
		require.Equal(w.t, w.m.places[i], a, "%s: placement %d", what, i)
	}
	require.ElementsMatch(w.t, w.m.fails, fails, what)
	require.ElementsMatch(w.t, w.m.backs, backs, what)
	require.Equal(w.t, len(w.m.held), len(w.r.held), "%s: held", what)
	require.Equal(w.t, len(w.m.flights), len(w.r.flights), "%s: flights", what)
}

// carryOut notes what the effects ask for; the answers come when the history says so.
func (w *world) carryOut(e Effect) {
	switch e := e.(type) {
	case Load:
		require.Empty(w.t, w.loads, "one Load under way at most")
		w.m.loading = true
		w.loads = append(w.loads, w.due(e))
	case Place:
		for _, a := range e.Assignments {
			w.mayPlace(a)
			if a.Direct {
				require.True(w.t, a.Session == nil && w.workers[a.Worker].Direct, "never directly with a session, or to a worker that does not know it")
			} else {
				w.places = append(w.places, a)
			}
		}
	case Accept:
		for _, a := range e.Assignments {
			w.mayPlace(a)
			w.mayAccept(a)
			w.accepts = append(w.accepts, a)
		}
	case Publish:
		w.publishes = append(w.publishes, e)
	case TakeBack:
		w.backs = append(w.backs, e)
	case Fail:
		if x := w.exec(e.ID); x.status == messages.Requested && x.c.Attempt == e.Attempt {
			x.status = messages.Failed
		}
	case Reload:
		w.reloads = append(w.reloads, e.Session)
	case Unbind:
		if s := w.sessions[e.Session]; s != nil && s.epoch == e.Epoch && s.worker == e.Worker {
			s.worker = messages.WorkerKey{}
		}
	}
}

// mayPlace states the safety of one placement in the world's own terms.
func (w *world) mayPlace(a Assignment) {
	seen := w.workers[a.Worker]
	require.NotNil(w.t, seen, "never place on a worker that is gone")
	require.True(w.t, seen.Active, "never place on a cordoned worker")
	require.True(w.t, seen.Accepts && !seen.Starting && !seen.Broken, "never place on a worker that takes none")
	require.True(w.t, seen.Grade.Takes(), "never place on an unhealthy worker")
	require.LessOrEqual(w.t, w.now.Sub(seen.BeatAt), testLimit(seen.BeatEvery), "never place on a stale worker")
	if u := a.Session; u != nil && !u.Bind {
		s := w.sessions[u.Session]
		require.False(w.t, u.Lost && s != nil && s.finished >= u.Epoch, "never told of a loss once a run has finished on the binding: %+v, which stands as %+v", u, s)
	}
	onIt, inSession := 0, 0
	for _, f := range w.r.flights {
		if f.worker.seen.Worker == a.Worker {
			onIt++
		}
		if a.Session != nil && f.line != nil && f.line.session == a.Session.Session &&
			serial(&w.exec(f.placement.Execution).c) {
			inSession++
		}
	}
	limit := 1
	if seen.Grade == health.Healthy {
		limit += w.r.window
	}
	require.LessOrEqual(w.t, onIt, limit, "never over capacity")
	if u := a.Session; u != nil && u.Bind && w.sessions[u.Session] != nil {
		require.Greater(w.t, u.Epoch, w.sessions[u.Session].epoch, "epochs strictly grow")
	}
	if x := w.exec(a.ID); a.Session != nil && serial(&x.c) {
		require.Equal(w.t, 1, inSession, "never two in flight of one strict session")
		require.False(w.t, x.c.Affinity == messages.AffinityStrictFail && x.c.Behind, "never a strict_fail of a busy session")
	}
	w.mayTell(a)
}

// mayAccept states the safety of what is accepted: its worker has nothing else, and only one of the router's own node claims it.
func (w *world) mayAccept(a Assignment) {
	seen := w.workers[a.Worker]
	require.Equal(w.t, 1, w.r.workers[a.Worker].depth, "only on an idle worker")
	if a.Generation > 0 {
		require.True(w.t, seen.Direct && seen.Generation == a.Generation && a.Worker.Incarnation == w.m.claims, "never claimed for another node, or generation")
	}
}

// mayTell states when a loss is told: never where nothing of the session has begun or is placed so that it may have, and
// always where something has begun and the placement starts a new epoch.
func (w *world) mayTell(a Assignment) {
	u := a.Session
	if u == nil || !u.Bind && !u.Lost {
		return
	}
	begun := w.sessions[u.Session] != nil && w.sessions[u.Session].started > 0
	placed := slices.ContainsFunc(w.execs, func(x *worldExec) bool {
		return x.c.Session == u.Session && x.c.ID != a.ID && x.status == messages.Scheduled && !x.miss
	})
	if begun {
		require.True(w.t, u.Lost || !u.Bind, "a session in which something has begun is told of a new epoch")
	} else if !placed {
		require.False(w.t, u.Lost, "a session in which nothing has begun has lost nothing")
	}
}

// check states what holds between steps.
func (w *world) check() {
	free, idle, occupied := 0, 0, 0
	for _, worker := range w.r.workers {
		free += worker.free
		if worker.idle {
			idle++
			require.True(w.t, worker.free > 0 && worker.depth == 0, "nothing is on an idle worker")
		}
		if worker.standing == refusing && worker.depth > 0 {
			occupied++
		}
		require.False(w.t, worker.free > 0 && worker.parked.len() > 0, "nothing waits for a worker that is free")
	}
	require.Equal(w.t, free, w.r.free)
	require.Equal(w.t, idle, w.r.idle)
	require.Equal(w.t, occupied, w.r.occupied)
	for id := range w.r.held {
		require.NotEqual(w.t, NotLoaded, w.r.Why(w.now, id), "what is held is explained")
		require.False(w.t, w.r.Why(w.now, id) == Ready && !w.r.again, "what is ready is placed")
	}
}

func (w *world) exec(id messages.ExecutionID) *worldExec {
	for _, x := range w.execs {
		if x.c.ID == id {
			return x
		}
	}
	require.Fail(w.t, "unknown execution "+nameOf(id))
	return nil
}

// due answers a Load as the store would.
func (w *world) due(l Load) (page Loaded) {
	var singles, heads, behind []messages.Candidate
	for _, x := range w.execs {
		if x.status != messages.Requested || x.unstored || x.runAt.After(w.now) {
			continue
		}
		switch {
		case !serial(&x.c):
			behind := x.c.Priority < l.AfterPriority || x.c.Priority == l.AfterPriority && x.c.Seq > l.AfterSeq
			if l.AfterSeq == 0 || behind {
				singles = append(singles, x.c)
			}
		case w.first(x):
			heads = append(heads, x.c)
		case x.c.Affinity == messages.AffinityStrictFail:
			c := x.c
			c.Behind = true
			behind = append(behind, c)
		}
	}
	order := func(a, b messages.Candidate) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Seq, b.Seq))
	}
	slices.SortFunc(singles, order)
	slices.SortFunc(heads, order)
	page.More = len(singles) > l.Limit || len(heads) > l.Heads || len(behind) > l.Heads
	page.Candidates = singles[:min(len(singles), l.Limit)]
	page.Candidates = append(page.Candidates, heads[:min(len(heads), l.Heads)]...)
	page.Candidates = append(page.Candidates, behind[:min(len(behind), l.Heads)]...)
	slices.SortFunc(page.Candidates, order)
	return page
}

// first reports whether nothing of the execution's session is placed, and nothing of it that is due comes before it.
func (w *world) first(x *worldExec) bool {
	return !w.inFlight(x.c.Session) && !slices.ContainsFunc(w.execs, func(o *worldExec) bool {
		return o.c.Session == x.c.Session && serial(&o.c) && o.status == messages.Requested && !o.runAt.After(w.now) && o.c.Seq < x.c.Seq
	})
}

func (w *world) inFlight(session string) bool {
	return slices.ContainsFunc(w.execs, func(x *worldExec) bool {
		return x.c.Session == session && (x.status == messages.Scheduled || x.status == messages.Running)
	})
}

// store makes the guarded change of a placement.
func (w *world) store(a Assignment) (ok, conflict bool) {
	x := w.exec(a.ID)
	if x.status != messages.Requested || x.c.Attempt != a.Attempt || x.runAt.After(w.now) {
		return false, false
	}
	if u := a.Session; u != nil {
		s := w.sessions[u.Session]
		if s == nil {
			s = &worldSession{}
			w.sessions[u.Session] = s
		}
		switch {
		case serial(&x.c) && w.inFlight(u.Session):
			return false, true
		case u.Bind && u.Epoch <= s.epoch, !u.Bind && u.Hit && (s.epoch != u.Epoch || s.worker != a.Worker):
			return false, true
		case u.Bind:
			s.worker, s.epoch = a.Worker, u.Epoch
		}
		x.epoch, x.miss = u.Epoch, !u.Hit
	}
	x.status, x.worker, x.sent = messages.Scheduled, a.Worker, false
	x.c.Attempt++
	return true, false
}
