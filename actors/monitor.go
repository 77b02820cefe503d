package actors

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"
)

// MonitorConfig is one thing to do again and again.
type MonitorConfig struct {
	System *System
	Name   string
	Every  time.Duration
	// Jitter is the share of random spread around Every, 0 to 1. The first round comes after a jittered Every, or at
	// once where Now is set.
	Jitter float64
	Now    bool
	// Limit bounds one round; 0: 30 s.
	Limit  time.Duration
	Do     func(context.Context) error
	Logger hclog.Logger
}

// Monitor does one thing regularly, one round at a time, beside the actor. An error in one round is logged and shown,
// and the next round runs.
type Monitor struct {
	cfg    MonitorConfig
	cell   *Cell
	real   *RealWorld
	world  World
	timer  Timer
	failed int // rounds in a row
	busy   bool
	again  bool // another round is wanted after the one under way
}

// RoundNow asks a Monitor for a round at once, or right after the one under way.
type RoundNow struct{}

// NewMonitor returns the child to spawn.
func NewMonitor(cfg MonitorConfig) Child {
	cell := &Cell{}
	if cfg.Limit == 0 {
		cfg.Limit = 30 * time.Second
	}
	return Child{Name: cfg.Name, Kind: "monitor", Cell: cell, New: func() actor.Actor {
		return &Monitor{cfg: cfg, cell: cell}
	}}
}

// Receive implements actor.Actor.
func (m *Monitor) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		m.real = NewWorld(m.cfg.System, ctx.Self())
		m.begin(m.real)
	case *actor.Stopping:
		m.real.End()
		stopTimer(m.timer)
	case *actor.Stopped:
	case *Resume:
		m.real.Resume(msg)
	case *RoundNow:
		m.now()
	default:
		m.cfg.System.Registry.Unknown(ctx)
	}
}

func (m *Monitor) begin(world World) {
	m.world = world
	if m.cfg.Now {
		m.round()
		return
	}
	m.wait()
}

func (m *Monitor) now() {
	if m.busy {
		m.again = true
		return
	}
	m.round()
}

func (m *Monitor) wait() {
	spread := 1 + m.cfg.Jitter*(2*m.world.Random()-1)
	m.timer = m.world.After(time.Duration(float64(m.cfg.Every)*spread), m.round)
}

func (m *Monitor) round() {
	if m.busy { // its timer had run out when it was asked for a round
		return
	}
	m.busy, m.again = true, false
	stopTimer(m.timer)
	m.world.Beside(m.cfg.Limit, func(ctx context.Context) func() {
		start := m.world.Now()
		err := m.cfg.Do(ctx)
		took := m.world.Now().Sub(start)
		return func() { m.ended(err, took) }
	})
}

func (m *Monitor) ended(err error, took time.Duration) {
	m.cell.Update(func(s *Status) {
		s.State, s.Why = "idle", "last round took "+took.Round(time.Microsecond).String()
		if err != nil {
			s.LastFailure = err.Error()
		}
	})
	m.tell(err)
	m.busy = false
	if m.again {
		m.round()
		return
	}
	m.wait()
}

// tell logs the first failed round of a row, and its end.
func (m *Monitor) tell(err error) {
	switch {
	case err == nil && m.failed > 0:
		m.cfg.Logger.Info("monitor works again", "monitor", m.cfg.Name, "failed_rounds", m.failed)
		m.failed = 0
	case err != nil && m.failed == 0:
		m.cfg.Logger.Warn("monitor round failed, running again", "monitor", m.cfg.Name, "error", err)
		m.failed++
	case err != nil:
		m.cfg.Logger.Debug("monitor round failed again", "monitor", m.cfg.Name, "error", err)
		m.failed++
	}
}
