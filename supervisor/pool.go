package supervisor

import (
	"context"
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
	self   *actor.PID
	crew   *actors.Crew
	ctx    context.Context
	cancel context.CancelFunc

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
	tick         *time.Timer
	sleep        *time.Timer
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
		p.terminated(ctx, m)
	case *Wake:
		p.wake(m)
	case *Offer:
		p.offered(m)
	case *Settled:
		p.settle(m)
	case *actors.Committed:
		p.committed(m)
	case *actors.Delivered:
		p.delivered(ctx, m)
	case *actors.Attached:
		p.queueAttached(m)
	case *loaded:
		p.tellArrivals() // the store has found them too
		p.step(roster.Loaded(*m))
	case *published:
		p.publishedAll(m)
	case *sessionsLoaded:
		p.sessionsLoaded(m)
	case *actors.WorkerChanged:
		p.workerChanged(ctx, m)
	case *actors.WorkerEnded:
		p.workerEnded(ctx, m)
	default:
		p.steer(ctx)
	}
	p.lookAtArrivals()
	p.drained()
	p.flush(ctx)
}

// steer handles what operators and the node ask of the pool.
func (p *Pool) steer(ctx actor.Context) {
	switch m := ctx.Message().(type) {
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
		p.kill(ctx, m)
	case *ProbeWorker:
		p.probeNow(ctx, m)
	case *DrainQuestion:
		p.drain(ctx, m)
	case *Replace:
		p.replace(ctx, m)
	case *DescribeQuestion:
		m.Reply(p.describe(), nil)
	case *WhyQuestion:
		m.Reply(p.why(m.Ask.ID), nil)
	default:
		p.share(ctx)
	}
}

// share handles what comes of sharing the pool with other nodes.
func (p *Pool) share(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *Led:
		p.led(m)
	case *ReportQuestion:
		m.Reply(p.reported(&m.Ask), nil)
	case *PeerEndSession:
		p.endSessionHere(m)
	case *DeadLettered:
		p.deadLettered(m.Slot, m.Placement)
	case *answered:
		p.answered(m)
	case *reportAgain: // the flush of this message looks
	case *shareRead:
		p.shareRead(m)
	default:
		p.tend(ctx)
	}
}

// tend handles what comes of the pool's own doing: its timers, its echo, and the answers of what ran beside it.
func (p *Pool) tend(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *ticked:
		p.ticked(ctx)
	case *slept:
		p.step(roster.Tick{})
	case *arrivalsOver:
		if m.of == p {
			p.tellArrivals()
		}
	case *vanished:
		p.vanished(ctx, m)
	case *respawn:
		p.respawn(ctx, m)
	case *spawnMore:
		p.spawnMore(ctx, m)
	case *saved:
		p.saved(m)
	case *lostRead:
		p.lostRead(m)
	case *lossesRead:
		p.lossesRead(m)
	case *retireWith:
		p.retireWith(ctx, m)
	case *vitalsRead:
		p.vitalsRead(m)
	case *leakChange:
		p.leakChanged(m)
	case *actors.EchoAnswered:
		p.echoAnswered(m)
	case *echoSent:
		p.echoSent(m)
	case *replaceNext:
		p.replaceNext(ctx)
	case *queueAgain:
		p.queueReplacement(m.slot)
	case *attachAgain:
		p.attachAgain(ctx)
	case *takeOverAgain:
		if m.reader == p {
			p.reads.end(nil, nil)
			p.takeOver()
		}
	case *orphansRead:
		p.orphansRead(m)
	case *parted:
		p.parted(m)
	case *partAgain:
		p.partAgain(m)
	case *reloadAgain:
		p.reload(m.session, m.asked)
	case *drainOver:
		p.drainOver(ctx)
	case *unbound:
		p.unbound(m)
	default:
		p.cfg.System.Registry.Unknown(ctx)
	}
}

func (p *Pool) start(ctx actor.Context) {
	p.self = ctx.Self()
	p.ctx, p.cancel = context.WithCancel(context.Background())
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
	ctx.Watch(p.cfg.Delivery)
	p.halt()
	p.takeOver()
	p.startSlots(ctx)
	p.memory.losses.reading = false // the answer may have gone with the actor before this one
	p.readLosses()
	p.showMode()
	p.nextTick()
}

// makeCrew completes the crew that new workers get.
func (p *Pool) makeCrew() *actors.Crew {
	crew := p.cfg.Crew
	crew.System, crew.Recorder, crew.Pool = p.cfg.System, p.cfg.Recorder, p.self
	crew.PoolName, crew.Runtime = p.cfg.Name, p.cfg.Runtime
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
	p.cancel()
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

func stopTimer(t *time.Timer) {
	if t != nil {
		t.Stop()
	}
}

// post sends the pool a message from a goroutine of its own.
func (p *Pool) post(message any) { p.cfg.System.Send(p.self, message) }

func (p *Pool) later(d time.Duration, message any) *time.Timer {
	return time.AfterFunc(d, func() { p.post(message) })
}

// beside runs I/O next to the pool, bounded in time, ended with the pool.
func (p *Pool) beside(limit time.Duration, do func(context.Context)) {
	parent := p.ctx
	go func() {
		defer p.cfg.System.Carry(p.self)
		ctx, cancel := context.WithTimeout(parent, limit)
		defer cancel()
		do(ctx)
	}()
}

// storeTimeout bounds one question to the store beside the pool.
const storeTimeout = 10 * time.Second

type (
	ticked struct{}
	slept  struct{}
)

func (p *Pool) nextTick() { p.tick = p.later(time.Second, &ticked{}) }

// ticked is the pool's regular second.
func (p *Pool) ticked(ctx actor.Context) {
	p.halt()
	p.step(roster.Tick{})
	now := time.Now()
	p.leadTick(now)
	p.probeDue(ctx, now)
	p.recycleDue(now)
	p.echoDue(now)
	p.watchBeats(now)
	p.lossesDue(now)
	p.rescale(ctx, now)
	p.journal.flush(p)
	p.nextTick()
}
