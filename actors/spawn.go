package actors

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"
)

// Parent is what can have children: an actor's context, or a System for the top of a tree.
type Parent interface {
	SpawnNamed(props *actor.Props, id string) (*actor.PID, error)
}

// Child is what Spawn needs to know of a new actor.
type Child struct {
	// Name is the last part of the actor's id, unique among its living siblings.
	Name string
	// Kind is the word for what it is, shown in the tree: pool, worker, recorder, …
	Kind string
	// New makes the actor. It runs in the spawner's goroutine and may run in vain, so it must have no side effects.
	New func() actor.Actor
	// Cell, where set, is what the actor shows of itself; nil gives it one that says nothing.
	Cell *Cell
	// Keep, where set, sees each message as it is posted, also while the actor is being started again, when a mailbox
	// would lose it. One that it keeps is not queued; the signal is, where it is not nil.
	Keep Keep
}

// Keep takes messages that must outlive their actor. It is called in the senders' goroutines.
type Keep func(message any) (signal any, kept bool)

// System is one actor system and the registry of its actors.
type System struct {
	Actors     *actor.ActorSystem
	Registry   *Registry
	top        *actor.RootContext
	dispatcher *dispatcher
	spawners   sync.Pool // of *spawner
}

// spawner makes one actor after another. The library keeps an actor's properties, some 230 bytes, for as long as the actor lives, and asks
// them for the actor and its mailbox only while it spawns it: nothing is restarted in place. So all actors that a spawner has made
// share its properties, and there are as many spawners as actors are spawned at once.
type spawner struct {
	props *actor.Props
	next  *entry // that is being spawned
}

func (s *System) newSpawner() any {
	p := &spawner{}
	p.props = actor.PropsFromProducer(
		func() actor.Actor { return p.next },
		actor.WithMailbox(func() actor.Mailbox { return p.next }),
		actor.WithSupervisor(stopStrategy{s.Registry}),
	)
	return p
}

// registryParts is among how many maps, of 32 locks each, the library's registry divides its actors. It has 1,024, which is a lock and most
// of a map for each of 10,000 actors: 250 bytes of each, and 3 MiB without any.
const registryParts = 32

// shrinkRegistry has the library's registry use fewer maps. The system must not be in use yet.
func shrinkRegistry(r *actor.ProcessRegistryValue) {
	all := r.LocalPIDs.LocalPIDs
	r.LocalPIDs = &actor.SliceMap{LocalPIDs: slices.Clone(all[:registryParts])}
	for _, part := range all[registryParts:] {
		part.IterCb(func(id string, process any) { r.LocalPIDs.GetBucket(id).Set(id, process) })
	}
}

// NewSystem makes an actor system whose library log goes to logger at trace level, without payloads.
func NewSystem(logger hclog.Logger) *System {
	registry := NewRegistry()
	sys := actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }),
		actor.WithDeadLetterRequestLogging(false),
		// Nothing is logged, so nothing needs throttling; each interval costs a goroutine that outlives the system.
		actor.WithDeadLetterThrottleInterval(time.Millisecond),
	)
	sys.EventStream.Subscribe(func(event any) {
		if dead, ok := event.(*actor.DeadLetterEvent); ok {
			if keep := registry.keeper(dead.PID); keep != nil {
				if _, kept := keep(dead.Message); kept {
					return
				}
			}
			registry.deadLetter(fmt.Sprintf("%T", dead.Message))
			logger.Trace("message to a gone actor", "actor", dead.PID.GetId(), "type", fmt.Sprintf("%T", dead.Message))
		}
	})
	shrinkRegistry(sys.ProcessRegistry)
	s := &System{Actors: sys, Registry: registry, dispatcher: newDispatcher()}
	s.spawners.New = s.newSpawner
	s.top = sys.Root.Copy().WithGuardian(stopStrategy{registry})
	return s
}

// SpawnNamed makes System a Parent.
func (s *System) SpawnNamed(props *actor.Props, id string) (*actor.PID, error) {
	return s.top.SpawnNamed(props, id)
}

// Send posts a message from outside the tree. A nil pid is counted as a dead letter.
func (s *System) Send(pid *actor.PID, message any) {
	if pid == nil {
		s.Registry.deadLetter(fmt.Sprintf("%T", message))
		return
	}
	s.Actors.Root.Send(pid, message)
}

// Stop has an actor stop behind the message that it handles. What waits in its mailbox is lost.
func (s *System) Stop(pid *actor.PID) { s.Actors.Root.Stop(pid) }

// Spawn starts an actor below parent. It fails only when a living sibling has the name.
func (s *System) Spawn(parent Parent, c Child) (*actor.PID, error) {
	cell := c.Cell
	if cell == nil {
		cell = &Cell{}
	}
	next := &entry{
		inner: c.New(), registry: s.Registry, kind: c.Kind, cell: cell, keep: c.Keep, mailbox: mailbox{dispatcher: s.dispatcher},
	}
	p := s.spawners.Get().(*spawner)
	p.next = next
	pid, err := parent.SpawnNamed(p.props, c.Name)
	p.next = nil
	s.spawners.Put(p)
	if err != nil {
		return nil, fmt.Errorf("spawn %s %s: %w", c.Kind, c.Name, err)
	}
	return pid, nil
}

// stopStrategy stops a child that failed. Its parent hears Terminated and decides what follows.
type stopStrategy struct{ registry *Registry }

func (s stopStrategy) HandleFailure(_ *actor.ActorSystem, supervisor actor.Supervisor, child *actor.PID,
	_ *actor.RestartStatistics, reason any, _ any,
) {
	s.registry.failed(child.Id, fmt.Sprint(reason))
	supervisor.StopChildren(child)
}

// Crash makes the actor that gets it panic, so that its supervisor judges. It carries the panic of a goroutine that
// works beside an actor to that actor (see System.Carry); tests send it to see a tree recover.
type Crash struct{ Reason string }

// Carry takes a panic of the goroutine that defers it to the actor that the goroutine works beside: the actor fails in
// its stead, and its supervisor starts it again. Without it one such panic would end the node.
func (s *System) Carry(pid *actor.PID) {
	if r := recover(); r != nil {
		s.Send(pid, &Crash{Reason: fmt.Sprintf("beside the actor: %v", r)})
	}
}

// Contain runs a part of an actor's work for which one message alone is to blame, and returns its panic as an error; nil: there
// was none. A message that could fail its actor again each time that it comes back would hold up all others.
func Contain(f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	f()
	return nil
}
