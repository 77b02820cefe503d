package actors

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/retry"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/clock"
)

// DeadLetterConfig is what the dead-letter bridge needs.
type DeadLetterConfig struct {
	System   *System
	Store    store.Store
	Settings broker.Settings
	// Near: it takes the dead letters of the queues that the node keeps in its memory beside a server, and not those that all nodes share.
	Near     bool
	Delivery *actor.PID
	Recorder *actor.PID
	// Pool returns the pool supervisor that must hear of an outcome; nil: none is here.
	Pool   func(name string) *actor.PID
	Judge  *WorkerConfig // decides about retries
	Logger hclog.Logger
	// Elsewhere, where set, is told of each that ended its execution while it was placed on a worker of another incarnation. It
	// must not wait.
	Elsewhere func(messages.WorkerKey, messages.Placement)
	// Own is this node's incarnation.
	Own messages.Incarnation
	// Count, where set, is told what became of each dead letter.
	Count func(reason, resolution string)
	// InProcess is whether the queue is one of the broker in this process. Nobody looks for it on a server, so its start is logged at debug.
	InProcess bool
	// Late, where set, is told how long after its time on the queue each placement was handled that expired and still stands: by the
	// store's clock alone, for the broker's clock and this node's may be apart.
	Late func(time.Duration)
	// Clock is the store's; nil: this machine's.
	Clock *clock.Clock
	// Held is what the bridge has unsettled over its restarts; nil: its own, lost with it.
	Held *Held
}

// DeadLetter is the bridge from expired and refused messages to outcomes. It writes the forensic row first, fails only
// an execution that still stands scheduled with the very same attempt, and acks last; a store that does not answer
// sends the message back after a delay.
type DeadLetter struct {
	cfg   DeadLetterConfig
	actor actor.Context // of this actor, the same from its start to its end
	real  *RealWorld
	world World
	held  *Held
	logs  deadLetterLogs
}

// deadLetterLogs are the messages that a sender of anything can cause.
type deadLetterLogs struct{ quarantined Repeated }

// NewDeadLetter returns the child to spawn.
func NewDeadLetter(cfg DeadLetterConfig) Child {
	held := cfg.Held
	if held == nil {
		held = &Held{}
	}
	name := "dead_letter"
	if cfg.Near {
		name = "dead_letter_near"
	}
	return Child{Name: name, Kind: "bridge", Keep: held.keep, New: func() actor.Actor {
		return &DeadLetter{cfg: cfg, held: held}
	}}
}

// Receive implements actor.Actor.
func (d *DeadLetter) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		d.actor, d.real = ctx, NewWorld(d.cfg.System, ctx.Self())
		d.begin(d.real)
		d.start()
	case *actor.Stopping:
		d.real.End()
	case *actor.Stopped, *Attached:
	case *actor.Terminated:
		d.world.After(attachWait, d.attach)
	case *Resume:
		d.real.Resume(m)
	case *heldWaits:
		d.take()
	default:
		d.cfg.System.Registry.Unknown(ctx)
	}
}

// deadLetterPrefetch bounds the dead letters that are handled at once.
const deadLetterPrefetch = 32

// deadLetterTimeout bounds the handling of one.
const deadLetterTimeout = 20 * time.Second

func (d *DeadLetter) begin(world World) {
	d.world = world
	d.held.begin(world, d.take)
}

func (d *DeadLetter) start() {
	if queue, _ := d.cfg.queue(); queue != "" {
		d.attach()
		level := hclog.Info
		if d.cfg.InProcess {
			level = hclog.Debug
		}
		d.cfg.Logger.Log(level, "Dead letter handler started", "queue", queue)
		return
	}
	d.cfg.Logger.Info("Dead letter handler disabled")
}

func (d *DeadLetter) attach() {
	queue, topology := d.cfg.queue()
	attachTo(d.actor, d.cfg.Delivery, &Attach{Queue: queue, Prefetch: deadLetterPrefetch, Topology: topology, Pool: d.actor.Self()})
}

// queue is the queue whose messages it takes, and what is declared before; empty: dead letters are off.
func (c *DeadLetterConfig) queue() (string, broker.Topology) {
	if c.Near {
		return c.Settings.NearDeadLetterQueue(), broker.Topology{Queues: c.Settings.NearDeadLetters().Queues}
	}
	return c.Settings.DeadLetterQueue(), c.Settings.Shared()
}

// take handles each dead letter that waits, beside the actor.
func (d *DeadLetter) take() {
	for _, dead := range d.held.take() {
		d.world.Beside(deadLetterTimeout, func(ctx context.Context) func() {
			d.handle(ctx, dead)
			d.held.forget(dead)
			return nil
		})
	}
}

// handle judges each placement of one dead letter, then settles it.
func (d *DeadLetter) handle(ctx context.Context, dead broker.Delivery) {
	err := d.judge(ctx, dead)
	switch {
	case err == nil:
		_ = dead.Ack() // one that cannot be acked comes again and is found stale
	case actorEnded(ctx):
		_ = dead.Nack(true)
	default:
		d.cfg.Logger.Warn("dead letter not stored, giving it back", "queue", dead.Queue, "error", err)
		nackLater(time.Second, dead)
	}
}

