package supervisor

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/rules/roster"
)

// Memory is what a pool keeps over the restart of its own actor.
type Memory struct {
	generations map[messages.Slot]messages.Generation
	pids        map[messages.Slot]int  // of the processes that its workers had last
	cordoned    map[messages.Slot]bool // by operators
	losses      losses
}

// Pool is one pool on one node: the actor in whose mailbox its three parts meet. Workers supervises, Router places, and Link
// carries the workers' reports to the router, here or on another node, and the router's orders back.
type Pool struct {
	shell

	real    *actors.RealWorld
	workers *Workers
	link    *Link
	router  *Router

	drain    *drain
	stopping bool
	tick     actors.Timer
}

// NewPool returns the child to spawn. The memory outlives the actor.
func NewPool(cfg PoolConfig, memory *Memory) actors.Child {
	cell := &actors.Cell{}
	return actors.Child{Name: cfg.Name, Kind: "pool", Cell: cell, New: func() actor.Actor {
		own := cfg
		return &Pool{shell: shell{cfg: &own, memory: memory, cell: cell}}
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
	case *actors.Resume:
		p.real.Resume(m)

	case *Wake: // of who submits
		p.link.wake(m)
	case *Offer:
		p.offered(m)
	case *Settled:
		p.router.settle(m)

	case *actors.Committed: // of the recorder and the delivery bridge
		p.link.committed(m)
	case *actors.Delivered:
		p.delivered(m)
	case *actors.Attached:
		p.link.queueAttached(m)

	case *actors.WorkerChanged: // of the workers
		p.workers.workerChanged(m)
	case *actors.WorkerEnded:
		p.workers.workerEnded(m)
	case *actors.EchoAnswered:
		p.workers.echo.answered(p.workers, m)
	case *leakChange:
		p.workers.leakChanged(m)

	case *Beat: // of the node
		p.workers.beat(m)
	case *NodeUp: // it reports by itself where it follows
	case *NodeDown:
		p.nodeDown(m)
	case *Elsewhere:
		p.router.elsewhere(m)
	case *StoreStands:
		p.router.step(roster.Store{Away: m.Away})
	case *Halt:
		p.link.halted(m.Why)
	case *Led:
		p.link.led(m)

	case *Cordon: // of operators
		p.cordon(m)
	case *CancelAgain:
		p.workers.CancelRun(m.Placement, m.Slot, m.By)
	case *KillWorker:
		p.workers.kill(m)
	case *ProbeWorker:
		p.workers.probeNow(m)
	case *DrainQuestion:
		p.startDrain(m)
	case *Replace:
		p.workers.replace(m)
	case *DescribeQuestion:
		m.Reply(p.describe(), nil)
	case *WhyQuestion:
		m.Reply(p.why(m.Ask.ID), nil)

	case *ReportQuestion: // of the pool on other nodes
		m.Reply(p.link.reported(&m.Ask), nil)
	case *PeerEndSession:
		p.link.endSessionHere(m)
	case *DeadLettered:
		p.workers.Expired(m.Slot, m.Placement)
	default:
		p.cfg.System.Registry.Unknown(ctx)
	}
	p.link.lookAtArrivals()
	p.drained()
	p.flush()
}

func (p *Pool) start(ctx actor.Context) {
	p.actor, p.self = ctx, ctx.Self()
	p.real = actors.NewWorld(p.cfg.System, p.self)
	p.world = p.real
	if p.memory.generations == nil {
		p.memory.generations, p.memory.pids = map[messages.Slot]messages.Generation{}, map[messages.Slot]int{}
		p.memory.cordoned = map[messages.Slot]bool{}
	}
	p.workers, p.link, p.router = newWorkers(&p.shell), newLink(&p.shell), newRouter(&p.shell)
	p.workers.link, p.router.link = p.link, p.link
	p.link.workers, p.link.router = p.workers, p.router
	p.link.start()
	p.workers.start()
	p.link.showMode()
	p.nextTick()
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
	p.real.End()
	stopTimer(p.tick)
	p.router.stop()
	p.workers.stop()
	p.link.stop()
}

// flush hands on what was gathered: one record, one publish, the acks, and the report to the router.
func (p *Pool) flush() {
	if len(p.items) > 0 {
		p.send(p.cfg.Recorder, &actors.Record{Items: p.items, Pool: p.self})
		p.items = nil
	}
	p.router.flush()
	for _, d := range p.acks {
		// A delivery whose connection is gone comes again, and its claim finds what stands in the row.
		_ = d.Ack()
	}
	p.acks = p.acks[:0]
	p.link.outbox.report()
}

func (p *Pool) nextTick() { p.tick = p.world.After(time.Second, p.ticked) }

// ticked is the pool's regular second.
func (p *Pool) ticked() {
	p.link.Halt()
	p.router.step(roster.Tick{})
	now := p.world.Now()
	p.link.ticked(now)
	p.workers.ticked(now)
	p.nextTick()
}

// offered answers an offer with what the router accepts of it: one hop, whichever part answers.
func (p *Pool) offered(o *Offer) {
	if !o.take() {
		return
	}
	p.link.TellArrivals() // they are before it
	o.answer <- p.router.offered(o.candidates)
}

// terminated hears that an actor is gone. The news overtakes the actor's own last word, WorkerEnded, which may still
// stand in the mailbox; so unless a panic is known, it is judged behind what stands there now.
func (p *Pool) terminated(m *actor.Terminated) {
	if m.Who.Id == p.cfg.Delivery.Id {
		p.world.After(attachWait, p.link.attachAgain)
		return
	}
	if _, failed := p.cfg.System.Registry.Failure(m.Who.Id); failed {
		p.workers.vanished(m.Who.Id)
		return
	}
	p.world.After(0, func() { p.workers.vanished(m.Who.Id) })
}

// delivered takes messages from the bridge. An echo goes to its worker, all else is work.
func (p *Pool) delivered(m *actors.Delivered) {
	for _, d := range m.Deliveries {
		if id, echo := d.Headers[echoHeader]; echo {
			p.ack(d)
			p.workers.echo.delivered(p.workers, d.ID, id)
			continue
		}
		p.link.delivered(d)
	}
}

// nodeDown hears that another incarnation has ended.
func (p *Pool) nodeDown(m *NodeDown) {
	p.router.nodeDown(m.Node.Incarnation)
	p.memory.losses.read(&p.shell) // it may have been the boot before this one
	p.link.nodeDown(m.Node.Incarnation)
}

// cordon takes operators' word on a worker, the pool or the node.
func (p *Pool) cordon(m *Cordon) {
	p.workers.cordon(m)
	if !m.Node && m.Slot < 0 {
		p.router.cordoned = m.Cordoned
	}
}

// why says why an execution is not running, or who knows.
func (p *Pool) why(id messages.ExecutionID) WhyAnswer {
	if router, _ := p.link.mode.Router(); p.link.mode.Mode() == lead.Following {
		return WhyAnswer{Reason: roster.NotLoaded, Router: router}
	}
	answer := WhyAnswer{Reason: p.router.roster.Why(p.world.Now(), id)}
	if answer.Reason == roster.PoolBroken {
		answer.Detail, _ = p.workers.brokenWhy()
	}
	return answer
}

func (p *Pool) describe() Description {
	d := p.workers.describe()
	d.Router, d.Lead = p.router.roster.Snapshot(), p.link.leading()
	return d
}
