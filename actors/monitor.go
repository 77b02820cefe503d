package actors

import (
	"context"
	"math/rand/v2"
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
	ctx    context.Context
	cancel context.CancelFunc
	timer  *time.Timer
	failed int // rounds in a row
	busy   bool
	again  bool // another round is wanted after the one under way
}

// RoundNow asks a Monitor for a round at once, or right after the one under way.
type RoundNow struct{}

type (
	roundDue   struct{}
	roundEnded struct {
		err  error
		took time.Duration
	}
)

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
		m.ctx, m.cancel = context.WithCancel(context.Background())
		if m.cfg.Now {
			m.round(ctx)
		} else {
			m.wait(ctx)
		}
	case *actor.Stopping:
		m.cancel()
		stopTimer(m.timer)
	case *actor.Stopped:
	case *roundDue:
		m.round(ctx)
	case *RoundNow:
		m.now(ctx)
	case *roundEnded:
		m.ended(ctx, msg)
	default:
		m.cfg.System.Registry.Unknown(ctx)
	}
}

func (m *Monitor) now(ctx actor.Context) {
	if m.busy {
		m.again = true
		return
	}
	m.round(ctx)
}

func (m *Monitor) wait(ctx actor.Context) {
	self, system := ctx.Self(), m.cfg.System
	spread := 1 + m.cfg.Jitter*(2*rand.Float64()-1)
	m.timer = time.AfterFunc(time.Duration(float64(m.cfg.Every)*spread), func() { system.Send(self, &roundDue{}) })
}

func (m *Monitor) round(ctx actor.Context) {
	if m.busy { // its timer had run out when it was asked for a round
		return
	}
	m.busy, m.again = true, false
	stopTimer(m.timer)
	self, system, parent := ctx.Self(), m.cfg.System, m.ctx
	go func() {
		defer system.Carry(self)
		limited, cancel := context.WithTimeout(parent, m.cfg.Limit)
		defer cancel()
		start := time.Now()
		err := m.cfg.Do(limited)
		system.Send(self, &roundEnded{err: err, took: time.Since(start)})
	}()
}

func (m *Monitor) ended(ctx actor.Context, r *roundEnded) {
	if m.ctx.Err() != nil {
		return
	}
	m.cell.Update(func(s *Status) {
		s.State, s.Why = "idle", "last round took "+r.took.Round(time.Microsecond).String()
		if r.err != nil {
			s.LastFailure = r.err.Error()
		}
	})
	m.tell(r.err)
	m.busy = false
	if m.again {
		m.round(ctx)
		return
	}
	m.wait(ctx)
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
