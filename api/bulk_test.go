package api

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/bulk"
	"github.com/troupe-run/troupe/store"
)

// bulkBackend keeps what it is asked, and answers with one operation.
type bulkBackend struct {
	previewed []store.Operation
	confirmed []Confirmation
	op        store.Operation
	stopped   []string
	err       error
	asked     store.OperationQuery
}

func (b *bulkBackend) Preview(_ context.Context, o store.Operation) (store.Operation, *bulk.Tally, error) {
	b.previewed = append(b.previewed, o)
	tally := bulk.NewTally(bulk.Kind(o.Kind))
	if tally.Kind.Letters() {
		tally.AddLetter(&bulk.Letter{ID: 7, Reason: "expired", Resolution: "failed", Execution: messages.NewExecutionID(), Status: messages.Failed, Action: "a.b"})
	} else {
		tally.Add(&messages.Execution{ID: messages.NewExecutionID(), Status: messages.Failed, Action: "a.b", Result: json.RawMessage(`"secret"`)})
	}
	tally.Skip(bulk.AlreadyRetried)
	o.ID, o.Count, o.Exact, o.SeqMax = b.op.ID, tally.Count, true, 7
	return o, tally, b.err
}

func (b *bulkBackend) Confirm(_ context.Context, id messages.OperationID, c Confirmation) (store.Operation, error) {
	b.confirmed = append(b.confirmed, c)
	return store.Operation{ID: id}, b.err
}

func (b *bulkBackend) Operation(_ context.Context, id messages.OperationID) (store.Operation, error) {
	if id != b.op.ID {
		return store.Operation{}, store.ErrNotFound
	}
	return b.op, nil
}

func (b *bulkBackend) Operations(_ context.Context, q store.OperationQuery) ([]store.Operation, error) {
	b.asked = q
	return []store.Operation{b.op}, nil
}

func (b *bulkBackend) Stop(ctx context.Context, id messages.OperationID, by string) (store.Operation, error) {
	b.stopped = append(b.stopped, by)
	return b.Operation(ctx, id)
}

const previewPath, bulkPath, operationsPath = "/api/v1/bulk/preview", "/api/v1/bulk", "/api/v1/operations"

func TestABulkOperationIsPreviewedAndConfirmed(t *testing.T) {
	t.Parallel()
	b, ops := newBackend(t), &bulkBackend{op: store.Operation{
		ID: messages.NewOperationID(), Kind: "retry", Filter: json.RawMessage(`{"status":["failed"]}`), State: store.OperationRunning, Done: 3, Skipped: 2, Failed: 1,
		Skips: map[string]int64{"ended": 2}, Failures: []store.OperationFailure{{Execution: messages.NewExecutionID(), Error: "no"}}, By: "local",
		CreatedAt: time.Date(2030, 1, 31, 8, 0, 0, 123000, time.UTC), StartedAt: time.Date(2030, 1, 31, 8, 1, 0, 0, time.UTC),
	}}
	b.bulk = ops
	h := New(Config{Backend: b})
	made := read[BulkPreviewView](t, ask(t, h, "POST", previewPath, `{"kind":"retry","filter":{"status":["failed","timed_out"],"pool":["python","go"],"not.label":["a=b","c=d"]}}`), 200)
	require.Equal(t, ops.op.ID, made.Preview)
	require.Equal(t, int64(1), made.Count)
	require.Equal(t, int64(2), made.Matched)
	require.Equal(t, []bulk.Counted{{Value: "failed", N: 1}}, made.By.Status)
	require.Equal(t, []BulkSkipped{{"already_retried", 1}}, made.Skipped)
	require.Len(t, made.Examples, 1)
	require.Nil(t, made.Examples[0].Result, "payloads are never in lists")
	require.Equal(t, "local", ops.previewed[0].By)
	require.JSONEq(t, `{"status":["failed","timed_out"],"pool":["python","go"],"not.label":["a=b","c=d"]}`, string(ops.previewed[0].Filter))

	id := messages.NewExecutionID()
	read[BulkPreviewView](t, ask(t, h, "POST", previewPath, fmt.Sprintf(`{"kind":"cancel","ids":["%s","%s"]}`, id, id)), 200)
	require.Equal(t, []store.OperationItem{store.ExecutionItem(id)}, ops.previewed[1].IDs, "each once")

	started := read[BulkStarted](t, ask(t, h, "POST", bulkPath, fmt.Sprintf(`{"preview":"%s","confirm_count":1,"reason":"why not"}`, ops.op.ID)), 202)
	require.Equal(t, ops.op.ID, started.Operation)
	require.Equal(t, []Confirmation{{Count: 1, Reason: "why not", Rate: bulk.RateDefault, By: "local"}}, ops.confirmed)

	one := read[OperationView](t, ask(t, h, "GET", operationsPath+"/"+ops.op.ID.String(), ""), 200)
	require.Equal(t, map[string][]string{"status": {"failed"}}, one.Filter)
	require.Equal(t, [3]int64{3, 2, 1}, [3]int64{one.Done, one.Skipped, one.Failed})
	require.Equal(t, []BulkSkipped{{"ended", 2}}, one.Skips)
	require.Len(t, one.Failures, 1)
	list := read[OperationList](t, ask(t, h, "GET", operationsPath+"?limit=1", ""), 200)
	require.Len(t, list.Operations, 1)
	require.Equal(t, 200, ask(t, h, "GET", operationsPath+"?cursor="+list.NextCursor, "").Code)
	require.Equal(t, store.OperationCursor{At: ops.op.CreatedAt, ID: ops.op.ID}, ops.asked.After)
	read[OperationList](t, ask(t, h, "GET", operationsPath+"?from=2030-01-31T08:00:00Z&to=2030-01-31T09:00:00Z&limit=7", ""), 200)
	from := time.Date(2030, 1, 31, 8, 0, 0, 0, time.UTC)
	require.Equal(t, store.OperationQuery{From: from, To: from.Add(time.Hour), Limit: 7}, ops.asked)
	refused(t, ask(t, h, "GET", operationsPath+"?from=x", ""), 400, messages.CodeInvalidRequest, "from must be a time")
	refused(t, ask(t, h, "GET", operationsPath+"?from=2030-01-31T08:00:00Z&to=2030-01-31T08:00:00Z", ""), 400, messages.CodeInvalidRequest, "from must be before to")
	require.Equal(t, 200, ask(t, h, "POST", operationsPath+"/"+ops.op.ID.String()+"/stop", `{"reason":"enough"}`).Code)
	require.Equal(t, []string{"local"}, ops.stopped)
}

