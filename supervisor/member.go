package supervisor

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/membership"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor/part"
)

// MemberConfig is what the membership actor needs.
type MemberConfig struct {
	System      *actors.System
	Store       store.Nodes
	Incarnation messages.Incarnation
	LeaseTime   time.Duration
	// Machine decides; it outlives the actor. Base is the moment that its clock counts from. Nodes are those that lived when
	// this one joined.
	Machine *membership.Machine
	Base    time.Time
	Nodes   []store.Node
	Lease   *actors.Lease
	// Root is told when this node has to give itself up; Tell reaches every pool of the node.
	Root *actor.PID
	Tell func(message any)
	// GoOn says that processes may run for another lease from the given moment.
	GoOn func(from time.Time)
	// Heartbeats writes the workers' heartbeats; Rescue takes up what ended incarnations had.
	Heartbeats func(context.Context) error
	Rescue     func(context.Context) error
	// Peers asks incarnations, by their weight, whether they see the store; nil: nobody can be asked, so nobody contradicts that it
	// is away for everyone.
	Peers func(ctx context.Context, asked membership.Asked) membership.Heard
	// Refuses asks whether nothing listens at the addresses of the given incarnations, and returns those that refuse a connection; nil:
	// nobody's address is known. Lost brings a word for each connection to a peer that ended; nil: nobody says so.
	Refuses func(ctx context.Context, suspects []messages.Incarnation) []messages.Incarnation
	Lost    <-chan struct{}
	// Saw, where set, is told after every beat what the store, asked at asked, showed of the others (away: nothing, it did not
	// answer), and returns how this node stands with each of them now.
	Saw    func(asked time.Time, away bool, others []membership.Other, nodes []store.Node) map[messages.Incarnation]membership.Standing
	Logger hclog.Logger
}

// Member is the membership actor: it renews this node's lease beside everything else that the node does, tells who else
// lives, and gives the node up when it cannot prove that it is alive.
type Member struct {
	cfg      MemberConfig
	cell     *actors.Cell
	world    *actors.RealWorld
	timer    actors.Timer
	nodes    map[messages.Incarnation]store.Node
	rescuing bool
	again    bool // another rescue is wanted after the one under way
	stood    map[messages.Incarnation]membership.Reach
	ended    map[messages.Incarnation]store.NodeEnd // of those that this node has just declared dead, while the step about them is taken
	claimed  map[messages.Incarnation]store.NodeEnd // of those that it is declaring dead: a beat may miss them before the answer comes
}

// pulsed is what came of a question to the store or to the peers.
type pulsed struct {
	event membership.Event
	nodes []store.Node
	dead  []store.Node // that this node has declared dead
	err   error
}

// NewMember returns the child to spawn.
func NewMember(cfg MemberConfig) actors.Child {
	cell := &actors.Cell{}
	return actors.Child{Name: "membership", Kind: "membership", Cell: cell, New: func() actor.Actor {
		return &Member{
			cfg: cfg, cell: cell, nodes: map[messages.Incarnation]store.Node{}, stood: map[messages.Incarnation]membership.Reach{},
			ended: map[messages.Incarnation]store.NodeEnd{}, claimed: map[messages.Incarnation]store.NodeEnd{},
		}
	}}
}

// Receive implements actor.Actor.
func (m *Member) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		m.start(ctx)
	case *actor.Stopping:
		m.world.End()
		part.StopTimer(m.timer)
	case *actor.Stopped:
	case *actors.Resume:
		m.world.Resume(msg)
	default:
		m.cfg.System.Registry.Unknown(ctx)
	}
}

func (m *Member) start(ctx actor.Context) {
	m.world = actors.NewWorld(m.cfg.System, ctx.Self())
	m.meet(m.cfg.Nodes)
	m.hearRefusals()
	if m.cfg.Lost != nil {
		m.hearLosses()
	}
	m.step(membership.Resumed{})
}

// hearRefusals brings the news of refused claims.
func (m *Member) hearRefusals() {
	m.world.Beside(0, func(ctx context.Context) func() {
		select {
		case <-m.cfg.Lease.Refused():
			return func() {
				m.hearRefusals()
				m.pulsed(&pulsed{event: membership.Refused{}})
			}
		case <-ctx.Done():
			return nil
		}
	})
}

// now is the time as the machine counts it.
func (m *Member) now() time.Duration { return m.world.Now().Sub(m.cfg.Base) }

