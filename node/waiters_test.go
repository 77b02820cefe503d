package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
)

// readCounter counts the reads of each execution. It gives no hints, which have a node read what somebody waits for.
type readCounter struct {
	store.Store
	mu    sync.Mutex
	reads map[messages.ExecutionID]int
}

func (s *readCounter) wrap(inner store.Store) store.Store {
	s.Store, s.reads = inner, map[messages.ExecutionID]int{}
	return s
}

func (s *readCounter) Get(ctx context.Context, id messages.ExecutionID) (messages.Execution, error) {
	s.mu.Lock()
	s.reads[id]++
	s.mu.Unlock()
	return s.Store.Get(ctx, id)
}

func (s *readCounter) Watch(ctx context.Context) (<-chan store.Hint, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// taken returns how often an execution was read since the last call.
func (s *readCounter) taken(id messages.ExecutionID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer delete(s.reads, id)
	return s.reads[id]
}

// onBoth runs a test on a node with the embedded store, and on one with Postgres alone.
func onBoth(t *testing.T, test func(t *testing.T, change func(*node.Config))) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, func(*node.Config) {})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := database(t)
		test(t, func(c *node.Config) {
			c.OpenStore = func(ctx context.Context) (store.Store, error) {
				return postgres.Open(ctx, postgres.Config{URL: url, Name: c.Name, EventsAll: true})
			}
		})
	})
}

// endings are actions by how their executions end.
var endings = map[string]struct {
	handler messages.Handler
	policy  string
}{
	"completed": {handler: func(context.Context, *messages.Task) (any, error) { return map[string]int{"n": 1}, nil }},
	"large": {handler: func(context.Context, *messages.Task) (any, error) {
		return string(bytes.Repeat([]byte("x"), 100_000)), nil
	}},
	"failed": {handler: func(context.Context, *messages.Task) (any, error) {
		return nil, &messages.Error{Code: "broken", Message: "it is broken", Details: json.RawMessage(`{"why":["so"]}`)}
	}},
	"timed_out": {handler: hang, policy: "timeout_seconds: 0.3\n"},
	"retried":   {handler: tryAgain, policy: "max_retries: 1\n"},
}

// endingsOf are the handlers and the policies of endings, and of one that asks the node to cancel its execution.
func endingsOf(k **kit) (handlers map[string]messages.Handler, policies map[string]string) {
	handlers, policies = map[string]messages.Handler{}, map[string]string{}
	for name, end := range endings {
		handlers[name], policies[name] = end.handler, end.policy
	}
	policies[cancels] = ""
	handlers[cancels] = func(ctx context.Context, task *messages.Task) (any, error) {
		if _, err := (*k).Cancel(ctx, task.ID, "test"); err != nil && ctx.Err() == nil {
			return nil, err
		}
		return hang(ctx, task)
	}
	return handlers, policies
}

const cancels = "cancelled"

func hang(ctx context.Context, _ *messages.Task) (any, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A caller that submits and waits in one call is answered with the outcome that it is told, without a read of the store; and what it is
// answered is, field by field, what a read gives.
func TestWhatASubmitterIsToldIsWhatTheStoreHas(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, change func(*node.Config)) {
		reads := &readCounter{}
		var k *kit
		handlers, policies := endingsOf(&k)
		k = lab(t, func(c *node.Config) {
			change(c)
			handle(handlers)(c)
			c.Listen, c.WrapStore, c.Workers["go"] = "127.0.0.1:0", reads.wrap, 8
		}, goPack(t, policies))
		for name := range handlers {
			for _, parameters := range []any{nil, map[string]string{"message": "hello"}} {
				request := ask("t."+name, parameters)
				request.Labels = map[string]string{"of": name}
				stored, awaited, err := k.SubmitAwaited(t.Context(), request)
				require.NoError(t, err)
				told, err := awaited.Wait(t.Context())
				require.NoError(t, err)
				awaited.Leave()
				require.True(t, told.Status.Terminal())
				if name != cancels {
					require.Zero(t, reads.taken(told.ID), "%s: the store is not read", name)
				}
				told.Parameters = stored.Execution.Parameters
				require.Equal(t, k.get(told.ID), told, name)
			}
		}
	})
}

