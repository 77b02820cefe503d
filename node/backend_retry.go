package node

import (
	"context"
	"fmt"
	"strconv"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/bulk"
	"github.com/troupe-run/troupe/rules/retry"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
)

// Retry implements api.Backend.
func (b *backend) Retry(ctx context.Context, id messages.ExecutionID, key, by string) (store.Submitted, error) {
	e, err := b.Get(ctx, id)
	if err != nil {
		return store.Submitted{}, err
	}
	if err := submit.CheckKey(key); err != nil {
		return store.Submitted{}, err
	}
	made, err := b.retryOf(ctx, &e, key, by, e.Priority)
	if err != nil {
		return store.Submitted{}, err
	}
	if !made.Existing {
		b.entered([]store.Submitted{made}, false)
		b.journal.operator(ctx, "retry", id.String(), by)
	}
	return made, nil
}

// retryOf stores the retry of an execution. Whoever has stored it calls entered.
func (b *backend) retryOf(ctx context.Context, e *messages.Execution, key, by string, priority messages.Priority) (store.Submitted, error) {
	now := b.clock.Now()
	d := retry.Manual(now, e)
	if !d.Retry {
		return store.Submitted{}, messages.Problemf(messages.CodeNotRetriable, "execution %s: %s", e.ID, d.Denied.Explain(e))
	}
	next := retry.Next(now, e, d, messages.NewExecutionID())
	next.Priority = priority
	if next.IdempotencyKey = key; key != "" {
		next.RequestHash, next.KeyOwner = submit.RetryHash(e.ID), by
	}
	made, err := b.store.Retry(ctx, e.ID, next, by)
	switch {
	case err != nil:
		return store.Submitted{}, found("retry of execution", e.ID, err)
	case made.Existing && key != "" && (made.Execution.IdempotencyKey != key || store.KeyOwner(&made.Execution) != store.KeyOwner(&next)):
		return store.Submitted{}, messages.Problemf(messages.CodeKeyConflict,
			"execution %s: it is already retried as %s, which has not this idempotency key of yours; retry without a key to get that one", e.ID, made.Execution.ID)
	case !made.Existing:
		b.retried(e.Pool, retry.ReasonManual, labelCode(e.Error))
	}
	return made, nil
}

// entered tells the routers and the counts of retries that were stored.
func (b *backend) entered(made []store.Submitted, many bool) {
	b.submissions.wake(made, many)
	b.rollups.submitted(made)
}

// RequeueDeadLetter implements api.Backend: it submits the dead letter's execution anew, as a retry of its chain.
func (b *backend) RequeueDeadLetter(ctx context.Context, id int64, by string) (store.Submitted, error) {
	letter, err := b.store.GetDeadLetter(ctx, id)
	if err != nil {
		return store.Submitted{}, found("dead letter", id, err)
	}
	if why := notRequeueable(&letter); why != "" {
		return store.Submitted{}, messages.Problemf(messages.CodeNotRequeueable, "dead letter %d %s", id, why)
	}
	b.logger.Info("dead letter's execution is submitted again by an operator", "dead_letter", id, "execution", letter.Execution, "by", by)
	made, err := b.Retry(ctx, letter.Execution, "", by)
	if err == nil {
		b.journal.operator(ctx, "requeue", letterName(id), by)
	}
	if err != nil || letter.Resolution == bulk.Requeued {
		return made, err
	}
	return made, b.store.ResolveDeadLetter(ctx, id, bulk.Requeued)
}

// letterName names a dead letter in the journal.
func letterName(id int64) string { return "dead letter " + strconv.FormatInt(id, 10) }

// DiscardDeadLetter implements api.Backend.
func (b *backend) DiscardDeadLetter(ctx context.Context, id int64, by string) (store.DeadLetter, error) {
	if err := b.store.ResolveDeadLetter(ctx, id, bulk.Discarded); err != nil {
		return store.DeadLetter{}, found("dead letter", id, err)
	}
	b.logger.Info("dead letter is discarded by an operator", "dead_letter", id, "by", by)
	b.journal.operator(ctx, "discard", letterName(id), by)
	letter, err := b.store.GetDeadLetter(ctx, id)
	return letter, found("dead letter", id, err)
}

// notRequeueable is why a dead letter cannot be submitted again, and what to do instead; empty: it can.
func notRequeueable(d *store.DeadLetter) string {
	switch {
	case d.Execution.IsZero():
		return fmt.Sprintf("is %s and names no execution (%s); submit what was meant anew, then discard it", d.Reason, d.Resolution)
	case d.Resolution == "missing":
		return "names execution " + d.Execution.String() + ", which the store does not have; discard it"
	}
	return ""
}
