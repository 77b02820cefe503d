package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/rules/bulk"
	"github.com/troupe-run/troupe/store"
)

// dead stores a dead letter for each execution. Zero: it names none.
func (k *kit) dead(action string, ids ...messages.ExecutionID) (numbers []int64) {
	k.t.Helper()
	for _, id := range ids {
		number, err := k.DeadLetters().SaveDeadLetter(k.t.Context(), store.DeadLetter{Execution: id, Attempt: 1, Action: action, Reason: "expired", Resolution: "failed"})
		require.NoError(k.t, err)
		numbers = append(numbers, number)
	}
	return numbers
}

func (k *kit) became(number int64) string {
	k.t.Helper()
	letter, err := k.DeadLetters().GetDeadLetter(k.t.Context(), number)
	require.NoError(k.t, err)
	return letter.Resolution
}

func letterItems(numbers ...int64) (list []store.OperationItem) {
	for _, n := range numbers {
		list = append(list, store.LetterItem(n))
	}
	return list
}

// TestManyDeadLettersAreRequeued checks that an operation requeues what was previewed, an execution once however many dead letters it has,
// and that what was handled before, cannot be requeued or came later is left alone.
func TestManyDeadLettersAreRequeued(t *testing.T) {
	t.Parallel()
	k := lab(t, handle(breaks()), goPack(t, map[string]string{"fail": ""}))
	ids := k.broken(6)
	numbers := k.dead("t.fail", append(ids[:5:5], ids[0], messages.ExecutionID{}, messages.NewExecutionID())...)
	other := k.dead("t.other", ids[5])
	_, err := k.DiscardDeadLetter(t.Context(), numbers[3], "bob")
	require.NoError(t, err)
	_, err = k.RequeueDeadLetter(t.Context(), numbers[4], "bob")
	require.NoError(t, err)
	op, tally := k.previews(bulk.Requeue, `{"dead_letters":{"action":["t.fail"],"reason":["expired"]}}`)
	require.True(t, op.Exact)
	require.Equal(t, [2]int64{4, 8}, [2]int64{op.Count, tally.Matched})
	require.Equal(t, map[bulk.Why]int64{bulk.AlreadyRequeued: 1, bulk.AlreadyDiscarded: 1, bulk.NoExecution: 1, bulk.Unknown: 1}, tally.Skipped)
	require.Equal(t, numbers[0], tally.Letters[0].ID, "the oldest first")
	later := k.dead("t.fail", ids[5])

	k.confirms(op)
	op = k.ends(op.ID)
	require.Equal(t, store.OperationDone, op.State)
	require.Equal(t, [3]int64{4, 4, 0}, [3]int64{op.Done, op.Skipped, op.Failed})
	for _, id := range ids[:3] {
		next := k.chain(id, 2)[1]
		require.Equal(t, bulk.Key(op.ID, id), next.IdempotencyKey)
		require.Equal(t, "ann", k.events(id)["retry"][0].By)
	}
	for _, n := range []int64{numbers[0], numbers[1], numbers[2], numbers[5]} {
		require.Equal(t, bulk.Requeued, k.became(n))
	}
	require.Equal(t, bulk.Discarded, k.became(numbers[3]))
	require.Equal(t, "failed", k.became(other[0]), "the filter leaves it out")
	require.Equal(t, "failed", k.became(later[0]), "what came after the preview is left alone")
	require.Zero(t, k.get(ids[5]).RetriedAs)
}

// TestManyDeadLettersAreDiscarded checks an operation on chosen dead letters.
func TestManyDeadLettersAreDiscarded(t *testing.T) {
	t.Parallel()
	k := lab(t, handle(breaks()), goPack(t, map[string]string{"fail": ""}))
	ids := k.broken(3)
	numbers := k.dead("t.fail", append(ids, messages.ExecutionID{})...)
	_, err := k.RequeueDeadLetter(t.Context(), numbers[2], "bob")
	require.NoError(t, err)
	op, tally, err := k.Bulk().Preview(t.Context(), store.Operation{
		Kind: string(bulk.Discard), IDs: letterItems(numbers[0], numbers[2], numbers[3], 1<<40), By: "ann",
	})
	require.NoError(t, err)
	require.Equal(t, map[bulk.Why]int64{bulk.AlreadyRequeued: 1, bulk.Unknown: 1}, tally.Skipped)
	k.confirms(op)
	op = k.ends(op.ID)
	require.Equal(t, [3]int64{2, 2, 0}, [3]int64{op.Done, op.Skipped, op.Failed})
	var became []string
	for _, n := range numbers {
		became = append(became, k.became(n))
	}
	require.Equal(t, []string{bulk.Discarded, "failed", bulk.Requeued, bulk.Discarded}, became)
	require.Zero(t, k.get(ids[0]).RetriedAs)
}

