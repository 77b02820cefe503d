package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/rules/bulk"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
)

// breaks are handlers whose runs fail.
func breaks() map[string]messages.Handler {
	return map[string]messages.Handler{"fail": func(context.Context, *messages.Task) (any, error) { return nil, errors.New("it broke") }}
}

// broken submits executions that fail, and waits for that.
func (k *kit) broken(n int) []messages.ExecutionID {
	k.t.Helper()
	ids := k.many(n, ask("t.fail", nil))
	for _, id := range ids {
		require.Equal(k.t, messages.Failed, k.await(id).Status)
	}
	return ids
}

func (k *kit) many(n int, r submit.Request) (ids []messages.ExecutionID) {
	k.t.Helper()
	requests := make([]submit.Request, n)
	for i := range requests {
		requests[i] = r
	}
	submitted, err := k.Submit(k.t.Context(), requests)
	require.NoError(k.t, err)
	for i := range submitted {
		ids = append(ids, submitted[i].Execution.ID)
	}
	return ids
}

// previews previews an operation by ann.
func (k *kit) previews(kind bulk.Kind, filter string) (store.Operation, *bulk.Tally) {
	k.t.Helper()
	op, tally, err := k.Bulk().Preview(k.t.Context(), store.Operation{Kind: string(kind), Filter: json.RawMessage(filter), By: "ann"})
	require.NoError(k.t, err)
	return op, tally
}

func items(ids []messages.ExecutionID) (list []store.OperationItem) {
	for _, id := range ids {
		list = append(list, store.ExecutionItem(id))
	}
	return list
}

func confirmation(op *store.Operation) api.Confirmation {
	return api.Confirmation{Count: op.Count, Reason: "the partner was down", Rate: bulk.RateDefault, By: op.By}
}

func (k *kit) confirms(op store.Operation) store.Operation {
	k.t.Helper()
	op, err := k.Bulk().Confirm(k.t.Context(), op.ID, confirmation(&op))
	require.NoError(k.t, err)
	return op
}

// ends waits for the end of an operation.
func (k *kit) ends(id messages.OperationID) (op store.Operation) {
	k.t.Helper()
	k.until("the operation has ended", func() bool {
		var err error
		op, err = k.Bulk().Operation(k.t.Context(), id)
		require.NoError(k.t, err)
		return op.State.Ended()
	})
	return op
}

// TestManyAreRetried checks that an operation retries what was previewed once, behind other work, and leaves what came later alone.
func TestManyAreRetried(t *testing.T) {
	t.Parallel()
	k := lab(t, handle(breaks()), goPack(t, map[string]string{"fail": ""}))
	ids := k.broken(30)
	_, err := k.Retry(t.Context(), ids[0], "", "bob")
	require.NoError(t, err)
	k.chain(ids[0], 2)
	op, tally := k.previews(bulk.Retry, `{"status":["failed"],"action":["t.fail"]}`)
	require.Equal(t, int64(30), op.Count, "29, and the retry of the first")
	require.True(t, op.Exact)
	require.Equal(t, int64(31), tally.Matched)
	require.Equal(t, map[bulk.Why]int64{bulk.AlreadyRetried: 1}, tally.Skipped)
	require.Len(t, tally.Examples, bulk.ExamplesMax)
	later := k.broken(2)

	k.confirms(op)
	op = k.ends(op.ID)
	require.Equal(t, store.OperationDone, op.State)
	require.Equal(t, [3]int64{30, 1, 0}, [3]int64{op.Done, op.Skipped, op.Failed})
	for _, id := range ids[1:] {
		next := k.chain(id, 2)[1]
		require.Equal(t, bulk.Key(op.ID, id), next.IdempotencyKey)
		require.Equal(t, messages.PriorityNormal-1, next.Priority)
		require.Equal(t, "ann", k.events(id)["retry"][0].By)
	}
	for _, id := range later {
		require.Zero(t, k.get(id).RetriedAs, "what came after the preview is left alone")
	}
	var said []messages.JournalEntry
	k.until("the journal has it", func() bool {
		page, err := k.Journal(t.Context(), store.JournalQuery{Subjects: []string{"operation " + op.ID.String()}})
		require.NoError(t, err)
		said = page.Entries
		return len(said) == 2
	})
	require.Equal(t, [4]string{"bulk_retry", "ann", "the partner was down", "bulk_done"}, [4]string{said[0].What, said[0].Caller, said[0].Reason, said[1].What})
}