// The HTTP API answers one that submits and waits, and one that waits for what it has submitted before, with what a read gives.
func TestWhatTheAPIAnswersToAWaitIsWhatItAnswersToARead(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, change func(*node.Config)) {
		var k *kit
		handlers, policies := endingsOf(&k)
		k = lab(t, func(c *node.Config) {
			change(c)
			handle(handlers)(c)
			c.Listen, c.Workers["go"] = "127.0.0.1:0", 8
		}, goPack(t, policies))
		for name := range handlers {
			told := k.json("POST", "/api/v1/executions", fmt.Sprintf(`{"action_ref":"t.%s","parameters":{"a":1},"wait_seconds":30}`, name))
			path := "/api/v1/executions/" + told["id"].(string)
			read := k.json("GET", path, "")
			require.Contains(t, []any{"completed", "failed", "timed_out", "cancelled"}, told["status"])
			delete(read, "parameters") // a submission is answered without them
			delete(read, "retry")
			require.Equal(t, read, told, name)
			read, waited := k.json("GET", path, ""), k.json("GET", path+"/wait", "")
			if name == "retried" { // its retry goes on meanwhile
				delete(read, "retry")
				delete(waited, "retry")
			}
			require.Equal(t, read, waited, name)
		}
		for name := range handlers { // one that has read the execution once, and is told of its end
			stored := k.json("POST", "/api/v1/executions", fmt.Sprintf(`{"action_ref":"t.%s","parameters":{"a":1},"run_at":%q}`,
				name, time.Now().Add(400*time.Millisecond).UTC().Format(time.RFC3339Nano)))
			path := "/api/v1/executions/" + stored["id"].(string)
			told := k.json("GET", path+"/wait?timeout_seconds=30", "")
			read := k.json("GET", path, "")
			if name == "retried" { // its retry has gone on meanwhile
				delete(told, "retry")
				delete(read, "retry")
			}
			require.Equal(t, read, told, name)
		}
	})
}

// json asks the API and returns what it answers.
func (k *kit) json(method, path, body string) (answer map[string]any) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+k.Addr()+path, bytes.NewBufferString(body))
	require.NoError(k.t, err)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(k.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(k.t, err)
	require.Less(k.t, response.StatusCode, 300, "%s", text)
	require.NoError(k.t, json.Unmarshal(text, &answer))
	return answer
}

// A submission under a key that is taken waits for the execution that has it, also where that has ended long ago.
func TestASubmitterOfAKnownKeyWaitsForTheExecutionThatHasIt(t *testing.T) {
	t.Parallel()
	k := lab(t, handle(map[string]messages.Handler{"completed": endings["completed"].handler}), goPack(t, map[string]string{"completed": ""}))
	request := ask("t.completed", nil)
	request.IdempotencyKey = "one"
	for i := range 2 {
		stored, awaited, err := k.SubmitAwaited(t.Context(), request)
		require.NoError(t, err)
		require.Equal(t, i > 0, stored.Existing)
		e, err := awaited.Wait(t.Context())
		require.NoError(t, err)
		awaited.Leave()
		require.Equal(t, stored.Execution.ID, e.ID)
		require.Equal(t, messages.Completed, e.Status)
	}
}

// lossyStore stores outcomes and loses the answer to the first of them, so that nobody is told of it.
type lossyStore struct {
	store.Store
	lost atomic.Bool
}

func (s *lossyStore) wrap(inner store.Store) store.Store {
	s.Store = inner
	return s
}

func (s *lossyStore) Apply(ctx context.Context, changes []store.Change) ([]store.Result, error) {
	results, err := s.Store.Apply(ctx, changes)
	for _, c := range changes {
		if _, ends := c.(*store.Finish); ends && err == nil && !s.lost.Swap(true) {
			return nil, fmt.Errorf("the answer is lost: %w", store.ErrUnavailable)
		}
	}
	return results, err
}

// An outcome whose answer the store has lost is told as a word to look, and the submitter answers with what it reads.
func TestASubmitterReadsAnOutcomeWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	lossy := &lossyStore{}
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"completed": endings["completed"].handler})(c)
		c.WrapStore = lossy.wrap
	}, goPack(t, map[string]string{"completed": ""}))
	_, awaited, err := k.SubmitAwaited(t.Context(), ask("t.completed", nil))
	require.NoError(t, err)
	defer awaited.Leave()
	e, err := awaited.Wait(t.Context())
	require.NoError(t, err)
	require.True(t, lossy.lost.Load())
	require.Equal(t, messages.Completed, e.Status)
	require.JSONEq(t, `{"n":1}`, string(e.Result))
}