// TestABulkOperationOnDeadLetters checks the preview of one, by filter and by numbers.
func TestABulkOperationOnDeadLetters(t *testing.T) {
	t.Parallel()
	b, ops := newBackend(t), &bulkBackend{op: store.Operation{
		ID: messages.NewOperationID(), Kind: "requeue", IDs: []store.OperationItem{store.LetterItem(9)}, Failed: 1,
		Failures: []store.OperationFailure{{DeadLetter: 9, Error: "no"}},
	}}
	b.bulk = ops
	h := New(Config{Backend: b})
	made := read[BulkPreviewView](t, ask(t, h, "POST", previewPath, `{"kind":"requeue","filter":{"reason":["expired"],"from":["2030-01-31T08:00:00Z"]}}`), 200)
	require.Equal(t, int64(1), made.Count)
	require.Equal(t, BulkBy{Status: []bulk.Counted{}, Reason: []bulk.Counted{{Value: "expired", N: 1}}, Action: []bulk.Counted{{Value: "a.b", N: 1}}}, made.By)
	require.Empty(t, made.Examples)
	require.Equal(t, int64(7), made.Letters[0].ID)
	require.JSONEq(t, `{"dead_letters":{"reason":["expired"],"from":["2030-01-31T08:00:00Z"]}}`, string(ops.previewed[0].Filter))
	_, err := BulkFilter(filterValues(&store.Operation{Kind: "retry", Filter: ops.previewed[0].Filter}))
	require.Error(t, err, "it is none of executions")
	more := json.RawMessage(`{"dead_letters":{"reason":["expired"]},"queues":["a"]}`)
	_, err = BulkLetterFilter(more)
	require.ErrorContains(t, err, "queues", "a part that this node does not know must not be left out")
	require.Nil(t, filterValues(&store.Operation{Kind: "requeue", Filter: more}))
	read[BulkPreviewView](t, ask(t, h, "POST", previewPath, `{"kind":"discard","dead_letters":[9,7,9]}`), 200)
	require.Equal(t, []store.OperationItem{store.LetterItem(9), store.LetterItem(7)}, ops.previewed[1].IDs, "each once")
	answer := ask(t, h, "GET", operationsPath+"/"+ops.op.ID.String(), "")
	require.Equal(t, 1, read[OperationView](t, answer, 200).IDs)
	stored := store.Operation{Kind: "requeue", Filter: ops.previewed[0].Filter}
	require.Equal(t, map[string][]string{"reason": {"expired"}, "from": {"2030-01-31T08:00:00Z"}}, viewOperation(&stored).Filter)
	require.Contains(t, answer.Body.String(), `"failures":[{"dead_letter":9,"error":"no"}]`)

	asked := len(ops.previewed)
	for body, why := range map[string]string{
		`{"kind":"requeue","filter":{"status":["failed"]}}`:                       `unknown parameter "status"`,
		`{"kind":"requeue","filter":{"from":["a","b"]}}`:                          "from has 2 values",
		`{"kind":"requeue","filter":{"from":["yesterday"]}}`:                      "from must be a time",
		`{"kind":"requeue","ids":["` + messages.NewExecutionID().String() + `"]}`: "takes filter or dead_letters",
		`{"kind":"retry","dead_letters":[7]}`:                                     "takes filter or ids",
		`{"kind":"discard","dead_letters":[0]}`:                                   "number 1, 0",
		`{"kind":"discard","dead_letters":[7],"filter":{"reason":["x"]}}`:         "not both",
		`{"kind":"discard","dead_letters":[` + strings.Repeat("7,", 1000) + `7]}`: "1001, at most 1000",
	} {
		refused(t, ask(t, h, "POST", previewPath, body), 400, messages.CodeInvalidRequest, why)
	}
	refused(t, ask(t, h, "POST", previewPath, `{"kind":"discard","filter":{"reason":[""]}}`), 422, messages.CodeEmptyFilter, "every dead letter")
	require.Len(t, ops.previewed, asked)
}