// TestManyAreCancelled checks that an operation cancels what waits and what runs, of a filter and of ids.
func TestManyAreCancelled(t *testing.T) {
	t.Parallel()
	block := newGate()
	k := lab(t, handle(map[string]messages.Handler{"block": block.run}), goPack(t, map[string]string{"block": ""}))
	ids := k.many(20, ask("t.block", nil))
	block.next(t)
	op, tally := k.previews(bulk.Cancel, `{"pool":["go"]}`)
	require.Equal(t, int64(20), op.Count)
	require.Equal(t, int64(20), tally.Matched)
	more := k.many(3, ask("t.block", nil))
	k.confirms(op)
	require.Equal(t, int64(20), k.ends(op.ID).Done)
	for _, id := range ids {
		require.Equal(t, messages.Cancelled, k.await(id).Status)
	}
	unknown := messages.NewExecutionID()
	named, tally, err := k.Bulk().Preview(t.Context(), store.Operation{Kind: string(bulk.Cancel), IDs: items(append(more, ids[0], unknown)), By: "ann"})
	require.NoError(t, err)
	require.Equal(t, int64(3), named.Count)
	require.Equal(t, map[bulk.Why]int64{bulk.Ended: 1, bulk.Unknown: 1}, tally.Skipped)
	k.confirms(named)
	named = k.ends(named.ID)
	require.Equal(t, int64(3), named.Done)
	require.Equal(t, map[string]int64{"ended": 1, "unknown": 1}, named.Skips)
	for _, id := range more {
		require.Equal(t, messages.Cancelled, k.await(id).Status)
	}
}

// TestPreviewsAreConfirmedOnce checks who may confirm what, and that many who confirm one preview at once start one operation.
func TestPreviewsAreConfirmedOnce(t *testing.T) {
	t.Parallel()
	k := lab(t, handle(breaks()), goPack(t, map[string]string{"fail": ""}))
	ctx := t.Context()
	ids := k.broken(12)
	op, _ := k.previews(bulk.Retry, `{"status":["failed"]}`)
	_, err := k.Bulk().Operation(ctx, op.ID)
	require.Equal(t, http.StatusNotFound, api.StatusOf(refused(t, err)), "a preview is no operation")
	_, err = k.Bulk().Stop(ctx, op.ID, "ann")
	require.Equal(t, http.StatusNotFound, api.StatusOf(refused(t, err)))
	for code, change := range map[messages.Code]func(c *api.Confirmation){
		messages.CodeInvalidRequest: func(c *api.Confirmation) { c.Count = 11 },
		messages.CodePreviewExpired: func(c *api.Confirmation) { c.By = "bob" },
	} {
		c := confirmation(&op)
		change(&c)
		_, err := k.Bulk().Confirm(ctx, op.ID, c)
		require.Equal(t, code, refused(t, err).Code)
	}
	_, err = k.Bulk().Confirm(ctx, messages.NewOperationID(), confirmation(&op))
	require.Equal(t, messages.CodePreviewExpired, refused(t, err).Code)
	over, err := k.Adapter().AddOperation(ctx, store.Operation{ID: messages.NewOperationID(), Kind: "retry", Filter: op.Filter, SeqMax: op.SeqMax, Count: op.Count, By: "ann"}, -time.Second)
	require.NoError(t, err)
	_, err = k.Bulk().Confirm(ctx, over.ID, confirmation(&over))
	require.Equal(t, messages.CodePreviewExpired, refused(t, err).Code)
	few, err := k.Adapter().AddOperation(ctx, store.Operation{ID: messages.NewOperationID(), Kind: "retry", Filter: op.Filter, SeqMax: op.SeqMax, Count: 10, Exact: true, By: "ann"}, time.Minute)
	require.NoError(t, err)
	_, err = k.Bulk().Confirm(ctx, few.ID, confirmation(&few))
	require.Equal(t, messages.CodeCountChanged, refused(t, err).Code)
	require.Equal(t, map[string]any{"previewed": int64(10), "now": int64(12)}, refused(t, err).Details)

	var confirmed sync.WaitGroup
	for range 10 {
		confirmed.Go(func() {
			started, err := k.Bulk().Confirm(ctx, op.ID, confirmation(&op))
			if err != nil || started.ID != op.ID {
				t.Errorf("confirmed %v: %v", started.ID, err)
			}
		})
	}
	confirmed.Wait()
	require.Equal(t, int64(12), k.ends(op.ID).Done)
	all, err := k.Bulk().Operations(ctx, store.OperationQuery{Limit: 10})
	require.NoError(t, err)
	require.Len(t, all, 1)
	for _, id := range ids {
		k.chain(id, 2)
	}
}

