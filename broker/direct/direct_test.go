package direct_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/broker/brokertest"
	"github.com/troupe-run/troupe/broker/direct"
	"github.com/troupe-run/troupe/broker/memory"
	"github.com/troupe-run/troupe/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is a set of nodes that post to each other.
type cluster struct {
	mu    sync.Mutex
	nodes map[messages.Incarnation]*direct.Broker
	// before is called before each post. Its error is the error of the post.
	before func(ctx context.Context, to messages.Incarnation, list []broker.Message) error
	posts  atomic.Int64
}

var settings = broker.Defaults()

func (c *cluster) post(ctx context.Context, to messages.Incarnation, list []broker.Message) ([]broker.Confirm, error) {
	c.posts.Add(1)
	if c.before != nil {
		if err := c.before(ctx, to, list); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	target := c.nodes[to]
	c.mu.Unlock()
	if target == nil {
		return nil, errors.New("no such node")
	}
	return target.Accept(ctx, list)
}

// node opens the broker of another node, which has a queue of the pool go.
func (c *cluster) node(t *testing.T, limits direct.Limits) (b *direct.Broker, queue string) {
	t.Helper()
	own := messages.NewIncarnation()
	b = direct.New(direct.Config{Local: memory.New(memory.Config{}), Own: own, Settings: settings, Post: c.post, Limits: limits})
	queue = settings.PoolQueueName("n", "go", own)
	require.NoError(t, b.Declare(t.Context(), broker.Topology{Queues: []broker.Queue{{Name: queue, MaxLength: 100}}}))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes == nil {
		c.nodes = map[messages.Incarnation]*direct.Broker{}
	}
	c.nodes[own] = b
	return b, queue
}

func ready(t *testing.T, b broker.Broker, queue string) int {
	t.Helper()
	info, err := b.Inspect(t.Context(), queue)
	require.NoError(t, err)
	return info.Ready
}

func wide() direct.Limits { return direct.Limits{Messages: 256, Bytes: 1 << 20} }

// A node's own broker behaves like the adapter that it wraps.
func TestConformance(t *testing.T) {
	t.Parallel()
	var servers sync.Map // by test
	brokertest.RunInBubbles(t, func(t *testing.T) broker.Broker {
		found, loaded := servers.LoadOrStore(t, sync.OnceValue(func() *memory.Broker { return memory.New(memory.Config{}) }))
		first := found.(func() *memory.Broker)()
		if !loaded {
			t.Cleanup(func() { require.NoError(t, first.Close()) })
		}
		local, err := first.Connect()
		require.NoError(t, err)
		return direct.New(direct.Config{
			Local: local, Own: messages.NewIncarnation(), Settings: settings, Limits: wide(),
			Post: func(context.Context, messages.Incarnation, []broker.Message) ([]broker.Confirm, error) {
				t.Error("nothing is another node's")
				return nil, errors.New("nothing is another node's")
			},
		})
	})
}

// Messages reach the queues of both nodes, and each confirm is at the index of its message.
func TestMessagesReachTheQueuesOfOtherNodes(t *testing.T) {
	t.Parallel()
	c := &cluster{}
	a, own := c.node(t, wide())
	b, theirs := c.node(t, wide())
	defer closeAll(t, a, b)
	gone := settings.PoolQueueName("n", "go", messages.NewIncarnation())
	missing := settings.PoolQueueName("n", "python", incarnationOf(t, theirs))
	confirms, err := a.Publish(t.Context(), []broker.Message{
		{RoutingKey: theirs, Body: []byte("1")}, {RoutingKey: own, Body: []byte("2")}, {RoutingKey: gone}, {RoutingKey: missing},
		{RoutingKey: theirs, Body: []byte("3"), Expiration: time.Minute}, {RoutingKey: "foreign"}, {Exchange: "missing", RoutingKey: theirs},
	})
	require.ErrorContains(t, err, "no such node")
	require.Equal(t, []broker.Confirm{
		broker.Confirmed, broker.Confirmed, broker.Unknown, broker.Returned, broker.Confirmed, broker.Returned, broker.Returned,
	}, confirms)
	require.Equal(t, 1, ready(t, a, own))
	require.Equal(t, 2, ready(t, b, theirs))
	consumer, err := b.Consume(t.Context(), theirs, 10)
	require.NoError(t, err)
	first, second := <-consumer.Deliveries(), <-consumer.Deliveries()
	require.Equal(t, []any{"1", "3", time.Minute}, []any{string(first.Body), string(second.Body), second.Expiration})
}

// What Local cannot have is posted without a try there: the server that Local is would have to answer for each.
func TestWhatLocalCannotHaveIsPostedAtOnce(t *testing.T) {
	t.Parallel()
	c := &cluster{}
	b, theirs := c.node(t, wide())
	local, own := memory.New(memory.Config{}), messages.NewIncarnation()
	mine, slow := settings.PoolQueueName("n", "go", own), settings.PoolQueueName("n", "slow", incarnationOf(t, theirs))
	require.NoError(t, local.Declare(t.Context(), broker.Topology{Queues: []broker.Queue{{Name: mine}, {Name: theirs}, {Name: slow}}}))
	a := direct.New(direct.Config{
		Local: local, Own: own, Settings: settings, Post: c.post, Limits: wide(),
		Posts: func(o broker.QueueOwner) bool { return o.Pool == "go" },
	})
	defer closeAll(t, a, b)
	confirms, err := a.Publish(t.Context(), []broker.Message{{RoutingKey: theirs}, {RoutingKey: mine}, {RoutingKey: slow}, {RoutingKey: theirs}})
	require.NoError(t, err)
	require.Equal(t, []broker.Confirm{broker.Confirmed, broker.Confirmed, broker.Confirmed, broker.Confirmed}, confirms)
	require.Equal(t, []int{2, 0, 1, 1}, []int{ready(t, b, theirs), ready(t, local, theirs), ready(t, local, mine), ready(t, local, slow)})
	require.NoError(t, local.Close())
	confirms, err = a.Publish(t.Context(), []broker.Message{{RoutingKey: theirs}})
	require.NoError(t, err)
	require.Equal(t, []broker.Confirm{broker.Confirmed}, confirms, "Local is not asked")
}

// A full queue of another node nacks, and its other queues accept their messages.
func TestAFullQueueOfAnotherNodeNacks(t *testing.T) {
	t.Parallel()
	c := &cluster{}
	a, _ := c.node(t, direct.Limits{Messages: 7, Bytes: 1 << 20})
	b, theirs := c.node(t, wide())
	defer closeAll(t, a, b)
	confirms, err := a.Publish(t.Context(), make101(theirs))
	require.NoError(t, err)
	for i, confirm := range confirms[:100] {
		require.Equal(t, broker.Confirmed, confirm, "%d", i)
	}
	require.Equal(t, broker.Nacked, confirms[100])
	require.EqualValues(t, 15, c.posts.Load(), "101 messages in parts of 7")
}

func make101(queue string) []broker.Message {
	list := make([]broker.Message, 101)
	for i := range list {
		list[i] = broker.Message{RoutingKey: queue, Body: []byte(fmt.Sprint(i))}
	}
	return list
}

// No post exceeds the limits, except for one message that exceeds them alone.
func TestPostsKeepToTheirLimits(t *testing.T) {
	t.Parallel()
	c := &cluster{}
	var sizes []int
	c.before = func(_ context.Context, _ messages.Incarnation, list []broker.Message) error {
		bytes := 0
		for _, m := range list {
			bytes += len(m.Body)
		}
		sizes = append(sizes, bytes)
		return nil
	}
	a, _ := c.node(t, direct.Limits{Messages: 100, Bytes: 10})
	b, theirs := c.node(t, wide())
	defer closeAll(t, a, b)
	var list []broker.Message
	for _, size := range []int{4, 4, 4, 12, 1, 9, 1} {
		list = append(list, broker.Message{RoutingKey: theirs, Body: make([]byte, size)})
	}
	_, err := a.Publish(t.Context(), list)
	require.NoError(t, err)
	require.Equal(t, []int{8, 4, 12, 10, 1}, sizes)
}

// While one post is in progress, messages for the same node wait. They share the next post, except those whose callers
// no longer wait. Posts to other nodes continue. A node that does not answer costs PostTime.
func TestANodeThatDoesNotAnswerHoldsUpItsOwnMessagesAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		a, own := c.node(t, wide())
		silent, theirs := c.node(t, wide())
		other, others := c.node(t, wide())
		defer closeAll(t, a, silent, other)
		frozen := incarnationOf(t, theirs)
		var thawed atomic.Bool
		c.before = func(ctx context.Context, to messages.Incarnation, _ []broker.Message) error {
			if to == frozen && !thawed.Load() {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		began := time.Now()
		var all sync.WaitGroup
		publish := func(ctx context.Context, want broker.Confirm) {
			all.Go(func() {
				confirms, err := a.Publish(ctx, []broker.Message{{RoutingKey: theirs}})
				require.Equal(t, []broker.Confirm{want}, confirms)
				require.Equal(t, want == broker.Confirmed, err == nil)
			})
		}
		publish(t.Context(), broker.Unknown)
		synctest.Wait()
		brief, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		publish(brief, broker.Unknown)
		publish(t.Context(), broker.Confirmed)
		publish(t.Context(), broker.Confirmed)
		synctest.Wait()
		confirms, err := a.Publish(t.Context(), []broker.Message{{RoutingKey: own}, {RoutingKey: others}})
		require.NoError(t, err)
		require.Equal(t, []broker.Confirm{broker.Confirmed, broker.Confirmed}, confirms)
		require.Zero(t, time.Since(began))
		thawed.Store(true)
		before := c.posts.Load()
		all.Wait()
		require.Equal(t, direct.PostTime, time.Since(began))
		require.EqualValues(t, 1, c.posts.Load()-before, "both in one post")
		require.Equal(t, 2, ready(t, silent, theirs), "what was given up is not sent")
	})
}