// step gives the machine one event and carries out what it wants.
func (m *Member) step(e membership.Event) {
	for _, effect := range m.cfg.Machine.Step(m.now(), e) {
		m.do(effect)
	}
	m.show()
	part.StopTimer(m.timer)
	if m.cfg.Machine.State() != membership.Fenced {
		wait := max(m.cfg.Machine.Next()-m.now(), time.Millisecond)
		m.timer = m.world.After(wait, func() { m.step(membership.Tick{}) })
	}
}

func (m *Member) do(effect membership.Effect) {
	switch e := effect.(type) {
	case membership.Beat:
		m.beside(m.cfg.LeaseTime/2, func(ctx context.Context) *pulsed { return m.beat(ctx, e.Heartbeats) })
	case membership.Grant:
		// First since when: a renewal after a gap must at no moment look like one of many.
		m.cfg.Lease.Steady(m.cfg.Base.Add(e.Steady), m.cfg.LeaseTime)
		m.cfg.Lease.Grant(m.cfg.Base.Add(e.Asked), m.cfg.LeaseTime)
		m.cfg.GoOn(m.cfg.Base.Add(e.Asked))
	case membership.GoOn:
		m.cfg.GoOn(m.world.Now())
	case membership.AskPeers:
		m.askPeers()
	case membership.Knock:
		m.knock(e.Incarnations)
	case membership.Declare:
		m.beside(m.cfg.LeaseTime/2, m.declare)
	case membership.DeclareGone:
		m.declareGone(e.Gone)
	case membership.Rescue:
		m.rescue()
	case membership.Up:
		m.cfg.Logger.Info("node is up", "node", m.nodes[e.Incarnation].Name, "incarnation", e.Incarnation)
		m.cfg.Tell(&NodeUp{Node: m.node(e.Incarnation)})
	case membership.Down:
		down := m.node(e.Incarnation)
		down.Ended = cmp.Or(m.ended[e.Incarnation], m.claimed[e.Incarnation])
		m.cfg.Logger.Warn("node is down", "node", down.Name, "incarnation", e.Incarnation, "reason", endText(down.Ended))
		m.cfg.Tell(&NodeDown{Node: down})
		delete(m.nodes, e.Incarnation)
	case membership.Stands:
		m.stands(e.Away)
	case membership.Fence:
		m.cfg.Lease.Cut()
		m.cfg.System.Send(m.cfg.Root, &Fenced{Why: e.Why})
	}
}

func (m *Member) node(inc messages.Incarnation) store.Node {
	n := m.nodes[inc]
	n.Incarnation = inc
	return n
}

func (m *Member) stands(away bool) {
	if away {
		m.cfg.Logger.Warn("lease not renewed: the store does not answer")
	} else {
		m.cfg.Logger.Info("lease renewed: the store answers again")
	}
	m.cfg.Tell(&StoreStands{Away: away})
}

// beside runs I/O next to the actor, bounded in time, and takes its answer.
func (m *Member) beside(limit time.Duration, do func(context.Context) *pulsed) {
	m.world.Beside(limit, func(ctx context.Context) func() {
		p := do(ctx)
		return func() { m.pulsed(p) }
	})
}

// beat renews the lease. Its time counts from before the store was asked.
func (m *Member) beat(ctx context.Context, heartbeats bool) *pulsed {
	asked := m.now()
	pulse, err := m.cfg.Store.Beat(ctx, m.cfg.Incarnation, m.cfg.LeaseTime)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return &pulsed{event: membership.FoundDead{}, err: err}
	case err != nil:
		return &pulsed{event: membership.Unanswered{}, err: err}
	}
	if heartbeats {
		if err := m.cfg.Heartbeats(ctx); err != nil {
			return &pulsed{event: membership.Unanswered{}, err: err}
		}
	}
	return &pulsed{event: Pulse(asked, m.cfg.Incarnation, m.cfg.LeaseTime, pulse), nodes: pulse.Nodes}
}

// Pulse is what a renewal that was asked for at asked means to the machine.
func Pulse(asked time.Duration, own messages.Incarnation, lease time.Duration, p store.Pulse) membership.Renewed {
	e := membership.Renewed{Asked: asked, Others: others(own, p)}
	if since := steadySince(own, p); !since.IsZero() {
		e.SteadyFor = p.At.Sub(since)
		e.Steady = e.SteadyFor >= lease
	}
	return e
}

// Joined is what the renewal means to the machine with which the incarnation joined.
func Joined(own messages.Incarnation, p store.Pulse) membership.Joined {
	return membership.Joined{Leases: !steadySince(own, p).IsZero(), Others: others(own, p)}
}