// TestOperationsStop checks that an operation is paced, and that a stop leaves the rest.
func TestOperationsStop(t *testing.T) {
	t.Parallel()
	k := lab(t, handle(breaks()), goPack(t, map[string]string{"fail": ""}))
	ids := k.broken(40)
	op, _ := k.previews(bulk.Retry, `{"status":["failed"]}`)
	c := confirmation(&op)
	c.Rate = 1
	_, err := k.Bulk().Confirm(t.Context(), op.ID, c)
	require.NoError(t, err)
	k.until("it has begun", func() bool {
		op, err := k.Bulk().Operation(t.Context(), op.ID)
		require.NoError(t, err)
		return op.Done > 0
	})
	_, err = k.Bulk().Stop(t.Context(), op.ID, "bob")
	require.NoError(t, err)
	op = k.ends(op.ID)
	require.Equal(t, store.OperationStopped, op.State)
	retried := int64(0)
	for _, id := range ids {
		if !k.get(id).RetriedAs.IsZero() {
			retried++
		}
	}
	require.Equal(t, op.Done, retried)
	require.Less(t, retried, int64(len(ids)))
}

// operationVar makes the test binary a node that is killed in the middle of an operation: the URL of its Postgres.
const operationVar = "TROUPE_TEST_OPERATION"

const (
	interruptedAll = 120
	interruptedAt  = 50 // retries that are stored before it is killed
)

// interrupted is a store that never answers the retries after some.
type interrupted struct {
	store.Store
	stored atomic.Int64
}

func (s *interrupted) Retry(ctx context.Context, id messages.ExecutionID, next messages.Execution, by string) (store.Submitted, error) {
	if s.stored.Add(1) > interruptedAt {
		fmt.Println("interrupted")
		<-make(chan struct{})
	}
	return s.Store.Retry(ctx, id, next, by)
}

// playOperation is the node that is killed: it has an operation begun.
func playOperation() {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	cfg := node.Config{
		Name: "second", Data: os.Args[1], NoBuiltins: true, Packs: []string{os.Args[2]}, Health: node.Health{EchoInterval: -1},
		Logger: hclog.New(&hclog.LoggerOptions{Output: os.Stderr}), Workers: map[messages.Runtime]int{"go": 2},
		WrapStore: func(s store.Store) store.Store { return &interrupted{Store: s} },
	}
	handle(breaks())(&cfg)
	paired(&cfg, os.Getenv(operationVar))
	n, err := node.New(cfg)
	must(err)
	ctx := context.Background()
	must(n.Start(ctx))
	b := n.Backend()
	requests := make([]submit.Request, interruptedAll)
	for i := range requests {
		requests[i] = ask("t.fail", nil)
	}
	submitted, err := b.Submit(ctx, requests)
	must(err)
	for i := range submitted {
		_, err := b.Wait(ctx, submitted[i].Execution.ID)
		must(err)
	}
	op, _, err := b.Bulk().Preview(ctx, store.Operation{Kind: string(bulk.Retry), Filter: json.RawMessage(`{"status":["failed"]}`), By: "ann"})
	must(err)
	fmt.Println("operation", op.ID, op.Count)
	_, err = b.Bulk().Confirm(ctx, op.ID, confirmation(&op))
	must(err)
	<-make(chan struct{})
}

