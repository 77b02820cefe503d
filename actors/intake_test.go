package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
)

// gateway is an intake bridge with everything behind it. A message's body is its action; "bad" is malformed.
type gateway struct {
	*dock
	store  store.Store
	config IntakeConfig
	mu     sync.Mutex
	counts map[string]int
	groups []int
	fail   func(n int) error // of a group of n
}

func newGateway(t *testing.T) *gateway {
	t.Helper()
	g := &gateway{dock: newDock(t, nil), store: openStore(t), counts: map[string]int{}}
	g.config = IntakeConfig{
		System: g.system, Broker: g.broker, Settings: g.settings, Delivery: g.bridge, DeadLetters: g.store,
		Read: g.read, Submit: g.submit, Logger: hclog.NewNullLogger(),
		Count: func(result string) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.counts[result]++
		},
		Held: &Held{},
	}
	require.NoError(t, g.broker.Declare(t.Context(), g.settings.Requests()))
	return g
}

// open starts the bridge, as a group does: its child is made anew each time.
func (g *gateway) open(t *testing.T) {
	t.Helper()
	_, err := g.system.Spawn(g.system, NewIntake(g.config))
	require.NoError(t, err)
}

func (g *gateway) read(d broker.Delivery) (messages.Execution, *Refusal) {
	switch strings.TrimSpace(string(d.Body)) {
	case "bad":
		return messages.Execution{}, &Refusal{Malformed: true, Code: "invalid_json", Text: "it is bad"}
	case "poison":
		panic("it is poison")
	}
	return messages.Execution{
		ID: messages.NewExecutionID(), Action: string(d.Body), Pool: "pool", IdempotencyKey: d.ID, RequestHash: d.Body,
	}, nil
}

func (g *gateway) submit(ctx context.Context, e []messages.Execution) ([]store.Submitted, error) {
	g.mu.Lock()
	g.groups = append(g.groups, len(e))
	fail := g.fail
	g.mu.Unlock()
	if fail != nil {
		if err := fail(len(e)); err != nil {
			return nil, err
		}
	}
	return g.store.Submit(ctx, e)
}

func (g *gateway) failing(fail func(n int) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fail = fail
}

func (g *gateway) counted(result string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.counts[result]
}

func (g *gateway) send(t *testing.T, messages ...broker.Message) {
	t.Helper()
	for i := range messages {
		messages[i].RoutingKey = g.settings.RequestsQueue()
	}
	confirms, err := g.broker.Publish(t.Context(), messages)
	require.NoError(t, err)
	for _, c := range confirms {
		require.Equal(t, broker.Confirmed, c)
	}
}

// stored are the executions that were made.
func (g *gateway) stored(t *testing.T) []messages.Execution {
	t.Helper()
	page, err := g.store.List(t.Context(), store.Filter{Limit: 1000})
	require.NoError(t, err)
	return page.Executions
}

func TestIntakeSubmitsInGroupsAndAnswers(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	require.NoError(t, g.broker.Declare(t.Context(), broker.Topology{Queues: []broker.Queue{{Name: "answers"}}}))
	const n = 250
	batch := make([]broker.Message, n)
	for i := range batch {
		batch[i] = broker.Message{
			ID: fmt.Sprint("m", i), Body: []byte("act"), ReplyTo: "answers", CorrelationID: fmt.Sprint("c", i),
		}
	}
	batch[1].ReplyTo = "nobody" // its answer goes nowhere and hinders nothing
	batch[2].ID = "m0"
	g.send(t, batch...)
	g.open(t)
	soon(t, func() bool { return g.counted("accepted") == n-1 && g.counted("existing") == 1 }, "all must be taken")
	require.Len(t, g.stored(t), n-1)
	g.mu.Lock()
	require.Less(t, len(g.groups), n/4, "what is there is submitted together")
	for _, size := range g.groups {
		require.LessOrEqual(t, size, intakePrefetch)
	}
	g.mu.Unlock()
	c, err := g.broker.Consume(t.Context(), "answers", n)
	require.NoError(t, err)
	ids := map[string]messages.ExecutionID{}
	for range n - 1 {
		d := <-c.Deliveries()
		var r messages.SubmitReply
		require.NoError(t, json.Unmarshal(d.Body, &r))
		require.Nil(t, r.Error)
		require.Equal(t, messages.Requested, r.Status)
		ids[d.CorrelationID] = r.ID
	}
	require.Equal(t, ids["c0"], ids["c2"])
	require.NotContains(t, ids, "c1")
	require.Len(t, ids, n-1)
}

