package node

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/operate"
	"github.com/troupe-run/troupe/operate/view"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
)

// backend is the node as its API sees it: the operator, and what callers ask of this node beside that.
type backend struct {
	*operate.Operator
	*base
	*webhooks
	submissions *submissions
	catalog     *catalog
	readiness   *readiness
	retries     *retries
	findings    *alerting
	overviews   *overviews
	reloader    *reloader
	bulk        *operations
	retried     func(pool, reason string, code messages.Code) // counts a retry
}

var _ api.Backend = (*backend)(nil)

// found maps store.ErrNotFound to the problem not_found.
func found(what string, id any, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return messages.Problemf(messages.CodeNotFound, "there is no %s %v", what, id)
	}
	return err
}

// Submit stores the requests, all or none, and wakes their pools.
func (b *backend) Submit(ctx context.Context, requests []submit.Request) ([]store.Submitted, error) {
	return b.submissions.submit(ctx, requests)
}

// SubmitEach implements api.Backend.
func (b *backend) SubmitEach(ctx context.Context, requests []submit.Request) []api.Submission {
	return b.submissions.each(ctx, requests)
}

// SubmitAwaited implements api.Backend. It begins to wait before the execution is stored. For one that was there before, it waits as
// Wait does.
func (b *backend) SubmitAwaited(ctx context.Context, request submit.Request) (store.Submitted, api.Awaited, error) {
	executions, err := b.submissions.prepare(ctx, []submit.Request{request})
	if err != nil {
		return store.Submitted{}, nil, err
	}
	expected := b.Expect(executions[0].ID)
	spans := b.traced(executions, byAPI)
	stored, err := b.submissions.enter(ctx, executions, false)
	spans.stored(executions, stored, err)
	if err != nil {
		expected.Leave()
		return store.Submitted{}, nil, err
	}
	if stored[0].Existing {
		expected.Leave()
		return stored[0], &existing{b, stored[0].Execution.ID}, nil
	}
	expected.Stored(&stored[0].Execution)
	return stored[0], expected, nil
}

// existing waits for an execution that was stored before.
type existing struct {
	*backend
	id messages.ExecutionID
}

// Wait implements api.Awaited.
func (x *existing) Wait(ctx context.Context) (messages.Execution, error) {
	return x.backend.Wait(ctx, x.id)
}

// Leave implements api.Awaited.
func (x *existing) Leave() {}

// readTime bounds one look at an execution, where the caller has as much time as it likes.
const readTime = 5 * time.Second

// Actions implements api.Backend.
func (b *backend) Actions(context.Context) ([]messages.Action, error) {
	return b.catalog.set().Actions, nil
}

// DeadLetters implements api.Backend.
func (b *backend) DeadLetters() store.DeadLetters { return b.store }

// Bulk implements api.Backend.
func (b *backend) Bulk() api.Bulk { return b.bulk }

// Reload implements api.Backend.
func (b *backend) Reload(ctx context.Context, by string) (api.ReloadReport, error) {
	return b.reloader.reload(ctx, by)
}

// Mark implements api.Backend.
func (b *backend) Mark(e messages.JournalEntry) bool { return b.journal.take(e) }

// Ready implements api.Backend.
func (b *backend) Ready(ctx context.Context) api.Readiness { return b.readiness.read(ctx) }

// Findings implements api.Backend.
func (b *backend) Findings() api.Findings { return b.findings.latest() }

// Overview implements api.Backend.
func (b *backend) Overview(ctx context.Context, from, to time.Time) api.Overview {
	return b.overviews.get(ctx, from, to)
}

// RetryAnswer implements api.Backend.
func (b *backend) RetryAnswer(ctx context.Context, e *messages.Execution) view.Retry {
	return b.retries.answer(ctx, e)
}

// Redact implements api.Backend.
func (b *backend) Redact(ref string, parameters json.RawMessage) json.RawMessage {
	return b.catalog.redact(ref, parameters)
}