// TestTwoOperatorsRequeueAtOnce checks that of two operations on the same dead letters each dead letter is handled by one, and that the
// other one says so.
func TestTwoOperatorsRequeueAtOnce(t *testing.T) {
	t.Parallel()
	k := lab(t, handle(breaks()), goPack(t, map[string]string{"fail": ""}))
	ids := k.broken(20)
	k.dead("t.fail", ids...)
	var ops [3]store.Operation
	for i, kind := range []bulk.Kind{bulk.Requeue, bulk.Requeue, bulk.Discard} {
		ops[i], _ = k.previews(kind, `{"dead_letters":{"action":["t.fail"]}}`)
		require.Equal(t, int64(20), ops[i].Count)
	}
	var confirmed sync.WaitGroup
	for i := range ops {
		confirmed.Go(func() {
			if _, err := k.Bulk().Confirm(t.Context(), ops[i].ID, confirmation(&ops[i])); err != nil {
				t.Errorf("confirm: %v", err)
			}
		})
	}
	confirmed.Wait()
	done, requeued := int64(0), int64(0)
	for i := range ops {
		op := k.ends(ops[i].ID)
		require.Equal(t, int64(20), op.Done+op.Skipped)
		if done += op.Done; op.Kind == string(bulk.Requeue) {
			requeued += op.Done
		}
	}
	require.Equal(t, int64(20), done)
	retried := int64(0)
	for _, id := range ids {
		if !k.get(id).RetriedAs.IsZero() {
			retried++
			k.chain(id, 2)
		}
	}
	require.Equal(t, requeued, retried)
}

// unsaved is a store that has the first steps on dead letters break off: before their records, after them, and before the progress.
type unsaved struct {
	store.Store
	resolved, saved atomic.Int64
}

var errBrokenOff = errors.New("broken off")

func (s *unsaved) ResolveDeadLetters(ctx context.Context, ids []int64, resolution string, unless ...string) ([]int64, error) {
	n := s.resolved.Add(1)
	if n == 1 {
		return nil, errBrokenOff
	}
	changed, err := s.Store.ResolveDeadLetters(ctx, ids, resolution, unless...)
	if n == 2 && err == nil {
		return nil, errBrokenOff
	}
	return changed, err
}

func (s *unsaved) SaveOperation(ctx context.Context, o *store.Operation) (store.OperationState, error) {
	if len(o.Pending) == 0 && o.Done > 0 && s.saved.Add(1) == 1 {
		return "", errBrokenOff
	}
	return s.Store.SaveOperation(ctx, o)
}

// TestAnInterruptedOperationOnDeadLettersGoesOn checks that a step that broke off anywhere is done again, and counts what it has done once.
func TestAnInterruptedOperationOnDeadLettersGoesOn(t *testing.T) {
	t.Parallel()
	for _, kind := range []bulk.Kind{bulk.Requeue, bulk.Discard} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			broken := &unsaved{}
			k := lab(t, func(c *node.Config) {
				handle(breaks())(c)
				c.WrapStore = func(s store.Store) store.Store {
					broken.Store = s
					return broken
				}
			}, goPack(t, map[string]string{"fail": ""}))
			ids := k.broken(10)
			numbers := k.dead("t.fail", ids...)
			op, _, err := k.Bulk().Preview(t.Context(), store.Operation{Kind: string(kind), Filter: json.RawMessage(`{"dead_letters":{"reason":["expired"]}}`), By: "ann"})
			require.NoError(t, err)
			k.confirms(op)
			op = k.ends(op.ID)
			require.Equal(t, [3]int64{10, 0, 0}, [3]int64{op.Done, op.Skipped, op.Failed})
			require.Greater(t, broken.resolved.Load(), int64(2))
			require.Greater(t, broken.saved.Load(), int64(1))
			for i, id := range ids {
				require.Equal(t, map[bulk.Kind]string{bulk.Requeue: bulk.Requeued, bulk.Discard: bulk.Discarded}[kind], k.became(numbers[i]))
				k.chain(id, map[bulk.Kind]int{bulk.Requeue: 2, bulk.Discard: 1}[kind])
			}
		})
	}
}
