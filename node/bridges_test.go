package node_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/api"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/node"
	"github.com/troupe-run/troupe/rules/submit"
	"github.com/troupe-run/troupe/store"
)

const traced = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// put publishes a message to a queue of the node's broker.
func (k *kit) put(m broker.Message) {
	k.t.Helper()
	confirms, err := k.Broker().Publish(k.t.Context(), []broker.Message{m})
	require.NoError(k.t, err)
	require.Equal(k.t, []broker.Confirm{broker.Confirmed}, confirms)
}

// ears listens on a new queue of the node's broker, bound to the executions exchange where a key is given.
func (k *kit) ears(queue, key string) broker.Consumer {
	k.t.Helper()
	topology := broker.Topology{Queues: []broker.Queue{{Name: queue}}}
	if key != "" {
		topology.Bindings = []broker.Binding{{Exchange: (broker.Settings{}).ExecutionsExchange(), Queue: queue, Key: key}}
	}
	require.NoError(k.t, k.Broker().Declare(k.t.Context(), topology))
	c, err := k.Broker().Consume(k.t.Context(), queue, 100)
	require.NoError(k.t, err)
	return c
}

// hears reads the next message as JSON.
func hears[T any](t *testing.T, c broker.Consumer) (T, broker.Delivery) {
	t.Helper()
	var v T
	select {
	case d := <-c.Deliveries():
		require.NoError(t, d.Ack())
		require.NoError(t, json.Unmarshal(d.Body, &v), "%s", d.Body)
		return v, d
	case <-time.After(patience):
		require.FailNow(t, "no message came")
		return v, broker.Delivery{}
	}
}

func echo(_ context.Context, task *messages.Task) (any, error) {
	return object{"parameters": task.Parameters, "trace": task.Trace, "state": task.TraceState}, nil
}

