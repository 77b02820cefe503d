package node

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/supervisor"
)

// createdByBroker is who an execution was created by that came by the requests queue.
const createdByBroker = "amqp"

// traceHeader is the header of a message that carries W3C trace context.
const traceHeader = "traceparent"

// How submissions are taken from the store's inbox.
const (
	inboxBatch = 100
	inboxHold  = 30 * time.Second
)

// bridges are the tree's ways in and out, in the order of their start.
func (n *Node) bridges() []supervisor.ChildSpec {
	specs := []supervisor.ChildSpec{n.deliverySpec, n.deadLetterSpec, n.intakeSpec, n.updatesSpec}
	if n.tells() {
		specs = append(specs, n.noticesSpec)
	}
	return specs
}

// tells reports whether outcomes are told on the executions exchange. With the embedded broker nobody outside could
// listen, so it must be asked for there.
func (n *Node) tells() bool {
	outside := n.cfg.BrokerURL != "" || n.cfg.OpenBroker != nil
	return !n.cfg.NoticesOff && (outside || n.cfg.Notices)
}

const noticesPath = "troupe/bridges/notices"

// noticesHook is what the recorder does after a transaction with notices; nil where none are told.
func (n *Node) noticesHook() func() {
	if !n.tells() {
		return nil
	}
	return n.ringNotices
}

// ringNotices says that there may be something to tell. It does nothing on a node whose bridge does not tell.
func (n *Node) ringNotices() { n.notices.bell.Ring(n.system, n.system.PID(noticesPath)) }

func (n *Node) noticesSpec() actors.Child {
	return actors.NewNotices(actors.NoticesConfig{
		System: n.system, Store: n.store, Broker: n.broker, Settings: n.cfg.Broker, Incarnation: n.incarnation, Bell: &n.notices.bell,
		Logger: n.logger.Named("notices"), Count: n.metrics.bridges.notices, Report: n.notices.take,
	})
}

func (n *Node) intakeSpec() actors.Child {
	return actors.NewIntake(actors.IntakeConfig{
		System: n.system, Broker: n.broker, Settings: n.cfg.Broker, Delivery: n.delivery, DeadLetters: n.store,
		Read: n.readRequest, Submit: n.submitTaken, Logger: n.logger.Named("intake"), Count: n.metrics.bridges.intake,
		Held: &n.requests,
	})
}

func (n *Node) updatesSpec() actors.Child {
	return actors.NewUpdates(actors.UpdatesConfig{
		System: n.system, Watch: n.store.Watch, Logger: n.logger.Named("updates"), Count: n.metrics.bridges.hint,
		Requested: n.wakePool, Router: n.routing.lookForRouters, Cancel: n.cancelHere, Inbox: n.inboxRound, Look: n.lookRound,
		Finished: n.finishedElsewhere,
	})
}

// finishedElsewhere hears of an outcome that another node has stored.
func (n *Node) finishedElsewhere(id messages.ExecutionID) {
	n.outcomes.Publish(&messages.Execution{ID: id})
	if n.tells() {
		n.ringNotices()
	}
}

// bridgeChecks is the context of checks of what came by a bridge. They end by their steps only: a message that was half
// checked would have to come again.
var bridgeChecks = context.Background()

// readRequest makes a message of the requests queue an execution, by the very checks of the HTTP API.
func (n *Node) readRequest(d broker.Delivery) (messages.Execution, *actors.Refusal) {
	request, err := api.DecodeSubmit(d.Body)
	if err == nil {
		if request.IdempotencyKey == "" {
			request.IdempotencyKey = d.ID
		}
		request.CreatedBy, request.Trace = createdByBroker, submit.Traceparent(d.Headers[traceHeader])
		var e messages.Execution
		if p := request.Check(); p != nil {
			err = p
		} else if e, err = n.complete(bridgeChecks, &request); err == nil {
			return e, nil
		}
	}
	return messages.Execution{}, n.refusal(err, &request)
}

// refusal is why a request is not taken. What is kept of it has no secrets.
func (n *Node) refusal(err error, request *submit.Request) *actors.Refusal {
	r := &actors.Refusal{Code: string(messages.CodeInvalidRequest), Text: err.Error()}
	var p *messages.Problem
	if errors.As(err, &p) {
		r.Code, r.Text = string(p.Code), p.Message
		r.Malformed = api.StatusOf(p) == http.StatusBadRequest
	}
	if request.ActionRef == "" {
		return r
	}
	kept := *request
	kept.Parameters = n.backend().Redact(request.ActionRef, request.Parameters)
	if body, err := api.EncodeSubmit(kept); err == nil {
		r.Body = body
	}
	return r
}

// submitTaken stores what came by a bridge and wakes its pools.
func (n *Node) submitTaken(ctx context.Context, executions []messages.Execution) ([]store.Submitted, error) {
	if n.phase.draining.Load() {
		return nil, errDraining
	}
	submitted, err := n.store.Submit(ctx, executions)
	if err == nil {
		n.backend().wake(submitted)
	}
	return submitted, err
}

var errDraining = errors.New("this node is shutting down and takes no more work")

func (n *Node) wakePool(pool string) {
	n.pools.Tell(pool, &supervisor.Wake{Heard: true})
}

