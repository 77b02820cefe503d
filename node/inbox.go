package node

import (
	"context"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
)

// How submissions are taken from the store's inbox.
const (
	inboxBatch = 100
	inboxHold  = 30 * time.Second
)

// inboxLogs are the messages that a program can cause which inserts submissions into the store.
type inboxLogs struct{ refused, unreadable actors.Repeated }

// inboxRound takes a batch of what other programs have put into the store, and settles it.
func (in *intake) inboxRound(ctx context.Context) (more bool, err error) {
	if in.phase.draining.Load() || !in.phase.started.Load() {
		return false, nil
	}
	taken, err := in.store.TakeSubmissions(ctx, inboxHold, inboxBatch)
	if err != nil || len(taken) == 0 {
		return false, err
	}
	settlements := make([]store.Settlement, 0, len(taken))
	executions := make([]messages.Execution, 0, len(taken))
	for i := range taken {
		e, refusal := in.readSubmission(&taken[i])
		if refusal != "" {
			settlements = append(settlements, in.refused(taken[i].ID, refusal))
			continue
		}
		executions = append(executions, e)
	}
	settled, err := in.submitSubmissions(ctx, executions)
	if err != nil {
		return false, err // all come again after the hold
	}
	return len(taken) == inboxBatch, in.store.SettleSubmissions(ctx, append(settlements, settled...))
}

func (in *intake) refused(id messages.ExecutionID, text string) store.Settlement {
	in.count("refused")
	in.inbox.refused.Warn(in.logger, "submission in the store refused", "submission", id, "reason", text)
	return store.Settlement{ID: id, Refused: text}
}

// stored settles a submission that the store has taken. One whose idempotency key is another execution's made none.
func (in *intake) stored(id messages.ExecutionID, s *store.Submitted) store.Settlement {
	settled, result := store.Settlement{ID: id}, "accepted"
	if s.Existing {
		result = "existing"
	}
	if holder := s.Execution.ID; holder != id {
		settled.Refused = "idempotency key: execution " + holder.String() + " was submitted under it before"
	}
	in.count(result)
	return settled
}

// submitSubmissions stores a batch, or, where one of it is refused, each for itself.
func (in *intake) submitSubmissions(ctx context.Context, executions []messages.Execution) ([]store.Settlement, error) {
	if len(executions) == 0 {
		return nil, nil
	}
	stored, err := in.submit(ctx, executions, byInbox)
	refusal := actors.RefusalOf(err)
	var settled []store.Settlement
	switch {
	case err == nil:
		for i := range executions {
			settled = append(settled, in.stored(executions[i].ID, &stored[i]))
		}
	case refusal != nil && len(executions) > 1:
		for i := range executions {
			one, err := in.submitSubmissions(ctx, executions[i:i+1])
			if err != nil {
				return nil, err
			}
			settled = append(settled, one...)
		}
	case refusal != nil:
		settled = append(settled, in.refused(executions[0].ID, refusal.Text))
	default:
		return nil, err
	}
	return settled, nil
}

// readSubmission makes a row of the inbox an execution with its id, or says why it makes none.
func (in *intake) readSubmission(s *store.Submission) (e messages.Execution, refusal string) {
	if s.Invalid != "" {
		return e, s.Invalid
	}
	var err error
	failed := actors.Contain(func() { e, err = in.requested(s) })
	switch {
	case failed != nil:
		in.inbox.unreadable.Error(in.logger, "reading a submission failed", "submission", s.ID, "error", failed)
		return e, actors.Unreadable
	case err != nil:
		return e, in.refusal(err, &submit.Request{}).Text
	}
	return e, ""
}

// requested is the execution that a row of the inbox asks for, by the very checks of the HTTP API.
func (in *intake) requested(s *store.Submission) (messages.Execution, error) {
	r := s.Request()
	if p := r.Check(); p != nil {
		return messages.Execution{}, p
	}
	e, err := in.submissions.complete(bridgeChecks, &r)
	e.ID = s.ID
	return e, err
}