// steadySince is since when the own lease has been renewed without a gap; zero: the store evaluates none, and does not know.
func steadySince(own messages.Incarnation, p store.Pulse) (at time.Time) {
	for i := range p.Nodes {
		if p.Nodes[i].Incarnation == own {
			at = p.Nodes[i].SteadySince
		}
	}
	return at
}

func others(own messages.Incarnation, p store.Pulse) (all []membership.Other) {
	for i := range p.Nodes {
		if n := &p.Nodes[i]; n.Incarnation != own {
			all = append(all, membership.Other{
				Incarnation: n.Incarnation, Lapsed: !n.LeaseUntil.After(p.At), Renewed: n.BeatAt, Trace: trace(n, own, p),
			})
		}
	}
	return all
}

// meet keeps the rows of the others.
func (m *Member) meet(nodes []store.Node) {
	for i := range nodes {
		if nodes[i].Incarnation != m.cfg.Incarnation {
			m.nodes[nodes[i].Incarnation] = nodes[i]
		}
	}
}

func (m *Member) pulsed(p *pulsed) {
	m.meet(p.nodes)
	for i := range p.dead {
		m.ended[p.dead[i].Incarnation] = p.dead[i].Ended
	}
	if p.err != nil {
		m.cell.Update(func(s *actors.Status) { s.LastFailure = p.err.Error() })
		m.cfg.Logger.Debug("beat not taken", "error", p.err)
	}
	m.step(p.event)
	clear(m.ended)
	if _, answered := p.event.(membership.Declared); answered {
		clear(m.claimed)
	}
	m.saw(p)
}

// saw says how this node stands with the others, and logs each change once.
func (m *Member) saw(p *pulsed) {
	renewed, answered := p.event.(membership.Renewed)
	if _, failed := p.event.(membership.Unanswered); m.cfg.Saw == nil || !answered && !failed {
		return
	}
	standings := m.cfg.Saw(m.cfg.Base.Add(renewed.Asked), !answered, renewed.Others, p.nodes)
	for inc, now := range standings {
		before, known := m.stood[inc]
		m.stood[inc] = now.Reach
		if now.Reach == before && known || !known && !news(now.Reach) {
			continue
		}
		tell := m.cfg.Logger.Info
		if news(now.Reach) {
			tell = m.cfg.Logger.Warn
		}
		tell("node stands otherwise with a peer", "node", m.nodes[inc].Name, "incarnation", inc, "reach", now.Reach.String(), "reason", now.Why)
	}
	for inc := range m.stood {
		if _, lives := standings[inc]; !lives {
			delete(m.stood, inc)
		}
	}
}

// news reports whether a reach is worth a warning.
func news(r membership.Reach) bool {
	return r != membership.Reached && r != membership.NotHeard && r != membership.ByStore
}

// askShare is how long the peers are asked, as a share of the lease in percent. They are first asked at 80 % of it, and
// what they say must be known before it ends.
const askShare = 15

func (m *Member) askPeers() {
	ask, of := m.cfg.Peers, m.cfg.Machine.Asked()
	m.beside(m.cfg.LeaseTime*askShare/100, func(ctx context.Context) *pulsed {
		if ask == nil {
			return &pulsed{event: membership.Heard{}}
		}
		return &pulsed{event: ask(ctx, of)}
	})
}

// rescueTime bounds one rescue; what it leaves is the sweep's.
const rescueTime = 30 * time.Second

// rescue takes up the work of ended incarnations in the beat that saw them end.
func (m *Member) rescue() {
	if m.rescuing {
		m.again = true
		return
	}
	m.rescuing = true
	m.world.Beside(rescueTime, func(ctx context.Context) func() {
		err := m.cfg.Rescue(ctx)
		return func() { m.rescued(err) }
	})
}

func (m *Member) rescued(err error) {
	m.rescuing = false
	if err != nil {
		m.cfg.Logger.Warn("work of an ended node not given back, the next sweep does", "error", err)
	}
	if m.again {
		m.again = false
		m.rescue()
	}
}

// show says where the member stands.
func (m *Member) show() {
	state := m.cfg.Machine.State().String()
	m.cell.Update(func(s *actors.Status) {
		if s.State != state {
			s.State, s.Since = state, m.world.Now()
		}
		switch {
		case m.cfg.Machine.State() == membership.Outage:
			s.Why = "the store is away for everyone; running work goes on"
		case m.cfg.Machine.Away():
			s.Why = "the store does not answer"
		default:
			s.Why = ""
		}
	})
}
