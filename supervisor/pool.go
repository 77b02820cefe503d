package supervisor

import (
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/rules/restart"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/rules/scale"
	"github.com/troupe-run/troupe/store"
)

// Memory is what a pool keeps over the restart of its own actor.
type Memory struct {
	generations map[messages.Slot]messages.Generation
	pids        map[messages.Slot]int  // of the processes that its workers had last
	cordoned    map[messages.Slot]bool // by operators
	losses      losses
}

// Pool is the supervisor of one pool's workers on this node. It routes for them, and for the nodes that follow it, or
// follows another node's router itself; see package lead.
type Pool struct {
	cfg    PoolConfig
	memory *Memory
	cell   *actors.Cell
	actor  actor.Context // of this actor, the same from its start to its end
	self   *actor.PID
	world  *actors.RealWorld
	crew   *actors.Crew

	slots    []*slot
	tracker  *restart.Tracker
	roster   *roster.Roster
	pending  effects // gathered while one message is handled
	held     map[messages.Placement]heldFor
	arrivals arrivals
	placing  map[messages.ExecutionID]*store.Place // of this actor's own records, and submissions, under way
	// accepted are the placements that the roster makes for the offer at hand.
	accepted []*store.Place
	running  map[messages.Placement]messages.Slot
	reads    reads
	// returning are the placements whose take back the store has not answered yet.
	returning map[messages.Placement]struct{}
	journal   journal
	mode      lead.Machine
	router    string // the name of the node that leads
	feed      feed
	followers map[messages.Incarnation]*follower
	haltedAt  time.Time // since when a server is away; zero: none is
	abroad    abroad
	logs      poolLogs
	attached  map[string]bool
	before    []int // processes of the actor before this one
	// inherited are the last generations of the actor before this one; empty: this is the first.
	inherited map[messages.Slot]messages.Generation

	cordoned     bool
	nodeCordoned bool
	draining     *drain
	unbinding    int // bindings that the store is asked to end
	stopping     bool
	leaked       int
	echo         echo
	round        firstRound
	replacing    replacing
	scale        scale.State
	tick         actors.Timer
	sleep        actors.Timer
	sleepAt      time.Time
}

// firstRound is the pool's first start round: it ends when every slot has become ready or failed once.
type firstRound struct {
	missing int
	ended   bool
}

// NewPool returns the child to spawn. The memory outlives the actor.
func NewPool(cfg PoolConfig, memory *Memory) actors.Child {
	cell := &actors.Cell{}
	return actors.Child{Name: cfg.Name, Kind: "pool", Cell: cell, New: func() actor.Actor {
		return &Pool{cfg: cfg, memory: memory, cell: cell}
	}}
}

// Receive implements actor.Actor.
func (p *Pool) Receive(ctx actor.Context) {
	if p.stopping {
		p.refuse(ctx.Message())
		return
	}
	switch m := ctx.Message().(type) {
	case *actor.Started:
		p.start(ctx)
	case *actor.Stopping:
		p.stop()
	case *actor.Stopped:
		return
	case *actor.Terminated:
		p.terminated(m)
	case *Wake:
		p.wake(m)
	case *Offer:
		p.offered(m)
	case *Settled:
		p.settle(m)
	case *actors.Committed:
		p.committed(m)
	case *actors.Delivered:
		p.delivered(m)
	case *actors.Attached:
		p.queueAttached(m)
	case *actors.Resume:
		p.world.Resume(m)
	case *actors.WorkerChanged:
		p.workerChanged(m)
	case *actors.WorkerEnded:
		p.workerEnded(m)
	case *actors.EchoAnswered:
		p.echoAnswered(m)
	case *leakChange:
		p.leakChanged(m)
	case *Beat:
		p.beat(m)
	case *Cordon:
		p.cordon(m)
	case *NodeUp: // it reports by itself where it follows
	case *NodeDown:
		p.nodeDown(m)
	case *Elsewhere:
		p.elsewhere(m)
	case *StoreStands:
		p.storeStands(m)
	case *Halt:
		p.halted(m.Why)
	case *CancelAgain:
		p.cancelRun(m.Placement, m.Slot, m.By)
	case *KillWorker:
		p.kill(m)
	case *ProbeWorker:
		p.probeNow(m)
	case *DrainQuestion:
		p.drain(m)
	case *Replace:
		p.replace(m)
	case *DescribeQuestion:
		m.Reply(p.describe(), nil)
	case *WhyQuestion:
		m.Reply(p.why(m.Ask.ID), nil)
	case *Led:
		p.led(m)
	case *ReportQuestion:
		m.Reply(p.reported(&m.Ask), nil)
	case *PeerEndSession:
		p.endSessionHere(m)
	case *DeadLettered:
		p.deadLettered(m.Slot, m.Placement)
	default:
		p.cfg.System.Registry.Unknown(ctx)
	}
	p.lookAtArrivals()
	p.drained()
	p.flush()
}