func TestOtherProgramsSubmitByTheBroker(t *testing.T) {
	t.Parallel()
	k := lab(t, handle(map[string]messages.Handler{"echo": echo}), goPack(t, map[string]string{
		"echo": "parameters: {type: object, required: [n], properties: {n: {type: integer}}}\nsecrets: [token]\n",
	}))
	requests := (broker.Settings{}).RequestsQueue()
	answers := k.ears("answers", "")
	ask := func(id, body string) messages.SubmitReply {
		k.put(broker.Message{
			RoutingKey: requests, ID: id, Body: []byte(body), ReplyTo: "answers", CorrelationID: "c/" + id,
			Headers: map[string]string{"traceparent": traced, "tracestate": "a=1"},
		})
		r, d := hears[messages.SubmitReply](t, answers)
		require.Equal(t, "c/"+id, d.CorrelationID)
		return r
	}
	r := ask("order-1", `{"action_ref": "t.echo", "parameters": {"n": 7}, "labels": {"a": "b"}, "priority": 8}`)
	require.Nil(t, r.Error)
	e := k.await(r.ID)
	got := result[struct {
		Parameters object
		Trace      string
		State      string
	}](t, e)
	require.Equal(t, object{"n": 7.0}, got.Parameters)
	require.Equal(t, []string{traced, "a=1"}, []string{got.Trace, got.State})
	require.Equal(t, "order-1", e.IdempotencyKey, "the message's id is the key")
	require.Equal(t, map[string]string{"a": "b"}, e.Labels)
	require.Equal(t, messages.Priority(8), e.Priority)
	require.Equal(t, "amqp", e.CreatedBy)

	again := ask("order-1", `{"action_ref": "t.echo", "parameters": {"n": 7}, "labels": {"a": "b"}, "priority": 8}`)
	require.Equal(t, r.ID, again.ID)
	require.True(t, again.Existing)
	require.NotEqual(t, r.ID, ask("order-2", `{"action_ref": "t.echo", "parameters": {"n": 7}, "idempotency_key": "other"}`).ID)

	for body, want := range map[string]struct{ reason, code string }{
		`{`:                           {"malformed", "invalid_json"},
		`{"action": "t.echo"}`:        {"malformed", "unknown_field"},
		`{"parameters": {}}`:          {"malformed", "invalid_request"},
		`{"action_ref": "t.nothing"}`: {"refused", "action_not_found"},
		`{"action_ref": "t.echo", "parameters": {"n": "x", "token": "s3cret"}}`:          {"refused", "invalid_parameters"},
		`{"action_ref": "t.echo", "parameters": {"n": 1}, "wait_seconds": 3}`:            {"malformed", "invalid_request"},
		`{"action_ref": "t.echo", "parameters": {"n": 8}, "idempotency_key": "order-1"}`: {"refused", "idempotency_conflict"},
		`{"action_ref": "t.echo", "parameters": {"n": 1}, "run_at": "infinity"}`:         {"malformed", "invalid_request"},
		strings.Repeat(" ", 2<<20): {"refused", "parameters_too_large"},
	} {
		reply := ask("", body)
		require.NotNil(t, reply.Error, body[:min(len(body), 80)])
		require.Equal(t, want.code, reply.Error.Code, reply.Error.Message)
		letters, err := k.DeadLetters().ListDeadLetters(t.Context(), 0, 1)
		require.NoError(t, err)
		require.Equal(t, want.reason, letters[0].Reason, body[:min(len(body), 80)])
		require.Equal(t, requests, letters[0].Queue)
		require.Contains(t, letters[0].Resolution, "quarantined: ")
		letter, err := k.DeadLetters().GetDeadLetter(t.Context(), letters[0].ID)
		require.NoError(t, err)
		require.NotEmpty(t, letter.Body)
		require.NotContains(t, string(letter.Body), "s3cret")
	}
	info, err := k.Broker().Inspect(t.Context(), requests)
	require.NoError(t, err)
	require.Zero(t, info.Ready)
	shown := httptest.NewRecorder()
	k.Metrics().ServeHTTP(shown, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	require.Contains(t, shown.Body.String(), `troupe_intake_total{result="accepted"} 2`)
	require.Contains(t, shown.Body.String(), `troupe_intake_total{result="existing"} 1`)
	require.Contains(t, shown.Body.String(), `troupe_intake_total{result="malformed"} 5`)
	require.Contains(t, shown.Body.String(), `troupe_intake_total{result="refused"} 4`)
}

// The delivery bridge fails: the next one knows nothing of who consumed, and all three that did have their queues again.
func TestEveryQueueOutlivesTheDeliveryBridge(t *testing.T) {
	t.Parallel()
	k := lab(t, handle(map[string]messages.Handler{"echo": echo}), goPack(t, map[string]string{"echo": ""}))
	k.run("t.echo", nil)
	answers := k.ears("answers", "")
	k.Crash("troupe/bridges/delivery")
	k.until("it failed", func() bool {
		_, failed := k.Registry().Failure("troupe/bridges/delivery")
		return failed
	})
	k.put(broker.Message{RoutingKey: (broker.Settings{}).RequestsQueue(), ID: "1", Body: []byte(`{"action_ref": "t.echo"}`), ReplyTo: "answers"})
	r, _ := hears[messages.SubmitReply](t, answers)
	require.Equal(t, messages.Completed, k.await(r.ID).Status)
	k.put(broker.Message{RoutingKey: (broker.Settings{}).DeadLetterQueue(), Body: []byte("oops")})
	require.Contains(t, k.letters(1)[0].Resolution, "quarantined")
}

// letterless is a store that panics at the first dead letter of each queue. Both bridges keep theirs in it.
type letterless struct {
	store.Store
	seen sync.Map
}

func (l *letterless) SaveDeadLetter(ctx context.Context, d store.DeadLetter) (int64, error) {
	if _, again := l.seen.LoadOrStore(d.Queue, true); !again {
		panic("no letters of " + d.Queue)
	}
	return l.Store.SaveDeadLetter(ctx, d)
}

// Each of the two fails with a message in its hands, and the group makes the next one anew: it has the message again.
func TestAFailedBridgeGivesBackWhatItHeld(t *testing.T) {
	t.Parallel()
	s := &letterless{}
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"noop": noop})(c)
		c.WrapStore = func(inner store.Store) store.Store { s.Store = inner; return s }
	}, goPack(t, map[string]string{"noop": ""}))
	queues := map[string]string{
		"troupe/bridges/dead_letter": (broker.Settings{}).DeadLetterQueue(), "troupe/bridges/intake": (broker.Settings{}).RequestsQueue(),
	}
	for _, queue := range queues {
		k.put(broker.Message{RoutingKey: queue, Body: []byte("oops")})
	}
	k.letters(len(queues))
	for bridge := range queues {
		_, failed := k.Registry().Failure(bridge)
		require.True(t, failed, bridge)
	}
}

