package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"
)

// ObserverConfig is what an observer needs.
type ObserverConfig struct {
	System *System
	Logger hclog.Logger
	Every  time.Duration // between two looks; 0: 2 s
	After  time.Duration // of one message with others behind it, until its actor counts as stuck; 0: 10 s
}

// Tree asks the observer for every live actor.
type Tree struct{}

// TreeQuestion asks for every live actor, by id.
type TreeQuestion = Question[Tree, []Info]

// Observer watches every live actor through the registry, without asking any, for those that are stuck: messages wait, and
// the one that is being handled does not end. It logs each change once and has the registry show it; it ends nothing,
// because an actor that hangs cannot be stopped, and a worker that does is found by its own timeouts.
type Observer struct {
	cfg   ObserverConfig
	cell  *Cell
	real  *RealWorld
	world World
	seen  map[string]progress // of actors whose messages wait
	timer Timer
}

// progress is how far an actor was when it was first seen there.
type progress struct {
	handled uint64
	since   time.Time
	stuck   bool
}

// NewObserver returns the child to spawn.
func NewObserver(cfg ObserverConfig) Child {
	if cfg.Every == 0 {
		cfg.Every = 2 * time.Second
	}
	if cfg.After == 0 {
		cfg.After = 10 * time.Second
	}
	cell := &Cell{}
	return Child{Name: "observer", Kind: "observer", Cell: cell, New: func() actor.Actor {
		return &Observer{cfg: cfg, cell: cell, seen: map[string]progress{}}
	}}
}

// Receive implements actor.Actor.
func (o *Observer) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		o.real = NewWorld(o.cfg.System, ctx.Self())
		o.begin(o.real)
	case *actor.Stopping:
		o.real.End()
		stopTimer(o.timer)
	case *actor.Stopped:
	case *Resume:
		o.real.Resume(m)
	case *TreeQuestion:
		m.Reply(o.cfg.System.Registry.Snapshot(), nil)
	default:
		o.cfg.System.Registry.Unknown(ctx)
	}
}

func (o *Observer) begin(world World) {
	o.world = world
	o.again()
}

func (o *Observer) again() {
	o.timer = o.world.After(o.cfg.Every, func() {
		o.look(o.world.Now())
		o.again()
	})
}

// look compares how far the actors with waiting messages have come since the last look.
func (o *Observer) look(now time.Time) {
	waiting := o.cfg.System.Registry.Waiting()
	seen := make(map[string]progress, len(waiting))
	stuck := map[string]time.Time{}
	for _, w := range waiting {
		p, known := o.seen[w.ID]
		if !known || p.handled != w.Handled {
			p = progress{handled: w.Handled, since: now}
		}
		if now.Sub(p.since) >= o.cfg.After {
			if !p.stuck {
				o.cfg.Logger.Warn("actor is stuck: it handles one message while others wait", "actor", w.ID, "since", p.since,
					"mailbox_depth", w.MailboxDepth)
			}
			p.stuck = true
			stuck[w.ID] = p.since
		}
		seen[w.ID] = p
	}
	for id, p := range o.seen {
		if _, still := stuck[id]; p.stuck && !still {
			o.cfg.Logger.Info("actor goes on", "actor", id, "stuck_since", p.since)
		}
	}
	o.seen = seen
	o.cfg.System.Registry.setStuck(stuck)
	o.cell.Update(func(s *Status) { s.State = "watching" })
}
