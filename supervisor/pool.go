package supervisor

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/rules/lead"
	"github.com/troupe-run/troupe/rules/roster"
	"github.com/troupe-run/troupe/supervisor/link"
	"github.com/troupe-run/troupe/supervisor/part"
	"github.com/troupe-run/troupe/supervisor/router"
	"github.com/troupe-run/troupe/supervisor/workers"
)

// Pool is one pool on one node: the actor in whose mailbox its three parts meet. Workers supervises, Router places, and Link
// carries the workers' reports to the router, here or on another node, and the router's orders back.
type Pool struct {
	part.Shared

	cell    *actors.Cell
	memory  *Memory
	real    *actors.RealWorld
	workers *workers.Workers
	link    *link.Link
	router  *router.Router

	openings *Openings
	drain    *drain
	stopping bool
	tick     actors.Timer
}

// NewPool returns the child to spawn. The memory and the openings outlive the actor.
func NewPool(cfg PoolConfig, memory *Memory, openings *Openings) actors.Child {
	cell := &actors.Cell{}
	return actors.Child{Name: cfg.Name, Kind: "pool", Cell: cell, New: func() actor.Actor {
		own := cfg
		return &Pool{Shared: part.Shared{Config: &own}, cell: cell, memory: memory, openings: openings}
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
		p.wake(m)
	case *Offer:
		p.offered(m)
	case *Settled:
		p.router.Settle(m.Results)

	case *actors.Committed: // of the recorder and the delivery bridge
		p.link.Committed(m)
	case *actors.Delivered:
		p.delivered(m)
	case *actors.Attached:
		p.link.QueueAttached(m)

	case *actors.WorkerChanged: // of the workers
		p.workers.WorkerChanged(m)
	case *actors.WorkerEnded:
		p.workers.WorkerEnded(m)
	case *actors.EchoAnswered:
		p.workers.EchoAnswered(m)
	case *workers.LeakChange:
		p.workers.LeakChanged(m)

	case *Beat: // of the node
		p.workers.Beat(m.At)
	case *NodeUp: // it reports by itself where it follows
	case *NodeDown:
		p.nodeDown(m)
	case *Elsewhere:
		p.router.Elsewhere(m.Beats)
	case *StoreStands:
		p.router.StoreStands(m.Away)
	case *Halt:
		p.link.Halted(m.Why)
	case *Led:
		p.link.Led(m.Router, m.Name, m.Epoch)

	case *Cordon: // of operators
		p.cordon(m)
	case *CancelAgain:
		p.workers.CancelRun(m.Slot, &actors.CancelRun{Placement: m.Placement, By: m.By, Peer: m.Peer})
	case *KillWorker:
		p.workers.Kill(m.Slot, m.Generation, m.By)
	case *ProbeWorker:
		p.workers.Probe(m.Slot, m.Answer)
	case *DrainQuestion:
		p.startDrain(m)
	case *Replace:
		p.workers.Replace(&m.Config, m.Mended, m.By)
	case *DescribeQuestion:
		m.Reply(p.describe(m.Ask), nil)
	case *WhyQuestion:
		m.Reply(p.why(&m.Ask), nil)

	case *ReportQuestion: // of the pool on other nodes
		m.Reply(p.link.Reported(m.Ask.From, &m.Ask.Report), nil)
	case *PeerEndSession:
		p.link.EndSessionHere(m.From, &m.Tell)
	case *DeadLettered:
		p.workers.Expired(m.Slot, m.Placement)
	default:
		p.Config.System.Registry.Unknown(ctx)
	}
	p.link.LookAtArrivals()
	p.drained()
	p.flush()
}

func (p *Pool) start(ctx actor.Context) {
	p.Actor, p.Self = ctx, ctx.Self()
	p.real = actors.NewWorld(p.Config.System, p.Self)
	p.World = p.real
	generations, processes := p.memory.Left()
	p.link = link.New(&p.Shared, link.Left{Generations: generations, Processes: processes})
	p.workers, p.router = workers.New(&p.Shared, p.memory, p.cell, p.link), router.New(&p.Shared, p.link)
	p.link.Connect(p.workers, p.router)
	p.link.Start()
	p.workers.Start()
	p.link.ShowMode()
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
	p.openings.left.Store(0)
	p.real.End()
	part.StopTimer(p.tick)
	p.router.Stop()
	p.workers.Stop()
	p.link.Stop()
}

// flush hands on what was gathered: one record, one publish, the acks, and the report to the router.
func (p *Pool) flush() {
	p.router.Flush() // it may have more to record
	if len(p.Items) > 0 {
		p.Send(p.Config.Recorder, &actors.Record{Items: p.Items, Pool: p.Self})
		p.Items = nil
	}
	for _, d := range p.Acks {
		// A delivery whose connection is gone comes again, and its claim finds what stands in the row.
		_ = d.Ack()
	}
	p.Acks = p.Acks[:0]
	p.link.SendReport()
	p.openings.left.Store(int32(p.router.Openings()))
}

func (p *Pool) nextTick() { p.tick = p.World.After(time.Second, p.ticked) }

// ticked is the pool's regular second.
func (p *Pool) ticked() {
	p.link.Halt()
	p.router.Tick()
	now := p.World.Now()
	p.link.Tick(now)
	p.workers.Tick(now)
	p.nextTick()
}

// wake hears of work that has just been stored, or that work may be due.
func (p *Pool) wake(m *Wake) {
	if len(m.Arrived) > 0 {
		p.link.Arrive(m.Arrived, m.Many)
		return
	}
	p.link.Wake(m.Heard)
}

// offered answers an offer with what the router accepts of it: one hop, whichever part answers.
func (p *Pool) offered(o *Offer) {
	if !o.take() {
		return
	}
	p.link.TellArrivals() // they are before it
	o.answer <- p.router.Offered(o.candidates)
}

// terminated hears that an actor is gone. The news overtakes the actor's own last word, WorkerEnded, which may still
// stand in the mailbox; so unless a panic is known, it is judged behind what stands there now.
func (p *Pool) terminated(m *actor.Terminated) {
	if m.Who.Id == p.Config.Delivery.Id {
		p.link.BridgeEnded()
		return
	}
	if _, failed := p.Config.System.Registry.Failure(m.Who.Id); failed {
		p.workers.Vanished(m.Who.Id)
		return
	}
	p.World.After(0, func() { p.workers.Vanished(m.Who.Id) })
}

// delivered takes messages from the bridge. An echo goes to its worker, all else is work.
func (p *Pool) delivered(m *actors.Delivered) {
	for _, d := range m.Deliveries {
		if id, echo := d.Headers[actors.EchoHeader]; echo {
			p.Ack(d)
			p.workers.EchoDelivered(d.ID, id)
			continue
		}
		p.link.Delivered(d)
	}
}

// nodeDown hears that another incarnation has ended.
func (p *Pool) nodeDown(m *NodeDown) {
	p.router.NodeDown(m.Node.Incarnation)
	p.workers.NodeDown()
	p.link.NodeDown(m.Node.Incarnation)
}

// cordon takes operators' word on a worker, the pool or the node.
func (p *Pool) cordon(m *Cordon) {
	if m.Node {
		p.workers.CordonNode(m.Cordoned)
		return
	}
	p.workers.Cordon(m.Slot, m.Cordoned)
	if m.Slot < 0 {
		p.router.Cordon(m.Cordoned)
	}
}

// why says why an execution is not running, or who knows.
func (p *Pool) why(of *WhyWaiting) WhyAnswer {
	if l := p.link.Leading(); l.Mode == lead.Following {
		return WhyAnswer{Reason: roster.NotLoaded, Router: l.Router}
	}
	answer := WhyAnswer{Reason: p.router.Why(of.ID), Turn: p.router.Turn(of.ID, of.Priority, of.Seq)}
	if answer.Reason == roster.PoolBroken {
		answer.Detail, _ = p.workers.BrokenWhy()
	}
	return answer
}

func (p *Pool) describe(m Describe) Description {
	d := p.workers.Describe(m.Used)
	d.Router, d.Lead = p.router.Snapshot(), p.link.Leading()
	if m.Seen {
		d.Seen = p.router.Seen()
	}
	if m.Waits {
		d.Waits = p.router.Waits()
	}
	return d
}
