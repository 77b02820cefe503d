package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/rabbitmq"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/store"
	"github.com/troupe-run/troupe/store/postgres"
	"github.com/troupe-run/troupe/test/servers"
)

// killed stands between one teller and its servers. From the kill on nothing gets through, in either direction: what was under way
// may have been done, and nobody hears of it, as when the teller's node dies.
type killed struct {
	store.Store
	broker.Broker
	ctx context.Context
}

var errKilled = errors.New("the test has killed this teller")

// through makes a call whose answer is lost when the kill comes first.
func through[T any](k *killed, call func() (T, error)) (out T, err error) {
	if k.ctx.Err() != nil {
		return out, errKilled
	}
	out, err = call()
	if k.ctx.Err() != nil {
		var none T
		return none, errKilled
	}
	return out, err
}

func (k *killed) Close() error { return nil }

func (k *killed) Status() broker.Status { return k.Broker.Status() }

func (k *killed) Publish(ctx context.Context, all []broker.Message) ([]broker.Confirm, error) {
	return through(k, func() ([]broker.Confirm, error) {
		dying, cancel := context.WithCancel(ctx) // of what it was about to publish, the rest never leaves
		defer cancel()
		defer context.AfterFunc(k.ctx, cancel)()
		return k.Broker.Publish(dying, all)
	})
}

func (k *killed) HoldNotices(ctx context.Context, inc messages.Incarnation, lease time.Duration) (store.NoticesHold, error) {
	return through(k, func() (store.NoticesHold, error) { return k.Store.HoldNotices(ctx, inc, lease) })
}

func (k *killed) ReadNotices(ctx context.Context, from store.NoticesCursor, limit int, unheard store.NoticeRoutes) (store.NoticesPage, error) {
	return through(k, func() (store.NoticesPage, error) { return k.Store.ReadNotices(ctx, from, limit, unheard) })
}

func (k *killed) NoticesTold(ctx context.Context, epoch int64, lease time.Duration, told store.ToldNotices) error {
	_, err := through(k, func() (any, error) { return nil, k.Store.NoticesTold(ctx, epoch, lease, told) })
	return err
}

func (k *killed) ReleaseNotices(ctx context.Context, epoch int64) error {
	_, err := through(k, func() (any, error) { return nil, k.Store.ReleaseNotices(ctx, epoch) })
	return err
}

// listener hears all notices and remembers when it first heard each.
type listener struct {
	mu     sync.Mutex
	first  map[messages.ExecutionID]int
	copies int
}

func (l *listener) hear(c broker.Consumer) {
	for d := range c.Deliveries() {
		var n messages.ExecutionCompleted
		if json.Unmarshal(d.Body, &n) == nil {
			l.mu.Lock()
			if _, heard := l.first[n.ExecutionID]; !heard {
				l.first[n.ExecutionID] = l.copies
			}
			l.copies++
			l.mu.Unlock()
		}
		_ = d.Ack()
	}
}

func (l *listener) heard() (count, copies int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.first), l.copies
}

// chains ends executions, each of which is retried once, until stop is closed, and returns them: parent and retry.
func chains(t *testing.T, s store.Store, stop <-chan struct{}) (all [][2]messages.ExecutionID) {
	ask := func() messages.Execution {
		return messages.Execution{ID: messages.NewExecutionID(), Action: "core.act", Pool: "pool", Notify: true, MaxRetries: 1, Timeout: time.Minute}
	}
	outcome := messages.Outcome{Status: messages.Failed, Error: &messages.Error{Code: "x", Message: "m"}}
	apply := func(changes []store.Change) bool {
		results, err := s.Apply(context.Background(), changes)
		for _, r := range results {
			if r.Verdict != store.Applied {
				t.Errorf("not applied: %v", r.Verdict)
			}
		}
		return err == nil
	}
	for {
		select {
		case <-stop:
			return all
		default:
		}
		const batch = 20
		parents, ends, retries := make([]messages.Execution, batch), make([]store.Change, batch), make([]store.Change, batch)
		for i := range batch {
			parents[i] = ask()
			retry := ask()
			retry.Original, retry.RetryCount = parents[i].ID, 1
			ends[i] = &store.End{ID: parents[i].ID, Outcome: outcome, Retry: &retry}
			retries[i] = &store.End{ID: retry.ID, Outcome: outcome}
			all = append(all, [2]messages.ExecutionID{parents[i].ID, retry.ID})
		}
		if _, err := s.Submit(context.Background(), parents); err != nil || !apply(ends) || !apply(retries) {
			t.Errorf("store: %v", err)
			return all
		}
	}
}

