package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
)

func priority(p int) request    { return func(r *submit.Request) { r.Priority = &p } }
func key(text string) request   { return func(r *submit.Request) { r.IdempotencyKey = text } }
func at(when time.Time) request { return func(r *submit.Request) { r.RunAt = when } }

func noop(context.Context, *messages.Task) (any, error) { return nil, nil }

// tryAgain fails retriably unless its parameters say succeed.
func tryAgain(_ context.Context, task *messages.Task) (any, error) {
	var p struct{ Succeed bool }
	if err := task.Bind(&p); err != nil || p.Succeed {
		return nil, err
	}
	yes := true
	return nil, &messages.Error{Code: "not_yet", Message: "as asked", Retriable: &yes}
}

// refused reads the problem that a call was answered with.
func refused(t *testing.T, err error) *messages.Problem {
	t.Helper()
	var p *messages.Problem
	require.True(t, errors.As(err, &p), "%v", err)
	return p
}

func TestPriorityOrdersWhatWaits(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var order []string
	block := newGate()
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"block": block.run, "note": func(_ context.Context, task *messages.Task) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, string(task.Parameters))
			return nil, nil
		}})(c)
		c.Workers["go"] = 1
	}, goPack(t, map[string]string{"block": "", "note": ""}))
	held := k.submit("t.block", nil)
	block.next(t)
	var ids []messages.ExecutionID
	for _, p := range []int{0, 5, 9, 5, 1} {
		ids = append(ids, k.submit("t.note", object{"p": p, "n": len(ids)}, priority(p)))
	}
	k.until("they wait", func() bool {
		why, err := k.Why(t.Context(), ids[4])
		require.NoError(t, err)
		return why.Reason != "" && k.pool("go").Waiting+k.pool("go").Placed == 5
	})
	close(block.open)
	for _, id := range append(ids, held) {
		require.Equal(t, messages.Completed, k.await(id).Status)
	}
	require.Equal(t, []string{`{"n":2,"p":9}`, `{"n":1,"p":5}`, `{"n":3,"p":5}`, `{"n":4,"p":1}`, `{"n":0,"p":0}`}, order)
}

func TestRunAtWaitsForItsTime(t *testing.T) {
	t.Parallel()
	k := lab(t, handle(map[string]messages.Handler{"noop": noop}), goPack(t, map[string]string{"noop": ""}))
	due := time.Now().Add(400 * time.Millisecond)
	id := k.submit("t.noop", nil, at(due))
	why, err := k.Why(t.Context(), k.submit("t.noop", nil, at(due.Add(time.Hour))))
	require.NoError(t, err)
	require.Equal(t, "not_due", why.Reason)
	e := k.await(id)
	require.Equal(t, messages.Completed, e.Status)
	require.False(t, e.StartedAt.Before(due.Truncate(time.Millisecond)))
}

func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	k := lab(t, handle(map[string]messages.Handler{"noop": noop}), goPack(t, map[string]string{"noop": ""}))
	first, err := k.Submit(t.Context(), []submit.Request{{ActionRef: "t.noop", Parameters: json.RawMessage(`{"a": 1, "b":2}`), IdempotencyKey: "k"}})
	require.NoError(t, err)
	require.False(t, first[0].Existing)
	k.await(first[0].Execution.ID)
	again, err := k.Submit(t.Context(), []submit.Request{{ActionRef: "t.noop", Parameters: json.RawMessage(`{"b":2,"a":1}`), IdempotencyKey: "k"}})
	require.NoError(t, err)
	require.True(t, again[0].Existing)
	require.Equal(t, first[0].Execution.ID, again[0].Execution.ID)
	require.Equal(t, messages.Completed, again[0].Execution.Status)
	_, err = k.Submit(t.Context(), []submit.Request{
		ask("t.noop", nil), ask("t.noop", object{"a": 2}, key("k")),
	})
	var conflict *store.ConflictError
	require.True(t, errors.As(err, &conflict), "%v", err)
	require.Equal(t, first[0].Execution.ID, conflict.Holder)
	page, err := k.List(t.Context(), store.Filter{})
	require.NoError(t, err)
	require.Len(t, page.Executions, 1, "the batch of the conflict stored nothing")
}

func TestBatchOfTenThousandIsStoredWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	k := lab(t, handle(map[string]messages.Handler{"noop": noop}), goPack(t, map[string]string{
		"noop": "idempotent: true\nparameters: {type: object, properties: {n: {type: integer}}}\n",
	}))
	later := at(time.Now().Add(time.Hour))
	requests := make([]submit.Request, messages.BatchMax)
	for i := range requests {
		requests[i] = ask("t.noop", object{"n": i}, later)
	}
	requests[9_999] = ask("t.noop", object{"n": "text"})
	_, err := k.Submit(t.Context(), requests)
	p := refused(t, err)
	require.Equal(t, messages.CodeInvalidParameters, p.Code)
	require.Contains(t, p.Message, "execution 10000 of 10000")
	page, err := k.List(t.Context(), store.Filter{Limit: 1})
	require.NoError(t, err)
	require.Empty(t, page.Executions)

	for i := 9_800; i < len(requests); i++ {
		requests[i] = ask("t.noop", object{"n": i})
	}
	submitted, err := k.Submit(t.Context(), requests)
	require.NoError(t, err)
	require.Len(t, submitted, messages.BatchMax)
	for i := 9_800; i < len(submitted); i++ {
		require.Equal(t, messages.Completed, k.await(submitted[i].Execution.ID).Status)
	}
	k.until("only those of later wait", func() bool { // a count may be a little older than the last end
		depths, err := k.Node.Store().Depths(t.Context())
		require.NoError(t, err)
		return len(depths) == 1 && depths[0].Status == messages.Requested && depths[0].Count == 9_800
	})
}

// Requests that do not depend on each other are stored beside those that cannot be, whatever is wrong with those.
func TestEachRequestIsStoredByItself(t *testing.T) {
	t.Parallel()
	k := lab(t, handle(map[string]messages.Handler{"noop": noop}), goPack(t, map[string]string{
		"noop": "parameters: {type: object, properties: {n: {type: integer}}}\n",
	}))
	held := k.submit("t.noop", object{"n": 0}, key("held"))
	var requests []submit.Request
	wrong := map[int]messages.Code{}
	for i := range 500 {
		switch r := ask("t.noop", object{"n": i}, key("k"+strconv.Itoa(i))); {
		case i%100 == 17:
			r.IdempotencyKey, wrong[i] = "held", messages.CodeKeyConflict
			requests = append(requests, r)
		case i%100 == 33:
			r.ActionRef, wrong[i] = "t.none", messages.CodeActionNotFound
			requests = append(requests, r)
		case i%100 == 34:
			r.Parameters, wrong[i] = json.RawMessage(`{"n":"x"}`), messages.CodeInvalidParameters
			requests = append(requests, r)
		default:
			requests = append(requests, r)
		}
	}
	requests[400] = ask("t.noop", object{"n": 0}, key("held"))
	requests[401] = requests[399]
	made := k.SubmitEach(t.Context(), requests)
	require.Len(t, made, len(requests))
	for i, m := range made {
		if wrong[i] == "" {
			require.NoError(t, m.Err, i)
			require.Equal(t, i == 400 || i == 401, m.Stored.Existing, i)
			require.Equal(t, messages.Completed, k.await(m.Stored.Execution.ID).Status)
			continue
		}
		var p *messages.Problem
		if errors.As(m.Err, &p) {
			require.Equal(t, wrong[i], p.Code, i)
			require.NotContains(t, p.Message, "of 500", "it is not about a batch")
			continue
		}
		var conflict *store.ConflictError
		require.ErrorAs(t, m.Err, &conflict, i)
		require.Equal(t, messages.CodeKeyConflict, wrong[i])
		require.Equal(t, held, conflict.Holder)
	}
	require.Equal(t, held, made[400].Stored.Execution.ID)
	require.Equal(t, made[399].Stored.Execution.ID, made[401].Stored.Execution.ID)
}

func TestWaitReturnsWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	block := newGate()
	k := lab(t, handle(map[string]messages.Handler{"block": block.run}), goPack(t, map[string]string{"block": ""}))
	id := k.submit("t.block", nil)
	block.next(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	e, err := k.Wait(ctx, id)
	require.NoError(t, err)
	require.Equal(t, messages.Running, e.Status)
	close(block.open)
	require.Equal(t, messages.Completed, k.await(id).Status)
}

func TestSecretsAreNeitherLoggedNorShown(t *testing.T) {
	t.Parallel()
	fail := func(context.Context, *messages.Task) (any, error) { return nil, errors.New("it broke") }
	k := lab(t, handle(map[string]messages.Handler{"fail": fail}),
		goPack(t, map[string]string{"fail": "secrets: [api_key]\nparameters: {type: object, properties: {api_key: {type: string, maxLength: 9}}}\n"}))
	k.run("t.fail", object{"api_key": "hunter2", "user": "ann"})
	shown := string(k.Redact("t.fail", json.RawMessage(`{"api_key":"hunter2","user":"ann"}`)))
	require.NotContains(t, shown, "hunter2")
	require.Contains(t, shown, "ann")
	_, err := k.Submit(t.Context(), []submit.Request{ask("t.fail", object{"api_key": "hunter2-and-too-long"})})
	require.NotContains(t, refused(t, err).Message, "hunter2")
	require.NotContains(t, k.log.String(), "hunter2")
	require.NotContains(t, k.log.String(), "ann", "no parameter is logged")
}

func TestRetentionDeletesWhatIsOld(t *testing.T) {
	t.Parallel()
	block := newGate()
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"noop": noop, "block": block.run})(c)
		c.RetainExecutions, c.RetentionInterval, c.RetentionBatch = 200*time.Millisecond, 50*time.Millisecond, 3
	}, goPack(t, map[string]string{"noop": "", "block": ""}))
	alive := k.submit("t.block", nil)
	block.next(t)
	var ids []messages.ExecutionID
	for range 10 {
		ids = append(ids, k.submit("t.noop", nil))
	}
	for _, id := range ids {
		k.until("it is deleted", func() bool {
			_, err := k.Get(t.Context(), id)
			return err != nil && refused(t, err).Code == messages.CodeNotFound
		})
	}
	require.Equal(t, messages.Running, k.get(alive).Status)
	close(block.open)
}

func TestTaskKnowsItsExecution(t *testing.T) {
	t.Parallel()
	seen := make(chan messages.Task, 1)
	k := lab(t, handle(map[string]messages.Handler{"see": func(ctx context.Context, task *messages.Task) (any, error) {
		task.Progress(0.5, "half")
		task.Log("info", "a line")
		if err := task.Chunk(object{"n": 1}); err != nil {
			return nil, err
		}
		seen <- *task
		return ctx.Err() == nil, nil
	}}), goPack(t, map[string]string{"see": ""}))
	id := k.submit("t.see", object{"a": 1}, session("s", ""), func(r *submit.Request) {
		r.Trace = "00-" + strings.Repeat("1", 32) + "-" + strings.Repeat("2", 16) + "-01"
	})
	e := k.await(id)
	require.Equal(t, "true", string(e.Result))
	task := <-seen
	require.Equal(t, id, task.ID)
	require.EqualValues(t, 1, task.Attempt)
	require.Equal(t, "t.see", task.Action)
	require.JSONEq(t, `{"a":1}`, string(task.Parameters))
	require.Equal(t, "s", task.Session)
	require.EqualValues(t, 1, task.Epoch)
	require.False(t, task.Lost)
	require.Contains(t, task.Trace, "1111")
}