// cancelHere tells the worker of a run that is to be cancelled, where it is one of this node's.
func (n *Node) cancelHere(ctx context.Context, id messages.ExecutionID) error {
	e, err := n.store.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	pid := n.pools.pid(e.Pool)
	if err != nil || pid == nil || e.Status != messages.Cancelling || e.Worker.Incarnation != n.incarnation {
		return err
	}
	n.system.Send(pid, &supervisor.CancelAgain{Placement: e.Placement(), Slot: e.Worker.Slot})
	return nil
}

// updatesPath is the bridge that hears of what others do.
const updatesPath = "troupe/bridges/updates"

// lookAround makes up for what a node that has ended could not tell any more.
func (n *Node) lookAround() {
	if n.phase.started.Load() {
		n.system.Send(n.system.PID(updatesPath), &store.Hint{Kind: store.HintLook})
		if n.tells() {
			n.system.Send(n.system.PID(noticesPath), &actors.TakeNotices{}) // it may have been the teller
		}
	}
}

// lookRound makes up for hints that were missed: every pool looks for work, every run that is to be cancelled is told
// again, and everybody who waits for what has ended meanwhile hears of it.
func (n *Node) lookRound(ctx context.Context) error {
	if !n.phase.started.Load() {
		return nil // everything looks for itself at start
	}
	for name := range n.pools.all() {
		n.wakePool(name)
	}
	missed := n.repeatCancels(ctx)
	for _, id := range n.outcomes.Waiting() {
		e, err := n.store.Get(ctx, id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return errors.Join(missed, err)
		}
		if e.Status.Terminal() {
			n.outcomes.Publish(&e)
		}
	}
	return missed
}

// inboxRound takes a batch of what other programs have put into the store, and settles it.
func (n *Node) inboxRound(ctx context.Context) (more bool, err error) {
	if n.phase.draining.Load() || !n.phase.started.Load() {
		return false, nil
	}
	taken, err := n.store.TakeSubmissions(ctx, inboxHold, inboxBatch)
	if err != nil || len(taken) == 0 {
		return false, err
	}
	settlements := make([]store.Settlement, 0, len(taken))
	executions := make([]messages.Execution, 0, len(taken))
	for i := range taken {
		e, refusal := n.readSubmission(&taken[i])
		if refusal != "" {
			settlements = append(settlements, n.refused(taken[i].ID, refusal))
			continue
		}
		executions = append(executions, e)
	}
	settled, err := n.submitSubmissions(ctx, executions)
	if err != nil {
		return false, err // all come again after the hold
	}
	return len(taken) == inboxBatch, n.store.SettleSubmissions(ctx, append(settlements, settled...))
}

// inboxLogs are the messages that a program can cause which inserts submissions into the store.
type inboxLogs struct{ refused, unreadable actors.Repeated }

func (n *Node) refused(id messages.ExecutionID, text string) store.Settlement {
	n.metrics.bridges.intake("refused")
	n.inbox.refused.Warn(n.logger, "submission in the store refused", "submission", id, "reason", text)
	return store.Settlement{ID: id, Refused: text}
}

// stored settles a submission that the store has taken. One whose idempotency key is another execution's made none.
func (n *Node) stored(id messages.ExecutionID, s *store.Submitted) store.Settlement {
	settled, result := store.Settlement{ID: id}, "accepted"
	if s.Existing {
		result = "existing"
	}
	if holder := s.Execution.ID; holder != id {
		settled.Refused = "idempotency key: execution " + holder.String() + " was submitted under it before"
	}
	n.metrics.bridges.intake(result)
	return settled
}

// submitSubmissions stores a batch, or, where one of it is refused, each for itself.
func (n *Node) submitSubmissions(ctx context.Context, executions []messages.Execution) ([]store.Settlement, error) {
	if len(executions) == 0 {
		return nil, nil
	}
	stored, err := n.submitTaken(ctx, executions)
	refusal := actors.RefusalOf(err)
	var settled []store.Settlement
	switch {
	case err == nil:
		for i := range executions {
			settled = append(settled, n.stored(executions[i].ID, &stored[i]))
		}
	case refusal != nil && len(executions) > 1:
		for i := range executions {
			one, err := n.submitSubmissions(ctx, executions[i:i+1])
			if err != nil {
				return nil, err
			}
			settled = append(settled, one...)
		}
	case refusal != nil:
		settled = append(settled, n.refused(executions[0].ID, refusal.Text))
	default:
		return nil, err
	}
	return settled, nil
}

// readSubmission makes a row of the inbox an execution with its id, or says why it makes none.
func (n *Node) readSubmission(s *store.Submission) (e messages.Execution, refusal string) {
	if s.Invalid != "" {
		return e, s.Invalid
	}
	var err error
	failed := actors.Contain(func() { e, err = n.requested(s) })
	switch {
	case failed != nil:
		n.inbox.unreadable.Error(n.logger, "reading a submission failed", "submission", s.ID, "error", failed)
		return e, actors.Unreadable
	case err != nil:
		return e, n.refusal(err, &submit.Request{}).Text
	}
	return e, ""
}

// requested is the execution that a row of the inbox asks for, by the very checks of the HTTP API.
func (n *Node) requested(s *store.Submission) (messages.Execution, error) {
	r := s.Request()
	if p := r.Check(); p != nil {
		return messages.Execution{}, p
	}
	e, err := n.complete(bridgeChecks, &r)
	e.ID = s.ID
	return e, err
}
