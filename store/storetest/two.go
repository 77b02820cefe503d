package storetest

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// Two is one store of two values on the same database, as on two nodes: each value's memory of executions and sessions
// must be correct whatever the other does. Each call about them goes to one of the two by chance. Leases and hints are
// the first's, so it does not run the tests of Shared.
func Two(first, second store.Store) store.Store {
	return &two{Store: first, second: second, random: rand.New(rand.NewPCG(1, 2))}
}

type two struct {
	store.Store // the first, for calls that are not about executions and sessions
	second      store.Store
	mu          sync.Mutex
	random      *rand.Rand
}

func (s *two) either() store.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.random.IntN(2) == 0 {
		return s.Store
	}
	return s.second
}

// Submit implements store.Store.
func (s *two) Submit(ctx context.Context, e []messages.Execution) ([]store.Submitted, error) {
	return s.either().Submit(ctx, e)
}

// SubmitPlaced implements store.Store.
func (s *two) SubmitPlaced(ctx context.Context, e []messages.Execution, p []*store.Place) ([]store.Submitted, error) {
	return s.either().SubmitPlaced(ctx, e, p)
}

// Apply implements store.Store.
func (s *two) Apply(ctx context.Context, c []store.Change) ([]store.Result, error) {
	return s.either().Apply(ctx, c)
}

// Retry implements store.Store.
func (s *two) Retry(ctx context.Context, id messages.ExecutionID, next messages.Execution, by string) (store.Submitted, error) {
	return s.either().Retry(ctx, id, next, by)
}

// Due implements store.Store.
func (s *two) Due(ctx context.Context, q store.DueQuery) (store.DuePage, error) {
	return s.either().Due(ctx, q)
}

// Overdue implements store.Store.
func (s *two) Overdue(ctx context.Context, q store.OverdueQuery) ([]messages.Execution, error) {
	return s.either().Overdue(ctx, q)
}

// Live implements store.Store.
func (s *two) Live(ctx context.Context, pool string) ([]messages.Execution, error) {
	return s.either().Live(ctx, pool)
}

// Get implements store.Store.
func (s *two) Get(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
	return s.either().Get(ctx, id)
}

// List implements store.Store.
func (s *two) List(ctx context.Context, f store.Filter) (store.Page, error) {
	return s.either().List(ctx, f)
}

// Chain implements store.Store.
func (s *two) Chain(ctx context.Context, id messages.ExecutionID) ([]messages.Execution, error) {
	return s.either().Chain(ctx, id)
}

// Events implements store.Store.
func (s *two) Events(ctx context.Context, id messages.ExecutionID) ([]store.Event, error) {
	return s.either().Events(ctx, id)
}

// EventsBetween implements store.Store.
func (s *two) EventsBetween(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	return s.either().EventsBetween(ctx, q)
}

// Output implements store.Store.
func (s *two) Output(ctx context.Context, id messages.ExecutionID) (messages.Output, error) {
	return s.either().Output(ctx, id)
}

// GetSession implements store.Store.
func (s *two) GetSession(ctx context.Context, pool, session string) (store.Session, error) {
	return s.either().GetSession(ctx, pool, session)
}

// Unbind implements store.Store.
func (s *two) Unbind(ctx context.Context, b []store.Binding) (int, error) {
	return s.either().Unbind(ctx, b)
}

// SaveSnapshot implements store.Store.
func (s *two) SaveSnapshot(ctx context.Context, ref store.SessionRef, state json.RawMessage) error {
	return s.either().SaveSnapshot(ctx, ref, state)
}

// Snapshot implements store.Store.
func (s *two) Snapshot(ctx context.Context, pool, session string) (json.RawMessage, int64, error) {
	return s.either().Snapshot(ctx, pool, session)
}

// Second adds the tests of two store values, one for each node. second opens another value on the database of a store.
func Second(second func(t *testing.T, s store.Store) store.Store) Option {
	return func() []named {
		return []named{
			{"outcomes of two processes", func(t *testing.T, k *kit) { testTwoOutcomes(t, k, second(t, k.Store)) }},
			{"claims of two processes", func(t *testing.T, k *kit) { testTwoClaims(t, k, second(t, k.Store)) }},
		}
	}
}

// testTwoOutcomes checks a process that remembers an execution it has claimed. Once another process has rescued the
// execution and runs a newer attempt, the outcome of the first has no effect, although a lean statement writes it
// without a read.
func testTwoOutcomes(t *testing.T, k *kit, other store.Store) {
	second := &kit{Store: other, inc: k.inc}
	for _, status := range []messages.Status{messages.Completed, messages.Failed, messages.TimedOut} {
		e := k.bring(t, messages.Running)
		second.applied(t, &store.Rescue{ID: e.ID, Attempt: 1, Reason: "node gone"})
		second.applied(t, second.place(e.ID, 1, 2))
		second.applied(t, second.claim(e.ID, 2, 2))
		r := k.apply(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: outcome(status)})[0]
		require.Equal(t, store.Stale, r.Verdict, "%s", status)
		require.Equal(t, []any{messages.Running, messages.Attempt(2)}, []any{r.Status, r.Attempt})
		require.Equal(t, messages.Running, k.get(t, e.ID).Status)
		second.applied(t, &store.Finish{ID: e.ID, Attempt: 2, Outcome: completed()})
		require.Equal(t, store.Stale, k.apply(t, &store.Finish{ID: e.ID, Attempt: 1, Outcome: completed()})[0].Verdict, "and none after its end")
	}
}

// testTwoClaims checks the same for a claim, by a process that remembers its submission.
func testTwoClaims(t *testing.T, k *kit, other store.Store) {
	second := &kit{Store: other, inc: k.inc}
	e := k.bring(t, messages.Scheduled)
	second.applied(t, &store.TakeBack{ID: e.ID, Attempt: 1, Reason: "test"})
	second.applied(t, second.place(e.ID, 1, 1))
	r := k.apply(t, k.claim(e.ID, 1, 1))[0]
	require.Equal(t, store.Stale, r.Verdict, "the placement was taken back, and is another's now")
	got := second.applied(t, second.claim(e.ID, 2, 1)).Execution
	require.Equal(t, messages.Attempt(2), got.Attempt)
	require.JSONEq(t, string(e.Parameters), string(got.Parameters), "whoever claims it reads what was asked")
}
