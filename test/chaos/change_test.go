package chaos_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
	"github.com/troupe-run/troupe/test/servers"
)

// RabbitMQ takes a delivery back if it is not acked in time. Troupe acks at the claim, so a run may take longer than that time.
func TestARunOutlastsTheAckTimeout(t *testing.T) {
	t.Parallel()
	outlast(t, servers.RabbitMQOptions{ConsumerTimeout: 2 * time.Second, Tick: time.Second}, 6*time.Second)
}

func TestWholeARunOutlastsTheAckTimeout(t *testing.T) {
	wholeOnly(t)
	outlast(t, servers.RabbitMQOptions{ConsumerTimeout: time.Minute}, 3*time.Minute)
}

func outlast(t *testing.T, o servers.RabbitMQOptions, length time.Duration) {
	paths, err := built()
	require.NoError(t, err)
	f := &full{t: t, ownRabbit: servers.PrivateRabbitMQ(t, o)}
	f.prepare(servers.RoomyPostgres(t), f.ownRabbit.URL, "chaos", nil)
	n := f.join("a", paths.troupe, "pack")
	f.start()
	lost := f.holdUnacked()
	c := f.caller()
	w := &work{want: []messages.Status{messages.Completed}}
	seconds := 2 * length.Seconds()
	w.ActionRef, w.IdempotencyKey, w.Parameters, w.TimeoutSeconds = "chaos.go_work", "long", parameters(length), &seconds
	_, err = c.submit(t.Context(), w)
	require.NoError(t, err)
	n.eventually(backTime, "the run has begun", func(context.Context) bool { return len(n.with("running")) == 1 })
	n.eventually(backTime, "the broker holds nothing unacked of the workers", func(context.Context) bool {
		return f.unacked() == 0
	})
	n.settled(length + backTime)
	select {
	case <-lost: // shows that the server has the timeout: it took back the delivery that was not acked
	case <-time.After(o.ConsumerTimeout + 2*time.Minute):
		require.FailNow(t, "the broker took nothing back from a consumer that acks nothing: the timeout was not in force")
	}
	h := f.history(c)
	n.verdict(h)
	require.Equal(t, messages.Attempt(1), h.Executions[0].Attempt)
}

// holdUnacked takes one message from a queue of its own and does not ack it. The returned channel is closed when the broker has
// closed the consumer.
func (f *full) holdUnacked() <-chan struct{} {
	f.t.Helper()
	queue := f.settings.Prefix + ".held"
	require.NoError(f.t, f.side.Declare(f.t.Context(), broker.Topology{Queues: []broker.Queue{{Name: queue}}}))
	confirms, err := f.side.Publish(f.t.Context(), []broker.Message{{RoutingKey: queue, ID: "held", Body: []byte("held")}})
	require.NoError(f.t, err)
	require.Equal(f.t, []broker.Confirm{broker.Confirmed}, confirms)
	consumer, err := f.side.Consume(f.t.Context(), queue, 1)
	require.NoError(f.t, err)
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		for range consumer.Deliveries() { // until the broker closes it, or the test ends
		}
	}()
	return lost
}

// unacked counts the messages of the workers' queues that are delivered and not acked.
func (f *full) unacked() (total int) {
	f.t.Helper()
	out, err := f.ownRabbit.Ctl("-q", "list_queues", "--no-table-headers", "name", "messages_unacknowledged")
	require.NoError(f.t, err)
	for line := range strings.Lines(out) {
		var name string
		var count int
		if n, _ := fmt.Sscan(line, &name, &count); n == 2 && strings.HasPrefix(name, f.settings.Prefix+".worker.") {
			total += count
		}
	}
	return total
}

// logged reports whether the node's log has the text.
func (n *node) logged(text string) bool {
	n.t.Helper()
	log, err := os.ReadFile(n.log.Name())
	require.NoError(n.t, err)
	return strings.Contains(string(log), text)
}

