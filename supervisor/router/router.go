package router

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/journal"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor/part"
)

// Router is the shell of package roster: it loads what is due, has it placed, publishes it and follows it up. Of the workers it
// knows what their nodes report, and reaches them by orders alone; those of this node are one follower's among others. It
// rests while another node routes for the workers of this one.
type Router struct {
	*part.Shared

	link      Link
	roster    *roster.Roster
	followers map[messages.Incarnation]*follower
	remote    remoteWorkers
	cordoned  bool // the pool is, on every node
	resting   bool
	term      int                                   // how often it has begun or rested: what was asked before is not for what it is now
	placing   map[messages.ExecutionID]*store.Place // of its own records, and submissions, under way
	// accepted are the placements that the roster makes for the offer at hand.
	accepted  []*store.Place
	publish   []roster.Publish // gathered while one message is handled
	reads     reads
	reloads   reloads
	unbinding int             // calls that ask the store to end bindings
	unended   []roster.Unbind // what it did not end, to be asked for again
	left      leftBindings
	sleep     actors.Timer
	sleepAt   time.Time
	// unpublished is the log of a broker that takes nothing.
	unpublished actors.Repeated
	condition   journal.Condition
}

// Link is the link, as the router sees it.
type Link interface {
	// Hand gives placements to workers of this node, which the store does not have.
	Hand(work []broker.Work)
	// Take gives a worker of this node what was claimed for it as it was stored, Recall gives it back where nobody knows whether it was.
	Take(c *store.Claim, e *messages.Execution)
	Recall(c *store.Claim)
	// TakeBack has a placement returned, EndSession has a worker drop a session's state.
	TakeBack(change *store.TakeBack)
	EndSession(e roster.EndSession)
	// ShowAll has the followers report whose reports come in step with their workers.
	ShowAll()
	// TellArrivals reports what this node has stored and not told yet.
	TellArrivals()
	// Halt looks whether a server is away, Broken whether every worker of this node keeps failing.
	Halt()
	Broken() (broken bool, why, trace string)
}

// New returns a router that rests.
func New(s *part.Shared, link Link) *Router {
	r := &Router{Shared: s, link: link, resting: true}
	r.roster = roster.New(s.Config.Roster)
	r.remote = newRemoteWorkers()
	if s.Config.Cordoned != nil {
		r.cordoned, _ = s.Config.Cordoned()
	}
	return r
}

// Start begins to route, for the followers that report from now on. What stands on their workers the store knows.
func (r *Router) Start() {
	r.renew()
	r.resting = false
	r.takeOver()
	r.endLeftBindings()
}

// Rest ends the routing: what was placed stands on the workers' queues, where the next router learns of it, and what is being
// placed is taken back when the store answers.
func (r *Router) Rest() {
	r.Stop()
	r.renew()
	r.resting = true
}

// Stop ends the router with its actor.
func (r *Router) Stop() {
	part.StopTimer(r.sleep)
	r.sleep, r.sleepAt = nil, time.Time{}
	r.condition.Note(r.World.Now(), roster.Handed)
	r.tellCondition()
}

// renew forgets all but who has ended, and what was learned of run times.
func (r *Router) renew() {
	before, ended := r.roster, r.remote.ended
	r.roster = roster.New(r.Config.Roster)
	r.roster.Remember(before)
	r.remote = newRemoteWorkers()
	r.remote.ended = ended
	r.followers = map[messages.Incarnation]*follower{}
	r.placing = map[messages.ExecutionID]*store.Place{}
	r.reads, r.reloads, r.unended, r.left = reads{}, reloads{}, nil, leftBindings{}
	r.term++
}

// Resign has the router place no more: what none of this node's workers has claimed is taken back.
func (r *Router) Resign() { r.step(roster.Resigned{Own: r.Config.Incarnation}) }

// Halted says why nothing may be placed.
func (r *Router) Halted(why roster.Reason) { r.step(roster.Halted{Why: why}) }

// Doubt has the store asked before more of the sessions is placed.
func (r *Router) Doubt(sessions ...string) {
	for _, name := range sessions {
		r.step(roster.Doubted{Session: name})
	}
}

// Tick lets time pass.
func (r *Router) Tick() {
	r.step(roster.Tick{})
	r.tellCondition()
}

// StoreStands says that the store is away, or is back and has this node's heartbeats.
func (r *Router) StoreStands(away bool) { r.step(roster.Store{Away: away}) }

// Cordon takes the pool out of placement, on every node.
func (r *Router) Cordon(cordoned bool) { r.cordoned = cordoned }

