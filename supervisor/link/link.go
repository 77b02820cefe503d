package link

import (
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor/part"
	"github.com/troupe-run/troupe/supervisor/router"
)

// Link is between a pool's workers on this node and the router that places on them. It has what the router's orders have
// brought here, claimed or not, and reports what becomes of it: to the router of this node over a loop-back link, or, where
// another node routes for the pool, over peers. For a router of this node it takes the reports of other nodes.
type Link struct {
	*part.Shared

	workers Workers
	router  Router

	mode       lead.Machine
	routerName string // of the node that leads
	outbox     *outbox
	arrivals   arrivals
	senders    map[messages.Incarnation]*sender
	attached   map[string]attachment // the queues
	held       map[messages.Placement]heldFor
	malformed  map[*held]struct{} // deliveries that cannot be handled, until the store has kept them
	running    map[messages.Placement]messages.Slot
	taken      map[messages.Placement]take // of running: given with a Take
	takes      uint64                      // how many there were
	// returning are the placements whose take back the store has not answered yet.
	returning   map[messages.Placement]struct{}
	left        Left      // by the actor before this one; empty once it has been given back
	haltedAt    time.Time // since when a server is away; zero: none is
	quarantined actors.Repeated
}

// Workers are the workers of this node, as the link sees them.
type Workers interface {
	Execute(work *broker.Work) bool
	Take(n messages.Slot, gen messages.Generation, m *actors.Take) bool
	Drop(n messages.Slot, pl messages.Placement)
	EndSession(n messages.Slot, session string, epoch int64)
	Expired(n messages.Slot, pl messages.Placement)
	CancelRun(n messages.Slot, m *actors.CancelRun)
	Has(n messages.Slot, gen messages.Generation) bool
	Standings() []roster.WorkerSeen
	QueueAttached(queue string)
	ShareQueue() int
	Broken() (broken bool, why, trace string)
	ShowRouting(routing string)
}

// Router is this node's router, as the link sees it. It routes from Start to Rest.
type Router interface {
	Start()
	Rest()
	// Report takes what a follower reports, Take one event of a follower whose reports come in step with its workers.
	Report(from messages.Incarnation, r *router.Report)
	Take(from messages.Incarnation, e roster.Event)
	// TakeClaimed and TakeEnded are Take for what each run tells: a value that crosses this seam as it is costs no allocation.
	TakeClaimed(from messages.Incarnation, e roster.Claimed)
	TakeEnded(from messages.Incarnation, e roster.Ended)
	// Drop lets the workers of a follower go that lives; its own router has them.
	Drop(from messages.Incarnation)
	// Placed answers a placement, Doubt says that what is known of a session may be old.
	Placed(change *store.Place, r *store.Result)
	Doubt(sessions ...string)
	// Halted says why nothing may be placed, Resign has the router place no more.
	Halted(why roster.Reason)
	Resign()
	// Ended reports whether an incarnation has ended, Waiting counts what waits for workers, Idle the workers that have nothing, and
	// Drained says that every placement of a router that has resigned was claimed or taken back.
	Ended(inc messages.Incarnation) bool
	Waiting() int
	Idle() int
	Drained() bool
}

// Left is what the actor of the pool before this one had when it failed: the last generations of its slots, and their processes.
type Left struct {
	Generations map[messages.Slot]messages.Generation
	Processes   []int
}

// New returns the link of a pool, which is connected to its two ends before it is started.
func New(s *part.Shared, left Left) *Link {
	l := &Link{
		Shared: s, senders: map[messages.Incarnation]*sender{}, attached: map[string]attachment{},
		held: map[messages.Placement]heldFor{}, malformed: map[*held]struct{}{}, running: map[messages.Placement]messages.Slot{},
		taken: map[messages.Placement]take{}, returning: map[messages.Placement]struct{}{}, left: left,
	}
	l.outbox = &outbox{Shared: s, link: l, mode: &l.mode, halted: &l.haltedAt}
	return l
}

// Connect joins the link to the parts on its two ends.
func (l *Link) Connect(workers Workers, router Router) { l.workers, l.router = workers, router }

// Start begins to route for this node's workers.
func (l *Link) Start() {
	l.Actor.Watch(l.Config.Delivery)
	l.router.Start()
	l.Halt()
	l.router.Report(l.Config.Incarnation, &router.Report{First: true, Last: true, Exact: true})
	l.giveBackLeft()
}