// What waits in the requests queue when a node begins to stop stays there for others.
func TestADrainingNodeTakesNoRequests(t *testing.T) {
	t.Parallel()
	block := newGate()
	k := lab(t, handle(map[string]messages.Handler{"block": block.run}), goPack(t, map[string]string{"block": ""}))
	id := k.submit("t.block", nil)
	block.next(t)
	stopped := make(chan error, 1)
	go func() { stopped <- k.stop() }()
	requests := (broker.Settings{}).RequestsQueue()
	k.until("nobody consumes the requests", func() bool {
		info, err := k.Broker().Inspect(t.Context(), requests)
		require.NoError(t, err)
		return info.Consumers == 0
	})
	k.put(broker.Message{RoutingKey: requests, Body: []byte(`{"action_ref": "t.block"}`)})
	info, err := k.Broker().Inspect(t.Context(), requests)
	require.NoError(t, err)
	require.Equal(t, 1, info.Ready)
	require.Equal(t, messages.Running, k.get(id).Status)
	close(block.open)
	require.NoError(t, <-stopped)
}

func TestOutcomesAreToldOnTheExecutionsExchange(t *testing.T) {
	t.Parallel()
	block := newGate()
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"echo": echo, "quiet": noop, "fail": tryAgain, "block": block.run})(c)
		c.Notices = true
	}, goPack(t, map[string]string{"echo": "", "quiet": "notify: false\n", "fail": "max_retries: 1\n", "block": ""}))
	all := k.ears("all", "execution.#")
	ends := k.ears("ends", "execution.completed.t.echo")
	require.Equal(t, messages.Completed, k.run("t.quiet", nil).Status)
	e := k.run("t.echo", object{"token": "s3cret"}, func(r *submit.Request) { r.Labels = map[string]string{"team": "a"} })
	n, d := hears[messages.ExecutionCompleted](t, all)
	require.Equal(t, e.ID, n.ExecutionID, "a silent action's outcome is not told")
	require.Equal(t, "execution.completed.t.echo", d.RoutingKey)
	require.Equal(t, messages.NoticeOf(&e), n)
	same, _ := hears[messages.ExecutionCompleted](t, ends)
	require.Equal(t, n, same)

	first := k.submit("t.fail", nil)
	chain := k.chain(first, 2)
	told := map[messages.ExecutionID]messages.ExecutionCompleted{}
	for range chain {
		n, _ := hears[messages.ExecutionCompleted](t, all)
		told[n.ExecutionID] = n
	}
	require.Equal(t, chain[1].ID, told[first].RetriedAs)
	require.Equal(t, first, told[chain[1].ID].Original)
	require.Equal(t, messages.Failed, told[chain[1].ID].Status)

	running := k.submit("t.block", nil)
	block.next(t)
	_, err := k.Cancel(t.Context(), running, "me")
	require.NoError(t, err)
	n, d = hears[messages.ExecutionCompleted](t, all)
	require.Equal(t, running, n.ExecutionID)
	require.Equal(t, "execution.cancelled.t.block", d.RoutingKey)
	k.until("the outbox is empty", func() bool {
		pending, err := k.Store().PendingNotices(t.Context())
		require.NoError(t, err)
		return pending.Count == 0
	})
	shown := httptest.NewRecorder()
	k.Metrics().ServeHTTP(shown, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	require.Contains(t, shown.Body.String(), `troupe_notices_total{result="told"} 4`)
	require.Contains(t, shown.Body.String(), "troupe_notices_pending 0")
}