// A teller that is killed at any point loses no notice, and nobody hears of a retry before the execution that it repeats. Each
// kill leaves the outbox to another incarnation, which takes it when the lease ends, or to the same one, as when an actor fails.
func TestATellerIsKilledAndNoNoticeIsLost(t *testing.T) {
	t.Parallel()
	killTellers(t, 30)
}

// TestWholeATellerIsKilledAndNoNoticeIsLost is the same with 100 kills: make chaos.
func TestWholeATellerIsKilledAndNoNoticeIsLost(t *testing.T) {
	if os.Getenv("TROUPE_CHAOS") != "whole" {
		t.Skip("kills 100 times: make chaos, or TROUPE_CHAOS=whole")
	}
	killTellers(t, 100)
}

func killTellers(t *testing.T, kills int) {
	t.Helper()
	url, prefix := servers.RabbitMQ(t)
	settings := broker.Settings{Prefix: prefix, Classic: true}
	client, err := rabbitmq.Open(t.Context(), rabbitmq.Config{URL: url, WaitAtOpen: true})
	require.NoError(t, err)
	queue := prefix + ".ears"
	topology := settings.Shared()
	topology.Queues = []broker.Queue{{Name: queue}}
	topology.Bindings = []broker.Binding{{Exchange: settings.ExecutionsExchange(), Queue: queue, Key: "#"}}
	require.NoError(t, client.Declare(t.Context(), topology))
	t.Cleanup(func() {
		require.NoError(t, client.Delete(context.Background(), queue))
		require.NoError(t, client.Close())
	})
	consumer, err := client.Consume(t.Context(), queue, 1000)
	require.NoError(t, err)
	ears := &listener{first: map[messages.ExecutionID]int{}}
	var listening sync.WaitGroup
	listening.Go(func() { ears.hear(consumer) })
	s, err := postgres.Open(t.Context(), postgres.Config{URL: database(t)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })

	stop := make(chan struct{})
	var loading sync.WaitGroup
	loads := make([][][2]messages.ExecutionID, 2)
	for i := range loads {
		loading.Go(func() { loads[i] = chains(t, s, stop) })
	}
	system := actors.NewSystem(hclog.NewNullLogger())
	var told atomic.Int64
	begin := func(inc messages.Incarnation) (pid *actor.PID, kill func()) {
		ctx, cancel := context.WithCancel(context.Background())
		k := &killed{s, client, ctx}
		pid, err := system.Spawn(system, actors.NewNotices(actors.NoticesConfig{
			System: system, Store: k, Broker: k, Settings: settings, Incarnation: inc, Logger: hclog.NewNullLogger(),
			Every: 10 * time.Millisecond, Lease: 150 * time.Millisecond,
			Count: func(result string, n int) {
				if result == "told" {
					told.Add(int64(n))
				}
			},
		}))
		require.NoError(t, err)
		return pid, cancel
	}
	inc := messages.NewIncarnation()
	for n := range kills {
		before := told.Load()
		pid, kill := begin(inc)
		require.Eventually(t, func() bool { return told.Load() > before }, 20*time.Second, time.Millisecond, "kill %d: the next teller tells", n)
		<-time.After(time.Duration(rand.IntN(100)) * time.Millisecond)
		kill()
		require.NoError(t, system.StopAndWait(t.Context(), pid))
		if n%2 == 0 {
			inc = messages.NewIncarnation()
		}
	}
	close(stop)
	loading.Wait()
	last, _ := begin(inc)
	all := slices.Concat(loads...)
	require.Eventually(t, func() bool { count, _ := ears.heard(); return count == 2*len(all) }, 60*time.Second, 10*time.Millisecond, "all are told")
	require.Eventually(t, func() bool { p, err := s.PendingNotices(t.Context()); return err == nil && p.Count == 0 }, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, system.StopAndWait(t.Context(), last))
	require.NoError(t, consumer.Cancel())
	listening.Wait()
	for _, chain := range all {
		require.Less(t, ears.first[chain[0]], ears.first[chain[1]], "an execution is told before its retry")
	}
	count, copies := ears.heard()
	t.Logf("%d kills; %d notices were told, %d of them again", kills, count, copies-count)
}
