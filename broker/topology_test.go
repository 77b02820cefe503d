package broker_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/troupe-run/troupe/broker"
	"github.com/troupe-run/troupe/messages"
)

func isKnown(err error) bool {
	return errors.Is(err, broker.ErrMalformed) || errors.Is(err, broker.ErrVersion)
}

var boot = messages.Incarnation(uuid.MustParse("0199a000-0000-7000-8000-000000000001"))

func TestSharedTopology(t *testing.T) {
	t.Parallel()
	require.Equal(t, broker.Topology{
		Exchanges: []broker.Exchange{{Name: "troupe.executions", Kind: broker.Topic}, {Name: "troupe.dlx", Kind: broker.Fanout}},
		Queues: []broker.Queue{
			{Name: "troupe.requests", Quorum: true, DeadLetterExchange: "troupe.dlx", MaxLength: 1_000_000},
			{Name: "troupe.dlx.queue", Quorum: true, TTL: 24 * time.Hour, MaxLength: 1_000_000},
		},
		Bindings: []broker.Binding{{Exchange: "troupe.dlx", Queue: "troupe.dlx.queue"}},
	}, broker.Settings{}.Shared())
	require.Equal(t, broker.Topology{
		Exchanges: []broker.Exchange{{Name: "blue.executions", Kind: broker.Topic}},
		Queues:    []broker.Queue{{Name: "blue.requests", Quorum: true, MaxLength: 1_000_000}},
	}, broker.Settings{Prefix: "blue", DeadLettersOff: true}.Shared())
	require.Equal(t, "graves.queue", broker.Settings{Prefix: "blue", DeadLetterExchange: "graves"}.DeadLetterQueue())
}

func TestWorkQueue(t *testing.T) {
	t.Parallel()
	name := broker.Settings{}.WorkerQueueName("n1/demo.models/3", boot)
	require.Equal(t, "troupe.worker.n1/demo.models/3.0199a000-0000-7000-8000-000000000001", name)
	want := broker.Queue{
		Name: name, Quorum: true, TTL: 5 * time.Minute, DeadLetterExchange: "troupe.dlx", Expires: 10 * time.Minute, MaxLength: 10_000,
		Expendable: true,
	}
	require.Equal(t, broker.Topology{Queues: []broker.Queue{want}}, broker.Settings{}.WorkQueue(name))
	want.Quorum, want.TTL, want.DeadLetterExchange = false, 0, ""
	require.Equal(t, broker.Topology{Queues: []broker.Queue{want}},
		broker.Settings{Classic: true, DeadLettersOff: true}.WorkQueue(name))
}

func TestQueueNamesSplitBack(t *testing.T) {
	t.Parallel()
	for _, s := range []broker.Settings{{}, {Prefix: "a.worker.b"}} {
		owner, ok := s.ParseQueueName(s.WorkerQueueName("n.1/demo.models/3", boot))
		require.True(t, ok)
		require.Equal(t, broker.QueueOwner{Node: "n.1", Pool: "demo.models", Slot: 3, Incarnation: boot}, owner)
		owner, ok = s.ParseQueueName(s.PoolQueueName("n1", "go", boot))
		require.True(t, ok)
		require.Equal(t, broker.QueueOwner{Node: "n1", Pool: "go", Slot: -1, Incarnation: boot}, owner)
	}
	for _, name := range []string{
		"", "troupe.worker.", "troupe.dlx.queue", "troupe.worker.n1/go/0", "troupe.worker.n1." + boot.String(),
		"troupe.worker./go." + boot.String(), "troupe.worker.n1/go/-1." + boot.String(), "troupe.worker.a/b/0/c." + boot.String(),
		"other.worker.n1/go/0." + boot.String(),
	} {
		_, ok := broker.Settings{}.ParseQueueName(name)
		require.False(t, ok, name)
	}
}

func TestQueueThatWouldLoseItsMessagesIsRefused(t *testing.T) {
	t.Parallel()
	for _, s := range []broker.Settings{{}, {DeadLettersOff: true}, {Prefix: "p", Classic: true}} {
		require.NoError(t, s.Check(s.Shared()))
		require.NoError(t, s.Check(s.WorkQueue(s.PoolQueueName("n1", "go", boot))))
	}
	err := broker.Settings{}.Check(broker.Topology{Queues: []broker.Queue{
		{Name: "bad", TTL: time.Second}, {Name: "fine"}, {Name: "worse", TTL: time.Minute},
	}})
	require.ErrorIs(t, err, broker.ErrNoDeadLetter)
	require.EqualError(t, err, "queue bad is refused: TTL 1s: queue has a TTL but no dead-letter exchange: give it one or no TTL\n"+
		"queue worse is refused: TTL 1m0s: queue has a TTL but no dead-letter exchange: give it one or no TTL")
}

func TestExpirationIsTheShorterTime(t *testing.T) {
	t.Parallel()
	s := broker.Settings{WorkerTTL: time.Minute}
	require.Equal(t, time.Second, s.Expiration(time.Second))
	require.Zero(t, s.Expiration(time.Minute))
	require.Zero(t, s.Expiration(0))
	require.Zero(t, broker.Settings{DeadLettersOff: true}.Expiration(time.Second), "an expired message would be lost")
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	require.Empty(t, broker.Settings{}.Warnings())
	require.Len(t, broker.Settings{DeadLettersOff: true}.Warnings(), 1)
	require.Len(t, broker.Settings{DeadLettersOff: true, WorkerTTL: time.Second}.Warnings(), 2)
	require.Contains(t, broker.Settings{WorkerTTL: time.Second}.Warnings()[0], "worker_queue_ttl_ms")
}

func TestNoticeKeys(t *testing.T) {
	t.Parallel()
	require.Equal(t, "execution.completed.core.echo", broker.NoticeKey(messages.Completed, "core.echo"))
	require.Equal(t, "execution.timed_out.a_b_", broker.NoticeKey(messages.TimedOut, "a*b#"))
	long := broker.NoticeKey(messages.Failed, strings.Repeat("ü", 200))
	require.LessOrEqual(t, len(long), 255)
	require.True(t, utf8.ValidString(long))
}
