package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/rules/webhook"
	"github.com/troupe-run/troupe/store"
)

// forgetful is a store of webhooks whose first calls of each kind fail.
type forgetful struct {
	store.Webhooks
	due, taken, reported atomic.Int32 // so many fail
}

var errForgetful = errors.New("the store is away, a test said so")

func (f *forgetful) DueDestinations(ctx context.Context, after string, limit int) (store.WebhookDestinations, error) {
	if f.due.Add(-1) >= 0 {
		return store.WebhookDestinations{}, errForgetful
	}
	return f.Webhooks.DueDestinations(ctx, after, limit)
}

func (f *forgetful) TakeWebhooks(ctx context.Context, takes []store.WebhookTake, lease time.Duration) ([]store.WebhookCall, error) {
	if f.taken.Add(-1) >= 0 {
		return nil, errForgetful
	}
	return f.Webhooks.TakeWebhooks(ctx, takes, lease)
}

func (f *forgetful) ReportWebhooks(ctx context.Context, reports []store.WebhookReport) error {
	if f.reported.Add(-1) >= 0 {
		return errForgetful
	}
	return f.Webhooks.ReportWebhooks(ctx, reports)
}

// callers counts the calls of webhooks, and answers 200 or as it is told to.
type callers struct {
	mu      sync.Mutex
	calls   map[messages.ExecutionID]int
	under   map[string]int // calls under way, by destination
	most    int            // the most that were under way at one destination
	answers func(c *store.WebhookCall) webhook.Answer
}

func (c *callers) call(_ context.Context, w *store.WebhookCall) webhook.Answer {
	c.mu.Lock()
	c.calls[w.Execution]++
	c.under[w.Destination]++
	c.most = max(c.most, c.under[w.Destination])
	c.mu.Unlock()
	answer := webhook.Answer{Code: 200}
	if c.answers != nil {
		answer = c.answers(w)
	}
	c.mu.Lock()
	c.under[w.Destination]--
	c.mu.Unlock()
	return answer
}

// endHooked stores n executions with a webhook, round robin to the destinations, and has the recorder end them.
func (o *office) endHooked(t *testing.T, n, destinations int) []messages.ExecutionID {
	t.Helper()
	return o.endHookedBy(t, "", n, destinations)
}

func (o *office) endHookedBy(t *testing.T, name string, n, destinations int) []messages.ExecutionID {
	t.Helper()
	batch, ids := make([]messages.Execution, n), make([]messages.ExecutionID, n)
	changes := make([]store.Change, n)
	for i := range batch {
		ids[i] = messages.NewExecutionID()
		batch[i] = messages.Execution{ID: ids[i], Action: "act", Pool: "pool", CreatedBy: name, Webhook: &messages.Webhook{URL: fmt.Sprintf("https://h%d.example/", i%destinations)}}
		changes[i] = cancelOf(ids[i])
	}
	_, err := o.store.Submit(t.Context(), batch)
	require.NoError(t, err)
	_, err = o.ask(t.Context(), changes...)
	require.NoError(t, err)
	return ids
}

func (o *office) hook(t *testing.T, id messages.ExecutionID) messages.WebhookRecord {
	t.Helper()
	r, err := o.store.Webhook(t.Context(), id)
	require.NoError(t, err)
	return r
}

// spawnWebhooks starts a bridge on the office's store.
func (o *office) spawnWebhooks(t *testing.T, change func(*WebhooksConfig)) {
	t.Helper()
	cfg := WebhooksConfig{System: o.system, Store: o.store, Every: 20 * time.Millisecond, Logger: hclog.NewNullLogger(),
		Limits: webhook.Limits{Base: 10 * time.Millisecond, Tries: 3, Age: time.Hour}}
	change(&cfg)
	_, err := o.system.Spawn(o.system, NewWebhooks(cfg))
	require.NoError(t, err)
}

// Two nodes share what is due: each outcome is told once, and no destination gets more calls at a time than its bound.
func TestTwoBridgesCallEachWebhookOnce(t *testing.T) {
	t.Parallel()
	for name, destinations := range map[string]int{"few destinations": 7, "more than a look has": 2*webhooksPage + 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testTwoBridges(t, destinations)
		})
	}
}

