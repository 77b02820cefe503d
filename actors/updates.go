package actors

import (
	"context"
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// UpdatesConfig is what the updates bridge needs.
type UpdatesConfig struct {
	System *System
	// Watch opens the store's hints.
	Watch func(context.Context) (<-chan store.Hint, error)
	// Every is how often the inbox is looked at without any hint [1 s].
	Every time.Duration
	// Requested wakes a pool, and Finished those who wait for an execution. Neither blocks.
	Requested func(pool string)
	Finished  func(messages.ExecutionID)
	// Router, where set, is told that pools may have lost their leader. It does not block.
	Router func()
	// Cancel tells a worker of this node that its run is to be cancelled; an execution that is elsewhere is no error.
	Cancel func(context.Context, messages.ExecutionID) error
	// Inbox takes one batch of submissions and settles them. More: it was full.
	Inbox func(context.Context) (more bool, err error)
	// Look looks at everything that a hint could have been about, but for the inbox.
	Look   func(context.Context) error
	Logger hclog.Logger
	// Count, where set, is told of each hint.
	Count func(store.HintKind)
}

// Bounds of the updates bridge.
const (
	updatesEvery   = time.Second
	updatesTimeout = 20 * time.Second // of one round
	updatesBatches = 20               // of the inbox, in one round
	updatesCancels = 1000             // more of them in one round are a look at everything
	watchWait      = 250 * time.Millisecond
	watchWaitMax   = 4 * time.Second
)

// Updates is the bridge from a store that others use too to this node's actors. Hints may be lost, so it looks at the
// inbox by itself, and at everything whenever its watch begins anew.
type Updates struct {
	cfg   UpdatesConfig
	cell  *Cell
	real  *RealWorld
	world World
	tell  func(store.Hint) // hands a hint to the actor from beside it
	timer Timer
	wait  time.Duration // before the watch is opened again
	due   updatesRound  // the next round
	busy  bool
}

// updatesRound is what there is to do beside the actor.
type updatesRound struct {
	inbox, look bool
	cancels     []messages.ExecutionID
}

func (r *updatesRound) empty() bool { return !r.inbox && !r.look && len(r.cancels) == 0 }

// add notes a hint that needs the store. It reports whether the hint was one.
func (r *updatesRound) add(h store.Hint) bool {
	switch h.Kind {
	case store.HintInbox:
		r.inbox = true
	case store.HintCancel:
		if r.cancels = append(r.cancels, h.Execution); len(r.cancels) > updatesCancels || h.Execution.IsZero() {
			r.look, r.cancels = true, nil
		}
	case store.HintLook:
		r.inbox, r.look = true, true
	default:
		return false
	}
	return true
}

// NewUpdates returns the child to spawn.
func NewUpdates(cfg UpdatesConfig) Child {
	cell := &Cell{}
	if cfg.Every == 0 {
		cfg.Every = updatesEvery
	}
	return Child{Name: "updates", Kind: "bridge", Cell: cell, New: func() actor.Actor { return &Updates{cfg: cfg, cell: cell} }}
}

// Receive implements actor.Actor.
func (u *Updates) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		self, system := ctx.Self(), u.cfg.System
		u.real, u.tell = NewWorld(system, self), func(h store.Hint) { system.Send(self, &h) }
		u.begin(u.real)
	case *actor.Stopping:
		u.real.End()
		stopTimer(u.timer)
	case *actor.Stopped:
	case *Resume:
		u.real.Resume(m)
	case *store.Hint:
		u.hint(*m)
	default:
		u.cfg.System.Registry.Unknown(ctx)
	}
}

func (u *Updates) begin(world World) {
	u.world, u.wait = world, watchWait
	u.watch()
	u.again()
}

// again has the inbox looked at without any hint.
func (u *Updates) again() {
	spread := 0.9 + 0.2*u.world.Random()
	u.timer = u.world.After(time.Duration(float64(u.cfg.Every)*spread), func() {
		u.again()
		u.due.inbox = true
		u.round()
	})
}

// hint passes on what needs no store, and notes the rest for a round.
func (u *Updates) hint(h store.Hint) {
	if u.cfg.Count != nil {
		u.cfg.Count(h.Kind)
	}
	switch {
	case h.Kind == store.HintRequested:
		u.cfg.Requested(h.Pool)
	case h.Kind == store.HintFinished:
		u.cfg.Finished(h.Execution)
	case h.Kind == store.HintRouter:
		if u.cfg.Router != nil {
			u.cfg.Router()
		}
	case u.due.add(h):
		u.round()
	default:
		u.cfg.Logger.Debug("hint of an unknown kind", "kind", h.Kind)
	}
}

// round does what is due, beside the actor; what comes meanwhile is the next one.
func (u *Updates) round() {
	if u.busy || u.due.empty() {
		return
	}
	u.busy = true
	due := u.due
	u.due = updatesRound{}
	u.world.Beside(updatesTimeout, func(ctx context.Context) func() {
		err := u.do(ctx, due)
		return func() { u.ended(due, err) }
	})
}

// do does each part, whatever becomes of the others.
func (u *Updates) do(ctx context.Context, due updatesRound) error {
	var errs []error
	if due.look {
		errs = append(errs, u.cfg.Look(ctx))
	}
	for _, id := range due.cancels {
		errs = append(errs, u.cfg.Cancel(ctx, id))
	}
	for more, n := due.inbox, 0; more && n < updatesBatches; n++ {
		var err error
		more, err = u.cfg.Inbox(ctx)
		errs = append(errs, err)
		more = more && err == nil
	}
	return errors.Join(errs...)
}

// ended goes on with what came meanwhile. What failed is looked for again when the inbox is.
func (u *Updates) ended(did updatesRound, err error) {
	u.busy = false
	u.cell.Update(func(s *Status) {
		if s.State = "watching"; err != nil {
			s.State, s.LastFailure = "failing", err.Error()
		}
	})
	if err == nil {
		u.round()
		return
	}
	u.due.look = u.due.look || did.look || len(did.cancels) > 0
	u.cfg.Logger.Warn("looking at what others did failed, looking again", "error", err)
}

// watch has hints come until the watch ends by itself.
func (u *Updates) watch() {
	u.world.Beside(0, func(ctx context.Context) func() {
		lasted, err := u.pass(ctx)
		return func() { u.watched(lasted, err) }
	})
}

// watched opens the watch again after a while. One that lasted was no failure.
func (u *Updates) watched(lasted time.Duration, err error) {
	if lasted > watchWaitMax {
		u.wait = watchWait
	}
	u.cfg.Logger.Debug("the store's hints have ended, watching again", "after", u.wait, "error", err)
	u.world.After(u.wait, u.watch)
	u.wait = min(2*u.wait, watchWaitMax)
}

// pass opens the watch and hands every hint on until they or ctx end. It returns how long the hints came.
func (u *Updates) pass(ctx context.Context) (lasted time.Duration, err error) {
	hints, err := u.cfg.Watch(ctx)
	if err != nil {
		return 0, err
	}
	u.tell(store.Hint{Kind: store.HintLook})
	began := u.world.Now()
	for {
		select {
		case h, open := <-hints:
			if !open {
				return u.world.Now().Sub(began), nil
			}
			u.tell(h)
		case <-ctx.Done():
			return u.world.Now().Sub(began), nil
		}
	}
}