func TestTheEmbeddedBrokerTellsNothingUnlessAsked(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*node.Config){
		"by default": func(*node.Config) {}, "switched off": func(c *node.Config) { c.Notices, c.NoticesOff = true, true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := lab(t, func(c *node.Config) {
				handle(map[string]messages.Handler{"noop": noop})(c)
				change(c)
			}, goPack(t, map[string]string{"noop": ""}))
			require.False(t, k.run("t.noop", nil).Notify)
			pending, err := k.Store().PendingNotices(t.Context())
			require.NoError(t, err)
			require.Zero(t, pending.Count)
		})
	}
}

// shared is a store that other programs write to: it has an inbox and gives hints.
type shared struct {
	store.Store
	mu      sync.Mutex
	hints   chan store.Hint
	waiting []store.Submission
	lost    int // how many settlements are lost after they were asked for
	settled map[messages.ExecutionID]string
}

func newShared() *shared {
	return &shared{hints: make(chan store.Hint), settled: map[messages.ExecutionID]string{}}
}

func (s *shared) wrap(inner store.Store) store.Store { s.Store = inner; return s }

func (s *shared) Watch(context.Context) (<-chan store.Hint, error) { return s.hints, nil }

func (s *shared) TakeSubmissions(_ context.Context, _ time.Duration, limit int) ([]store.Submission, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.waiting[:min(limit, len(s.waiting))]), nil
}

func (s *shared) SettleSubmissions(_ context.Context, settlements []store.Settlement) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost > 0 {
		s.lost--
		return store.ErrUnavailable
	}
	for _, settlement := range settlements {
		s.settled[settlement.ID] = settlement.Refused
		s.waiting = slices.DeleteFunc(s.waiting, func(w store.Submission) bool { return w.ID == settlement.ID })
	}
	return nil
}

func (s *shared) put(w ...store.Submission) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, w...)
}

func (s *shared) outcome(id messages.ExecutionID) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refused, ok := s.settled[id]
	return refused, ok
}