// Why says why an execution is not running.
func (r *Router) Why(id messages.ExecutionID) roster.Reason { return r.roster.Why(r.World.Now(), id) }

// Turn returns the place in line of an execution that waits.
func (r *Router) Turn(id messages.ExecutionID, priority messages.Priority, seq int64) roster.Turn {
	return r.roster.Turn(id, priority, seq)
}

// Snapshot is what the router knows.
func (r *Router) Snapshot() roster.Snapshot { return r.roster.Snapshot() }

// Waits is what some of the executions that the router holds wait for.
func (r *Router) Waits() roster.Waits { return r.roster.Waits() }

// Seen returns each worker as the roster sees it.
func (r *Router) Seen() []roster.WorkerView { return r.roster.Workers() }

// Ended reports whether an incarnation has ended, as membership told.
func (r *Router) Ended(inc messages.Incarnation) bool {
	_, ended := r.remote.ended[inc]
	return ended
}

// Waiting counts what waits for workers, and what is placed and unclaimed.
func (r *Router) Waiting() int { return r.roster.Waiting() }

// Idle counts the workers that have nothing.
func (r *Router) Idle() int { return r.roster.Idle() }

// Openings counts the executions that would be accepted if they were offered now.
func (r *Router) Openings() int { return r.roster.Openings() }

// Drained reports whether every placement was claimed or taken back.
func (r *Router) Drained() bool { return r.roster.Drained() }

// Unbinding reports whether the store is asked to end bindings.
func (r *Router) Unbinding() bool { return r.unbinding > 0 }

// ask does I/O beside the pool. What comes back for a router that has rested, or begun anew, since then is dropped.
func (r *Router) ask(limit time.Duration, work func(context.Context) func()) {
	term := r.term
	r.World.Beside(limit, func(ctx context.Context) func() {
		then := work(ctx)
		if then == nil {
			return nil
		}
		return func() {
			if r.term == term {
				then()
			}
		}
	})
}

// later does something after a while, unless the router rests, or begins anew, before then.
func (r *Router) later(d time.Duration, then func()) actors.Timer {
	term := r.term
	return r.World.After(d, func() {
		if r.term == term {
			then()
		}
	})
}

// step gives the roster one event and carries out what it wants. What comes for a router that rests is somebody else's, but
// for what it has written and could not publish.
func (r *Router) step(e roster.Event) {
	if r.resting {
		if done, ok := e.(roster.Published); ok && !done.OK {
			for _, pl := range done.Placements {
				r.takeBack(pl, "unpublished", 0)
			}
		}
		return
	}
	r.reads.note(r.roster, e)
	swept, now := 0, r.World.Now()
	for _, effect := range r.roster.Step(now, localTimes(r.Config.Clock, e)) {
		if r.do(effect) {
			swept++
		}
	}
	r.condition.Note(now, r.roster.Condition())
	if swept > 0 {
		r.Config.Logger.Info("idle sessions swept", "sessions", swept, "timeout", r.Config.Roster.SessionTimeout)
	}
}

// do carries out one thing that the roster wants; true: it ends a session that idled out.
func (r *Router) do(effect roster.Effect) (swept bool) {
	switch effect := effect.(type) {
	case roster.Load:
		r.load(effect)
	case roster.Place:
		r.place(effect)
	case roster.Accept:
		r.accept(effect)
	case roster.Publish:
		r.publish = append(r.publish, effect)
	case roster.TakeBack:
		r.takeBack(effect.Placement, effect.Reason, effect.Delay)
	case roster.Fail:
		r.fail(effect)
	case roster.EndSession:
		if r.follows(effect.Worker) {
			r.link.EndSession(effect)
		}
	case roster.Unbind:
		swept = effect.Reason == roster.Expired
		r.unbind(effect)
	case roster.Reload:
		r.reload(effect.Session, true)
	case roster.Sleep:
		r.sleepUntil(effect.Until)
	}
	return swept
}

// takeBack has a placement returned.
func (r *Router) takeBack(pl messages.Placement, reason string, delay time.Duration) {
	r.link.TakeBack(&store.TakeBack{ID: pl.Execution, Attempt: pl.Attempt, Reason: reason, Delay: delay})
}

func (r *Router) sleepUntil(t time.Time) {
	if r.sleep != nil && r.sleepAt.Equal(t) {
		return
	}
	part.StopTimer(r.sleep)
	r.sleepAt = t
	r.sleep = r.later(max(t.Sub(r.World.Now()), time.Millisecond), func() { r.step(roster.Tick{}) })
}