// A node that is killed and restarted with another TTL and another kind of queues continues its work. This includes the messages
// on the queues of its previous boot. The shared queues of the prefix keep their kind, and the node logs that.
func TestRestartWithOtherQueueSettings(t *testing.T) {
	t.Parallel()
	paths, err := built()
	require.NoError(t, err)
	f := newShared(t, "TROUPE_EXECUTOR_CLAIM_TIMEOUT=3")
	n := f.join("a", paths.troupe, "pack")
	c := f.caller()
	const key = "TROUPE_MESSAGE_QUEUE_RABBITMQ_"
	for i, boot := range []struct{ ttl, kind string }{{"300000", "quorum"}, {"60000", "classic"}, {"150000", "quorum"}} {
		n.env = append(n.env, key+"WORKER_QUEUE_TTL_MS="+boot.ttl, key+"QUEUE_TYPE="+boot.kind)
		f.start()
		f.submitAll(c, "chaos.go_work", fmt.Sprint(i), 20, 40*time.Millisecond, messages.Completed, messages.Abandoned)
		f.submitAll(c, "chaos.go_work", fmt.Sprint(i, "long"), 1, 10*time.Second, messages.Completed, messages.Abandoned)
		n.eventually(backTime, "work is under way", func(context.Context) bool { return len(n.with("running")) > 0 })
		if i < 2 {
			n.kill()
		}
	}
	n.settled(backTime)
	n.verdict(f.history(c))
	require.True(t, n.logged("a shared queue exists with other arguments than configured"), "the log does not say that queues are of another kind")
	require.True(t, n.logged(f.settings.Requests().Queues[0].Name), "the log does not name the queue")
}

// A node that is killed and restarted with the other dispatch continues its work. Messages on the queues of its boot with RabbitMQ find nothing to claim,
// and these queues go. Nothing of its workers stays on the server.
func TestRestartWithTheOtherDispatch(t *testing.T) {
	t.Parallel()
	paths, err := built()
	require.NoError(t, err)
	f := newShared(t, "TROUPE_EXECUTOR_CLAIM_TIMEOUT=3", "TROUPE_MESSAGE_QUEUE_RABBITMQ_WORKER_QUEUE_TTL_MS=15000", "TROUPE_WORKER_HEARTBEAT_INTERVAL=1")
	n := f.join("a", paths.troupe, "pack")
	n.turns = dispatches()
	c := f.caller()
	const boots = 4 // the last is direct
	for i := range boots {
		f.start()
		f.submitAll(c, "chaos.go_work", fmt.Sprint(i), 30, 40*time.Millisecond, messages.Completed, messages.Abandoned)
		f.submitAll(c, "chaos.go_work", fmt.Sprint(i, "long"), 2, 3*time.Second, messages.Completed, messages.Abandoned)
		f.submitAll(c, "chaos.work", fmt.Sprint(i), 20, 40*time.Millisecond, messages.Completed, messages.Abandoned)
		n.eventually(backTime, "work is under way", func(context.Context) bool { return len(n.with("running")) > 0 })
		if i%2 == 0 {
			require.NotEmpty(t, f.queuesLeft())
		}
		if i < boots-1 {
			n.kill()
		}
	}
	n.settled(backTime)
	n.verdict(f.history(c))
	n.eventually(backTime, "no queue of workers is left", func(context.Context) bool { return len(f.queuesLeft()) == 0 })
}

// queuesLeft are the queues of the fleet's workers on the shared RabbitMQ.
func (f *full) queuesLeft() (names []string) {
	f.t.Helper()
	rabbit, err := sharedRabbit()
	require.NoError(f.t, err)
	out, err := rabbit.Ctl("-q", "list_queues", "--no-table-headers", "name")
	require.NoError(f.t, err)
	for line := range strings.Lines(out) {
		if name := strings.TrimSpace(line); strings.HasPrefix(name, f.settings.Prefix+".worker.") {
			names = append(names, name)
		}
	}
	return names
}

// Two nodes with the same configured name work as two nodes.
func TestTwoNodesOfOneName(t *testing.T) {
	t.Parallel()
	paths, err := built()
	require.NoError(t, err)
	f := newShared(t)
	first := f.join("same", paths.troupe, "pack")
	second := f.join("same", paths.troupe, "pack")
	first.start()
	first.ready()
	second.start()
	f.well()
	c := f.caller()
	f.submitAll(c, "chaos.go_work", "0", 40, 20*time.Millisecond, messages.Completed)
	f.submitAll(c, "chaos.work", "0", 20, 20*time.Millisecond, messages.Completed)
	first.settled(backTime)
	h := f.history(c)
	first.verdict(h)
	by := map[string]bool{}
	for i := range h.Executions {
		by[h.Executions[i].Worker] = true
	}
	heads := map[string]bool{}
	for id := range by {
		head, _, _ := strings.Cut(id, "/")
		heads[head] = true
	}
	require.Len(t, heads, 2, "the workers of both nodes have done the work, under names of their own: %v", by)
	require.True(t, second.logged("another live node has this one's name"))
	require.NotEqual(t, first.workers("")[0].ID, second.workers("")[0].ID)
}
