package actors

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Hints to the bridge, which also looks by itself.
type (
	// TellNotices says that outcomes with notices have been committed.
	TellNotices struct{}
	// TakeNotices says that who told them may have gone.
	TakeNotices struct{}
)

// NoticesBell sends TellNotices to the bridge, one at a time however often it is rung.
type NoticesBell struct{ rung atomic.Bool }

// Ring sends the hint, unless one is under way.
func (b *NoticesBell) Ring(system *System, bridge *actor.PID) {
	if b.rung.CompareAndSwap(false, true) {
		system.Send(bridge, &TellNotices{})
	}
}

// NoticesConfig is what the notices bridge needs.
type NoticesConfig struct {
	System      *System
	Store       store.Notices
	Broker      broker.Broker
	Settings    broker.Settings
	Incarnation messages.Incarnation
	Bell        *NoticesBell // optional
	// Every is how often the teller looks at the outbox without any word of an outcome [500 ms].
	Every time.Duration
	// Lease is how long the outbox stays with a teller that is not heard of [6 s].
	Lease time.Duration
	// GiveUp is how long the broker may take nothing of the teller until it leaves the outbox to a node that reaches it [10 s].
	GiveUp time.Duration
	Logger hclog.Logger
	// Count, where set, is told how many notices were told, unheard (nobody has bound a queue), repeated, put off or gone.
	Count func(result string, n int)
	// Report, where set, is told how far behind the telling is, every few seconds.
	Report func(NoticesReport)
}

// NoticesReport is how the outbox stands, as this node sees it.
type NoticesReport struct {
	store.NoticesPending
	Teller bool   // this node tells
	Why    string // why it could not, last; empty: it could
}

const (
	noticesEvery  = 500 * time.Millisecond
	noticesLease  = 6 * time.Second
	noticesGiveUp = 10 * time.Second
	noticesReport = 3 * time.Second       // between two reports, and between two looks of a node that does not tell
	noticesGather = 25 * time.Millisecond // between the beginnings of two rounds, so that few outcomes share one
	noticesLooks  = 10 * time.Second      // bound of one call for a report
)

func (c NoticesConfig) withDefaults() NoticesConfig {
	if c.Every == 0 {
		c.Every = noticesEvery
	}
	if c.Lease == 0 {
		c.Lease = noticesLease
	}
	if c.GiveUp == 0 {
		c.GiveUp = noticesGiveUp
	}
	if c.Bell == nil {
		c.Bell = &NoticesBell{}
	}
	if c.Count == nil {
		c.Count = func(string, int) {}
	}
	return c
}

// Notices is the bridge from outcomes to the executions exchange, at least once. Of all nodes' bridges one holds the outbox and
// tells (teller); the others look now and then whether it is free. The actor says when to work, and the work is done beside it,
// one round at a time.
type Notices struct {
	cfg    NoticesConfig
	cell   *Cell
	real   *RealWorld
	world  World
	look   Timer
	soon   Timer // the next round, while outcomes gather
	teller *teller
	busy   bool
	due    bool
	paused bool      // the last round failed: the timer's is the next
	began  time.Time // the last round
	tried  time.Time // the last look of a node that does not tell
	told   time.Time // the last report
	why    string
	failed Repeated
}

// NewNotices returns the child to spawn.
func NewNotices(cfg NoticesConfig) Child {
	cfg = cfg.withDefaults()
	cell := &Cell{}
	return Child{Name: "notices", Kind: "bridge", Cell: cell, New: func() actor.Actor { return &Notices{cfg: cfg, cell: cell} }}
}

// Receive implements actor.Actor.
func (n *Notices) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		n.real = NewWorld(n.cfg.System, ctx.Self())
		n.begin(n.real)
	case *actor.Stopping:
		n.real.End()
		n.stop()
	case *actor.Stopped:
	case *Resume:
		n.real.Resume(m)
	case *TellNotices:
		n.cfg.Bell.rung.Store(false)
		n.heard()
	case *TakeNotices:
		n.tried = time.Time{}
		n.run()
	default:
		n.cfg.System.Registry.Unknown(ctx)
	}
}

func (n *Notices) begin(world World) {
	n.world = world
	n.teller = newTeller(n.cfg, world)
	n.cfg.Bell.rung.Store(false)
	n.again()
	n.run()
}

// again has the outbox looked at without any word of an outcome.
func (n *Notices) again() {
	spread := 0.9 + 0.2*n.world.Random()
	n.look = n.world.After(time.Duration(float64(n.cfg.Every)*spread), func() {
		n.again()
		n.paused = false
		n.run()
	})
}

// stop releases the outbox beside the actor, once the round that is under way has ended: its context has.
func (n *Notices) stop() {
	stopTimer(n.look)
	stopTimer(n.soon)
	n.world.Beside(0, func(context.Context) func() {
		n.teller.leave()
		return nil
	})
}

// heard begins a round: at once, or, where the last one has just begun, a moment later together with what comes until then.
func (n *Notices) heard() {
	switch wait := noticesGather - n.world.Now().Sub(n.began); {
	case n.paused || !n.teller.holds.Load():
	case n.busy || wait <= 0:
		n.run()
	default:
		n.later(wait)
	}
}

// later begins a round after the wait, unless one is to begin already.
func (n *Notices) later(wait time.Duration) {
	if n.soon != nil {
		return
	}
	n.soon = n.world.After(wait, func() {
		n.soon = nil
		n.run()
	})
}

// run does a round beside the actor. What is committed meanwhile is the next one's.
func (n *Notices) run() {
	now := n.world.Now()
	switch {
	case n.busy:
		n.due = true
		return
	case !n.teller.holds.Load() && now.Sub(n.tried) < min(noticesReport, 6*n.cfg.Every):
		return
	}
	if !n.teller.holds.Load() {
		n.tried = now
	}
	n.busy, n.due, n.began = true, false, now
	report := n.cfg.Report != nil && now.Sub(n.told) >= noticesReport
	if report {
		n.told = now
	}
	why := n.why
	n.world.Beside(0, func(ctx context.Context) func() {
		r, err := n.teller.round(ctx)
		if report && ctx.Err() == nil {
			n.report(ctx, err, why)
		}
		return func() { n.done(r, err) }
	})
}

// report says how far behind the telling is.
func (n *Notices) report(ctx context.Context, err error, why string) {
	limited, cancel := context.WithTimeout(ctx, noticesLooks)
	defer cancel()
	pending, failed := n.cfg.Store.PendingNotices(limited)
	if failed != nil {
		return
	}
	if err != nil {
		why = err.Error()
	}
	n.cfg.Report(NoticesReport{NoticesPending: pending, Teller: n.teller.holds.Load(), Why: why})
}

func (n *Notices) done(r round, err error) {
	n.busy = false
	n.why = ""
	if err != nil {
		n.why = err.Error()
	}
	holds := n.teller.holds.Load()
	n.cell.Update(func(s *Status) {
		switch s.State, s.Why = "listening", ""; {
		case err != nil:
			s.State, s.Why, s.LastFailure = "waiting", err.Error(), err.Error()
		case !holds:
			s.State, s.Why = "waiting", "another node tells"
		}
	})
	switch {
	case err != nil:
		n.paused = true // the timer's round is the next
		n.failed.Warn(n.cfg.Logger, "notices not told, telling them later", "error", err)
	case r == roundMore:
		n.run()
	case n.due:
		n.heard()
	case r == roundUnwritten:
		n.later(recordRest)
	}
}