func TestIntakeKeepsWhatItRefuses(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	require.NoError(t, g.broker.Declare(t.Context(), broker.Topology{Queues: []broker.Queue{{Name: "answers"}}}))
	g.send(t,
		broker.Message{ID: "one", Body: []byte("act")}, broker.Message{ID: "one", Body: []byte("another"), ReplyTo: "answers"},
		broker.Message{ID: "two", Body: []byte("act")},
		broker.Message{ID: "x", Body: []byte("bad"), Headers: map[string]string{"h": "v"}}, broker.Message{ID: "x", Body: []byte("bad")},
		broker.Message{ID: "y", Body: []byte("act" + strings.Repeat(" ", 300_000))},
	)
	g.open(t)
	soon(t, func() bool {
		return g.counted("accepted") == 3 && g.counted("refused") == 1 && g.counted("malformed") == 2
	},
		"each must be judged for itself")
	letters, err := g.store.ListDeadLetters(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, letters, 2, "one that comes again leaves one record")
	byReason := map[string]store.DeadLetter{}
	for _, l := range letters {
		require.Equal(t, "troupe.requests", l.Queue)
		byReason[l.Reason] = l
	}
	require.Equal(t, "quarantined: it is bad", byReason["malformed"].Resolution)
	malformed, err := g.store.GetDeadLetter(t.Context(), byReason["malformed"].ID)
	require.NoError(t, err)
	require.Equal(t, "bad", string(malformed.Body))
	require.Contains(t, string(malformed.Headers), `"h":"v"`)
	require.Contains(t, byReason["refused"].Resolution, "idempotency key one")
	c, err := g.broker.Consume(t.Context(), "answers", 1)
	require.NoError(t, err)
	var r messages.SubmitReply
	require.NoError(t, json.Unmarshal((<-c.Deliveries()).Body, &r))
	require.Equal(t, "idempotency_conflict", r.Error.Code)
	require.True(t, r.ID.IsZero())
}

// What a broker does not bound is kept up to a bound, with what it was.
func TestIntakeKeepsNoLargeBodies(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	body := []byte("bad" + strings.Repeat(" ", 1<<20))
	g.send(t, broker.Message{ID: "large", Body: body, Headers: map[string]string{"h": strings.Repeat("v", headersMax)}})
	g.open(t)
	soon(t, func() bool { return g.counted("malformed") == 1 }, "it must be kept")
	letters, err := g.store.ListDeadLetters(t.Context(), 0, 10)
	require.NoError(t, err)
	letter, err := g.store.GetDeadLetter(t.Context(), letters[0].ID)
	require.NoError(t, err)
	require.Equal(t, body[:store.DeadLetterBodyMax], letter.Body)
	require.EqualValues(t, len(body), letter.BodySize)
	require.True(t, letter.BodyCut)
	require.Len(t, letter.BodySHA256, 64)
	require.Less(t, len(letter.Headers), 1000)
}