func testTwoBridges(t *testing.T, destinations int) {
	o := newOffice(t, nil)
	other := newOffice(t, nil)
	c := &callers{calls: map[messages.ExecutionID]int{}, under: map[string]int{}}
	ids := o.endHooked(t, 300, destinations)
	o.spawnWebhooks(t, func(w *WebhooksConfig) { w.Call = c.call })
	other.spawnWebhooks(t, func(w *WebhooksConfig) { w.Call, w.Store = c.call, o.store })
	require.Eventually(t, func() bool {
		n, err := o.store.CountWebhooks(t.Context())
		return err == nil && n.Due == 0
	}, 20*time.Second, 5*time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Len(t, c.calls, len(ids))
	for _, id := range ids {
		require.Equal(t, 1, c.calls[id])
		require.Equal(t, messages.WebhookTold, o.hook(t, id).State)
	}
	require.LessOrEqual(t, c.most, 2*webhook.DestinationMax)
}

// Calls that hang for one who submits hold up nothing of another, at the same host or elsewhere.
func TestCallsThatHangHoldUpNoneOfAnother(t *testing.T) {
	t.Parallel()
	o := newOffice(t, nil)
	hang := make(chan struct{})
	c := &callers{calls: map[messages.ExecutionID]int{}, under: map[string]int{}, answers: func(w *store.WebhookCall) webhook.Answer {
		if w.Of.CreatedBy == "bad" {
			<-hang
		}
		return webhook.Answer{Code: 200}
	}}
	o.spawnWebhooks(t, func(w *WebhooksConfig) { w.Call, w.Lease = c.call, time.Hour })
	bad := o.endHookedBy(t, "bad", 200, 100)
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.under) > 20
	}, 20*time.Second, 5*time.Millisecond, "they hang")
	for _, id := range o.endHookedBy(t, "good", 20, 2) {
		require.Eventually(t, func() bool { return o.hook(t, id).State == messages.WebhookTold }, 20*time.Second, 5*time.Millisecond)
	}
	close(hang)
	for _, id := range bad {
		require.Eventually(t, func() bool { return o.hook(t, id).State == messages.WebhookTold }, 20*time.Second, 5*time.Millisecond)
	}
}

// The recorder's word of an outcome begins a look: nobody waits for the timer.
func TestAnOutcomeIsToldAtOnce(t *testing.T) {
	t.Parallel()
	o := newOffice(t, nil)
	require.NoError(t, o.system.StopAndWait(t.Context(), o.recorder))
	bell, c := &WebhooksBell{}, &callers{calls: map[messages.ExecutionID]int{}, under: map[string]int{}}
	o.config.Webhooks = func() { bell.Ring(o.system, o.system.PID("webhooks")) }
	o.spawn(t)
	o.spawnWebhooks(t, func(w *WebhooksConfig) { w.Call, w.Bell, w.Every = c.call, bell, time.Hour })
	for _, id := range append(o.endHooked(t, 1, 1), o.endHooked(t, 1, 1)...) {
		require.Eventually(t, func() bool { return o.hook(t, id).State == messages.WebhookTold }, 20*time.Second, 5*time.Millisecond)
	}
}

// While the store is away nothing is lost and no call is repeated: what was told is written down once it is back.
func TestABridgeWhoseStoreIsAway(t *testing.T) {
	t.Parallel()
	o := newOffice(t, nil)
	c := &callers{calls: map[messages.ExecutionID]int{}, under: map[string]int{}}
	away := &forgetful{Webhooks: o.store}
	away.due.Store(1)
	away.taken.Store(1)
	away.reported.Store(2)
	ids := o.endHooked(t, 5, 2)
	o.spawnWebhooks(t, func(w *WebhooksConfig) { w.Call, w.Store = c.call, away })
	for _, id := range ids {
		require.Eventually(t, func() bool { return o.hook(t, id).State == messages.WebhookTold }, 30*time.Second, 5*time.Millisecond)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		require.Equal(t, 1, c.calls[id])
	}
}

// An address that never takes the call is given up after its tries, and what is too old without another.
func TestABridgeGivesUp(t *testing.T) {
	t.Parallel()
	o := newOffice(t, nil)
	c := &callers{calls: map[messages.ExecutionID]int{}, under: map[string]int{}, answers: func(*store.WebhookCall) webhook.Answer { return webhook.Answer{Code: 404} }}
	ids := o.endHooked(t, 2, 2)
	results := sync.Map{}
	o.spawnWebhooks(t, func(w *WebhooksConfig) {
		w.Call = c.call
		w.Count = func(result string, _ time.Duration) {
			n, _ := results.LoadOrStore(result, new(atomic.Int32))
			n.(*atomic.Int32).Add(1)
		}
	})
	for _, id := range ids {
		require.Eventually(t, func() bool { return o.hook(t, id).State == messages.WebhookGivenUp }, 20*time.Second, 5*time.Millisecond)
		r := o.hook(t, id)
		require.Equal(t, 3, r.Tries)
		require.Equal(t, "answered 404; given up after 3 tries", r.Error)
	}
	failed, _ := results.Load("failed")
	require.EqualValues(t, 4, failed.(*atomic.Int32).Load())

	old := newOffice(t, nil)
	ids = old.endHooked(t, 3, 1)
	old.spawnWebhooks(t, func(w *WebhooksConfig) {
		w.Limits.Age = time.Nanosecond
		w.Call = func(context.Context, *store.WebhookCall) webhook.Answer { return webhook.Answer{Failure: "no answer"} }
	})
	for _, id := range ids {
		require.Eventually(t, func() bool { return old.hook(t, id).State == messages.WebhookGivenUp }, 20*time.Second, 5*time.Millisecond)
	}
}