// The messages that wait for one node are bounded. A node that cannot be reached gets no message whose caller no longer
// waits.
func TestWhatWaitsForANodeIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{before: func(ctx context.Context, _ messages.Incarnation, _ []broker.Message) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		a, _ := c.node(t, wide())
		b, theirs := c.node(t, wide())
		defer closeAll(t, a, b)
		list := make([]broker.Message, 9_000)
		for i := range list {
			list[i] = broker.Message{RoutingKey: theirs}
		}
		var all sync.WaitGroup
		for range 2 { // the first is in progress, the second waits
			all.Go(func() { _, _ = a.Publish(t.Context(), list) })
			synctest.Wait()
		}
		confirms, err := a.Publish(t.Context(), list[:1_001])
		require.ErrorContains(t, err, "too many messages wait")
		require.Equal(t, broker.Nacked, confirms[0])
		all.Wait()
	})
}

// Close waits for posts in progress. Later messages are refused.
func TestAClosedBrokerPostsNothing(t *testing.T) {
	t.Parallel()
	c := &cluster{}
	a, _ := c.node(t, wide())
	b, theirs := c.node(t, wide())
	require.NoError(t, a.Close())
	_, err := a.Publish(t.Context(), []broker.Message{{RoutingKey: theirs}})
	require.ErrorIs(t, err, broker.ErrClosed)
	require.Zero(t, ready(t, b, theirs))
	closeAll(t, b)
}

