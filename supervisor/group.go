package supervisor

import (
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/actors"
)

// The intensity of a group: more failures of its children than this in the period, and the group itself fails, which
// its own supervisor judges.
const (
	groupIntensity = 5
	groupPeriod    = 10 * time.Second
)

// GroupConfig is a supervisor's children, in the order in which they are started.
type GroupConfig struct {
	System   *actors.System
	Name     string
	Logger   hclog.Logger
	Children []ChildSpec
	// Added keeps the children that are added while the group runs, so that they come back with it when it fails; nil:
	// they are gone with it.
	Added *Added
	// Fatal, where set, is called instead of failing when the intensity is exceeded: the top of the tree has nobody
	// above it.
	Fatal func(error)
	// Fenced, where set, is told that the node has to give itself up. The top of the tree has it.
	Fenced func(why string)
}

// ChildSpec makes a child, anew for each start.
type ChildSpec func() actors.Child

// Added are the children that were added to a group. It outlives the group's actor and belongs to it alone.
type Added struct {
	ids   []string // in the order in which they were added
	specs map[string]ChildSpec
}

func (a *Added) add(id string, spec ChildSpec) {
	if a == nil {
		return
	}
	if a.specs == nil {
		a.specs = map[string]ChildSpec{}
	}
	a.ids = append(a.ids, id)
	a.specs[id] = spec
}

func (a *Added) forget(id string) {
	if a != nil {
		delete(a.specs, id)
		a.ids = slices.DeleteFunc(a.ids, func(known string) bool { return known == id })
	}
}

// all are the specs in their order.
func (a *Added) all() []ChildSpec {
	if a == nil {
		return nil
	}
	specs := make([]ChildSpec, 0, len(a.ids))
	for _, id := range a.ids {
		specs = append(specs, a.specs[id])
	}
	return specs
}

// Group supervises one for one: a child that ends without having been told to is started again at once under its own
// name, so that addresses stay good.
type Group struct {
	cfg      GroupConfig
	cell     *actors.Cell
	world    *actors.RealWorld
	children map[string]ChildSpec // by the actor's id
	failures []time.Time
	restarts int
	stopping bool
}

// Messages of a group.
type (
	// AddChild starts one more child.
	AddChild struct{ Spec ChildSpec }
	// ForgetChild says that the child will be stopped and is not to be started again.
	ForgetChild struct{ PID *actor.PID }
)

// AddQuestion asks to add a child and answers with its address.
type AddQuestion = actors.Question[AddChild, *actor.PID]

// ForgetQuestion asks to forget a child. It is answered before the child is stopped: the news of a child's end would
// overtake a mere message.
type ForgetQuestion = actors.Question[ForgetChild, struct{}]

// StartedQuestion is answered once the group's children have been started.
type StartedQuestion = actors.Question[struct{}, struct{}]

// NewGroup returns the child to spawn.
func NewGroup(cfg GroupConfig) actors.Child {
	cell := &actors.Cell{}
	return actors.Child{Name: cfg.Name, Kind: "supervisor", Cell: cell, New: func() actor.Actor {
		return &Group{cfg: cfg, cell: cell, children: map[string]ChildSpec{}}
	}}
}

// Receive implements actor.Actor.
func (g *Group) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		g.world = actors.NewWorld(g.cfg.System, ctx.Self())
		for _, spec := range append(slices.Clone(g.cfg.Children), g.cfg.Added.all()...) {
			if _, err := g.spawn(ctx, spec); err != nil {
				panic(err)
			}
		}
	case *actor.Stopping:
		g.stopping = true
		g.world.End()
	case *actor.Stopped:
	case *actor.Terminated:
		g.terminated(ctx, m.Who)
	case *AddQuestion:
		if g.stopping { // one more child would keep the group from its end
			m.Reply(nil, fmt.Errorf("group %s is being stopped: %w", g.cfg.Name, actors.ErrGone))
			return
		}
		pid, err := g.spawn(ctx, m.Ask.Spec)
		if err == nil {
			g.cfg.Added.add(pid.Id, m.Ask.Spec)
		}
		m.Reply(pid, err)
	case *Fenced:
		if g.cfg.Fenced != nil {
			g.cfg.Fenced(m.Why)
		}
	case *StartedQuestion:
		m.Reply(struct{}{}, nil)
	case *ForgetQuestion:
		delete(g.children, m.Ask.PID.Id)
		g.cfg.Added.forget(m.Ask.PID.Id)
		m.Reply(struct{}{}, nil)
	default:
		g.cfg.System.Registry.Unknown(ctx)
	}
}

func (g *Group) spawn(ctx actor.Context, spec ChildSpec) (*actor.PID, error) {
	pid, err := g.cfg.System.Spawn(ctx, spec())
	if err == nil {
		g.children[pid.Id] = spec
	}
	return pid, err
}

// terminated starts a failed child again, unless children fail too often.
func (g *Group) terminated(ctx actor.Context, who *actor.PID) {
	spec, ours := g.children[who.Id]
	if !ours || g.stopping {
		return
	}
	failure, _ := g.cfg.System.Registry.Failure(who.Id)
	g.restarts++
	g.cell.Update(func(s *actors.Status) { s.Restarts, s.LastFailure = g.restarts, who.Id+": "+failure.Reason })
	g.cfg.Logger.Error("actor failed, starting it again", "actor", who.Id, "reason", failure.Reason)
	if g.exceeded(g.world.Now()) {
		err := fmt.Errorf("%s: more than %d failures in %s, the last of %s: %s", g.cfg.Name, groupIntensity, groupPeriod, who.Id, failure.Reason)
		if g.cfg.Fatal != nil {
			g.cfg.Fatal(err)
			return
		}
		panic(err)
	}
	if _, err := g.spawn(ctx, spec); err != nil {
		panic(err)
	}
}

func (g *Group) exceeded(now time.Time) bool {
	g.failures = slices.DeleteFunc(g.failures, func(at time.Time) bool { return now.Sub(at) >= groupPeriod })
	g.failures = append(g.failures, now)
	return len(g.failures) > groupIntensity
}