// Stop ends the link with its actor: what has been delivered and not claimed goes back.
func (l *Link) Stop() {
	l.dropArrivals()
	for queue := range l.attached {
		l.Config.System.Send(l.Config.Delivery, &actors.Detach{Queue: queue})
	}
	for _, h := range l.held { // nobody is left to settle them; whoever gets them next finds them stale
		if h.open > 0 && h.delivery.Settler != nil {
			h.open = 0
			_ = h.delivery.Nack(true)
		}
	}
	for h := range l.malformed { // one that has been acked meanwhile stays so
		_ = h.delivery.Nack(true)
	}
}

// Tick lets time pass.
func (l *Link) Tick(now time.Time) {
	l.changed(l.mode.Tick(now))
	for inc, s := range l.senders {
		if now.Sub(s.heard) >= max(l.Config.Patience, lead.Patience) {
			l.Config.Logger.Warn("follower is silent: its workers leave the router's view", "incarnation", inc)
			l.dropFollower(inc)
		}
	}
}

// Tell reports an event: over the loop-back link where this node's router has the workers, and with the next report over peers
// where another node's has them, or will have them with the whole report that is under way.
func (l *Link) Tell(e roster.Event) {
	if l.outbox.gathers() {
		l.outbox.gather(e)
	}
	if l.mode.Mode() != lead.Following {
		l.router.Take(l.Config.Incarnation, e)
	}
}

func (l *Link) tellClaimed(e roster.Claimed) {
	if l.outbox.gathers() {
		l.outbox.gather(e)
	}
	if l.mode.Mode() != lead.Following {
		l.router.TakeClaimed(l.Config.Incarnation, e)
	}
}

func (l *Link) tellEnded(e roster.Ended) {
	if l.outbox.gathers() {
		l.outbox.gather(e)
	}
	if l.mode.Mode() != lead.Following {
		l.router.TakeEnded(l.Config.Incarnation, e)
	}
}

// ShowAll makes a whole report over the loop-back link. Over peers the next one comes when it is due.
func (l *Link) ShowAll() {
	if l.mode.Mode() != lead.Following {
		l.router.Report(l.Config.Incarnation, l.whole())
	}
}

// whole is everything that this node has to report: the workers, and what is on them.
func (l *Link) whole() *router.Report {
	standings := l.workers.Standings()
	r := &router.Report{First: true, Last: true, Exact: true, Events: make([]roster.Event, 0, len(standings)+len(l.running))}
	for i := range standings {
		r.Events = append(r.Events, standings[i])
	}
	for pl, n := range l.running {
		r.Events = append(r.Events, roster.Claimed{Placement: pl, Worker: l.Config.KeyOf(l.Config.Incarnation, n)})
	}
	for pl, h := range l.held {
		r.Delivered = append(r.Delivered, router.Delivered{Placement: pl, Slot: h.slot})
	}
	return r
}

// Halt looks at the servers: nothing is placed while one is away.
func (l *Link) Halt() {
	if l.Config.Halted != nil {
		l.Halted(l.Config.Halted())
	}
}

// Halted takes what is known of the servers. A change goes to the router as soon as it may.
func (l *Link) Halted(why roster.Reason) {
	switch stands := why != roster.Ready; {
	case stands && l.haltedAt.IsZero():
		l.haltedAt = l.World.Now()
		l.mode.Break()
	case !stands && !l.haltedAt.IsZero():
		l.haltedAt = time.Time{}
		l.mode.Break()
	}
	l.router.Halted(why)
}

// Engaged are the slots that hold or run something.
func (l *Link) Engaged() map[messages.Slot]struct{} {
	slots := map[messages.Slot]struct{}{}
	for _, n := range l.running {
		slots[n] = struct{}{}
	}
	for _, h := range l.held {
		slots[h.slot] = struct{}{}
	}
	return slots
}

// Waiting is how much work waits for workers.
func (l *Link) Waiting() int {
	if l.mode.Mode() == lead.Following {
		return l.outbox.waiting
	}
	return l.router.Waiting()
}

// drained reports whether the router has nothing left, where it has resigned.
func (l *Link) drained() bool { return l.router.Drained() }

// HandedOn reports whether nothing of a drained pool is left here.
func (l *Link) HandedOn() bool { return len(l.running) == 0 && len(l.returning) == 0 }

// Broken says whether every worker of this node keeps failing, why, and where their code does.
func (l *Link) Broken() (broken bool, why, trace string) { return l.workers.Broken() }
