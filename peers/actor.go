package peers

import (
	"context"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/membership"
)

// ActorConfig is what the peers actor needs.
type ActorConfig struct {
	System  *actors.System // the node's, not the network's
	Network *Network
	Every   time.Duration // between two rounds [2 s]
	// Stands, where set, returns how the node stands with a peer by everything that the node knows.
	Stands func(messages.Incarnation) membership.Standing
	Logger hclog.Logger
}

// roundMax bounds the peers that are probed in one round. If there are more, they take turns.
const roundMax = 32

// Actor probes the peers periodically and shows how the node stands with them. The network outlives the actor.
type Actor struct {
	cfg     ActorConfig
	cell    *actors.Cell
	ctx     context.Context
	cancel  context.CancelFunc
	timer   *time.Timer
	turn    int // number of probed peers in all rounds
	suspect map[messages.Incarnation]bool
}

type (
	look    struct{}
	looked  struct{}
	changed struct{}
)

// NewActor returns the child to spawn.
func NewActor(cfg ActorConfig) actors.Child {
	if cfg.Every == 0 {
		cfg.Every = 2 * time.Second
	}
	cell := &actors.Cell{}
	return actors.Child{Name: "peers", Kind: "peers", Cell: cell, New: func() actor.Actor {
		return &Actor{cfg: cfg, cell: cell, suspect: map[messages.Incarnation]bool{}}
	}}
}

// Receive implements actor.Actor.
func (a *Actor) Receive(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *actor.Started:
		a.start(ctx)
	case *actor.Stopping:
		a.cancel()
		if a.timer != nil {
			a.timer.Stop()
		}
	case *actor.Stopped:
	case *look:
		a.look(ctx)
	case *looked:
		a.show() // the standing of a suspect peer also changes with its heartbeats
		a.again(ctx)
	case *changed:
		a.show()
	default:
		a.cfg.System.Registry.Unknown(ctx)
	}
}

func (a *Actor) start(ctx actor.Context) {
	a.ctx, a.cancel = context.WithCancel(context.Background())
	go a.hearChanges(a.ctx, ctx.Self())
	a.show()
	a.again(ctx)
}

// hearChanges sends the actor a message when a peer's standing changes.
func (a *Actor) hearChanges(ctx context.Context, self *actor.PID) {
	for {
		select {
		case <-a.cfg.Network.changed:
			a.cfg.System.Send(self, &changed{})
		case <-ctx.Done():
			return
		}
	}
}

func (a *Actor) again(ctx actor.Context) {
	self, system := ctx.Self(), a.cfg.System
	a.timer = time.AfterFunc(a.cfg.Every, func() { system.Send(self, &look{}) })
}

// look probes the peers whose turn it is. That keeps connections open for later requests, and finds lost ones.
func (a *Actor) look(ctx actor.Context) {
	all := a.cfg.Network.Peers()
	round := make([]messages.Incarnation, min(len(all), roundMax))
	for i := range round {
		round[i] = all[(a.turn+i)%len(all)].Incarnation
	}
	a.turn += len(round)
	self, system, network, parent, limit := ctx.Self(), a.cfg.System, a.cfg.Network, a.ctx, a.cfg.Every
	go func() {
		defer system.Carry(self)
		limited, cancel := context.WithTimeout(parent, limit)
		defer cancel()
		network.look(limited, round)
		system.Send(self, &looked{})
	}()
}

// show shows how the node stands with its peers, and logs each change once.
func (a *Actor) show() {
	all, reached := a.cfg.Network.Peers(), 0
	var oldest Peer
	suspect := map[messages.Incarnation]bool{}
	for _, p := range all {
		switch {
		case p.Suspect.IsZero() && p.Heard:
			reached++
		case p.Suspect.IsZero():
		default:
			suspect[p.Incarnation] = true
			if oldest.Suspect.IsZero() || p.Suspect.Before(oldest.Suspect) {
				oldest = p
			}
		}
		a.log(p)
	}
	a.suspect = suspect
	state, why := fmt.Sprintf("%d of %d reached", reached, len(all)), ""
	if !oldest.Suspect.IsZero() {
		since := oldest.Suspect.UTC().Format(time.RFC3339)
		why = fmt.Sprintf("%s at %s is suspect since %s: %s", oldest.Name, oldest.Address, since, oldest.Why)
		if a.cfg.Stands != nil {
			stands := a.cfg.Stands(oldest.Incarnation).Reach
			why += fmt.Sprintf("; %s: it %s", stands, stands.Sentence())
		}
	}
	a.cell.Update(func(s *actors.Status) {
		if s.State != state || s.Why != why {
			s.Since = time.Now()
		}
		s.State, s.Why = state, why
		if why != "" {
			s.Since = oldest.Suspect
		}
	})
}

func (a *Actor) log(p Peer) {
	switch before, now := a.suspect[p.Incarnation], !p.Suspect.IsZero(); {
	case now && !before:
		a.cfg.Logger.Warn("peer is suspect", "node", p.Name, "incarnation", p.Incarnation, "address", p.Address, "reason", p.Why)
	case before && !now:
		a.cfg.Logger.Info("peer answers again", "node", p.Name, "incarnation", p.Incarnation, "address", p.Address)
	}
}
