package actors

import (
	"context"
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Refusal is why a message on the requests queue makes no execution, however often it comes.
type Refusal struct {
	Malformed bool   // it is no request at all; false: a request that is not taken
	Code      string // as in the HTTP API's errors
	Text      string
	// Body is what is kept of the message, secrets removed; nil: all of it.
	Body []byte
}

func (r *Refusal) reason() string {
	if r.Malformed {
		return "malformed"
	}
	return "refused"
}

// DeadLetterStore is the part of a store that the bridges keep dead letters in.
type DeadLetterStore interface {
	SaveDeadLetter(ctx context.Context, d store.DeadLetter) (int64, error)
}

// IntakeConfig is what the intake bridge needs.
type IntakeConfig struct {
	System      *System
	Broker      broker.Broker // for answers
	Settings    broker.Settings
	Delivery    *actor.PID
	DeadLetters DeadLetterStore
	// Read makes a message an execution, or says why it is none.
	Read func(broker.Delivery) (messages.Execution, *Refusal)
	// Submit stores executions, all or none, and wakes their pools. Store.ErrConflict and store.ErrInvalid refuse; after
	// any other error the messages come again.
	Submit func(context.Context, []messages.Execution) ([]store.Submitted, error)
	Logger hclog.Logger
	// Count, where set, is told what became of each message: accepted, existing, refused, malformed, given_back.
	Count func(result string)
	// Held is what the bridge has unsettled over its restarts; nil: its own, lost with it.
	Held *Held
}

// Bounds of the intake. A request's body may have 1.5 MiB; the adapter asks for fewer messages where they are large.
const (
	intakePrefetch  = 100
	intakeTimeout   = 20 * time.Second // of one group
	intakeAgain     = time.Second      // after a store error
	intakeReplyTime = 2 * time.Second
)

// Intake is the bridge from the requests queue to executions: what is there at a time is submitted together, and each
// message is acked after the commit. One that can never be taken is kept as a dead letter with its reason, then acked.
type Intake struct {
	cfg   IntakeConfig
	actor actor.Context // of this actor, the same from its start to its end
	real  *RealWorld
	world World
	held  *Held
	busy  bool
	logs  intakeLogs
}

// intakeLogs are the messages that a sender of submissions can cause.
type intakeLogs struct{ unreadable, refused, later Repeated }

// NewIntake returns the child to spawn.
func NewIntake(cfg IntakeConfig) Child {
	held := cfg.Held
	if held == nil {
		held = &Held{}
	}
	return Child{Name: "intake", Kind: "bridge", Keep: held.keep, New: func() actor.Actor {
		return &Intake{cfg: cfg, held: held}
	}}
}

// Receive implements actor.Actor.
func (i *Intake) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		i.actor, i.real = ctx, NewWorld(i.cfg.System, ctx.Self())
		i.begin(i.real)
		i.attach()
	case *actor.Stopping:
		i.real.End()
	case *actor.Stopped, *Attached:
	case *actor.Terminated:
		i.world.After(attachWait, i.attach)
	case *Resume:
		i.real.Resume(m)
	case *heldWaits:
		i.flush()
	default:
		i.cfg.System.Registry.Unknown(ctx)
	}
}

func (i *Intake) begin(world World) {
	i.world = world
	i.held.begin(world, i.flush)
}

func (i *Intake) attach() {
	attachTo(i.actor, i.cfg.Delivery, &Attach{
		Queue: i.cfg.Settings.RequestsQueue(), Prefetch: intakePrefetch, Topology: i.cfg.Settings.Requests(), Pool: i.actor.Self(),
	})
}

// flush handles what waits, beside the actor; meanwhile the next group collects.
func (i *Intake) flush() {
	if i.busy {
		return
	}
	group := i.held.take()
	if len(group) == 0 {
		return
	}
	i.busy = true
	i.world.Beside(intakeTimeout+intakeReplyTime, func(ctx context.Context) func() {
		replies := i.take(ctx, group)
		i.held.forget(group...)
		i.reply(ctx, replies)
		return func() {
			i.busy = false
			i.flush()
		}
	})
}

// asked is one message that reads as an execution.
type asked struct {
	delivery  broker.Delivery
	execution messages.Execution
}

// take settles every message of a group and returns the answers that were asked for.
func (i *Intake) take(ctx context.Context, group []broker.Delivery) []broker.Message {
	ctx, cancel := context.WithTimeout(ctx, intakeTimeout)
	defer cancel()
	var replies []broker.Message
	var good []asked
	for _, d := range group {
		e, refusal := i.read(d)
		if refusal != nil {
			replies = i.refuse(ctx, d, refusal, replies)
			continue
		}
		good = append(good, asked{d, e})
	}
	return i.submit(ctx, good, replies)
}