func TestOtherProgramsSubmitByTheStore(t *testing.T) {
	t.Parallel()
	others := newShared()
	others.lost = 1
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"echo": echo})(c)
		c.WrapStore = others.wrap
	}, goPack(t, map[string]string{"echo": "parameters: {type: object, properties: {n: {type: integer}}}\n"}))
	retries, priority := 2, messages.Priority(9)
	good := store.Submission{
		ID: messages.NewExecutionID(), Action: "t.echo", Parameters: json.RawMessage(`{"n": 1}`), Session: "s",
		Affinity: messages.AffinityHint, Priority: &priority, IdempotencyKey: "k", Timeout: 90 * time.Second, MaxRetries: &retries,
		Labels: map[string]string{"a": "b"}, CreatedBy: "trigger", Trace: traced + " a=1",
	}
	bare := store.Submission{ID: messages.NewExecutionID(), Action: "t.echo"}
	wrong := store.Submission{ID: messages.NewExecutionID(), Action: "t.echo", Parameters: json.RawMessage(`{"n": "x"}`)}
	unknown := store.Submission{ID: messages.NewExecutionID(), Action: "t.nothing"}
	conflict := store.Submission{ID: messages.NewExecutionID(), Action: "t.echo", IdempotencyKey: "k"}
	others.put(good, bare, wrong, unknown, conflict)
	all := []messages.ExecutionID{good.ID, bare.ID, wrong.ID, unknown.ID, conflict.ID}
	k.until("all are settled, by its own look", func() bool {
		return !slices.ContainsFunc(all, func(id messages.ExecutionID) bool { _, ok := others.outcome(id); return !ok })
	})
	refused := func(id messages.ExecutionID) string { text, _ := others.outcome(id); return text }
	require.Empty(t, refused(good.ID))
	require.Empty(t, refused(bare.ID))
	require.Contains(t, refused(wrong.ID), "t.echo")
	require.Contains(t, refused(unknown.ID), `there is no action "t.nothing"`)
	require.Contains(t, refused(conflict.ID), "idempotency key k")
	e := k.await(good.ID)
	require.Equal(t, messages.Completed, e.Status)
	require.Equal(t, []any{"s", messages.AffinityHint, priority, "k", 90 * time.Second, 2, true, "sql:trigger", traced + " a=1"},
		[]any{e.Session, e.Affinity, e.Priority, e.IdempotencyKey, e.Timeout, e.MaxRetries, e.MayRepeat, e.CreatedBy, e.Trace})
	require.Equal(t, "sql", k.await(bare.ID).CreatedBy)
	page, err := k.Store().List(t.Context(), store.Filter{})
	require.NoError(t, err)
	require.Len(t, page.Executions, 2, "taken twice, submitted once")
}

// The attack: a row of the inbox names a token as who submits, so that the execution passes for one of that token's own.
func TestARowCannotPassForAToken(t *testing.T) {
	t.Parallel()
	others := newShared()
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"echo": echo})(c)
		c.WrapStore = others.wrap
	}, goPack(t, map[string]string{"echo": ""}))
	want := map[string]string{"ci": "sql:ci", "": "sql", "sql": "sql", "sql:ci": "sql:ci", "local": "sql:local", "amqp": "sql:amqp", ":": "sql::"}
	for given, name := range want {
		row := store.Submission{ID: messages.NewExecutionID(), Action: "t.echo", CreatedBy: given}
		others.put(row)
		k.until("the row is settled", func() bool { _, ok := others.outcome(row.ID); return ok })
		require.Equal(t, name, k.await(row.ID).CreatedBy)
		require.NotEmpty(t, api.CheckName(name), "no token can have this name")
	}
}

func TestHintsBecomeMessages(t *testing.T) {
	t.Parallel()
	block := newGate()
	others := newShared()
	k := lab(t, func(c *node.Config) {
		handle(map[string]messages.Handler{"block": block.run})(c)
		c.WrapStore, c.SweepInterval = others.wrap, time.Hour // so that no sweep helps
	}, goPack(t, map[string]string{"block": ""}))
	stopping, fail := context.WithTimeout(t.Context(), patience)
	defer fail()

	// Another node cancels what runs here.
	id := k.submit("t.block", nil)
	block.next(t)
	_, err := k.Store().Apply(t.Context(), []store.Change{&store.Cancel{ID: id, By: "another node"}})
	require.NoError(t, err)
	others.hints <- store.Hint{Kind: store.HintCancel, Execution: id}
	require.Equal(t, messages.Cancelled, k.await(id).Status)

	// Another node ends what somebody waits for here.
	for _, hint := range []store.HintKind{store.HintFinished, store.HintLook} {
		later := k.submit("t.block", nil, func(r *submit.Request) { r.RunAt = time.Now().Add(time.Hour) })
		waited := make(chan messages.Execution, 1)
		go func() {
			e, _ := k.Wait(stopping, later)
			waited <- e
		}()
		_, err = k.Store().Apply(t.Context(), []store.Change{&store.Cancel{ID: later, By: "another node"}})
		require.NoError(t, err)
		others.hints <- store.Hint{Kind: hint, Execution: later}
		require.Equal(t, messages.Cancelled, (<-waited).Status)
	}
	close(block.open)
}