// A stored filter is read whether it has one value of a parameter, as before there were alternatives, or several.
func TestAStoredFilterIsRead(t *testing.T) {
	t.Parallel()
	for stored, want := range map[string]store.Filter{
		`{"pool":["python"],"action":["a"],"error":["boom"]}`: {Pools: []string{"python"}, Actions: []string{"a"}, Errors: []messages.Code{"boom"}},
		`{"session":["s","t"],"worker":["n/go/1"]}`:           {Sessions: []string{"s", "t"}, Workers: []string{"n/go/1"}},
	} {
		f, err := BulkFilter(filterValues(&store.Operation{Kind: "cancel", Filter: json.RawMessage(stored)}))
		require.NoError(t, err)
		want.Limit = 100
		require.Equal(t, want, f)
	}
}

// TestBulkAttacks sends what an attacker or a mistaken program sends. None of it may reach the backend.
func TestBulkAttacks(t *testing.T) {
	t.Parallel()
	b, ops := newBackend(t), &bulkBackend{op: store.Operation{ID: messages.NewOperationID()}}
	b.bulk = ops
	h := New(Config{Backend: b})
	ids := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = `"` + messages.NewExecutionID().String() + `"`
		}
		return `{"kind":"cancel","ids":[` + strings.Join(list, ",") + `]}`
	}
	for _, empty := range []string{`{"kind":"cancel"}`, `{"kind":"cancel","filter":{}}`, `{"kind":"cancel","ids":[]}`, `{"kind":"cancel","filter":{"status":[]}}`, `{"kind":"cancel","filter":{"pool":[""]}}`, `{"kind":"cancel","filter":{"pool":["",""],"error":[""]}}`} {
		refused(t, ask(t, h, "POST", previewPath, empty), 422, messages.CodeEmptyFilter, "every execution")
	}
	for body, why := range map[string]string{
		`{}`: "kind must be retry, cancel, requeue or discard", `{"kind":"delete","filter":{"status":["failed"]}}`: "delete",
		`{"kind":"retry","filter":{"stat":["failed"]}}`:                                                             `unknown parameter "stat"`,
		`{"kind":"retry","filter":{"limit":["5"]}}`:                                                                 `unknown parameter "limit"`,
		`{"kind":"retry","filter":{"cursor":["5"],"status":["failed"]}}`:                                            `unknown parameter "cursor"`,
		`{"kind":"retry","filter":{"from":["a","b"]}}`:                                                              "from has 2 values",
		`{"kind":"cancel","filter":{"action":["a"],"session":[""]}}`:                                                "session has an empty value",
		`{"kind":"cancel","filter":{"action":["a"],"not.q":["vip"]}}`:                                               "cannot leave out a text",
		`{"kind":"cancel","filter":{"action":["a"],"not.error":[""]}}`:                                              "not.error has an empty value",
		`{"kind":"retry","filter":{"pool":["` + strings.Repeat(`a","`, 20) + `a"]}}`:                                "20 times",
		`{"kind":"retry","filter":{"status":["odd"]}}`:                                                              "status",
		`{"kind":"retry","filter":{"from":["yesterday"]}}`:                                                          "from must be a time",
		`{"kind":"retry","filter":{"action":["a\u0000b"]}}`:                                                         "control",
		`{"kind":"retry","filter":{"action":["` + strings.Repeat("x", 2000) + `"]}}`:                                "2000 bytes",
		`{"kind":"retry","filter":{"not.action":[` + strings.Repeat(`"a",`, 20) + `"a"]}}`:                          "20 times",
		`{"kind":"retry","filter":{"not.action":["` + strings.Repeat(strings.Repeat("x", 1000)+`","`, 18) + `y"]}}`: "limit is 16384",
		`{"kind":"retry","ids":["x"]}`:                                                                              `number 1, "x"`, `{"kind":"retry","ids":["00000000-0000-0000-0000-000000000000"]}`: "not an execution id",
		`{"kind":"retry","ids":["` + messages.NewExecutionID().String() + `"],"filter":{"status":["failed"]}}`: "not both",
		ids(1001): "1001, at most 1000",
	} {
		refused(t, ask(t, h, "POST", previewPath, body), 400, messages.CodeInvalidRequest, why)
	}
	refused(t, ask(t, h, "POST", previewPath, ids(50_000)), 413, messages.CodeBodyTooLarge, "")
	require.Empty(t, ops.previewed)
	require.Equal(t, 200, ask(t, h, "POST", previewPath, ids(1000)).Code)
	require.Equal(t, 200, ask(t, h, "POST", previewPath, `{"kind":"retry","filter":{"status":["failed"],"not.session":[""]}}`).Code, "it is what has a session")

	preview := ops.op.ID.String()
	for body, why := range map[string]string{
		`{"confirm_count":1}`: "preview", `{"preview":"x","confirm_count":1}`: "not a UUID", `{"preview":"` + preview + `"}`: "confirm_count is missing",
		`{"preview":"` + preview + `","confirm_count":1,"rate":-1}`: "rate", `{"preview":"` + preview + `","confirm_count":1,"rate":1001}`: "1 to 1000",
		`{"preview":"` + preview + `","confirm_count":1,"reason":"` + strings.Repeat("x", 513) + `"}`: "513 bytes",
	} {
		refused(t, ask(t, h, "POST", bulkPath, body), 400, messages.CodeInvalidRequest, why)
	}
	require.Empty(t, ops.confirmed)
	for code, err := range map[messages.Code]*messages.Problem{
		messages.CodePreviewExpired: messages.Problemf(messages.CodePreviewExpired, "over"), messages.CodeCountChanged: messages.Problemf(messages.CodeCountChanged, "more"),
	} {
		ops.err = err
		refused(t, ask(t, h, "POST", bulkPath, `{"preview":"`+preview+`","confirm_count":1}`), 409, code, "")
	}
	for _, path := range []string{"/x", "/" + messages.NewOperationID().String()} {
		refused(t, ask(t, h, "GET", operationsPath+path, ""), 404, messages.CodeNotFound, "operation")
		refused(t, ask(t, h, "POST", operationsPath+path+"/stop", ""), 404, messages.CodeNotFound, "operation")
	}
	refused(t, ask(t, h, "GET", operationsPath+"?cursor="+cursor("7"), ""), 400, messages.CodeInvalidRequest, "cursor")
}

// TestBulkNeedsItsScope checks that what changes executions needs operate, and that a console which only looks changes nothing.
func TestBulkNeedsItsScope(t *testing.T) {
	t.Parallel()
	for _, rt := range bulkRoutes() {
		want := ScopeOperate
		if rt.method == "GET" {
			want = ScopeRead
		}
		require.Equal(t, want, rt.scope, rt.path)
		require.False(t, rt.own, rt.path)
	}
	h := New(Config{Backend: newBackend(t), Console: Console{Mode: ConsoleReadOnly}})
	for _, path := range []string{previewPath, bulkPath, operationsPath + "/x/stop"} {
		refused(t, ask(t, h, "POST", path, `{}`, "Origin", "http://127.0.0.1:7070"), 403, messages.CodeForbidden, "read_only")
	}
}