// Unreadable is what is said of a request whose reading panicked.
const Unreadable = "it cannot be read: the node failed at it, and its log says how"

// read reads one message.
func (i *Intake) read(d broker.Delivery) (e messages.Execution, refusal *Refusal) {
	if err := Contain(func() { e, refusal = i.cfg.Read(d) }); err != nil {
		i.logs.unreadable.Error(i.cfg.Logger, "reading a submission failed", "message", d.ID, "error", err)
		refusal = &Refusal{Code: "internal", Text: Unreadable}
	}
	return e, refusal
}

// submit stores a group, or, where one of it is refused, each for itself.
func (i *Intake) submit(ctx context.Context, group []asked, replies []broker.Message) []broker.Message {
	if len(group) == 0 {
		return replies
	}
	executions := make([]messages.Execution, len(group))
	for n := range group {
		executions[n] = group[n].execution
	}
	stored, err := i.cfg.Submit(ctx, executions)
	refusal := RefusalOf(err)
	switch {
	case err == nil:
		return i.accept(group, stored, replies)
	case refusal != nil && len(group) > 1:
		for n := range group {
			replies = i.submit(ctx, group[n:n+1], replies)
		}
	case refusal != nil:
		replies = i.refuse(ctx, group[0].delivery, refusal, replies)
	default:
		i.later(ctx, group, err)
	}
	return replies
}

// RefusalOf tells an error that every repetition of a submission would meet from one that may pass, which is nil.
func RefusalOf(err error) *Refusal {
	var held *store.ConflictError
	switch {
	case errors.As(err, &held):
		return &Refusal{Code: "idempotency_conflict", Text: held.Error()}
	case errors.Is(err, store.ErrConflict):
		return &Refusal{Code: "idempotency_conflict", Text: err.Error()}
	case errors.Is(err, store.ErrInvalid):
		return &Refusal{Code: "invalid_request", Text: err.Error()}
	}
	return nil
}

// accept acks what has been stored. An ack that is lost brings the message again, and its key finds what is stored.
func (i *Intake) accept(group []asked, stored []store.Submitted, replies []broker.Message) []broker.Message {
	for n, r := range group {
		_ = r.delivery.Ack()
		result := "accepted"
		if stored[n].Existing {
			result = "existing"
		}
		i.count(result)
		e := &stored[n].Execution
		replies = answerTo(r.delivery, messages.SubmitReply{ID: e.ID, Status: e.Status, Existing: stored[n].Existing}, replies)
	}
	return replies
}

// refuse keeps the message with its reason, then acks it.
func (i *Intake) refuse(ctx context.Context, d broker.Delivery, r *Refusal, replies []broker.Message) []broker.Message {
	row := deadLetterRow(d, store.DeadLetter{Resolution: "quarantined: " + r.Text, Body: r.Body})
	row.Reason = r.reason()
	if d.ID != "" {
		row.Key = deathKey(d, row, "intake/"+d.ID)
	}
	if _, err := i.cfg.DeadLetters.SaveDeadLetter(ctx, row); err != nil {
		i.later(ctx, []asked{{delivery: d}}, err)
		return replies
	}
	_ = d.Ack()
	i.count(r.reason())
	i.logs.refused.Warn(i.cfg.Logger, "submission refused", "message", d.ID, "code", r.Code, "reason", r.Text)
	return answerTo(d, messages.SubmitReply{Error: &messages.SubmitError{Code: r.Code, Message: r.Text}}, replies)
}

// later gives messages back after a delay: they were not judged.
func (i *Intake) later(ctx context.Context, group []asked, err error) {
	for _, r := range group {
		i.count("given_back")
		if actorEnded(ctx) {
			_ = r.delivery.Nack(true)
			continue
		}
		nackLater(intakeAgain, r.delivery)
	}
	i.logs.later.Warn(i.cfg.Logger, "submissions not stored, giving them back", "messages", len(group), "error", err)
}

func (i *Intake) count(result string) {
	if i.cfg.Count != nil {
		i.cfg.Count(result)
	}
}

// answerTo adds the answer where the message asks for one.
func answerTo(d broker.Delivery, r messages.SubmitReply, replies []broker.Message) []broker.Message {
	if d.ReplyTo == "" {
		return replies
	}
	body, err := r.Encode()
	if err != nil {
		return replies
	}
	return append(replies, broker.Message{RoutingKey: d.ReplyTo, CorrelationID: d.CorrelationID, Body: body})
}

// reply sends the answers, best effort: whoever hears nothing asks again under its key.
func (i *Intake) reply(ctx context.Context, replies []broker.Message) {
	if len(replies) == 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, intakeReplyTime)
	defer cancel()
	if _, err := i.cfg.Broker.Publish(limited, replies); err != nil {
		i.cfg.Logger.Debug("answers to submissions not sent", "answers", len(replies), "error", err)
	}
}