// TestAnOperationOutlivesItsNode kills a node in the middle of a step. Another node ends the operation: each execution is retried once, and
// counted once.
func TestAnOperationOutlivesItsNode(t *testing.T) {
	t.Parallel()
	url, pack := database(t), goPack(t, map[string]string{"fail": ""})
	other := startAs(t, operationVar, url, pack)
	said := other.says("operation")
	id, err := messages.ParseOperationID(said[0])
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(interruptedAll), said[1])
	other.says("interrupted")
	k := lab(t, func(c *node.Config) {
		paired(c, url)
		handle(breaks())(c)
	}, pack)
	held, err := k.Bulk().Operation(t.Context(), id)
	require.NoError(t, err)
	require.Len(t, held.Pending, interruptedAll)
	require.Zero(t, held.Done)
	other.signal(syscall.SIGKILL)

	op := k.ends(id)
	require.Equal(t, store.OperationDone, op.State)
	require.Equal(t, [3]int64{interruptedAll, 0, 0}, [3]int64{op.Done, op.Skipped, op.Failed})
	require.Equal(t, k.Incarnation(), op.Incarnation)
	require.Equal(t, int64(2), op.Epoch)
	first, again := 0, 0
	for after := int64(0); ; {
		page, err := k.List(t.Context(), store.Filter{Oldest: true, After: after, Limit: 1000})
		require.NoError(t, err)
		for i := range page.Executions {
			if e := &page.Executions[i]; e.Original.IsZero() {
				first++
				require.False(t, e.RetriedAs.IsZero(), "nothing is missed")
			} else {
				again++
				require.Equal(t, bulk.Key(id, e.Original), e.IdempotencyKey)
			}
		}
		if after = page.Next; after == 0 {
			break
		}
	}
	require.Equal(t, interruptedAll, first)
	require.Equal(t, interruptedAll, again, "nothing is done twice")
}

// TestAnOperationIsOnWhatEndedInATime: no filter of a list is left out of an operation.
func TestAnOperationIsOnWhatEndedInATime(t *testing.T) {
	t.Parallel()
	k := lab(t, handle(breaks()), goPack(t, map[string]string{"fail": ""}))
	var ids []messages.ExecutionID
	var ends []string
	for range 3 {
		id := k.broken(1)[0]
		e, err := k.Get(t.Context(), id)
		require.NoError(t, err)
		ids, ends = append(ids, id), append(ends, e.FinishedAt.Format(time.RFC3339Nano))
	}
	op, tally := k.previews(bulk.Retry, fmt.Sprintf(`{"ended_from":[%q],"ended_to":[%q]}`, ends[1], ends[2]))
	require.Equal(t, int64(1), tally.Matched)
	require.Equal(t, int64(1), k.ends(k.confirms(op).ID).Done)
	for i, id := range ids {
		e, err := k.Get(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, i == 1, !e.RetriedAs.IsZero())
	}
}

// TestAnOperationThatIsNotFullyKnownChangesNothing: a node of a later version has stored a filter, or a kind, that this one does not know.
// Without that part the operation would be another one than was confirmed.
func TestAnOperationThatIsNotFullyKnownChangesNothing(t *testing.T) {
	t.Parallel()
	k := lab(t, handle(breaks()), goPack(t, map[string]string{"fail": ""}))
	id := k.broken(1)[0]
	for _, op := range []store.Operation{
		{Kind: "retry", Filter: json.RawMessage(`{"status":["failed"],"colour":["red"]}`)},
		{Kind: "retry", Filter: json.RawMessage(`{"status":["failed"],"was":["painted"]}`)},
		{Kind: "repaint", Filter: json.RawMessage(`{"status":["failed"]}`)},
		{Kind: "repaint", IDs: items([]messages.ExecutionID{id})},
		{Kind: "requeue", Filter: json.RawMessage(`{"dead_letters":{"reason":["expired"]},"colour":["red"]}`)},
	} {
		op.ID, op.SeqMax, op.Count, op.By = messages.NewOperationID(), 1000, 1, "ann"
		_, err := k.Adapter().AddOperation(t.Context(), op, time.Minute)
		require.NoError(t, err)
		_, err = k.Adapter().StartOperation(t.Context(), op.ID, "because", bulk.RateDefault)
		require.NoError(t, err)
		ended := k.ends(op.ID)
		require.Equal(t, store.OperationFailed, ended.State, "%s %s", op.Kind, op.Filter)
		require.Regexp(t, "colour|painted|repaint", ended.Problem)
		require.Zero(t, ended.Done)
	}
	e, err := k.Get(t.Context(), id)
	require.NoError(t, err)
	require.True(t, e.RetriedAs.IsZero())
}