func (d *DeadLetter) judge(ctx context.Context, dead broker.Delivery) error {
	if _, echo := dead.Headers[EchoHeader]; echo {
		return nil // its pool has seen that it is late
	}
	if len(dead.Deaths) > 0 && dead.Deaths[0].Queue == d.cfg.Settings.RequestsQueue() {
		return d.quarantine(ctx, dead, "a submission that no node took", reasonOf(dead))
	}
	work, err := broker.DecodeWork(dead.Body)
	if err != nil {
		return d.quarantine(ctx, dead, err.Error(), "malformed")
	}
	for i := range work {
		for _, p := range work[i].Placements {
			if err := d.one(ctx, dead, work[i].Worker, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// quarantine keeps a dead letter that is about no placement, and changes nothing else.
func (d *DeadLetter) quarantine(ctx context.Context, dead broker.Delivery, why, reason string) error {
	kept, err := d.keep(ctx, dead, store.DeadLetter{Resolution: "quarantined: " + why}, reason)
	if err == nil {
		d.logs.quarantined.Warn(d.cfg.Logger, "dead letter quarantined", "dead_letter", kept, "queue", dead.Queue, "reason", reason, "error", why)
	}
	return err
}

// one judges one placement. The forensic row is written before anything else.
func (d *DeadLetter) one(ctx context.Context, dead broker.Delivery, worker messages.WorkerKey, p messages.Placement) error {
	row := store.DeadLetter{Execution: p.Execution, Attempt: p.Attempt, Resolution: "stale"}
	e, err := d.cfg.Store.Get(ctx, p.Execution)
	switch {
	case errors.Is(err, store.ErrNotFound):
		row.Resolution = "missing"
	case err != nil:
		return fmt.Errorf("dead letter of execution %s: %w", p.Execution, err)
	default:
		row.Action = e.Action
		if retry.Expires(&e, p.Attempt) {
			row.Resolution = "failed"
		}
	}
	e.ID = p.Execution // also of one that is missing
	row.Worker = d.workerOf(dead, &e, worker, p.Attempt)
	d.cfg.Logger.Warn("Received dead letter for execution", append(e.LogFields(), "attempt", p.Attempt,
		"worker", row.Worker, "reason", reasonOf(dead), "resolution", row.Resolution)...)
	kept, err := d.keep(ctx, dead, row, reasonOf(dead))
	if err != nil || row.Resolution != "failed" {
		return err
	}
	d.late(dead, e.ScheduledAt)
	end := &store.End{ID: e.ID, Attempt: p.Attempt}
	end.Outcome, end.Retry = d.cfg.Judge.RetryOf(&e, retry.Expired())
	record := &Record{Pool: d.cfg.Pool(worker.Pool), Items: []Item{{Worker: worker, Fault: true, Change: end}}}
	results, err := Ask[*Record, []store.Result](ctx, d.cfg.System, d.cfg.Recorder, record)
	if err == nil && results[0].Verdict == store.Applied && worker.Incarnation != d.cfg.Own && d.cfg.Elsewhere != nil {
		d.cfg.Elsewhere(worker, p)
	}
	if err == nil && results[0].Verdict == store.Blocked { // it comes again
		return fmt.Errorf("dead letter of execution %s: %w", p.Execution, results[0].Err)
	}
	if err == nil && results[0].Verdict != store.Applied && results[0].Verdict != store.Already {
		err = d.cfg.Store.ResolveDeadLetter(ctx, kept, "stale") // its worker claimed it after all
	}
	return err
}

// workerOf names the worker of a placement: as the execution has it where it still stands there, else by the queue on which the
// message died, for the execution may be on another worker by now. Empty: neither says.
func (d *DeadLetter) workerOf(dead broker.Delivery, e *messages.Execution, key messages.WorkerKey, attempt messages.Attempt) messages.WorkerID {
	if e.Attempt == attempt && e.Worker == key {
		return e.WorkerID
	}
	if len(dead.Deaths) == 0 {
		return ""
	}
	if owner, ok := d.cfg.Settings.ParseQueueName(dead.Deaths[0].Queue); ok && owner.Incarnation == key.Incarnation {
		return messages.NewWorkerID(owner.Node, key.Pool, key.Slot)
	}
	return ""
}

// late tells how late a placement is handled that expired: it was published when it was scheduled.
func (d *DeadLetter) late(dead broker.Delivery, scheduled time.Time) {
	if d.cfg.Late == nil || scheduled.IsZero() || len(dead.Deaths) == 0 || dead.Deaths[0].Reason != broker.DeathExpired {
		return
	}
	d.cfg.Late(max(0, d.cfg.Clock.Now().Sub(scheduled.Add(d.cfg.Settings.ExpiresAfter(dead.Deaths[0].Expiration)))))
}

// keep writes the forensic row, once for each death and placement where the message says when it died.
func (d *DeadLetter) keep(ctx context.Context, dead broker.Delivery, row store.DeadLetter, reason string) (int64, error) {
	row = deadLetterRow(dead, row)
	row.Reason = reason
	if len(dead.Deaths) > 0 {
		row.Key = deathKey(dead, row, row.Execution.String()+"/"+strconv.Itoa(int(row.Attempt)))
	}
	id, err := d.cfg.Store.SaveDeadLetter(ctx, row)
	if err != nil {
		return 0, err
	}
	if d.cfg.Count != nil {
		d.cfg.Count(row.Reason, row.Resolution)
	}
	return id, nil
}

func reasonOf(dead broker.Delivery) string {
	if len(dead.Deaths) == 0 {
		return "unknown"
	}
	return string(dead.Deaths[0].Reason)
}