func (p *Pool) start(ctx actor.Context) {
	p.actor, p.self = ctx, ctx.Self()
	p.world = actors.NewWorld(p.cfg.System, p.self)
	p.tracker = restart.New(p.cfg.Restart)
	p.roster = roster.New(p.cfg.Roster)
	p.held = map[messages.Placement]heldFor{}
	p.placing = map[messages.ExecutionID]*store.Place{}
	p.running = map[messages.Placement]messages.Slot{}
	p.returning = map[messages.Placement]struct{}{}
	p.attached = map[string]bool{}
	p.abroad = newAbroad()
	p.followers = map[messages.Incarnation]*follower{}
	if p.memory.generations == nil {
		p.memory.generations, p.memory.pids = map[messages.Slot]messages.Generation{}, map[messages.Slot]int{}
		p.memory.cordoned = map[messages.Slot]bool{}
	}
	if p.cfg.Cordoned != nil {
		p.cordoned, p.nodeCordoned = p.cfg.Cordoned()
	}
	p.before = slices.Collect(maps.Values(p.memory.pids))
	p.inherited = maps.Clone(p.memory.generations)
	p.crew = p.makeCrew()
	p.actor.Watch(p.cfg.Delivery)
	p.halt()
	p.takeOver()
	p.startSlots()
	p.memory.losses.reading = false // the answer may have gone with the actor before this one
	p.readLosses()
	p.showMode()
	p.nextTick()
}

// makeCrew completes the crew that new workers get.
func (p *Pool) makeCrew() *actors.Crew {
	crew := p.cfg.Crew
	crew.System, crew.Recorder, crew.Pool = p.cfg.System, p.cfg.Recorder, p.self
	crew.PoolName = p.cfg.Name
	crew.Node, crew.Incarnation = p.cfg.Node, p.cfg.Incarnation
	self, system, outer := p.self, p.cfg.System, p.cfg.Crew.Leaked
	crew.Leaked = func(pool string, change int) {
		system.Send(self, &leakChange{change})
		if outer != nil {
			outer(pool, change)
		}
	}
	return &crew
}

// refuse handles what still comes while the pool's children stop. Above all it starts nothing: the end of a child would
// bring the next, and the pool would wait for its children for ever. Deliveries go back to their queue.
func (p *Pool) refuse(message any) {
	switch m := message.(type) {
	case *actors.Delivered:
		for _, d := range m.Deliveries {
			_ = d.Nack(true)
		}
	case *Offer:
		if m.take() {
			m.answer <- nil
		}
	}
}

func (p *Pool) stop() {
	p.stopping = true
	p.world.End()
	stopTimer(p.tick)
	stopTimer(p.sleep)
	p.dropArrivals()
	for _, s := range p.slots {
		stopTimer(s.timer)
	}
	for queue := range p.attached {
		p.cfg.System.Send(p.cfg.Delivery, &actors.Detach{Queue: queue})
	}
	for _, h := range p.held { // nobody is left to settle them; whoever gets them next finds them stale
		if h.open > 0 {
			h.open = 0
			_ = h.delivery.Nack(true)
		}
	}
}

func stopTimer(t actors.Timer) {
	if t != nil {
		t.Stop()
	}
}

// send posts a message to another actor.
func (p *Pool) send(to *actor.PID, message any) { p.actor.Send(to, message) }

// storeTimeout bounds one question to the store beside the pool.
const storeTimeout = 10 * time.Second

func (p *Pool) nextTick() { p.tick = p.world.After(time.Second, p.ticked) }

// ticked is the pool's regular second.
func (p *Pool) ticked() {
	p.halt()
	p.step(roster.Tick{})
	now := p.world.Now()
	p.leadTick(now)
	p.probeDue(now)
	p.recycleDue(now)
	p.echoDue(now)
	p.watchBeats(now)
	p.lossesDue(now)
	p.rescale(now)
	p.journal.flush(p)
	p.nextTick()
}