// Another node reaches only queues of this node's workers.
func TestOnlyQueuesOfWorkersAreReached(t *testing.T) {
	t.Parallel()
	c := &cluster{}
	a, own := c.node(t, wide())
	defer closeAll(t, a)
	require.NoError(t, a.Declare(t.Context(), settings.Shared()))
	confirms, err := a.Accept(t.Context(), []broker.Message{
		{RoutingKey: settings.RequestsQueue()}, {RoutingKey: settings.DeadLetterQueue()}, {RoutingKey: own},
		{Exchange: settings.ExecutionsExchange(), RoutingKey: own}, {RoutingKey: settings.PoolQueueName("n", "go", messages.NewIncarnation())},
	})
	require.NoError(t, err)
	require.Equal(t, []broker.Confirm{broker.Returned, broker.Returned, broker.Confirmed, broker.Returned, broker.Returned}, confirms)
	require.Zero(t, ready(t, a, settings.RequestsQueue()))
	require.Zero(t, ready(t, a, settings.DeadLetterQueue()))
}

func incarnationOf(t *testing.T, queue string) messages.Incarnation {
	t.Helper()
	owner, ok := settings.ParseQueueName(queue)
	require.True(t, ok)
	return owner.Incarnation
}

func closeAll(t *testing.T, list ...*direct.Broker) {
	t.Helper()
	for _, b := range list {
		require.NoError(t, b.Close())
	}
}