// A request at which the node's own reading panics is refused: what came with it is taken, and it does not come again.
func TestIntakeOutlivesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.send(t, broker.Message{ID: "before", Body: []byte("act")}, broker.Message{ID: "p", Body: []byte("poison"), ReplyTo: "answers"},
		broker.Message{ID: "after", Body: []byte("act")})
	require.NoError(t, g.broker.Declare(t.Context(), broker.Topology{Queues: []broker.Queue{{Name: "answers"}}}))
	g.open(t)
	soon(t, func() bool { return g.counted("accepted") == 2 && g.counted("refused") == 1 }, "the others are taken")
	letters, err := g.store.ListDeadLetters(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, letters, 1)
	require.Equal(t, "quarantined: "+Unreadable, letters[0].Resolution)
	letter, err := g.store.GetDeadLetter(t.Context(), letters[0].ID)
	require.NoError(t, err)
	require.Equal(t, "poison", string(letter.Body))
	c, err := g.broker.Consume(t.Context(), "answers", 1)
	require.NoError(t, err)
	require.Contains(t, string((<-c.Deliveries()).Body), `"code":"internal"`)
}

func TestIntakeGivesBackWhatTheStoreDidNotTake(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	away := errors.New("the store is away")
	var fails, committed int
	g.failing(func(int) error {
		if fails++; fails == 1 {
			return away
		}
		return nil
	})
	g.send(t, broker.Message{ID: "m", Body: []byte("act")})
	g.open(t)
	soon(t, func() bool { return g.counted("accepted") == 1 }, "it must come again")
	require.Equal(t, 1, g.counted("given_back"))

	// A commit whose answer is lost: the message comes again, and its key finds what is stored.
	g.failing(func(int) error {
		if committed++; committed > 1 {
			return nil
		}
		e, refusal := g.read(broker.Delivery{Message: broker.Message{ID: "n", Body: []byte("act")}})
		require.Nil(t, refusal)
		_, err := g.store.Submit(context.Background(), []messages.Execution{e})
		return errors.Join(away, err)
	})
	g.send(t, broker.Message{ID: "n", Body: []byte("act")})
	soon(t, func() bool { return g.counted("existing") == 1 }, "it must be found")
	require.Len(t, g.stored(t), 2)
}

// A bridge that fails with messages in its hands is followed by one that has them delivered again: at once those that nobody
// has looked at, later those that may be why.
func TestIntakeComesBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGateway(t)
		entered, leave := make(chan struct{}), make(chan struct{})
		var once sync.Once
		g.failing(func(int) error {
			once.Do(func() {
				close(entered)
				<-leave
				panic("a bug")
			})
			return nil
		})
		g.send(t, broker.Message{ID: "m", Body: []byte("act")})
		g.open(t)
		<-entered
		g.send(t, broker.Message{ID: "n", Body: []byte("act")})
		synctest.Wait()
		close(leave)
		synctest.Wait()
		_, live := g.system.Registry.Get("intake")
		require.False(t, live, "it must fail")
		g.send(t, broker.Message{ID: "o", Body: []byte("act")})
		synctest.Wait()
		g.open(t)
		synctest.Wait()
		require.Len(t, g.stored(t), 2, "those that waited")
		time.Sleep(heldAgain)
		synctest.Wait()
		require.Len(t, g.stored(t), 3)
		require.Equal(t, 3, g.counted("accepted"))
		other, err := g.broker.Connect()
		require.NoError(t, err)
		require.NoError(t, g.broker.Close())
		info, err := other.Inspect(t.Context(), g.settings.RequestsQueue())
		require.NoError(t, err)
		require.Zero(t, info.Ready, "nothing is left unsettled")
		require.NoError(t, other.Close())
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for err, refused := range map[error]bool{
		nil: false, store.ErrUnavailable: false, store.ErrFull: false, store.ErrClosed: false, context.DeadlineExceeded: false,
		&store.ConflictError{Key: "k"}:                  true,
		fmt.Errorf("x: %w", store.ErrConflict):          true,
		fmt.Errorf("priority: %w: 7", store.ErrInvalid): true,
	} {
		require.Equal(t, refused, RefusalOf(err) != nil, "%v", err)
	}
}
